"""The lessons' guesses: name -> (the right one, choice -> why it is so, or why it is not).

They stand here so that no cell of a lesson shows an answer before you have guessed.
"""

GUESSES = {
    # ---- 1. Mini-BERT
    "no key": ("all of it", {
        "nothing": "That is what a mask is for. But -10,000 is added to every score of the row, "
                   "and a softmax does not see what is the same for all.",
        "half of it": "There is no real key to share with.",
        "all of it": "A row without a real key has -10,000 everywhere, a constant that cancels: "
                     "padding gets the weights that its own scores ask for."}),
    "root": (1, {
        0.1: "That would be a mean over ten keys. The scores are around ±32 here, not around 0.",
        0.5: "Scores that are 32 apart are too far for a second key to keep a half: e to the "
             "power of 10 is 22,026.",
        1: "The products of two vectors with k random numbers of size 1 have the size √k, ±32 "
           "here. One key gets nearly all weight, the others nothing, and no gradient."}),
    "positions": ("the same", {
        "far apart": "Attention asks what a key is, never where. Without positions a sentence is "
                     "the set of its words.",
        "a little apart": "Not by a digit: a mean does not know an order.",
        "the same": "Queries, keys and values depend on pieces and segments alone; each token's "
                    "vector moves with it, and [CLS] gets the same mean."}),
    # ---- 2. DABERT
    "most different": ("digits", {
        "12": "Its distance from itself is 0, the smallest of all.",
        "42": "It differs in two places, so by 2.",
        "digits": "It differs in three places, by 3, where 42 differs by 2. It is just another "
                  "word: that the difference of counterparts counts must be learned, by the "
                  "maps that make queries and keys."}),
    "query moves": ("stays", {
        "rises": "What grows is nothing: the query's own numbers cancel.",
        "falls": "With bars it would, for the distance shrinks to 0. Without them the query's sum "
                 "is added to each score of its row.",
        "stays": "The sum is ΣQ_i - ΣK_j. ΣQ_i is the same number for all keys j, and a softmax "
                 "does not see what is the same for all: every query gets the same row of "
                 "weights."}),
    "closed gate": ("2.3 and 0.3", {
        "2.3 and 2.3": "On the page l takes the place of a.",
        "0.3 and 0.3": "That is the page. The text wants to keep the original features: l is "
                       "added to a.",
        "2.3 and 0.3": "l = ½ · 0.6 = 0.3. Added to a = 2 it is 2.3; on the page l alone goes "
                       "on."}),
    # ---- 3. DAFA
    "children": ("the same", {
        "smaller": "As the text intends it is. But on the page α stands under `for all children x "
                   "and y`, and counts once for each pair of children, whatever they are.",
        "larger": "Nothing grows where children change places.",
        "the same": "Each 'exceeded' has two children: 2 × 2 = 4 pairs, so 4 times α on the page, "
                    "whether they match or not. The leaves have no children and nothing to add. "
                    "Ours are 1 and 2."}),
    "sign": ("falls", {
        "rises": "That is what the paper wants. But the page multiplies the score, and -1 times 3 "
                 "is -3.",
        "stays": "The score becomes -3.",
        "falls": "The page multiplies scores: -1 times 3 is -3, and the word with the largest "
                 "entry gets the smallest weight, 0.047 where plain attention has 0.269."}),
    "no trees": ("50", {
        "50": "The words are the same in pairs of both labels; only who does it to whom differs, "
              "and that stands in the matrix. In the first layer plain attention would have to "
              "find it in the order of words.",
        "75": "It would be so if words told the label. Each pair has a twin with the same words "
              "and the other label.",
        "90": "Without the matrix DAFA is plain attention that has learned to lean on a matrix."}),
    # ---- 4. External knowledge
    "wheat": ("no", {
        "yes": "By synonyms, antonyms, hypernyms and hyponyms, the four that the page names, they "
               "are not.",
        "no": "They are co-hyponyms, two things of one kind, and the page names four other "
              "relations. The paper's own example is in none of them. Ours has co-hyponyms as a "
              "fifth."}),
    "heard": ("a fifth or less", {
        "the same": "γ = 1 is added to larger and larger products: a step of 1 beside ±4, then "
                    "beside ±32.",
        "a half": "It is less. Products of 1,024 numbers are around ±32 where those of 4 are "
                  "around ±2.",
        "a fifth or less": "Without √d the products of wide hidden states saturate the softmax: "
                           "one word has all weight, and γ = 1 moves nothing."}),
    "related": ("loses", {
        "gains": "Its entry is the largest, 0.881. But it is below 1, and a positive score times "
                 "0.881 is smaller.",
        "loses": "All entries of K_prior are below 1, so that every score between the sentences "
                 "shrinks towards 0: 1 becomes 0.881, and the weight falls from 0.731 to 0.707."}),
    "unseen": (50, {
        50: "A prior moves attention; what is then read are values of words about which nothing "
            "was learned.",
        75: "The lexicon has them, and attention goes to them. But what the model reads there it "
            "never learned.",
        100: "That is what a lexicon seems to promise. It says where to look, not what to make "
             "of it."}),
    # ---- 5. DRr-Net
    "slope": (0, {
        0: "With β = 10⁸ the softmax is the arg-max in float32: its weights are exactly 1 and 0, "
           "and it is flat there. The choice never learns.",
        1: "It would need weights between 0 and 1, where the softmax is steep.",
        1e8: "The slope of softmax(β m) is β p (1 - p), and p (1 - p) is 0 sooner than β is "
             "large."}),
    "another clue": ("the other one", {
        "the same one": "The score is a sum of tanh of word and clue together: the clue decides "
                        "which number of a word is already as large as tanh can be.",
        "the other one": "The clue (3, 0) adds nothing to couple, whose first number is large "
                         "already; it lifts street's -3 to 0. With (0, 3) it is the other way "
                         "round."}),
    "what decides": ("exact match", {
        "exact match": "It says of each word whether the other sentence has it, and that is what "
                       "the label hangs on. Without re-reading no answer changes.",
        "re-reading": "It can carry an answer, but here nothing hangs on it: the first reading "
                      "has the label already."}),
    # ---- 6. LadRa-Net
    "window": ("three", {
        "two": "The first layer sees t and t + 1, the second one what the first made of t - 1 and "
               "of t.",
        "three": "t - 1, t and t + 1: two layers of kernel 2, one to the right and one to the "
                 "left.",
        "five": "That is kernel 3 in both layers: two to each side."}),
    "grows": ("grows", {
        "grows": "c - c m / φ with a score m of -1 and φ = 2 is 1.5 c: more is left after each "
                 "reading, 7.6 after five.",
        "falls": "It would if a weight were taken away. The page takes a score away, and this one "
                 "is negative.",
        "stays": "Something is taken away at each step: c times a score."}),
    "by heart": ("few or none", {
        "few or none": "h_ab, which needs no re-reading, holds the answer already, and every "
                       "state begins with it.",
        "about a quarter": "It could: five of six parts of v are states of re-reading. But each "
                           "begins with h_ab.",
        "half": "Five of six parts of v are states of re-reading; but each begins with h_ab, "
                "which holds the answer."}),
}
