"""How rows are shown: aligned tables for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import click

from pgcron_ha.errors import PgcronError
from pgcron_ha.harmless import harmless, harmless_json
from pgcron_ha.spec.text import duration_text, in_number, instant_text

_GAP = "  "
_IS_JSON = "pgcron_ha.is_json"
# Columns of states, and the words in them that people look for.
_OF_STATES: Final = {"STATE", "STATUS", "OUTCOME", "LAST"}
_COLOURS: Final = {
    **dict.fromkeys(("ok", "alive", "running", "succeeded", "valid", "closed"), "green"),
    **dict.fromkeys(("advice", "blocked", "paused", "retrying", "skipped", "superseded"), "yellow"),
    **dict.fromkeys(("cordoned", "draining", "silent", "expired", "half_open"), "yellow"),
    **dict.fromkeys(("problem", "dead", "lost", "died", "invalid", "open", "stuck"), "red"),
    **dict.fromkeys(("failing", "locked", "upstream_failed"), "red"),
}


def choose_json(context: click.Context, option: click.Parameter, is_chosen: bool) -> None:
    """The callback of ``--json``."""
    context.meta[_IS_JSON] = is_chosen


def is_json() -> bool:
    """Whether the running command has ``--json``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_IS_JSON))


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, the row's key or what is made of the row, and the most
    characters it may take.
    """

    heading: str
    value: str | Callable[[Any], object]
    most: int

    def cell(self, row: Mapping[str, Any]) -> str:
        """The text of this column for a row, on one line."""
        value = self.value(row) if callable(self.value) else row.get(self.value)
        text = harmless(" ".join(shown(value).split()))
        return text if len(text) <= self.most else text[: self.most - 1] + "…"


def columns(heading: str, **made: Callable[[Any], object]) -> tuple[Column, ...]:
    """The columns of a table by its heading, such as ``"ID HANDLER:24 DIED=died_at STATE"``.

    A number is the most characters. A column shows what the row has under its own word, or under
    the key after ``=``; or what is `made` of the row.
    """
    found = []
    for each in heading.split():
        column, _, most = each.partition(":")
        word, _, key = column.partition("=")
        value = made.get(word, key or word.lower())
        found.append(Column(word.replace("_", " "), value, int(most or 40)))
    return tuple(found)


class OutputFailed(PgcronError):
    """The disk is full, or what the output is written to is broken."""


def write(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Prints to stdout or stderr, also with ``--json``. Raises `OutputFailed`, so that a full disk
    is not reported as an error of the database; BrokenPipeError when the reader has gone.
    """
    try:
        click.echo(text, err=err, nl=nl)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_failed(error, err=err) from error


def output_failed(error: OSError, *, err: bool = False) -> OutputFailed:
    """The error of an output; nothing more is written to stdout, unless it was stderr's."""
    if not err:  # Python would try again to write the rest when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OutputFailed(
        "the output can't be written",
        f"{error.strerror}.",
        "Make room where it is written to, or write it elsewhere.",
    )


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Prints to stderr, or to stdout, where people alone read it: nothing with ``--json``.

    Control characters in names, errors and output of handlers are shown as escapes: they move no
    cursor, set no title and hide nothing.
    """
    if err or not is_json():
        write(harmless(str(text)), err=err, nl=nl)


def echo_state(line: str) -> None:
    """Prints a line that begins with a state, in its colour on a terminal."""
    if not is_json():
        state, gap, rest = harmless(line).partition(" ")
        write(f"{coloured(state)}{gap}{rest}")


def with_class(row: Mapping[str, Any]) -> str | None:
    """The error of an attempt or a dead letter, after its class."""
    error: str | None = row["error"]
    kind: str | None = row["error_class"]
    if error is None or kind is None or error.startswith(kind):
        return error
    return f"{kind}: {error}"


def note(text: str) -> None:
    """Prints a note for people to stderr."""
    if not is_json():
        echo(f"note: {text}", err=True)


def warn(message: str, *more: str) -> None:
    """Prints a warning to stderr, also with ``--json``, and `more` about it below."""
    echo("\n  ".join((f"warning: {message}", *more)), err=True)


def report(document: object) -> None:
    """Prints a JSON document for programs: with ``--json`` alone."""
    if is_json():
        print_json(document)


def echo_file(text: str) -> None:
    """Prints the text of a file as it is; on a terminal its control characters are escapes."""
    write(harmless(text) if sys.stdout.isatty() else text, nl=False)


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], nothing: str) -> None:
    """The rows as JSON lines (all keys), or as `print_table` does."""
    for row in rows:
        report(row)
    print_table(rows, columns, nothing)


def print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], nothing: str) -> None:
    """The rows for people; the text `nothing` if there are none."""
    if is_json():
        return
    for line in table_lines(rows, columns, coloured) if rows else [nothing]:
        write(line)  # cells are harmless; what is left are colours


def print_fields(row: Mapping[str, Any]) -> None:
    """One thing for people: a line for each value that is not None."""
    width = max(map(len, row), default=0)
    for key, value in row.items():
        if value is not None:
            text = shown(value).replace("\n", f"\n{' ' * width}{_GAP}")
            echo(f"{key:<{width}}{_GAP}{text}")


def print_result(document: object, sentence: object) -> None:
    """What a command has done: a JSON document for programs, or a sentence for people."""
    report(document)
    echo(sentence)


def print_json(document: object, *, err: bool = False) -> None:
    """One document on one line; instants in RFC 3339 UTC, durations in seconds."""
    text = json.dumps(document, default=_as_json, ensure_ascii=False)
    write(harmless_json(text), err=err)


def shown(value: object) -> str:
    """A value as people read it: instants in UTC to the second, durations as ``1h30m``, lists with
    commas."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value)) or "-"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def plural(count: int, word: str, words: str | None = None) -> str:
    """``1 run``, ``5 runs``."""
    return f"{count} {in_number(count, word, words)}"


def _as_json(value: object) -> object:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def coloured(text: str) -> str:
    """A text in the colour of the last state that it names, on a terminal that has some."""
    named = [word for each in text.split() if (word := each.strip("(),")) in _COLOURS]
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return click.style(text, fg=_COLOURS[named[-1]]) if named and not is_plain else text


def table_lines(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], colour: Callable[[str], str] = str
) -> Iterator[str]:
    """The heading and a line for each row, states by `colour`; none without rows."""
    if not rows:
        return
    headings = [column.heading for column in columns]
    lines = [headings, *([column.cell(row) for column in columns] for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    widths[-1] = 0  # nothing is aligned behind the last column
    colours = [colour if heading in _OF_STATES else str for heading in headings]
    for line in lines:
        cells = zip(colours, line, widths, strict=True)
        yield _GAP.join(paint(f"{text:<{width}}") for paint, text, width in cells).rstrip()
