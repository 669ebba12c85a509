"""The sessions of one SQL profile: executes its statements, and ends them from outside.

JSON becomes parameters of any type, and rows become JSON: PostgreSQL's own text form both ways.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from decimal import Decimal
from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS
from pgcron_ha.db.driver.hosts import open_connection
from pgcron_ha.db.driver.link import Row, unanswered
from pgcron_ha.db.driver.pool import HandlerPool, cut
from pgcron_ha.db.driver.session_settings import PROFILE
from pgcron_ha.db.driver.transactions import HeldConnection, raise_own
from pgcron_ha.errors import DatabaseUnavailable, InvalidInput, PgcronError

_NUMBERS: Final = ("int2", "int4", "int8", "oid")
_TEXTS: Final = (
    *("text", "varchar", "bpchar", "name", "bytea", "uuid", "inet", "cidr", "macaddr", "xml"),
    *("date", "time", "timetz", "timestamp", "timestamptz", "interval", "bit", "varbit", "money"),
)
_OF_JSON: Final = ("json", "jsonb")


async def read_by_text(connection: Any) -> None:
    """From here on a session takes parameters as text, which the server reads by the type it
    expects, and gives values as what JSON can hold.
    """
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(_NUMBERS, int),
        **dict.fromkeys(_TEXTS, str),
        **dict.fromkeys(_OF_JSON, json.loads),
        "bool": lambda text: text == "t",
        "float4": _number,
        "float8": _number,
        "numeric": _number,
    }
    for name, reader in readers.items():
        await connection.set_type_codec(
            name,
            schema="pg_catalog",
            encoder=json.dumps if name in _OF_JSON else as_text,
            decoder=reader,
            format="text",
        )


def as_text(value: object) -> str:
    """A value of JSON as PostgreSQL reads it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_json(value: Any) -> Any:
    """What a session gave, as JSON can hold it: rows of rows, arrays, and texts of the rest."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    if hasattr(value, "items"):  # a record, or JSON's own
        return {str(key): as_json(each) for key, each in value.items()}
    return str(value)


def _number(text: str) -> Any:
    """A number if JSON's can say the same, else its text: money must not be rounded."""
    exact = Decimal(text)
    if not exact.is_finite():
        return text
    if exact == exact.to_integral_value():
        return int(exact) if abs(exact) < 10**18 else text
    near = float(exact)
    return near if math.isfinite(near) and Decimal(repr(near)) == exact else text


Say = Callable[[str], None]

FETCH_ROWS: Final = 500
"""Rows that are in memory at once; those that are not kept are only counted."""

_OUTSIDE_SECONDS: Final = 5.0
_UNREACHABLE: Final[tuple[type[BaseException], ...]] = (
    *CONNECTION_ERRORS,
    asyncpg.PostgresError,
    PgcronError,
)


class SqlError(PgcronError):
    """The database's error for a statement: `code` is its SQLSTATE; `message` has detail and
    hint, too.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class SqlDatabase(HandlerPool):
    """The database of a profile. Belongs to the loop that first uses it."""

    def __init__(self, dsn: Callable[[], str], most: int, **options: Any) -> None:
        """`dsn`, and the option `password`, are called for each new connection; both may raise
        ConfigError.
        """
        super().__init__(dsn, most, PROFILE, **options)

    async def open(self, settings: Mapping[str, str]) -> SqlSession:
        """A session with these settings, as soon as one of the profile's is free.

        Raises DatabaseUnavailable, SqlError, or ConfigError.
        """
        connection = await self.acquire()
        try:
            given = self.schema, list(settings), list(settings.values())
            login = await connection.fetchrow(self.statements["begin_session"].sql, *given)
        except BaseException as error:
            cut(connection)
            self.give_back(connection)
            raise_own(error, reported(error))
        return SqlSession(self, connection, login)

    async def login(self) -> Row:
        """What ``begin_session`` says of the profile's session. Raises what `open` raises."""
        session = await self.open({})
        session.leave()
        return session.login

    async def ask_outside(self, name: str, login: Row) -> Any:
        """What a statement about a session gives over another connection of the same role, beside
        the pool: it must not wait. Raises `_UNREACHABLE`.
        """
        async with asyncio.timeout(_OUTSIDE_SECONDS):
            other = await open_connection(self._dsn(), timeout=_OUTSIDE_SECONDS, **self._options)
            try:
                return await other.fetchval(self.statements[name].sql, login["pid"], login["began"])
            finally:
                other.terminate()

    async def _prepare(self, connection: Any) -> None:
        if connection.is_pooled:
            raise DatabaseUnavailable(
                "this DSN leads through a pooler that hands sessions around",
                "A session's settings would be left to others, and others' statements be ended.",
                "Point it at the server itself.",
            )
        await read_by_text(connection)


