"""comparators.py against its formulas: oracles in plain loops, properties of each method.

Those that any attention has are in test_methods.
"""
import itertools
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import batches
import comparators
import train
from bert_min import PairTokenizer, SelfAttention
from comparators import (ComateformerAttention, SyntaxbertAttention, combined_attention,
                         masked_attention, similarity_matrix, syntax_masks, topical_attention,
                         tree_steps, hypernym_depths, wu_palmer)
from methods import B, CASES, D, H, K, KINDS, L, M, N, masks, method, parse, similarities
from oracles import comparators as loops
from priors import FUNCTION_WORDS, Facts, Table
from small_runs import of, run
from support.data import Pair
from tensors import (against, config, large, linear, lists, normal,
                     quick, same, silent, weights_of)

each_case = pytest.mark.parametrize("name, options", CASES)
each_method = pytest.mark.parametrize("name", ["uerbert", "syntaxbert", "comateformer"])


# ---- Material -----------------------------------------------------------------------------------

def words():
    """word_index, segment of `masks`: words of one and two pieces, specials, a pair of padding."""
    return (torch.tensor([[-1, 0, 4, 4, -1, 2, 3], [-1, 1, -1, 0, -1, -1, -1], [-1] * L]),
            torch.tensor([[0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0, 0], [0] * L]))


def tree(draw, n):
    """Heads of a tree of n words: each word hangs from one before it in a random order."""
    order = draw(st.permutations(range(1, n + 1)))
    heads = [0] * n
    for k, word in enumerate(order[1:], 1):
        heads[word - 1] = order[draw(st.integers(0, k - 1))]
    return heads


TREES = ([2, 0, 2, 3, 4], [0, 1, 4, 1, 3])      # of a and of b, for the words above


def known(name, trees=TREES):
    """The prior of a method over words: of `words`, the same trees in all pairs."""
    if name == "uerbert":
        S = similarities(B, N, M)
        S[:, 0, 2] = 0                                      # a floor of 0 forbids
        return S
    if name == "syntaxbert":
        return torch.from_numpy(tree_steps(*map(parse, trees))).repeat(B, 1, 1, 1)
    return None


def prior_of_words(name, layer):
    prior = known(name)
    return None if prior is None else layer.spread(prior, *words())


# ---- Formulas against their loops ---------------------------------------------------------------

PAIRS = {"synonym": [("Big", "large")], "antonym": [("big", "small")],
         "hypernym": [("dog", "animal"), ("cat", "animal")], "cohyponym": [("red", "blue")]}
RULES = {("big", "large"): 1.0, ("big", "small"): 1.0, ("dog", "animal"): 2 / 3,
         ("cat", "animal"): 2 / 3, ("cat", "dog"): 1 / 2, ("red", "blue"): 1 / 2}
VOCABULARY = "Big large small dog animal cat red Blue Zork zork blip the The and , ?!".split()


@quick
@example(VOCABULARY, VOCABULARY)
@given(*[st.lists(st.sampled_from(VOCABULARY), max_size=9)] * 2)
def test_similarity_matrix_oracle(a, b):
    """Wu and Palmer's by hand: a word is one step below its root, 2·1/(1+0+2); two such words
    2·1/(1+1+2)."""
    table, want = Table(PAIRS), np.zeros((len(a), len(b)))
    in_table = {word.casefold() for rows in PAIRS.values() for row in rows for word in row}
    for i, j in itertools.product(range(len(a)), range(len(b))):
        x, y = a[i].casefold(), b[j].casefold()
        if {x, y} & (FUNCTION_WORDS | {",", "?!"}):
            continue
        if x == y:
            want[i, j] = 1
        elif {x, y} <= in_table:
            want[i, j] = RULES.get((x, y), RULES.get((y, x), 0))
    got = similarity_matrix(a, b, table.facts(a), table.facts(b))
    assert got.dtype == np.float32 and got.shape == (len(a), len(b))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_a_stop_word_within_an_expression_is_one():
    a, b = ["switch", "off"], ["stop"]
    table = Table({"synonym": [("switch off", "stop")]})
    assert similarity_matrix(a, b, table.facts(a), table.facts(b)).tolist() == [[1], [0]]
    assert similarity_matrix(b, a, table.facts(b), table.facts(a)).tolist() == [[1, 0]]


PARENTS = {"thing": None, "animal": "thing", "dog": "animal", "cat": "animal", "car": "thing",
           "puppy": "dog", "alone": None}


