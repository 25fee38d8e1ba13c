"""The options of a run, as two values: Settings, what the user gave, and Recipe, what was decided.

    settings = Settings(task="mrpc", model="dafa")
    recipe = decide(settings, lr=5e-5)      # all other numbers are in the paper's ranges
    settings, recipe = read_options({"task": "mrpc", "model": "dafa", "lr": 5e-5})    # the same

Neither value changes later: `replace(settings, model="bert")` needs a new recipe. Each field is an
option of the command line; `--set` gives the sizes of a method.
"""
import re
from dataclasses import dataclass, fields, replace
from inspect import getattr_static, isfunction

from bert_min import SelfAttention
from support import machine
from support.checkpoints import BERTS
from support.datasets import SOURCES
from support.errors import prefix_errors, refuse
from support.options import (ABOVE_0, check_values, find_class, keywords_of, option,
                             own_parser, read_names, read_values, source_of)
from support.shown import check_options

# Name in --model -> its class. You name your own class in the same way: --model mine.py:MyAttention
METHODS = {"bert": "bert_min:SelfAttention", "dabert": "semmatch:DabertAttention",
           "dafa": "semmatch:DafaAttention", "knowledge": "semmatch:KnowledgeAttention",
           "drrnet": "reread:DrrNet", "ladranet": "reread:LadraNet",
           "aligned": "semmatch:AlignedAttention"}
POSITIVE, SHARE, FROM_0 = (ABOVE_0, 2 ** 63), (0, 1), (0, 2 ** 63)


@dataclass(frozen=True)
class Settings:
    """What the user gave. Raises ValueError if values contradict each other.

    The class that `model` names, which may be the user's, is loaded where it is used: by `method`.
    """

    task: str = option("toy", "data set; toy: ships, offline; own: the tables of --train-file",
                       (*SOURCES, "own"))
    model: str = option("dafa", f"{', '.join(METHODS)}, or your own class: mine.py:MyAttention")
    train_file: str | None = option(None, "table of training pairs, .tsv or .csv, with the columns "
                                    "sentence1, sentence2, label")
    dev_file: str | None = option(None, "table of dev pairs, which choose the best epoch")
    test_file: str | None = option(None, "table of test pairs, for --test")
    out: str | None = option(None, "run folder (default: runs/TASK-MODEL, then -2, -3, ...)")
    seed: int = option(0, "seed of weights, order and dropout", limits=FROM_0)
    printed: str = option("", "equations to compute as the paper prints them: all, or such as 6,9")
    without: str = option("", "parts of the method to leave out, such as tree,gates")
    layers: str = option("", "encoder layers with the method, from 0: first, all, or such as 0,3; "
                         "other layers have plain attention (default: first; all with aligned)")
    set: str = option("", "sizes of the method, such as STEPS=4,KERNELS=1+2,SCOPE=head")
    glove: str | None = option(None, "drrnet: fixed word vectors in GloVe's text format")
    parser: str | None = option(None, "your own function that parses texts: mine.py:parse")
    columns: str = option("", "columns of your tables (default: sentence1,sentence2,label)")
    positive: str | None = option(None, "class of your tables whose F1 is measured (default: "
                                  "guessed from two names)")
    scores: bool | None = option(None, "read the labels of your tables as scores, or as "
                                 "classes (default: guessed from the labels)")
    data_dir: str = option("data", "folder of data sets and weights; missing ones are downloaded")
    max_length: int = option(128, "tokens of a pair; longer pairs are cut", limits=(1, 100_001))
    limit: float | None = option(None, "use only the first LIMIT pairs of train and dev; below 1: "
                                 "draw this share of train at random", limits=POSITIVE)
    held_out: float | None = option(None, "take this share of the training pairs as dev",
                                    limits=SHARE)
    recipe: str = option("ours", "our training, or the knowledge paper's", ("ours", "printed"))
    class_weights: str = option("none", "balanced: all classes have the same weight in the loss",
                                ("none", "balanced"))
    workers: int = option(0, "extra processes that prepare batches", limits=(0, 1000))

    def __post_init__(self):
        check_values(self)
        if self.train_file:
            whole = self.dev_file or self.held_out
            refuse(self.task not in ("toy", "own"), f"--task {self.task} has its own files")
        else:
            whole = self.task != "own" and not self.dev_file
            more = self.test_file, self.columns, self.positive
            refuse(any(more) or self.scores is not None, "--test-file, --columns, --positive and "
                   "--scores need --train-file and --dev-file")
        refuse(not whole, "--task own needs --train-file and --dev-file, or --held-out 0.1, which "
               "takes dev's pairs from train")
        refuse(self.recipe == "printed" and f"{self.model} --recipe printed" not in RECIPES,
               f"--recipe printed: {self.model} has none, knowledge has")

    @property
    def method(self):
        """The class that --model names. Raises ValueError if there is none."""
        return find_class(self.model, METHODS)

    @property
    def places(self):
        """The layers that --layers names, as semmatch.Matcher takes them; None: not given."""
        if self.layers in ("", "first", "all"):
            return self.layers or None
        return tuple(read_names(self.layers))

    @property
    def reads_words(self):
        """Does the method read words, without an encoder? Then `bert` is "none"."""
        return self.method.READS == "words"

    @property
    def task_name(self):
        """The task's name: "own" if --train-file is given."""
        return "own" if self.train_file else self.task

    def options(self):
        """dict of the method's constructor: printed, without, where given; the sizes of --set."""
        printed, without = read_names(self.printed), read_names(self.without)
        if printed == {"all"}:
            printed = self.method.PRINTED
        sizes = keywords_of(self.method)
        sizes.pop("dropout", None)  # it has an option of its own
        with prefix_errors("--set "):
            options = read_values(self.set, sizes)
        for name, parts in (("printed", printed), ("without", without)):
            if parts:
                options[name] = frozenset(parts)
        return options


