"""Named SQL statements: ``sql/*.sql`` → `Statement` (name, text with ``$n``, parameter names).

A file holds statements that begin with ``-- name: claim``; comment lines after it say which
transition it makes (``-- ready -> running``) and the reasons for its form. Parameters are written
``:run_ids``. One that has only its name and comments calls the SQL function of that name, which a
script of the migration makes: its parameters are the function's arguments.

What needs a later revision than the oldest that this program works with says so in the line after
its name: ``-- since: pgcron_0002``. It may be a variant of an older statement of that name, which
stays for databases that are not migrated yet. Variants return the same columns; the newest takes
all parameters, an older one those that it has a use for. So a call of a function whose arguments a
revision changes is written out for the databases before it.

What forgets old rows names their table in the line after its name (``-- forgets: pgcron.missed``),
and says only which rows, called ``o``, and in which order: `_FORGET` is put around that.

What asks for the scope of a person, as ``pgcron.in_scope(…)`` does, is sent only for one whose
roles have one (`pgcron_ha.db.driver.scopes`), which is its last parameter: the others' statements
are as without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.errors import ConfigError, SchemaError

_PLAIN: Final = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,39}")
DEFAULT_SCHEMA: Final = "pgcron"
_FOLDER: Final = Path(__file__).parents[1] / "sql"
_HEAD: Final = re.compile(
    r"^-- name: (\w+)$(?:\n-- since: (\w+)$)?(?:\n-- forgets: ([\w.]+)$)?", re.MULTILINE
)
# A batch of rows is found and locked; those that are locked are left.
_FORGET: Final = (
    "DELETE FROM {0} g WHERE g.ctid = ANY(ARRAY(\n  SELECT o.ctid FROM {0} o WHERE {1}\n"
    "  LIMIT :at_most FOR UPDATE SKIP LOCKED)) RETURNING 1 AS gone"
)
_PARAMETER: Final = re.compile(r"(?<![:\w]):([a-z][a-z_0-9]*)")
_FUNCTION: Final = re.compile(
    r"^CREATE FUNCTION pgcron\.(\w+)\(((?:[^()]|\([^()]*\))*)\)\s+(RETURNS TABLE)?", re.MULTILINE
)
_ARGUMENT: Final = re.compile(r"(?:^|,)\s*(\w+)\s+([\w.]+(?:\[\])?)")
# JSON comes as text and durations as seconds, so that neither a caller's JSON codec nor a driver's
# idea of an interval matters.
_GIVEN: Final = {
    "jsonb": ":{0}::text::jsonb",
    "interval": "pg_catalog.make_interval(secs => :{0}::float8)",
}
_SCOPE: Final = re.compile(r"(\w+\.\w*in_scope\((?:[^()]|\([^()]*\))*)\)")
_SCHEMA: Final = re.compile(r"\bpgcron\.|'pgcron'(?=::regnamespace)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement in the form that is sent: `sql` with ``$1`` …, and the names of its
    parameters in that order.
    """

    name: str
    sql: str
    parameters: tuple[str, ...]
    since: str | None = None
    """The revision whose schema it needs; None: the oldest that this program works with."""
    scoped_sql: str = ""
    """For a person whose roles have a scope: that is one parameter more; "" if it asks for none."""
    scope: tuple[tuple[str, ...], ...] = ()
    """The value of that parameter."""


class Statements(dict[str, Statement]):
    """Statements by name. One that the revision does not have yet raises SchemaError."""

    def __init__(self, variants: Iterable[Statement], revision: str | None) -> None:
        """Of each name the newest variant that a database of the revision takes; without a
        revision the oldest.
        """
        super().__init__()
        self.revision = revision
        """The database's, or None when it is not known."""
        self.later: dict[str, str] = {}
        """Since when a database has what other statements need, by their names."""
        for each in sorted(variants, key=lambda variant: variant.since or ""):
            if revision is None:
                self.setdefault(each.name, each)
            elif each.since is None or each.since <= revision:
                self[each.name] = each
            else:
                self.later.setdefault(each.name, each.since)

    def __missing__(self, name: str) -> Statement:
        if name not in self.later:
            raise KeyError(name)
        raise SchemaError(
            f"the schema is at revision {self.revision}",
            f"What was asked for needs {self.later[name]}.",
            "Run `pgcron-ha migrate`; nodes go on meanwhile.",
        )