def test_wu_palmer_oracle():
    """Of two first senses the nearer one counts; nothing is above the roots of two trees."""
    def lineage(word):
        chain = loops.line_up([0, 1, 2, 2, 1, 3, 0], [*PARENTS].index(word) + 1)
        names = [[*PARENTS][i - 1] for i in chain]
        return {above: (i, len(chain) - i) for i, above in enumerate(names)}

    facts = {word: Facts(*[set()] * 4, {word}) for word in PARENTS}
    with mock.patch.object(comparators, "hypernym_depths", lineage):
        for one, other in itertools.product(PARENTS, repeat=2):
            assert wu_palmer(facts[one], facts[other]) == pytest.approx(
                loops.wu_palmer(PARENTS, one, other))
        both = Facts(*[set()] * 4, {"car", "puppy"})
        assert wu_palmer(both, facts["cat"]) == pytest.approx(4 / 7)    # puppy's 4/(2+1+4), not 2/5
        assert wu_palmer(both, facts["car"]) == 1                    # car's, whichever is first
        assert wu_palmer(facts["puppy"], facts["thing"]) == pytest.approx(2 / 5)


def test_the_nearest_way_up_and_the_longest_to_the_root():
    above = {"entity": [], "animal": ["entity"], "carnivore": ["animal"], "canine": ["carnivore"],
             "pet": ["animal"], "dog": ["canine", "pet"]}

    def synset(name):
        ways = [synset(other) for other in above[name]]
        return SimpleNamespace(name=lambda: name, hypernyms=lambda: ways[:1],
                               instance_hypernyms=lambda: ways[1:])

    hypernym_depths.cache_clear()
    with mock.patch.object(comparators, "load_wordnet", lambda: SimpleNamespace(synset=synset)):
        assert hypernym_depths("dog") == {"dog": (0, 5), "canine": (1, 4), "pet": (1, 3),
                                 "carnivore": (2, 3), "animal": (2, 2), "entity": (3, 1)}
    hypernym_depths.cache_clear()


def test_wu_palmer_of_nouns_is_nltks(wordnet):
    """With one way up, or several. (nltk's paths may turn downwards on their way to the common
    hypernym: of a physician and a city it has 6/20, we 6/21.) Other words have a root more there.
    """
    wordnet = wordnet.wordnet
    nouns = "dogs cat car vehicle sofa idea city tree seattle".split()
    for one, other in itertools.combinations(nouns, 2):
        x, y = (wordnet.synsets(word, "n")[0] for word in (one, other))
        facts = (Facts(*[set()] * 4, {synset.name()}) for synset in (x, y))
        assert wu_palmer(*facts) == pytest.approx(x.wup_similarity(y)), (one, other)
    eat, buy = (wordnet.synset(f"{word}.v.01") for word in ("eat", "buy"))
    assert eat.wup_similarity(buy) == pytest.approx(1 / 3)
    assert wu_palmer(*(Facts(*[set()] * 4, {synset.name()}) for synset in (eat, buy))) == 0


@quick
@given(st.data(), st.integers(0, 6), st.integers(0, 6))
def test_tree_steps_oracle(data, n, m):
    trees = tree(data.draw, n), tree(data.draw, m)
    got = tree_steps(*map(parse, trees))
    assert got.shape == (max(n, m), max(n, m), 2)
    for place, heads in enumerate(trees):
        for i, j in itertools.product(range(max(n, m)), repeat=2):
            want = -1
            if max(i, j) < len(heads):
                up, other = (loops.line_up(heads, k + 1) for k in (i, j))
                want = next(step for step, word in enumerate(up) if word in other)
            assert got[i, j, place] == want


def test_trees_without_a_common_root_are_not_related():
    got = tree_steps(parse([0, 1, 0]), parse([0, 0]))
    assert got[..., 0].tolist() == [[0, 0, comparators.FAR], [1, 0, comparators.FAR],
                                    [comparators.FAR, comparators.FAR, 0]]
    found = syntax_masks(torch.from_numpy(got)[None], torch.tensor([[0, 1, 2, 0, 1]]),
                         torch.tensor([[0, 0, 0, 1, 1]]), 40, {"pairwise", "full"})
    assert found.nonzero().tolist() == [[0, 0, 1, 0], [0, 40, 0, 1]]    # parent 1 and child 1


@quick
@given(st.data(), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4),
       st.sets(st.sampled_from(KINDS), max_size=4))
def test_syntax_masks_oracle(data, n, m, distance, without):
    trees = tree(data.draw, n), tree(data.draw, m)
    a, b = (data.draw(st.lists(st.integers(-1, top - 1), max_size=6)) for top in (n, m))
    index = [-1, *a, -1, *b, -1, -1]
    segment = [0] * (len(a) + 2) + [1] * (len(b) + 1) + [0]
    prior = torch.from_numpy(tree_steps(*map(parse, trees)))[None]
    got = syntax_masks(prior, torch.tensor([index]), torch.tensor([segment]), distance, without)
    assert got[0].tolist() == loops.masks(trees, index, segment, distance, without)


