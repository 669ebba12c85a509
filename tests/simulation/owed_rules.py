"""What must be true at each step, whatever happened: of the fires, of pauses, of single fires that
somebody changed, of bounds, and of backfills.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from tests.simulation.owed import Backfill, Schedule, Seen

NEVER_RAN = ("skipped", "superseded")
ENOUGH_FAILURES = 2
SHORTEST_PAUSE = timedelta(seconds=60)


def each_fire_has_one_answer(schedule: Schedule, seen: Seen) -> None:
    """A row of its own or a range, and nothing else has an answer."""
    rows, ranges = seen.rows.get(schedule.id, {}), seen.ranges.get(schedule.id, [])
    for before, after in pairwise(ranges):
        assert before["last_at"] < after["first_at"], f"ranges overlap: {before}, {after}"
    firsts = [one["first_at"] for one in ranges]
    runs = seen.runs
    owed = set(schedule.owed(seen.schedules[schedule.id]["watermark"]))
    for fire in owed:
        at = bisect_right(firsts, fire) - 1
        is_reported = at >= 0 and fire <= ranges[at]["last_at"]
        row = rows.get(fire)
        assert row or is_reported, f"{fire} of {schedule.name} has no answer"
        if row and is_reported:
            assert _is_by_hand(schedule, row, runs), f"{fire} of {schedule.name} has two answers"
    for fire in rows.keys() - owed:
        assert _is_by_hand(schedule, rows[fire], runs), f"{fire} is decided, but nobody owed it"


def no_run_is_lost(seen: Seen) -> None:
    for rows in seen.rows.values():
        for row in rows.values():
            assert row["run_id"] is None or row["run_id"] in seen.runs, f"a run is gone: {row}"


def pauses_are_kept(schedule: Schedule, seen: Seen) -> None:
    """What fires in a pause does not run, what fires outside is not told as paused."""
    rows = seen.rows.get(schedule.id, {})
    for pause in schedule.pauses:
        if pause.drops:
            end = pause.end(seen.now)
            for fire, row in rows.items():
                if pause.began < fire <= end:
                    assert _is_by_hand(schedule, row, seen.runs), f"{fire} is in {pause}"
    for reported in seen.ranges.get(schedule.id, []):
        if reported["reason"] == "paused":
            assert any(
                pause.began
                <= reported["last_at"]
                <= max(pause.end(seen.now), pause.edited_at or pause.began)
                for pause in schedule.pauses
            ), f"{reported} is in none of {schedule.pauses}"


def it_stands_as_people_want(schedule: Schedule, seen: Seen) -> None:
    """Nobody pauses it but people and its failures, these for a time; nobody resumes it but people
    and the time that the pause had.
    """
    node_snapshot = seen.schedules[schedule.id]
    pause = schedule.pause
    if pause is None and not node_snapshot["enabled"]:
        failures = failures_in_a_row(schedule, seen)
        assert schedule.pauses_itself, f"{schedule.name} is paused, and nobody did it"
        assert failures >= ENOUGH_FAILURES, f"{schedule.name} is paused after {failures} failures"
        lasts = node_snapshot["paused_until"] - seen.now
        assert SHORTEST_PAUSE <= lasts <= timedelta(days=1), f"{schedule.name} pauses for {lasts}"
    elif pause is not None and node_snapshot["enabled"]:
        is_over = pause.until is not None and pause.until <= seen.now
        assert is_over, f"{schedule.name} goes on in {pause}"


def failures_in_a_row(schedule: Schedule, seen: Seen) -> int:
    ended = [
        run
        for run in seen.runs.values()
        if run["schedule_id"] == schedule.id and run["origin"] == "schedule" and run["outcome"]
    ]
    good = [run["finished_at"] for run in ended if run["outcome"] == "succeeded"]
    begin = max([schedule.forgotten_at, *good])
    bad = [run for run in ended if run["outcome"] in ("dead", "lost")]
    return sum(run["finished_at"] >= begin for run in bad)


def waiting_runs_are_as_wanted(schedule: Schedule, seen: Seen) -> None:
    """Of the fires ahead: as the schedule says now, but where somebody changed one."""
    for run in seen.runs.values():
        if run["schedule_id"] != schedule.id or run["state"] == "over":
            continue
        if run["state"] != "running":
            assert run["schedule"] == schedule.name, f"{run} waits under an old name"
        if run["origin"] != "schedule" or run["state"] != "ready" or run["attempt"]:
            continue
        change = schedule.changes.get(run["fire"])
        if change is None:
            if run["fire"] > seen.now:
                assert run["args"] == schedule.args, f"{run} is of an old version"
            assert run["due_at"] >= run["fire"], f"{run} is due too early"
            continue
        assert change.action != "skip", f"{run} was to be skipped"
        if change.due_at is not None and change.due_at > seen.now:
            assert run["due_at"] == change.due_at, f"{run} was moved: {change}"
        if change.args is not None:
            assert run["args"] == change.args, f"{run} was to have other args: {change}"
    for fire, row in seen.rows.get(schedule.id, {}).items():
        if row["run_id"] is None:
            change = schedule.changes.get(fire)
            is_wanted = change is not None and change.action == "skip"
            assert is_wanted, f"{fire} is skipped, and nobody wants it"


def bounds_are_kept(schedule: Schedule, seen: Seen) -> None:
    """It ends after so many runs: not later, and not earlier."""
    bound, node_snapshot = schedule.bound, seen.schedules[schedule.id]
    if bound is None:
        return
    made = [
        seen.runs[row["run_id"]]["created_at"]
        for row in seen.rows.get(schedule.id, {}).values()
        if row["decision"] not in NEVER_RAN and seen.runs[row["run_id"]]["origin"] == "schedule"
    ]
    assert sum(at > bound.since for at in made) <= bound.most, f"too many runs: {bound}"
    next_fire = node_snapshot["next_fire"]
    is_over = node_snapshot["status"] == "valid" and next_fire is not None and next_fire.year > 9000
    if is_over and node_snapshot["enabled"] and not seen.is_giving_back:
        assert sum(at >= bound.since for at in made) >= bound.runs, f"it ended early: {bound}"


def none_executes_beside_another(schedule: Schedule, seen: Seen) -> None:
    held = [
        run
        for run in seen.runs.values()
        if run["schedule_id"] == schedule.id and run["overlap_slot"] is not None
    ]
    assert len(held) <= 1, f"{held} have a slot each"


def a_backfill_does_what_it_was_asked_for(backfill: Backfill, before: Seen, seen: Seen) -> None:
    """Of the instants that it has looked at since, it made exactly the runs that it owed; how many
    are open, and what it counts, is as it must be.
    """
    reported = seen.backfills[backfill.id]
    made = _runs_of(backfill, seen)
    new = {run["fire"] for run in made if run["id"] not in before.runs}
    looked_at = backfill.looked_at
    if reported["reached"] is not None:
        looked_at = backfill.instants.index(reported["reached"]) + 1
    step = backfill.instants[backfill.looked_at : looked_at]
    owed = {fire for fire in step if _owes(backfill, fire, before)}
    if new or step:
        assert before.backfills[backfill.id]["state"] == "open", f"{backfill} went on"
    assert new == owed, f"{backfill} made {sorted(new)}, and owed {sorted(owed)}"
    backfill.looked_at = looked_at
    fires = [run["fire"] for run in made]
    assert len(set(fires)) == len(fires), f"{backfill} ran an instant twice"
    alive = [run for run in made if run["outcome"] is None]
    assert len(alive) <= backfill.parallelism, f"{backfill} has {alive} at once"
    waits = backfill.state == "stopping" or backfill.schedule.depends
    assert reported["error"] is None or waits, reported
    if backfill.state == "stopping":
        waiting = [run for run in alive if run["state"] != "running" and not run["attempt"]]
        assert not waiting, f"{backfill} was stopped, and {waiting} wait"
    assert reported["created"] == len(made), reported
    if reported["state"] in ("done", "stopped"):
        assert not alive, f"{backfill} is over, and {alive} are open"
        good = sum(run["outcome"] == "succeeded" for run in made)
        assert (reported["succeeded"], reported["failed"]) == (good, len(made) - good), reported
    if reported["state"] == "done":
        assert looked_at == len(backfill.instants), f"{backfill} left something out"
        assert reported["already"] + reported["created"] == len(backfill.instants), reported
        assert reported["planned"] == len(backfill.instants), reported


def _owes(backfill: Backfill, fire: datetime, before: Seen) -> bool:
    """Whether a run is to be made of an instant."""
    row = before.rows.get(backfill.schedule.id, {}).get(fire)
    if row is None:
        change = backfill.schedule.changes.get(fire)
        return change is None or change.action != "skip"
    runs = before.of_fire(backfill.schedule.id).get(fire, [])
    is_alive = any(run["outcome"] is None for run in runs)
    if backfill.if_ran == "skip" or is_alive:
        return False
    has_succeeded = any(run["outcome"] == "succeeded" for run in runs)
    return backfill.if_ran == "all" or (row["run_id"] is not None and not has_succeeded)


def _runs_of(backfill: Backfill, seen: Seen) -> list[Any]:
    begin = f"backfill {backfill.id} by "
    return [run for run in seen.runs.values() if run["created_by"].startswith(begin)]


def _is_by_hand(schedule: Schedule, row: Any, runs: dict[int, Any]) -> bool:
    if row["fire_at"] in schedule.by_hand:
        return True
    return row["run_id"] is not None and runs[row["run_id"]]["origin"] == "backfill"