@dataclass(frozen=True)
class Recipe:
    """What was decided: how a model is trained, in full. The defaults are for fine-tuning."""

    bert: str = option("base", f"{', '.join(BERTS)}, a Hugging Face name, a folder, scratch "
                       "(default: base; scratch on toy)")
    epochs: int = option(3, "passes over the pairs", limits=POSITIVE)
    batch_size: int = option(32, "pairs in a step", limits=POSITIVE)
    lr: float = option(2e-5, "highest learning rate of the encoder", limits=POSITIVE)
    lr_new: float | None = option(None, "highest learning rate of weights that the encoder's file "
                                  "lacks (default: as --lr; 0.001 with ladranet)", limits=POSITIVE)
    optimizer: str = option("adamw", "the optimizer", ("adamw", "adam", "adadelta"))
    schedule: str = option("linear", "the rate's fall after warm-up; flat: without warm-up, too",
                           ("linear", "cosine", "flat"))
    warmup: float = option(0.1, "share of the steps in which the learning rate rises", limits=SHARE)
    weight_decay: float = option(0.01, "weight decay of matrices, not of biases", limits=FROM_0)
    clip: float = option(10.0, "scale a gradient with a larger norm to this norm", limits=POSITIVE)
    patience: int = option(0, "end training after so many steps without a lower dev loss; "
                           "0: never", limits=FROM_0)
    dropout: float | None = option(None, "its probability (default: the encoder's)", limits=SHARE)
    device: str = option("cpu", "cpu, cuda, ... (default: cuda where there is one)")
    precision: str = option("fp32", "the forward pass's numbers (default: bf16 if fast, else fp32)",
                            ("fp32", "bf16", "fp16"))

    def __post_init__(self):
        check_values(self)


# What a model has in the place of Recipe's defaults. docs/papers.md, "How each method is trained",
# tells the papers' numbers from ours.
SMALL = dict(epochs=8, batch_size=64, lr=1e-3)  # for an encoder from scratch, and words on toy
REREAD = dict(optimizer="adam", schedule="cosine", warmup=0.05, weight_decay=0.0, patience=1000)
RECIPES = {
    "dabert": dict(epochs=5),
    "dafa": dict(weight_decay=1e-8),
    "ladranet": dict(REREAD, lr_new=1e-3),
    "drrnet": dict(REREAD, epochs=5, lr=3e-4),
    "drrnet --task toy": dict(REREAD, **SMALL),
    "knowledge --recipe printed": dict(batch_size=70, optimizer="adadelta", lr=0.5,
                                       schedule="flat", weight_decay=0.0),
    "--bert scratch": dict(SMALL, dropout=0.0)}
TOY_SIZES = dict(word_size=64, character_size=32, hidden_size=64, attention_size=64)


