"""Classic mistakes: what somebody who misreads an equation would write in its function.

    MISTAKES["semmatch.difference_scores"]    [(right text, wrong text), ...]

A key is a function's place, "module.function" or "module.Class.method". A mistake takes the place
of text that stands once in the function; some mistakes have a second pair, right text, wrong text.
tests/check_mistakes.py makes each one: the function's oracle must fail.
"""
MISTAKES = {
    # BERT
    "bert_min.split_heads": [
        ("unflatten(-1, (heads, -1)).transpose(1, 2)", "reshape(len(x), heads, x.shape[1], -1)")],
    "bert_min.merge_heads": [("x.transpose(1, 2).flatten(2)", "x.reshape(len(x), x.shape[2], -1)")],
    "bert_min.attention_weights": [
        (".softmax(-1)", ".softmax(-2)"),
        ("torch.finfo(scores.dtype).min", "-torch.inf", ".masked_fill(~mask, 0.0)", ""),
        (".masked_fill(~mask, 0.0)", "")],
    "bert_min.attention": [(" / math.sqrt(q.shape[-1])", "")],

    # DABERT
    "semmatch.difference_scores": [
        ("l1_distances(q, k)", "(q[..., None, :] - k[..., None, :, :]).sum(-1)"),
        ("l1_distances(q, k)", "(q[..., None, :] - k[..., None, :, :]).square().sum(-1)")],
    "semmatch.difference_attention": [("beta = difference", "beta = -difference")],
    "semmatch.guided_attention": [
        # ⊕ as concatenation, so that the guide cancels; guide and values exchanged
        ("additive_scores(W_values(values), W_guide(guide), w.weight[0])",
         "w(W_values(values).tanh()).mT + w(W_guide(guide).tanh())"),
        ("W_values(values), W_guide(guide)", "W_guide(guide), W_values(values)")],
    "semmatch.joined_signal": [("[signal, found]", "[found, signal]"), (".tanh()", "")],
    "semmatch.gated_fusion": [
        ("W_other(other).tanh(), W_sem(sem).tanh()", "W_other(sem).tanh(), W_sem(other).tanh()")],
    "semmatch.filtration_gate": [("return sem + f", "return f"), ("[sem, W_v(v)]", "[sem, v]")],

    # DAFA
    "priors.tree_similarity": [
        ("same_types, theta, 1.0", "same_types, 1.0, theta"), ("[0, 0] = root", "[0, 0] = False")],
    "priors.subgraph_similarity": [
        ("+= nu * S[i, j]", "+= alpha + nu * S[i, j]"),         # α for each pair of children, too
        # The root first, the leaves last; the last word first, not the deepest
        ("matching_children(match, a, b)", "reversed([*matching_children(match, a, b)])"),
        ("matching_children(match, a, b)", "sorted(matching_children(match, a, b))[::-1]")],
    "priors.TfIdf.weights": [("tf / tf.mean()", "tf / np.linalg.norm(tf)")],
    "priors.dependency_matrix": [
        ("np.outer(tf_a, tf_b)", "tf_a[:, None]"), ("np.abs(M + S)", "np.abs(M)")],
    "semmatch.spread_prior": [
        ("in_a, in_b =", "in_b, in_a ="),
        ("torch.where(cross.transpose(1, 2), values.transpose(1, 2), block)", "block"),
        ("clamp(0, prior.shape[2] - 1)", "clamp(0, min(prior.shape[1:]) - 1)"),
        ("(word_index >= 0) & (segment == 0)", "segment == 0")],        # special tokens take part
    "semmatch.dependency_factor": [
        ("M_F.log1p()", "M_F.log()"), ("M_F.log1p()", "1 + M_F")],
    "semmatch.calibrated_attention": [
        # scores multiplied; M divided by the root, too
        ("mask, ln_M", "mask, (ln_M[:, None] - 1) * (q @ k.mT) / q.shape[-1] ** 0.5"),
        ("mask, ln_M", "mask, ln_M / q.shape[-1] ** 0.5")],

    # External knowledge
    "semmatch.knowledge_scores": [
        (" / hidden.shape[-1] ** 0.5", ""),
        ("hidden.shape[-1] ** 0.5 + bias", "hidden.shape[-1] ** 0.5 * (1 + bias)")],
    "semmatch.relation_indicator": [
        ("relations.any(-1)", "relations.all(-1)"),
        ("relations.any(-1)", "relations[..., :4].any(-1)")],           # no co-hyponyms
    "priors.relation_matrix": [
        # hypernym and hyponym exchanged; antonyms are synonyms, too
        ("return k  #", "return k[..., [0, 1, 3, 2, 4]]  #"),
        ("return k  #", "return k | k[..., 1:2] & np.eye(5, dtype=bool)[0]  #")],
    "semmatch.co_attention": [
        ("torch.logaddexp(ln_omega, ln_omega.transpose(1, 2)) - math.log(2)",
         "(ln_omega + ln_omega.transpose(1, 2)) / 2")],
    "semmatch.knowledge_factor": [
        (" - mean.clamp(min=1e-30).log()[:, None, None]", ""),
        ("cross.sum((1, 2)).clamp(min=1)", "cross.shape[1] ** 2")],

    # Equal words
    "semmatch.mean_attention_factor": [
        ("(over_row + over_row.transpose(1, 2)) / 2", "over_row"), ("K / mean", "K / K")],
    "train.l2_ratio": [("step - full_step / 2", "step")],

    # DRr-Net
    "reread.stacked_gru": [("return x.masked_fill(~mask[..., None], 0.0)", "return x")],
    "reread.attentive_pooling": [
        # the softmax over an axis of size 1; padding that is read
        ("attention_weights(w(W(states).tanh())[..., 0], mask)", "1.0 * mask"),
        ("[..., 0], mask)", "[..., 0], torch.ones_like(mask))")],
    "reread.choose": [("(keys, clue", "(keys, 0 * clue")],
    "reread.choose_left": [
        ("(keys, clue", "(keys, 0 * clue"),
        ("mask & (left > SPENT)", "mask"),
        ("left.clamp(min=SPENT).log()", "0")],
    "reread.reread": [
        ("for _ in range", "h_0 = h\n    for _ in range", "choice.U_d(h)", "choice.U_d(h_0)"),
        ("choice.M_d(guide)", "0 * choice.M_d(guide)")],
    "reread.matching": [("b - a], -1", "a - b], -1"), ("b - a], -1", "(b - a).abs()], -1")],
    "reread.probability_fusion": [
        ("mlp(sum(gate * p for p, gate in sides))", "sum(gate * p for p, gate in sides)"),
        ("((p_h, w_h), (p_v, w_v))", "((p_h, w_v), (p_v, w_h))")],

    # LadRa-Net
    "reread.layer_mix": [("zip(alpha,", "zip(alpha.softmax(0),")],
    "reread.phrase_cnn": [
        ("(right, left)", "(left, right)"),                     # odd padding on one side twice
        ("inner.masked_fill(gone, 0.0)", "inner")],
    "reread.read_limit": [("phi.clamp(1, max(1, steps - 1))", "phi")],
    "reread.coverage": [
        ("left.masked_fill(spent, 1.0)", "left"),
        ("(left <= SPENT) | ~mask", "left <= SPENT")],          # padding that has to be spent, too
    "reread.mixture": [("return", "every[:, 0] = False\n    return")],
    "reread.dynamic_sequential_attention": [("chosen, weights, left =", "chosen, weights, _ =")],
    "reread.Choice.clue": [("if chosen:", "if False:")],
    "reread.LadraNet.forward": [
        ('amax(1) if "average-pooling" in self.without else vectors.mean(1)', "amax(1)"),
        ('[] if "global" in self.without else [h_ab[:, None]]', "[]")],
}
