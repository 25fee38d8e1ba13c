"""A run: a model, what reads its pairs, and its folder. Made to be trained, and used afterwards.

`train.open_run(folder)` returns a Run, whose predict, evaluate, explain and influence a reader
calls; training scores each epoch with the same ones. `settings` are train.Settings throughout.

Left out: what is computed (semmatch, reread, bert_min), the form of the files (support.runs).
"""
import json
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import torch

import batches
import priors
from bert_min import BertConfig, PairTokenizer, SelfAttention, load_bert, read_checkpoint
from semmatch import Matcher
from support import curves, machine, meter, runs, summary
from support.data import (GLUE_FILES, Prediction, add_predictions, answers, as_pairs, check_logits,
                          describe_labels, evaluate, glue_rows, is_csv, loss_sum, make_pairs,
                          metric_title, pair_rows, predictions_of, read_own, seen_in_training,
                          write_table)
from support.files import find_bert, write_json, write_text
from support.machine import main_process, print_once
from support.options import prefix_errors, read_places, refuse
from support.words import Vocabulary

SCRATCH_SIZES = dict(hidden_size=64, num_layers=2, num_heads=4, intermediate_size=256)


# ---- The model ----------------------------------------------------------------------------------

def new_reader(settings, task, splits):
    """Reads pairs with the encoder's tokenizer, or with pieces or words learned from train.

    -> (batches.Reader, prepared for train and dev, BertConfig or None, weights or None)
    """
    reader, config, arrays = make_reader(settings, task), None, None
    if settings.bert == "scratch":
        texts = [text for pair in splits["train"] for text in (pair.a, pair.b)]
        reader.tokenizer = PairTokenizer.train(texts, vocab_size=8000)
        config = BertConfig(reader.tokenizer.vocab_size, **SCRATCH_SIZES,
                            max_length=settings.max_length)
    elif settings.bert != "none":
        with prefix_errors("--bert "):
            folder = find_bert(settings.bert, settings.data_dir, main_process())
        config, arrays = read_checkpoint(folder)
        reader.tokenizer = PairTokenizer.from_folder(folder, config)
    reader.prepare([pair for name in seen_in_training(splits) for pair in splits[name]])
    reader.learn_tfidf(splits["train"])
    if settings.bert == "none":
        learned = splits if settings.glove else ["train"]  # fixed vectors: nothing is learned
        texts = [text for name in learned for pair in splits[name] for text in (pair.a, pair.b)]
        with prefix_errors("--glove "):
            print_once(reader.learn_words(texts, settings.glove, settings.seed))
    return reader, config, arrays


def saved_model(settings, saved):
    """(model without its weights, batches.Reader) of a run that `runs.read_saved` read."""
    reader, config = make_reader(settings, saved["task"]), None
    if settings.method.PRIOR == "dependency":
        reader.tfidf = priors.TfIdf.from_state(saved.get("tfidf"))
    if settings.bert == "none":
        reader.tokenizer = Vocabulary.from_state(saved["tokenizer"])
    else:
        config = runs.typed(BertConfig, saved.get("encoder"), "encoder")
        reader.tokenizer = PairTokenizer.from_state(saved["tokenizer"])
        refuse(reader.tokenizer.vocab_size > config.vocab_size, f"the tokenizer has "
               f"{reader.tokenizer.vocab_size} pieces, the encoder {config.vocab_size}")
    return build_model(settings, saved["task"], reader, config)[0], reader


def make_reader(settings, task):
    """A batches.Reader as the settings ask for, without a tokenizer."""
    return batches.Reader(settings.method, settings.max_length, settings.options(),
                          parser=settings.parses or settings.own_parser(),
                          toy=task.name == "toy", workers=settings.workers,
                          progress=main_process())


