"""Lets an encoder read pairs before it is fine-tuned: `python pretrain.py --bert base --task mrpc`.

Paper
    Devlin et al. 2019, BERT (arXiv 1810.04805), section 3.1, "Task #1: Masked LM". Some pieces of a
    text are hidden, and the encoder learns to say which they are. No label is needed.

    copies    [CLS] the  com  [MASK] rose [SEP]  the  com  ##pany  [SEP]    its copy lacks 15 %
    given     [CLS] the  com  [MASK] rose [SEP]  it   [MASK] up    [SEP]    a pair as it is given

An encoder that was tuned on single sentences has never seen two texts side by side. A text beside
its own copy teaches it in minutes to look across: what is hidden in one often stands in the other.
`train.py --bert FOLDER` and Hugging Face's library take the folder that is written.

Departs: the paper reads long texts for days, and asks whether one follows the other (Task #2).
Left out: several GPUs; the head for masked words in the folder. A step needs no random state of the
step before, because its number and the seed of the reading decide what it draws.
"""
import math
import random
import sys
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from batches import training_batches
from bert_min import Bert, linear, load_bert
from run import (SCRATCH_SIZES, draw_small_weights, find_encoder, lock_folder, made_here,
                 read_saved)
from support import machine
from support.checkpoints import write_published
from support.datasets import load_task
from support.errors import refuse
from support.files import new_folder, read_lines, write_json, write_whole
from support.options import ABOVE_0, Arguments, check_values, option, run_command
from support.shown import recording
from support.tables import read_pairs
from train import rate

# Axes: B batch, L tokens of the packed pair, d hidden size, M hidden pieces, V vocabulary,
# N layers, H heads

HIDDEN, LOST = 0.15, 0.15   # share of the pieces that are hidden; that a copy lacks
PIECES = 46                 # of a text are read; the rest is cut
HELD_OUT = 256              # texts, or pairs, that are not read: the encoder is measured with them
SAVE_SECONDS = 120.0        # between two writes of last.pt
MANY = 2 ** 31


@dataclass(frozen=True)
class Reading:
    """What is read, and how. Each field is an option."""

    bert: str = option("base", "the encoder, as for train.py; scratch: a small untrained one")
    task: str = option("", "read the training pairs of these tasks, such as mrpc,sick")
    texts: str = option("", "and read these files: tables of pairs, or .txt with one text a line")
    pairs: str = option("copies", "copies: each text beside its copy; given: the pairs as they are",
                        ("copies", "given"))
    out: str | None = option(None, "folder of the new encoder (default: runs/read, -2, -3, ...)")
    steps: int = option(1000, "batches to read", limits=(1, MANY))
    batch_size: int = option(32, "pairs in a batch", limits=(1, MANY))
    lr: float = option(3e-4, "highest learning rate", limits=(ABOVE_0, MANY))
    seed: int = option(0, "seed of copies, order, masked pieces and dropout", limits=(0, MANY))
    data_dir: str = option("data", "folder of data sets and weights; missing ones are downloaded")
    device: str = option("cpu", "cpu, cuda, ... (default: cuda where there is one)")
    precision: str = option("fp32", "the forward pass's numbers (default: bf16 if fast, else fp32)",
                            ("fp32", "bf16"))

    def __post_init__(self):
        check_values(self)
        refuse(not (self.task or self.texts), "expected --task or --texts: what is to be read?")


# ---- Masked words -------------------------------------------------------------------------------

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


# ---- Batches ------------------------------------------------------------------------------------

def read_units(reading: Reading) -> list[tuple]:
    """What is read, each once, in the order of the files: (text,) for copies, (a, b) if given."""
    pairs = []
    for task in filter(None, reading.task.split(",")):
        pairs += [(x.a, x.b) for x in load_task(task, reading.data_dir)[1]["train"]]
    for file in filter(None, reading.texts.split(",")):
        if Path(file).suffix == ".txt":
            pairs += [(line.strip(),) for line in read_lines(file)]
        else:
            pairs += [(x.a, x.b) for x in read_pairs(file, need_label=False)]
    if reading.pairs == "copies":
        pairs = [(text,) for pair in pairs for text in pair]
    refuse(reading.pairs == "given" and any(len(pair) == 1 for pair in pairs),
           f"--pairs given: {reading.texts} has single texts; name a table of pairs")
    return [unit for unit in dict.fromkeys(pairs) if all(unit)]


def encode_units(units, tokenizer):
    """The units with a list of at most PIECES pieces in the place of each text."""
    encoded = iter(tokenizer.encode_texts([text for unit in units for text in unit]))
    units = [tuple(next(encoded).ids[:PIECES] for _ in unit) for unit in units]
    units = [unit for unit in units if all(unit)]  # a text of control characters has no piece
    refuse(len(units) < 20, f"expected 20 texts or more to read, found {len(units)}")
    return units


