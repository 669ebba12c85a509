"""The settings of pgcron_ha's sessions: those that roles and databases in production set otherwise,
and that would change the results of statements or end them. They are set nowhere else.

They are SET after connecting, not sent as start-up parameters, which a transaction pooler may
refuse.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pgcron_ha.db.driver.statements import literal

STATEMENT_TIMEOUT_MS: Final = 5_000
"""Of the engine's statements."""

PAGE_TIMEOUT_MS: Final = 3_000
"""Of statements of pages: nobody waits longer; the statement is stopped, and the page says so."""

PATH: Final = "pg_catalog, pg_temp"
"""All our names are qualified; what somebody put before everything on a role's search_path is
not looked at. Not for connections that handlers use."""

_FIRST_WITH_TRANSACTION_TIMEOUT: Final = 17


class SessionSettings(NamedTuple):
    """The settings of one kind of connection, each as SET takes it: ``name = value``."""

    title: str
    """What the server calls the session: application_name of pg_stat_activity."""
    kept: tuple[str, ...] = ()
    """What a pooler keeps for each of its clients, whichever session it gets."""
    local: tuple[str, ...] = ()
    """What is set with each transaction through a pooler: the session is another client's next."""
    lasting: tuple[str, ...] = ()
    """What only a session of one's own has."""
    transaction_timeout: int | None = None
    """Milliseconds, as `local`; servers before PostgreSQL 17 have no such bound."""
    is_for_handlers: bool = False
    """What is sent and read there are the statements and values of handlers."""

    def in_session(self, major: int, *, is_pooled: bool) -> str:
        """The commands for a new session of a server of this major version."""
        # The server would cut a longer title off, and say so.
        title = f"application_name = {literal(self.title[:63])}"
        own = () if is_pooled else (*self._in_transactions(major), *self.lasting)
        return "; ".join(f"SET {value}" for value in (title, *self.kept, *own))

    def in_transaction(self, major: int) -> str:
        """The commands with which a transaction begins through a pooler."""
        values = (*self.kept, *self._in_transactions(major))
        return "; ".join(f"SET LOCAL {value}" for value in values)

    def _in_transactions(self, major: int) -> tuple[str, ...]:
        if self.transaction_timeout is None or major < _FIRST_WITH_TRANSACTION_TIMEOUT:
            return self.local
        return (*self.local, f"transaction_timeout = {self.transaction_timeout}")


def _own(statement: int, lock: int, idle: int) -> tuple[str, ...]:
    """What all our statements get; milliseconds."""
    return (
        f"search_path = {PATH}",
        "intervalstyle = 'postgres'",
        f"statement_timeout = {statement}",
        f"lock_timeout = {lock}",
        f"idle_in_transaction_session_timeout = {idle}",
    )


_UTC: Final = "timezone = 'UTC'"
_KEPT: Final = (_UTC, "datestyle = 'ISO'")
# An edit of a schedule needs READ COMMITTED to be whole at once.
_LASTING: Final = ("default_transaction_isolation = 'read committed'", "idle_session_timeout = 0")
# So that a dead client's row locks go away soon, and its statement with them.
_KEEPALIVES: Final = (
    "tcp_keepalives_idle = 5",
    "tcp_keepalives_interval = 2",
    "tcp_keepalives_count = 3",
)
# Every statement is driven by an index, whatever the statistics say just now; and one plan serves
# all, since planning costs more than running them.
_PLANS: Final = ("plan_cache_mode = force_generic_plan", "enable_seqscan = off", "jit = off")

CONTROL: Final = SessionSettings(
    "pgcron_ha",
    _KEPT,
    (*_own(STATEMENT_TIMEOUT_MS, 2_000, 10_000), "synchronous_commit = on", *_PLANS),
    (*_LASTING, *_KEEPALIVES),
    # Each transaction is one statement. It is shorter than a lease.
    transaction_timeout=10_000,
)
"""Of the engine."""

COMMAND: Final = SessionSettings("pgcron_ha command", _KEPT, _own(30_000, 10_000, 60_000), _LASTING)
CLIENT: Final = COMMAND._replace(title="pgcron_ha client")
"""Of the command line, and of an App."""

LOOK: Final = COMMAND._replace(local=_own(30_000, 1_000, 60_000))
"""Of commands that report locks, and do not wait for them."""

# A database may allow its statements less than what alters a schema takes, or the wait for another
# migration.
MIGRATION: Final = SessionSettings(
    "pgcron_ha migrate", _KEPT, _own(0, 0, 0), _LASTING, transaction_timeout=0
)

PAGES: Final = SessionSettings(
    "pgcron_ha web",
    _KEPT,
    (*_own(PAGE_TIMEOUT_MS, 500, 10_000), *_PLANS, "max_parallel_workers_per_gather = 0"),
    ("default_transaction_read_only = on", "idle_session_timeout = 0"),
)

HANDLER: Final = SessionSettings(
    "pgcron_ha handler", (_UTC,), lasting=_KEEPALIVES, is_for_handlers=True
)
"""For handlers, which send their own statements."""

TRANSACTION: Final = HANDLER._replace(
    # Otherwise a frozen node would hold its locks until it wakes up.
    local=("idle_in_transaction_session_timeout = '60s'",)
)
"""For handlers whose transaction ends with the run's completion."""

PROFILE: Final = HANDLER._replace(
    # The server notices that its client is gone. Values of types that JSON lacks have one fixed
    # format, since programs read them.
    lasting=(
        *_KEEPALIVES,
        "client_connection_check_interval = '1s'",
        "datestyle = 'ISO'",
        "intervalstyle = 'postgres'",
    )
)
"""For SQL profiles."""
