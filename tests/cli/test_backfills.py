from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Cli
from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS, wait_for

Execute = Callable[..., object]

RANGE = ("--since", "2026-02-03", "--until", "2026-02-04")


@pytest.fixture
def hourly(cli: Cli) -> None:
    cli("schedules", "put", "hourly", "0 * * * *", "py:work", "--tz", "Europe/Berlin")


@pytest.mark.usefixtures("hourly")
def test_a_backfill_is_asked_for_listed_paused_resumed_and_stopped(cli: Cli) -> None:
    assert cli("backfills", "list").out == "no backfills\n"
    assert cli("schedules", "backfill", "hourly", *RANGE, "--note", "lost disk").out == "1\n"
    (row,) = cli("backfills", "list", "--schedule", "hourly", "--json").rows
    assert (row["since"], row["planned"], row["state"]) == ("2026-02-02T23:00:00Z", 24, "open")
    assert (row["overlap"], row["note"], row["parallelism"]) == ("skip", "lost disk", 1)
    assert cli("backfills", "pause", "1").out == "backfill 1 is paused\n"
    assert "paused" in cli("backfills", "list").out
    assert cli("backfills", "resume", "1").out == "backfill 1 is resumed\n"
    shown = cli("backfills", "show", "1").out
    assert "no open runs, and none that failed" in shown
    assert "lost disk" in shown
    stopped = cli("backfills", "stop", "1", "--note", "enough", "--json").rows
    assert stopped == [{"backfill": 1, "done": "stopped", "cancelled": 0}]
    assert cli("backfills", "show", "1", "--json").rows[0]["state"] == "stopped"
    assert "backfill 1 is stopped" in cli("backfills", "pause", "1").err


@pytest.mark.usefixtures("hourly")
def test_a_dry_run_counts_and_asks_for_nothing(cli: Cli) -> None:
    said = cli("schedules", "backfill", "hourly", *RANGE, "--dry-run")

    assert said.out.splitlines() == [
        "24 instants, from 2026-02-02T23:00:00Z to 2026-02-03T22:00:00Z",
        "0 instants of the range were decided already, each by itself",
    ]
    (plan,) = cli("schedules", "backfill", "hourly", *RANGE, "--dry-run", "--json").rows
    assert (plan["planned"], plan["last"]) == (24, "2026-02-03T22:00:00Z")
    assert cli("backfills", "list").out == "no backfills\n"


@pytest.mark.usefixtures("hourly")
@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (("--since", "yesterday"), "--since 'yesterday' is no date and time"),
        (("--since", "2026-02-03", "--until", "2999-01-01"), "to 2998-12-31 23:00:00+00\n"),
        (("--since", "2026-02-03", "--until", "2999-01-01", "--dry-run"), "a backfill from"),
        (("--since", "0001-01-01T00:00Z", "--until", "1901-01-01"), "a backfill from"),
        ((*RANGE, "--parallelism", "0", "--dry-run"), "parallelism"),
        ((*RANGE, "--overlap", "never"), "overlap policy 'never' is not known"),
        ((*RANGE, "--args", "[]"), "args"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, given: tuple[str, ...], fact: str) -> None:
    said = cli("schedules", "backfill", "hourly", *given)

    assert said.code == 1
    assert fact in said.err
    assert "hint: " in said.err


@pytest.mark.usefixtures("hourly")
def test_who_waits_is_told_of_the_end(cli: Cli, execute: Execute) -> None:
    empty = ("--since", "2026-02-03T00:10", "--until", "2026-02-03T00:20")
    execute(
        "CREATE FUNCTION public.over() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.state := ''done''; NEW.ended_at := now(); RETURN NEW; END';"
        " CREATE TRIGGER over BEFORE INSERT ON pgcron.backfill"
        " FOR EACH ROW EXECUTE FUNCTION public.over()"
    )

    said = cli("schedules", "backfill", "hourly", *empty, "--wait")

    ended = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert (ended["state"], ended["planned"], ended["failed"]) == ("done", "0", "0")
    assert said.code == 0


@pytest.mark.usefixtures("hourly")
def test_on_a_terminal_a_bar_shows_how_far_a_backfill_is(database: str, cli: Cli) -> None:
    leader, terminal = pty.openpty()
    waiting = subprocess.Popen(
        [sys.executable, "-m", "pgcron_ha", "schedules", "backfill", "hourly", *RANGE, "--wait"],
        stdout=subprocess.PIPE,
        stderr=terminal,
        cwd=ROOT,
        env={**os.environ, "PGCRON_HA_DSN": database, "TERM": "xterm"},
    )
    os.close(terminal)
    seen = ""

    def is_drawn() -> bool:
        nonlocal seen
        seen += os.read(leader, 10_000).decode()
        return f"\r\x1b[Kbackfill 1 [{'.' * 24}] 0 % (0 of 24) 0 open runs, 0 failed" in seen

    wait_for("the bar is drawn", is_drawn)
    cli("backfills", "stop", "1")

    out, _ = waiting.communicate(timeout=COMMAND_SECONDS)
    os.close(leader)
    assert waiting.returncode == 1
    assert re.search(rb"^state +stopped$", out, re.MULTILINE)
    assert re.search(rb"^planned +24$", out, re.MULTILINE)
