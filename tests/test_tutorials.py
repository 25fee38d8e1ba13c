"""tutorials/: what `check` says of right functions, of mistakes and of nonsense; points; notebooks.

`.ci/run` runs the lessons themselves, solved.
"""
import ast
import csv
import importlib.util
import itertools
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_house import equation_rows

import semmatch

FOLDER = Path(__file__).resolve().parent.parent / "tutorials"
LESSONS = {int(path.name[0]): path.read_text("utf-8") for path in sorted(FOLDER.glob("[1-6]_*.py"))}
PAPERS = {2: "DABERT", 3: "DAFA", 4: "Knowledge", 5: "DRr-Net", 6: "LadRa-Net"}
sys.path.append(str(FOLDER))
import build  # noqa: E402
import equations  # noqa: E402
import grade  # noqa: E402
import lesson  # noqa: E402
from guesses import GUESSES  # noqa: E402
from tasks import CLAIMS, TASKS, Draw  # noqa: E402

each_lesson = pytest.mark.parametrize("number", LESSONS)
# Mistakes of the library's function that a lesson's part of it cannot make: it is asked without
# coverage, without RoBERTa, or not for the scores.
OUT_OF_REACH = {("embed", "positions counted from 0, with RoBERTa too"), ("choose", "no coverage"),
                ("choose", "coverage times the score"), ("choose", "spent words that are chosen"),
                ("choose_left", "β m̄ for m̄")}
LISTED = [(name, wrong) for name, task in TASKS.items() for wrong in task.mistakes()
          if (name, wrong) not in OUT_OF_REACH]


def named(function, name):
    """A function under the name by which `check` knows it."""
    def renamed(*arguments):
        return function(*arguments)
    renamed.__name__ = name
    return renamed


def said_of(name, function):
    return lesson.judge(TASKS[name], named(function, name))


# ---- check --------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", TASKS)
def test_the_equations_to_read_are_the_librarys(name):
    """Values and gradients, in each case that `check` draws."""
    assert lesson.judge(TASKS[name], getattr(equations, name)) == ""


@pytest.mark.parametrize("name, wrong", LISTED, ids=[f"{name}: {wrong}" for name, wrong in LISTED])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")                   # a mistake may divide by 0
def test_a_listed_mistake_is_named(name, wrong):
    said = said_of(name, TASKS[name].mistakes()[wrong])
    assert said.endswith(f": {wrong}.") or "has the shape" in said


def test_mistakes_that_nobody_listed():
    """Each is wrong, and the message has what helps."""
    def shape(q, k):
        return equations.difference_scores(q, k).sum(1)

    def crash(q, k):
        return q.shape[-1] @ k

    def cut(q, k):
        return equations.difference_scores(q, k).detach()

    def changes(q, k):
        q.data += 1
        return equations.difference_scores(q, k)

    def half(q, k):
        return equations.difference_scores(q, k).half()

    def some_factor(q, k):
        return 3.7 * equations.difference_scores(q, k)

    def rounds(q, k):
        return equations.difference_scores(q, k).relu() + 1e-3

    def two(q, k):
        return equations.difference_scores(q, k), k

    def truth(k):
        return equations.relation_indicator(k).long()

    def padding(x, mask, W, w):
        whole = mask.sum(1) == mask.sum(1).max()
        return equations.attentive_pooling(x, mask & whole[:, None], W, w)

    def first_only(hidden, scores):
        ln_K, c = equations.co_attention(hidden, scores)
        return ln_K, c * torch.tensor([1.0, 0.5, 1.0]).view(-1, 1, 1).to(c)

    def turned(a, b):
        return equations.tree_similarity(b, a)

    for function, name, words in (
            (shape, "difference_scores", "(B, H, L, L)"),
            (crash, "difference_scores", "q.shape[-1] @ k"),
            (cut, "difference_scores", "gradient"), (changes, "difference_scores", "in place"),
            (half, "difference_scores", "float16"), (some_factor, "difference_scores", "times 3.7"),
            (rounds, "difference_scores", "needed"), (two, "difference_scores", "2 results"),
            (truth, "relation_indicator", "bool"),
            (padding, "attentive_pooling", "wrong: 1."),
            (first_only, "co_attention", "wrong: 1."), (turned, "tree_similarity", "(n, m)"),
            (lambda q, k: None, "difference_scores", "not written yet")):
        assert words in said_of(name, function)