def copy_of(pieces: list) -> list:
    """The pieces without 15 % of them; at least one stays."""
    draws = torch.rand(len(pieces)).tolist()
    return [piece for piece, draw in zip(pieces, draws) if draw >= LOST] or pieces[:1]


def make_batch(units, tokenizer, seed):
    """The units, packed. It is drawn which side is first. seed: of all that is drawn here and
    afterwards, dropout too.

    Returns: dict of input_ids, segment, int64 (B, L), and mask, bool (B, L), True = real token;
    words, bool (B, L), True = a piece of a text.
    """
    torch.manual_seed(seed)
    ids, segments = [], []
    for unit in units:
        a = unit[0]
        b = unit[1] if len(unit) == 2 else copy_of(a)
        if torch.rand(()) < 0.5:
            a, b = b, a
        start, end = tokenizer.first + a + tokenizer.middle, b + tokenizer.last
        ids.append(torch.tensor(start + end))
        segments.append(torch.tensor([0] * len(start) + [1] * len(end)))
    input_ids = pad_sequence(ids, True, tokenizer.pad_id)  # (B, L)
    mask = input_ids != tokenizer.pad_id  # (B, L)
    special = torch.tensor(tokenizer.first + tokenizer.middle + tokenizer.last)
    batch = {"input_ids": input_ids, "segment": pad_sequence(segments, True), "mask": mask}
    return batch, mask & ~torch.isin(input_ids, special)


def masked_batch(units, tokenizer, seed):
    """make_batch's batch with hidden pieces, and `chosen`; the pieces that were hidden, (M,)."""
    batch, words = make_batch(units, tokenizer, seed)
    pieces, sizes = batch["input_ids"], (tokenizer.mask_id, tokenizer.vocab_size)
    batch["input_ids"], chosen = hide_pieces(pieces, words, *sizes)
    return batch | {"chosen": chosen}, pieces[chosen]


# ---- What an encoder can do ---------------------------------------------------------------------

def only_copies(input_ids: Tensor, segment: Tensor, words: Tensor) -> Tensor:
    """bool (B, L, L): is piece j of the other text the only copy there of piece i?"""
    same = input_ids[:, :, None] == input_ids[:, None]  # (B, L, L)
    across = segment[:, :, None] != segment[:, None]  # (B, L, L)
    same = same & across & words[:, :, None] & words[:, None]  # (B, L, L)
    return same & (same.sum(-1, keepdim=True) == 1)  # (B, L, L)


@torch.inference_mode()
def measure(model, units, tokenizer, device):
    """What the encoder can do with units that it does not read: a dict.

    "right": the share of hidden pieces that it says. "copies": for each layer, the share of its
    attention that a piece gives to its only copy in the head that gives most; nothing is hidden.
    """
    right = hidden = copies = count = 0
    model.eval()
    for start in range(0, len(units), 64):
        some = units[start:start + 64]
        batch, pieces = machine.to_device(masked_batch(some, tokenizer, start), device)
        right += int((model(**batch).argmax(-1) == pieces).sum())
        hidden += len(pieces)
        batch, words = machine.to_device(make_batch(some, tokenizer, start), device)
        only = only_copies(batch["input_ids"], batch["segment"], words)
        with recording() as seen:
            model.bert(**batch)
        for_layers = [(x["attention"] * only[:, None]).sum((0, 2, 3)) for x in seen.values()]
        copies = copies + torch.stack(for_layers).cpu()  # (N, H)
        count += int(only.sum())
    model.train()
    return {"right": right / max(1, hidden), "copies": (copies / max(1, count)).amax(1).tolist()}


# ---- Reading ------------------------------------------------------------------------------------

def start_model(reading, texts):
    """(PairTokenizer, MaskedWords, names of the tensors that the new folder will have)."""
    sizes = SCRATCH_SIZES | dict(max_length=128, dropout=0.0, attention_dropout=0.0)
    tokenizer, config, weights = find_encoder(reading.bert, reading.data_dir, texts, sizes)
    refuse(tokenizer.mask_id is None, f"--bert {reading.bert}: its vocabulary has no mask")
    torch.manual_seed(reading.seed)
    bert, unread = Bert(config), ["pooler.weight", "pooler.bias"]
    if weights is None:
        draw_small_weights(bert)
    else:
        unread = load_bert(bert, weights, reading.bert)
    names = [name for name in bert.state_dict() if name not in unread]
    return tokenizer, MaskedWords(bert).to(reading.device), names


