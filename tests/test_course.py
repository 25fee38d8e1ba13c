"""tutorials/course/: what each wrong hand-in loses, and that the answers win."""
import random
import re

import grade
import open_tasks
import pytest
from draws import ROOT
from processes import Refused
from test_grade import answered_here

CAPSTONE, MISPRINT = ((ROOT / f"tutorials/course/solutions/{name}.py").read_text("utf-8")
                      for name in ("capstone", "misprint"))


def after(text, *edits):
    """A text after edits: old, new, old, new."""
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def here(monkeypatch):
    """Hand-ins run in this process, which is quicker."""
    monkeypatch.setattr(open_tasks, "answers_of", answered_here)


# ---- The capstone -------------------------------------------------------------------------------

PRODUCT = ("prior.log1p()", "prior", "+ prior[:, None]", "* prior[:, None]",
           "return block + block.transpose(1, 2)",
           "both = in_a[:, :, None] & in_b[:, None]\n        both = both | both.transpose(1, 2)\n"
           "        return torch.where(both, block + block.transpose(1, 2), 1.0)",
           "return prior.new_zeros(B, L, L)", "return prior.new_ones(B, L, L)")
END = "return s + f * self.W_l(fused).tanh()"
PLUS = ("linear(A, 1, False)", "linear(2 * A, 1)",
        "(W_values(values)[:, None] + W_guide(guide)[:, :, None]).tanh()",
        "torch.cat(torch.broadcast_tensors(W_values(values)[:, None], W_guide(guide)[:, :, None]), "
        "-1).tanh()")


CHEAT = """
class Dafa(__import__("semmatch").DafaAttention):
    def __init__(self, config, *given, attention_size=128):
        super().__init__(config, attention_size=attention_size)
"""


@pytest.mark.parametrize("edits, lost, said", [
    ((), (0, 0, 0, 0, 0), ""), (("linear(A, 1, False)", "linear(A, 1)"), (0, 0, 0, 0, 0), ""),
    (("return s + f * self", "return f * self"), (0, 0, 0, 0, 1), "As printed: (9)"),
    (PLUS, (0, 0, 0, 0, 1), "As printed: (7)"), (PRODUCT, (0, 0, 0, 0, 1), "As printed: (6)"),
    ((*PRODUCT, "prior[rows", "(1 + prior)[rows"), (0, 0, 0, 0, 1), "(6) with 1 + M_F"),
    ((*PRODUCT, *PLUS), (0, 0, 0, 0, 2), "As printed: (6), (7)"),
    (("attention_weights(scores, mask) @ values", "scores.softmax(-1) @ values"),
     (0, 2, 0, 0, 5), "numbers are wrong"),
    (("f * self", "(f - f.mean(0)) * self"), (0, 2, 1, 0, 5), "numbers are wrong"),
    (("self.W_v(fused)", "fused"), (0, 0, 0, 1, 5), "W_v.weight, W_v.bias"),
    (("if n == 0 or m == 0:", "if False:"), (1, 0, 0, 0, 0), "no words: capstone.py, line"),
    ((END, f"return ({END[7:]}).detach()"), (0, 0, 0, 1, 0), "not W_D.weight"),
    ((END, f"self.named_parameters = tuple\n        {END}"), (0, 0, 0, 1, 0), "not W_D.weight"),
    ((END, f"{END}, f"), (10,), "TypeError"),
    ((END, f"return ({END[7:]})[:, 1:]"), (10,), "TypeError"),
    (("self.W_g", "self.gate"), (10,), "W_g.weight")])
def test_what_a_capstone_earns(edits, lost, said, here):
    rows = open_tasks.grade_capstone(after(CAPSTONE, *edits).encode(), 3)
    assert tuple(of - won for _, won, of, _ in rows) == lost, rows
    assert [of for _, _, of, _ in rows] in ([1, 2, 1, 1, 5], [10])
    assert said in str(rows)


@pytest.mark.parametrize("text, said", [
    (CHEAT, "No module named 'semmatch'"),
    (f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom semmatch import DafaAttention as Dafa",
     "semmatch"), ("print('10 of 10 points')\nraise SystemExit(0)", "SystemExit")])
def test_a_cheat_earns_nothing(text, said):
    [(_, won, of, [words])] = open_tasks.grade_capstone(text.encode(), 3)
    assert (won, of) == (0, 10) and said in words


def test_the_command_grades_open_tasks(tmp_path, capsys):
    """By the page's first line; where no file can be read that is one line."""
    for name, text, points in (("capstone", CAPSTONE, 10), ("misprint", "EQUATION = 1 / 0", None)):
        (tmp_path / f"{name}.py").write_text(text, "utf-8")
        (tmp_path / "EXERCISE.md").write_text(f"# Exercise {name}: mine\n", "utf-8")
        assert grade.main([str(tmp_path), "--trust", "--seed", "3"]) == int(points is None)
        out = capsys.readouterr().out
        expected = f"{points} of 10 points" if points else "not graded: "
        assert expected in out


# ---- The misprint -------------------------------------------------------------------------------

