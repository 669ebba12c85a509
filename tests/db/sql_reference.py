"""The tables of ``docs/reference/sql.md``, made from the database, the grants and the errors.

``python -m tests.db.dump_schema`` writes them, too. Between the marks of a section nothing is
written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import psycopg

from pgcron_ha import errors
from tests.house.checkout import ROOT
from tests.product.cli import statements
from tests.sessions import USUAL

PAGE: Final = ROOT / "docs" / "reference" / "sql.md"

_SECTION: Final = re.compile(
    r"(<!-- made from the database: (\w+) -->\n).*?(\n<!-- end of \2 -->)", re.DOTALL
)
# Public is what has a comment that does not say that it is private: migrations/sql/contract.sql.
_FUNCTIONS: Final = b"""
    SELECT p.proname::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
           obj_description(p.oid, 'pg_proc')
      FROM pg_proc p
     WHERE p.pronamespace = 'pgcron'::regnamespace
       AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Private: %'
     ORDER BY p.proname COLLATE "C", pg_get_function_arguments(p.oid)"""
_VIEWS: Final = b"""
    SELECT c.relname::text, obj_description(c.oid, 'pg_class'),
           array_agg(format('`%s` %s', a.attname, format_type(a.atttypid, a.atttypmod))
                     ORDER BY a.attnum)
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
     WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'v'
       AND obj_description(c.oid, 'pg_class') NOT LIKE 'Private: %'
     GROUP BY c.oid, c.relname ORDER BY c.relname COLLATE "C" """
_COLUMNS: Final = b"""
    SELECT a.attname::text, format_type(a.atttypid, a.atttypmod),
           CASE WHEN a.attidentity <> '' THEN 'the next number'
                ELSE coalesce('`' || pg_get_expr(d.adbin, d.adrelid) || '`', '') END,
           coalesce(col_description(a.attrelid, a.attnum), '')
      FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
     WHERE a.attrelid = %s::regclass AND a.attname = ANY (%s)
     ORDER BY array_position(%s, a.attname::text)"""


def page(dsn: str) -> str:
    """The page as it should be, for the migrated database at `dsn`."""
    with psycopg.connect(dsn) as connection:
        connection.execute(USUAL)
        return _SECTION.sub(
            lambda found: found[1] + "\n".join(_lines(found[2], connection)) + found[3],
            PAGE.read_text(encoding="utf-8"),
        )


def public_functions(connection: psycopg.Connection[Any]) -> list[tuple[str, str, str | None, str]]:
    """Name, arguments, result (a procedure has none) and comment of each, by name."""
    return connection.execute(_FUNCTIONS).fetchall()


def _lines(section: str, connection: psycopg.Connection[Any]) -> Iterator[str]:
    if section == "functions":
        yield from _functions(connection)
    elif section == "views":
        yield from ("| view | columns |", "| --- | --- |")
        for name, comment, columns in connection.execute(_VIEWS):
            yield _row(f"`{name}`", f"{comment}<br>{_short(', '.join(columns))}")
    elif section == "run":
        yield from _columns(connection, "run", "producer")
    elif section == "schedule":
        yield from _columns(connection, "schedule", "scheduler")
    elif section == "errors":
        yield from ("| SQLSTATE | in Python | means |", "| --- | --- | --- |")
        for code, kind in sorted(codes().items()):
            yield _row(f"`{code}`", f"`{kind.__name__}`", str(kind.__doc__).partition("\n")[0])


def _functions(connection: psycopg.Connection[Any]) -> Iterator[str]:
    yield from ("| function | does |", "| --- | --- |")
    for name, arguments, result, comment in public_functions(connection):
        returned = "" if result in (None, "void", "record") else f" → {result}"
        yield _row(f"`{name}({_short(arguments)}){_short(returned)}`", comment)


def _columns(connection: psycopg.Connection[Any], table: str, part: str) -> Iterator[str]:
    """What the part that `pgcron-ha grants` prints may insert."""
    granted = "\n".join(statements(part, "somebody", "pgcron"))
    found = re.search(rf"INSERT \(([^)]+)\)[^;]* ON pgcron\.{table} TO", granted)
    assert found is not None
    names = found[1].split(", ")
    yield from ("| column | type | default | |", "| --- | --- | --- | --- |")
    for name, kind, default, comment in connection.execute(
        _COLUMNS, [f"pgcron.{table}", names, names]
    ):
        yield _row(f"`{name}`", _short(kind), _short(default), comment)


def codes() -> dict[str, type[errors.PgcronError]]:
    """The SQLSTATEs of our errors, each with the error that it is in Python."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    return {
        kind.sqlstate: kind
        for kind in kinds
        if issubclass(kind, errors.PgcronError) and "sqlstate" in vars(kind)
    }


def _short(text: str) -> str:
    text = re.sub(r"::(?:[a-z]+\.)?[a-z]+(?: with time zone| precision)?(\[\])?", "", text)
    text = text.replace("timestamp with time zone", "timestamptz")
    return (
        text.replace("double precision", "float8")
        .replace(" DEFAULT NULL", " = NULL")
        .replace(" DEFAULT ", " = ")
    )


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