def test_the_pair_by_hand_is_told_first_and_its_words_are_named():
    nothing = named(lambda a, b: 0 * equations.tree_similarity(a, b), "tree_similarity")
    pair = Draw("one relation").parses()
    said = lesson.judge(TASKS["tree_similarity"], nothing, pair)
    assert said.startswith("the pair by hand: ") and re.search(r"\('\w' x '\w'\) yours", said)
    assert "the pair by hand" not in lesson.judge(TASKS["tree_similarity"], nothing)


def test_what_is_right_but_for_a_row_without_a_key_is_no_multiple():
    def uniform(scores, mask):
        return scores.masked_fill(~mask[:, None, None], -1e30).softmax(-1)

    def attention(q, k, v, mask):
        return uniform(equations.difference_scores(q, k) / q.shape[-1] ** 0.5, mask) @ v

    assert "times" not in said_of("difference_attention", attention)


def test_unusual_right_answers():
    def merge(x):
        return torch.cat(list(x.unbind(1)), -1)

    def weights(scores, mask):
        mask = mask.reshape(len(mask), *[1] * (scores.dim() - 2), -1)
        top = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).nan_to_num(0, 0, 0)
        powers = torch.where(mask, (scores - top).clamp(max=0.0).exp(), 0.0)
        total = powers.sum(-1, keepdim=True)
        return powers / torch.where(total == 0, 1.0, total)

    def attention(q, k, v, mask):
        scores = torch.einsum("bhik,bhjk->bhij", q, k) * q.shape[-1] ** -0.5
        return torch.einsum("bhij,bhjk->bhik", equations.attention_weights(scores, mask), v)

    def distance(q, k):
        return torch.cdist(q, k, 1) if q.shape[-2] == 1 else torch.stack([
            (q - k[:, :, j:j + 1]).abs().sum(-1) for j in range(k.shape[2])], -1)

    def fusion(sem, other, W_sem, W_other, W_g):
        d, s = torch.tanh(W_other(other)), torch.tanh(W_sem(sem))
        g = torch.sigmoid(W_g(torch.concat((d, s), dim=2)))
        return torch.lerp(d, s, g), g

    def trees(a, b):
        M = torch.zeros(len(a.heads), len(b.heads), dtype=torch.int64)
        for i, j in itertools.product(range(len(a.heads)), range(len(b.heads))):
            M[i, j] += int(a.symbols[a.heads[i]] == b.symbols[b.heads[j]])
            M[i, j] += int(a.symbols[i + 1] == b.symbols[j + 1])
            M[i, j] *= 2 if a.types[i + 1] == b.types[j + 1] else 1
        return M

    def indicator(relations):
        return relations.sum(-1) > 0

    def ratio(step, full_step, full_ratio):
        x = torch.tensor(8 * (2 * step / full_step - 1), dtype=torch.float64)
        return full_ratio * x.sigmoid()

    def layers(hidden_states, alpha):
        return torch.einsum("e,ebld->bld", alpha, torch.stack(hidden_states))

    def phrases(hidden, mask, first, second):
        size, zeros = first.kernel_size[0] - 1, torch.zeros_like(hidden[:, :2])
        left, right = zeros[:, :size // 2], zeros[:, :size - size // 2]
        x = torch.cat([left, hidden * mask[..., None], right], 1)
        x = torch.relu(first(x.mT)).mT * mask[..., None]
        edges = [torch.zeros_like(x[:, :1]).repeat(1, part.shape[1], 1) for part in (right, left)]
        return second(torch.cat([edges[0], x, edges[1]], 1).mT).mT * mask[..., None]

    for name, function in {
            "merge_heads": merge, "attention_weights": weights, "attention": attention,
            "difference_scores": distance, "gated_fusion": fusion, "tree_similarity": trees,
            "relation_indicator": indicator, "l2_ratio": ratio, "layer_mix": layers,
            "phrase_cnn": phrases}.items():
        assert said_of(name, function) == "", name


def test_equations_that_are_parts_of_a_librarys_function():
    """mean_one and mix_readers have no function of the library: they are inside these."""
    torch.manual_seed(0)
    hidden, related = torch.randn(2, 6, 8), torch.zeros(2, 3, 3)
    words = torch.arange(6).expand(2, -1)
    G = semmatch.spread_prior(related, words % 3, words // 3, -math.inf)
    layer, trace = type("Layer", (), {"printed": frozenset()}), {}
    q = torch.randn(2, 1, 6, 8)
    mask = torch.ones(2, 6, dtype=torch.bool)
    semmatch.KnowledgeAttention.second(layer, hidden, q, q, q, mask, G, 0.0, trace)
    ln_K, _ = equations.co_attention(hidden, equations.knowledge_scores(hidden, G))
    torch.testing.assert_close(equations.mean_one(ln_K).exp(), trace["prior"])


# ---- Claims and guesses -------------------------------------------------------------------------

@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_tells_the_repaired_from_the_printed(name):
    """Right is the one of equations.py, wrong what always says the same, and what fails."""
    claim = CLAIMS[name]
    assert len(claim.right) >= 2 and {"zeros", "ones", "noise"} <= claim.wrong.keys()
    assert any(re.match("the page|Google", wrong) for wrong in claim.wrong)
    assert lesson.judge_claim(claim, getattr(equations, name)) == ""
    assert "of ours" in lesson.judge_claim(claim, lambda function: False)
    assert lesson.judge_claim(claim, lambda function: True).startswith("it says True of")
    assert "not written" in lesson.judge_claim(claim, lambda function: None)
    assert "of ours: ZeroDivisionError" in lesson.judge_claim(claim, lambda function: 1 / 0)


def test_a_guess_keeps_what_follows_closed(capsys, monkeypatch):
    for name, (right, reasons) in GUESSES.items():
        assert right in reasons and len(set(reasons.values())) == len(reasons) > 1
        with pytest.raises(SystemExit, match="guess"):
            lesson.reveal(name, ...)
        with pytest.raises(SystemExit, match="no choice"):
            lesson.reveal(name, "nonsense")
        assert capsys.readouterr().out == ""            # nothing has been said
        wrong = next(choice for choice in reasons if choice != right)
        lesson.reveal(name, wrong)
        said = " ".join(capsys.readouterr().out.split())
        assert reasons[wrong] in said and reasons[right] in said
    monkeypatch.setattr(lesson, "MODE", "solved")
    lesson.reveal(name, ...)


# ---- Lessons ------------------------------------------------------------------------------------

@each_lesson
def test_a_lesson_asks_for_its_functions_and_shows_none(number):
    """Each stands blank and is checked; no solution is on the page; guesses come first."""
    text = LESSONS[number]
    names = {name for name, task in (TASKS | CLAIMS).items() if task.lesson == number}
    blank = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    for name in names:
        assert re.search(rf"{name} = check\({name}[,)]", text)
        assert ast.unparse(blank[name].body[-1]) == "..." and ast.get_docstring(blank[name])
        body = ast.parse(lesson.source_of(getattr(equations, name))).body[0].body[-1]
        assert ast.unparse(body) not in text
    told = re.findall(r'reveal\("(.*?)", guess\)', text)
    assert 2 <= len(told) == text.count("\nguess = ...\n") and set(told) <= GUESSES.keys()


@pytest.mark.parametrize("number", PAPERS)
def test_a_lesson_has_every_equation_of_its_paper(number):
    listed = {equation for paper, equations, *_ in equation_rows() if paper == PAPERS[number]
              for equation in equations}
    assert sorted(map(int, re.findall(r"\\tag\{(\d+)\}", LESSONS[number]))) == sorted(listed)


@each_lesson
def test_the_built_notebook_is_this_lesson(number):
    path = build.LESSONS[number - 1].with_suffix(".ipynb")
    built = build.notebook_of(LESSONS[number])
    assert path.read_text("utf-8") == built, "python tutorials/build.py makes it anew"


def test_the_solved_notebook_is_this_lesson():
    """But for what its cells have printed."""
    book = json.loads(build.SOLVED.read_text("utf-8"))
    printed = [cell.pop("outputs") for cell in book["cells"] if cell["cell_type"] == "code"]
    text = build.solved(LESSONS[3])
    assert not re.search(r"^ *(guess = )?\.\.\.$", text, re.M) and sum(map(bool, printed)) > 5
    for (markdown, source), cell in zip(build.cells_of(text), book["cells"], strict=True):
        assert "".join(cell["source"]) == source, "python tutorials/build.py makes it anew"
        assert markdown == (cell["cell_type"] == "markdown")


def test_right_functions_go_into_a_file_of_ones_own(tmp_path, monkeypatch, capsys):
    """And their layer is computed with them."""
    monkeypatch.setattr(lesson, "OWN", tmp_path / "my_semmatch.py")
    source = tmp_path / "written.py"
    source.write_text("def merge_heads(x):\n    return x.transpose(1, 2).flatten(2)  # mine\n\n\n"
                      "def split_heads(x, heads):\n    return x\n", "utf-8")
    spec = importlib.util.spec_from_file_location("written", source)
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    monkeypatch.setattr(sys, "argv", ["lesson"])
    lesson.begin(1)
    assert lesson.check(written.merge_heads) is written.merge_heads
    assert lesson.check(written.merge_heads) is written.merge_heads     # again: in the same place
    with pytest.raises(SystemExit, match="split_heads.*shape"):
        lesson.check(written.split_heads)
    lesson.keep("MyBert", equations.MyBert)
    text = lesson.OWN.read_text("utf-8")
    assert text.count("# mine") == 1 and "def split_heads" not in text and "class MyBert" in text
    assert lesson.mine("merge_heads").__module__ == "my_semmatch"
    assert lesson.mine("attention") is not None


def test_real_pairs_are_asked_for_on_the_command_line(monkeypatch, capsys):
    """And what the library has on them is found in docs/results.md."""
    for arguments, number, found in (
            ([], 3, {}), (["--bert", "x"], 5, {}),
            (["--bert", "x", "--limit", "9"], 3, {"bert": "x", "data_dir": "data", "limit": 9})):
        monkeypatch.setattr(sys, "argv", ["lesson", *arguments])
        lesson.begin(number)
        assert lesson.real_pairs == found
    for model in ("bert", "MyBert", "MyDabert", "MyDafa", "MyKnowledge"):
        mean, deviation = map(float, re.findall(r"[\d.]+", lesson.reference(model)))
        assert 70 < mean < 90 and 0 < deviation < 3
    lesson.real_pairs.clear()


# ---- Hand-ins -----------------------------------------------------------------------------------

def test_points_of_hand_ins(tmp_path):
    """A blank one has none, one mistake costs its own points alone, a right one has all of them;
    hand-ins of one name are told apart."""
    right = build.solved("from equations import *\n" + LESSONS[2])
    squares = right.replace(".abs().sum(-1)", ".square().sum(-1)")
    texts = {"anna/mine.py": LESSONS[2], "ben/mine.ipynb": build.notebook_of("# %%\n" + squares),
             "cleo/mine.py": right}
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    folders = [str(tmp_path / name.partition("/")[0]) for name in texts]
    command = [*folders, "--csv", str(tmp_path / "points.csv"), "--pages", str(tmp_path / "pages"),
               "--seed", "5"]
    assert grade.main(command) == 0
    rows = list(csv.DictReader((tmp_path / "points.csv").read_text("utf-8").splitlines()))
    most = sum(task.points for task in (TASKS | CLAIMS).values() if task.lesson == 2)
    lost = TASKS["difference_scores"].points
    assert [int(row["points"]) for row in rows] == [0, most - lost, most]
    assert len({row["hand-in"] for row in rows}) == len(list((tmp_path / "pages").iterdir())) == 3
    pages = [path.read_text("utf-8") for path in sorted((tmp_path / "pages").iterdir())]
    assert "with: squares." in pages[1] and str(tmp_path / "ben") in pages[1]


def test_a_hand_in_that_hangs_is_ended(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(LESSONS[2].replace("begin(2)", "begin(2)\nwhile True: pass"), "utf-8")
    found = grade.grade(path, limit=5)
    assert found.error == "ended after 5 seconds" and sum(found.won.values()) == 0
    assert all("ended after" in said for said in found.said.values())


def test_a_folder_without_a_lesson_is_one_line(tmp_path, capsys):
    (tmp_path / "notes.py").write_text("print(1)\n", "utf-8")
    assert grade.main([str(tmp_path)]) == 2
    assert "expected a lesson" in capsys.readouterr().err
    (tmp_path / "notes.py").write_text("begin(2)\n")
    assert grade.main([str(tmp_path), "--csv", str(tmp_path / "none/points.csv")]) == 2
    (tmp_path / "._notes.py").write_bytes(b"\0\xff")  # of a Mac's zip
    capsys.readouterr()
    assert grade.main([str(tmp_path)]) == 2 and "._notes.py" in capsys.readouterr().err


def test_a_script_stops_at_the_first_function_that_is_not_written():
    done = subprocess.run([sys.executable, build.LESSONS[0]], capture_output=True, text=True)
    assert done.returncode == 1 and "split_heads: not written yet" in done.stderr
    assert "Traceback" not in done.stderr
