"""Lets an encoder read texts before it is fine-tuned: `python pretrain.py --bert base --task mrpc`.

Paper
    Devlin et al. 2019, BERT (arXiv 1810.04805), section 3.1, "Task #1: Masked LM". Some pieces of a
    text are hidden, and the encoder learns to say which they are. No label is needed.

    [CLS] the  com  [MASK] rose [SEP]  the  com  ##pany  [SEP]    a text and its copy, without 15 %

An encoder that was tuned on single sentences has never seen two texts side by side. A text beside
its own copy teaches it in minutes to look across: what is hidden in one often stands in the other.
`train.py --bert FOLDER` and Hugging Face's libraries take the folder that is written.

Departs: the paper reads long texts for days, and asks whether one follows the other (Task #2).
Left out: several GPUs; the head for masked words in the folder; a reading that was cut off is begun
again.
"""
import math
import statistics
import sys
import time
from dataclasses import asdict, dataclass, fields
from itertools import compress
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from batches import texts_of, training_batches
from bert_min import Bert, linear, load_bert
from run import SCRATCH_SIZES, draw_small_weights, find_encoder, lock_folder
from support import machine
from support.checkpoints import write_encoder
from support.datasets import load_task
from support.errors import refuse
from support.files import new_folder, read_lines, write_json
from support.options import ABOVE_0, Arguments, check_values, option, run_command
from support.tables import read_pairs
from train import rate, seed_of_step

# Axes: B batch, L tokens of the packed pair, d hidden size, M hidden pieces, V vocabulary

HIDDEN, LOST = 0.15, 0.15   # share of the pieces that are hidden; that a copy lacks
PIECES = 46                 # of a text are read, or fewer if the encoder has fewer positions
MANY = 2 ** 31


@dataclass(frozen=True)
class Reading:
    """What is read, and how. Each field is an option."""

    bert: str = option("base", "the encoder, as for train.py; scratch: a small untrained one")
    task: str = option("", "read the training pairs of these tasks, such as mrpc,sick")
    texts: str = option("", "and read these files: tables of pairs, or .txt with one text a line")
    out: str | None = option(None, "folder of the new encoder (default: runs/read, -2, -3, ...)")
    steps: int = option(1000, "batches to read", limits=(1, MANY))
    batch_size: int = option(32, "texts in a batch", limits=(1, MANY))
    lr: float = option(3e-4, "highest learning rate", limits=(ABOVE_0, MANY))
    seed: int = option(0, "seed of copies, order, masked pieces and dropout", limits=(0, MANY))
    data_dir: str = option("data", "folder of data sets and weights; missing ones are downloaded")
    device: str = option("cpu", "cpu, cuda, ... (default: cuda where there is one)")
    precision: str = option("fp32", "the forward pass's numbers (default: bf16 if fast, else fp32)",
                            ("fp32", "bf16"))

    def __post_init__(self):
        check_values(self)
        refuse(not (self.task or self.texts), "expected --task or --texts: what is to be read?")


def hide_pieces(input_ids: Tensor, words: Tensor, mask_id: int,
                vocab_size: int) -> tuple[Tensor, Tensor]:
    """Chooses 15 % of the pieces and hides them.  BERT § 3.1: of the chosen pieces

        80 % become [MASK],   10 % become a random piece,   10 % stay as they are

    Departs: each piece is drawn by itself, so that 15 % is the mean.
    Args: input_ids: int64 (B, L). words: bool (B, L), True = a piece of a text.
    Returns: the new input_ids (B, L); chosen, bool (B, L), the pieces that are to be said.
    """
    chosen = (torch.rand(input_ids.shape) < HIDDEN) & words  # (B, L)
    draw = torch.rand(input_ids.shape)  # (B, L)
    other = torch.randint(vocab_size, input_ids.shape)  # (B, L)
    hidden = input_ids.masked_fill(chosen & (draw < 0.8), mask_id)  # (B, L)
    return torch.where(chosen & (draw >= 0.9), other, hidden), chosen


