"""Messages for a user, each in one line."""
import contextlib
import re
import traceback


def refuse(when, message):
    """Raises ValueError with this message where `when` is true."""
    if when:
        raise ValueError(message)


def visible(text):
    """The text with "\\x1b" in the place of a control character, which a terminal would obey."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: ascii(match[0])[1:-1], text)


def one_line(error):
    """An error as one line for a user, without its middle if it is long."""
    if isinstance(error, RuntimeError) and isinstance(error.__context__, OSError):
        error = error.__context__  # of torch.save
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = ": ".join(filter(None, (error.filename, error.strerror)))
    elif not text or not isinstance(error, (ValueError, OSError, RuntimeError)):  # pages
        text = f"{type(error).__name__}: {text.partition('. ')[0]}"
    text = visible(" ".join(text.split()))
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


def join_names(names, most=8):
    """The first `most` names, with commas between them, and how many more there are."""
    shown = [(name if name.isprintable() else ascii(name))[:100] for name in map(str, names)]
    more = f", ... ({len(shown) - most} more)" if len(shown) > most else ""
    return (", ".join(shown[:most]) or "nothing") + more


@contextlib.contextmanager
def prefix_errors(prefix):
    """Context manager: puts a prefix, such as an option's name, before the message of an error."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise ValueError(f"{prefix}{one_line(error)}") from error


@contextlib.contextmanager
def expecting(path, what, remedy="download it again"):
    """Context manager: any error inside becomes a ValueError that says what was expected."""
    try:
        yield
    except (BrokenPipeError, FileNotFoundError):  # no file is damaged: one says so itself
        raise
    except Exception as error:  # a damaged file raises almost anything
        raise ValueError(f"{path}: expected {what}, found {one_line(error)}; {remedy}") from error


def last_own_line(error, own):
    """"mine.py:12: ", the last line of the user's own code that an error came through, or "".

    own: dict, path of each file of that code -> (name given, ...).
    """
    text = "".join(traceback.format_exception(error))
    places = [f"{own[file][0]}:{line}: " for file, line in
              re.findall(r'File "(.+?)", line (\d+)', text) if file in own]
    return places[-1] if places else ""
