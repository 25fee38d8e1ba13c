"""A run: a model, the Reader of its pairs, and its folder. Prediction needs best.pt alone.

    best.pt       the best epoch: weights, and all else that prediction needs
    last.pt       the last step: the same, optimizer state and progress, for --resume
    config.json   settings and recipe      log.jsonl     one event a line; curves.svg draws them
    result.json   scores on dev            test.json     scores on test, if --test asked for them

The `id` of a training is in best.pt, last.pt and result.json, so that no result is shown for the
weights of another training. `save` writes both files of weights, `load_run` opens both, and opening
runs no code. Training scores each epoch with the code with which a run is used.

Left out: the equations (semmatch, reread, bert_min), the loop (train).
"""
import contextlib
import copy
import fcntl
import hashlib
import io
import itertools
import os
import secrets
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from tqdm import tqdm

import batches
from bert_min import Bert, BertConfig, PairTokenizer, SelfAttention, load_bert, read_checkpoint
from semmatch import Matcher
from settings import Recipe, Settings, method_options
from support import influence, machine, summary
from support.biaffine import PARSER
from support.checkpoints import find_bert, load_saved
from support.datasets import load_pairs, load_test_splits
from support.errors import expecting, join_names, prefix_errors, refuse
from support.files import check_free, free_path, whole, write_json, write_whole, writing
from support.machine import main_process, print_once
from support.options import own_parser, own_sums
from support.pairs import (Prediction, Task, as_pairs, check_logits, loss_sum, predictions_of,
                           score_logits, seen_in_training)
from support.shown import recording
from support.tables import is_csv, prediction_cells, prediction_columns, read_table, table_text
from support.words import Vocabulary, learn_words

FORMAT = 2   # of best.pt and last.pt; commit e5a3c6f was the last with format 1
PART = 4096  # pairs of a table that are labelled at a time
ONE_AT_A_TIME = threading.RLock()  # a Change alters the model; WordNet's files are shared, too
SCRATCH_SIZES = dict(hidden_size=64, num_layers=2, num_heads=4, intermediate_size=256)


@contextlib.contextmanager
def lock_folder(folder):
    """Context manager: only this process writes into a run's folder.

    It makes the folder, and removes it if it is still empty at the end. On Ctrl-C it says how to
    resume. Raises BlockingIOError if another process has locked the folder.
    """
    if not main_process():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise BlockingIOError(f"{folder}: another process trains there") from None
    except OSError as error:  # some file systems have no locks
        print_once(f"{folder}: cannot be locked ({error.strerror}): start no second training there")
    try:
        yield
    except KeyboardInterrupt as stop:
        saved = (folder / "last.pt").exists()
        raise KeyboardInterrupt(f"train.py --resume {folder} goes on" if saved else stop) from None
    finally:
        os.close(lock)
        with contextlib.suppress(OSError):
            folder.rmdir()


def save(run, name, **more):
    """Writes best.pt or last.pt: weights, all else that prediction needs, and `more`."""
    state = run.state() | {"weights": run.model.state_dict(), **more}
    write_whole(run.folder / name, lambda file: torch.save(state, file))


def check_saved(run):
    """Raises ValueError if a file of the run could not be opened again, before there is one. What
    can fail is a method of somebody's own."""
    with expecting(run.settings.model, "plain values from `state()` of its prior, which `load` "
                   "takes: dict, list, str, int, float, tensors", "write float(x) where numpy has "
                   "made x"):
        file = io.BytesIO()
        torch.save(run.state(), file)
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        if run.reader.prior:
            copy.copy(run.reader.prior).load(saved["prior"])


def made_here(path):
    """Context manager: any error inside becomes one message, that this file of a run is damaged."""
    return expecting(path, "what this code writes", "made by other code, cut off or damaged: copy "
                     "it again, or train anew")


