"""Parts of ``pgcron_ha.db`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.db import commands, queries
from pgcron_ha.db.commands import backfills, functions
from pgcron_ha.db.commands.callbacks import CallbackKey, known_callbacks
from pgcron_ha.db.commands.functions import once
from pgcron_ha.db.commands.login import record_refusal
from pgcron_ha.db.commands.schedule_files import (
    apply_schedules,
    default_schedule,
    prune_schedules,
    schedules_to_export,
)
from pgcron_ha.db.commands.schedule_versions import (
    edit_schedule,
    on_warning,
    restore_schedule,
    schedule_versions,
    written_schedule,
)
from pgcron_ha.db.driver import link, passwords, statements
from pgcron_ha.db.driver.answers import answers, explain_answer
from pgcron_ha.db.driver.calls import Named, Style, fitting, plain
from pgcron_ha.db.driver.connecting import connect, unavailable
from pgcron_ha.db.driver.dsn import (
    driver_dsn,
    each_host,
    password_of,
    unprotected_hosts,
    without_password,
)
from pgcron_ha.db.driver.hosts import open_connection
from pgcron_ha.db.driver.link import Busy, Link, NoPartition, Row, TableBusy, Unanswered
from pgcron_ha.db.driver.passwords import PAUSE_SECONDS, password_in_use, use_password
from pgcron_ha.db.driver.pool import ClientPool, HandlerPool, ReadPool
from pgcron_ha.db.driver.pooling import Pooling, assume, connect_plainly, pooling_of
from pgcron_ha.db.driver.revision import NEWEST, REQUIRED, is_newer, read_revision, require_revision
from pgcron_ha.db.driver.scopes import within
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.driver.session_settings import COMMAND, CONTROL, HANDLER
from pgcron_ha.db.driver.sql_session import SqlDatabase
from pgcron_ha.db.driver.statements import (
    Statement,
    Statements,
    every_variant,
    load,
    require_plain,
    varying,
)
from pgcron_ha.db.driver.transactions import Isolation, Transactions
from pgcron_ha.db.queries import health, overview, pages
from pgcron_ha.db.queries.audit import WORDS as AUDIT_WORDS
from pgcron_ha.db.queries.ledger_checks import broken_rows, ledger_of
from pgcron_ha.db.queries.node_health import NodeHealth, Trouble, written
from pgcron_ha.db.queries.overview import runs as overview_runs
from pgcron_ha.db.queries.pages import runs as pages_runs
from pgcron_ha.db.queries.pages.run import why_run_waits
from pgcron_ha.db.queries.reasons import Reason, why
from pgcron_ha.db.queries.rows import Query
from pgcron_ha.db.schema import locks as schema_locks
from pgcron_ha.db.schema import steps as schema_steps
from pgcron_ha.db.schema.locks import MIGRATION_KEY
from pgcron_ha.db.schema.migrate import as_sql, check, migrate
from pgcron_ha.db.schema.uninstall import known_names, uninstall

__all__ = [
    "AUDIT_WORDS",
    "COMMAND",
    "CONTROL",
    "HANDLER",
    "MIGRATION_KEY",
    "NEWEST",
    "PAUSE_SECONDS",
    "REQUIRED",
    "Busy",
    "CallbackKey",
    "ClientPool",
    "HandlerPool",
    "Isolation",
    "Link",
    "Named",
    "NoPartition",
    "NodeHealth",
    "Pooling",
    "Query",
    "ReadPool",
    "Reason",
    "Row",
    "Session",
    "SqlDatabase",
    "Statement",
    "Statements",
    "Style",
    "TableBusy",
    "Transactions",
    "Trouble",
    "Unanswered",
    "answers",
    "apply_schedules",
    "as_sql",
    "assume",
    "backfills",
    "broken_rows",
    "check",
    "commands",
    "connect",
    "connect_plainly",
    "default_schedule",
    "driver_dsn",
    "each_host",
    "edit_schedule",
    "every_variant",
    "explain_answer",
    "fitting",
    "functions",
    "health",
    "is_newer",
    "known_callbacks",
    "known_names",
    "ledger_of",
    "link",
    "load",
    "migrate",
    "on_warning",
    "once",
    "open_connection",
    "overview",
    "overview_runs",
    "pages",
    "pages_runs",
    "password_in_use",
    "password_of",
    "passwords",
    "plain",
    "pooling_of",
    "prune_schedules",
    "queries",
    "read_revision",
    "record_refusal",
    "require_plain",
    "require_revision",
    "restore_schedule",
    "schedule_versions",
    "schedules_to_export",
    "schema_locks",
    "schema_steps",
    "statements",
    "unavailable",
    "uninstall",
    "unprotected_hosts",
    "use_password",
    "varying",
    "why",
    "why_run_waits",
    "within",
    "without_password",
    "written",
    "written_schedule",
]
