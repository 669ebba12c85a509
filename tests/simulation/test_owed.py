"""Edits, pauses, backfills, deaths and time in any order: a simple model says what is owed, and
after each step the ledger has exactly one answer for each fire.

The SQL is the real one under the test's own clock, and so are the passes of nodes. The sequences
are the same each time; other ones, and as many as there is time for:
``PGCRON_HA_TEST_SEQUENCES=5000 python -m pytest tests/simulation/test_owed.py -k each_owed``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Final

import pytest

from tests.replacing import replaced
from tests.simulation.owed_steps import Owed
from tests.simulation.playing import play
from tests.simulation.real import RealStore

MORE: Final = os.environ.get("PGCRON_HA_TEST_SEQUENCES")
FEW, MANY, STEPS = 10, int(MORE or 30), 40

# Each guard: its function, what is replaced in it, and by what.
GUARDS: Final = {
    "what nobody had decided": (
        "apply_edit",
        "unrecorded := pgcron.unrecorded(cursor_before, edit_time);",
        "unrecorded := NULL;",
    ),
    "what lies ahead": ("apply_edit", "AND due_at > edit_time", "AND false"),
    "the watermark": (
        "apply_edit",
        "CASE WHEN unrecorded IS NOT NULL THEN recorded_until",
        "CASE WHEN true THEN recorded_until",
    ),
    "the end of a pause": (
        "apply_edit",
        "least(cursor_before.paused_until, edit_time)",
        "edit_time",
    ),
    "the end of all runs": (
        "apply_edit",
        "(NOT schedule_now.enabled AND unrecorded <> 'completed')",
        "NOT schedule_now.enabled",
    ),
    "runs taken back": ("apply_edit", "greatest(runs_made - taken_back, 0)", "runs_made"),
    "a backfill's parallelism": ("step_backfill", "j.used <= room", "true"),
    "a run alive": ("judge_backfill", "OR g.is_live OR t.is_alive", ""),
    "a fire restored": ("override_occurrence", "IF held.is_decided THEN", "IF false THEN"),
    "pauses that grow": ("judge_failures", "least(earlier_pauses, 20)", "0"),
    "a resume by the clock": ("schedule_was_written", "pgcron.interface() <> 'clock'", "true"),
}


def written(reported: Owed, period: int = 30, runs: int | None = None) -> None:
    reported.a_schedule_is_written("first", period, "latest", "skip", runs, "drop", 7)


def filled_in(reported: Owed, back: int, parallelism: int, if_ran: str) -> None:
    reported.time_passes(1000)
    reported.nodes_decide(0)
    reported.a_backfill_is_asked_for("first", back, parallelism, "forward", if_ran)


def nobody_decided_before_an_edit(reported: Owed) -> None:
    reported.time_passes(1000)
    written(reported, 60)
    reported.nodes_decide(0)
    written(reported, 700)


def runs_lie_ahead_of_an_edit(reported: Owed) -> None:
    written(reported, 3600)


def an_edit_leaves_the_timing(reported: Owed) -> None:
    reported.time_passes(1000)
    reported.what_it_does_is_edited("first", 1)


def a_pause_ends_by_itself(reported: Owed) -> None:
    reported.it_is_paused("first", 40)
    reported.time_passes(1000)
    reported.nodes_decide(0)


def it_is_paused_when_it_has_ended(reported: Owed) -> None:
    written(reported, runs=1)
    reported.nodes_decide(0)
    reported.time_passes(1000)
    reported.it_is_paused("first", None)


def counted_runs_are_made_anew(reported: Owed) -> None:
    written(reported, runs=4)
    reported.nodes_decide(0)
    reported.what_it_does_is_edited("first", 1)
    reported.nodes_decide(0)


def many_instants_are_filled_in(reported: Owed) -> None:
    filled_in(reported, 8, 1, "skip")
    reported.nodes_fill_in(0)


def what_runs_is_filled_in(reported: Owed) -> None:
    filled_in(reported, 3, 3, "all")
    reported.nodes_fill_in(0)


def a_skipped_fire_is_restored(reported: Owed) -> None:
    reported.a_fire_is_changed("first", "skip", 3, 10)
    reported.time_passes(61)
    reported.nodes_decide(0)
    reported.all_rules_hold()
    reported.a_fire_is_changed("first", "restore", 0, 10)


def failures_pause_it_again(reported: Owed) -> None:
    reported.a_schedule_is_written("second", 60, "latest", "skip", None, "drop", 1)
    schedule = reported.schedules["second"]
    for failures, minutes in (2, 1), (1, 2), (1, 4):
        for _ in range(failures):
            assert schedule.pause is None
            reported.nodes_decide(61)
            reported.a_node_claims(0, 3, 1, 0)
            while reported.claims:
                reported.a_run_ends(0, "dead", 1)
            reported.nodes_decide(0)
            reported.all_rules_hold()
        assert schedule.pause is not None
        assert schedule.pause.until == schedule.pause.began + timedelta(minutes=minutes)
        reported.nodes_decide(minutes * 60)
        reported.all_rules_hold()


# The shortest way to what each guard is for.
STORIES: Final[dict[str, Callable[[Owed], None]]] = {
    "what nobody had decided": nobody_decided_before_an_edit,
    "what lies ahead": runs_lie_ahead_of_an_edit,
    "the watermark": an_edit_leaves_the_timing,
    "the end of a pause": a_pause_ends_by_itself,
    "the end of all runs": it_is_paused_when_it_has_ended,
    "runs taken back": counted_runs_are_made_anew,
    "a backfill's parallelism": many_instants_are_filled_in,
    "a run alive": what_runs_is_filled_in,
    "a fire restored": a_skipped_fire_is_restored,
    "pauses that grow": failures_pause_it_again,
    "a resume by the clock": failures_pause_it_again,
}


@pytest.mark.timeout(0 if MORE else 600)
@pytest.mark.parametrize(
    "sequences", [MANY if MORE else FEW, pytest.param(MANY, marks=pytest.mark.long)]
)
def test_each_owed_fire_has_one_answer_after_each_step(real: RealStore, sequences: int) -> None:
    play(Owed, real, sequences, STEPS, same=MORE is None)


@pytest.mark.parametrize("guard", GUARDS)
def test_a_guard_that_is_gone_is_missed(real: RealStore, guard: str) -> None:
    report(real, STORIES[guard])
    without(real, *GUARDS[guard])

    with pytest.raises(AssertionError):
        report(real, STORIES[guard])


def report(real: RealStore, story: Callable[[Owed], None]) -> None:
    """The story from its beginning; the rules are looked at in its end."""

    class Reported(Owed):
        pass

    Reported.real = real
    reported = Reported()
    try:
        reported.there_is_a_schedule_and_a_node(30, 7)
        reported.all_rules_hold()
        story(reported)
        reported.all_rules_hold()
    finally:
        for one in reported.passes:
            one.dies()
        real.undo()


def without(real: RealStore, function: str, text: str, otherwise: str) -> None:
    """From now on, in this database."""
    query = "SELECT pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p WHERE p.proname = $1"
    [row] = real.wait(real.connection.fetch(query, function))
    real.wait(real.connection.execute(replaced(row[0], text, otherwise)))
