"""Checks a capstone: python tutorials/course/check_capstone.py capstone.py [--seed 1] [--argued 7]

The student's class runs in a process of its own on drawn weights and pairs, and sends numbers back.
They are compared with each reading of capstone.md's page: (6), (7), (9) as the text intends, or as
printed. For the lecturer: the answer is the library. The process keeps a student's code from the
score, not from your files: run strangers' files in a container.
"""
import argparse
import ast
import itertools
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tutorials")]
from bert_min import BertConfig  # noqa: E402
from differences import describe_difference, near  # noqa: E402
from exercises import Draw  # noqa: E402
from semmatch import DafaAttention, spread_prior  # noqa: E402

SECONDS = 300
ALLOWED = {"torch", "math", "numpy", "bert_min"}
B, L, n, m, d, A = 3, 9, 4, 2, 10, 7
WORDS = torch.tensor([[-1, 0, 1, 2, 3, -1, 0, 1, -1], [-1, 0, 0, 1, -1, 0, 1, -1, -1],
                      [-1, 3, -1, 0, 0, 1, -1, -1, -1]])
SEGMENTS = torch.tensor([[0] * 6 + [1] * 3, [0] * 5 + [1] * 4, [0] * 3 + [1] * 6])
MASK = torch.arange(L) < torch.tensor([9, 8, 7])[:, None]
INTENDED = "as the text intends"
READINGS = {", ".join(filter(None, forms)) or INTENDED: forms for forms in itertools.product(
    ("", "(6) as printed", "(6) as printed with 1 + M_F"), ("", "(7) as printed"),
    ("", "(9) as printed"))}
FREE = {"w_d.bias", "w_sstar.bias"}   # they add one number to all scores of a row: nothing changes
CONFIG = BertConfig(29, d, 1, 2, 11, 13, attention_dropout=0.0)


class OnePlus(DafaAttention):
    """(6) as printed, where "adding 1" is read as a sum."""

    def spread(self, prior, word_index, segment):
        return spread_prior(1 + prior, word_index, segment, 1.0)


def library_layer(reading, seed):
    """The library's layer under a reading, with drawn weights."""
    forms = READINGS[reading]
    method = OnePlus if "1 +" in forms[0] else DafaAttention
    printed = {number for number, form in zip((6, 7, 9), forms) if form}
    return Draw(seed).fill(method(CONFIG, printed, attention_size=A))


