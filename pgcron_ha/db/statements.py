"""Named SQL statements: ``sql/*.sql`` → `Statement` (name, text with ``$n``, parameter names).

A file holds statements that begin with ``-- name: claim_runs``; comment lines after it say which
transition it makes (``-- ready -> running``) and why it is written as it is. Parameters are written
``:run_ids``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from pgcron_ha.errors import ConfigError

DEFAULT_SCHEMA: Final = "pgcron"
_FOLDER: Final = Path(__file__).parent / "sql"
_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z][a-z_0-9]*)")
_SCHEMA: Final = re.compile(r"\bpgcron\.|'pgcron'(?=::regnamespace)")
_PLAIN_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as it is sent: `sql` with ``$1`` …, and the names of its parameters in that
    order.
    """

    name: str
    comment: str
    sql: str
    parameters: tuple[str, ...]


def in_schema(text: str, schema: str) -> str:
    """`text` with every reference to the schema ``pgcron`` changed to `schema` (a plain
    lower-case name).
    """
    if not _PLAIN_SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(
            f"schema {schema!r} is not a plain name",
            "It has up to 40 lower-case letters, digits and '_', and does not begin with pg_.",
            "Choose a name such as 'pgcron' or 'jobs'.",
        )
    if schema == DEFAULT_SCHEMA:
        return text
    return _SCHEMA.sub(
        lambda match: f"{schema}." if match[0].endswith(".") else f"'{schema}'", text
    )


@lru_cache(maxsize=16)
def load(schema: str = DEFAULT_SCHEMA) -> dict[str, Statement]:
    """Every named statement for `schema`, by name. Raises ConfigError for a schema that is no plain
    name.

    ``finish_runs`` has a twin, ``finish_runs_overflow``, for the moment in which history has no
    partition.
    """
    found: dict[str, Statement] = {}
    for path in sorted(_FOLDER.glob("*.sql")):
        for statement in _parse(in_schema(path.read_text(encoding="utf-8"), schema)):
            if statement.name in found:
                raise ConfigError(f"statement {statement.name!r} stands twice", str(path))
            found[statement.name] = statement
    finish = found["finish_runs"]
    found[f"{finish.name}_overflow"] = replace(
        finish,
        name=f"{finish.name}_overflow",
        sql=finish.sql.replace(f"{schema}.history ", f"{schema}.history_overflow "),
    )
    return found


def _parse(text: str) -> Iterator[Statement]:
    pieces = _NAME.split(text)
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        lines = body.strip().splitlines()
        comment = "\n".join(line[3:] for line in lines if line.startswith("-- "))
        code = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
        yield _numbered(name, comment, code.strip().rstrip(";"))


def _numbered(name: str, comment: str, code: str) -> Statement:
    order: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${order.setdefault(match[1], len(order) + 1)}"

    return Statement(name, comment, _PARAMETER.sub(number, code), tuple(order))
