"""Named statements as functions of their parameters, in the caller's own transaction: on a
connection of asyncpg, psycopg or SQLAlchemy, with their placeholders and their kinds of values.

Neither psycopg nor SQLAlchemy is imported: a caller that passes their objects has imported them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, get_args

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.scopes import SCOPES
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, Statement, load, varying
from pgcron_ha.errors import InvalidInput

Style = Literal["format", "pyformat", "named", "numeric_dollar"]
"""``%s``; ``%(name)s``; ``:name``; ``$1``: the names of PEP 249, and SQLAlchemy's for the last."""

Parameters: TypeAlias = "list[Any] | dict[str, Any]"

_USE: Final = re.compile(r"\$(\d+)((?:::\w+(?:\[\])?)*)")


def in_style(
    name: str, values: Mapping[str, Any], style: Style, schema: str
) -> tuple[str, Parameters]:
    """The text of a statement and its parameters: a list for ``format`` and ``numeric_dollar``, a
    dictionary for the others. Parameters that `values` does not have are NULL. InvalidInput.
    """
    if style not in get_args(Style):
        raise InvalidInput(
            f"style '{style!s:.50}' is not known",
            f"A statement's placeholders are written as {', '.join(get_args(Style))}.",
            "Cursors of psycopg and Django take format (%s), SQLAlchemy's text() named (:name).",
        )
    return for_driver(load(schema)[name], values, style)


def for_driver(
    statement: Statement, values: Mapping[str, Any], style: Style
) -> tuple[str, Parameters]:
    """The same of a statement at hand. Durations become seconds and tuples lists, which each
    driver knows.
    """
    given = {each: plain(values.get(each)) for each in statement.parameters}
    if style == "numeric_dollar":
        return statement.sql, list(given.values())
    sql, order = _written(statement, style)
    return sql, [given[each] for each in order] if style == "format" else given


