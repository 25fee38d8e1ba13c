"""A model answer: DABERT Eq. (4). The page that goes with it is misprint.md, beside this file."""
EQUATION = "DABERT 4"


def printed(q, k):
    return (q[:, :, :, None] - k[:, :, None]).sum(-1)


def repaired(q, k):
    return (q[:, :, :, None] - k[:, :, None]).abs().sum(-1)


def claim(function, q, k):
    """Queries that are the keys themselves give rows of weights that differ.

    Rows that differ by one number for all keys do not, as softmax does not see it.
    """
    scores = function(k, k)
    scores = scores - scores.mean(-1, keepdim=True)
    return bool((scores[:, :, 0] - scores[:, :, 1]).abs().amax(-1).min() > 1e-6)
