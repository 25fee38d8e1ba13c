"""Breaks the code on purpose: every wrong version below must make a test fail.

    python tests/mutants.py [words]        only mutants whose file or name holds one of the words

A mutant is (name, old text, new text, -k expression). The old text stands exactly once in the module; the new one
replaces it in a copy of the project, and the module's test file runs there, narrowed by the expression. Prints killed
or survived for each mutant; the exit status is 1 if one survives, if an old text is not found once, or if the unchanged
project fails the same tests. Takes a few minutes on two cores.
"""
import multiprocessing
import os
import shutil
import sys
import tempfile
from multiprocessing.connection import wait
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}      # before torch is imported
import hypothesis  # noqa: E402 - imported once here: each run below is a fork, and starts at once
import nltk  # noqa: F401, E402
import pytest  # noqa: E402
import tokenizers  # noqa: F401, E402
import torch  # noqa: F401, E402

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300                # a run that takes longer hangs
# One failing example is enough: nobody reads the smallest.
hypothesis.settings.register_profile("mutants", phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate])
hypothesis.settings.load_profile("mutants")

MUTANTS = {
    "semmatch.py": [
        # additive scores
        ("sigmoid without its inverse", ".reciprocal_()", "", "additive"),
        ("keys and queries exchanged", "keys[b, None], queries[b, i, None]",
         "queries[b, None], keys[b, i, None]", "additive"),
        ("e^x for e^(2x)", "(2 * keys).exp()", "keys.exp()", "additive"),
        ("e^(x+y) for e^(2(x+y))", "(k + q).mul_(-2)", "(k + q).mul_(-1)", "additive"),
        ("sigmoid of the other sign", "(k + q).mul_(-2)", "(k + q).mul_(2)", "additive"),
        ("parts always split", "ctx.split = keys.device", "ctx.split = True or keys.device", "large_parts"),
        ("limit of float64 for float32", "43.0 if keys.dtype == torch.float32 else 350.0", "350.0", "large_parts"),
        ("scores without their constant", "return w.sum() - 2 * scores", "return -2 * scores", "additive"),
        ("slope of one block only", "d_keys[b] += slope.sum(1)", "d_keys[b] = slope.sum(1)", "additive"),
        ("sum over queries for queries", "slope.sum(2)", "slope.sum(1)", "additive"),
        ("slope r + r²", "r.addcmul_(r, r, value=-1)", "r.addcmul_(r, r, value=1)", "additive"),
        ("half the gradient of w", "d_w -= 2 * (e[b, i]", "d_w -= (e[b, i]", "additive"),
        ("gradient of w without its constant", "e.sum().expand_as(w).clone()", "torch.zeros_like(w)",
         "additive"),
        ("gradient without w", "return d_keys.mul_(4 * w)", "return d_keys.mul_(4)", "additive"),
        ("queries' gradient without w", "d_queries.mul_(4 * w), d_w", "d_queries.mul_(4), d_w", "additive"),
        ("autocast reaches the scores", "enabled=False", "enabled=torch.is_autocast_enabled('cpu')",
         "autocast"),
        ("all rows in one block", "max(1, size // row)", "queries.shape[1]", "additive"),
        ("all pairs in one block", "max(1, size // (row * queries.shape[1]))", "len(keys)", "additive"),
        # DAFA Eq. (6)
        ("6: product kept in the intended form", "if printed else scores + multiplier.log()[:, None]",
         "if printed else scores * multiplier[:, None]", "calibrated or prior"),
        ("6: sum in the printed form", "scores * multiplier[:, None] if printed",
         "scores + multiplier[:, None] if printed", "calibrated"),
        ("6: multiplier added without log, fused path", "bias = multiplier.log().masked",
         "bias = multiplier.masked", "calibrated or dafa_attention_oracle"),
        ("6: no square root", "q.shape[-1] ** 0.5", "q.shape[-1]", "calibrated"),
        ("6: no scale", "@ k.transpose(2, 3) / q.shape[-1] ** 0.5", "@ k.transpose(2, 3)", "calibrated"),
        ("6: prior transposed", "multiplier.log()[:, None]\n", "multiplier.log().mT[:, None]\n", "calibrated"),
        ("6: mask left out, fused path", '.masked_fill(~mask[:, None], float("-inf"))  #', "  #",
         "calibrated or padding"),
        ("6: mask flipped, fused path", "masked_fill(~mask[:, None], float", "masked_fill(mask[:, None], float",
         "calibrated"),
        ("6: queries masked instead of keys", "masked_fill(~mask[:, None], float",
         "masked_fill(~mask[..., None], float", "calibrated"),
        ("6: mask of another axis", "attention_weights(scores, mask[:, None, None])",
         "attention_weights(scores, mask[:, None, :, None])", "calibrated"),
        ("6: printed ignored", "if not printed and trace is None", "if trace is None", "calibrated"),
        ("6: calibration after the softmax, unnormalised",
         "    if trace is not None:\n        trace[\"calibrated\"]",
         "    weights = weights * multiplier[:, None]\n    if trace is not None:\n        trace[\"calibrated\"]",
         "calibrated"),
        ("6: no dropout in the fused path", "dropout_p=dropout", "dropout_p=0.0", "dropout"),
        ("6: no dropout in the explicit path", "F.dropout(weights, dropout)", "weights", "dropout"),
        ("6: dropout in evaluation", "dropout = self.dropout if self.training else 0.0",
         "dropout = self.dropout", "dropout"),
        ("6: 1 not added", "prior if 6 in self.printed else 1 + prior", "prior", "matcher_spreads"),
        ("6: 1 added as typeset", "prior if 6 in self.printed else 1 + prior", "1 + prior", "matcher_spreads"),
        ("6: one cross block only", "transposed = in_b[:, :, None] & in_a[:, None, :]",
         "transposed = in_b[:, :, None] & in_b[:, None, :] & False", "spread_prior"),
        ("6: second block not transposed", "values.transpose(1, 2), block", "values, block", "spread_prior"),
        ("6: inside one sentence as well", "in_a[:, :, None] & in_b[:, None, :]",
         "in_a[:, :, None] & (word_index >= 0)[:, None]", "spread_prior"),
        ("6: specials take the first word", "in_a, in_b = (word_index >= 0) & (segment == 0)",
         "in_a, in_b = (word_index >= -1) & (segment == 0)", "spread_prior"),
        ("6: words of a clipped to m", "i = word_index.clamp(0, prior.shape[1] - 1)",
         "i = word_index.clamp(0, min(prior.shape[1:]) - 1)", "spread_prior"),
        ("6: first pair's prior for all", "prior[batch, i", "prior[batch * 0, i", "spread_prior"),
        ("6: 0 elsewhere", "values, 1.0)", "values, 0.0)", "spread_prior"),
        ("6: Dep from the plain weights", "calibrated_attention(q, k, v, prior,",
         "calibrated_attention(q, k, v, prior * 0 + 1,", "dafa_attention_oracle"),
        ("6: Sem calibrated", "sem = super().attend(hidden, q, k, v, mask, None, trace)",
         "sem = super().attend(hidden, q, k, v, mask, None, trace)\n"
         "        sem = merge_heads(calibrated_attention(q, k, v, prior, mask))",
         "dafa_attention_oracle"),
        ("6: heads not merged back", "return merge_heads(out.unflatten(0, (-1, self.heads)))",
         "return out.unflatten(0, (-1, self.heads)).flatten(2).mT.reshape(len(mask), -1, self.heads * out.shape[-1])",
         "dafa_attention_oracle"),
        ("6: masks of other pairs per head", "mask.repeat_interleave(self.heads, 0)",
         "mask.repeat(self.heads, 1)", "dafa_attention_oracle"),
        ("6: scope ignored", 'if self.scope == "hidden":', "if True:", "dafa_attention_oracle"),
        # DAFA Eq. (7)
        ("7: guide left out", "keys, queries = W_values(values), W_guide(guide)",
         "keys, queries = W_values(values), 0 * W_guide(guide)", "guided"),
        ("7: guide and values exchanged", "keys, queries = W_values(values), W_guide(guide)",
         "keys, queries = W_values(guide), W_guide(values)", "guided"),
        ("7: guides attended", "weights.to(values.dtype) @ values", "weights.to(values.dtype) @ guide",
         "guided"),
        ("7: weights transposed", "weights.to(values.dtype) @ values", "weights.mT.to(values.dtype) @ values",
         "guided"),
        ("7: mask left out", "attention_weights(scores, mask[:, None])",
         "attention_weights(scores, mask[:, None] | True)", "guided"),
        ("7: softmax over guides", "weights = attention_weights(scores, mask[:, None])",
         "weights = attention_weights(scores.mT, mask[:, None]).mT", "guided"),
        ("7: no tanh as typeset", "keys.tanh() @ w_keys", "keys @ w_keys", "guided"),
        ("7: halves of w exchanged as typeset", "w_keys, w_queries = w", "w_queries, w_keys = w", "guided"),
        ("7: as typeset, but with influence", "scores = (keys.tanh() @ w_keys)[:, None] +",
         "scores = (keys.tanh() @ w_keys)[:, None] *", "guided or guide"),
        ("7: narrow scores", "torch.promote_types(keys.dtype, torch.float32)", "keys.dtype", "wide"),
        ("7: second guide is d, not d*", "guided_attention(sem, d_star, mask",
         "guided_attention(sem, dep, mask", "dafa_attention_oracle"),
        ("7: halves exchanged", "guided_attention(dep, sem, mask", "guided_attention(sem, dep, mask",
         "dafa_attention_oracle"),
        ("7: one w for both halves", "self.W_dstar, self.w_sstar, printed", "self.W_dstar, self.w_d, printed",
         "dafa_attention_oracle"),
        ("7: printed ignored", "printed = 7 in self.printed", "printed = False", "dafa_attention_oracle"),
        ("7: one half replaces both", "s_star, by_dep = guided", "d_star, by_dep = guided",
         "dafa_attention_oracle"),
        ("7: ablation ignored", '        if "cross-attention" not in self.without:\n            width',
         "        if True:\n            width", "pretrained or learns"),
        # DAFA Eq. (8)
        ("8: gates exchanged", "g * s_hat + (1 - g) * d_hat", "g * d_hat + (1 - g) * s_hat", "fusion"),
        ("8: concatenation reversed", "torch.cat([d_hat, s_hat], -1)", "torch.cat([s_hat, d_hat], -1)",
         "fusion"),
        ("8: gate sees the inputs", "torch.cat([d_hat, s_hat], -1)", "torch.cat([dep, sem], -1)", "fusion"),
        ("8: no tanh", "W_dep(dep).tanh(), W_sem(sem).tanh()", "W_dep(dep), W_sem(sem).tanh()", "fusion"),
        ("8: tanh gate", "-1)).sigmoid() if W_g", "-1)).tanh() if W_g", "fusion or gates"),
        ("8: open gate without W_g", "new_full((*sem.shape[:2], 1), 0.5)", "new_full((*sem.shape[:2], 1), 1.0)",
         "fusion"),
        ("8: weights exchanged", "gated_fusion(s_star, d_star, self.W_shat, self.W_dhat",
         "gated_fusion(s_star, d_star, self.W_dhat, self.W_shat", "dafa_attention_oracle"),
        ("8: the unguided signals", "gated_fusion(s_star, d_star,", "gated_fusion(sem, dep,",
         "dafa_attention_oracle"),
        # DAFA Eq. (9)
        ("9: l alone", "(l if printed else sem + l)", "l", "filtration"),
        ("9: printed ignored", "(l if printed else sem + l)", "(sem + l)", "filtration"),
        ("9: v instead of s", "torch.cat([sem, W_v(v)], -1)", "torch.cat([v, W_v(v)], -1)", "filtration"),
        ("9: concatenation reversed", "torch.cat([sem, W_v(v)], -1)", "torch.cat([W_v(v), sem], -1)",
         "filtration"),
        ("9: v not mapped", "torch.cat([sem, W_v(v)], -1)", "torch.cat([sem, v], -1)", "filtration"),
        ("9: no tanh", "l = f * W_l(v).tanh()", "l = f * W_l(v)", "filtration"),
        ("9: 1 - f", "l = f * W_l(v).tanh()", "l = (1 - f) * W_l(v).tanh()", "filtration"),
        ("9: f before tanh", "l = f * W_l(v).tanh()", "l = (f * W_l(v)).tanh()", "filtration"),
        ("9: closed gate without W_f", "v.new_ones(*v.shape[:2], 1)", "v.new_zeros(*v.shape[:2], 1)",
         "filtration"),
        ("9: s* instead of s", "filtration_gate(sem, v, self", "filtration_gate(s_star, v, self",
         "dafa_attention_oracle"),
        ("9: printed never passed", "self.W_f, 9 in self.printed", "self.W_f, False", "dafa_attention_oracle"),
        # the method and the model
        ("fusion: sum, not mean", "(sem + dep) / 2", "sem + dep", "dafa_attention_oracle"),
        ("fusion: parameters kept", '        if "fusion" in self.without:\n            return\n', "",
         "pretrained"),
        ("gates: ablation ignored", 'gates = "gates" not in self.without', "gates = True",
         "dafa_attention_oracle or pretrained"),
        ("trace: gates exchanged", "trace.update(g=g.detach(), f=f.detach())",
         "trace.update(g=f.detach(), f=g.detach())", "dafa_attention_oracle"),
        ("trace: guides exchanged", "semantic_guided=by_sem.detach(), dependency_guided=by_dep.detach()",
         "semantic_guided=by_dep.detach(), dependency_guided=by_sem.detach()", "dafa_attention_oracle"),
        ("trace: kept graph", 'trace["calibrated"] = weights.detach()', 'trace["calibrated"] = weights',
         "graph"),
        ("layers: always the first", "if i in layers else", "if i == 0 else", "layers"),
        ("layers: every layer", "if i in layers else", "if True else", "layers"),
        ("layers: not validated", "if not layers or not set(layers) <= set(range(config.num_layers)):", "if False:",
         "layers_outside"),
        ("logits without the classifier's bias", "self.classifier = linear(config.hidden_size, classes)",
         "self.classifier = linear(config.hidden_size, classes, bias=False)", "plain_model"),
        ("logits of the first token", "_, pooled = self.bert(input_ids, segment, mask, prior, trace)",
         "pooled = self.bert(input_ids, segment, mask, prior, trace)[0][-1][:, 0]", "plain_model"),
    ],
    "priors.py": [
        # DAFA Eqs. (1)-(3)
        ("1: tails alone", "1.0 * same_words[a.heads[:, None], b.heads] +", "1.0 *", "tree or hand"),
        ("1: heads alone", "b.heads] + same_words[1:, 1:]", "b.heads]", "tree or hand"),
        ("1: head or tail", "1.0 * same_words[a.heads[:, None], b.heads] + same_words[1:, 1:]",
         "1.0 * (same_words[a.heads[:, None], b.heads] | same_words[1:, 1:])", "tree or hand"),
        ("1: heads one place off", "same_words[a.heads[:, None], b.heads]",
         "same_words[1:, 1:][a.heads[:, None] - 1, b.heads - 1]", "tree or hand"),
        ("1: sum with r", "agreeing * np.where(same_types, theta, 1.0)",
         "agreeing + np.where(same_types, theta, 1.0)", "tree or hand"),
        ("2: words with their case", "sys.intern(word.casefold())", "sys.intern(word)", "tree or subgraph"),
        ("2: lower instead of casefold", "sys.intern(word.casefold())", "sys.intern(word.lower())",
         "tree or subgraph"),
        ("2: ROOT is the word none", "np.array([None, *(sys", 'np.array(["none", *(sys', "root or tree"),
        ("2: ROOT equals nothing", "np.array([None, *(sys", "np.array([np.nan, *(sys", "root or tree"),
        ("3: θ and 1 exchanged", "same_types, theta, 1.0", "same_types, 1.0, theta", "tree or hand"),
        ("3: θ fixed", "same_types, theta, 1.0", "same_types, 2.0, 1.0", "tree or ties"),
        ("3: relations of the heads", "same_types = a.types[1:, None] == b.types[1:]",
         "same_types = a.types[a.heads][:, None] == b.types[b.heads]", "tree or hand"),
        ("3: 0 for other relations", "same_types, theta, 1.0", "same_types, theta, 0.0", "tree or hand"),
        # DAFA Eq. (4)
        ("4: words alone match", "match = (a.symbols[:, None] == b.symbols) &",
         "match = (a.symbols[:, None] == b.symbols) |", "subgraph"),
        ("4: from the root down", "np.argsort(-a.depths[i])", "np.argsort(a.depths[i])", "subgraph or chain"),
        ("4: into heads that do not match", "order = order[match[p, q][order]]", "order = order[p[order] > 0]",
         "subgraph"),
        ("4: no recursion", "S[p, q] += nu * S[i, j]", "S[p, q] += nu * alpha", "subgraph or chain"),
        ("4: best child only", "S[p, q] += nu * S[i, j]", "S[p, q] = max(S[p, q], alpha + nu * S[i, j])",
         "subgraph"),
        ("4: ν ignored", "S[p, q] += nu * S[i, j]", "S[p, q] += S[i, j]", "subgraph or chain"),
        ("4: α ignored", "S = float(alpha) * match", "S = 1.0 * match", "subgraph"),
        ("4: α once as typeset", "S = S * np.outer(children_a, children_b)",
         "S = S * (np.outer(children_a, children_b) > 0)", "subgraph or printed"),
        ("4: children of one side", "S = S * np.outer(children_a, children_b)", "S = S * children_a[:, None]",
         "subgraph or printed"),
        ("4: printed ignored", "    if printed:\n        children_a", "    if False:\n        children_a",
         "subgraph or printed"),
        # DAFA Eq. (5)
        ("5: sum of weights", "np.outer(tf_a, tf_b)  #", "np.add.outer(tf_a, tf_b)  #",
         "equation_5 or ablations"),
        ("5: weight of one word", "np.outer(tf_a, tf_b)  #", "np.outer(tf_a, np.ones_like(tf_b))  #",
         "equation_5 or ablations"),
        ("5: M times S", "np.abs(M + S)", "np.abs(M * S)", "equation_5 or ablations"),
        ("5: difference", "np.abs(M + S)", "np.abs(M - S)", "equation_5 or ablations"),
        ("5: printed 4 never passed", "printed=4 in printed", "printed=False", "equation_5"),
        ("5: ablation tree ignored", '0 if "tree" in without else', "", "equation_5 or ablations"),
        ("5: ablation subgraph ignored", '0 if "subgraph" in without else', "", "equation_5 or ablations"),
        ("5: ablation tfidf ignored", 'if "tfidf" in without else', "if False else", "equation_5 or ablations"),
        ("5: not divided by the mean", "tf / tf.mean() if words", "tf if words", "tf_idf"),
        ("5: unit length", "tf / tf.mean() if words", "tf / np.sqrt((tf ** 2).sum()) if words", "tf_idf"),
        ("5: df counts words, not sentences", "update({word.casefold() for word in words})",
         "update([word.casefold() for word in words])", "tf_idf"),
        ("5: without the last 1", "self.df[w])) + 1)", "self.df[w])))", "tf_idf"),
        ("5: unsmoothed df", "(1 + self.N) / (1 + self.df[w])", "(1 + self.N) / max(1, self.df[w])", "tf_idf"),
        ("5: tf left out", "count[w] * (math", "1 * (math", "tf_idf"),
    ],
    "bert_min.py": [
        ("fused mask flipped", "attn_mask=mask[:, None, None, :]", "attn_mask=~mask[:, None, None, :]",
         "layer_equals or padding"),
        ("fused mask on queries", "attn_mask=mask[:, None, None, :]", "attn_mask=mask[:, None, :, None]",
         "layer_equals or padding"),
        ("no fused mask", "attn_mask=mask[:, None, None, :], ", "", "layer_equals or padding"),
        ("no square root", "/ math.sqrt(q.shape[-1])", "/ q.shape[-1]", "layer_equals"),
        ("no scale", " / math.sqrt(q.shape[-1])", "", "layer_equals"),
        ("scores transposed", "scores = q @ k.transpose(-1, -2)", "scores = k @ q.transpose(-1, -2)",
         "layer_equals"),
        ("mask flipped", "scores.masked_fill(~mask", "scores.masked_fill(mask",
         "attention_weights or layer_equals"),
        ("mask of -10000", "torch.finfo(scores.dtype).min", "-1e4", "attention_weights"),
        ("rows without a key are uniform", "return weights.masked_fill(~mask, 0.0)", "return weights",
         "attention_weights or without_a_key"),
        ("narrow softmax", "torch.promote_types(scores.dtype, torch.float32)", "scores.dtype",
         "attention_weights"),
        ("softmax over queries", ".min).softmax(-1)", ".min).softmax(-2)", "attention_weights or layer_equals"),
        ("heads interleaved", "x.unflatten(-1, (heads, -1)).transpose(1, 2)",
         "x.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2)", "layer_equals or transformers"),
        ("heads not moved back", "x.transpose(1, 2).flatten(2)", "x.reshape(x.shape[0], x.shape[2], -1)",
         "layer_equals"),
        ("keys are queries", "k = split_heads(self.key(hidden)", "k = split_heads(self.query(hidden)",
         "layer_equals"),
        ("no first residual", "self.attention_norm(hidden + self.dropout(mixed))",
         "self.attention_norm(self.dropout(mixed))", "layer_equals"),
        ("no second residual", "self.output_norm(hidden + self", "self.output_norm(self", "layer_equals"),
        ("norms exchanged", "hidden = self.attention_norm(", "hidden = self.output_norm(", "layer_equals"),
        ("approximate gelu", '{"gelu": F.gelu,', '{"gelu": functools.partial(F.gelu, approximate="tanh"),',
         "layer_equals or transformers"),
        ("epsilon of torch", "self.attention_norm = linear(d, d), nn.LayerNorm(d, config.layer_norm_eps)",
         "self.attention_norm = linear(d, d), nn.LayerNorm(d)", "layer_equals or transformers or initial"),
        ("position offset ignored", "self.position.weight[self.offset:self.offset + input_ids.shape[1]]",
         "self.position.weight[:input_ids.shape[1]]", "embeddings or transformers"),
        ("positions of the batch", "self.position.weight[self.offset:self.offset + input_ids.shape[1]]",
         "self.position.weight[self.offset + 1:self.offset + 1 + input_ids.shape[1]]",
         "embeddings or transformers"),
        ("no segments", "+ position + self.segment(segment)", "+ position + self.segment(segment * 0)",
         "embeddings or transformers"),
        ("RoBERTa reads segments", "if self.segments == 1:", "if False:",
         "transformers or embeddings or packing"),
        ("pooled without tanh", "torch.tanh(self.pooler(hidden[:, 0]))", "self.pooler(hidden[:, 0])",
         "pooler or transformers"),
        ("pooled from the last token", "self.pooler(hidden[:, 0])", "self.pooler(hidden[:, -1])",
         "pooler or transformers"),
        ("kernels not transposed", 'array.T if name.endswith("kernel") else array', "array",
         "transformers or layouts"),
        ("CRC of tensors ignored", "if verify and _masked_crc(raw) != info[6]:", "if False:",
         "flipped or broken"),
        ("CRC not masked", "+ 0xA282EAD8) &", ") &", "bit_exact or transformers"),
        ("missing names accepted", '"missing": sorted(set(plain) - new - set(arrays))', '"missing": []',
         "one_error"),
        ("unexpected names accepted", '"unexpected": sorted(set(arrays) - set(plain))', '"unexpected": []',
         "one_error"),
        ("unsafe pickle", 'map_location="cpu", weights_only=True', 'map_location="cpu", weights_only=False',
         "pickle"),
        ("half of the room each", "keep = min(n, max(budget - m, (budget + 1) // 2))",
         "keep = min(n, (budget + 1) // 2)", "longest_first"),
        ("b alone is truncated", "keep = min(n, max(budget - m, (budget + 1) // 2))", "keep = min(n, budget)",
         "longest_first"),
        ("a truncated on a tie", "(budget + 1) // 2", "budget // 2", "longest_first"),
        ("truncated at the start", "a.ids[:n] + self.middle", "a.ids[len(a.ids) - n:] + self.middle",
         "packing or long"),
        ("separator in segment 1", "[0] * (len(ids) - m - len(self.last)) + [1] * (m + len(self.last))",
         "[0] * (len(ids) - m - 2 * len(self.last)) + [1] * (m + 2 * len(self.last))", "packing"),
        ("one </s> between sentences", '2 if kind == "roberta" else 1', "1", "packing or roberta"),
        ("last of equal overlaps", "overlap.argmax(1), -1)",
         "overlap.shape[1] - 1 - overlap[:, ::-1].argmax(1), -1)", "overlapped"),
        ("touching is overlapping", "np.where(overlap.max(1) > 0", "np.where(overlap.max(1) >= 0",
         "overlapped"),
        ("case ignored", "BertNormalizer(lowercase=lower_case)", "BertNormalizer(lowercase=True)",
         "google or case"),
        ("archives may climb out", ".resolve().is_relative_to(inside)", ".resolve().is_absolute()", "unzip"),
        ("length of a download ignored", '("bytes", total, got), ', "", "download"),
        ("hash of a download ignored", '("sha256", sha256, digest', '("sha256", None, digest', "download"),
        ("size of a download ignored", '("bytes", size, got),', '', "download"),
    ],
}


