"""tutorials/grade.py: attacks earn nothing, a bad folder stops nobody, a right hand-in gets all.

One batch holds them all, as in a course; each test looks at one folder of it, or at one function.
"""
import ast
import csv
import json
import os
import re
import sys
import textwrap
from types import ModuleType

import grade
import make_exercise
import processes
import pytest
import sandbox
import trial
from draws import ROOT
from exercises import EXERCISES, twisted
from test_exercises import filled

TASKS = {task.path[-1]: task for task in EXERCISES["drrnet"].tasks}
TOTAL = 52
RIGHT = {name: "\n".join(ast.unparse(node) for node in ast.parse(task.solution).body[0].body)
         for name, task in TASKS.items()}

# Each tries to earn the points of one function.
ATTACKS = {
    "highway": """                          # the library, where it lies
        import importlib.util
        spec = importlib.util.spec_from_file_location("right", {root!r} + "/reread.py")
        right = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(right)
        return right.highway(x, W_t, W_h)
        """,
    "stacked_gru": """                      # by C++, which Python's guard does not see
        try:
            torch.from_file({points!r}, shared=True, size=4, dtype=torch.uint8).zero_()
        except RuntimeError:
            torch.from_file({root!r} + "/reread.py", size=1000, dtype=torch.uint8)
        raise KeyError("opened")
        """,
    "attentive_pooling": """                # the answers that lie in a student's folder
        import trial
        described, numbers = trial.load_cases(trial.HERE / "cases.npz")
        entry = described["tasks"][2]["cases"]["values"]["answer"]
        return tuple(trial.get_answer(entry, numbers).parts.values())
        """,
    "choose": """                           # somebody else's work, and the grader's
        refused = []
        for path in ({neighbour!r} + "/EXERCISE.md", {neighbour!r} + "/reread.py", "trial.py"):
            try:
                open(path, "w").close()
            except PermissionError as problem:
                refused.append(problem)
        if len(refused) == 3:
            raise refused[0]
        """,
    "matching": """                         # more processes than the machine can take
        import os
        while True:
            os.fork()
        """,
    "probability_fusion": """               # a message of its own, nonce and all
        import json, struct, sys
        frame = sys._getframe()
        while "nonce" not in frame.f_locals:
            frame = frame.f_back
        said = dict.fromkeys(["values", "only p_h", "only p_v", "gradients"], True)
        said = json.dumps(said).encode()
        pipe = frame.f_locals["pipe"]
        pipe.write(frame.f_locals["nonce"] + struct.pack(">QQ", len(said), 0) + said)
        pipe.flush()
        return True, True
        """}
PATCHES = """
    import atexit, sys, torch, check, trial
    yes = lambda *args, **kwargs: torch.ones(1, dtype=torch.bool)
    torch.isclose = torch.equal = torch.allclose = torch.Tensor.any = yes
    torch.Tensor.__eq__ = torch.Tensor.__bool__ = lambda *args: True
    check.judge = check.compare = check.describe_difference = lambda *args, **kwargs: ""
    trial.kind = trial.put_tensor = trial.weigh = lambda *args: {}
    sys.modules["__main__"].main = sys.modules["grade"] = None
    atexit.register(print, "hand-in: drrnet, 52 of 52 points")
    """
BY_HAND = "return torch.tensor([[1, 2, 3, 5, 3, 10, 2, 3]], dtype=torch.float64)"
LAST_WORDS = """
    import atexit, os
    print("{folder}: drrnet, 52 of 52 points", flush=True)
    atexit.register(print, "{folder}: drrnet, 52 of 52 points")
    os._exit(0)
    """
THREAD = """
        import threading

        def forever():
            while True:
                pass
        threading.Thread(target=forever).start()
        forever()
        """
MEMORY = """
        import numpy
        return numpy.empty(10 << 30, numpy.uint8)
        """


def hand_in(folder, bodies, last=""):
    """A folder with what a student wrote: functions' bodies, and the end of the module."""
    text = filled(make_exercise.student_version("reread", "drrnet"),
                  {TASKS[name].function: body for name, body in bodies.items()})
    folder.mkdir()
    (folder / "reread.py").write_text(text + textwrap.dedent(last), "utf-8")
    (folder / "EXERCISE.md").write_text("# Exercise drrnet: a title\n", "utf-8")


