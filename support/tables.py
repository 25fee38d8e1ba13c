"""Tables of text: rows and columns of .tsv, .csv and .jsonl files, and what a label in them means.

A row that does not fit its file is a ValueError that names file and line; nothing is repaired.
"""
import contextlib
import csv
import io
import itertools
import json
import re
import unicodedata
from pathlib import Path

from support.checkpoints import file_size, join_names, shorten
from support.files import write_whole
from support.options import refuse

csv.field_size_limit(2 ** 31 - 1)        # a cell is as long as it is
LARGEST_SCORE = 1e15                     # squares of larger ones, summed, leave float32


def read_lines(path, opened=None):
    """(line number, text) of each line of a UTF-8 file without its byte order mark; only "\\n" ends
    one (U+2028 is text). opened: read in its place, such as standard input.
    """
    try:
        if not opened:
            file_size(path)  # a pipe may never end
        with contextlib.nullcontext(opened) if opened else open(path, "rb") as file:
            for line, data in enumerate(file, 1):
                yield line, data.decode("utf-8-sig" if line == 1 else "utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}:{line}: byte 0x{data[error.start]:02x} is not UTF-8 (Latin-1?); "
                         f"save the file as UTF-8") from None


def text_lines(path, opened=None):
    """The texts of `read_lines` without their line ends, a list."""
    return [text.removesuffix("\n").removesuffix("\r") for _, text in read_lines(path, opened)]


def is_csv(path):
    """Does the name end in .csv: commas and quotes (RFC 4180)? All else has tabs."""
    return Path(path).suffix.lower() == ".csv"


def split_rows(path):
    """(line number, its fields) of each line that is not blank; without a .csv's name, tabs part
    them and quotes are text.
    """
    if is_csv(path):
        yield from split_quoted(path, ",")
        return
    for line, text in read_lines(path):
        text = text.removesuffix("\n").removesuffix("\r")
        if text.strip(" "):
            yield line, text.split("\t")


def split_own(path):
    """`split_rows` of a user's file, a list. Of a file with tabs, quotes may be those of csv: where
    each cell that begins with one also ends with one. Elsewhere they are text. A file that is
    quoted in part is refused.
    """
    plain = list(split_rows(path))
    start, header = plain[0] if plain else (0, [])
    refuse(len(header) == 1 and re.search(r"[\t,;|]", header[0]),
           f"{path}:{start}: commas part the columns of a .csv, tabs those of all else, found "
           f"{shorten(''.join(header))}; name it, or save it, so")
    if is_csv(path) or not plain:
        return plain
    with contextlib.suppress(ValueError):
        quoted = list(split_quoted(path, "\t"))
        sizes, found = ([len(fields) for _, fields in rows] for rows in (plain, quoted))
        # two quotes of text, lines apart, would hide what is between them
        if sizes == found or len(set(sizes)) > 1 or header[0].startswith('"'):
            return quoted
    for line, fields in plain:
        for cell in fields:
            doubled = re.fullmatch(r'"([^"]*"")+[^"]*"', cell) and cell.strip('"')
            if doubled or cell.startswith('"') and line == start:
                raise ValueError(f"{path}:{line}: a cell has the quotes of csv, which others lack: "
                                 f"{shorten(cell)}; quote every cell that holds a quote, or none")
    return plain


def split_quoted(path, mark):
    """`split_rows` of a file quoted as in csv. A row's number is that of its first line."""
    text = io.StringIO("".join(text for _, text in read_lines(path)), newline="")
    reader, line = csv.reader(text, delimiter=mark, strict=True), 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}:{line}: not valid csv ({error}); a field with a comma, quote or "
                         f"line break needs double quotes around it, each quote inside doubled"
                         ) from None


def read_table(path, rows, columns):
    """The given columns of a table: iterator of (where = "file:line", dict column -> its text).

    rows: what a function above gives. columns: names in the header line, in any order, or numbers
    from 0 where there is none.
    """
    rows, headed = iter(rows), isinstance(columns[0], str)
    mark = "commas" if is_csv(path) else "tabs"
    expected = (f"a header that names each of {join_names(columns)} once" if headed else
                f"rows of {max(columns) + 1} fields or more") + f", parted by {mark}"
    start, first = next(rows, (0, []))
    refuse(not start, f"{path} is empty; expected {expected}")
    names = [name.strip() for name in first] if headed else [*range(len(first))]
    refuse(any(names.count(name) != 1 for name in columns),
           f"{path}:{start}: expected {expected}, found {join_names(names)}")
    place, line = {name: names.index(name) for name in columns}, 0
    for line, fields in rows if headed else itertools.chain([(start, first)], rows):
        if headed and fields == first:
            raise ValueError(f"{path}:{line}: the header again, as where files were joined; take "
                             f"it out")
        if len(fields) != len(first):
            raise ValueError(f"{path}:{line}: expected {len(first)} fields parted by {mark}, like "
                             f"line {start}, found {len(fields)}")
        yield f"{path}:{line}", {name: fields[i].strip() for name, i in place.items()}
    refuse(not line, f"{path} has a header and no pairs; expected one pair a line below it")


def read_objects(path, keys):
    """`read_table` of a file with one JSON object on each line that is not blank."""
    for line, text in read_lines(path):
        if not text.strip():
            continue
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}:{line}: not valid JSON ({error}); expected one object on "
                             f"each line; get the file again") from None
        if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in keys):
            raise ValueError(f"{path}:{line}: expected an object with the texts {', '.join(keys)}, "
                             f"found {text.strip()[:60]}; get the file again")
        yield f"{path}:{line}", {key: found[key].strip() for key in keys}


def parse_label(text, labels, where, also=()):
    """What the text of a label means: the index of its class, a score, or the text.

    labels: names of the classes, () for scores, None to keep the text. also: what else could have
    stood there, for the error.
    """
    if labels is None:
        refuse(not text, f"{where}: the label is empty; expected the name of a class or a score")
        return text
    if labels and text in labels:
        return labels.index(text)
    if labels:
        raise ValueError(f"{where}: unknown label {shorten(text)}; expected one of "
                         f"{join_names([*also, *labels], 12)}")
    if not is_number(text):
        raise ValueError(f"{where}: label {shorten(text)} is not a number such as 0.5; this task "
                         f"predicts scores")
    return float(text)


def is_number(text):
    """Is text a decimal number that can be a score?"""
    decimal = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII)
    return bool(decimal) and abs(float(text)) < LARGEST_SCORE


def is_odd_number(text):
    """May text be meant as a number, though it is none: "0,5", "12 %", "1e999", "١"?"""
    with contextlib.suppress(ValueError):
        float(re.sub(r"[,%\s]", "", text))
        return not is_number(text) and re.search(r"\d", text) is not None
    return False


def normalized_label(text):
    """What of a label tells it from others: its value, or letters whatever their case and form."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = "".join(c for c in plain if unicodedata.category(c) != "Cf")  # others have no width
    return float(text) if is_number(text) else seen


def write_table(path, rows):
    """Rows of cells as .csv (commas) or anything else (tabs), quoted where a cell asks for it."""
    text = io.StringIO()
    mark = "," if is_csv(path) else "\t"
    csv.writer(text, delimiter=mark, lineterminator="\n").writerows(rows)
    content = text.getvalue().encode("utf-8", "replace")  # half a surrogate pair becomes ?
    write_whole(path, lambda file: file.write(content))
