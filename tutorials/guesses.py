"""The guesses of the lessons: name -> (the choices, the right one first; why it is right).

They are in this file, so that a lesson shows no answer before you have guessed. Where a number is
asked for, the lesson measures it. The guess "which part" is judged by your own table.
"""
GUESSES = {
    "no key": (["all of it", "nothing", "half of it"], """
        Without a real key every score gets the same -10,000. A softmax does not change when all
        scores change by the same number, so padding gets weights by its own scores."""),
    "plain attention": ([0, 25, 50], """
        The layer's input is added to what the method returns, and the layer after it is plain BERT.
        They have learned the words by themselves."""),
    "no matrix": ([50, 75, 90], """
        Pairs of both labels have the same words. Who does it to whom differs, and the model reads
        this with the help of the matrix. Without it the model is plain attention that has learned
        to rely on a matrix."""),
    "which part": (["trees", "equal words", "each of them", "neither"], "")}