def require_plain(schema: str) -> None:
    """Raises ConfigError for a schema that is no plain lower-case name, or PostgreSQL's own.

    Whether it is a keyword, the server knows: `pgcron_ha.db.driver.revision.require_supported`.
    """
    if not _PLAIN.fullmatch(schema):
        raise ConfigError(
            f"schema {schema!r} is not a plain name",
            "It has up to 40 lower-case letters, digits and '_', and is not PostgreSQL's own"
            " (pg_…, information_schema).",
            "Choose a name such as 'pgcron' or 'jobs'.",
        )


def literal(text: str) -> str:
    """The text as a literal that means the same whatever standard_conforming_strings is."""
    escape = "E" if "\\" in text else ""
    return escape + "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def in_schema(text: str, schema: str) -> str:
    """`text` with every reference to the schema ``pgcron`` changed to `schema` (a plain
    lower-case name).
    """
    require_plain(schema)
    if schema == DEFAULT_SCHEMA:
        return text
    return _SCHEMA.sub(
        lambda match: f"{schema}." if match[0].endswith(".") else f"'{schema}'", text
    )


@lru_cache(maxsize=32)
def load(schema: str = DEFAULT_SCHEMA, revision: str | None = None) -> Statements:
    """Every named statement for `schema`, by name. Raises ConfigError for a schema that is no plain
    name.

    They are those for a database at `revision`. Without it they are the oldest of each name, which
    a database of every revision takes that has what it needs.

    ``finish_runs_overflow``, of runs that end while history has no partition for them, differs from
    ``finish_runs`` in the table alone.
    """
    found = Statements(every_variant(schema), revision)
    usual, name = found["finish_runs"], "finish_runs_overflow"
    history = re.escape(in_schema("pgcron.history", schema))
    sql = re.sub(rf"({history})\b", r"\1_overflow", usual.sql)
    found[name] = replace(usual, name=name, sql=sql)
    return found


@lru_cache(maxsize=16)
def every_variant(schema: str = DEFAULT_SCHEMA) -> tuple[Statement, ...]:
    """All statements of the files, in their order."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.sql")))
    return tuple(each for text in texts for each in _parse(text, schema))


@lru_cache(maxsize=16)
def varying(schema: str = DEFAULT_SCHEMA) -> frozenset[str]:
    """The names of statements that depend on the database's revision."""
    return frozenset(each.name for each in every_variant(schema) if each.since is not None)


@lru_cache(maxsize=1)
def _calls() -> dict[str, str]:
    """The statements that call the functions of the migration, by their names."""
    found: dict[str, str] = {}
    for path in (MIGRATIONS / "sql").glob("*.sql"):
        for name, arguments, returns in _FUNCTION.findall(path.read_text(encoding="utf-8")):
            kinds = dict(_ARGUMENT.findall(arguments))
            has_columns = kinds.pop("OUT", returns)  # what begins with OUT is no argument
            given = ", ".join(
                f"{each} => {_GIVEN.get(kind, f':{each}::{kind}').format(each)}"
                for each, kind in kinds.items()
            )
            call = f"SELECT {'* FROM ' if has_columns else ''}pgcron.{name}({given})"
            # By its first argument, too: there may be others of this name.
            found |= {name: call, f"{name}_{next(iter(kinds), '')}": call}
    return found


def _parse(text: str, schema: str) -> Iterator[Statement]:
    pieces = _HEAD.split(text)
    for name, since, forgotten, body in zip(*(pieces[n::4] for n in (1, 2, 3, 4)), strict=True):
        lines = (line for line in body.splitlines() if not line.lstrip().startswith("--"))
        code = "\n".join(lines)
        code = code.strip().rstrip(";") or _calls()[name]
        code = in_schema(_FORGET.format(forgotten, code) if forgotten else code, schema)
        sql, parameters = _numbered(code)
        scoped, asked = _SCOPE.subn(rf"\1, scopes => ${len(parameters) + 1}::text[])", sql)
        open_to_all = _SCOPE.sub("true", sql)
        yield Statement(name, open_to_all, parameters, since, scoped if asked else "")


def _numbered(code: str) -> tuple[str, tuple[str, ...]]:
    order: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${order.setdefault(match[1], len(order) + 1)}"

    return _PARAMETER.sub(number, code), tuple(order)
