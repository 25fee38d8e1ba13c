"""Grades what has more than one right answer: a capstone, and a misprint with its proof.

    GRADED[name](text, seed, wrap)      rows of (what, points won, of, words) for a hand-in's text

A student's code runs as a hand-in's does (processes.py), beside bert_min alone: the rest of the
library is not there to be imported. Left out: the written parts, which a reader judges.
"""
import ast
import itertools
import random
from pathlib import Path

import torch

import answers
from bert_min import BertConfig
from differences import describe_difference, near
from draws import ROOT, Draw
from exercises import PRINTED
from misprints import EQUATIONS
from processes import Refused, answers_of
from semmatch import DafaAttention, spread_prior

HERE = Path(__file__).resolve().parent
POINTS = 10
B, H, L, n, m, d, A = 3, 2, 9, 4, 2, 10, 7
CONFIG = BertConfig(29, d, 1, H, 11, 13, attention_dropout=0.0)
WORDS = torch.tensor([[-1, 0, 1, 2, 3, -1, 0, 1, -1], [-1, 0, 0, 1, -1, 0, 1, -1, -1],
                      [-1, 3, -1, 0, 0, 1, -1, -1, -1]])
SEGMENTS = torch.tensor([[0] * 6 + [1] * 3, [0] * 5 + [1] * 4, [0] * 3 + [1] * 6])
MASK = torch.arange(L) < torch.tensor([9, 8, 7])[:, None]
READINGS = [[*filter(None, forms)] for forms in itertools.product(
    ("", "(6)", "(6) with 1 + M_F"), ("", "(7)"), ("", "(9)"))]


def run(name, text, cases, wrap, asked=None):
    """case -> what course/run_NAME.py returns in a process of its own, or what prevented it.

    cases: (function, names of its arguments, case -> arguments). asked: as in answers_of."""
    runner, (function, names, drawn), numbers = f"run_{name}", cases, bytearray()
    task = {"function": f"{runner}.{function}", "names": names, "file": f"{name}.py", "cases": {
        case: {"arguments": [answers.stored(argument, numbers) for argument in arguments]}
        for case, arguments in drawn.items()}}
    files = {file: (ROOT / file).read_bytes() for file in ("bert_min.py", "support/checkpoints.py")}
    files |= {file.name: file.read_bytes() for file in (
        HERE / "sandbox.py", HERE / "trial.py", HERE / f"course/{runner}.py")}
    files[f"{name}.py"] = text
    got = answers_of(files, ({"tasks": [task]}, numbers), [task["function"]], wrap, asked)
    got = got[task["function"]]
    return dict.fromkeys(drawn, got) if isinstance(got, str) else got


# ---- The capstone -------------------------------------------------------------------------------

class OnePlus(DafaAttention):
    """(6) as printed, where "adding 1" is read as a sum."""

    def spread(self, prior, word_index, segment):
        return spread_prior(1 + prior, word_index, segment, 1.0)


def library_layer(reading, seed):
    """The library's layer under a reading, with drawn weights."""
    method = OnePlus if "(6) with 1 + M_F" in reading else DafaAttention
    return Draw(seed).fill(method(CONFIG, {int(form[1]) for form in reading}, attention_size=A))


