"""A model answer: DABERT Eq. (4). The page that goes with it is misprint.md, beside this file."""
EQUATION = "DABERT 4"


def printed(q, k):
    return (q[:, :, :, None] - k[:, :, None]).sum(-1)


def repaired(q, k):
    return (q[:, :, :, None] - k[:, :, None]).abs().sum(-1)


def claim(function, q, k):
    """Two queries of one head that are different give different rows of weights."""
    weights = function(q, k).softmax(-1)
    return bool((weights[:, :, 0] - weights[:, :, 1]).abs().amax(-1).min() > 1e-6)