def copy(folder):
    """The project without its data, history and caches."""
    folder.mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.suffix in (".py", ".md", ".txt", ".toml", ".cfg", ".ini"):
            shutil.copy(path, folder)
        elif path.name in ("tests", "assets"):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    return folder


def pytest_in(folder, file, expression):
    """What a child does: run the module's tests and end with pytest's status. Output goes to the file `output`."""
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1), os.dup2(output, 2)
    os.chdir(folder)
    sys.path[0] = str(folder)
    select = ["-k", expression] if expression else []
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"tests/test_{file}", *select]))


def prepare(folder, file, name, old, new, expression):
    """A child that will test the mutant, or what is wrong with it. The mutant "" is the unchanged project."""
    path = copy(folder) / file
    source = path.read_text("utf-8")
    if name and (source.count(old) != 1 or old == new):
        return f"OLD TEXT FOUND {source.count(old)} TIMES"
    path.write_text(source.replace(old, new) if name else source, "utf-8")
    return multiprocessing.get_context("fork").Process(target=pytest_in, args=(folder, file, expression))


def verdicts(mutants, workers=2):
    """(mutant, verdict) as they come, from children that run side by side."""
    waiting, running = list(mutants), {}
    with tempfile.TemporaryDirectory() as temp:
        while waiting or running:
            if waiting and len(running) < workers:
                mutant, folder = waiting.pop(0), Path(temp) / str(len(waiting))
                child = prepare(folder, *mutant)
                if isinstance(child, str):
                    yield mutant, child
                    continue
                child.start()
                running[child.sentinel] = child, mutant, folder
                continue
            done = wait(running, SECONDS)
            for sentinel in done or list(running):
                child, mutant, folder = running.pop(sentinel)
                if not done:
                    child.kill()
                child.join()
                names = {0: "SURVIVED" if mutant[1] else "passes", 1: "killed", 5: "NO TEST SELECTED", -9: "TOO SLOW"}
                said = "\n".join((folder / "output").read_text("utf-8", "replace").splitlines()[-12:])
                verdict = names.get(child.exitcode, "BROKEN")
                yield mutant, verdict if verdict == "killed" and mutant[1] else f"{verdict}\n{said}"
                shutil.rmtree(folder)


def main():
    words = sys.argv[1:]
    chosen = [(file, *mutant) for file, mutants in MUTANTS.items() for mutant in mutants
              if not words or any(word in file or word in mutant[0] for word in words)]
    for (file, *_), verdict in verdicts([(file, "", "", "", "") for file in sorted({file for file, *_ in chosen})]):
        if not verdict.startswith("passes"):
            return f"the unchanged project fails tests/test_{file}:\n{verdict}"
    killed = 0
    for (file, name, *_), verdict in verdicts(chosen):
        killed += verdict == "killed"
        print(f"{file}  {name}: {verdict}", flush=True)
    print(f"{killed} of {len(chosen)} killed")
    return killed < len(chosen)


if __name__ == "__main__":
    sys.exit(main())
