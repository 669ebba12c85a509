"""The demo's screen: a table drawn in place on a terminal, elsewhere a block now and then."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"
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
        lines = [_cut(line, size.columns) for line in table[: size.lines - 1]]
        back = f"\x1b[{self._drawn}F" if self._drawn else ""
        drawn = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
        print(f"{back}{drawn}{_REST_OF_SCREEN}", end="", flush=True)
        self._drawn = len(lines)


def _cut(line: str, columns: int) -> str:
    """A line that is cut has no colours."""
    plain = click.unstyle(line)
    return line if len(plain) <= columns else f"{plain[: columns - 1]}…"
