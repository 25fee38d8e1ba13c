"""The guesses of the lessons: name -> (the right choice, the other choices, why it is right).

They are in this file, in the order of the lessons, so that a lesson shows no answer before you have
guessed.
"""
GUESSES = {
    "no key": ("all of it", ["nothing", "half of it"], """
        Without a real key every score gets the same -10,000. A softmax does not change when all
        scores change by the same number, so padding gets weights by its own scores."""),
    "plain attention": ("few or none", ["about a quarter", "half"], """
        The layer's input is added to what the method returns, and the layer after it is plain BERT.
        They have learned the numbers by themselves."""),
    "no trees": ("50", ["75", "90"], """
        Pairs of both labels have the same words. Who does it to whom differs, and the model reads
        this with the help of the matrix. Without it the model is plain attention that has learned
        to rely on a matrix."""),
    "unseen": (50, [75, 100], """
        The lexicon says where to look, not what to make of it. Attention then reads the values of
        words about which the model has learned nothing."""),
    "what decides": ("exact match", ["re-reading"], """
        It says for each word whether the other sentence has it, and the label depends on this.
        Without re-reading hardly an answer changes: the first reading has the label already."""),
    "which part": ("equal words", ["trees", "the gates"], """
        What has equal words and no tree, no gate and no new weight is as good as all of DAFA. What
        has trees and gates and no equal words is worse in most seeds."""),
    "random texts": ("all", ["none", "half"], """
        Reading has taught the words, the places and the frames of this small world, and that is
        enough here. So in this world the gain of reading is shown, and what brings it is not
        copies."""),
    "by heart": ("few or none", ["about a quarter", "half"], """
        Five of the six parts of v are states of re-reading. But each of them begins with h_ab,
        which holds the answer already."""),
}
