"""support/biaffine.py: trees, the network, its file; experiments/train_parser.py."""
import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import train_parser
from experiments.train_parser import read_conllu
from priors import TAGS
from small_runs import fails, refused, write_file
from support.biaffine import Parser, load_parser, maximum_spanning_tree
from support.options import run_command

VOCABULARY = {"words": ["p", "q"], "characters": ["p", "é"], "tags": ["NOUN", "VERB"],
              "relations": ["root", "obj", "x"], "vectors": ["q", "r"]}
SIZES = dict(word_size=5, vector_size=17, character_size=3, filters=2, hidden=7, arc_size=11,
             relation_size=13)
SENTENCES = [list("pqrpq"), ["q" * 30, "Q"], ["p"], ["é" * 12 + "p" * 99 + "q" * 12]]


# ---- trees ---------------------------------------------------------------------------------------

def leads_to_root(heads):
    """Does each walk upwards from the words 1, 2, ... end at 0, and does one word hang there?"""
    for at in range(1, len(heads) + 1):
        for _ in heads:
            at = heads[at - 1] if at else 0
        if at:
            return False
    return heads.count(0) == 1


scores = st.integers(1, 4).flatmap(lambda n: st.lists(
    st.lists(st.integers(-9, 9), min_size=n + 1, max_size=n + 1), min_size=n + 1, max_size=n + 1))


@settings(max_examples=100)
@given(scores, st.sampled_from([1e-3, 1.0, 1e5]))
def test_maximum_spanning_tree_is_the_best_of_all_trees(scores, scale):
    scores = np.array(scores) * scale
    words = range(1, len(scores))
    totals = {heads: sum(scores[i, head] for i, head in zip(words, heads))
              for heads in itertools.product(range(len(scores)), repeat=len(words))
              if leads_to_root(heads)}
    heads = maximum_spanning_tree(scores).tolist()
    assert heads[0] == 0 and totals[tuple(heads[1:])] == pytest.approx(max(totals.values()))


# ---- the network ---------------------------------------------------------------------------------

def test_padding_and_neighbours_change_no_score():
    """They change no parse either, and each parse is a tree, though scores are high and random."""
    torch.manual_seed(0)
    parser = Parser(VOCABULARY, **SIZES)
    for weight in (parser.W_arc, parser.W_rel, parser.vectors[1:]):
        torch.nn.init.normal_(weight, std=3.0)
    for words, answer in zip(SENTENCES, parser.parse(SENTENCES), strict=True):
        assert parser.parse([words]) == [answer]
        assert [len(column) for column in answer] == [len(words)] * 3
        assert leads_to_root(answer[1])
    together = parser(SENTENCES)
    for k, words in enumerate(SENTENCES):
        for one, beside in zip(parser([words]), together, strict=True):
            torch.testing.assert_close(beside[k, :len(words) + 1, :one.shape[2]], one[0])


# ---- its file ------------------------------------------------------------------------------------

def test_a_file_is_what_was_saved(tmp_path):
    """Half precision is exact for these weights. A truncated file is named."""
    path, parser = tmp_path / "x.npz", Parser(VOCABULARY)
    for weight in parser.parameters():
        torch.nn.init.constant_(weight, 0.0 if weight.dim() > 2 else 0.125)
    train_parser.save_parser(parser, path)
    again, whole = load_parser(path), path.read_bytes()
    torch.testing.assert_close(dict(again.state_dict()), dict(parser.state_dict()))
    assert again.parse(SENTENCES) == parser.parse(SENTENCES) and not again.training
    assert again.fingerprint == load_parser(path).fingerprint != load_parser().fingerprint
    path.write_bytes(whole[:999])
    fails(lambda: load_parser(path), path)


def test_the_shipped_parser_knows_english():
    """It also knows a treebank's names of brackets, and typographic apostrophes. To load it leaves
    torch's random state. Its tags are all tags that DRr-Net's input has a place for."""
    before, parser = torch.get_rng_state(), load_parser()
    assert torch.equal(before, torch.get_rng_state())
    assert sorted(parser.vocabulary["tags"]) == [*TAGS]
    with torch.autocast("cpu", torch.bfloat16):
        answer = parser.parse(["The old dog chased a cat .".split()])
    assert answer == [("DET ADJ NOUN VERB DET NOUN PUNCT".split(), [3, 3, 4, 0, 6, 4, 4],
                       "det amod nsubj root det obj punct".split())]
    pair = ["It 's here -LRB- Bob -RRB- .".split(), "It ’s here ( Bob ) .".split()]
    assert len({str(answer) for answer in parser.parse(pair)}) == 1


# ---- the treebank --------------------------------------------------------------------------------

