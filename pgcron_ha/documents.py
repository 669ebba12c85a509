"""The documents: pages of Markdown that the package carries."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from pgcron_ha import assets

SECTIONS: Final = {
    "": "Start",
    "how-to": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
}
"""Folders of pages and their headings, in the order in which a newcomer needs them."""


class Document(NamedTuple):
    """One page; no two have the same `name`, whatever their sections."""

    section: str
    name: str
    text: str
    """The Markdown; its first line is the title."""

    @property
    def title(self) -> str:
        """Its first heading."""
        return self.text.partition("\n")[0].removeprefix("# ")


@cache
def documents() -> dict[str, Document]:
    """All pages by name, read once: in the order of `SECTIONS`, then of their names."""
    return {
        path.stem: Document(section, path.stem, path.read_text(encoding="utf-8"))
        for section in SECTIONS
        for path in sorted((assets.DOCS / section).glob("*.md"))
    }