def check_method(settings):
    """Raises ValueError if the class that --model names, or --parser, does not fit the settings."""
    method, model = settings.method, settings.model
    in_layers = issubclass(method, SelfAttention) and method is not SelfAttention
    own_prior = getattr_static(method, "prior", None) is not getattr_static(SelfAttention, "prior")
    refuse(in_layers and own_prior and not hasattr(method, "spread"), f"--model {model}: has a "
           "prior, and no method spread(self, prior, word_index, segment)")
    if ":" in model:
        for name in uncalled(method, source_of(model).read_text("utf-8", "replace")):
            raise ValueError(f"--model {model}: nothing calls its {name}; name it as its base class"
                             " names what it is to replace, or leave it out")
    refuse(settings.glove and not settings.reads_words,
           f"--glove: {model} reads pieces of words, by an encoder")
    refuse(settings.layers not in ("", "first") and not in_layers,
           f"--layers: {model} is in no layers; leave it out")
    options = settings.options()  # raises ValueError for a wrong --set
    with prefix_errors("--"):
        check_options(method, options.get("printed", ()), options.get("without", ()))
    own_parser(settings.parser)  # raises ValueError, too


def uncalled(method, text):
    """Yields the functions of a user's class that nothing calls, such as one with a typing error in
    its name: the class's file, whose text this is, has the name once, and no class on which it
    builds has it, or calls it.
    """
    known = {"prior", "spread"}                                 # Matcher and batches call these
    if not issubclass(method, SelfAttention):
        known = {"prior", "outputs", "changes", "carriers"}
    own = [base for base in method.__mro__ if base.__module__ == method.__module__]
    for base in set(method.__mro__).difference(own):
        known |= vars(base).keys()
        for code in (getattr(x, "__code__", None) for x in vars(base).values()):
            known |= set(code.co_names if code else ())
    for name, x in (item for base in own for item in vars(base).items()):
        function = isfunction(x) or isinstance(x, (staticmethod, classmethod))
        if function and name not in known and len(re.findall(rf"\b{name}\b", text)) == 1:
            yield name


def decide(settings: Settings, **given) -> Recipe:
    """The Recipe for settings. given: its fields that the user gave; None counts as not given.

    Raises ValueError if a field contradicts the settings, or these contradict the method.
    """
    check_method(settings)
    given = {name: x for name, x in given.items() if x is not None}
    name, toy = settings.model, settings.task_name == "toy"
    bert = given.get("bert", "scratch" if toy else "base")
    if settings.reads_words:
        bert = given.get("bert", "none")
        refuse(bert != "none", f"--bert {bert}: {name} reads words")
    refuse(bert == "none" and not settings.reads_words,
           f"--bert none: {name} reads pieces of words, by an encoder")
    if settings.recipe == "printed":
        refuse("weight_decay" in given,
               "--recipe printed: the decay is Eq. (9)'s; leave out --weight-decay")
        name = f"{name} --recipe printed"
    elif bert == "scratch":
        name = "--bert scratch"
    elif bert == "none" and toy:
        name = "drrnet --task toy"
    device = given.get("device", machine.best_device())
    precision = machine.fast_precision(device)
    if device.startswith("cpu") and bert in ("scratch", "none"):
        precision = "fp32"  # a small model: its run is the same on each CPU
    recipe = Recipe(bert=bert, device=device, precision=precision, **RECIPES.get(name, {}))
    recipe = replace(recipe, **given)
    if recipe.lr_new is None:
        recipe = replace(recipe, lr_new=recipe.lr)
    return recipe


def method_options(settings: Settings, recipe: Recipe) -> dict:
    """dict of the options of the method's constructor: printed, without, sizes, dropout."""
    options = settings.options()
    if "dropout" in keywords_of(settings.method) and recipe.dropout is not None:
        options["dropout"] = recipe.dropout
    if settings.reads_words and settings.task_name == "toy":
        options = TOY_SIZES | options
    return options


def add_options(parser):
    """Adds an option to a support.options.Arguments for each field of Settings and of Recipe."""
    for title, options in (("what is trained", Settings), ("how it is trained", Recipe)):
        group = parser.add_argument_group(title)
        for f in fields(options):
            exceptions = ""
            for name, recipe in RECIPES.items():
                if f.name in recipe:
                    exceptions += f"; {recipe[f.name]} with {name}"
            parser.add_field(group, f, exceptions)


def read_options(given: dict) -> tuple[Settings, Recipe]:
    """(Settings, Recipe) of the options of a command line, a dict name -> value."""
    of_recipe = given.keys() & {f.name for f in fields(Recipe)}
    settings = Settings(**{name: given[name] for name in given.keys() - of_recipe})
    return settings, decide(settings, **{name: given[name] for name in of_recipe})
