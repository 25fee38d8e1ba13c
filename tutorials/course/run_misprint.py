"""Runs a proof of a misprint where no student's code can do harm (../sandbox.py).

The functions that a claim is tried on stay with the grader (../misprints.py): what is here knows
their numbers, in an order that is drawn for each case, and asks what each returns.
"""
import functools

import trial


def asked(number, *given):
    """What a function returns that only the grader knows."""
    (found,) = trial.ask(number, *given)
    if isinstance(found, str):
        raise ValueError(found)
    return found


def answer(first, count, arguments, turned, tries):
    """What `printed` and `repaired` return, the latter for tokens from last to first as well, and
    for each of `tries`; what `claim` says of the repair, and of the `count` functions of the
    grader's from number `first` on.
    """
    import misprint

    def claims(function):
        return bool(misprint.claim(function, *(x.clone() for x in arguments)))

    return {"printed": misprint.printed(*arguments), "repaired": misprint.repaired(*arguments),
            "turned": misprint.repaired(*turned), "your repair": claims(misprint.repaired),
            "tries": [misprint.repaired(*x) for x in tries],
            "claims": [claims(functools.partial(asked, first + i)) for i in range(count)]}
