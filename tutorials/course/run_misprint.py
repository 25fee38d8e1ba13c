"""Runs a proof of a misprint where no student's code can do harm (../sandbox.py).

    EQUATIONS[name]     the page and its repairs, and decoys: what has the page's defect, or nothing
                        at all of what the sentence asks. A claim is False of them and of the page.
"""
import torch


def difference(q, k):
    return (q[:, :, :, None] - k[:, :, None]).sum(-1)


def differences(measure):
    return lambda q, k: measure(q[:, :, :, None] - k[:, :, None])


def guided(values, guide, mask, W_values, W_guide, w_values, w_guide):
    scores = (values @ W_values.T).tanh() @ w_values
    scores = scores[:, None] + ((guide @ W_guide.T).tanh() @ w_guide)[..., None]
    return scores.masked_fill(~mask[:, None], -1e30).softmax(-1) @ values


def guided_by(join):
    def repaired(values, guide, mask, W_values, W_guide, w_values, w_guide):
        keys, queries = (values @ W_values.T)[:, None], (guide @ W_guide.T)[:, :, None]
        scores = join(keys, queries) @ w_values
        return scores.masked_fill(~mask[:, None], -1e30).softmax(-1) @ values
    return repaired


def filtration(a, v, W_v, W_l, w_f):
    return (torch.cat([a, v @ W_v.T], -1) @ w_f).sigmoid()[..., None] * (v @ W_l.T).tanh()


def filtered(a, v, W_v, W_l, w_f):
    """The page's result beside as much of a as the gate leaves out."""
    f = (torch.cat([a, v @ W_v.T], -1) @ w_f).sigmoid()[..., None]
    return (1 - f) * a + filtration(a, v, W_v, W_l, w_f)


def calibrated(q, k, v, M):
    return (q @ k.mT / q.shape[-1] ** 0.5 * M[:, None]).softmax(-1) @ v


def added(measure):
    return lambda q, k, v, M: (q @ k.mT / q.shape[-1] ** 0.5 + measure(M)[:, None]).softmax(-1) @ v


def noise(like, seed):
    """Numbers that no argument has a say in, the same for all rows."""
    drawn = torch.rand(like.shape[-1], generator=torch.Generator().manual_seed(seed))
    return drawn.to(like).expand_as(like)


CALIBRATED = (calibrated, [added(torch.log), added(torch.log1p), added(lambda M: M)],
              [lambda q, k, v, M: calibrated(2 * q, k, v, M), added(torch.zeros_like),
               lambda q, k, v, M: calibrated(q, k, v, M) + q.sum(-1, keepdim=True)])
EQUATIONS = {
    "DABERT 4": (difference,
                 [differences(lambda x: x.abs().sum(-1)), differences(lambda x: x.norm(dim=-1)),
                  differences(lambda x: x.square().sum(-1)),
                  differences(lambda x: x.abs().amax(-1))],
                 [lambda q, k: difference(q, k) + q.square().sum(-1)[..., None],
                  lambda q, k: -difference(q, k)]),
    "DABERT 5": (guided, [guided_by(lambda k, q: (k + q).tanh()),
                          guided_by(lambda k, q: (k * q).tanh()), guided_by(torch.mul)],
                 [lambda v, g, m, *w: guided(v, g, m, *w[:3], w[3].square()),
                  lambda v, g, m, *w: guided(v, g, m, *w[:2], 0 * w[2], w[3])]),
    "DABERT 7": (filtration, [lambda a, v, *w: a + filtration(a, v, *w), filtered],
                 [lambda a, v, *w: v + filtration(a, v, *w)]),
    "DAFA 6": CALIBRATED, "Knowledge 5": CALIBRATED}


def answer(equation, seed, *arguments):
    """What `printed` and `repaired` return, the latter three times more: again, for the first pair
    alone, and for tokens from last to first; and what `claim` says of which functions."""
    import misprint
    page, repairs, decoys = EQUATIONS[equation]
    turned = [turn(x, arguments[0].shape[-2]) for x in arguments]
    first = [x[:1] if x.shape[0] == len(arguments[0]) and x.dim() > 2 or x.dtype == torch.bool
             else x for x in arguments]
    found = {"printed": misprint.printed(*arguments), "repaired": misprint.repaired(*arguments),
             "again": misprint.repaired(*arguments), "first": misprint.repaired(*first),
             "turned": misprint.repaired(*turned)}
    asked = {"your printed form": misprint.printed, "the page, computed by us": page,
             "your repair": misprint.repaired, "twice the page": lambda *x: 2 * page(*x),
             "zeros": lambda *x: 0 * page(*x), "noise": lambda *x: noise(page(*x), seed)}
    asked |= {f"repair {i + 1} of ours": repair for i, repair in enumerate(repairs)}
    asked |= {f"decoy {i + 1} of ours": decoy for i, decoy in enumerate(decoys)}
    for name, chosen in asked.items():
        def function(*given, chosen=chosen):    # all of them look alike
            return chosen(*given)

        found[name] = bool(misprint.claim(function, *(x.clone() for x in arguments)))
    return found


def turn(x, length):
    """A tensor with its tokens from last to first; a weight stays."""
    return x.flip([axis for axis, size in enumerate(x.shape) if axis and size == length])