def plain(value: Any) -> Any:
    """A value as every driver takes it: durations are seconds, arrays are lists."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple) else value


@lru_cache(maxsize=256)
def _written(statement: Statement, style: Style) -> tuple[str, tuple[str, ...]]:
    """The text, and the names of the parameters as they come in it."""
    order: list[str] = []

    def place(match: re.Match[str]) -> str:
        name = statement.parameters[int(match[1]) - 1]
        order.append(name)
        written = {"format": "%s", "pyformat": f"%({name})s", "named": f":{name}"}[style]
        # After :name, SQLAlchemy's text() does not understand a cast by colons.
        for kind in match[2].split("::")[1:]:
            written = f"CAST({written} AS {kind})"
        return written

    sql = statement.sql if style == "named" else statement.sql.replace("%", "%%")
    return _USE.sub(place, sql), tuple(order)


T = TypeVar("T")


class Named:
    """A named statement, and how a function that sends it takes its parameters."""

    def __init__(self, name: str, *required: str, **defaults: Any) -> None:
        """Values without a name are those `required`, then the ones with `defaults`, in the order
        in which they are listed here. The statement's other parameters are NULL unless given.
        """
        self.name = name
        self.required = required
        self.defaults = defaults

    def bound(
        self, statement: Statement, values: Sequence[Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        """All parameters of the statement. Raises TypeError for one that it does not have, is
        missing, or given twice.
        """
        in_order = dict(zip((*self.required, *self.defaults), values, strict=False))
        given = self.defaults | in_order | options
        if (
            given.keys() - set(statement.parameters)
            or set(self.required) - given.keys()
            or in_order.keys() & options.keys()
            or len(values) > len(in_order)
        ):
            known = ", ".join(statement.parameters)
            raise TypeError(f"{self.name} takes {known}, and needs {', '.join(self.required)}")
        return dict.fromkeys(statement.parameters) | given


class Call(Named, Generic[T]):
    """``await call(connection, *values, schema=…, **options)``: an action of a person or client.

    In the transaction of the connection. Args and retry policies are JSON text, durations
    `timedelta`; ``actor`` is the caller's name (None: the database's session user), ``interface``
    is ``cli``, ``code``, …. Raises the errors of `pgcron_ha.errors` with the messages of SQL.
    """

    async def __call__(self, connection: Any, *values: Any, **options: Any) -> T:
        """The first column of its only row."""
        found: T = (await self.row(connection, *values, **options))[0]
        return found

    async def row(
        self, connection: Any, *values: Any, schema: str = DEFAULT_SCHEMA, **options: Any
    ) -> Sequence[Any]:
        """All columns of the row; () when there is none."""
        statement = await fitting(connection, self.name, schema)
        return await fetch_row(connection, statement, self.bound(statement, values, options))


async def fitting(connection: Any, name: str, schema: str) -> Statement:
    """The statement `name` as the database behind `connection` takes it, whatever its driver, for
    the person who asks.

    The database is asked for its revision only if that matters. Raises SchemaError when it is too
    old for the statement.
    """
    revision = None
    if name in varying(schema):
        (revision,) = await fetch_row(connection, load(schema)["read_revision"], {})
    found = load(schema, revision)[name]
    scopes = SCOPES.get()
    if scopes is None or not found.scoped_sql:
        return found
    return replace(found, sql=found.scoped_sql, scope=(scopes,))


async def fetch_row(
    connection: Any, statement: Statement, values: Mapping[str, Any]
) -> Sequence[Any]:
    """The first row of the statement's result, in the caller's own transaction.

    Raises a `PgcronError` with any driver; `InvalidInput` for an object that is no asynchronous
    connection. Nothing is committed or rolled back here. After a refusal by the database (not by a
    Python check) the caller's transaction has failed, as after any error of PostgreSQL.
    """
    with answers():
        if isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
            ordered = [plain(values.get(each)) for each in statement.parameters]
            found = await connection.fetchrow(statement.sql, *ordered, *statement.scope)
        else:
            found = await _fetch_row_of_other(connection, statement, values)
    return () if found is None else tuple(found)


async def _fetch_row_of_other(
    connection: Any, statement: Statement, values: Mapping[str, Any]
) -> Any:
    kinds = {
        f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(connection).__mro__
    }
    if "psycopg.AsyncConnection" in kinds:
        # The caller's own row factory may make dictionaries or objects of rows.
        async with connection.cursor(row_factory=lambda cursor: tuple) as cursor:
            await cursor.execute(*for_driver(statement, values, "pyformat"))
            return await cursor.fetchone()
    if kinds & {"sqlalchemy.AsyncSession", "sqlalchemy.async_scoped_session"}:
        connection = await connection.connection()
    elif "sqlalchemy.AsyncConnection" not in kinds:
        kind = type(connection)
        raise InvalidInput(
            f"conn is a {kind.__module__}.{kind.__qualname__}",
            "conn may be a connection of asyncpg, an AsyncConnection of psycopg, or an "
            "AsyncConnection or AsyncSession of SQLAlchemy: what is asked for happens in its "
            "transaction.",
            "From a pool or an engine take a connection first; leave conn out to use the App's "
            "own. Without an event loop execute what App.enqueue_statement(…) gives.",
        )
    # exec_driver_sql, and not the driver's connection behind it: SQLAlchemy begins its transaction
    # with the first statement that it sends itself.
    style = connection.dialect.paramstyle
    if style not in ("numeric_dollar", "pyformat"):
        raise InvalidInput(
            f"the SQLAlchemy dialect {connection.dialect.driver!r} is not known here",
            "conn may be made with the drivers asyncpg and psycopg.",
            "Make the engine with postgresql+asyncpg:// or postgresql+psycopg://.",
        )
    sql, given = for_driver(statement, values, style)
    result = await connection.exec_driver_sql(
        sql, tuple(given) if isinstance(given, list) else given
    )
    return result.first()
