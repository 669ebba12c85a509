"""Where the demo's lines go: drawn in place on a terminal, now and then a block elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final, TextIO

_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_CLEAR, _HIDE_CURSOR, _SHOW_CURSOR = "\x1b[2J", "\x1b[?25l", "\x1b[?25h"
_BOLD, _RED, _GREEN, _YELLOW, _PLAIN = "\x1b[1m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"

_COLOURS: Final = (
    (re.compile(r"^(?:NODE|SCHEDULE) .*"), _BOLD),
    (re.compile(r"\b(?:dead|killed|lost|invalid)\b(?! letters| list)"), _RED),
    (re.compile(r"\b(?:skipped|missed|silent|draining|retry|retries)\b"), _YELLOW),
    (re.compile(r"\b(?:succeeded|alive)\b"), _GREEN),
)
# A log of a demo that nobody watches is not to be flooded.
TERMINAL_SECONDS: Final = 0.5
OTHER_SECONDS: Final = 5.0


class Screen:
    """`say` adds a line; `draw` shows a table, over the last one on a terminal."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = sys.stdout if output is None else output
        self.is_terminal = self._output.isatty() and os.environ.get("TERM") != "dumb"
        self._has_colours = self.is_terminal and not os.environ.get("NO_COLOR")
        self._is_drawing = False

    @property
    def seconds(self) -> float:
        """How long to wait between two tables."""
        return TERMINAL_SECONDS if self.is_terminal else OTHER_SECONDS

    def say(self, *lines: str) -> None:
        """Print lines below what is there."""
        self.stop_drawing()
        self._write("".join(f"{line}\n" for line in lines))

    def draw(self, table: Sequence[str], around: Sequence[str] = ()) -> None:
        """Show the table; `around` are lines that belong below it on a terminal only."""
        if not self.is_terminal:
            self._write("".join(f"{line}\n" for line in [*table, ""]))
            return
        size = shutil.get_terminal_size()
        # Rows of tables are cut, sentences and commands wrap.
        cut = [line if line.startswith("note") else line[: size.columns] for line in table]
        # The last line stays free: writing its last cell would scroll.
        lines = _fitting([*cut, "", *around], size.columns, size.lines - 1)
        drawn = "".join(f"{self._coloured(line)}{_REST_OF_LINE}\n" for line in lines)
        begin = _HOME if self._is_drawing else f"{_HIDE_CURSOR}{_CLEAR}{_HOME}"
        self._is_drawing = True
        self._write(f"{begin}{drawn}{_REST_OF_SCREEN}")

    def stop_drawing(self) -> None:
        """Leave the last table where it is and go on below it."""
        if self._is_drawing:
            self._is_drawing = False
            self._write(f"{_SHOW_CURSOR}\n")

    def _coloured(self, line: str) -> str:
        if self._has_colours:
            for pattern, colour in _COLOURS:
                if colour is _BOLD and pattern.match(line):
                    return f"{_BOLD}{line}{_PLAIN}"
                line = pattern.sub(rf"{colour}\g<0>{_PLAIN}", line)
        return line

    def _write(self, text: str) -> None:
        try:
            self._output.write(text)
            self._output.flush()
        except BrokenPipeError:
            # `demo | head`: nobody reads any more, and the end must be in order all the same.
            self._output = open(os.devnull, "w")  # noqa: SIM115 - until the end of the process
            self.is_terminal = False


def _fitting(lines: Sequence[str], columns: int, height: int) -> list[str]:
    """The first lines that fit on a screen; long ones wrap, so that a command can be copied."""
    fitting: list[str] = []
    for line in lines:
        height -= max(1, -(-len(line) // columns))
        if height < 0:
            break
        fitting.append(line)
    return fitting