Q, KEYS, V = (normal(B, 1, L, K, seed=i) for i in range(3))             # of one head


@pytest.mark.parametrize("traced", [False, True])
def test_masked_attention_oracle(traced):
    allowed, trace = similarities(B, 3, L, L) > 0.6, {} if traced else None
    got = masked_attention(Q, KEYS, V, allowed, trace=trace)
    for r in range(3):
        against(got[:, :, r], lambda *one: loops.masked_attention(*one)[0],
                Q[:, 0], KEYS[:, 0], V[:, 0], allowed[:, r])
        if trace:
            against(trace["masked"][:, r], lambda *one: loops.masked_attention(*one)[1],
                    Q[:, 0], KEYS[:, 0], V[:, 0], allowed[:, r])
    assert not allowed.any(-1).all() and (got[~allowed.any(-1).transpose(1, 2)] == 0).all()


def test_topical_attention_oracle():
    maps = linear(D, 1, 3, bias=False), linear(D, D, 4, bias=False), linear(D, D, 5)
    results, there = normal(L, 1, 4, D), similarities(L, 1, 4) > 0.4
    there[0] = False
    assert (there.sum(-1) == 0).any() and (there.sum(-1) > 1).any()
    got = topical_attention(results, there, *maps)
    against([x[:, 0] for x in got], lambda *one: loops.topical_attention(*one, *map(lists, maps)),
            results[:, 0], there[:, 0])


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("without", [set(), {"affinity"}, {"difference"}], ids=str)
def test_combined_attention_oracle(without, centred):
    trace, options = {}, {"without": without, "centred": centred}
    got = combined_attention(Q, KEYS, V, masks(), **options, trace=trace)
    same(combined_attention(Q, KEYS, V, masks(), **options), got)
    against((got[:, 0], *(trace[part][:, 0] for part in ("added", "subtracted", "near"))),
            lambda *one: loops.combined_attention(*one, without, centred),
            Q[:, 0], KEYS[:, 0], V[:, 0], masks())
    assert "affinity" in without or trace["subtracted"].max() > 0.01


@each_case
def test_layer_oracle(name, options):
    """A whole attention, with and without a trace, and what the trace holds. Every parameter
    learns but a key's bias, which cancels in a softmax."""
    layer, hidden, trace = method(name, **options), normal(B, L, D, seed=8), {}
    P, without = weights_of(layer), options.get("without", set())
    prior = prior_of_words(name, layer)
    got = layer(hidden, masks(), prior, trace)
    same(layer(hidden, masks(), prior), got)
    rest = hidden, masks()
    if name == "uerbert":
        def loop(*one):
            return loops.uerbert(P, *one, H, layer.floor, layer.typeset)
        rest += known(name), *words()
    elif name == "syntaxbert":
        def loop(states, mask, index, segment):
            allowed = loops.masks(TREES, index, segment, layer.distance, without)
            return loops.syntaxbert(P, states, mask, allowed, H, without)
        rest += words()
    else:
        def loop(*one):
            return loops.comateformer(P, *one, H, layer.combined, without, layer.centred)

    def traced(*one):
        tokens, seen = loop(*one)
        assert seen.keys() == trace.keys() <= layer.TRACE.keys()
        return tokens, *(seen[part] for part in trace)

    against((got, *trace.values()), traced, *rest)
    assert not any(x.requires_grad for x in trace.values())
    for part, x in trace.items():
        heads = name == "comateformer" and part == "attention"  # others than the combined ones
        assert len(layer.TRACE[part].axes.split()) + heads == x.ndim
    if name == "syntaxbert":
        assert len(layer.axis_names["network"]) == trace["masked"].shape[1]
    assert silent(layer, got) <= {"key.bias"}


# ---- Properties of every method -----------------------------------------------------------------

@pytest.mark.parametrize("name, options", [
    ("uerbert", {}), ("uerbert", {"printed": {"product"}}), ("uerbert", {"floor": 1.0}),
    ("syntaxbert", {"without": {*KINDS[:4], "topical"}}),
    ("syntaxbert", {"without": {*KINDS[:4]}})])
def test_neutral_prior_is_plain_attention(name, options):
    """S = 1 everywhere, or S without effect; the full sub-network alone, W_V as it starts."""
    layer, plain = method(name, **options), large(SelfAttention(config()))
    if name == "syntaxbert" and hasattr(layer, "W_V"):
        fresh = SyntaxbertAttention(config(), **options).W_V.double()
        layer.W_V.load_state_dict(fresh.state_dict())
    prior = known(name)
    if name == "uerbert" and "floor" not in options:
        prior = torch.ones_like(prior)
    hidden = normal(B, L, D)
    same(layer(hidden, masks(), layer.spread(prior, *words())), plain(hidden, masks()))


