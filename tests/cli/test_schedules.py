from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute
from tests.cli.test_cluster import insert_node

WRONG = {
    "cron text": (["s", "61 * * * *", "py:x"], "61"),
    "never fires": (["s", "0 0 30 2 *", "py:x"], "30"),
    "negative interval": (["s", "every -5m", "py:x"], "-5m"),
    "kind": (["s", "@daily", "Ftp:x"], "Ftp:x"),
    "no kind": (["s", "@daily", "report"], "report"),
    "zone": (["s", "@daily", "py:x", "--tz", "Europe/Nowhere"], "Europe/Nowhere"),
    "DST policy": (["s", "@daily", "py:x", "--dst", "none"], "none"),
    "overlap": (["s", "@daily", "py:x", "--overlap", "maybe"], "maybe"),
    "catch-up": (["s", "@daily", "py:x", "--catchup", "some"], "some"),
    "after a pause": (["s", "@daily", "py:x", "--after-pause", "wait"], "wait"),
    "failures": (["s", "@daily", "py:x", "--pause-after-failures", "1001"], "1001"),
    "probe": (["s", "@daily", "py:x", "--probe-after", "2d"], "probe_after"),
    "no catch-up": (
        ["s", "@daily", "py:x", "--after-pause", "catchup", "--catchup", "none"],
        "after_pause",
    ),
    "delivery": (["s", "@daily", "py:x", "--delivery", "twice"], "twice"),
    "timeout": (["s", "@daily", "py:x", "--timeout", "-5s"], "-5s"),
    "no unit": (["s", "@daily", "py:x", "--probe-after", "5"], "5"),
    "args": (["s", "@daily", "py:x", "--args", "{day}"], "{day}"),
    "args too large": (["s", "@daily", "py:x", "--args", f'{{"x": "{"x" * 262144}"}}'], "bytes"),
    "priority": (["s", "@daily", "py:x", "--priority", "12"], "12"),
    "name": ([" ", "@daily", "py:x"], "name"),
}


def test_a_schedule_is_put_listed_and_shown(cli: Cli, execute: Execute) -> None:
    options = ["--tz", "Europe/Berlin", "--overlap", "allow", "--timeout", "10m", "--args"]
    put = cli("schedules", "put", "nightly", "0 3 * * *", "py:report", *options, '{"day": 1}')
    assert put.code == 0, put.err
    assert re.match(r"schedule 'nightly' fires next at \d{4}-\d\d-\d\dT0[12]:00:00Z", put.out)

    (row,) = cli("schedules", "list", "--json").rows
    assert (row["name"], row["spec"], row["timezone"]) == ("nightly", "0 3 * * *", "Europe/Berlin")
    assert (row["managed_by"], row["enabled"], row["next_fire"]) == ("cli", True, None)
    table = cli("schedules", "list").out.splitlines()
    assert table[0].split() == ["NAME", "SPEC", "ZONE", "HANDLER", "STATUS", "NEXT", "LAST"]
    assert table[1].startswith("nightly  0 3 * * *  Europe/Berlin  py:report")

    shown = cli("schedules", "show", "nightly", "--json").rows[0]
    assert (shown["args"], shown["timeout"], shown["runs"]) == ({"day": 1}, 600, [])
    assert len(shown["next_fires"]) == 5
    assert all(fire.endswith("Z") for fire in shown["next_fires"])
    assert shown["sentence"].startswith("At 03:00 every day, in Europe/Berlin; runs may ")
    shown_out = cli("schedules", "show", "nightly").out
    assert shown_out.startswith(f"{shown['sentence']}\nEurope/Berlin ")
    assert all(f"{fire['fire_at']}\n" in shown_out for fire in shown["preview"])
    assert execute("SELECT actor IS NOT NULL, interface FROM pgcron.schedule_version") == [
        (True, "cli")
    ]


