"""The misprints of course/misprint.md, which no student's process has: pages, repairs, decoys.

    EQUATIONS[name]     a Misprint
"""
from collections.abc import Callable
from typing import NamedTuple

import torch


class Misprint(NamedTuple):
    """page: as typeset. repairs: do what the sentence says. decoys: have the page's defect, or
    nothing of what the sentence asks. tries: arguments -> others, each for a call of a student's
    repair; holds: what the calls return, and the tries -> does it do what the sentence says?"""
    page: Callable
    repairs: list
    decoys: list
    tries: Callable
    holds: Callable

    def functions(self, seed):
        """name -> what a claim is tried on. It must be True of repairs alone."""
        def noise(*arguments):
            """Numbers that no argument has a say in, the same for all rows."""
            like, generator = self.page(*arguments), torch.Generator().manual_seed(seed)
            return torch.rand(like.shape[-1], generator=generator).to(like).expand_as(like)

        found = {"the page": self.page, "twice the page": lambda *x: 2 * self.page(*x),
                 "zeros": lambda *x: 0 * self.page(*x), "noise": noise}
        for kind, functions in (("repair", self.repairs), ("decoy", self.decoys)):
            found |= {f"{kind} {i} of ours": f for i, f in enumerate(functions, 1)}
        return found


def differences(measure):
    return lambda q, k: measure(q[:, :, :, None] - k[:, :, None])


difference = differences(lambda x: x.sum(-1))


def rows_differ(results, tries):
    """Queries that are the keys get rows that differ by more than a number, which softmax hides."""
    scores = results[0] - results[0].mean(-1, keepdim=True)
    return (scores[:, :, 0] - scores[:, :, 1]).abs().amax(-1).min() > 1e-6


def guided_by(scores_of):
    def attended(values, guide, mask, W_values, W_guide, w_values, w_guide):
        keys, queries = (values @ W_values.T)[:, None], (guide @ W_guide.T)[:, :, None]
        scores = scores_of(keys, queries, w_values, w_guide)
        return scores.masked_fill(~mask[:, None], -1e30).softmax(-1) @ values
    return attended


guided = guided_by(lambda k, q, w, u: k.tanh() @ w + q.tanh() @ u)


def filtration(a, v, W_v, W_l, w_f, of_a=0.0):
    """The page, and of_a times as much of a as the gate leaves out."""
    f = (torch.cat([a, v @ W_v.T], -1) @ w_f).sigmoid()[..., None]
    return of_a * (1 - f) * a + f * (v @ W_l.T).tanh()


def shut(a, v, W_v, W_l, w_f):
    """Arguments with which f is 0."""
    w_f = torch.cat([-1e3 * torch.ones(a.shape[-1]), torch.zeros(a.shape[-1])]).to(a)
    return [[a.abs() + 1, v, W_v, W_l, w_f]]


def calibrated(q, k, v, M):
    return (q @ k.mT / q.shape[-1] ** 0.5 * M[:, None]).softmax(-1) @ v


def added(measure):
    return lambda q, k, v, M: (q @ k.mT / q.shape[-1] ** 0.5 + measure(M)[:, None]).softmax(-1) @ v


def raised(q, k, v, M):
    """Values of which the first key's weight is returned; and its entries twice as large."""
    v, more = torch.zeros_like(v), M.clone()
    v[:, :, 0] = 1
    more[:, :, 0] *= 2
    return [[q, k, v, M], [q, k, v, more]]


CALIBRATED = Misprint(
    calibrated, [added(torch.log), added(torch.log1p), added(lambda M: M)],
    [lambda q, k, v, M: calibrated(2 * q, k, v, M), added(torch.zeros_like),
     lambda q, k, v, M: calibrated(q, k, v, M) + q.sum(-1, keepdim=True)],
    raised, lambda results, tries: (results[1] - results[0]).min() > 0)
EQUATIONS = {
    "DABERT 4": Misprint(
        difference,
        [differences(lambda x: x.abs().sum(-1)), differences(lambda x: x.norm(dim=-1)),
         differences(lambda x: x.square().sum(-1)), differences(lambda x: x.abs().amax(-1))],
        [lambda q, k: difference(q, k) + q.square().sum(-1)[..., None],
         lambda q, k: -difference(q, k)],
        lambda q, k: [[k, k]], rows_differ),
    "DABERT 5": Misprint(
        guided, [guided_by(lambda k, q, w, u: (k + q).tanh() @ w),
                 guided_by(lambda k, q, w, u: (k * q).tanh() @ w),
                 guided_by(lambda k, q, w, u: (k * q) @ w)],
        [lambda v, g, m, *w: guided(v, g, m, *w[:3], w[3].square()),
         lambda v, g, m, *w: guided(v, g, m, *w[:2], 0 * w[2], w[3])],
        lambda v, g, *rest: [[v, g, *rest], [v, g + 1, *rest]],
        lambda results, tries: not torch.allclose(*results)),
    "DABERT 7": Misprint(
        filtration, [lambda a, *x: a + filtration(a, *x), lambda *x: filtration(*x, of_a=1.0)],
        [lambda a, v, *w: v + filtration(a, v, *w)], shut,
        lambda results, tries: torch.allclose(results[0], tries[0][0])),
    "DAFA 6": CALIBRATED, "Knowledge 5": CALIBRATED}
