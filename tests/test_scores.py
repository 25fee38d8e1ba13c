"""experiments/score_parser.py and score_lexicon.py, on a parser and a table that are wrong."""
from types import SimpleNamespace

from experiments import score_lexicon, score_parser
from priors import Table
from support.parses import parse_texts
from small_runs import ChainParser
from test_conllu import row, write  # noqa: F401


def test_a_parser_is_scored_by_genre(write):
    """A chain's heads are right in one genre, wrong in the other but for the root."""
    one = ["# sent_id = a-1", row(1, "x", 0, "root"), row(2, "y", 1, "dep"), ""]
    two = ["# sent_id = b-1", row(1, "x", 3, "dep"), row(2, "y", 3, "dep"), row(3, "z", 0, "root"),
           ""]
    genres = score_parser.genre_scores(ChainParser, write("\n".join([*one, *two, ""])))
    assert {name: scores["UAS"] for name, scores in genres.items()} == {"a": 1.0, "b": 0.0}


def test_two_subjects_and_two_trees():
    trees = [([2, 0, 2], ["nsubj", "root", "csubj"]), ([2, 0, 2], ["nsubj", "root", "obj"]),
             ([2, 0, 2], ["nsubj:pass", "root", "nsubj:outer"]), ([2, 0], ["csubj", "root"])]
    assert score_parser.count_rivals(trees) == 1
    odd = SimpleNamespace(parse=lambda sentences: [(["X"], [0], [words[0]]) for words in sentences])
    pairs = [(["red"], ["red"]), (["red"], ["blue"]), (["blue"], ["blue"]), (["blue"], ["red"])]
    assert score_parser.share_of_two_trees(odd, pairs) == 0.5


def test_a_lexicon_is_scored(tmp_path, capsys):
    """One relation is right, one is of another kind, one is in no list, one is missing."""
    path = tmp_path / "pairs.txt"
    path.write_text("# a comment\nb c | red cat sees tall man | blue dog sees short man | red-blue "
                    "cohyponym, cat-dog cohyponym, tall-short antonym, man-sees none\n", "utf-8")
    rows = score_lexicon.read_word_pairs(path)
    lexicon = Table({"cohyponym": [("red", "blue")], "synonym": [("cat", "dog")],
                     "hypernym": [("cat", "blue")]})
    parses = parse_texts([*rows[0][2:4]], ChainParser(), progress=False)
    counts = score_lexicon.judge(lexicon, rows, parses, tagged=True)
    assert counts == {"judged": 3, "found": 3, "right": 1}
    assert capsys.readouterr().out.count("wrong:") == 2
