"""support/words.py: ids of words and characters, vectors from a GloVe file."""
import numpy as np
import pytest

from support.words import Vocabulary, read_vectors


def test_ids_of_words_and_characters():
    """A case-folded word that occurs twice has an id. Spelling cuts and pads."""
    vocabulary = Vocabulary.learn([["bad", "Cab", "ß", "Cab"], ["BAD", "SS", "db"]])
    assert vocabulary.words == ["bad", "cab", "ss"] and vocabulary.vectors is None
    assert vocabulary.ids(["Bad", "ß", "ss", "CAB", "db", "new"]).tolist() == [2, 4, 4, 3, 1, 1]
    vocabulary = Vocabulary.learn([["bad", "Cab"]])
    assert vocabulary.characters == ["C", "a", "b", "d"]               # as written, however seldom
    assert vocabulary.spell(["Cab", "", "dzA\U0001f600c", "abababab"], 5).tolist() == [
        [2, 3, 4, 0, 0], [0, 0, 0, 0, 0], [5, 1, 1, 1, 1], [3, 4, 3, 4, 3]]


def test_vocabulary_with_vectors():
    """A word gets the vector of the word as written, else of its lower case, else a random one."""
    found = {"New": [1, 2], "new": [4, 5], "york": [7, 8], "unread": [0.5, 0.5]}
    found = {word: np.array(row, np.float32) for word, row in found.items()}
    vocabulary = Vocabulary.learn([["New", "York", "is"], ["new", "IS", "NEW", "Odd"]], found)
    assert vocabulary.words == sorted(["New", "new", "york", "is", "odd"])
    asked = vocabulary.vectors[vocabulary.ids(["New", "new", "NEW", "york", "York"])].tolist()
    assert asked == [[1, 2], [4, 5], [4, 5], [7, 8], [7, 8]]
    assert vocabulary.ids(["unread"]) == 1 and not vocabulary.vectors[0].any()
    drawn = Vocabulary.learn([[f"w{i}" for i in range(999)]], {"w0": np.float32([-2, 2])}).vectors
    assert 1.9 < drawn[3:].std() < 2.1 and abs(drawn[3:].mean()) < 0.2    # as the one in the file
    assert drawn.dtype == np.float32 and len({*map(tuple, drawn.tolist())}) == len(drawn)


GOOD = {"the": [0.5, -1.25, 2.0], "cat": [1.0, 0.0, -3.0]}
LINES = b"the 0.5 -1.25 2e0\ncat 1 0 -3\n"


@pytest.mark.parametrize("content, more", [
    (b"\n  \n2 3\ncat 1 0\n" + LINES.replace(b"\n", b" \r\n"), {}),
    (LINES + b"the 7 7 7\ndog 1 x 3\ndog 1 nan 3\ndog 1 1e30 3\ncaf\xe9 1 2 3\nunread 1 2\n", {}),
    (b"2000 3\n" + LINES + "naïve 1 2 3\nThe 9 9 9\n2000 3 2 1".encode(),  # word2vec's header
     {"naïve": [1, 2, 3], "2000": [3, 2, 1]})])
def test_good_lines_count_in_any_neighbourhood(tmp_path, content, more):
    """Lines of needed words are left out: another width than most, or no numbers."""
    path, needed = tmp_path / "glove.txt", {"the", "cat", "dog", "naïve", "2000"}
    path.write_bytes(content)
    found = read_vectors(path, needed)
    assert {word: vector.tolist() for word, vector in found.items()} == GOOD | more
