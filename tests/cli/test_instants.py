"""One way to say an instant, at every option and argument."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from tests.cli.conftest import Cli, Execute


def due_of(cli: Cli, execute: Execute, said: str) -> datetime:
    (row,) = cli("enqueue", "py:x", "--due-at", said, "--json").rows
    [[due_at]] = execute("SELECT due_at FROM pgcron.run WHERE id = %s", row["run_id"])
    assert isinstance(due_at, datetime)
    return due_at


def test_a_duration_is_from_now_where_a_run_is_put_off(cli: Cli, execute: Execute) -> None:
    before = datetime.now(UTC)

    due_at = due_of(cli, execute, "2h")

    assert before <= due_at - timedelta(hours=2) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("said", "days"), [("18:30", 0), ("today 18:30", 0), ("tomorrow 18:30:00", 1)]
)
def test_a_time_is_one_of_this_machines_day(
    cli: Cli, execute: Execute, said: str, days: int
) -> None:
    day = datetime.now().date()

    due_at = due_of(cli, execute, said).astimezone()

    assert (due_at.hour, due_at.minute, due_at.second) == (18, 30, 0)
    assert due_at.date() - day - timedelta(days=days) in (timedelta(), timedelta(days=1))


@pytest.mark.parametrize("said", ["1h", "yesterday 03:00", "2020-01-02T03:00Z"])
def test_the_past_can_be_said_in_the_same_ways(cli: Cli, said: str) -> None:
    assert cli("dead", "list", "--since", said, "--until", "now").code == 0
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", "Europe/Berlin")
    assert "did not exist" in cli("schedules", "why", "s", said).out
    assert cli("schedules", "backfill", "s", "--since", said, "--dry-run").code == 0


def test_in_a_file_a_duration_is_from_now_too(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text('{"handler": "py:x", "due_at": "2h"}\n')
    before = datetime.now(UTC)

    cli("enqueue", "--file", str(file))

    [[due_at]] = execute("SELECT due_at FROM pgcron.run")
    assert isinstance(due_at, datetime)
    assert due_at - before > timedelta(hours=2) - timedelta(minutes=1)


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "America/Los_Angeles"])
def test_a_day_is_one_of_the_schedules_zone(cli: Cli, zone: str) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", zone)
    before = datetime.now(ZoneInfo(zone)).date()

    (row,) = cli("schedules", "why", "s", "yesterday 03:00", "--json").rows

    here = datetime.fromisoformat(row["instant"]).astimezone(ZoneInfo(zone))
    assert here.date() + timedelta(days=1) in {before, datetime.now(ZoneInfo(zone)).date()}
    assert here.hour == 3


def test_a_fire_is_moved_to_a_time_from_now(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")

    moved = cli("schedules", "move", "s", "tomorrow 03:00", "2h")

    assert moved.code == 0, moved.err
    [[to]] = execute("SELECT due_at FROM pgcron.occurrence_override")
    assert isinstance(to, datetime)
    assert timedelta(hours=1, minutes=59) < to - datetime.now(UTC) <= timedelta(hours=2)


def test_why_asks_for_the_last_time_of_a_day(cli: Cli) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")
    soon = datetime.now(UTC) + timedelta(minutes=5)

    (row,) = cli("schedules", "why", "s", f"{soon:%H:%M}", "--json").rows

    assert datetime.fromisoformat(row["instant"]) < datetime.now(UTC)


@pytest.mark.parametrize("said", ["soon", "25:00", "2h ago"])
def test_what_is_no_instant_is_refused_with_examples(cli: Cli, said: str) -> None:
    refused = cli("enqueue", "py:x", "--due-at", said)

    assert refused.code == 1
    assert f"--due-at '{said}' is no date and time" in refused.err
    assert "An instant is a date by ISO 8601 (00:00, or a time with or without" in refused.err
    assert "yesterday 03:00 or 2h" in refused.err


def test_a_day_without_a_time_is_answered_with_one(cli: Cli) -> None:
    refused = cli("enqueue", "py:x", "--due-at", "tomorrow")

    assert "--due-at 'tomorrow' is no date and time" in refused.err
    assert "hint: Add the time of that day: 'tomorrow 00:00'." in refused.err
    refused = cli("enqueue", "py:x", "--due-at", "2026-01-02")
    assert "hint: Write 2026-01-02T00:00Z for UTC" in refused.err
    refused = cli("enqueue", "py:x", "--due-at", "2026-01-02T18")
    assert "hint: Write 2026-01-02T18Z for UTC" in refused.err