def make_optimizer(model, lr):
    """AdamW; biases and norms have no decay."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": 0.01},
                              {"params": vectors, "weight_decay": 0.0}], lr, fused=True)


def read(reading: Reading, folder: Path, saved: dict | None = None) -> dict:
    """Trains the encoder, then writes it into the folder. Returns: the dict of reading.json.

    saved: the content of the folder's last.pt, from which the reading goes on.
    """
    units = read_units(reading)
    tokenizer, model, names = start_model(reading, [text for unit in units for text in unit])
    units = encode_units(units, tokenizer)
    random.Random(reading.seed).shuffle(units)
    held_out = min(HELD_OUT, len(units) // 10)
    held, units = units[:held_out], units[held_out:]
    optimizer, done = make_optimizer(model, reading.lr), {"step": 0, "seconds": 0.0}
    if saved:
        with made_here(folder / "last.pt"):
            model.load_state_dict(saved["weights"])
            optimizer.load_state_dict(saved["optimizer"])
            done = saved["done"]
    else:
        done["before"] = measure(model, held, tokenizer, reading.device)
    print(f"{folder}: {reading.bert} reads {len(units)} {reading.pairs}, {reading.steps} steps of "
          f"{reading.batch_size}, {reading.device} {reading.precision}")
    read_steps(reading, model, optimizer, tokenizer, units, done, folder)
    weights = {name: x for name, x in model.bert.state_dict().items() if name in names}
    write_published(folder, asdict(model.bert.config), weights)
    tokenizer.save(folder)
    result = {"reading": asdict(reading), "read": len(units), "held_out": held_out,
              "seconds": round(done["seconds"], 1), "before": done["before"],
              "after": measure(model, held, tokenizer, reading.device),
              "versions": machine.versions(reading.device)}
    write_json(folder / "reading.json", result)
    (folder / "last.pt").unlink()
    return result


def read_steps(reading, model, optimizer, tokenizer, units, done, folder):
    """The loop: batch, forward, loss, backward, clip, rate, step; last.pt now and then.

    done: dict of the steps done and their seconds, which the loop counts on.
    """
    lengths = [sum(map(len, unit)) for unit in units]
    in_epoch, order = math.ceil(len(units) / reading.batch_size), []
    last, written = time.monotonic(), -SAVE_SECONDS
    with tqdm(total=reading.steps, initial=done["step"], leave=False, disable=None) as bar:
        for step in range(done["step"], reading.steps):
            now = time.monotonic()
            done["step"], done["seconds"], last = step, done["seconds"] + now - last, now
            if now - written >= SAVE_SECONDS:
                state = {"reading": asdict(reading), "done": done, "weights": model.state_dict(),
                         "optimizer": optimizer.state_dict()}
                write_whole(folder / "last.pt", lambda file: torch.save(state, file))
                written = time.monotonic()
            epoch, place = divmod(step, in_epoch)
            if place == 0 or not order:
                order = training_batches(lengths, reading.batch_size, f"{reading.seed} {epoch}")
            batch = masked_batch([units[i] for i in order[place]], tokenizer,
                                 reading.seed * MANY + step)
            batch, pieces = machine.to_device(batch, reading.device)
            with machine.autocast(reading.device, reading.precision):
                scores = model(**batch)
            loss = masked_loss(scores, pieces)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = reading.lr * rate(step, reading.steps, 0.05)
            optimizer.step()
            optimizer.zero_grad()
            bar.update()
            if step % 10 == 0:
                refuse(not norm.isfinite(), f"the loss is {loss} at step {step}: lower --lr, or "
                       "try --precision fp32")
                bar.set_postfix_str(f"loss={loss:.3f}", False)
    done["seconds"] += time.monotonic() - last


# ---- The command line ---------------------------------------------------------------------------

HELP = """Trains an encoder to predict masked word pieces of pairs, without labels (reading).

  python pretrain.py --bert base --task mrpc --out encoders/read
  python train.py --bert encoders/read --task mrpc"""


def main(argv=None):
    """The command line. Raises ValueError or OSError for a user's mistake."""
    parser = Arguments("pretrain.py", HELP)
    for f in fields(Reading):
        parser.add_field(parser, f)
    parser.add_argument("--resume", metavar="FOLDER", help="go on with the reading in this folder")
    given, saved = parser.parse(argv), None
    if "resume" in given:
        folder = Path(given.pop("resume"))
        refuse(given, f"--resume: the reading has its own {', '.join(given)}; leave that out")
        refuse((folder / "reading.json").exists(), f"{folder}: was read to its end")
        saved = read_saved(folder / "last.pt")
        with made_here(folder / "last.pt"):
            reading = Reading(**saved["reading"])
    else:
        device = given.get("device", machine.best_device())
        reading = Reading(**{"device": device, "precision": machine.fast_precision(device)} | given)
        folder = new_folder(reading.out, "read")
    machine.prepare_device(reading.device)
    with machine.torch_session({}), lock_folder(folder):
        result = read(reading, folder, saved)
    for name in ("before", "after"):
        copies = max(result[name]["copies"])
        print(f"{name:6} {100 * result[name]['right']:5.1f} % of the hidden pieces are right; the "
              f"best head gives {100 * copies:.1f} % of a piece's attention to its copy")
    print(f"python train.py --bert {folder}")


if __name__ == "__main__":
    sys.exit(run_command(main, "pretrain.py"))
