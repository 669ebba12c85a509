"""What the protocol is tested on beside the version that the whole suite runs on, and which tests
that are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from tests.house.checkout import ROOT
from tests.pooler import POOLER_VARIABLE, STATEMENTS_VARIABLE
from tests.product.embedded import BIN_VARIABLE
from tests.servers import SETTINGS_VARIABLE

VERSIONS: Final = (14, 15, 16, 17, 18)
SERVERS: Final = ROOT / ".cache" / "postgresql"
POOLERS: Final = ROOT / ".cache" / "pgbouncer"

# Claims, fences, kills, edits, fires, deaths, limits, privileges; schema, each statement, plans.
PROTOCOL: Final = (
    "tests/db/test_claims.py",
    "tests/db/test_claims_of_others.py",
    "tests/db/test_deadlocks.py",
    "tests/db/test_definers.py",
    "tests/db/test_edits.py",
    "tests/db/test_endings.py",
    "tests/db/test_overlap_claims.py",
    "tests/db/test_limits.py",
    "tests/db/test_materialize.py",
    "tests/db/test_nodes.py",
    "tests/db/test_overlap.py",
    "tests/db/test_plans.py",
    "tests/db/test_privileges.py",
    "tests/db/test_refusals.py",
    "tests/db/test_retries.py",
    "tests/db/test_schema.py",
    "tests/db/test_statements.py",
    "tests/db/test_stopping.py",
    "tests/db/test_transaction_bound.py",
    "tests/engine/test_completer.py",
    "tests/engine/test_dispatcher.py",
    "tests/engine/test_link.py",
    "tests/engine/test_listener.py",
    "tests/engine/test_reaper.py",
    "tests/engine/test_session.py",
    "tests/cli/test_grants.py",
    "tests/e2e/test_e2e_extremes.py",
    "tests/e2e/test_e2e_kills.py",
    "tests/upgrade/test_side_by_side.py::test_a_migration_under_load_stops_nobody",
)

# What the product sends through a pooler in transaction mode; statements that a test sends
# over a connection of its own go to the server itself, as do profiles of SQL, which are refused.
POOLED: Final = (
    "tests/matrix/pooled.py",
    "tests/engine/test_breakers.py",
    "tests/engine/test_completer.py",
    "tests/engine/test_dispatcher.py",
    "tests/engine/test_janitor.py",
    "tests/engine/test_limited_claims.py",
    "tests/engine/test_link.py",
    "tests/engine/test_materializer.py",
    "tests/engine/test_reaper.py",
    "tests/engine/test_recorder.py",
    "tests/engine/test_session.py",
    "tests/engine/test_transactional.py",
    "tests/e2e/test_e2e_edits.py",
    "tests/e2e/test_e2e_kills.py",
)
NOT_POOLED: Final = (
    "test_a_killed_statement",
    # What sessions are to whom that has them alone.
    "test_a_link_whose_prepared_statements_are_gone_does_without",
    "test_no_more_connections_than_allowed_are_used",
    "test_nothing_of_a_session_reaches_the_next_run",
    # Which session of the server a statement has there is the pooler's secret.
    "test_whom_a_statement_waited_for_is_named_and_whether_for_a_table",
)

# What roles and databases in production set; it stands for every session of the server.
HOSTILE: Final = {
    "search_path": "nowhere, public",
    "timezone": "America/Caracas",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "work_mem": "64kB",
    "statement_timeout": "2s",
    "lock_timeout": "1s",
}
# Services with sessions of their own; a test's other connections are serializable here.
UNDER_HOSTILE: Final = (
    "tests/db/test_endings.py",
    "tests/db/test_materialize.py",
    "tests/engine/test_completer.py",
    "tests/engine/test_dispatcher.py",
    "tests/engine/test_limited_claims.py",
    "tests/engine/test_materializer.py",
    "tests/engine/test_reaper.py",
    "tests/engine/test_session.py",
    "tests/e2e/test_e2e_kills.py",
)

# Said of one version only, or as fast on each: the reviewed schema is written by the newest, and
# two promises of time stand on the whole suite's.
NOT_HERE: Final = (
    "test_the_reviewed_schema_is_what_the_migrations_make",
    "test_a_flood_of_failures_is_told_in_few_lines",
    "test_ten_thousand_ends_are_kept_while_the_database_is_away_and_told_once",
)


@dataclass(frozen=True)
class Column:
    """One environment and the tests that run in it."""

    name: str
    title: str
    major: int
    tests: tuple[str, ...]
    without: tuple[str, ...] = ()
    pooler: str | None = None
    statements: int = 0
    settings: dict[str, str] | None = None

    def environment(self) -> dict[str, str]:
        """Variables that choose it."""
        return {
            BIN_VARIABLE: str(SERVERS / str(self.major) / "bin"),
            POOLER_VARIABLE: str(POOLERS / self.pooler / "pgbouncer") if self.pooler else "",
            STATEMENTS_VARIABLE: str(self.statements),
            SETTINGS_VARIABLE: json.dumps(self.settings) if self.settings else "",
        }

    def arguments(self) -> list[str]:
        """What pytest is told to run."""
        without = " and ".join(f"not {name}" for name in (*NOT_HERE, *self.without))
        return [*self.tests, "-k", without]


def columns() -> list[Column]:
    """All of them, in the order in which they run."""
    versions = [Column(str(major), f"PostgreSQL {major}", major, PROTOCOL) for major in VERSIONS]
    pooler = "pgbouncer of Debian, transaction mode"
    newest = max(VERSIONS)
    return [
        *versions,
        Column("pgbouncer", pooler, newest, POOLED, NOT_POOLED, "usual"),
        Column("prepared", "pgbouncer ≥ 1.21", newest, POOLED, NOT_POOLED, "tracking", 200),
        Column("tls", "TLS and client certificates", newest, ("tests/matrix/tls.py",)),
        Column("hostile", "hostile defaults", newest, UNDER_HOSTILE, settings=HOSTILE),
    ]
