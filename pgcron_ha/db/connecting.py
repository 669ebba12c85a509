"""How a connection is made: session settings, keepalives, and errors that say what now."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg

from pgcron_ha.db.literals import literal
from pgcron_ha.db.pooling import connect_plainly
from pgcron_ha.errors import DatabaseUnavailable, PgcronError

OLDEST_SERVER: Final = 140000
STATEMENT_TIMEOUT_MS: Final = 5_000
LOCK_TIMEOUT_MS: Final = 2_000
# Of the engine's transactions, each of which is one statement; servers older than 17 have no such
# bound. It is shorter than a lease, and whatever the database sets for everybody does not count.
TRANSACTION_TIMEOUT_MS: Final = 10_000
_BOUNDS_TRANSACTIONS: Final = 17
_LONGEST_NAME: Final = 63
# So that a dead client's row locks go away soon, and its statement with them.
KEEPALIVES: Final = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
)
# All names of ours are qualified; what somebody put before everything on a role's path is not
# looked at. Not for connections that handlers use.
NO_PATH: Final = "search_path = pg_catalog, pg_temp"
_CONTROL_VALUES: Final = (
    NO_PATH,
    "timezone = 'UTC'",
    "datestyle = 'ISO'",
    "intervalstyle = 'postgres'",
    "extra_float_digits = 1",
    "quote_all_identifiers = off",
    f"statement_timeout = {STATEMENT_TIMEOUT_MS}",
    f"lock_timeout = {LOCK_TIMEOUT_MS}",
    "idle_in_transaction_session_timeout = 10000",
    "idle_session_timeout = 0",
    "synchronous_commit = on",
    # Every control statement is driven by an index, whatever the statistics say just now; and one
    # plan serves all, since planning costs more than running them.
    "plan_cache_mode = force_generic_plan",
    "enable_seqscan = off",
    "jit = off",
)
# SET after connecting, not start-up parameters, which a transaction pooler may refuse.
_CONTROL_SETTINGS: Final = "; ".join(
    (
        "SET default_transaction_isolation = 'read committed'",
        *(f"SET {value}" for value in _CONTROL_VALUES),
        KEEPALIVES,
    )
)
_IN_CONTROL: Final = "; ".join(f"SET LOCAL {value}" for value in _CONTROL_VALUES)
CONTROL_TRANSACTION: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED; {_IN_CONTROL}"
"""Begins a transaction with the engine's settings, where a session can't keep them."""
# A database that is meant to be read only (it is being moved, its disk is full) is left so.
TAKES_NO_WRITES: Final = (
    "the database takes no writes (a standby, or default_transaction_read_only is on)"
)
READ_ONLY_HINT: Final = (
    "Connect to the primary: add target_session_attrs=read-write to the DSN. If it is one,"
    " default_transaction_read_only is on there: ask why, then ALTER ROLE … SET it off."
)
# What poolers keep for each of their clients, whichever session it gets.
POOLED_SETTINGS: Final = "SET timezone = 'UTC'; SET datestyle = 'ISO'"

# Raised by asyncpg when the connection, not the statement, is at fault; whatever was under way has
# an unknown outcome.
CONNECTION_ERRORS: Final[tuple[type[BaseException], ...]] = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    TimeoutError,
    EOFError,
)

# Raised before a statement of ours began, where a pooler promised more than it keeps: it is not
# prepared any more, another is, or its plan is of a schema that was.
LOST_STATEMENTS: Final[tuple[type[BaseException], ...]] = (
    asyncpg.InvalidSQLStatementNameError,
    asyncpg.DuplicatePreparedStatementError,
    asyncpg.InvalidCachedStatementError,
)

# Raised by a statement that may simply be sent again: every statement of ours is guarded by a token
# or a compare-and-set.
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


def session_name(title: str) -> str:
    """What makes the server call a session so: application_name of pg_stat_activity. It would cut
    a longer one off, and say so.
    """
    return f"SET application_name = {literal(title[:_LONGEST_NAME])}"


async def connect(
    dsn: str, *, timeout: float = 10, is_control: bool = True, keeps_statements: bool = False
) -> asyncpg.Connection:
    """A connection to the database of `dsn`; `timeout` seconds for connecting.

    A control connection gets the engine's settings: of its session, or through a pooler of each
    transaction, which whoever keeps statements begins. Raises DatabaseUnavailable with a hint.
    """
    with reaching():
        connection, pooled = await connect_plainly(
            dsn, timeout=timeout, keeps_statements=keeps_statements
        )
    try:
        await prepare_connection(connection, is_control=is_control, pooled=pooled)
        if pooled and not keeps_statements:
            client: Any = connection
            client.begin_with(_IN_CONTROL if is_control else f"SET LOCAL {NO_PATH}")
    except BaseException:
        connection.terminate()
        raise
    return connection


async def prepare_connection(
    connection: Any, *, is_control: bool = True, pooled: bool = False
) -> None:
    """Checks the server's version and gives a control connection its session settings; those of
    a pooler would be the next client's, too.
    """
    version = connection.get_server_version()
    if version.major * 10_000 < OLDEST_SERVER:
        raise DatabaseUnavailable(
            f"the server is PostgreSQL {version.major}.{version.minor}",
            "pgcron_ha needs PostgreSQL 14 or newer.",
            "Upgrade the server, or point the DSN at another one.",
        )
    if is_control:
        await connection.execute(
            POOLED_SETTINGS if pooled else _CONTROL_SETTINGS + bound_of_transactions(connection)
        )


def bound_of_transactions(connection: Any, word: str = "SET") -> str:
    """What bounds the transactions of a session as a whole, where its server can; to be appended
    to other settings. `word` is ``SET`` or ``SET LOCAL``.
    """
    if connection.get_server_version().major < _BOUNDS_TRANSACTIONS:
        return ""
    return f"; {word} transaction_timeout = {TRANSACTION_TIMEOUT_MS}"


@contextmanager
def reaching() -> Iterator[None]:
    """Inside, whatever keeps from a connection becomes DatabaseUnavailable with a hint; errors of
    ours pass.
    """
    try:
        yield
    except PgcronError:
        raise
    except Exception as error:
        raise unavailable(error) from error


def unavailable(error: BaseException) -> PgcronError:
    """The sentence for a connection that can't be had."""
    hints: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
        (
            (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError),
            "Check user and password in the DSN (PGCRON_HA_DSN), and pg_hba.conf, which may ask for"
            " TLS (sslmode).",
        ),
        (
            (asyncpg.InvalidCatalogNameError,),
            "Create the database, or name another one in the DSN.",
        ),
        ((asyncpg.TooManyConnectionsError,), "Raise max_connections, or close other clients."),
        (
            (asyncpg.TargetServerAttributeNotMatched,),
            "Name another host in the DSN (PGCRON_HA_DSN), or mend target_session_attrs.",
        ),
        ((socket.gaierror,), "Check the host name in the DSN (PGCRON_HA_DSN)."),
        (
            (FileNotFoundError,),
            "Check the folder of the unix socket (host) and the files sslrootcert, sslcert and"
            " sslkey of the DSN (PGCRON_HA_DSN).",
        ),
        (
            (asyncpg.ConnectionDoesNotExistError,),
            "The server's log says why it hung up; with TLS it may not accept sslcert of the DSN.",
        ),
        (
            (
                asyncpg.UndefinedObjectError,
                asyncpg.CantChangeRuntimeParamError,
                asyncpg.InvalidParameterValueError,
            ),
            "A parameter of the DSN (PGCRON_HA_DSN) that the driver (asyncpg) does not know is sent"
            " to the server as a setting: mend how it is written, or take it out.",
        ),
        (
            (ValueError, asyncpg.ClientConfigurationError),
            "Write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE.",
        ),
    )
    hint = "Check that PostgreSQL runs and that host and port of the DSN (PGCRON_HA_DSN) are right."
    for kinds, text in hints:
        if isinstance(error, kinds):
            hint = text
            break
    said = str(error)
    if isinstance(error, ssl.SSLError) or "certificate" in said or "SSL" in said:
        hint = _EXPIRED_HINT if "expired" in said else _TLS_HINT
    return DatabaseUnavailable(
        "the database can't be reached", f"{type(error).__name__}: {error}", hint
    )