def test_what_a_second_put_leaves_out_stays(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:a", "--queue", "slow", "--paused")
    assert cli("schedules", "put", "s", "0 4 * * *", "py:a").out == "schedule 's' is paused\n"

    columns = execute("SELECT spec, queue, enabled, priority FROM pgcron.schedule")
    assert columns == [("0 4 * * *", "slow", False, 5)]


def test_a_dry_run_says_what_would_be_and_changes_nothing(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:a", "--queue", "slow")
    before = execute("SELECT * FROM pgcron.schedule")

    tried = cli("schedules", "put", "s", "30 4 * * mon", "py:b", "--overlap", "allow", "--dry-run")
    first, *fires, last = tried.out.splitlines()
    assert first.startswith(
        "At 04:30 on Monday, in UTC; runs may overlap; of fires late by up to 1h"
    )
    assert fires[0].split() == ["UTC", "UTC"]
    assert [line[:3] for line in fires[1:]] == ["Mon"] * 5
    assert last == "schedule 's' is not changed: this was a dry run"
    assert execute("SELECT * FROM pgcron.schedule") == before
    refused = cli("schedules", "put", "s", "@daily", "py:b", "--catchup", "all", "--dry-run")
    assert refused.err.startswith("error: catch-up policy 'all' with overlap 'skip'")
    shown = cli("schedules", "put", "new", "@daily", "py:b", "--dry-run", "--json").rows[0]
    assert (shown["name"], len(shown["preview"])) == ("new", 5)
    assert execute("SELECT name FROM pgcron.schedule") == [("s",)]


def test_a_paused_schedule_shows_the_fires_it_would_have(cli: Cli) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:a", "--paused")
    assert "\nthese would be its fires, if it were resumed\n" in cli("schedules", "show", "s").out
    assert cli("schedules", "show", "s", "--json").rows[0]["next_fires"] == []


def test_a_schedule_that_never_fires_again_is_not_called_paused(cli: Cli) -> None:
    put = cli("schedules", "put", "s", "at 2020-01-01T00:00", "py:a")
    assert put.out == "schedule 's' has no fire ahead\n"
    assert re.search(r"^catchup_window +1h$", cli("schedules", "show", "s").out, re.M)


DOCUMENTED = {"cron text", "negative interval", "never fires", "zone"}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_schedule_is_refused_with_nothing_written(
    case: str, cli: Cli, execute: Execute
) -> None:
    words, named = WRONG[case]
    answer = cli("schedules", "put", *words)

    assert (answer.code, answer.out) == (1, "")
    message, *others = answer.err.splitlines()
    assert message.startswith("error: ")
    assert named in message
    parts = [line.partition(":")[0] for line in others if line]
    # What is about specs and zones names its document, too.
    assert parts == ["detail", "hint", *(["read"] if case in DOCUMENTED else [])]
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]


def test_all_that_is_wrong_with_a_schedule_is_named_at_once(cli: Cli, execute: Execute) -> None:
    options = ["--tz", "Europe/Nowhere", "--priority", "12", "--overlap", "maybe"]
    options += ["--max-attempts", "0", "--timeout", "5", "--args", "[]", "--dst", "none"]
    refused = cli("schedules", "put", "s", "61 * * * *", "report", *options)

    assert refused.code == 1
    assert refused.err.startswith("error: 9 mistakes\ndetail: Each of them:\n")
    named = ("Europe/Nowhere", "priority 12", "'maybe'", "max_attempts 0", "timeout '5'")
    for each in (*named, "args is a JSON array", "none", '"61"', "handler 'report'"):
        assert each in refused.err
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]


def test_lists_are_filtered_and_bounded(cli: Cli) -> None:
    for name in ("report-a", "report-b", "other"):
        cli("schedules", "put", name, "@daily", "py:x" if name == "other" else "py:report")
    cli("schedules", "pause", "report-b", "--note", "holiday")

    def names(*options: str) -> list[str]:
        return [row["name"] for row in cli("schedules", "list", "--json", *options).rows]

    assert names() == ["other", "report-a", "report-b"]
    assert names("--name", "PORT") == ["report-a", "report-b"]
    assert names("--paused") == ["report-b"]
    assert names("--enabled", "--handler", "py:report") == ["report-a"]
    assert names("--limit", "1") == ["other"]
    assert names("--queue", "nowhere") == []
    assert cli("schedules", "list", "--queue", "nowhere").out == "no schedules\n"
    assert "paused" in cli("schedules", "list", "--paused").out


