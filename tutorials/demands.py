"""Forms of two equations, for the lessons' demands: FORMS[demand][what it is] = form, right?

A demand is a function of the reader's: it takes a form of an equation, and says whether the form
does what the paper's sentence asks. It should be True of the forms that are marked so, alone.
"""
import torch

generator = torch.Generator().manual_seed(0)
W_VALUES, W_GUIDE = 0.7 * torch.randn(2, 4, 8, generator=generator)
OF_VALUE, OF_GUIDE = 2.0 * torch.randn(2, 8, generator=generator)


def noise(*shape):
    """Positive random numbers, others at each call; each row has the sum 1."""
    return torch.rand(shape).softmax(-1)


# ---- DABERT Eq. (5): values, guide (L, 4) -> what each guide finds (L, 4) -----------------------

def guided(values, guide):
    met = (values @ W_VALUES)[None, :] + (guide @ W_GUIDE)[:, None]  # (L, L, 8)
    return (met.tanh() @ OF_VALUE).softmax(-1) @ values


def guided_by_products(values, guide):
    return ((guide @ W_GUIDE) @ (values @ W_VALUES).T).softmax(-1) @ values


def guided_as_printed(values, guide):
    of_values, of_guides = (values @ W_VALUES).tanh() @ OF_VALUE, (guide @ W_GUIDE).tanh() @ OF_GUIDE
    return (of_values[None, :] + of_guides[:, None]).softmax(-1) @ values


# ---- DAFA Eq. (6): scores, a matrix (L, L) -> weights (L, L) --------------------------------------

FORMS = {
    "demand_guide": {
        "the repair by a sum inside tanh": (guided, True),
        "the equation as printed": (guided_as_printed, False),
        "plain attention of the values, without a guide":
            (lambda values, guide: (values @ values.T).softmax(-1) @ values, False),
        "the guide itself, whatever the values": (lambda values, guide: guide.clone(), False),
        "noise": (lambda values, guide: noise(len(guide), len(values)) @ values, False),
        "the repair by products of guide and value": (guided_by_products, True)},
    "demand_trees": {
        "the repair that multiplies weights": (lambda s, M: (s + M.log()).softmax(-1), True),
        "the equation as printed": (lambda s, M: (s * M).softmax(-1), False),
        "plain attention": (lambda s, M: s.softmax(-1), False),
        "noise": (lambda s, M: noise(*s.shape), False),
        "the opposite": (lambda s, M: (s - M.log()).softmax(-1), False),
        "the repair that adds the matrix": (lambda s, M: (s + M).softmax(-1), True)}}