class MaskedWords(nn.Module):
    """An encoder and BERT's head for masked words, new. Its last matrix is the word embeddings."""

    def __init__(self, bert: Bert):
        super().__init__()
        d = bert.config.hidden_size
        self.bert, self.W, self.norm = bert, linear(d, d), nn.LayerNorm(d)
        self.b_V = nn.Parameter(torch.zeros(bert.config.vocab_size))

    def forward(self, input_ids: Tensor, segment: Tensor, mask: Tensor, chosen: Tensor) -> Tensor:
        """Scores of all pieces at the chosen places, (M, V).

        p(w | x̃) = softmax(E norm(gelu(W h_i + b)) + b_V),   E the embeddings of the pieces

        On a CPU, PyTorch keeps memory for each shape of a product in bfloat16. So both axes that
        vary, L and M, are filled up to few sizes.
        """
        L, M = input_ids.shape[1], int(chosen.sum())
        states, _ = self.bert(*(F.pad(x, (0, -L % 8)) for x in (input_ids, segment, mask)))
        h = F.pad(states[-1][:, :L][chosen], (0, 0, 0, -M % 64))  # (M and more, d)
        h = self.norm(F.gelu(self.W(h)))
        return F.linear(h, self.bert.embeddings.word.weight, self.b_V)[:M]  # (M, V)


def masked_loss(scores: Tensor, pieces: Tensor) -> Tensor:
    """-Σ_i ln p(w_i | x̃) / M, the mean over the hidden pieces. scores: (M, V). pieces: (M,)."""
    return F.cross_entropy(scores.float(), pieces, reduction="sum") / max(1, len(pieces))


def read_texts(reading: Reading) -> list[str]:
    """The texts that are read, each once, in the order of the files."""
    texts = []
    for task in filter(None, reading.task.split(",")):
        texts += texts_of(load_task(task, reading.data_dir)[1]["train"])
    for file in filter(None, reading.texts.split(",")):
        if Path(file).suffix == ".txt":
            texts += map(str.strip, read_lines(file))
        else:
            texts += texts_of(read_pairs(file, need_label=False))
    return [*dict.fromkeys(filter(None, texts))]


