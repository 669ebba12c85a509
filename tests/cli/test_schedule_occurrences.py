from __future__ import annotations

import pytest

from tests.cli.conftest import Cli, Execute

FIRE = "2090-01-10T03:00"


def test_a_fire_far_ahead_is_skipped_moved_edited_and_restored(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", "Europe/Berlin")
    changes = "SELECT action, due_at::text, args, note FROM pgcron.occurrence_override"

    skipped = cli("schedules", "skip", "s", FIRE, "--note", "a fair")
    assert skipped.out == "the fire of schedule 's' at 2090-01-10T02:00:00Z is skipped\n"
    assert execute(changes) == [("skip", None, None, "a fair")]
    (reported,) = cli("schedules", "why", "s", FIRE, "--json").rows
    assert (reported["reason"], reported["note"]) == ("it is to be skipped", "a fair")
    refused = cli("schedules", "move", "s", FIRE, "2090-01-10T05:00")
    assert refused.err.startswith("error: the fire of schedule 's'")
    restored = cli("schedules", "restore-occurrence", "s", FIRE, "--json").rows
    assert restored == [{"schedule": "s", "instant": "2090-01-10T02:00:00Z", "done": "is restored"}]

    moved = cli("schedules", "move", "s", FIRE, "2090-01-10T05:00")
    assert moved.out.endswith(" runs at 2090-01-10T04:00:00Z\n"), moved.err
    cli("schedules", "edit-occurrence", "s", FIRE, "--args", '{"day": 2}')
    assert execute(changes) == [("move", "2090-01-10 04:00:00+00", {"day": 2}, None)]
    shown = cli("schedules", "show", "s").out
    assert "changed 2090-01-10T02:00:00Z  moved to 2090-01-10T04:00:00Z, other args by " in shown


@pytest.mark.parametrize("verb", ["skip", "move", "edit-occurrence"])
def test_an_instant_that_is_no_fire_is_refused_with_its_neighbours(
    verb: str, cli: Cli, execute: Execute
) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", "Europe/Berlin")
    words = {"move": ["2090-01-10T05:00"], "edit-occurrence": ["--args", "{}"]}.get(verb, [])
    answer = cli("schedules", verb, "s", "2090-01-10T03:01", *words)

    assert answer.code == 1
    message, rule, *_ = answer.err.splitlines()
    assert message == "error: schedule 's' does not fire at 2090-01-10T02:01:00Z"
    assert "before at 2090-01-10T02:00:00Z and after at 2090-01-11T02:00:00Z" in rule
    assert execute("SELECT count(*) FROM pgcron.occurrence_override") == [(0,)]


def test_a_change_of_what_is_no_fire_any_more_is_shown_and_can_be_taken_back(
    cli: Cli, execute: Execute
) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")
    cli("schedules", "skip", "s", f"{FIRE}Z", "--note", "a fair")
    put = cli("schedules", "put", "s", "0 4 * * *", "py:x")

    gone = "changed 2090-01-10T03:00:00Z  skipped by "
    assert gone in put.err
    assert "the schedule does not fire then any more" in put.err
    assert gone in cli("schedules", "show", "s").out
    why = cli("schedules", "why", "s", f"{FIRE}Z", "--json").rows[0]
    assert why["reason"].startswith(
        "the schedule does not name this instant any more: it is to be skipped ("
    )
    assert cli("schedules", "restore-occurrence", "s", f"{FIRE}Z").code == 0
    assert execute("SELECT count(*) FROM pgcron.occurrence_override") == [(0,)]


def test_the_ledger_is_listed(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", "Europe/Berlin")
    assert cli("schedules", "occurrences", "s").out == "no occurrences\n"
    ((schedule,),) = execute("SELECT id FROM pgcron.schedule")
    execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id) VALUES "
        "(%s, '2026-01-02T02:00Z', 'run', NULL, 7), "
        "(%s, '2026-01-03T02:00Z', 'skipped', 'the last run is not over', NULL)",
        schedule,
        schedule,
    )
    execute(
        "INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason, note, fires) "
        "VALUES (%s, '2026-01-04T02:00Z', '2026-01-06T02:00Z', 'paused', 'anna: a fair', 3)",
        schedule,
    )

    heading, *table = cli("schedules", "occurrences", "s").out.splitlines()
    assert heading.split() == ["FIRE", "TIME", "DECISION", "REASON", "RUN", "OUTCOME", "STARTED"]
    missed, skipped, ran = table
    assert missed.startswith("2026-01-04T02:00:00Z to 2026-01-06T02:00:00Z  missed ")
    assert "The schedule was paused: anna: a fair" in missed
    assert skipped.startswith("2026-01-03T02:00:00Z ")
    assert "the last run is not over" in skipped
    assert ran.split()[:4] == ["2026-01-02T02:00:00Z", "run", "-", "7"]

    def fires(*options: str) -> list[tuple[str, str]]:
        rows = cli("schedules", "occurrences", "s", "--json", *options).rows
        return [(row["fire_at"], row["code"]) for row in rows]

    paused = ("2026-01-04T02:00:00Z", "paused")
    overlapped, run = ("2026-01-03T02:00:00Z", "overlap_skipped"), ("2026-01-02T02:00:00Z", "run")
    assert fires() == [paused, overlapped, run]
    assert fires("--decision", "skipped") == [overlapped]
    assert fires("--limit", "1") == [paused]
    assert fires("--until", "2026-01-03T03:00") == [run]  # 3 o'clock in Berlin is that fire
    assert fires("--until", "2026-01-03T03:01") == [overlapped, run]
    cli("schedules", "delete", "s")
    assert run in fires("--limit", "10")
    missing = cli("schedules", "occurrences", "other")
    assert (missing.code, "does not exist" in missing.err) == (1, True)


def test_why_says_what_the_schedule_is_for_and_whose_it_is(cli: Cli, execute: Execute) -> None:
    about = [
        "--owner",
        "sales",
        "--description",
        "orders",
        "--tag",
        "x",
        "--link",
        "Book=https://b",
    ]
    cli("schedules", "put", "s", "0 3 * * *", "py:x", *about)
    wanted = {
        "owner": "sales",
        "description": "orders",
        "tags": ["x"],
        "links": {"Book": "https://b"},
    }

    for _ in ("alive", "deleted"):
        (said,) = cli("schedules", "why", "s", FIRE, "--json").rows
        assert {name: said[name] for name in wanted} == wanted
        asked = "SELECT owner, description, tags, links FROM pgcron.why('s', %s)"
        assert execute(asked, f"{FIRE}Z") == [tuple(wanted.values())]
        cli("schedules", "delete", "s")