def build_model(settings, task, reader, config, arrays=None):
    """The model, with the encoder's weights where `arrays` has them. -> (model, names of new)

    new: what an encoder's file does not have, the classifier too; it has a rate of its own.
    """
    method, classes, options = settings.method, len(task.labels) or 1, settings.options()
    torch.manual_seed(settings.seed)
    if config is None:
        return method(reader.tokenizer, classes, **options), []
    refuse(settings.max_length > config.max_length, f"--max-length {settings.max_length}: this "
           f"encoder has {config.max_length} positions")
    if settings.dropout is not None:
        config = replace(config, dropout=settings.dropout, attention_dropout=settings.dropout)
    whole = not issubclass(method, SelfAttention)
    if whole:
        model = method(config, classes, **options)
    else:
        with prefix_errors("--layers "):
            layers = read_places(settings.layers, config.num_layers)
        model = Matcher(method, config, classes, layers, **options)
    if settings.bert == "scratch":  # BERT's N(0, 0.02²) is made for 768 columns, not for 64
        for name, p in model.named_parameters():
            if p.dim() == 2 and "embeddings" not in name:
                for gate in p.chunk(3 if "gru" in name else 1):
                    torch.nn.init.xavier_uniform_(gate)
    new = []
    if arrays is not None:
        refuse(not hasattr(model, "bert"), f"--model {settings.model}: has no attribute bert, into "
               f"which the encoder's weights could go; --bert scratch needs none")
        new = ["bert." + name for name in load_bert(model.bert, arrays, settings.bert)]
    if whole or arrays is not None:
        new += [name for name, _ in model.named_parameters() if not name.startswith("bert.")]
    return model, new


@torch.no_grad()
def start_at_mean(model, pairs):
    """Before training a score is the mean of these pairs' scores."""
    for layer in getattr(model, "outputs", list)():
        layer.bias.fill_(sum(pair.label for pair in pairs) / len(pairs))


# ---- The model in use ---------------------------------------------------------------------------

class Run:
    """A model with all that it needs to read pairs; train.open_run makes one of a run's folder.

    Pairs are support.data.Pair, or tuples (a, b) or (a, b, label) with a class's name or a score,
    or one of these alone; or batches.Examples.
    """

    def __init__(self, settings, folder, task, model, reader, contents):
        """contents: what runs.describe_run says of it."""
        self.settings, self.folder, self.task = settings, folder, task
        self.model, self.reader, self.contents = model, reader, contents
        self.code = runs.code_of(settings.model)
        self.parser = contents.get("parser")  # it was trained with

    def class_weights(self, pairs: Iterable) -> torch.Tensor | None:
        """(C,) by which each class counts alike in these training pairs; None: not asked for."""
        if self.settings.class_weights == "none":
            return None
        refuse(self.task.regression, "class_weights: scores have no classes; leave it out")
        counts = torch.bincount(torch.tensor([pair.label for pair in pairs]),
                                minlength=len(self.task.labels))
        return (len(pairs) / (len(counts) * counts.clamp(min=1))).to(self.settings.device)

    def examples(self, pairs: Iterable) -> batches.Examples:
        """batches.Examples of pairs."""
        if hasattr(pairs, "collate"):
            return pairs
        pairs = as_pairs(self.task, pairs)
        self.reader.prepare(pairs)
        now = getattr(self.reader.parser, "fingerprint", None)
        if now and self.parser not in (None, now):
            print_once(f"{self.folder}: trained with another parser than the one that ships now; "
                       f"its answers may be worse than its result says, so train anew")
            self.parser = None  # said once
        return self.reader.examples(pairs)

    def changes(self) -> dict:
        """dict name -> bert_min.Change: what can be taken out of the model while it predicts."""
        return getattr(self.model, "changes", dict)()

    @torch.inference_mode()
    def logits(self, pairs: Iterable, trace: dict | None = None, change=None) -> torch.Tensor:
        """(N, C) float32 on the CPU, in the order of the pairs. trace: a dict for what the model
        records. change: of `changes`, or None.
        """
        examples, (rank, count) = self.examples(pairs), machine.world()
        order = sorted(range(len(examples.pairs)), key=lambda i: examples.lengths[i])
        parts = [order[i:i + 64] for i in range(0, len(order), 64)]
        logits, found = torch.zeros(len(order), len(self.task.labels) or 1), []
        self.model.eval()
        with meter.changed(self.model, change) as altered:
            for batch_and_labels in examples.loader(parts[rank::count]):
                batch, _ = machine.to_device(batch_and_labels, self.settings.device)
                with machine.autocast(self.settings.device, self.settings.precision):
                    logits_of_part = self.model(**altered(batch), trace=trace)
                found.append(logits_of_part.float().cpu())
        for done, rows in machine.gather((parts[rank::count], found)):
            for part, part_logits in zip(done, rows, strict=True):
                check_logits(part_logits, len(part), self.task)
                logits[part] = part_logits
        return logits

    def predict(self, pairs: Iterable, change=None) -> list[Prediction]:
        """A Prediction for each pair; under a change, of `changes`, where one is given."""
        return predictions_of(self.logits(pairs, change=change), self.task)

    def influence(self, pairs: Iterable) -> dict:
        """What hangs on the method when these pairs are answered.

        -> dict: "pairs", how many; "metric"; "score", if they are labelled; "added", dict layer ->
        how large what it adds is beside plain attention; "changes", dict name of a change -> dict
        of "score", "answers", "moved", the last two of meter.compare. A change needs two pairs or
        more where it takes another pair's part.
        """
        examples, metric = self.examples(pairs), self.task.metrics[0]
        labels = [pair.label for pair in examples.pairs]

        def score(logits):
            if None in labels:
                return {}
            return {"score": evaluate(self.task, labels, answers(logits, self.task))[metric]}

        with meter.added_sizes(self.model) as added:
            before = self.logits(examples)
        found = {}
        for name, change in self.changes().items():
            after = self.logits(examples, change=change)
            found[name] = score(after) | meter.compare(before, after, self.task.regression)
        return {"pairs": len(labels), "metric": metric} | score(before) | {
            "added": {str(layer): size for layer, size in added.items()}, "changes": found}

    def evaluate(self, pairs: Iterable) -> dict[str, float]:
        """Metrics of labelled pairs, and of each phenomenon: dict name -> float in [-1, 1]."""
        return self.score(self.examples(pairs))[0]

    def score(self, examples: batches.Examples) -> tuple[dict[str, float], float]:
        """(what `evaluate` says, mean loss) of labelled Examples."""
        logits, labels = self.logits(examples), [pair.label for pair in examples.pairs]
        guesses = answers(logits, self.task)
        scores = evaluate(self.task, labels, guesses)
        for group in dict.fromkeys(pair.group for pair in examples.pairs if pair.group):
            rows = [i for i, pair in enumerate(examples.pairs) if pair.group == group]
            some = evaluate(self.task, [labels[i] for i in rows], [guesses[i] for i in rows])
            scores[group] = some[self.task.metrics[0]]
        return scores, float(loss_sum(logits, torch.tensor(labels), self.task)) / len(labels)

    def explain(self, a: str, b: str) -> tuple[Prediction, dict]:
        """What the model says of two texts, and what it recorded on the way.

        -> (Prediction, dict name -> array). The method's TRACE says what each name is; of a
        Matcher they are those of the first layer that carries the method.
        """
        trace = {}
        prediction = predictions_of(self.logits([(a, b)], trace), self.task)[0]
        layers = sum(name.startswith("layer") and isinstance(trace[name], dict) for name in trace)
        if layers:
            trace = trace[f"layer{read_places(self.settings.layers, layers)[0]}"]
        return prediction, {name: x.float().cpu().numpy() for name, x in trace.items()}