def read_saved(path):
    """The dict in best.pt or last.pt. Raises ValueError if the file is missing or damaged."""
    refuse(not path.exists(), f"{path}: no such file; the folder of a run, such as runs/toy-dafa, "
           f"has last.pt until training ends (--resume), and best.pt from its first epoch on")
    with made_here(path):
        saved = load_saved(path)
        for name, scale in saved.get("scales", {}).items():  # int8: parts of 64 columns
            saved["weights"][name] = (saved["weights"][name] * scale.float()).flatten(1)
        found = saved.get("format")
    refuse(found != FORMAT, f"{path}: older code wrote it; commit e5a3c6f opens it")
    return saved


def load_run(path: Path, model: str | None = None, parser: str | None = None, device=None,
             precision=None, **changes) -> tuple["Run", dict]:
    """(the Run in the file best.pt or last.pt, with its weights; the file's content).

    A file alone decides neither which code runs nor how many processes start: `model` and `parser`
    name somebody's own class and function again. changes: new values of workers, data_dir. The
    caller's random state stays.
    """
    other = changes.keys() - {"workers", "data_dir"}
    refuse(other, f"--{' --'.join(other)}: belongs to training, or is no option; a run takes "
           "device, precision, workers, data_dir")
    saved = read_saved(path)
    with made_here(path):
        given, recipe, task = saved["settings"], Recipe(**saved["recipe"]), Task(**saved["task"])
        begun = {name: saved[name] for name in ("id", "new_parameters", "own", "pairs")}
        model_before, parser_before = given["model"], given["parser"]
    own = {"model": own_place(path, "model", model_before, model),
           "parser": own_place(path, "parser", parser_before, parser)}
    with made_here(path):
        settings = Settings(**given | own | {"workers": Settings.workers})
    settings = replace(settings, **{name: str(x) if isinstance(x, Path) else x
                                    for name, x in changes.items()})
    recipe = replace(recipe, device=device or recipe.device,
                     precision=precision or recipe.precision)
    reader, sums = make_reader(settings, recipe)
    encoder = None
    with made_here(path):
        if reader.prior:
            reader.prior.load(saved["prior"])
        if recipe.bert == "none":
            reader.tokenizer = Vocabulary.from_state(saved["tokenizer"])
        else:
            encoder = BertConfig(**saved["encoder"])
            reader.tokenizer = PairTokenizer.from_state(saved["tokenizer"])
        with torch.random.fork_rng([]):
            network, _ = build_model(settings, recipe, task, reader, encoder)
        network.load_state_dict(saved["weights"])
    for name, sha256 in sums.items():
        if begun["own"].get(name, sha256) != sha256:
            print_once(f"{path}: {name}: the file has changed since training; answers may differ")
    return Run(settings, recipe, path.parent, task, reader, encoder, network, begun), saved


def own_place(path, kind, begun, place):
    """Where the class or the function of a run is: where it was, or `place`, which must be given
    for somebody's own. kind: "model" or "parser". begun: the place in the file `path`, or None.
    """
    old, new = str(begun or ""), str(place or "")
    refuse(":" in old and not new, f"{path}: the {kind} is somebody's own, {old}; opening a run "
           f"runs no code: if you know it, say {kind} {old} as well")
    name, new_name = (x.rpartition(":")[2] for x in (old, new))
    refuse(old and new and name != new_name, f"{path}: its {kind} is {old}, not {new}")
    return new or begun


def open_run(folder: str | Path, parser: str | None = None, model: str | None = None,
             device: str | None = None, precision: str | None = None, **changes) -> "Run":
    """The Run in a folder, or in a best.pt alone, with the weights of the best epoch.

    model: your own class, as --model named it in training, because a folder alone runs no code.
    parser: your own parser, in the same way; it replaces the shipped parser. device: the best of
    this machine, not training's. changes: new values of workers, data_dir.
    """
    path = Path(folder)
    path = path if path.is_file() else path / "best.pt"
    run, saved = load_run(path, model, parser, device or machine.best_device(), precision,
                          **changes)
    if path.name == "best.pt" and (path.parent / "last.pt").exists():
        epochs = run.recipe.epochs  # it may have stopped after the last one
        print_once(f"{path.parent}: training stopped before its end, in epoch "
                   f"{min(saved['epoch'] + 1, epochs)} of {epochs} or later; --resume goes on")
    run.model.eval()
    return run


