"""The core: cluster, nodes, schedules, runs, the ledger, partitions, functions and views."""

from pgcron_ha.db.schema.steps import begin_step, drop_everything, insert_timezones, run_script

revision = "pgcron_0001"
down_revision = None
branch_labels = ("pgcron_ha",)
depends_on = None

SCRIPTS = (
    # What rows may say.
    "validation",
    "retry_policy",
    "time_limits",
    # Who works, and who does what.
    "audit",
    "cluster",
    "cordon",
    # What people write, and what the ledger says of it.
    "schedule",
    "assets",
    "ledger",
    "reasons",
    "schedule_edits",
    "schedule_triggers",
    "roles",
    "scopes",
    "login",
    "users",
    "versions",
    "calendars",
    "calendar_files",
    "schedule_files",
    "partitions",
    # Runs, and how they come to be.
    "run",
    "producers",
    "run_rules",
    "enqueue",
    "unique",
    "workflow_rules",
    "workflow_definitions",
    "workflow_tables",
    "workflow_steps",
    "workflow_releases",
    "schedule_commands",
    "run_commands",
    "awaited_runs",
    "waiting",
    "occurrences",
    "previous",
    "failure_pauses",
    "preview",
    "backfill",
    "backfill_steps",
    # Claims.
    "breaker_tables",
    "placement",
    "limits",
    "claim_search",
    "weights",
    "claim",
    "overlap",
    "breakers",
    "scale_demand",
    "claims_of_others",
    # Ends.
    "endings",
    "callbacks",
    "take_over",
    "stopping",
    "dead_letters",
    "refusals",
    "workflow_progress",
    "workflow_lists",
    "workflow_stops",
    "workflow_commands",
    # What readers and producers get, and upkeep.
    "waits",
    "workflow_views",
    "workflow_files",
    "views",
    "own_runs",
    "why",
    "retention",
    "audit_triggers",
    "check_ledger",
    "secrets",
    "erase",
    "contract",
)
"""In a run's order, from what its schedule says to what is kept of it."""


def upgrade() -> None:
    """Makes every object of the schema; the schema itself exists already."""
    if begin_step(revision):
        for script in SCRIPTS:
            run_script(script)
        insert_timezones()


def downgrade() -> None:
    """Drops every object of the schema but alembic's own version table."""
    drop_everything()