def encode(texts, tokenizer, positions):
    """A list of pieces for each text that has some, so short that it and its copy fit into an
    encoder of so many positions."""
    special = len(tokenizer.first + tokenizer.middle + tokenizer.last)
    most = min(PIECES, (positions - special) // 2)
    encoded = [pieces for x in tokenizer.encode_texts(texts) if (pieces := x.ids[:most])]
    refuse(not encoded, "found no text to read; name other files")
    return encoded


def masked_batch(texts, tokenizer, seed):
    """Each text beside its copy, which lacks 15 % of the pieces, with hidden pieces.

    It is drawn which side is first. seed: of all that is drawn here and afterwards, dropout too.
    texts: lists of pieces.

    Returns: dict of input_ids, segment, int64 (B, L); mask, chosen, bool (B, L), True = a real
    token, a hidden piece; and the pieces that were hidden, (M,).
    """
    torch.manual_seed(seed)
    ids, segments = [], []
    for a in texts:
        b = [*compress(a, torch.rand(len(a)) >= LOST)] or a[:1]
        if torch.rand(()) < 0.5:
            a, b = b, a
        start, end = tokenizer.first + a + tokenizer.middle, b + tokenizer.last
        ids.append(torch.tensor(start + end))
        segments.append(torch.tensor([0] * len(start) + [1] * len(end)))
    pieces, segment = pad_sequence(ids, True, tokenizer.pad_id), pad_sequence(segments, True)
    mask = pad_sequence([torch.ones(len(x)).bool() for x in ids], True)  # (B, L)
    special = torch.tensor(tokenizer.first + tokenizer.middle + tokenizer.last)
    words = mask & ~torch.isin(pieces, special)  # (B, L)
    input_ids, chosen = hide_pieces(pieces, words, tokenizer.mask_id, tokenizer.vocab_size)
    batch = {"input_ids": input_ids, "segment": segment, "mask": mask, "chosen": chosen}
    return batch, pieces[chosen]


def start_model(reading, texts):
    """(PairTokenizer, MaskedWords). A pooler that the encoder lacks stays as if untrained."""
    sizes = SCRATCH_SIZES | dict(max_length=128, dropout=0.0, attention_dropout=0.0)
    tokenizer, config, weights = find_encoder(reading.bert, reading.data_dir, texts, sizes)
    refuse(tokenizer.mask_id is None, f"--bert {reading.bert}: its vocabulary has no mask")
    torch.manual_seed(reading.seed)
    bert = Bert(config)
    if weights is None:
        draw_small_weights(bert)
    else:
        load_bert(bert, weights, reading.bert)
    return tokenizer, MaskedWords(bert).to(reading.device)


def make_optimizer(model, lr):
    """AdamW; biases and norms have no decay."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                              {"params": vectors, "weight_decay": 0.0}], lr, fused=True)


def read(reading: Reading, folder: Path) -> dict:
    """Trains the encoder, then writes it into the folder. Returns: the dict of reading.json."""
    texts, begun = read_texts(reading), time.monotonic()
    tokenizer, model = start_model(reading, texts)
    texts = encode(texts, tokenizer, model.bert.config.max_length)
    print(f"{folder}: {reading.bert} reads {len(texts)} texts, {reading.steps} steps of "
          f"{reading.batch_size}, {reading.device} {reading.precision}")
    losses = read_steps(reading, model, tokenizer, texts)
    write_encoder(folder, asdict(model.bert.config), model.bert.state_dict(), tokenizer)
    result = {"reading": asdict(reading), "read": len(texts),
              "seconds": round(time.monotonic() - begun, 1),
              "loss": [statistics.fmean(losses[:100]), statistics.fmean(losses[-100:])],
              "versions": machine.versions(reading.device)}
    write_json(folder / "reading.json", result, new=True)
    return result


def read_steps(reading, model, tokenizer, texts):
    """The loop: batch, forward, loss, backward, clip, rate, step. A step needs no random state of
    the step before, because its number and the seed of the reading decide what it draws.

    Returns: the loss of each step.
    """
    optimizer, lengths, losses = make_optimizer(model, reading.lr), [*map(len, texts)], []
    in_epoch, order = math.ceil(len(texts) / reading.batch_size), []
    bar = tqdm(range(reading.steps), leave=False, disable=None)
    for step in bar:
        epoch, place = divmod(step, in_epoch)
        if place == 0:
            order = training_batches(lengths, reading.batch_size, f"{reading.seed} {epoch}")
        some, seed = [texts[i] for i in order[place]], seed_of_step(reading.seed, step, 0)
        batch, pieces = machine.to_device(masked_batch(some, tokenizer, seed), reading.device)
        with machine.autocast(reading.device, reading.precision):
            scores = model(**batch)
        loss = masked_loss(scores, pieces)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        refuse(not norm.isfinite(), f"the loss is {loss}, the gradient's norm {norm} at step "
               f"{step}: lower --lr, or try --precision fp32")
        for group in optimizer.param_groups:
            group["lr"] = reading.lr * rate(step, reading.steps, 0.05)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        bar.set_postfix_str(f"loss={loss:.3f}", False)
    return losses


def main(argv=None):
    """The command line. Raises ValueError or OSError for a user's mistake."""
    parser = Arguments("pretrain.py", __doc__)
    for f in fields(Reading):
        parser.add_field(parser, f)
    given = parser.parse(argv)
    device = given.get("device", machine.best_device())
    reading = Reading(**{"device": device, "precision": machine.fast_precision(device)} | given)
    folder = new_folder(reading.out, "read")
    machine.prepare_device(reading.device)
    with machine.torch_session({}), lock_folder(folder):
        result = read(reading, folder)
    first, last = result["loss"]
    print(f"mean loss {first:.3f} in the first 100 steps, {last:.3f} in the last 100")
    print(f"python train.py --bert {folder}")


if __name__ == "__main__":
    sys.exit(run_command(main, "pretrain.py"))