def draw_cases(seed):
    """name -> arguments of attend and spread, by name."""
    x = Draw(seed + 1)
    made = {"hidden": x.normal(B, L, d), "prior": x.positive(B, n, m), "mask": MASK,
            "words": WORDS, "segments": SEGMENTS}
    made |= {name: x.normal(B, 2, L, d // 2) for name in "qkv"}
    made = {name: value.detach() for name, value in made.items()}
    padded = {name: torch.where(MASK[:, None, :, None] if name in "qkv" else MASK[..., None],
                                made[name], made[name].flip(0) + 1) for name in ("hidden", *"qkv")}
    return {"values": made, "padding": made | padded,
            "first pair": {name: value[:1] for name, value in made.items()},
            "no words": made | {"prior": made["prior"][:, :0], "words": torch.full((B, L), -1)}}


def run(layer, case):
    prior = layer.spread(case["prior"], case["words"], case["segments"])
    return layer.attend(case["hidden"], case["q"], case["k"], case["v"], case["mask"], prior, None)


def attempt(layer, cases):
    """{case: what a layer returns, or the words of its exception}; and which weights get no
    gradient."""
    found = {}
    for name, case in cases.items():
        try:
            x = found[name] = run(layer, case)
            if getattr(x, "dtype", x) != torch.float64 or x.shape != case["hidden"].shape:
                raise TypeError("attend returned no float64 tensor (B, L, d)")
        except Exception as problem:
            found[name] = f"{type(problem).__name__}: {problem}"[:300]
    if getattr(found["values"], "requires_grad", False):
        found["values"].square().sum().backward()
    found["without gradient"] = [
        name for name, p in layer.named_parameters()
        if name.partition(".")[0] not in ("query", "key", "value") and name not in FREE
        and (p.grad is None or not p.grad.any())]
    return {name: x.detach() if isinstance(x, torch.Tensor) else x for name, x in found.items()}


def answers_of(method, weights, cases):
    """reading -> what `attempt` finds, or why its weights do not fit the student's class."""
    found = {}
    for reading, state in weights.items():
        layer = method(CONFIG, attention_size=A).double().eval()
        own = {name: value for name, value in layer.state_dict().items() if name in FREE}
        state = {name: value for name, value in state.items() if name not in FREE} | own
        try:
            layer.load_state_dict(state)
        except RuntimeError as problem:
            found[reading] = " ".join(str(problem).split())[:600]
        else:
            found[reading] = attempt(layer, cases)
    return found


def answer(file, folder):
    """In the student's process."""
    given, names = torch.load(folder / "given.pt", weights_only=True), {}
    exec(compile(Path(file).read_text("utf-8-sig"), file, "exec"), names)
    torch.save(answers_of(names["Dafa"], **given), folder / "answers.pt")


def ask(file, weights, cases):
    """What `answer` found in a process of its own. Raises ValueError."""
    tree = ast.parse(Path(file).read_text("utf-8-sig"))
    imported = [x.module or "." for x in ast.walk(tree) if isinstance(x, ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
    if foreign := {name.partition(".")[0] for name in imported} - ALLOWED:
        raise ValueError(f"imports {', '.join(sorted(foreign))}; only {', '.join(sorted(ALLOWED))} "
                         "may be")
    with tempfile.TemporaryDirectory() as folder:
        torch.save({"weights": weights, "cases": cases}, Path(folder) / "given.pt")
        command = [sys.executable, __file__, str(file), "--answer", folder]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise ValueError(f"no answer after {SECONDS} seconds") from None
        if not (Path(folder) / "answers.pt").is_file():
            raise ValueError((ended.stderr.strip().splitlines() or ["it ended early"])[-1])
        return torch.load(Path(folder) / "answers.pt", weights_only=True)


def points(answers, expected, argued):
    """[(points, of, words)]. answers, expected: reading -> what `attempt` found. argued: numbers of
    equations whose printed form the student argued for."""
    ran = {name: found for name, found in answers.items() if isinstance(found, dict)}
    whole = [name for name, found in ran.items() if all(
        isinstance(found[case], torch.Tensor) and near(found[case], expected[name][case])
        for case in ("values", "first pair"))]
    if not ran:
        return [(0, 10, f"the weights' names or sizes are not the page's: {answers[INTENDED]}")]
    chosen = whole[0] if whole else next(iter(ran))
    found = ran[chosen]
    wrong = [f"{case}: {x}" for case, x in found.items() if isinstance(x, str)]
    if isinstance(found["values"], str):
        return [(0, 10, wrong[0])]
    if whole and not wrong and not near(found["no words"], expected[chosen]["no words"]):
        wrong = ["no words: other numbers"]
    real = MASK[..., None].expand(B, L, d)
    scores = [(int(not wrong), 1, wrong[0] if wrong else "it runs")]
    same = [isinstance(found[case], torch.Tensor) and near(found["values"][at], found[case][at])
            for case, at in (("padding", real), ("first pair", slice(1)))]
    scores += [(2 * same[0], 2, "what stands at padding changes nothing"),
               (int(same[1]), 1, "pairs of a batch do not see each other")]
    # As printed, some weights have none.
    none = [x for x in found["without gradient"] if x not in expected[chosen]["without gradient"]]
    scores.append((int(not none), 1, f"every weight has a gradient{', but ' * bool(none)}"
                   f"{', '.join(none)}"))
    if not whole:
        words = describe_difference({"the layer": expected[chosen]["values"]},
                                    {"the layer": found["values"]})
        return [*scores, (0, 5, f"numbers of a reading of the page. {chosen}: {words}")]
    odd = [form for form in READINGS[whole[0]] if form and int(form[1]) not in argued]
    return [*scores, (5 - len(odd), 5, f"numbers of the page, {whole[0]}")]


def main(argv=None):
    """Prints the points; the exit status is 0 when all are won."""
    parser = argparse.ArgumentParser("check_capstone.py", description=__doc__.splitlines()[0])
    parser.add_argument("file", help="capstone.py")
    parser.add_argument("--seed", type=int, default=0, help="of weights and pairs (default: 0)")
    parser.add_argument("--argued", default="", metavar="6,7", help="printed forms argued for")
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.answer:
        answer(options.file, options.answer)
        return 0
    if not all(number.strip() in ("", "6", "7", "9") for number in options.argued.split(",")):
        parser.error(f"--argued {options.argued}: expected numbers of equations, such as 6,7")
    argued = {int(number) for number in options.argued.split(",") if number.strip()}
    layers = {reading: library_layer(reading, options.seed) for reading in READINGS}
    cases = draw_cases(options.seed)
    try:
        answers = ask(options.file, {name: x.state_dict() for name, x in layers.items()}, cases)
    except (OSError, SyntaxError, ValueError) as problem:
        print(f"{options.file}: 0 of 10 points: {problem}")
        return 1
    scores = points(answers, {name: attempt(x, cases) for name, x in layers.items()}, argued)
    for won, most, words in scores:
        print(f"{won}/{most}  {words}")
    total = sum(won for won, _, _ in scores)
    print(f"{options.file}: {total} of 10 points")
    return int(total < 10)


if __name__ == "__main__":
    sys.exit(main())