def row(number, form, head="_", relation="_", tag="X"):
    return "\t".join(map(str, [number, form, "_", tag, "_", "_", head, relation, "_", "_"]))


EXAMPLE = "\n".join([
    "# newdoc id = d", "# text = I don't see", row(1, "I", 4, "nsubj", "PRON"),
    row("2-3", "don't"), row(2, "do", 4, "aux"), row(3, "n't", 4, "advmod"),
    row(4, "see", 0, "root"), row("4.1", "e"), "", row("0.1", "E"), row(1, "10 000", 0, "root"),
    "", ""])
TWO = [row(1, "a", 2, "x"), row(2, "b", 0, "root")]


@pytest.mark.parametrize("content", [
    EXAMPLE, "\ufeff" + EXAMPLE.replace("\n", "\r\n"), "\n" + EXAMPLE.rstrip("\n")])
def test_conllu_is_read(content, tmp_path):
    """The file may have Windows' line ends, empty lines before, and none behind."""
    assert read_conllu(write_file(tmp_path, "x.conllu", content)) == [
        (["I", "do", "n't", "see"], ["PRON", "X", "X", "X"], [4, 4, 4, 0],
         ["nsubj", "aux", "advmod", "root"]), (["10 000"], ["X"], [0], ["root"])]


@pytest.mark.parametrize("lines, where", [
    ([TWO[0], "2\tb\t_"], 2), ([row(1, " ", 0, "root")], 1), ([*TWO, row(4, "c", 1, "x")], 3),
    ([*TWO, "", row(1, "b", 0, "root"), row(2, "b", 0, "root")], 4),
    ([row(1, "a", 0, "root"), row(2, "b", 3, "x"), row(3, "c", 2, "y")], 1),
    ([row(1, "a", 0, "root"), row(2, "b", 3, "x")], 1)])
def test_conllu_errors_name_file_and_line(lines, where, tmp_path):
    """Too few columns, no form, a number that does not follow; two roots, a cycle, no such head."""
    path = write_file(tmp_path, "x.conllu", "\n".join(lines) + "\n\n")
    fails(lambda: read_conllu(path), f"{path}, line {where}: ")


# ---- training ------------------------------------------------------------------------------------

@pytest.fixture
def treebank(tmp_path, monkeypatch):
    """Each split has one tree ten times, which is learned in a second."""
    monkeypatch.setattr(train_parser, "RECIPE", train_parser.RECIPE | {"epochs": 14, "lr": 0.05})
    tree = "\n".join([row(1, "the", 2, "det", "NUM"), row(2, "dog", 3, "nsubj", "NOUN"),
                      row(3, "barked", 0, "root", "VERB")]) + "\n\n"
    for split in ("train", "dev", "test"):
        (tmp_path / f"x-{split}.conllu").write_text(10 * tree)
    return tmp_path


def run(*args):
    return run_command(train_parser.main, "train_parser", list(map(str, args)))


def test_training_writes_parser_and_scores(treebank, capsys):
    """Vectors are those of "the" and "cat". --score gives the same scores. An existing file is
    refused before training."""
    glove, out = treebank / "glove.txt", treebank / "new/mine.npz"
    glove.write_text(f"the{' 0.5' * 50}\ncat{' -1' * 50}\n")
    assert run("--treebank", treebank, "--vectors", glove, "--out", out) == 0
    report = json.loads(out.with_suffix(".json").read_text())
    perfect = dict.fromkeys(["UPOS", "UAS", "LAS", "LAS_universal"], 1)
    assert report["scores"]["dev"] == report["scores"]["test"] == perfect
    printed = capsys.readouterr().out
    assert run("--treebank", treebank, "--score", out) == 0
    assert capsys.readouterr().out == printed
    written = load_parser(out)
    assert written.vocabulary["words"] == ["the", "dog", "barked"] and report["vectors"] == 2
    rows = zip(["", *written.vocabulary["vectors"]], written.vectors[:, 0].tolist())
    assert dict(rows) == {"": 0, "the": 0.5, "cat": -1}
    out.unlink()
    refused("mine.json exists", "--treebank", treebank, "--out", out, by=run)
    assert not out.exists()


def test_scores_by_hand(treebank):
    answer = ["NUM", "X", "VERB"], [2, 3, 2], ["det:x", "obj", "root"]
    fake = SimpleNamespace(parse=lambda sentences: [answer] * len(sentences))
    scores = train_parser.score_parser(fake, read_conllu(treebank / "x-dev.conllu"))
    assert scores == {"UPOS": 2 / 3, "UAS": 2 / 3, "LAS": 0, "LAS_universal": 1 / 3}
