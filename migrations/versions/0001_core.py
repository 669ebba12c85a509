"""The core: cluster, nodes, schedules, runs, the ledger, partitions, functions and views."""

from pgcron_ha.db.migration_steps import (
    begin_step,
    begin_step_back,
    drop_everything,
    insert_timezones,
    run_script,
)

revision = "pgcron_0001"
down_revision = None
branch_labels = ("pgcron_ha",)
depends_on = None

SCRIPTS = (
    "0001_01_validation",
    "0001_01_labels",
    "0001_02_cluster",
    "0001_02_cordon",
    "0001_02_retry_policy",
    "0001_02_breaker",
    "0001_02_time_limits",
    "0001_03_schedule",
    "0001_04_run",
    "0001_05_ledger",
    "0001_05_overrun",
    "0001_05_reasons",
    "0001_06_partitions",
    "0001_07_endings",
    "0001_08_schedule_triggers",
    "0001_08_versions",
    "0001_09_functions",
    "0001_10_views",
    "0001_11_lanes",
    "0001_12_claims_of_others",
    "0001_12_placement",
    "0001_13_limits",
    "0001_14_dead_letters",
    "0001_15_awaited_runs",
    "0001_16_breakers",
    "0001_17_callbacks",
    "0001_18_unique",
    "0001_19_stopping",
    "0001_20_weights",
    "0001_21_scale_demand",
    "0001_22_overlap",
    "0001_24_control",
    "0001_24_occurrences",
    "0001_24_failure_pauses",
    "0001_25_backfill",
    "0001_27_schedule_files",
    "0001_26_why",
    "0001_29_waiting",
    "0001_99_comments",
    "0001_26_check_ledger",
    "0001_30_preview",
    "0001_28_max_runs",
    "0001_28_previous",
    "0001_33_calendars",
    "0001_34_zones",
    "0001_38_calendar_files",
    "0001_36_refusals",
    "0001_37_outages",
    "0002_00_programs",
    "0002_01_retention",
    "0002_02_producers",
    "0002_03_any_database",
    "0002_04_calendar_bounds",
    "0002_05_pending_pauses",
    "0002_06_plain_names",
    "0002_07_partitions",
    "0002_08_short_words",
    "0001_98_paths",
)


def upgrade() -> None:
    """Makes every object of the schema; the schema itself exists already."""
    if begin_step(revision):
        for script in SCRIPTS:
            run_script(script)
        insert_timezones()


def downgrade() -> None:
    """Drops every object of the schema but alembic's own version table."""
    if begin_step_back(down_revision):
        drop_everything()
