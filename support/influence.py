"""The influence of a method: how many answers of a trained model depend on it.

`changes()` of a whole model (semmatch.Matcher, reread.LadraNet, reread.DrrNet) lists what can
replace its prior, its method, its choices: name -> support.shown.Change. The model answers the
pairs as it is, and under each change. Training without a part asks another question: what the part
did while the model learned.
"""
import contextlib

from support.errors import refuse

# Axes: N pairs, L tokens, d hidden size, C classes


@contextlib.contextmanager
def changed(model, change):
    """Context manager: the model computes under a Change, or as it is (None).

    Returns: a function from a collated batch, a dict, to the batch that the model is to get.
    """
    if change is None:
        yield dict
        return
    refuse(not hasattr(change, "outputs"),
           f"change: expected a value of run.changes(), got {change!r}")
    with contextlib.ExitStack() as undo:
        for name, value in change.attributes.items():
            undo.callback(setattr, model, name, getattr(model, name))
            setattr(model, name, value)
        for module, hook in change.outputs.items():
            undo.enter_context(module.register_forward_hook(hook))
        yield change.batch or dict


def measure(before, after, regression):
    """Measures a change by the logits (N, C) before and after it.

    Returns: dict: "answers", the share of pairs whose answer changed (for scores: that moved by
    more than a tenth of their standard deviation); "moved", how far the probability of the first
    answer, or the score, moved on average.
    """
    if regression:
        moved = (after - before)[:, 0].abs()  # (N,)
        others = moved > 0.1 * before.std(correction=min(1, len(before) - 1))
    else:
        answer = before.argmax(1, keepdim=True)  # (N, 1)
        moved = (after.softmax(1) - before.softmax(1)).gather(1, answer)[:, 0].abs()  # (N,)
        others = after.argmax(1) != answer[:, 0]
    return {"answers": others.float().mean().item(), "moved": moved.mean().item()}