# ---- While it is trained ------------------------------------------------------------------------

def describe_training(run, examples, steps):
    """Says what is trained on what."""
    settings, pairs = run.settings, {name: x.pairs for name, x in examples.items()}
    new = run.contents["new_parameters"]
    weights = sum(p.numel() for p in run.model.parameters())
    print_once(f"{run.folder}: {settings.model} on {run.task.name}, {weights:,} parameters, "
               f"{settings.device} {settings.precision}\n{len(pairs['train'])} pairs, "
               f"{steps} steps of {settings.batch_size}\n{describe_labels(run.task, pairs)}")
    if run.task.columns:
        print_once(f"columns {', '.join(run.task.columns)}")
    if not new and settings.lr_new != settings.lr:
        print_once(f"--lr-new {settings.lr_new:g} is not used: nothing is added to a trained "
                   f"encoder")
    if new:
        print_once(f"{len(new)} tensors are new, at a rate of {settings.lr_new:g}; config.json "
                   f"lists them")


def judge_epoch(run, examples, progress, log):
    """Scores dev, keeps the weights if it is the best epoch so far, and says so."""
    begun = time.perf_counter()
    scores, mean_loss = run.score(examples)
    progress.evaluate_seconds += time.perf_counter() - begun
    better = progress.judge(scores[run.task.metrics[0]], mean_loss)
    if better and main_process():
        runs.save_best(run)
    split, numbers = run.task.selection, [
        f"{metric_title(name, run.task.positive)} {100 * scores[name]:.1f}"
        for name in run.task.metrics]
    log(step=progress.step, epoch=progress.epoch, split=split, mean_loss=mean_loss, **scores)
    print_once(f"epoch {progress.epoch}: {split} {', '.join(numbers)}"
               f"{', the best so far' if better else ''}")


