"""The demo's screen: a table drawn in place on a terminal, elsewhere a block now and then."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final

_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"
_RED, _GREEN, _YELLOW, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"

_COLOURS: Final = (
    (re.compile(r"\b(?:dead|killed|lost)\b(?! letters| +\d)"), _RED),
    (re.compile(r"\b(?:skipped|missed|silent|draining|retries|paused)\b"), _YELLOW),
    (re.compile(r"\b(?:succeeded|alive|running)\b"), _GREEN),
)
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
        print(*lines, sep="\n", flush=True)

    def draw(self, table: Sequence[str]) -> None:
        """Show the table; a line that a terminal has no room for is cut or left out."""
        if not self.is_terminal:
            self.say(*table, "")
            return
        size = shutil.get_terminal_size()
        lines = [_coloured(_fitted(line, size.columns)) for line in table[: size.lines - 1]]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        print(f"{back}{drawn}{_REST_OF_SCREEN}", end="", flush=True)
        self._drawn = len(lines)


def _fitted(line: str, columns: int) -> str:
    return line if len(line) <= columns else f"{line[: columns - 1]}…"


def _coloured(line: str) -> str:
    if not os.environ.get("NO_COLOR"):
        for pattern, colour in _COLOURS:
            line = pattern.sub(rf"{colour}\g<0>{_PLAIN}", line)
    return line
