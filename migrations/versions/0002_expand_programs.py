"""Expands: which programs work with the schema; retention by queue and outcome."""

from pgcron_ha.db.migration_steps import begin_step, begin_step_back, put_back, run_script

revision = "pgcron_0002"
down_revision = "pgcron_0001"
branch_labels = None
depends_on = None

SCRIPTS = (
    "0002_00_programs",
    "0002_01_retention",
    "0002_02_producers",
    "0002_03_any_database",
    "0002_04_calendar_bounds",
    "0002_05_pending_pauses",
    "0002_06_plain_names",
    "0002_07_partitions",
    "0002_08_short_words",
)

# Functions that the scripts replace: the script of 0001 that they come from, and their names.
REPLACED: dict[str, tuple[str, ...]] = {
    "0001_26_check_ledger": ("check_ledger",),
    "0001_04_run": ("judge_run",),
    "0001_18_unique": ("replace_run",),
    "0001_01_validation": ("spec_is_fine",),
    "0001_02_time_limits": ("time_limits",),
    "0001_33_calendars": ("calendar_is_fine", "calendars_named"),
    "0001_08_schedule_triggers": ("judge_schedule", "apply_edit"),
    "0001_09_functions": ("cancel_run",),
    "0001_19_stopping": ("kill_run",),
    "0001_16_breakers": ("count_failures", "require_breaker", "reset_breaker"),
    "0001_30_preview": ("preview",),
    "0001_06_partitions": ("add_partition", "ensure_partitions"),
}


def upgrade() -> None:
    """Adds; what nodes of pgcron_0001 use stays as it is."""
    if begin_step(revision):
        for script in SCRIPTS:
            run_script(script)


def downgrade() -> None:
    """Takes away what was added, with what it holds; nodes of either version go on."""
    if begin_step_back(down_revision):
        run_script("0002_drop")
        for script, names in REPLACED.items():
            put_back(script, *names)
