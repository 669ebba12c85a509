"""Converts PostgreSQL's errors, from any driver, to a `PgcronError`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg

from pgcron_ha.db.driver.connecting import CONNECTION_ERRORS, READ_ONLY_HINT, unavailable
from pgcron_ha.errors import (
    Conflict,
    DatabaseUnavailable,
    InvalidInput,
    PgcronError,
    Refused,
    SchemaError,
    from_sqlstate,
)

_NO_OBJECT: Final = ("3F000", "42P01", "42883", "42703")  # schema, table, function, column
# SQLSTATEs, or their classes of two characters: what they mean for a caller, and what to do.
_MEANINGS: Final[tuple[tuple[str | tuple[str, ...], type[PgcronError], str], ...]] = (
    (
        "42501",
        Refused,
        "`pgcron-ha grants` prints the statements that give a role its rights; what no part has is"
        " for the owner of the schema.",
    ),
    ("25006", Refused, READ_ONLY_HINT),
    (_NO_OBJECT, SchemaError, "Run `pgcron-ha migrate`, or name the right schema."),
    ("25P02", Conflict, "Roll the transaction back: a statement before this one has failed."),
    # The server has ended transaction and connection; nothing of it has happened.
    ("25P04", DatabaseUnavailable, "It took longer than transaction_timeout; try again."),
    ("40", Conflict, "Run the transaction again."),
    ("55P03", Conflict, "Somebody holds a lock on it; try again."),
    ("57014", Conflict, "It took longer than statement_timeout; try again."),
    ("08", DatabaseUnavailable, "Check that PostgreSQL runs, and try again."),
    ("57P", DatabaseUnavailable, "The server is stopping or starting; try again."),
    ("53", DatabaseUnavailable, "The server is short of connections, memory or disk."),
    # No value of the caller is at fault: a disk quota and a file that is too large are reported
    # as XX000, a read error as 58030.
    ("58", DatabaseUnavailable, "The server can't use its disk; its log says more."),
    ("XX", DatabaseUnavailable, "The server failed by itself; its log says more."),
    ("22", InvalidInput, "Check the values; `--help` and `pgcron-ha docs` say what each may be."),
)


@contextmanager
def answers() -> Iterator[None]:
    """Inside, whatever a database driver raises becomes a `PgcronError`; other errors pass."""
    try:
        yield
    except PgcronError:
        raise
    except Exception as error:
        own = explain_answer(error)
        if own is None:
            raise
        raise own from error


def explain_answer(error: BaseException) -> PgcronError | None:
    """The `PgcronError` for a driver's error, or None when it is not one of a database.

    SQLSTATEs of class ``PC`` become the error that raised them; for others the server's text is the
    message. A lost connection is `DatabaseUnavailable`.
    """
    answered = [one for one in chain_of(error) if isinstance(getattr(one, "sqlstate", None), str)]
    if answered:
        return _explained(answered[-1])  # the driver's own error; what is around it adds no word
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        # asyncpg judges the types of parameters before it sends them.
        return InvalidInput("a value is not what the statement takes", str(error))
    if isinstance(error, CONNECTION_ERRORS):
        return unavailable(error)
    if type(error).__module__.partition(".")[0] in ("psycopg", "sqlalchemy"):
        return DatabaseUnavailable(
            "the database did not answer",
            f"{type(error).__name__}: {error}",
            "Check that the connection is open and its transaction has not failed.",
        )
    return None


def _explained(answer: Any) -> PgcronError:
    # The text of asyncpg's error is the message with detail and hint.
    fields, names = answer, ("message", "detail", "hint")
    if hasattr(answer, "diag"):  # psycopg's
        fields, names = answer.diag, ("message_primary", "message_detail", "message_hint")
    message, detail, hint = (getattr(fields, name, None) for name in names)
    message = message or str(answer)
    own = from_sqlstate(answer.sqlstate, message, detail, hint)
    if own is not None:
        return own
    detail = detail or f"PostgreSQL answered with SQLSTATE {answer.sqlstate}."
    for codes, kind, advice in _MEANINGS:
        if answer.sqlstate.startswith(codes):
            return kind(message, detail, hint or advice)
    return PgcronError(message, detail, hint)


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error, and what is wrapped in it: SQLAlchemy's has the driver's, and that asyncpg's."""
    link: Any = error
    for _ in range(6):  # no chain is longer
        if link is None:
            return
        yield link
        link = getattr(link, "orig", None) or link.__cause__
