"""Texts in SQL that takes no parameters: session settings, and what people are to run."""

from __future__ import annotations


def literal(text: str) -> str:
    """The text as a literal that means the same whatever standard_conforming_strings is."""
    escape = "E" if "\\" in text else ""
    return escape + "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