@quick
@given(st.integers(0, 999), st.floats(0, 1), st.floats(0, 1))
def test_larger_similarity_never_lowers_its_own_weight(seed, share, more):
    """Nor does S = 0 forbid: it leaves at least `floor` of the weight, before rows sum to 1."""
    layer, hidden, S = method("uerbert", seed), normal(B, L, D, seed=seed), known("uerbert")
    S[:, 0, 2], before, after = share, {}, {}
    layer(hidden, masks(), layer.spread(S, *words()), before)
    S[:, 0, 2] = share + (1 - share) * more
    layer(hidden, masks(), layer.spread(S, *words()), after)
    gain = after["calibrated"] - before["calibrated"]
    assert (gain[0, :, 1, 5] >= -1e-9).all() and (gain[0, :, 5, 1] >= -1e-9).all()
    layer(hidden, masks(), layer.spread(torch.zeros_like(S), *words()), after)
    assert (after["calibrated"] >= layer.floor * after["attention"] - 1e-9).all()


@pytest.mark.parametrize("printed", [False, True], ids=["intended", "printed"])
def test_similarity_as_typeset_strengthens_the_unlike(printed):
    """With a negative q·k the page gives an unlike word more of the weight than a synonym."""
    layer, trace = method("uerbert", printed={"product"} if printed else ()), {}
    q = torch.ones(1, 1, 2, K, dtype=torch.float64)
    k, mask = torch.stack([-q[0, 0, 0], q[0, 0, 0] * 0])[None, None], torch.ones(1, 2).bool()
    found = []
    for S in (0.0, 1.0):
        index, segment = torch.tensor([[0, 0]]), torch.tensor([[1, 0]])
        prior = layer.spread(torch.full((1, 1, 1), S, dtype=torch.float64), index, segment)
        comparators.calibrated_attention(q, k, k, prior, mask, typeset=layer.typeset, trace=trace)
        found.append(trace["calibrated"][0, 0, 1, 0].item())
    unlike, like = found
    assert unlike > 5 * like if printed else like > 1.5 * unlike


def test_centring_keeps_the_gate_open_where_all_is_far():
    """2σ(N) is 0 for all; centred, the nearer half of the keys counts, as if all were near."""
    far_k, mask, seen = KEYS + 1e4, masks(), []
    for keys, centred in ((far_k, False), (far_k, True), (KEYS + 1e5, True)):
        trace = {}
        combined_attention(Q, keys, V, mask, centred=centred, trace=trace)
        seen.append(trace["near"][:2])
    assert (seen[0] == 0).all() and 0.2 < seen[1][0].mean() < 0.8
    assert (seen[1][0] > 0.5).any() and (seen[1][0] < 0.5).any()
    same(seen[1], seen[2], 1e-9)


# ---- The methods in the encoder, and the way in -------------------------------------------------

@pytest.mark.parametrize("share, heads", [(0.5, 1), (0.1, 1), (0.8, 2), (1.0, 2)])
def test_share_of_the_heads(share, heads):
    assert ComateformerAttention(config(), share=share).combined == heads


@pytest.mark.usefixtures("workplace")
@each_method
def test_a_run(name):
    """Trains on own pairs from weights of a file; what was recorded has a figure."""
    assert run(*of(name), "--epochs", "1", "--limit", "8") == 0
    found = train.open_run("run")
    assert found.reader.needs_parses == (name == "syntaxbert")
    assert {*found.explain("the good dog", "a cat is bad")[1]} <= found.settings.method.TRACE.keys()
    if name == "uerbert":                       # good, bad; dog, cat: the tests' lexicon has them
        S = found.reader.prior(Pair("the good dog", "a cat is bad"))
        assert S.nonzero()[0].tolist() == [1, 2] and S.nonzero()[1].tolist() == [3, 1]


@pytest.mark.usefixtures("workplace")
@pytest.mark.parametrize("needs", [("words", "facts"), ("facts",), ("parses", "words")])
def test_a_prior_is_given_what_its_class_needs(needs):
    seen = []

    def prior(*given):
        seen.append(given)
        return np.zeros((2, 1))

    own = type("Own", (SelfAttention,), {"PRIOR": prior, "NEEDS": needs})
    reader = batches.Reader(own, 48, tokenizer=PairTokenizer.train(["the dog cat"]))
    reader.prepare([Pair("the dog", "cat")])
    reader.examples([Pair("the dog", "cat")]).collate([0])
    kinds = {"words": (["the", "dog"], ["cat"])} | {
        kind: (made["the dog"], made["cat"]) for kind, made in (
            ("facts", reader.facts), ("parses", reader.parses)) if kind in needs}
    assert seen == [tuple(part for need in needs for part in kinds[need])]
    assert bool(reader.parses) == ("parses" in needs) and bool(reader.facts) == ("facts" in needs)
