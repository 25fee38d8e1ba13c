"""The lessons' guesses: name -> (the right one, the other choices, why it is so).

They stand here so that no cell of a lesson shows an answer before you have guessed.
"""

GUESSES = {
    # ---- 1. Mini-BERT
    "no key": ("all of it", ["nothing", "half of it"],
               "A row without a real key has -10,000 everywhere, a constant that cancels in the "
               "softmax: padding gets the weights that its own scores ask for."),
    "root": (1, [0.1, 0.5],
             "The products of two vectors with k random numbers of size 1 have the size √k, ±32 "
             "here, and e to the power of 10 is 22,026 already. One key gets nearly all weight, "
             "the others nothing, and no gradient."),
    "positions": ("the same", ["far apart", "a little apart"],
                  "Attention asks what a key is, never where. Without positions a sentence is the "
                  "set of its words: each token's vector moves with it, and [CLS] gets the same "
                  "mean."),
    # ---- 2. DABERT
    "most different": ("digits", ["12", "42"],
                       "It differs in three places, by 3, where 42 differs by 2 and 12 by 0. It is "
                       "just another word: that the difference of counterparts counts must be "
                       "learned, by the maps that make queries and keys."),
    "query moves": ("stays", ["rises", "falls"],
                    "The sum is ΣQ_i - ΣK_j. ΣQ_i is the same number for all keys j, and a softmax "
                    "does not see what is the same for all: every query gets the same row of "
                    "weights. With bars the weight falls, for the distance shrinks to 0."),
    "closed gate": ("2.3 and 0.3", ["2.3 and 2.3", "0.3 and 0.3"],
                    "l = ½ · 0.6 = 0.3. The text wants to keep the original features: added to "
                    "a = 2 it is 2.3; on the page l alone goes on."),
    # ---- 3. DAFA
    "children": ("the same", ["smaller", "larger"],
                 "On the page α stands under `for all children x and y`: each 'exceeded' has two "
                 "children, 2 × 2 = 4 pairs, so 4 times α, whether they match or not. The leaves "
                 "have no children and nothing to add. Ours are 1 and 2."),
    "sign": ("falls", ["rises", "stays"],
             "The page multiplies scores: -1 times 3 is -3, and the word with the largest entry "
             "gets the smallest weight, 0.047 where plain attention has 0.269."),
    "no trees": ("50", ["75", "90"],
                 "The words are the same in pairs of both labels; only who does it to whom "
                 "differs, and that stands in the matrix. Without it your model is plain attention "
                 "that has learned to lean on a matrix."),
    # ---- 4. External knowledge
    "wheat": ("no", ["yes"],
              "They are co-hyponyms, two things of one kind, and the page names four other "
              "relations. The paper's own example is in none of them. Ours has co-hyponyms as a "
              "fifth."),
    "related": ("loses", ["gains"],
                "All entries of K_prior are below 1, so that every score between the sentences "
                "shrinks towards 0: 1 becomes 0.881, and the weight falls from 0.731 to 0.707."),
    "unseen": (50, [75, 100],
               "The lexicon says where to look, not what to make of it: what is then read are "
               "values of words about which nothing was learned."),
    # ---- 5. DRr-Net
    "slope": (0, [1, 1e8],
              "With β = 10⁸ the softmax is the arg-max in float32: its weights are exactly 1 and "
              "0, so that its slope β p (1 - p) is 0. The choice never learns."),
    "another clue": ("the other one", ["the same one"],
                     "Tanh is near its limit in couple's first number already, to which the clue "
                     "(3, 0) adds nothing; it lifts street's -3 to 0. With (0, 3) it is the other "
                     "way round."),
    "what decides": ("exact match", ["re-reading"],
                     "It says of each word whether the other sentence has it, and that is what the "
                     "label hangs on. Without re-reading hardly an answer changes: the first "
                     "reading has the label already."),
    # ---- 6. LadRa-Net
    "window": ("three", ["two", "five"],
               "t - 1, t and t + 1: two layers of kernel 2, one to the right and one to the left. "
               "Kernel 3 in both layers would see five."),
    "grows": ("grows", ["falls", "stays"],
              "The page takes a score away, and this one is negative: c - c m / φ with m = -1 and "
              "φ = 2 is 1.5 c. More is left after each reading, 7.6 after five."),
    "by heart": ("few or none", ["about a quarter", "half"],
                 "Five of six parts of v are states of re-reading. But each of them begins with "
                 "h_ab, which holds the answer already."),
}