class SqlSession(HeldConnection):
    """One connection while it works for one run. Its `finish` takes the result as JSON's value, and
    raises SqlError (PC012) when the token does not hold the run any more.
    """

    def __init__(self, database: SqlDatabase, connection: Any, login: Row) -> None:
        super().__init__(database, connection)
        self.login = login
        self._database = database
        self._signalling = asyncio.Lock()
        self._may_be_cancelled = True

    async def execute(
        self, text: str, values: Sequence[Any], keep: int, say: Say
    ) -> list[dict[str, Any]]:
        """Executes one statement; returns its first `keep` rows. Notices and the number of rows go
        to `say`. Raises SqlError, Unanswered, and InvalidInput for a value that a parameter's type
        does not take.
        """

        def heard(_: Any, message: Any) -> None:
            say(f"{message.severity}: {message.message}")

        self.connection.add_log_listener(heard)
        kept: list[dict[str, Any]] = []
        try:
            prepared = await self.connection.prepare(text)
            kinds = prepared.get_parameters()
            fitting = [_fitting(*pair) for pair in zip(values, kinds, strict=True)]
            if not prepared.get_attributes():
                await prepared.fetch(*fitting)
                say(prepared.get_statusmsg())
                return kept
            count = 0
            is_begun = self.connection.is_in_transaction()
            async with nullcontext() if is_begun else self.connection.transaction():
                cursor = await prepared.cursor(*fitting)
                while rows := await cursor.fetch(FETCH_ROWS):
                    count += len(rows)
                    kept += [as_json(row) for row in rows[: keep - len(kept)]]
                say(f"{count} {'row' if count == 1 else 'rows'}")
            return kept
        except BaseException as error:
            raise_own(error, reported(error))
        finally:
            with suppress(asyncpg.InterfaceError):  # the connection is gone
                self.connection.remove_log_listener(heard)

    async def finish(self, **values: Any) -> None:
        """As its base, and nobody cancels it."""
        await self._hush()
        await super().finish(**values)

    async def commit(self) -> None:
        """As its base, and nobody cancels it."""
        await self._hush()
        await super().commit()

    async def cancel(self) -> None:
        """Ends the statement under way, if there is one, through another connection.

        A COMMIT is not ended: it may be waiting for its standby, and a cancel would only make it
        visible before. Raises nothing.
        """
        async with self._signalling:
            if self._may_be_cancelled:
                with suppress(*_UNREACHABLE):  # then it is ended, when its grace is over
                    await self._database.ask_outside("cancel_session", self.login)

    async def terminate(self) -> bool:
        """Ends the session; whether it is known to be gone, after some seconds at most.

        Nothing happens once it has left: the connection may work for another run.
        """
        if self._is_over:
            return True
        cut(self.connection)
        try:
            return await self._database.ask_outside("end_session", self.login) is not False
        except _UNREACHABLE:
            return False

    async def _hush(self) -> None:
        async with self._signalling:
            self._may_be_cancelled = False

    def _reported(self, error: Exception) -> BaseException:
        return reported(error)


def reported(error: BaseException) -> BaseException:
    """An error of the driver as one of pgcron_ha; others as they are."""
    if isinstance(error, asyncpg.PostgresError) and not isinstance(
        error, asyncpg.PostgresConnectionError
    ):
        parts = [error.message or str(error)]
        parts += [f"detail: {error.detail}"] if error.detail else []
        parts += [f"hint: {error.hint}"] if error.hint else []
        return SqlError(error.sqlstate or "XX000", "\n".join(parts))
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        return InvalidInput(str(error))
    if isinstance(error, CONNECTION_ERRORS) and not isinstance(error, PgcronError):
        return unanswered(error)
    return error


def _fitting(value: Any, kind: Any) -> Any:
    """A parameter as its type's codec takes it: arrays as lists, the rest is made text there."""
    if value is None or kind.name in ("json", "jsonb"):
        return value
    if kind.kind == "array":
        if not isinstance(value, list):
            raise InvalidInput(f"a {kind.name} is given as a JSON array, not {str(value)[:80]!r}")
        is_json = kind.name.startswith("json")
        return [each if each is None or is_json else as_text(each) for each in value]
    return as_text(value) if kind.schema != "pg_catalog" else value