def new_run(settings: Settings, recipe: Recipe, folder: str | Path, task: Task, splits: dict,
            **sizes):
    """A run before its first step: (Run, dict split -> batches.Examples of train and dev).

    task, splits: from load_pairs. sizes: an encoder's from scratch, other than SCRATCH_SIZES. Of an
    encoder without files the pieces, and all words, are learned from train.
    """
    reader, own = make_reader(settings, recipe)
    encoder = weights = None
    if recipe.bert != "none":
        reader.tokenizer, encoder, weights = find_encoder(
            recipe.bert, settings.data_dir, batches.texts_of(splits["train"]),
            SCRATCH_SIZES | {"max_length": settings.max_length} | sizes)
        refuse(settings.max_length > encoder.max_length, f"--max-length {settings.max_length}: "
               f"this encoder has {encoder.max_length} positions")
    examples = {name: reader.examples(splits[name]) for name in seen_in_training(splits)}
    if reader.prior:
        known = examples["train"].known
        reader.prior.fit(known[text].words for text in batches.texts_of(splits["train"]))
    if recipe.bert == "none":
        words = {name: batches.words_of(splits[name], examples) for name in splits}
        reader.tokenizer = learn_words(words, settings.glove, settings.seed)
    model, new = build_model(settings, recipe, task, reader, encoder, weights)
    if task.regression:     # the untrained model answers about the mean score of train
        mean = sum(pair.label for pair in splits["train"]) / len(splits["train"])
        for layer in getattr(model, "outputs", list)():
            torch.nn.init.constant_(layer.bias, mean)
    begun = {"id": secrets.token_hex(8), "new_parameters": new, "own": own,
             "pairs": sha256_of_pairs({name: x.pairs for name, x in examples.items()})}
    return Run(settings, recipe, folder, task, reader, encoder, model, begun), examples


def find_encoder(name, data_dir, texts, sizes):
    """(PairTokenizer, BertConfig, weights or None) of the encoder that --bert names. From scratch
    it has these sizes, no weights yet, and its pieces are learned from the texts."""
    if name == "scratch":
        tokenizer = PairTokenizer.train(texts)
        return tokenizer, BertConfig(tokenizer.vocab_size, **sizes), None
    with prefix_errors("--bert "):
        place = find_bert(name, data_dir)
        if (place / "best.pt").exists():
            return encoder_of_run(place / "best.pt")
        config, weights = read_checkpoint(place)
        return PairTokenizer.from_folder(place, config), config, weights


def encoder_of_run(path):
    """(PairTokenizer, BertConfig, weights) of a run's best.pt. The weights that a plain BERT lacks,
    of the run's method and classifier, stay behind."""
    saved = read_saved(path)
    refuse(saved.get("encoder") is None, f"{path}: a run that reads words, by no encoder")
    with made_here(path):
        config = BertConfig(**saved["encoder"])
        with torch.device("meta"):  # names without memory
            plain = Bert(config).state_dict()
        weights = {name: saved["weights"][f"bert.{name}"].float() for name in plain}
        return PairTokenizer.from_state(saved["tokenizer"]), config, weights


def make_reader(settings, recipe):
    """(The batches.Reader of these settings, still without a tokenizer; dict name -> sha256 of a
    file on which the answers depend: code of one's own, a parser.)
    """
    reader = batches.Reader(settings.method, settings.max_length, method_options(settings, recipe),
                            parser=own_parser(settings.parser), toy=settings.task_name == "toy",
                            workers=settings.workers)
    sums = own_sums(model=settings.model, parser=settings.parser or "")
    if reader.needs_parses and not settings.parser:
        sums["the shipped parser"] = hashlib.sha256(PARSER.read_bytes()).hexdigest()
    return reader, sums


