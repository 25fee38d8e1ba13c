"""tutorials/course/: what each wrong hand-in loses, and that the answers win."""
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
COURSE = ROOT / "tutorials/course"
sys.path[:0] = [str(ROOT / "tutorials"), str(COURSE)]

import check_capstone  # noqa: E402
import check_misprint  # noqa: E402

CAPSTONE = (COURSE / "solutions/capstone.py").read_text("utf-8")
MISPRINT = (COURSE / "solutions/misprint.py").read_text("utf-8")


def after(text, *edits):
    """A text after edits: old, new, old, new."""
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new)
    return text


# ---- The capstone -------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def library():
    """The library's layers, the cases, and what the layers return."""
    layers = {reading: check_capstone.library_layer(reading, 3)
              for reading in check_capstone.READINGS}
    cases = check_capstone.draw_cases(3)
    return ({reading: layer.state_dict() for reading, layer in layers.items()}, cases,
            {reading: check_capstone.attempt(layer, cases) for reading, layer in layers.items()})


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


@pytest.mark.parametrize("edits, argued, lost, said", [
    ((), (), (0, 0, 0, 0, 0), "as the text intends"),
    (("linear(A, 1, False)", "linear(A, 1)"), (), (0, 0, 0, 0, 0), "as the text intends"),   # b_d
    (("return s + f * self", "return f * self"), (), (0, 0, 0, 0, 1), "(9) as printed"),
    (PLUS, (), (0, 0, 0, 0, 1), "(7) as printed"), (PLUS, (7,), (0, 0, 0, 0, 0), "(7) as printed"),
    (PRODUCT, (), (0, 0, 0, 0, 1), "(6) as printed"),
    ((*PRODUCT, "prior[rows", "(1 + prior)[rows"), (6,), (0,) * 5, "(6) as printed with 1 + M_F"),
    ((*PRODUCT, *PLUS), (6,), (0, 0, 0, 0, 1), "(6) as printed, (7) as printed"),
    (("attention_weights(scores, mask) @ values", "scores.softmax(-1) @ values"), (),
     (0, 2, 0, 0, 5), "numbers are wrong"),
    (("f * self", "(f - f.mean(0)) * self"), (), (0, 2, 1, 0, 5), "numbers are wrong"),
    (("self.W_v(fused)", "fused"), (), (0, 0, 0, 1, 5), "W_v.weight, W_v.bias"),
    ((".transpose(1, 2)", ".transpose(1, 2) * 2"), (), (0, 0, 0, 0, 5), "numbers are wrong"),
    (("if n == 0 or m == 0:", "if False:"), (), (1, 0, 0, 0, 0), "no words: IndexError"),
    ((END, f"return ({END[7:]}).detach()"), (), (0, 0, 0, 1, 0), "gradient, but W_D.weight")])
def test_what_a_capstone_earns(edits, argued, lost, said, library):
    names = {}
    exec(after(CAPSTONE, *edits), names)
    weights, cases, expected = library
    answers = check_capstone.answers_of(names["Dafa"], weights, cases)
    scores = check_capstone.points(answers, expected, set(argued))
    assert tuple(of - won for won, of, _ in scores) == lost, scores
    assert [of for _, of, _ in scores] == [1, 2, 1, 1, 5]
    assert said in " ".join(words for _, _, words in scores)


@pytest.mark.parametrize("end", [END[7:], f"{END}, f", f"return ({END[7:]}).float()",
                                 f"return ({END[7:]})[:, 1:]"])
def test_a_capstone_that_returns_something_else(end, library):
    names = {}
    exec(after(CAPSTONE, END, end), names)
    weights, cases, expected = library
    answers = check_capstone.answers_of(names["Dafa"], weights, cases)
    (score,) = check_capstone.points(answers, expected, set())
    assert score[:2] == (0, 10) and "Error" in score[2]


