"""The core: cluster, nodes, schedules, runs, the ledger, partitions, functions and views."""

from pgcron_ha.db.migration_steps import (
    begin_step,
    drop_everything,
    insert_timezones,
    run_script,
)

revision = "pgcron_0001"
down_revision = None
branch_labels = ("pgcron_ha",)
depends_on = None

SCRIPTS = (
    "validation",
    "labels",
    "cluster",
    "cordon",
    "retry_policy",
    "breaker_tables",
    "time_limits",
    "schedule",
    "run",
    "ledger",
    "overrun",
    "reasons",
    "partitions",
    "endings",
    "schedule_triggers",
    "versions",
    "functions",
    "views",
    "lanes",
    "claims_of_others",
    "placement",
    "limits",
    "dead_letters",
    "awaited_runs",
    "breakers",
    "callbacks",
    "unique",
    "stopping",
    "weights",
    "scale_demand",
    "overlap",
    "control",
    "occurrences",
    "failure_pauses",
    "backfill",
    "schedule_files",
    "why",
    "waiting",
    "comments",
    "retention",
    "check_ledger",
    "preview",
    "max_runs",
    "previous",
    "calendars",
    "zones",
    "calendar_files",
    "refusals",
    "outages",
    "producers",
    "calendar_bounds",
    "short_words",
    "paths",
)


def upgrade() -> None:
    """Makes every object of the schema; the schema itself exists already."""
    if begin_step(revision):
        for script in SCRIPTS:
            run_script(script)
        insert_timezones()


def downgrade() -> None:
    """Drops every object of the schema but alembic's own version table."""
    drop_everything()
