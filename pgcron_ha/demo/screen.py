"""The demo's screen: a table drawn in place on a terminal, elsewhere a block now and then."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"
_RED, _GREEN, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"

_COLOURS: Final = (
    (re.compile(r"\b(?:dead|killed|lost)\b(?! letters| +\d)"), _RED),
    (re.compile(r"\b(?:skipped|missed|silent|draining|retries|paused)\b"), _YELLOW),
    (re.compile(r"\b(?:succeeded|alive|running)\b"), _GREEN),
)
NOTE: Final = "note       "
"""A line of the table begins so that is no row."""
# Elsewhere more seldom: the output may be a log.
TERMINAL_SECONDS: Final = 0.5
OTHER_SECONDS: Final = 5.0


class Screen:
    """`say` adds lines; `draw` shows a table, over the last one on a terminal."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self.seconds = TERMINAL_SECONDS if self.is_terminal else OTHER_SECONDS
        """How long to wait between two tables."""
        self._drawn = 0

    def say(self, *lines: str) -> None:
        """Print lines below what is there."""
        self._drawn = 0
        if self.is_terminal:
            columns = shutil.get_terminal_size().columns
            lines = tuple(part for line in lines for part in _wrapped(line, columns))
        print(*lines, sep="\n", flush=True)

    def draw(self, table: Sequence[str]) -> None:
        """Show the table; a line that a terminal has no room for is cut or left out, but for notes,
        which go on in the next line.
        """
        if not self.is_terminal:
            self.say(*table, "")
            return
        size = shutil.get_terminal_size()
        fitted = [part for line in table for part in _fitted(line, size.columns)]
        lines = [_coloured(line) for line in fitted[: size.lines - 1]]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        print(f"{back}{drawn}{_REST_OF_SCREEN}", end="", flush=True)
        self._drawn = len(lines)


def _wrapped(line: str, columns: int) -> list[str]:
    """At words, indented as what follows a label; a word that is longer than a line is left."""
    if len(line) <= columns:
        return [line]
    return textwrap.wrap(
        line,
        columns,
        subsequent_indent=" " * 11,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def _fitted(line: str, columns: int) -> list[str]:
    if len(line) <= columns or line.startswith(NOTE):
        return _wrapped(line, columns)
    return [f"{line[: columns - 1]}…"]


def _coloured(line: str) -> str:
    if not os.environ.get("NO_COLOR"):
        for pattern, colour in _COLOURS:
            line = pattern.sub(rf"{colour}\g<0>{_PLAIN}", line)
    return line
