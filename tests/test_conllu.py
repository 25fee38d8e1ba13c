"""support/conllu.py: all of a file is read; each broken row is named."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import damage, damaged, many, read_or_refuse
from support.conllu import FORM, HEAD, RELATION, TAG, read_conllu, tree_depths


def row(number, form, head="_", relation="_", tag="X", deps="_", misc="_"):
    columns = [number, form, "_", tag, "_", "_", head, relation, deps, misc]
    return "\t".join(map(str, columns))


EXAMPLE = "\n".join([
    "# newdoc id = d", "# sent_id = 1", "# text = I don't see (it)",
    row(1, "I", 4, "nsubj"), row("2-3", "don't"), row(2, "do", 4, "aux"),
    row(3, "n't", 4, "advmod"), row(4, "see", 0, "root", deps="0:root"), row("4.1", "e"),
    row(5, "(", 6, "punct", misc="SpaceAfter=No"), row(6, "it", 4, "obj", misc="A=1|SpaceAfter=No"),
    row(7, ")", 6, "punct"), "",
    "# text_en = not the text", row("0.1", "E"),
    row(1, "Hi", 0, "root", misc="SpaceAfter=No"), row(2, "!", 1, "punct"), "", ""])


@pytest.fixture
def write(tmp_path):
    """Writes a file and returns its name."""
    def write(text, name="own.conllu"):
        (tmp_path / name).write_bytes(text.encode())
        return str(tmp_path / name)
    return write


def written(sentences):
    """As they stood in the file."""
    return "".join("\n".join([*s.comments, *map("\t".join, s.rows)]) + "\n\n" for s in sentences)


def test_conllu_round_trip(write):
    first, second = sentences = read_conllu(write(EXAMPLE))
    assert written(sentences) == EXAMPLE
    assert first.text == "I don't see (it)" and second.text == "Hi!"
    assert first.column(FORM) == ["I", "do", "n't", "see", "(", "it", ")"]
    assert first.column(HEAD) == [4, 4, 4, 0, 6, 4, 6] and second.column(TAG) == ["X", "X"]
    assert first.column(RELATION)[:2] == ["nsubj", "aux"]
    windows, blank_first = "\ufeff" + EXAMPLE.replace("\n", "\r\n"), "\n" + EXAMPLE.rstrip("\n")
    separators = row(1, "a\u2028b\x85c", 0, "root") + "\n\n"      # only a line feed ends a line
    for text, same in ((windows, EXAMPLE), (blank_first, EXAMPLE), (separators, separators)):
        assert written(read_conllu(write(text))) == same


TWO = [row(1, "a", 2, "x"), row(2, "b", 0, "root")]


@pytest.mark.parametrize("lines, where, what", [
    ([TWO[0], "2\tb\t_"], 2, "10 columns.*found 3"),
    ([row(1, " ", 0, "root")], 1, "form, found '1', ' '"),
    ([*TWO, row(4, "c", 1, "x")], 3, "4 cannot follow word 2"),
    ([row("1-3", "ab"), *TWO], 3, "ends before word 3"),
    ([*TWO, "", row(1, "b", 0, "root"), row(2, "b", 0, "root")], 5, "one word with head 0, has 2"),
    ([row(1, "a", 0, "root"), row(2, "b", 3, "x"), row(3, "c", 2, "y")], 2, "word 2 .* cycle")])
def test_conllu_errors_name_file_and_line(write, lines, where, what):
    path = write("\n".join(lines) + "\n\n")
    with pytest.raises(ValueError, match=f"^{path}, line {where}: [^\n]*{what}[^\n]*$"):
        read_conllu(path)


@many
@given(damage)
def test_damaged_conllu(tmp_path_factory, changes):
    """What is read are trees."""
    path = tmp_path_factory.getbasetemp() / "x.conllu"
    path.write_bytes(damaged(EXAMPLE.encode(), changes))
    sentences = read_or_refuse(lambda: read_conllu(path), path) or []
    for sentence in sentences:
        heads = sentence.column(HEAD)
        assert tree_depths(heads).max() < len(heads) and heads.count(0) == 1
        assert isinstance(sentence.text, str) and len(sentence.column(FORM)) == len(heads)


@settings(max_examples=80)
@given(st.integers(0, 6).flatmap(lambda n: st.lists(st.integers(0, n), min_size=n, max_size=n)))
def test_tree_depths_is_the_walk_upwards(heads):
    expected = []
    for at in heads:
        steps = 0
        while at and steps <= len(heads):
            steps, at = steps + 1, heads[at - 1]
        expected.append(steps)
    np.testing.assert_array_equal(tree_depths(heads), expected)
