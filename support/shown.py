"""What a method shows: tensors that it notes, parts that can be replaced, its equations.

    with recording() as seen:
        logits = model(**batch)     # seen["layer0"]["attention"]: what the first layer noted

A model calls `note(name=tensor)`, which does nothing unless somebody looks. Another thread records
nothing of this one's.

A method names its equations as attributes of its class, so that another function can take an
equation's place:

    class MyDafa(DafaAttention):
        guided_attention = staticmethod(mine)
"""
import contextlib
import contextvars
from collections.abc import Callable
from typing import NamedTuple

from support.errors import join_names

SEEN = contextvars.ContextVar("seen", default=None)  # the dict into which `note` writes, or None


class Change(NamedTuple):
    """Replaces a part of a model while it predicts, to measure what the part does."""

    batch: Callable | None = None  # function: collated batch, a dict -> the batch for the model
    outputs: dict = {}  # module -> forward hook, a function of (module, inputs, output)
    attributes: dict = {}  # name -> value, set in the model while it predicts


@contextlib.contextmanager
def recording():
    """Context manager. It gives a dict, name -> tensor, which the models that run in it fill."""
    seen = {}
    token = SEEN.set(seen)
    try:
        yield seen
    finally:
        SEEN.reset(token)


def looked_at():
    """Does somebody record what is noted here?"""
    return SEEN.get() is not None


def note(**tensors):
    """Shows tensors, detached, to whoever is recording."""
    if looked_at():
        SEEN.get().update((name, x.detach()) for name, x in tensors.items())


def scope(name):
    """Context manager: what is noted in it stands in a dict of this name."""
    return noted_inside(lambda inner: SEEN.get().update({name: inner}))


def heads_in_batch(heads):
    """Context manager: tensors (B * heads, ...) noted in it are shown as (B, heads, ...)."""
    return noted_inside(lambda inner: note(
        **{name: x.unflatten(0, (-1, heads)) for name, x in inner.items()}))


@contextlib.contextmanager
def noted_inside(keep):
    """Context manager: if somebody looks, `keep` gets the dict of what is noted in it."""
    with recording() if looked_at() else contextlib.nullcontext() as inner:
        yield
    if inner is not None:
        keep(inner)


def check_options(method, printed, without):
    """Raises ValueError for options that the class `method` lacks in its PRINTED, ABLATIONS, and
    for a printed form in the place of an equation of the user's own."""
    for argument, values, allowed in (("printed", printed, method.PRINTED),
                                      ("without", without, method.ABLATIONS)):
        if unknown := set(values).difference(allowed):
            raise ValueError(f"{argument} {join_names(sorted(unknown, key=str))}: {method.__name__}"
                             f" knows {join_names(sorted(allowed))}; leave that out")
    library = next(base for base in method.__mro__ if "PRINTED" in vars(base))
    for number in printed:
        for name in method.PRINTED[number]:
            if getattr(method, name) is not getattr(library, name):
                raise ValueError(f"printed {number}: {method.__name__} has a {name} of its own; "
                                 "leave out one of the two")


def printed_forms(method, printed):
    """dict name -> function of the equations that are to be computed as printed."""
    return {name: form for number in sorted(printed)
            for name, form in method.PRINTED[number].items()}