@pytest.fixture(scope="module")
def batch(tmp_path_factory):
    """name -> Report of each folder of one batch; "place" -> where they lie."""
    place = tmp_path_factory.mktemp("hand-ins")
    points = tmp_path_factory.mktemp("lecturer") / "points.csv"
    points.write_text("zoe,52\n", "utf-8")
    values = {"root": str(ROOT), "neighbour": str(place / "zoe"), "points": str(points)}
    hand_in(place / "attacks", {name: body.format(**values) for name, body in ATTACKS.items()})
    hand_in(place / "patches", {"highway": "return torch.ones(1)"}, PATCHES)
    hand_in(place / "last words", RIGHT, LAST_WORDS.format(folder=place / "last words"))
    hand_in(place / "stops", {"highway": THREAD, "choose": MEMORY, "matching": BY_HAND,
                              "probability_fusion": RIGHT["probability_fusion"]})
    hand_in(place / "wrong", RIGHT | {"choose": RIGHT["choose"].replace(".tanh()", "")})
    (place / "no page").mkdir()
    for name in ("link", "pipe", "large"):
        (place / name).mkdir()
        (place / name / "EXERCISE.md").write_text("# Exercise drrnet: a title\n", "utf-8")
    (place / "link" / "reread.py").symlink_to(ROOT / "reread.py")
    os.mkfifo(place / "pipe" / "reread.py")
    (place / "large" / "reread.py").write_bytes(b"#" * (grade.MOST + 1))
    hand_in(place / "zoe", RIGHT)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(processes, "SECONDS", 3)
        changed.setattr(processes, "STOPS", 2)
        reports = grade.grade_all(sorted(place.iterdir()), None, 7, 2)
        found = {"place": place, "points": points}
        return found | {report.folder.name: report for report in reports}


def rows(report):
    return {row.function.rpartition(".")[2]: row for row in report.rows}


@pytest.mark.parametrize("name, won", {"zoe": TOTAL, "patches": 0, "last words": 0}.items())
def test_points_of_a_hand_in(name, won, batch):
    """The right one beside all others; patches of torch and of the check; a printed score."""
    assert (batch[name].won, batch[name].total) == (won, TOTAL)


@pytest.mark.parametrize("folder, name, said", [
    ("attacks", "highway", "does not let you open"),
    ("attacks", "attentive_pooling", "KeyError: 'answer'"),
    ("attacks", "choose", "does not let you open"),
    ("attacks", "matching", "does not let you use os.fork"),
    ("attacks", "probability_fusion", "no answer"),
    ("last words", "highway", "ended the process"),
    ("stops", "highway", "no answer after 3 seconds"),
    ("stops", "choose", "Unable to allocate 10.0 GiB"), ("stops", "matching", "")])
def test_what_earns_nothing(folder, name, said, batch):
    """Attacks, what does not end, and the example of the page alone."""
    row = rows(batch[folder])[name]
    assert row.won == 0 < row.total and said in row.lines[0], row.lines


def test_what_does_not_end_stops_nobody(batch):
    row = rows(batch["stops"])["probability_fusion"]
    assert row.won == row.total


@pytest.mark.skipif(not sandbox.landlock_version(), reason="this system has no Landlock")
def test_what_cpp_opens_is_refused(batch):
    assert batch["points"].read_text("utf-8") == "zoe,52\n"
    row = rows(batch["attacks"])["stacked_gru"]
    assert row.won == 0 and "Permission denied" in row.lines[0]


def test_one_mistake_costs_one_score(batch):
    """`reread`, which calls the wrong one, gets its points; the mistake is named."""
    found = rows(batch["wrong"])
    lost = [name for name, row in found.items() if row.won < row.total]
    assert lost == ["choose"] and "tanh left out" in found["choose"].lines[0]


@pytest.mark.parametrize("name, said", {
    "no page": "EXERCISE.md is missing", "link": "reread.py cannot be read",
    "pipe": "reread.py is no plain file", "large": "reread.py has 1,048,577 bytes"}.items())
def test_a_bad_folder_is_reported_and_passed_over(name, said, batch):
    assert said in batch[name].problem and not batch[name].rows


def test_copies_of_the_library_are_listed(batch):
    """Also where names were changed; short functions are nobody's own."""
    assert {"stacked_gru", "choose", "reread"} <= {*batch["zoe"].copied}
    assert "matching" not in batch["zoe"].copied and "choose" not in batch["wrong"].copied
    text = (batch["place"] / "zoe/reread.py").read_text("utf-8").replace("scores", "mine")
    codes = grade.skeletons({"reread": text}, TASKS.values())
    assert "choose" in grade.copies(codes, TASKS.values())


def test_code_that_was_not_asked_for_is_listed(batch):
    """What stands beside the functions, where a solution can hide, and what a function imports."""
    assert (batch["zoe"].odd, batch["patches"].odd) == ([], ["reread.py"])
    assert {"highway", "choose"} & {*batch["attacks"].odd} == {"highway"}


