"""What tests of readers do to a sound file: bytes flipped, cut off, lost, doubled; values retyped,
larger, deeper. 2,000 examples each: pytest -k damaged --hypothesis-profile long
"""
import re

from hypothesis import settings
from hypothesis import strategies as st

long = settings.default.max_examples > 100
many = settings(max_examples=2000 if long else 40)
TOKEN = re.compile(rb'"[^"\n]*"|[\w.+-]+|[^\w\s]')
VALUES = [b"", b"null", b"true", b"0", b"-1", b"0.5", b"1e999", b"NaN", b"4294967297", b"9" * 5000,
          b'"x"', b'"\\ud800\\n"', b"[]", b"{}", b"[" * 5000, b'{"a":' * 5000, b"\xff", b"\r",
          b"\0"]
kinds = st.sampled_from(["flip", "cut", "lose", "double", "retype"])
damage = st.lists(st.tuples(kinds, st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1,
                  max_size=3)


def damaged(data, changes):
    """The bytes with these changes, each (kind, place, number)."""
    for kind, at, number in changes:
        at %= len(data) + 1
        token = TOKEN.search(data, at) if kind == "retype" else None
        if kind == "flip":
            data = data[:at] + bytes(byte ^ number for byte in data[at:at + 1]) + data[at + 1:]
        elif token:
            data = data[:token.start()] + VALUES[number % len(VALUES)] + data[token.end():]
        elif kind != "retype":
            rest = {"cut": len(data), "lose": at + number, "double": max(0, at - number)}
            data = data[:at] + data[rest[kind]:]
    return data


def read_or_refuse(read, *places):
    """What read() returns; None where it raises a ValueError of one line that names a place."""
    try:
        found = read()
    except ValueError as error:
        text, found = str(error), None
        assert type(error) is ValueError and "\n" not in text and len(text) < 800, text
        assert any(str(place) in text for place in places), text
    return found