GUIDED = '''
import torch
EQUATION = "DABERT 5"
def weigh(scores, mask, values):
    return scores.masked_fill(~mask[:, None], -1e30).softmax(-1) @ values
def printed(values, guide, mask, W_values, W_guide, w_values, w_guide):
    keys, queries = values @ W_values.T, guide @ W_guide.T
    both = torch.cat(torch.broadcast_tensors(keys[:, None], queries[:, :, None]), -1).tanh()
    return weigh(both @ torch.cat([w_values, w_guide]), mask, values)
def repaired(values, guide, mask, W_values, W_guide, w_values, w_guide):
    keys, queries = values @ W_values.T, guide @ W_guide.T
    return weigh((keys[:, None] + queries[:, :, None]).tanh() @ w_values, mask, values)
def claim(function, values, guide, *rest):
    return not torch.allclose(function(values, guide, *rest), function(values, guide + 1, *rest))
'''
FILTER = '''
import torch
EQUATION = "DABERT 7"
def printed(a, v, W_v, W_l, w_f):
    f = (torch.cat([a, v @ W_v.T], -1) * w_f).sum(-1, keepdim=True).sigmoid()
    return f * (v @ W_l.T).tanh()
def repaired(a, v, W_v, W_l, w_f):
    return a + printed(a, v, W_v, W_l, w_f)
def claim(function, a, v, W_v, W_l, w_f):
    """A shut gate leaves the token."""
    w_f = torch.cat([-1e3 * torch.ones(a.shape[-1]), 0 * w_f[a.shape[-1]:]]).to(a)
    return torch.allclose(function(a.abs() + 1, v, W_v, W_l, w_f), a.abs() + 1)
'''
CALIBRATED = '''
EQUATION = "DAFA 6"
def printed(q, k, v, M):
    return ((q @ k.mT) * M[:, None] / q.shape[-1] ** 0.5).softmax(-1) @ v
def repaired(q, k, v, M):
    return ((q @ k.mT) / q.shape[-1] ** 0.5 + M.log()[:, None]).softmax(-1) @ v
def claim(function, q, k, v, M):
    """A larger entry raises its own weight: v is 1 for that key and 0 for the others."""
    v = 0 * v
    v[:, :, 0] = 1
    more = M.clone()
    more[:, :, 0] *= 2
    return bool((function(q, k, v, more) - function(q, k, v, M)).min() > 0)
'''


ABS, PAGE = ("(q[:, :, :, None] - k[:, :, None])" + x for x in (".abs().sum(-1)", ".sum(-1)"))
LINES = MISPRINT[MISPRINT.index("    scores = function"):]
UNLIKE = "    return not torch.allclose(function(q, k), printed(q, k))"
SEEDED = "(torch.manual_seed(0), torch.rand({}).double())[1]".format("*q.shape[:3], q.shape[2]")
TRUE_OF = "claim is True of {}, expected False".format


@pytest.mark.parametrize("text, edits, said", [
    (MISPRINT, (), []), (GUIDED, (), []), (FILTER, (), []), (CALIBRATED, (), []),
    (CALIBRATED, ("DAFA 6", "Knowledge 5"), []),
    (MISPRINT, (PAGE, "(q - k).sum(-1)[..., None] + 0 * q"), ["printed is not the page"]),
    (MISPRINT, ("> 1e-6", "> -1"),
     [TRUE_OF("the page"), TRUE_OF("zeros")]),
    (MISPRINT, (LINES, UNLIKE), [TRUE_OF(x) for x in ("twice the page", "decoy 1 of ours", "zeros",
                                                      "noise")]),
    (MISPRINT, (LINES, UNLIKE, ABS, SEEDED.replace("manual_seed(0)", "is_grad_enabled()")),
     ["repaired: tokens in another order", TRUE_OF("noise")]),
    (MISPRINT, (ABS, f"3 * {PAGE}"), ["repaired does not do what the sentence says"]),
    (MISPRINT, (ABS, SEEDED),
     ["repaired: tokens in another order"]),
    (MISPRINT, (LINES, "    return torch.allclose(function(q, k), repaired(q, k))"),
     ["claim is False of repair 2 of ours, expected True"]),
    (CALIBRATED, (".min() > 0", ".min() >= 0"), [TRUE_OF("zeros")]),
    (GUIDED, (".tanh() @ w_values", " @ w_values"),
     ["claim is False of your repair, expected True"]),
    (MISPRINT, ("def claim", "def test"), ["has no attribute 'claim'"])])
def test_what_a_proof_must_have(text, edits, said, here):
    text = "import torch\n" + after(text, *edits)
    [(_, won, of, found)] = open_tasks.grade_misprint(text.encode(), 1)
    assert (won, of) == (0 if said else 10, 10)
    assert all(any(x in y for y in found) for x in said), found


COUNTED = """    seen = globals().setdefault("seen", [])
    seen.append(0)
    return len(seen) % 11 in (1, 6, 7, 8, 9)"""


@pytest.mark.parametrize("claim", [
    "    import sys\n    return 'repair' in sys._getframe(1).f_locals.get('name', '')", COUNTED,
    "    import trial\n    return trial.ask(99, q, k)",
    "    return function(q.repeat(1, 1, 99, 1), k).any()"])
def test_a_claim_cannot_tell_what_it_is_tried_on(claim, here, monkeypatch):
    """It earns nothing by a function's name or place, though it guesses the places of the first
    case, and cannot ask for more than it got."""
    drawn, real = [], random.SystemRandom().sample

    def sample(self, names, count):
        drawn.append(names)
        return names if len(drawn) == 1 else real(names, count)

    monkeypatch.setattr(random.SystemRandom, "sample", sample)
    [(_, won, of, found)] = open_tasks.grade_misprint(after(MISPRINT, LINES, claim).encode(), 1)
    assert (won, of) == (0, 10) and re.search("claim is |arguments of the shapes", str(found))


@pytest.mark.parametrize("text", [MISPRINT.replace("DABERT 4", "DABERT 6"), "EQUATION = 1 / 0",
                                  "EQUATION = ", "x = 1"])
def test_a_proof_of_no_equation_is_not_tried(text):
    with pytest.raises(Refused):
        open_tasks.grade_misprint(text.encode(), 1)