def build_model(settings, recipe, task, reader, config, weights=None):
    """(model, new: list of names); the model has an encoder's weights if they are given.

    new: parameters that an encoder's file does not have, such as the classifier's. They train at
    --lr-new.
    """
    method, options, classes = settings.method, reader.options, len(task.labels) or 1
    torch.manual_seed(settings.seed)
    if config is None:
        return method(reader.tokenizer, classes, **options), []
    whole = not issubclass(method, SelfAttention)
    if recipe.dropout is not None:
        config = replace(config, dropout=recipe.dropout, attention_dropout=recipe.dropout)
    if whole:
        model = method(config, classes, **options)
    else:
        model = Matcher(method, config, classes, settings.places, **options)
    if recipe.bert == "scratch":
        draw_small_weights(model)
    new = []
    if weights is not None:
        new = ["bert." + name for name in load_bert(model.bert, weights, recipe.bert)]
    if whole or weights is not None:
        new += [name for name, _ in model.named_parameters() if not name.startswith("bert.")]
    return model, new


def draw_small_weights(model):
    """Draws a small model's matrices again: BERT's N(0, 0.02²) is made for 768 columns, not 64."""
    for name, p in model.named_parameters():
        if p.dim() == 2 and "embeddings" not in name:
            for gate in p.chunk(3 if "gru" in name else 1):
                torch.nn.init.xavier_uniform_(gate)