def test_pause_resume_run_now_and_delete(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "@daily", "py:x", "--args", '{"a": 1}')

    assert cli("schedules", "pause", "s", "--note", "holiday").out == "schedule 's' is paused\n"
    assert execute("SELECT enabled, paused_note FROM pgcron.schedule") == [(False, "holiday")]
    assert re.search(r"paused +holiday", cli("schedules", "list").out)
    assert cli("schedules", "resume", "s", "--json").rows == [{"schedule": "s", "done": "resumed"}]
    run_id = int(cli("schedules", "run-now", "s").out)
    other = cli("schedules", "run-now", "s", "--args", '{"a": 2}', "--json").rows[0]["run_id"]
    runs = execute("SELECT id, origin, args FROM pgcron.run ORDER BY id")
    assert runs == [(run_id, "manual", {"a": 1}), (other, "manual", {"a": 2})]
    listed = cli("runs", "list", "--schedule", "s", "--json").rows
    assert [row["id"] for row in listed] == [other, run_id]

    assert cli("schedules", "delete", "s").code == 0
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]
    assert [row["state"] for row in cli("runs", "list", "--json").rows] == ["cancelled"] * 2


def test_a_pause_ends_after_a_time_or_at_an_instant(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "@daily", "py:x", "--tz", "Europe/Berlin")
    ends = "SELECT paused_until - now() BETWEEN '119 min' AND '121 min' FROM pgcron.schedule"

    answer = cli("schedules", "pause", "s", "--until", "2h", "--note", "holiday")
    assert re.fullmatch(r"schedule 's' is paused until 20[\dT:-]+Z\n", answer.out)
    assert re.search(r"paused +until 20[\dT:-]+Z", cli("schedules", "list").out)
    assert execute(ends) == [(True,)]
    local = cli("schedules", "pause", "s", "--until", "2090-01-10T03:00", "--json")
    assert local.rows[0]["until"] == "2090-01-10T02:00:00Z"
    shown = cli("schedules", "show", "s").out
    assert re.search("^paused_until +2090-01-10T02:00:00Z$", shown, re.M)
    for end in ("2020-01-10T03:00", "-2h", "tomorrow"):
        refused = cli("schedules", "pause", "s", "--until", end)
        assert (refused.code, refused.out) == (1, "")
    assert execute("SELECT version FROM pgcron.schedule") == [(3,)]
    assert cli("schedules", "resume", "s").out == "schedule 's' is resumed\n"


def test_a_run_by_hand_is_for_the_instant_that_is_asked_for(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "@daily", "py:x", "--tz", "Europe/Berlin")
    for instant in ("2026-01-10T03:00", "2026-01-10T03:00Z"):
        assert cli("schedules", "run-now", "s", "--for", instant).code == 0
    assert cli("schedules", "run-now", "s", "--for", "soon").code == 1

    fires = execute("SELECT nominal_for::text FROM pgcron.runs ORDER BY id")
    assert fires == [("2026-01-10 02:00:00+00",), ("2026-01-10 03:00:00+00",)]


def test_a_schedule_is_renamed_and_its_code_is_remembered(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "@daily", "py:x")
    cli("schedules", "put", "taken", "@daily", "py:x")

    assert cli("schedules", "rename", "s", "t").out == "schedule 's' is now 't'\n"
    refused = cli("schedules", "rename", "t", "taken")
    assert refused.code == 1
    assert refused.err.startswith("error: there is a schedule 'taken' already\n")
    execute("UPDATE pgcron.schedule SET managed_by = 'code' WHERE name = 't'")
    noted = cli("schedules", "rename", "t", "u", "--json")
    assert noted.rows == [{"schedule": "u", "done": "renamed", "was": "t"}]
    assert "schedule 't' is managed by code, and was edited through cli" in noted.err
    assert "What declares 't' there makes it anew." in noted.err


@pytest.mark.parametrize("verb", ["pause", "resume", "delete", "run-now", "show", "why", "rename"])
def test_an_unknown_schedule_is_not_found(verb: str, cli: Cli) -> None:
    words = {"why": ["2026-01-01T00:00Z"], "rename": ["other"]}.get(verb, [])
    answer = cli("schedules", verb, "none", *words)

    assert answer.code == 1
    assert answer.err.startswith("error: schedule 'none' does not exist\n")
    assert "schedules list" in answer.err


