"""The examples of a page: its fenced blocks, as a reader would use them.

The first word after the fence is the language, which GitHub colours by; the others say what the
tests do with the block:

- ``sh`` is executed by bash in the page's folder, ``sh in another terminal`` goes on running until
  the page ends, ``sh fails`` must end with another exit code than 0;
- ``sql`` is executed by psql, ``python`` by Python;
- ``LANGUAGE FILE`` is written to that file of the page's folder;
- ``text`` after one of these is what it prints, or what is awaited in another terminal; ``…``
  stands for whatever comes there;
- ``LANGUAGE not run: REASON`` is only read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.house.checkout import ROOT

DOCS: Final = ROOT / "docs"
PAGES: Final = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_FENCE: Final = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    words: str
    text: str
    line: int

    @property
    def is_drawing(self) -> bool:
        """Nothing that could be executed: no language, or only a picture."""
        return self.language == ""


def blocks(page: Path) -> list[Block]:
    """Those of a page, in order; a block within a list is taken out of its indentation."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        language, _, words = match[2].strip().partition(" ")
        inner = re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(language, words.strip(), inner, line))
    return found
