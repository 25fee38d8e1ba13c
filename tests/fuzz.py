"""What tests of readers do to a sound file: a byte is another one, all behind a place is lost, a
word or a number is another value, missing, larger or deeper.
"""
import re

from hypothesis import settings
from hypothesis import strategies as st

many = settings(max_examples=40)
TOKEN = re.compile(rb'"[^"\n]*"|[\w.+-]+|[^\w\s]')
VALUES = [b"", b"null", b"true", b"0", b"-1", b"0.5", b"1e999", b"NaN", b"4294967297", b"9" * 5000,
          b'"x"', b'"\\ud800\\n"', b"[]", b"{}", b"[" * 5000, b'{"a":' * 5000, b"\xff", b"\r",
          b"\0"]
kinds = st.sampled_from(["flip", "cut", "retype"])
damage = st.lists(st.tuples(kinds, st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1,
                  max_size=3)


def damaged(data, changes):
    """The bytes with these changes, each (kind, place, number)."""
    for kind, at, number in changes:
        at %= len(data) + 1
        if kind == "flip":
            data = data[:at] + bytes(byte ^ number for byte in data[at:at + 1]) + data[at + 1:]
        elif kind == "cut":
            data = data[:at]
        elif token := TOKEN.search(data, at):
            data = data[:token.start()] + VALUES[number % len(VALUES)] + data[token.end():]
    return data


def read_or_refuse(read, *places):
    """What read() returns; None where it raises a ValueError of one line that names a place."""
    try:
        return read()
    except ValueError as error:
        text = str(error)
        assert type(error) is ValueError and "\n" not in text and len(text) < 800, text
        assert any(str(place) in text for place in places), text
        return None