def test_a_capstone_with_other_weights_earns_nothing(library):
    names = {}
    exec(after(CAPSTONE, "self.W_g", "self.gate"), names)
    weights, cases, expected = library
    answers = check_capstone.answers_of(names["Dafa"], weights, cases)
    [(won, of, words)] = check_capstone.points(answers, expected, set())
    assert (won, of) == (0, 10) and "W_g.weight" in words


def test_the_capstone_command(tmp_path, capsys):
    """The answer wins; what may not be imported and a score of the student's own do not."""
    assert check_capstone.main([str(COURSE / "solutions/capstone.py"), "--seed", "2"]) == 0
    assert capsys.readouterr().out.endswith("10 of 10 points\n")
    file = tmp_path / "capstone.py"
    file.write_text("from semmatch import DafaAttention as Dafa\n", "utf-8")
    assert check_capstone.main([str(file)]) == 1
    assert "0 of 10 points: imports semmatch" in capsys.readouterr().out
    file.write_text("import torch\nprint('10 of 10 points')\nraise SystemExit(0)\n", "utf-8")
    assert check_capstone.main([str(file)]) == 1
    assert "0 of 10 points: it ended early" in capsys.readouterr().out


def test_the_capstone_is_about_sixty_lines():
    assert len(CAPSTONE.splitlines()) < 66


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
    """A larger entry never lowers its own weight: v is 1 for that key and 0 for the others."""
    v = 0 * v
    v[:, :, 0] = 1
    more = M.clone()
    more[:, :, 0] *= 2
    return bool((function(q, k, v, more) - function(q, k, v, M)).min() >= 0)
'''


@pytest.mark.parametrize("text, edits, said", [
    (MISPRINT, (), []), (GUIDED, (), []), (FILTER, (), []), (CALIBRATED, (), []),
    (CALIBRATED, ("DAFA 6", "Knowledge 5"), []),
    (MISPRINT, ("(q[:, :, :, None] - k[:, :, None]).sum(-1)", "(q - k).sum(-1)[..., None] + 0 * q"),
     ["printed is not the page"]),
    (MISPRINT, ("> 1e-6", "> -1"), ["claim is True of your printed form, expected False",
                                    "claim is True of the page, computed by us, expected False"]),
    (MISPRINT, ("function(q, k)", "(function(q, k) if function is repaired else 0 * q)"),
     ["claim is False of our repair, expected True"]),
    (MISPRINT, ("None]).abs()", "None])"), ["claim is False of your repair, expected True"]),
    (MISPRINT, ('"DABERT 4"', '"DABERT 6"'), ["EQUATION is 'DABERT 6', expected one of"]),
    (MISPRINT, ("def claim", "def test"), ["no function claim"])])
def test_what_a_proof_must_have(text, edits, said):
    names = {}
    exec(after(text, *edits), names)
    found = check_misprint.problems(names, 1)
    assert len(found) == len(said) and all(x.startswith(y) for x, y in zip(found, said)), found


def test_the_misprint_command(tmp_path, capsys):
    assert check_misprint.main([str(COURSE / "solutions/misprint.py")]) == 0
    assert "DABERT 4: the numbers hold" in capsys.readouterr().out
    (tmp_path / "misprint.py").write_text("1 / 0\n", "utf-8")
    assert check_misprint.main([str(tmp_path / "misprint.py")]) == 1
    assert "ZeroDivisionError" in capsys.readouterr().out
    (tmp_path / "misprint.py").write_text("raise SystemExit\n", "utf-8-sig")  # as Windows writes
    assert check_misprint.main([str(tmp_path / "misprint.py")]) == 1
    assert "SystemExit" in capsys.readouterr().out


def test_no_answer_is_where_students_are_sent():
    """capstone.md and misprint.md do not hold their answers."""
    for name in ("capstone.md", "misprint.md"):
        text = (COURSE / name).read_text("utf-8")
        assert "solutions" not in text and "log1p" not in text