def finish_training(run, examples, progress):
    """Evaluates the best epoch and writes result.json, which it returns; last.pt is removed."""
    settings, parameters = run.settings, dict(run.model.named_parameters())
    new, best = run.contents["new_parameters"], run.folder / "best.pt"
    machine.gather(None)  # best.pt is there
    runs.load_weights(run.model, runs.load_state(best)["weights"], best)
    begun = time.perf_counter()
    metrics = {name: run.evaluate(x) for name, x in examples.items() if name != "train"}
    seconds = {"load": progress.load_seconds, "train": progress.train_seconds,
               "evaluate": progress.evaluate_seconds + time.perf_counter() - begun}
    result = {"task": run.task.name, "model": settings.model, "bert": settings.bert,
              "seed": settings.seed, "selection_split": run.task.selection,
              "positive": run.task.positive,
              "best_epoch": progress.best_epoch, "metrics": metrics,
              "pairs": {name: len(x.pairs) for name, x in examples.items()},
              "seconds": {name: round(value, 2) for name, value in seconds.items()},
              "pairs_per_second": round(progress.pairs / progress.train_seconds, 2),
              "peak_memory_mb": machine.peak_memory(settings.device),
              "parameters": sum(p.numel() for p in parameters.values()),
              "new_parameters": sum(p.numel() for name, p in parameters.items() if name in new),
              "settings": asdict(settings), "versions": machine.versions(settings.device),
              "influence": run.influence(examples[run.task.selection]) if run.changes() else None,
              "code": run.code, "parser": run.parser}
    if main_process():
        write_json(run.folder / "result.json", result)
        lines = (run.folder / "log.jsonl").read_text("utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        picture = curves.draw_run(events, run.task.metrics[0], progress.best_epoch)
        write_text(run.folder / "curves.svg", picture)
        for path in (run.folder / "last.pt", *run.folder.glob("*.tmp")):  # of a killed process
            path.unlink(missing_ok=True)
    return result


# ---- What the command line does with it ---------------------------------------------------------

def score_test(run, splits):
    """Scores labelled test splits and writes test.json. -> dict split -> metric -> float"""
    if (run.folder / "test.json").exists():
        print_once(f"{run.folder}: test was read before, see its test.json; what was chosen since "
                   f"then was chosen on test")
    metrics = {name: run.evaluate(pairs) for name, pairs in splits.items()}
    if main_process():
        write_json(run.folder / "test.json", {"selection_split": run.task.selection,
                                              "seed": run.settings.seed, "metrics": metrics})
    return metrics


def predict_file(run, file, splits):
    """Labels the pairs of a file, or of a split by its name, into the run's folder; prints where,
    and metrics.
    """
    if splits and file not in splits:
        raise ValueError(f"{file}: expected a .tsv or .csv file, or one of {', '.join(splits)}")
    if file in splits:
        pairs, rows, two = splits[file], pair_rows(run.task, splits[file]), ()
    else:
        columns, rows, named_rows = read_own(file, need_label=False, likely=run.task.columns)
        pairs = make_pairs(columns, named_rows, run.task.labels, need_label=False)
        two = columns[:2]
        print_once(f"columns {', '.join(two)}")
    found = run.predict(pairs)
    ending = ".csv" if is_csv(file) else ".tsv"
    tables = {run.folder / f"predictions-{Path(file).stem}{ending}":
              add_predictions(run.task, rows, found, two)}
    if (run.task.name, file) in GLUE_FILES:
        name = GLUE_FILES[run.task.name, file]
        tables[run.folder / f"{name}.tsv"] = glue_rows(run.task, found)
    for path, rows in tables.items() if main_process() else ():
        write_table(path, rows)
    print_once(f"{len(pairs)} pairs labelled in {' and '.join(map(str, tables))}")
    if all(pair.label is not None for pair in pairs):
        guesses = [x.answer for x in found]
        if not run.task.regression:
            guesses = [run.task.labels.index(answer) for answer in guesses]
        scores = evaluate(run.task, [pair.label for pair in pairs], guesses)
        print_once(summary.metrics_table({Path(file).name: scores}, run.task.positive))
