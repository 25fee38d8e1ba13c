"""CoNLL-U, the format of Universal Dependencies: reading, checking.

Left out: lemmas, morphology and enhanced dependencies, which stay unread; writing (parses).
"""

import re
from dataclasses import dataclass

import numpy as np

from support.data import text_lines

# Axes: n words of a sentence

FORM, TAG, HEAD, RELATION, MISC = 1, 3, 6, 7, 9   # columns; column 0 is the number
NUMBER = re.compile(r"([1-9]\d{,8})(?:-([1-9]\d{,8}))?|(\d{1,9})\.[1-9]\d{,8}", re.ASCII)


@dataclass
class Sentence:
    """A sentence of a CoNLL-U file: its comment lines, and its rows of ten columns, in order.

    Rows are words (8), multiword tokens (8-9: one written token, two words), empty nodes (8.1).
    """
    comments: list
    rows: list
    where: str = ""   # file and line of the first row

    def column(self, which):
        """FORM, TAG, HEAD or RELATION of each word; heads as numbers."""
        cells = [row[which] for row in self.rows if row[0].isdecimal()]
        return list(map(int, cells)) if which == HEAD else cells

    @property
    def tokens(self):
        """The written tokens: (form, forms of its words, the space behind it)."""
        tokens, words, done = [], self.column(FORM), 0
        for row in self.rows:
            first, _, last = row[0].partition("-")
            if "." not in first and int(first) > done:
                space = "" if "SpaceAfter=No" in row[MISC].split("|") else " "
                tokens.append((row[FORM], words[done:int(last or first)], space))
                done = int(last or first)
        return tokens

    @property
    def text(self):
        """What the comment `# text = ...` says, or else the written tokens and their spaces."""
        for comment in self.comments:
            if re.match(r"#\s*text\s*=", comment):
                return comment.partition("=")[2].strip()
        return "".join(form + space for form, _, space in self.tokens).strip()


def read_conllu(path):
    """Sentences of a CoNLL-U file, a list.

    Raises ValueError naming file and line for a row that is not CoNLL-U, and for heads that are no
    tree with one root.
    """
    sentences, comments, rows = [], [], []
    for number, line in enumerate([*text_lines(path), ""], 1):
        if line.startswith("#") and not rows:
            comments.append(line)
        elif line:
            rows.append((f"{path}, line {number}", line.split("\t")))
        elif rows:
            _check_rows(rows)
            _check_tree([(where, row) for where, row in rows if row[0].isdecimal()])
            sentences.append(Sentence(comments, [row for _, row in rows], rows[0][0]))
            comments, rows = [], []
    return sentences


def _check_rows(rows):
    """ValueError unless the rows, each (where, row), have ten columns and follow each other."""
    words = covered = 0   # words so far; last word of the latest multiword token
    for where, row in rows:
        if len(row) != 10:
            raise ValueError(f"{where}: needs 10 columns separated by tabs, found {len(row)}")
        number = NUMBER.fullmatch(row[0])
        if not number or not row[FORM].strip():
            raise ValueError(f"{where}: needs number (8, 8-9, 8.1) and form, found "
                             f"{row[0][:20]!r}, {row[FORM][:20]!r}")
        first, last, before = (group and int(group) for group in number.groups())
        if first == words + 1 and not last:
            words += 1
        elif first == words + 1 and last > first > covered:
            covered = last
        elif before != words:
            raise ValueError(f"{where}: {row[0]} cannot follow word {words}; words are numbered "
                             f"1, 2, ...")
    if words < max(covered, 1):
        raise ValueError(f"{where}: the sentence ends before word {max(covered, 1)}")


def _check_tree(rows):
    """ValueError unless the heads of these words, each (where, row), are a tree with one root."""
    for where, row in rows:
        if not re.fullmatch("[0-9]{1,9}", row[HEAD]) or int(row[HEAD]) > len(rows):
            raise ValueError(f"{where}: the head, column 7, must be 0 to {len(rows)}, "
                             f"found {row[HEAD][:20]!r}")
        if row[RELATION] in ("", "_"):
            raise ValueError(f"{where}: the relation, column 8, is missing")
    heads = [int(row[HEAD]) for _, row in rows]
    roots = [where for (where, _), head in zip(rows, heads) if head == 0]
    if len(roots) != 1:
        where = roots[-1] if roots else rows[0][0]
        raise ValueError(f"{where}: a sentence needs one word with head 0, has {len(roots)}")
    for (where, row), depth in zip(rows, tree_depths(heads)):
        if depth > len(rows):
            raise ValueError(f"{where}: the heads above word {row[0]} run in a cycle and never "
                             f"reach 0")


def tree_depths(heads):
    """Number of words above each word, (n,) int; n + 1 where the heads run in a cycle.

    heads: (n,) int, each word's head, counted from 1; 0 = ROOT.

    >>> tree_depths([2, 0, 2, 3]).tolist()
    [1, 0, 1, 2]
    """
    above = np.concatenate([[0], heads]).astype(np.int64)  # (n+1,)
    depths = (above > 0).astype(np.int64)  # (n+1,)
    for _ in range(len(above).bit_length()):
        depths = depths + depths[above]  # (n+1,)
        above = above[above]  # (n+1,)
    return np.minimum(depths[1:], len(above))  # (n,)