def test_why_tells_what_was_decided_in_the_schedules_own_time(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x", "--tz", "Europe/Berlin")
    execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason) "
        "SELECT id, '2026-01-10T02:00Z', 'skipped', 'the last run is not over' FROM pgcron.schedule"
    )

    def why(instant: str) -> tuple[str, str]:
        (answer,) = cli("schedules", "why", "s", instant, "--json").rows
        return answer["decision"], answer["instant"]

    assert why("2026-01-10T03:00") == ("skipped", "2026-01-10T02:00:00Z")
    assert why("2026-01-10T02:00:00Z") == ("skipped", "2026-01-10T02:00:00Z")
    assert why("2090-01-10T03:00") == ("not yet", "2090-01-10T02:00:00Z")
    assert why("2090-01-10T03:01") == ("not an instant", "2090-01-10T02:01:00Z")
    text = cli("schedules", "why", "s", "2026-01-10 03:00").out
    assert "the last run is not over" in text
    assert "overlap_skipped" in text
    none = cli("schedules", "why", "s", "2090-01-10T03:01", "--json").rows[0]
    near = (none["fires_before"], none["fires_after"])
    assert near == ("2090-01-10T02:00:00Z", "2090-01-11T02:00:00Z")
    assert (none["code"], none["meaning"]) == (
        "not_an_instant",
        "The schedule does not name this instant.",
    )
    cli("schedules", "pause", "s", "--note", "holiday", "--until", "2091-01-01T00:00Z")
    paused = cli("schedules", "why", "s", "2090-01-10T03:00", "--json").rows[0]
    until = "2091-01-01T00:00:00Z"
    assert (paused["code"], paused["note"], paused["until"]) == ("is_paused", "holiday", until)
    cli("schedules", "delete", "s")
    gone = cli("schedules", "why", "s", "2090-01-10T03:00", "--json").rows[0]
    assert gone["code"] == "is_deleted"
    assert cli("schedules", "why", "s", "yesterday").code == 1


@pytest.mark.parametrize("words", [[], ["now"], ["2h"]])
def test_why_of_a_time_that_is_relative_is_about_the_last_fire(words: list[str], cli: Cli) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")
    (answer,) = cli("schedules", "why", "s", *words, "--json").rows

    asked = datetime.fromisoformat(answer["instant"])
    assert f"{asked:%H:%M:%S}" == "03:00:00"
    ago = timedelta(hours=2 if words == ["2h"] else 0)
    assert timedelta() <= datetime.now(UTC) - ago - asked < timedelta(days=1, minutes=10)
    assert "did not exist" in answer["reason"]