class Run:
    """A model with all that it needs to read pairs. `open_run` opens the Run in a folder.

    Pairs are support.pairs.Pair; or tuples (a, b) or (a, b, label), where a label is the name of a
    class, or a score; or one such pair alone; or batches.Examples. The calls of several threads are
    answered one after another.
    """

    def __init__(self, settings, recipe, folder, task, reader, encoder, model, begun):
        """encoder: BertConfig or None. begun: dict of what was noted when training began: its id,
        the names of new_parameters, sha256 of its pairs and of files of one's own.
        """
        self.settings = settings
        self.recipe = recipe
        self.folder = folder
        self.task = task
        self.reader = reader
        self.encoder = encoder
        self.begun = begun
        machine.prepare_device(recipe.device)
        self.model = model.to(recipe.device)

    def state(self):
        """dict of plain values: all that a file of the run holds beside weights."""
        return self.begun | {
            "format": FORMAT, "settings": asdict(self.settings), "recipe": asdict(self.recipe),
            "task": asdict(self.task), "encoder": self.encoder and asdict(self.encoder),
            "tokenizer": self.reader.tokenizer.state(),
            "prior": self.reader.prior and self.reader.prior.state()}

    def class_weights(self, pairs: Iterable) -> torch.Tensor | None:
        """(C,) weights that let each class of these training pairs count alike, or None."""
        if self.settings.class_weights == "none":
            return None
        counts = torch.bincount(torch.tensor([pair.label for pair in pairs]),
                                minlength=len(self.task.labels))
        return (len(pairs) / (len(counts) * counts.clamp(min=1))).to(self.recipe.device)

    def examples(self, pairs: Iterable, labelled=False) -> batches.Examples:
        """batches.Examples of pairs. labelled: each must have a label."""
        if isinstance(pairs, batches.Examples):
            return pairs
        pairs = as_pairs(self.task, pairs, labelled)
        with ONE_AT_A_TIME:
            return self.reader.examples(pairs)

    def changes(self) -> dict:
        """dict name -> support.shown.Change: the parts that prediction can do without."""
        return getattr(self.model, "changes", dict)()

    @torch.inference_mode()
    def logits(self, pairs: Iterable, change=None) -> torch.Tensor:
        """(N, C) float32 on the CPU, in the order of the pairs. change: a value of `changes()`, or
        None.
        """
        examples, (rank, count) = self.examples(pairs), machine.world()
        order = sorted(range(len(examples.pairs)), key=lambda i: examples.lengths[i])
        parts = [order[i:i + 64] for i in range(0, len(order), 64)][rank::count]
        logits = torch.zeros(len(order), len(self.task.labels) or 1).float()
        self.model.eval()
        with ONE_AT_A_TIME, influence.changed(self.model, change) as altered:
            for part, batch_and_labels in zip(parts, examples.loader(parts)):
                batch, _ = machine.to_device(batch_and_labels, self.recipe.device)
                with machine.autocast(self.recipe.device, self.recipe.precision):
                    logits_of_part = self.model(**altered(batch))
                if logits_of_part.dim() == 3:       # the first of several judgements is the answer
                    logits_of_part = logits_of_part[0]
                check_logits(logits_of_part, len(part), self.task)
                logits[part] = logits_of_part.float().cpu()
        logits = sum(machine.gather(logits))  # each process has filled the rows of its own parts
        refuse(not logits.isfinite().all(), f"{self.settings.model}: its answers are no finite "
               f"numbers, at --precision {self.recipe.precision}; try fp32")
        return logits

    def predict(self, pairs: Iterable, change=None) -> list[Prediction]:
        """A Prediction for each pair, in a list, also for one pair alone. change: see logits."""
        return predictions_of(self.logits(pairs, change=change), self.task)

    def influence(self, pairs: Iterable) -> dict:
        """How much the answers to these pairs depend on the method.

        Returns: dict: "pairs", their number; "metric"; "score", if they are labelled; "changes",
        dict name of a change -> dict of "score", and of "answers" and "moved" as influence.measure
        defines them.
        """
        examples, metric = self.examples(pairs), self.task.metrics[0]
        labels = [pair.label for pair in examples.pairs]

        def score(logits):
            if None in labels:
                return {}
            return {"score": score_logits(self.task, labels, logits)[0][metric]}

        before, changes = self.logits(examples), {}
        for name, change in self.changes().items():
            after = self.logits(examples, change)
            moved = influence.measure(before, after, self.task.regression)
            changes[name] = score(after) | moved
        return {"pairs": len(labels), "metric": metric} | score(before) | {"changes": changes}

    def evaluate(self, pairs: Iterable) -> dict[str, float]:
        """Metrics of labelled pairs, and of each group of pairs: dict name -> float in [-1, 1]."""
        return self.score(self.examples(pairs, labelled=True))[0]

    def score(self, examples: batches.Examples) -> tuple[dict[str, float], float, dict]:
        """(metrics as `evaluate` returns them, mean loss, best threshold as `ranking` returns it)
        of labelled Examples."""
        logits, labels = self.logits(examples), [pair.label for pair in examples.pairs]
        scores, threshold = score_logits(self.task, labels, logits)
        for group in dict.fromkeys(pair.group for pair in examples.pairs if pair.group):
            rows = [i for i, pair in enumerate(examples.pairs) if pair.group == group]
            of_group, _ = score_logits(self.task, [labels[i] for i in rows], logits[rows])
            scores[group] = of_group[self.task.metrics[0]]
        loss = float(loss_sum(logits, torch.tensor(labels), self.task)) / len(labels)
        return scores, loss, threshold

    def shown_layer(self) -> int | None:
        """The layer whose notes `explain` returns, the first with the method; None: the model's."""
        carriers = getattr(self.model, "carriers", None)
        return min(carriers(), default=0) if carriers else None

    def explain(self, a: str | tuple, b: str | None = None) -> tuple[Prediction, dict]:
        """The answer for two texts, or one pair as `a`, and what the model noted on the way.

        Returns: (Prediction, dict name -> array). The method's class says what it notes. A Matcher
        gives the arrays of one layer, see shown_layer.
        """
        pairs = as_pairs(self.task, a if b is None else (a, b))
        refuse(len(pairs) != 1, f"explain: expected one pair, got {len(pairs)}")
        with recording() as seen:
            prediction = self.predict(pairs)[0]
        if (layer := self.shown_layer()) is not None:
            seen = seen[f"layer{layer}"]
        return prediction, {name: x.float().cpu().numpy() for name, x in seen.items()
                            if not isinstance(x, dict)}


