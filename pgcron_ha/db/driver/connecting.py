"""Opens connections; connection errors become errors with a hint."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.pooling import ClientConnection, connect_plainly
from pgcron_ha.db.driver.session_settings import CONTROL, SessionSettings
from pgcron_ha.errors import DatabaseUnavailable, PgcronError

OLDEST_SERVER: Final = 14
# A database that is meant to be read only (it is being moved, its disk is full) is left so.
TAKES_NO_WRITES: Final = (
    "the database takes no writes (a standby, or default_transaction_read_only is on)"
)
READ_ONLY_HINT: Final = (
    "Connect to the primary: add target_session_attrs=read-write to the DSN. If it is one,"
    " default_transaction_read_only is on there: ask why, then ALTER ROLE … SET it off."
)
# Raised by asyncpg when the connection, not the statement, is at fault; whatever was under way has
# an unknown outcome.
CONNECTION_ERRORS: Final[tuple[type[BaseException], ...]] = (
    OSError,  # a time-out, too
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    EOFError,
)

# Raised before one of our statements began, if a pooler does not track them as it claims: it is no
# longer prepared, another one is, or its plan is for an earlier schema.
LOST_STATEMENTS: Final[tuple[type[BaseException], ...]] = (
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
    asyncpg.InvalidCachedStatementError,
)

# Raised by a statement that may simply be sent again: a token or a compare-and-set guards each of
# our statements.
RETRYABLE_ERRORS: Final[tuple[type[BaseException], ...]] = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
)


_TLS_HINT: Final = (
    "Check sslmode, sslrootcert, sslcert and sslkey of the DSN, and whom the server's certificate"
    " names."
)
_EXPIRED_HINT: Final = "Have the certificate renewed: the server's, or what sslcert names."
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_INFINITY: Final = 2**63 - 1


async def connect(
    dsn: str, settings: SessionSettings = CONTROL, **options: Any
) -> ClientConnection:
    """A connection to the database of `dsn` with these settings; `options` are those of
    `connect_plainly`.

    Through a pooler, where settings of the session would be the next client's, too, each of its
    transactions begins with them. Raises DatabaseUnavailable with a hint, also for a server that is
    too old.
    """
    with reaching():
        connection, is_pooled = await connect_plainly(dsn, **options)
    try:
        version = connection.get_server_version()
        if version.major < OLDEST_SERVER:
            raise DatabaseUnavailable(
                f"the server is PostgreSQL {version.major}.{version.minor}",
                "pgcron_ha needs PostgreSQL 14 or newer.",
                "Upgrade the server, or point the DSN at another one.",
            )
        await connection.execute(settings.in_session(version.major, is_pooled=is_pooled))
        if not settings.is_for_handlers:
            await read_far_values(connection)
        if is_pooled:
            connection.begin_with(settings.in_transaction(version.major))
    except BaseException:
        connection.terminate()
        raise
    return connection


@asynccontextmanager
async def connected(
    dsn: str, settings: SessionSettings = CONTROL
) -> AsyncIterator[ClientConnection]:
    """A connection as `connect` makes it, closed at the end of the block."""
    connection = await connect(dsn, settings)
    try:
        yield connection
    finally:
        await connection.close(timeout=5)


@contextmanager
def reaching() -> Iterator[None]:
    """Inside, any error that prevents a connection becomes DatabaseUnavailable with a hint; a
    `PgcronError` is passed on.
    """
    try:
        yield
    except PgcronError:
        raise
    except Exception as error:
        raise unavailable(error) from error


_LOGIN_ERRORS: Final = (
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidAuthorizationSpecificationError,
)
_ADDRESS_HINT: Final = (
    "Check that PostgreSQL runs and that host and port of the DSN (PGCRON_HA_DSN) are right."
)
# The first that fits; of other errors the address is to be checked.
_HINTS: Final[dict[type[Exception] | tuple[type[Exception], ...], str]] = {
    _LOGIN_ERRORS: "Check user and password in the DSN (PGCRON_HA_DSN), and pg_hba.conf, which may"
    " ask for TLS (sslmode).",
    asyncpg.InvalidCatalogNameError: "Create the database, or name another one in the DSN.",
    asyncpg.TooManyConnectionsError: "Raise max_connections, or close other clients.",
    asyncpg.TargetServerAttributeNotMatched: "Name another host in the DSN (PGCRON_HA_DSN), or mend"
    " target_session_attrs.",
    socket.gaierror: "Check the host name in the DSN (PGCRON_HA_DSN).",
    FileNotFoundError: "Check the folder of the unix socket (host) and the files sslrootcert,"
    " sslcert and sslkey of the DSN (PGCRON_HA_DSN).",
    asyncpg.ConnectionDoesNotExistError: "The server's log says why it hung up; with TLS it may not"
    " accept sslcert of the DSN.",
    (
        asyncpg.UndefinedObjectError,
        asyncpg.CantChangeRuntimeParamError,
        asyncpg.InvalidParameterValueError,
    ): "A parameter of the DSN (PGCRON_HA_DSN) that the driver (asyncpg) does not know is sent to"
    " the server as a setting: mend how it is written, or take it out.",
    (ValueError, asyncpg.ClientConfigurationError): "Write it as"
    " postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
}


def unavailable(error: BaseException) -> PgcronError:
    """The error, with a hint, for a connection that can't be made."""
    hint = next((text for kinds, text in _HINTS.items() if isinstance(error, kinds)), _ADDRESS_HINT)
    said = str(error)
    if isinstance(error, ssl.SSLError) or "certificate" in said or "SSL" in said:
        hint = _EXPIRED_HINT if "expired" in said else _TLS_HINT
    fact = "the database can't be reached"
    if isinstance(error, _LOGIN_ERRORS):
        fact = "the database refuses the login"
    return DatabaseUnavailable(fact, f"{type(error).__name__}: {error}", hint)


async def read_far_values(connection: Any) -> None:
    """From here on a session reads instants beyond Python's range as the last it has: else one row
    with such a value would keep all others of its statement from being read. Infinity is the last
    instant, which it writes as infinity. No statement is sent.
    """
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        encoder=_written_instant,
        decoder=_read_instant,
        format="tuple",
    )


def _read_instant(written: tuple[int]) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=written[0])
    except OverflowError:
        return _LATEST if written[0] > 0 else _EARLIEST


def _written_instant(instant: datetime) -> tuple[int]:
    if instant == _LATEST:
        return (_INFINITY,)
    return (-_INFINITY - 1 if instant == _EARLIEST else (instant - _EPOCH) // timedelta.resolution,)