def test_why_knows_from_when_on_it_can_tell(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")

    def why(instant: str) -> tuple[str, str]:
        (answer,) = cli("schedules", "why", "s", instant, "--json").rows
        return answer["decision"], answer["reason"]

    decision, reason = why("2026-01-02T03:00")
    assert decision == "not an instant"
    assert reason.startswith("the schedule did not exist then; it was created at 2")

    # Nobody may write it, so the trigger that keeps it is away for a moment.
    execute("ALTER TABLE pgcron.schedule DISABLE TRIGGER USER")
    execute("UPDATE pgcron.schedule SET created_at = '2001-01-01T00:00Z'")
    execute("ALTER TABLE pgcron.schedule ENABLE TRIGGER USER")
    assert why("2002-01-02T03:00") == (
        "not known",
        "what was decided so long ago is not kept: retention of occurrence is 400 days",
    )
    assert why("1999-01-02T03:00")[0] == "not an instant"


def test_an_invalid_schedule_is_shown_with_its_error(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:x")
    execute(
        "UPDATE pgcron.cursor SET status = 'invalid', "
        """error = '{"message": "the zone vanished", "detail": null, "hint": "choose another"}'"""
    )

    (row,) = cli("schedules", "list", "--status", "invalid", "--json").rows
    assert row["error"]["message"] == "the zone vanished"
    shown = cli("schedules", "show", "s").out
    assert re.search(r"^error +the zone vanished\n +choose another\n", shown, re.M)
    assert "invalid    s: It never fires: the zone vanished" in cli("status").out


def test_a_handler_that_no_living_node_offers_is_noted_with_the_nearest(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    assert cli("schedules", "put", "early", "@daily", "py:report").err == ""  # no node is alive
    insert_node(execute, "n1", "py:report")

    slip = cli("schedules", "put", "slip", "@daily", "py:reprot")
    assert slip.code == 0
    assert slip.err == (
        "note: No living node offers py:reprot for queue default: its runs would wait until one"
        " does; did you mean 'py:report'?\n"
    )
    other = cli("schedules", "put", "other", "@daily", "py:report", "--queue", "etl", "--dry-run")
    assert "until a node with that handler serves that queue" in other.err
    assert cli("schedules", "put", "fine", "@daily", "py:report").err == ""

    # The same for a run.
    assert "; did you mean 'py:report'?" in cli("enqueue", "py:reprot").err
    assert cli("enqueue", "py:report").err == ""

    # And for files, once for each handler and queue, whatever other runs of them require.
    runs, schedules = tmp_path / "runs", tmp_path / "jobs.yaml"
    runs.write_text('{"handler": "py:reprot"}\n{"handler": "py:report"}\n' * 2)
    schedules.write_text("schedules: {again: {spec: '@daily', handler: 'py:reprot'}}")
    assert cli("enqueue", "--file", runs).err.count("; did you mean 'py:report'?") == 1
    assert "; did you mean 'py:report'?" in cli("schedules", "apply", schedules).err
    assert cli("schedules", "apply", schedules).err == ""  # nothing is changed
    runs.write_text('{"handler": "py:report", "requires": ["gpu"]}\n{"handler": "py:report"}\n')
    assert "and has what it requires" in cli("enqueue", "--file", runs).err
    both = "one: {spec: '@daily', handler: 'py:report', requires: [gpu]}, two: {spec: '@daily', "
    schedules.write_text(f"schedules: {{{both}handler: 'py:report'}}}}")
    assert "and has what it requires" in cli("schedules", "apply", schedules).err
    assert "Did you mean 'py:report'?" in cli("enqueue", "report").err


def test_what_calendars_leave_nothing_of_is_not_made(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    every = tmp_path / "every.txt"
    every.write_text("mon-sun\n")
    cli("calendars", "put", "every", every)

    refused = cli("schedules", "put", "never", "0 9 * * *\nnot in every", "py:x")

    assert refused.code == 1
    assert refused.err.startswith("error: the spec never fires\n")
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]


def test_a_schedule_of_few_fires_that_can_not_all_be_found_is_made(
    cli: Cli, execute: Execute
) -> None:
    # Its one fire is found; the search for a second goes on over midnights, all of them left out.
    spec = "every 1d\nat 2099-12-01T09:31Z\nnot 0 0 * * *\nfrom 2099-11-30T00:00Z"

    tried = cli("schedules", "put", "s", spec, "py:x", "--dry-run")
    assert (tried.code, tried.out) == (0, "schedule 's' is not changed: this was a dry run\n")
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]

    put = cli("schedules", "put", "s", spec, "py:x")
    assert (put.code, put.out) == (0, "schedule 's' has no fire ahead\n")
    (row,) = cli("schedules", "put", "s", spec, "py:x", "--json").rows
    assert (row["name"], row["next_fires"], row["sentence"]) == ("s", [], None)
    assert cli("schedules", "put", "s", spec, "py:x", "--paused").out == "schedule 's' is paused\n"


def test_durations_that_are_refused_are_told_as_they_are_written(cli: Cli) -> None:
    options = ("--catchup", "all", "--overlap", "allow", "--catchup-window", "60d")
    refused = cli("schedules", "put", "s", "@daily", "py:x", *options)
    assert refused.err.startswith("error: catch-up all with a window of 60d\n")


def test_schedules_are_found_by_owner_and_tag(cli: Cli, execute: Execute) -> None:
    about = ("--owner", "billing", "--description", "Sends what is due.")
    links = ("--link", "runbook=https://wiki.example/?a=b", "--link", "code=https://git.example")
    put = cli("schedules", "put", "a", "@daily", "py:x", *about, "--tag", "x", "--tag", "y", *links)
    assert put.code == 0, put.err
    cli("schedules", "put", "b", "@daily", "py:x", "--owner", "sales", "--tag", "y")
    cli("schedules", "put", "c", "@daily", "py:x")

    def names(*options: str) -> list[str]:
        return [row["name"] for row in cli("schedules", "list", "--json", *options).rows]

    assert names("--owner", "billing") == ["a"]
    assert names("--tag", "y") == ["a", "b"]
    assert names("--tag", "y", "--tag", "x") == ["a"]
    assert names("--tag", "y", "--owner", "support") == []
    first = cli("schedules", "list", "--json").rows[0]
    assert (first["owner"], first["tags"]) == ("billing", ["x", "y"])
    (row,) = cli("schedules", "show", "a", "--json").rows
    addresses = {"runbook": "https://wiki.example/?a=b", "code": "https://git.example"}
    assert (row["description"], row["links"]) == ("Sends what is due.", addresses)
    (why,) = cli("schedules", "why", "a", "2020-01-01T00:00Z", "--json").rows
    assert (why["owner"], why["links"]) == ("billing", addresses)

    exported = cli("schedules", "export", "a").out
    assert "owner: billing\n" in exported
    assert "tags:\n    - x\n    - y\n" in exported
    assert "runbook: https://wiki.example/?a=b\n" in exported
    emptied = ("--owner", "", "--description", "", "--tag", "", "--link", "")
    assert cli("schedules", "put", "a", "@daily", "py:x", *emptied).code == 0
    columns = "num_nonnulls(owner, description, tags, links)"
    assert execute(f"SELECT {columns}, version FROM pgcron.schedule WHERE name = 'a'") == [(0, 2)]
    changed = cli("schedules", "versions", "a", "--json").rows[0]["changed"]
    assert set(changed.split(", ")) == {"owner", "description", "tags", "links"}
    assert cli("schedules", "restore", "a", 1).code == 0
    assert names("--owner", "billing", "--tag", "x") == ["a"]
    refused = cli("schedules", "put", "a", "@daily", "py:x", "--link", "ftp://x")
    assert (refused.code, "are not titles and addresses" in refused.err) == (1, True)


def test_why_tells_of_a_run_that_waits_what_it_waits_for(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "s", "0 3 * * *", "py:nobody")
    execute(
        "WITH run AS ("
        " INSERT INTO pgcron.run (handler, schedule_id, schedule, scheduled_for, origin)"
        " SELECT handler, id, name, '2026-01-10T03:00Z', 'schedule' FROM pgcron.schedule"
        " RETURNING id, schedule_id, scheduled_for)"
        " INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id)"
        " SELECT schedule_id, scheduled_for, 'run', id FROM run"
    )

    (answer,) = cli("schedules", "why", "s", "2026-01-10T03:00Z", "--json").rows

    assert (answer["decision"], answer["outcome"]) == ("run", "ready")
    assert answer["waits_for"] == "no_node"
    assert answer["waits_detail"] == "no live node offers 'py:nobody' for queue 'default'"


def test_a_schedule_on_assets_has_no_fire_times(cli: Cli, execute: Execute) -> None:
    put = cli("schedules", "put", "report", "on asset sales and stock", "py:report")
    assert put.out == "schedule 'report' waits for its assets\n"
    execute("SELECT pgcron.update_asset('prices', actor => 'anna')")
    execute("SELECT pgcron.settle_assets(10)")

    shown = cli("schedules", "show", "report")
    assert shown.out.startswith("When assets sales and stock were updated.\n")
    assert "fires" not in shown.out.splitlines()[1]
    assert re.search(r"waits_for_assets +sales, stock", shown.out), shown.out
    assert cli("next", "on asset sales").out == "When asset sales was updated.\n"
    assert "at no set times" in cli("schedules", "why", "report").out
    assert [(row["name"], row["updates"]) for row in cli("assets", "list", "--json").rows] == [
        ("prices", 1),
        ("sales", 0),
        ("stock", 0),
    ]
    table = cli("assets", "list").out.splitlines()
    assert table[1].split()[:2] == ["prices", "1"]
    assert table[2].split()[-1] == "report"


def test_why_finds_the_last_run_of_a_schedule_on_assets(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "report", "on asset sales", "py:report")
    execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id)"
        " SELECT id, date_trunc('second', now()) - hour * interval '1 hour', 'run', hour"
        " FROM pgcron.schedule, generate_series(1, 3) hour"
    )

    assert cli("schedules", "why", "report", "--json").rows[0]["run"] == 1
    assert cli("schedules", "why", "report", "100m", "--json").rows[0]["run"] == 2
    assert "did not exist then" in cli("schedules", "why", "report", "4h").out
