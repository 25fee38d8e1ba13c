"""Checks a proof of a misprint: python tutorials/course/check_misprint.py misprint.py [--seed 1]

Five draws of arguments: `printed` must return what the page does, `claim` must be False of the page
and True of the repair, of the student's and of ours. Whether the sentence demands what `claim` asks
is for a reader to judge. A student's file runs with your rights: read it first.
"""
import argparse
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tutorials")]
from exercises import Draw  # noqa: E402

B, H, L, K, A = 2, 2, 5, 3, 7
D = H * K


# ---- Pages and repairs, in plain lines ----------------------------------------------------------

def difference(q, k, repair):
    parts = q[:, :, :, None] - k[:, :, None]
    return (parts.abs() if repair else parts).sum(-1)


def guided(values, guide, mask, W_values, W_guide, w_values, w_guide, repair):
    keys, queries = values @ W_values.T, guide @ W_guide.T
    if repair:
        scores = (keys[:, None] + queries[:, :, None]).tanh() @ w_values
    else:
        scores = (keys.tanh() @ w_values)[:, None] + (queries.tanh() @ w_guide)[..., None]
    return scores.masked_fill(~mask[:, None], -1e30).softmax(-1) @ values


def filtration(a, v, W_v, W_l, w_f, repair):
    f = (torch.cat([a, v @ W_v.T], -1) @ w_f).sigmoid()[..., None]
    l = f * (v @ W_l.T).tanh()
    return a + l if repair else l


def calibrated(q, k, v, M, repair):
    scores, M = q @ k.transpose(2, 3) / K ** 0.5, M[:, None]
    return (scores + M.log() if repair else scores * M).softmax(-1) @ v


def heads(x):
    return [x.normal(B, H, L, K).detach() for _ in range(3)]


def guided_arguments(x):
    shapes = (B, L, D), (B, L, D), (A, D), (A, D), (A,), (A,)
    values, guide, *weights = (x.normal(*shape).detach() for shape in shapes)
    return [values, guide, torch.ones(B, L, dtype=torch.bool), *weights]


def filtration_arguments(x):
    shapes = (B, L, D), (B, L, D), (D, D), (D, D), (2 * D,)
    return [x.normal(*shape).detach() for shape in shapes]


def calibrated_arguments(x):
    return [*heads(x), x.positive(B, L, L).detach()]


EQUATIONS = {"DABERT 4": (difference, lambda x: heads(x)[:2]),
             "DABERT 5": (guided, guided_arguments), "DABERT 7": (filtration, filtration_arguments),
             "DAFA 6": (calibrated, calibrated_arguments),
             "Knowledge 5": (calibrated, calibrated_arguments)}


# ---- The checker --------------------------------------------------------------------------------

def problems(names, seed):
    """What is wrong with a student's file, its names given, as a list of words."""
    if names.get("EQUATION") not in EQUATIONS:
        return [f"EQUATION is {names.get('EQUATION')!r}, expected one of {', '.join(EQUATIONS)}"]
    if missing := [name for name in ("printed", "repaired", "claim") if name not in names]:
        return [f"no function {' and '.join(missing)}"]
    ours, draw = EQUATIONS[names["EQUATION"]]
    found = {}
    for turn in range(5):
        arguments = draw(Draw(100 * seed + turn))

        def page(*given):
            return ours(*given, repair=False)

        def repair(*given):
            return ours(*given, repair=True)

        expected, got = page(*arguments), names["printed"](*arguments)
        if got.shape != expected.shape or not torch.allclose(got, expected, 1e-6, 1e-6):
            found["printed is not the page"] = None
        for words, function, wanted in (
                ("your printed form", names["printed"], False),
                ("your repair", names["repaired"], True),
                ("the page, computed by us", page, False), ("our repair", repair, True)):
            answer = bool(names["claim"](function, *(x.clone() for x in arguments)))
            if answer != wanted:
                found[f"claim is {answer} of {words}, expected {wanted}"] = None
    return [*found]


def main(argv=None):
    """Prints what is wrong; the exit status is 0 where nothing is."""
    parser = argparse.ArgumentParser("check_misprint.py", description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="misprint.py")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments (default: 0)")
    options = parser.parse_args(argv)
    names = {}
    try:
        exec(compile(options.file.read_text("utf-8-sig"), options.file, "exec"), names)
        found = problems(names, options.seed)
    except (Exception, SystemExit) as problem:
        found = [f"{type(problem).__name__}: {problem}"]
    for words in found or [f"{names['EQUATION']}: the numbers hold. Now read the argument."]:
        print(f"{options.file}: {words}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
