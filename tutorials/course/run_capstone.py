"""Runs a capstone where no student's code can do harm (../sandbox.py): a class, given weights."""
import torch
from bert_min import BertConfig
from capstone import Dafa

FREE = {"w_d.bias", "w_sstar.bias"}   # they add one number to all scores of a row: nothing changes


def layer(weights, width, hidden, q, k, v, mask, prior, words, segments):
    """What `attend` returns, and name -> gradient of the weights that get one."""
    config = BertConfig(29, hidden.shape[-1], 1, q.shape[1], 11, 13, attention_dropout=0.0)
    made = Dafa(config, attention_size=width).double().eval()
    own = {name: value for name, value in made.state_dict().items() if name in FREE}
    made.load_state_dict({name: x for name, x in weights.items() if name not in FREE} | own)
    out = made.attend(hidden, q, k, v, mask, made.spread(prior, words, segments), None)
    if getattr(out, "dtype", None) != torch.float64 or out.shape != hidden.shape:
        raise TypeError("attend returned no float64 tensor (B, L, d)")
    if out.requires_grad:
        out.square().sum().backward()
    found = {name: p.grad for name, p in made.named_parameters() if p.grad is not None}
    return out.detach(), found