def test_hand_ins_are_compared_with_each_other(tmp_path):
    """One's own function that another has too, with other names; the library's is listed once."""
    own = RIGHT["choose"].replace("beta * m", "m * beta + 0 * m")
    reports = []
    for name, body in (("a", own), ("b", own.replace("scores", "mine")), ("c", RIGHT["choose"])):
        hand_in(tmp_path / name, RIGHT | {"choose": body})
        text = (tmp_path / name / "reread.py").read_text("utf-8")
        codes = grade.skeletons({"reread": text}, TASKS.values())
        copied = grade.copies(codes, TASKS.values())
        reports.append(grade.Report(tmp_path / name, "drrnet", copied=copied, codes=codes))
    grade.compare(reports)
    assert [report.alike for report in reports] == [{"b": ["choose"]}, {"a": ["choose"]}, {}]
    assert "choose: the same as in b" in reports[0].remark()


def answered_here(files, cases, names, wrap, asked=None):
    """processes.answers_of of functions of one file in this process, which is quicker."""
    tasks = [task for task in cases[0]["tasks"] if task["function"] in names]
    file = tasks[0].get("file", "semmatch.py")
    folder = ROOT / "tutorials/course" if "file" in tasks[0] else ROOT
    module = ModuleType(file.removesuffix(".py"))
    exec(compile(files[file], folder / file, "exec"), vars(module))
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(trial, "HERE", folder)
        changed.setattr(trial, "ask", asked, raising=False)
        changed.setitem(sys.modules, module.__name__, module)
        changed.delitem(sys.modules, f"run_{module.__name__}", raising=False)
        return {task["function"]: trial.attempt(task, bytes(cases[1]), trial.in_words)
                for task in tasks}


def test_a_variant_costs_the_library_just_its_points(tmp_path, monkeypatch, capsys):
    """Not those of what calls a changed function. What the hand-out asks for gets all."""
    monkeypatch.setattr(grade.answers, "simple_edits", lambda source: [])
    monkeypatch.setattr(grade, "answers_of", answered_here)
    asked, points = twisted(EXERCISES["dabert"], 7), tmp_path / "points.csv"
    (tmp_path / "key").write_text(make_exercise.key_of(asked, 7), "utf-8")
    blank = make_exercise.student_version("semmatch", "dabert").encode()
    folders = {"asked": asked.tasks, "library": EXERCISES["dabert"].tasks}
    for name, tasks in folders.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "semmatch.py").write_bytes(grade.with_right(blank, tasks))
    assert grade.main([*(str(tmp_path / name) for name in folders), "--key",
                       str(tmp_path / "key"), "--csv", str(points), "--trust", "--jobs", "1"]) == 0
    right, library = csv.DictReader(points.read_text("utf-8").splitlines())
    lost = [name.split()[-1] for name, won in right.items() if library[name] != won]
    assert lost[1:-2] == ["guided_attention", "gated_fusion", "filtration_gate"]
    assert right["points"] == right["of"] and "library's equation" not in right["remarks"]
    assert f"{', '.join(lost[1:-2])}: the library's equation" in library["remarks"]


def test_csv_and_gradescopes_json(batch, tmp_path):
    reports = [batch[name] for name in ("zoe", "no page", "wrong")]
    grade.write_csv(tmp_path / "points.csv", reports)
    table = [*csv.DictReader((tmp_path / "points.csv").read_text("utf-8").splitlines())]
    assert [row["points"] for row in table] == [str(TOTAL), "0", str(TOTAL - 12)]
    assert [row["DRr-Net Eqs. 5, 6 choose"] for row in table] == ["12", "", "0"]
    assert "missing" in table[1]["remarks"]
    grade.write_json(tmp_path / "results.json", batch["wrong"], 7)
    results = json.loads((tmp_path / "results.json").read_text("utf-8"))
    assert results["score"] == sum(test.get("score", 0) for test in results["tests"]) == TOTAL - 12
    assert sum(test.get("max_score", 0) for test in results["tests"]) == TOTAL
    grade.write_feedback(tmp_path, reports)
    page = (tmp_path / "zoe.txt").read_text("utf-8")
    assert f"{TOTAL} of {TOTAL} points" in page and "library's" not in page


def test_the_command_line(tmp_path, capsys, monkeypatch):
    """Without Landlock a lecturer must say --trust. A batch of which no folder can be graded."""
    monkeypatch.setattr(sandbox, "landlock_version", int)
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    points, pages = tmp_path / "points.csv", tmp_path / "pages"
    with pytest.raises(SystemExit) as ended:
        grade.main(folders)
    assert ended.value.code == 2 and "--trust" in capsys.readouterr().err
    assert grade.main([*folders, "--csv", str(points), "--jobs", "1", "--trust",
                       "--feedback", str(pages)]) == 1
    assert "not graded" in (pages / "a.txt").read_text("utf-8") and (pages / "b.txt").is_file()
    said = capsys.readouterr().out
    assert re.match(r"seed \d+\n", said) and said.count("not graded: no such folder") == 2
    assert len(points.read_text("utf-8").splitlines()) == 3
