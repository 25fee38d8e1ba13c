"""Runs a proof of a misprint where no student's code can do harm (../sandbox.py).

The functions that a claim is tried on stay with the grader (../misprints.py): what is here knows
their numbers, in an order that is drawn, and asks what each returns.
"""
import trial


def asked(number):
    """A function that only the grader knows."""
    def function(*given):
        (found,) = trial.ask(number, *given)
        if isinstance(found, str):
            raise ValueError(found)
        return found
    return function


def answer(count, arguments, first, turned, tries):
    """What `printed` and `repaired` return, the latter a second time, for the first pair alone, for
    tokens from last to first, and for each of `tries`; and what `claim` says of the repair and of
    so many functions of the grader's."""
    import misprint

    def claims(function):
        return bool(misprint.claim(function, *(x.clone() for x in arguments)))

    return {"printed": misprint.printed(*arguments), "repaired": misprint.repaired(*arguments),
            "again": misprint.repaired(*arguments), "first": misprint.repaired(*first),
            "turned": misprint.repaired(*turned), "your repair": claims(misprint.repaired),
            "tries": [misprint.repaired(*x) for x in tries],
            "claims": [claims(asked(number)) for number in range(count)]}
