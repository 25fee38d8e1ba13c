"""Tables of pairs: .csv, .tsv and .txt files are read, and written."""
import csv
import io
import itertools
import re
from pathlib import Path

from support.errors import expecting, join_names, refuse
from support.files import read_lines
from support.pairs import Pair, parse_label

SENTENCES = "sentence1", "sentence2", "label"


def is_csv(path):
    """Does the name end in .csv? Then the table has commas and quotes; else tabs, and no quotes."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """(number of the row's first line, its fields) for each row that is not blank."""
    form = {} if is_csv(path) else {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    reader, line = csv.reader(read_lines(path), strict=True, **form), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: {error}; correct or restore it") from None


def read_rows(path, columns, labels, need_label, spelled, mend=list, rows=None):
    """Yields (Pair, dict column -> text) for each row of a table. A sentence may be empty.

    columns: of a, b and label: names in the header line, or numbers from 0 if there is no header.
    labels: as for `parse_label`. need_label: if False, a label or the column may be missing.
    spelled, mend: as in datasets.Source. rows: what `split_rows` gave, if the file was read.
    """
    cure = "" if need_label else "; a pair needs no label: name two columns by --columns a,b"
    rows, start, names = split_rows(path) if rows is None else iter(rows), 1, columns
    if isinstance(columns[0], str):
        start, header = next(rows, (1, []))
        names = [name.strip() for name in header]
        counts = [names.count(name) for name in columns]
        refuse(counts != [1] * len(columns) and (need_label or counts != [1, 1, 0]),
               f"{path}:{start}: expected columns {', '.join(columns)}, each once, found "
               f"{join_names(names)}; name your own by --columns (a .csv has commas, others tabs)"
               f"{cure}")
    for line, fields in rows:
        where = f"{path}:{line}"
        with expecting(where, f"{len(names)} fields, like line {start}", "correct it"):
            fields = [text.strip() for text in mend(fields)]
            refuse(len(fields) != len(names), f"{len(fields)}")
            refuse(fields[1:] == names[1:], "the header again")  # a byte order mark may come first
        row = dict(zip(names, fields))
        a, b, *label = (row.get(name, "") for name in columns)
        text = "".join(label)            # "" if the table has no labels
        text = spelled.get(text, text)
        if text is not None:
            value = parse_label(text, labels, where, cure) if text or need_label else None
            yield Pair(a, b, value), row


def read_pairs(path, labels=None, need_label=True, columns=()):
    """The pairs of a user's .csv or .tsv file with a header.

    columns: names of the columns of a, b and label; (): SENTENCES. labels: as for `parse_label`.
    need_label: if False, a label, the column of labels and its name in `columns` may be missing.
    """
    _, rows = read_table(path, labels, need_label, columns)
    return [pair for _, pair in rows]


def read_table(path, labels=None, need_label=True, columns=()):
    """(the header, an iterator over (the fields of a row, its Pair)), read as it is asked for.
    Arguments: see read_pairs.
    """
    columns = tuple(name.strip() for name in columns) or SENTENCES
    if len(columns) == 2 and not need_label:
        columns += SENTENCES[2:]
    refuse(len({*columns}) != 3 or len(columns) != 3, f"--columns: expected three names, of both "
           f"sentences and the label, found {','.join(columns)}")
    lines, again = itertools.tee(split_rows(path))
    _, header = next(again, (1, []))
    pairs = (pair for pair, _ in read_rows(path, columns, labels, need_label, {}, rows=lines))
    first = next(pairs, None)
    refuse(first is None, f"{path}: has no pair below its header")
    return header, zip((fields for _, fields in again), itertools.chain([first], pairs))


def prediction_columns(task):
    """The names of the columns that predictions add: the answer, the probability of each class."""
    return ["prediction", *(f"p({label})" for label in task.labels)]


def prediction_cells(task, prediction):
    """The cells of these columns, of one Prediction."""
    answer = f"{prediction.answer:.6f}" if task.regression else prediction.answer
    return [answer, *(f"{p:.6f}" for p in (prediction.probabilities or {}).values())]


def table_text(path, rows):
    """The text of rows of cells. In a table with tabs, a tab or a line end becomes a space."""
    text = io.StringIO(newline="")
    if is_csv(path):
        csv.writer(text).writerows(rows)  # lines end in "\r\n", so that it quotes a cell with "\r"
    else:
        for row in rows:
            print(*(re.sub(r"[\t\r\n]", " ", cell) for cell in row), sep="\t", file=text)
    return text.getvalue()