def sha256_of_pairs(splits):
    """dict split -> sha256 of its pairs in their order: a resumed run must have the same pairs."""
    return {split: hashlib.sha256("\n".join(map(ascii, pairs)).encode()).hexdigest()
            for split, pairs in splits.items()}


def check_pairs(run, task, splits):
    """Raises ValueError unless task and splits, of load_pairs, are those of the run's training."""
    sums = sha256_of_pairs({name: splits[name] for name in seen_in_training(splits)})
    refuse(task != run.task or sums != run.begun["pairs"], f"{run.folder}: the pairs of train "
           f"and dev have changed since the run began; restore the data set, start where the run "
           f"was started, or --predict a file")


def score_test(run):
    """Scores the test splits, writes test.json. Returns: dict split -> metric -> float."""
    splits = load_test_splits(run.settings)
    check_pairs(run, *load_pairs(run.settings))
    refuse(not os.access(run.folder, os.W_OK), f"{run.folder}: not to be written; copy the run")
    if (run.folder / "test.json").exists():
        print_once(f"{run.folder}: test was read before, see its test.json; any choice since then "
                   f"was made on test")
    examples = {name: run.examples(pairs) for name, pairs in splits.items()}
    summary.print_limit(run, {name: x.lengths for name, x in examples.items()})
    metrics = {name: run.evaluate(x) for name, x in examples.items()}
    if main_process():
        write_json(run.folder / "test.json", {"selection_split": run.task.selection,
                                              "seed": run.settings.seed, "metrics": metrics})
    return metrics


def predict_file(run, file, columns=(), out=None, stdout=None):
    """Labels the pairs of a file in a new file, `out` or one in the run's folder. Prints metrics of
    labelled pairs. A file "-" is stdin, an `out` "-" is `stdout`, and without an `out` stdin is
    labelled into `stdout`. A file that can be read twice is first read to its end, so that a
    wrong row is found before the work.

    Pairs are read, labelled and written PART at a time, so that a large table needs no more memory.
    """
    given = file, run.task.labels, False, columns or run.task.columns
    count = sum(1 for _ in read_table(*given)[1]) if Path(file).is_file() else None
    header, rows = read_table(*given)
    taken = {*header}.intersection(prediction_columns(run.task))
    refuse(taken, f"{file}: has a column {join_names(sorted(taken))} already; rename it")
    piped, ending = "-" in (out, out or file), ".csv" if is_csv(file) else ".tsv"
    path = Path(out or free_path(run.folder / f"predictions-{Path(file).stem}{ending}"))
    if not piped:
        check_free(path)
    labels, logits, lengths = [], [], []
    table = whole(path, new=True) if main_process() and not piped else contextlib.nullcontext()
    bar = tqdm(desc="label", total=count, leave=False, delay=1, disable=None)
    with table as opened, bar:
        cells = [[*header, *prediction_columns(run.task)]]
        while part := [*itertools.islice(rows, PART)]:
            examples = run.examples([pair for _, pair in part])
            logits.append(run.logits(examples))
            for (fields, _), found in zip(part, predictions_of(logits[-1], run.task)):
                cells.append([*fields, *prediction_cells(run.task, found)])
            text = table_text(file if piped else path, cells)
            if opened:
                with writing(path):
                    opened.write(text.encode("utf-8"))
                    opened.flush()
            elif main_process():
                stdout.write(text)
            labels += [pair.label for pair in examples.pairs]
            lengths += examples.lengths
            cells = []
            bar.update(len(part))
    summary.print_limit(run, {Path(file).name: lengths})
    print_once(f"pairs labelled: {len(labels)}, in {'stdout' if piped else path}")
    if None not in labels:
        scores, _ = score_logits(run.task, labels, torch.cat(logits))
        print_once(summary.metrics_table({Path(file).name: scores}, run.task.positive))
