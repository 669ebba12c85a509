"""What a node may execute in databases: profiles of its file, offered as ``sql:NAME``.

The statements are in the file. A run gives values for ``:name`` parameters, which PostgreSQL
types and which never become SQL: the text is split into statements without parsing SQL, and its
quotes, dollar quotes and comments are left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final

from pgcron_ha.config.capability_table import TIME_LIMIT, Refused, Template
from pgcron_ha.config.secret_references import SecretReference, parse_secret_reference
from pgcron_ha.config.values import flag, integer

_TOKEN = re.compile(
    r"""(?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*' )
      | (?P<quoted> '(?:[^']|'')*' | "(?:[^"]|"")*" )
      | (?P<dollar> (?<![\w$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$ )
      | (?P<line> --[^\n]* )
      | (?P<comment> /\* )
      | (?P<open> ['"] | (?<![\w$])\$(?:[A-Za-z_]\w*)?\$ )
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
    text += "\n;"  # so that the last one has an end, too
    while (token := _TOKEN.search(text, at)) is not None:
        parts.append(text[at : token.start()])
        is_comment = token["line"] or token["comment"]
        has_code = has_code or bool(parts[-1].strip()) or not (is_comment or token["end"])
        at = token.end()
        if token["open"]:
            what = "a quote that begins" if token["open"] in "'\"" else token["open"]
            raise ValueError(f"{what} at character {token.start() + 1} has no end")
        if token["comment"]:
            at = _end_of_comment(text, token)
        if token["end"]:
            if has_code:
                yield SqlStatement("".join(parts).strip(), tuple(order))
            parts, order, has_code = [], {}, False
        elif token["parameter"]:
            parts.append(f"${order.setdefault(token['name'], len(order) + 1)}")
        else:
            parts.append(text[token.start() : at])


def _end_of_comment(text: str, token: re.Match[str]) -> int:
    depth, at = 1, token.end()
    while depth:
        edge = _COMMENT_EDGE.search(text, at)
        if edge is None:
            raise ValueError(f"the comment at character {token.start() + 1} has no end")
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


RESERVED: Final = (
    *("pgcron_run_id", "pgcron_attempt", "pgcron_token", "pgcron_fence"),
    *("pgcron_idempotency_key", "pgcron_schedule", "pgcron_fire_time"),
    "pgcron_origin",
)
"""Parameters that the run itself gives."""

MAX_STATEMENT_CHARACTERS: Final = 100_000

_DSN_FORMS: Final = "expected postgresql://ROLE@HOST/DATABASE, env:NAME or file:/…"
_DSN: Final = re.compile(r"postgres(ql)?://\S+")


def _dsn(raw: object) -> str | SecretReference:
    return raw if isinstance(raw, str) and _DSN.fullmatch(raw) else parse_secret_reference(raw)


def _statement(raw: object) -> tuple[SqlStatement, ...]:
    if not isinstance(raw, str) or not raw:
        raise ValueError("SQL, with :name for an arg of the run")
    if len(raw) > MAX_STATEMENT_CHARACTERS or "\0" in raw:
        raise Refused(f"expected at most {MAX_STATEMENT_CHARACTERS:,} characters without NUL")
    try:
        statements = parse_script(raw)
    except ValueError as error:
        raise Refused(str(error)) from None
    for name in (name for each in statements for name in each.parameters):
        if name.startswith("pgcron_") and name not in RESERVED:
            raise Refused(f"':{name}': there are {', '.join(RESERVED)}")
    return statements


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlProfile(Template):
    """One statement, or several, in one database by one login role.

    `dsn` is a URL, or says where it is kept; None (only with `transactional`) is the node's own.
    `timeout` and `grace` (between a cancel and the end of the connection) are seconds. `rows`:
    rows become the run's result, at most `max_rows`. `atomic`: all statements are one transaction.
    `transactional`: the run's completion is a part of it.
    """

    statements: Annotated[tuple[SqlStatement, ...], _statement, "statement"]
    dsn: Annotated[str | SecretReference | None, _dsn] = field(default=None, repr=False)
    password: Annotated[SecretReference | None, parse_secret_reference] = None
    grace: Annotated[float, TIME_LIMIT] = 5.0
    rows: Annotated[bool, flag] = False
    max_rows: Annotated[int, integer(1, 10_000)] = 1000
    atomic: Annotated[bool, flag] = True
    transactional: Annotated[bool, flag] = False
    connections: Annotated[int, integer(1, 100)] = 2

    @property
    def parameters(self) -> frozenset[str]:
        """The args that a run must give."""
        return frozenset(name for each in self.statements for name in each.parameters) - {*RESERVED}

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """What a transactional profile needs, and what any other does."""
        if self.dsn is None and not self.transactional:
            yield "dsn", f"{_DSN_FORMS}; only a transactional profile goes without"
        if self.transactional and not self.atomic:
            yield "atomic", "a transactional profile is one transaction"
