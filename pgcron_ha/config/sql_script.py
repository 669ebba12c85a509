"""Splits a text of SQL statements with ``:name`` parameters, without parsing SQL.

Quotes, dollar quotes and comments are left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*' )
      | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" )
      | (?P<dollar> (?<![\w$])\$(?P<tag>[A-Za-z_]\w*)?\$ )
      | (?P<line> --[^\n]* )
      | (?P<comment> /\* )
      | (?P<open> ['"] )
      | (?P<parameter> (?<![:\w]):(?P<name>[a-z_][a-z0-9_]*) )
      | (?P<end> ; )""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class SqlStatement:
    """One statement as it is sent: `text` with ``$1`` …, and the names of its parameters in that
    order.
    """

    text: str
    parameters: tuple[str, ...]


def parse_script(text: str) -> tuple[SqlStatement, ...]:
    """The statements of a text, at least one. Raises `ValueError` with what is wrong."""
    statements = tuple(_statements(text))
    if not statements:
        raise ValueError("expected a statement of SQL")
    return statements


def _statements(text: str) -> Iterator[SqlStatement]:
    """Those that have more than comments."""
    parts: list[str] = []
    order: dict[str, int] = {}
    at, has_code = 0, False
    while (token := _TOKEN.search(text, at)) is not None:
        parts.append(text[at : token.start()])
        is_comment = token["line"] or token["comment"]
        has_code = has_code or bool(parts[-1].strip()) or not (is_comment or token["end"])
        at = token.end()
        if token["open"]:
            raise ValueError(f"a quote that begins at character {token.start() + 1} has no end")
        if token["dollar"]:
            at = _end_of_dollar_quote(text, token)
        elif token["comment"]:
            at = _end_of_comment(text, token)
        if token["parameter"]:
            parts.append(f"${order.setdefault(token['name'], len(order) + 1)}")
        elif not token["end"]:
            parts.append(text[token.start() : at])
        elif has_code:
            yield SqlStatement("".join(parts).strip(), tuple(order))
        if token["end"]:
            parts, order, has_code = [], {}, False
    if has_code or text[at:].strip():
        yield SqlStatement("".join([*parts, text[at:]]).strip(), tuple(order))


def _end_of_dollar_quote(text: str, token: re.Match[str]) -> int:
    end = text.find(token["dollar"], token.end())
    if end < 0:
        raise ValueError(f"{token['dollar']} at character {token.start() + 1} has no end")
    return end + len(token["dollar"])


def _end_of_comment(text: str, token: re.Match[str]) -> int:
    depth, at = 1, token.end()
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            raise ValueError(f"the comment at character {token.start() + 1} has no end")
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at