def draw_cases(seed):
    """case -> hidden, q, k, v, mask, prior, words, segments."""
    x = Draw(seed + 1)
    hidden, *heads = (x.normal(B, L, d).detach(), *(x.normal(B, H, L, d // H) for _ in "qkv"))
    heads, prior = [head.detach() for head in heads], x.positive(B, n, m).detach()
    padded = [torch.where(MASK[:, None, :, None], head, head.flip(0) + 1) for head in heads]
    other = torch.where(MASK[..., None], hidden, hidden.flip(0) + 1)
    values = [hidden, *heads, MASK, prior, WORDS, SEGMENTS]
    return {"values": values, "padding": [other, *padded, *values[4:]],
            "first pair": [argument[:1] for argument in values],
            "no words": [*values[:5], prior[:, :0], torch.full((B, L), -1), SEGMENTS]}


def expected_of(layer, cases):
    """case -> what a layer of ours returns; "gradients": name -> that of each weight it needs."""
    found = {case: layer.attend(*x[:5], layer.spread(*x[5:]), None) for case, x in cases.items()}
    found["values"].square().sum().backward()
    found["gradients"] = {name: p.grad for name, p in layer.named_parameters()
                          if p.grad is not None and not near(p.grad, 0 * p.grad)}
    return found


def ask(layers, cases, text, wrap):
    """(case -> what a student's layer answers or what prevented it; "(7)" where its weights are
    those of Eq. (7) as printed, else "")."""
    asked = {f"{name}: {case}": [dict(layers[name].state_dict()), A, *arguments]
             for name in ("", "(7)") for case, arguments in cases.items()}
    names = "weights width hidden q k v mask prior words segments".split()
    told = run("capstone", text, ("layer", names, asked), wrap)
    for name in ("", "(7)"):
        found = {case: told[f"{name}: {case}"] for case in cases}
        if not all(isinstance(x, str) for x in found.values()):
            return found, name
    return {case: told[f": {case}"] for case in cases}, ""


def grade_capstone(text, seed, wrap=()):
    """Ten points, one fewer for each equation as printed."""
    layers = {", ".join(reading): library_layer(reading, seed) for reading in READINGS}
    cases = draw_cases(seed)
    told, weights = ask(layers, cases, text, wrap)
    wrong = [f"{case}: {x}" for case, x in told.items() if isinstance(x, str)]
    if isinstance(told["values"], str):
        return [("the layer", 0, POINTS, wrong[:1])]
    got = {case: x.parts["the result[0]"] for case, x in told.items() if not isinstance(x, str)}
    expected = {name: expected_of(layer, cases) for name, layer in layers.items()
                if ("(7)" in name) == bool(weights)}
    whole = [name for name, right in expected.items() if all(
        case in got and near(got[case], right[case]) for case in ("values", "first pair"))]
    chosen = whole[0] if whole else weights
    right = expected[chosen]
    if whole and not wrong and not near(got["no words"], right["no words"]):
        wrong = ["no words: other numbers"]
    values, real = got["values"], MASK[..., None].expand(B, L, d)
    padding = "padding" in got and near(values[real], got["padding"][real])
    pairs = "first pair" in got and near(values[:1], got["first pair"])
    grads = {name: told["values"].parts.get(f"the result[1][{name!r}]", torch.zeros(()))
             for name in right["gradients"]}
    idle = [name for name, wanted in right["gradients"].items()
            if not (near(grads[name], wanted) if whole else grads[name].any())]
    rows = [("it runs", int(not wrong), 1, wrong[:1]),
            ("what stands at padding changes nothing", 2 * padding, 2, []),
            ("pairs of a batch do not see each other", int(pairs), 1, []),
            ("every weight has a gradient", int(not idle), 1, idle and [f"not {', '.join(idle)}"])]
    if whole:
        printed = [f"{PRINTED}: {chosen}"] if chosen else []
        return [*rows, ("numbers of the page", 5 - chosen.count("("), 5, printed)]
    said = describe_difference({"the layer": right["values"].detach()}, {"the layer": values})
    return [*rows, ("numbers of the page", 0, 5, [said])]


# ---- The misprint -------------------------------------------------------------------------------

def draw_arguments(equation, seed):
    """The arguments of an equation of course/misprint.md."""
    B, H, L, K, A = 2, 2, 5, 3, 7
    D = H * K
    head, signal = (B, H, L, K), (B, L, D)
    shapes = {"DABERT 4": [head] * 2, "DABERT 7": [signal, signal, (D, D), (D, D), (2 * D,)],
              "DABERT 5": [signal, signal, (A, D), (A, D), (A,), (A,)]}.get(equation, [head] * 3)
    x = Draw(seed)
    drawn = [x.normal(*shape).detach() for shape in shapes]
    if equation == "DABERT 5":
        drawn.insert(2, torch.ones(B, L, dtype=torch.bool))
    return drawn if equation.startswith("DABERT") else [*drawn, x.positive(B, L, L).detach()]


def turn(x, length):
    """A tensor with its tokens from last to first; a weight stays."""
    return x.flip([axis for axis, size in enumerate(x.shape) if axis and size == length])


def problems(misprint, parts, arguments, names):
    """What is wrong with a proof, in words. parts: what run_misprint.answer returned, by name.
    names: of the functions that a claim was tried on, in the order in which it met them."""
    right, repaired, length = misprint.page(*arguments), parts["repaired"], arguments[0].shape[-2]
    if not (isinstance(repaired, torch.Tensor) and repaired.shape == right.shape):
        yield "repaired returns another shape than the page"
        return
    for words, mine, wanted in (
            ("printed is not the page", parts["printed"], right),
            ("repaired is not finite", repaired.isfinite().double(), torch.ones_like(right)),
            ("repaired: tokens in another order do not give the same numbers in that order",
             parts["turned"], turn(repaired, length))):
        if not (isinstance(mine, torch.Tensor) and near(mine, wanted)):
            yield words
    tries = misprint.tries(*arguments)
    if not misprint.holds([parts[f"tries[{i}]"] for i in range(len(tries))], tries):
        yield "repaired does not do what the sentence says"
    claims = {"your repair": parts["your repair"]}
    claims |= {name: parts[f"claims[{i}]"] for i, name in enumerate(names)}
    for name, said in claims.items():
        if said is not ("repair" in name):
            yield f"claim is {said} of {name}, expected {'repair' in name}"


def equation_of(text):
    """The equation that a hand-in names. Raises Refused."""
    try:
        named = [node.value for node in ast.parse(text).body if isinstance(node, ast.Assign)
                 and getattr(node.targets[0], "id", "") == "EQUATION"]
        equation = ast.literal_eval(named[-1]) if named else None
    except (SyntaxError, ValueError) as problem:
        raise Refused(f"misprint.py: {problem}") from None
    if equation not in EQUATIONS:
        raise Refused(f"EQUATION is {equation!r}, expected one of {', '.join(EQUATIONS)}")
    return equation


def grade_misprint(text, seed, wrap=()):
    """Ten points where the numbers hold with five draws, else none; a reader has the argument."""
    equation = equation_of(text)
    misprint, cases, found = EQUATIONS[equation], {}, {}
    functions = misprint.functions(seed)
    drawn = {f"draw {i + 1}": draw_arguments(equation, 100 * seed + i) for i in range(5)}
    orders = {case: random.SystemRandom().sample([*functions], len(functions)) for case in drawn}
    numbered = [*itertools.chain(*orders.values())]  # one order for all could be guessed
    shapes = [x.shape for x in drawn["draw 1"]]
    for i, (case, given) in enumerate(drawn.items()):
        turned = [turn(x, given[0].shape[-2]) for x in given]
        count = len(functions)
        cases[case] = [i * count, count, given, turned, misprint.tries(*given)]

    def asked(number, *given):
        try:
            if [x.shape for x in given] != shapes:
                raise ValueError("needs arguments of the shapes that the claim got")
            return [functions[numbered[number]](*given)]
        except Exception as problem:
            return [f"{type(problem).__name__}: {problem}"]

    names = ["first", "count", "arguments", "turned", "tries"]
    for case, got in run("misprint", text, ("answer", names, cases), wrap, asked).items():
        if isinstance(got, str):
            found[got] = None
        else:
            parts = {name.removeprefix("the result['").replace("']", ""): value
                     for name, value in got.parts.items()}
            found |= dict.fromkeys(problems(misprint, parts, drawn[case], orders[case]))
    return [(f"the numbers of {equation}", 0 if found else POINTS, POINTS, [*found])]


GRADED = {"capstone": grade_capstone, "misprint": grade_misprint}
