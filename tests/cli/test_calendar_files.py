"""Calendars beside schedules in files: applied, shown as a diff, owned, pruned and exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute

HOLIDAYS = """
calendars:
  holidays: |
    yearly 12-25 # Christmas Day
    yearly easter+1
  open:
    - mon-fri
    - not calendar holidays
"""
NIGHTLY = """
schedules:
  nightly: {spec: "0 3 * * *\\nnot in holidays", handler: "py:report"}
"""
CONTENTS = "SELECT name, content, source, version FROM pgcron.calendar ORDER BY name"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_calendars_are_applied_before_their_schedules_and_shown_as_a_diff(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    jobs = write(tmp_path / "jobs" / "a.yaml", NIGHTLY).parent
    write(jobs / "b.yaml", HOLIDAYS)

    tried = cli("schedules", "apply", jobs, "--dry-run")
    assert tried.out.splitlines() == [
        "+ calendar holidays",
        "    + yearly 12-25 # Christmas Day",
        "    + yearly easter+1",
        "+ calendar open",
        "    + mon-fri",
        "    + not calendar holidays",
        "+ nightly",
        "    spec: 0 3 * * * not in holidays",
        "    handler: py:report",
        "    managed_by: file",
        "    source: jobs",
        "calendars: 2 added",
        "1 added",
        "nothing is changed: this was a dry run",
    ]
    assert execute(CONTENTS) == []

    assert cli("schedules", "apply", jobs).code == 0
    again = cli("schedules", "apply", jobs)
    assert again.out == "calendars: 2 unchanged\n1 unchanged\n"
    assert execute(CONTENTS) == [
        ("holidays", "yearly 12-25 # Christmas Day\nyearly easter+1\n", "jobs", 1),
        ("open", "mon-fri\nnot calendar holidays\n", "jobs", 1),
    ]

    write(jobs / "b.yaml", HOLIDAYS.replace("12-25 # Christmas Day", "12-26"))
    changed = cli("schedules", "apply", jobs)
    assert changed.out.splitlines() == [
        "~ calendar holidays",
        "    - yearly 12-25 # Christmas Day",
        "    + yearly 12-26",
        "    used by 1 schedule",
        "calendars: 1 changed, 1 unchanged",
        "1 unchanged",
    ]
    [carried] = execute("SELECT calendars ->> 'holidays', version FROM pgcron.schedule")
    assert carried == ("yearly 12-26\nyearly easter+1\n", 2)
    [line, *_] = cli("schedules", "apply", jobs, "--json").rows
    assert line == {"calendar": "holidays", "change": "unchanged", "lines": []}


def test_calendars_that_nobody_uses_any_more_are_pruned_and_others_refused(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = write(tmp_path / "jobs.yaml", HOLIDAYS + NIGHTLY)
    cli("schedules", "apply", file)
    cli("schedules", "put", "other", "0 9 * * *\nonly in open", "py:x")
    days = write(tmp_path / "days", "sat\n")
    cli("calendars", "put", "by-hand", days)
    write(file, "schedules:\n  x: {spec: '@daily', handler: 'py:x'}\n")

    refused = cli("schedules", "apply", file, "--prune")

    assert refused.err.splitlines()[:2] == [
        "error: calendar 'holidays' is used, and no file of 'jobs' defines it any more",
        "detail: By schedule other.",
    ]
    assert [name for name, *_ in execute(CONTENTS)] == ["by-hand", "holidays", "open"]
    assert execute("SELECT name FROM pgcron.schedule ORDER BY 1") == [("nightly",), ("other",)]
    cli("schedules", "delete", "other")
    pruned = cli("schedules", "apply", file, "--prune")
    assert "- calendar holidays\n- calendar open\n" in pruned.out
    assert pruned.out.endswith("calendars: 2 pruned\n1 added, 1 pruned\n")
    assert [name for name, *_ in execute(CONTENTS)] == ["by-hand"]


def test_a_calendar_has_one_source_unless_it_is_taken_over(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.yaml", HOLIDAYS)
    cli("schedules", "apply", file, "--source", "team-a")

    refused = cli("schedules", "apply", file, "--source", "team-b").err.splitlines()[0]
    assert refused == (
        "error: calendar 'holidays' is defined by the files of 'team-a' and of 'team-b'"
    )
    days = write(tmp_path / "days", "sat\n")
    warned = cli("calendars", "put", "holidays", days)
    assert warned.code == 0
    assert warned.err.startswith(
        "warning: calendar 'holidays' is defined by the files of 'team-a', and was edited"
    )
    assert cli("calendars", "put", "holidays", days, "--take-over").err == ""
    sources = "SELECT source FROM pgcron.calendar ORDER BY name"
    assert execute(sources) == [(None,), ("team-a",)]
    taken = cli("schedules", "apply", file, "--source", "team-b", "--take-over")
    assert "~ calendar open\n    source: team-a → team-b\n" in taken.out
    assert execute(sources) == [("team-b",), ("team-b",)]


def test_calendars_may_name_one_another_but_not_in_a_circle(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    write(tmp_path / "jobs" / "a.yaml", "calendars: {a: calendar b, c: [sat, calendar a]}\n")
    write(tmp_path / "jobs" / "b.yaml", "calendars:\n  b: [sun]\n")
    assert cli("schedules", "apply", tmp_path / "jobs").code == 0
    # What one names now may have named the other before.
    write(tmp_path / "jobs" / "a.yaml", "calendars: {a: mon, c: [sat, calendar a]}\n")
    write(tmp_path / "jobs" / "b.yaml", "calendars:\n  b: [calendar c]\n")
    assert cli("schedules", "apply", tmp_path / "jobs").code == 0

    file = write(tmp_path / "one.yaml", "calendars: {a: calendar b}\n")
    refused = cli("schedules", "apply", file, "--source", "jobs").err.splitlines()[0]
    assert refused == "error: calendar 'a' contains itself: a > b > c > a"
    assert execute("SELECT count(*) FROM pgcron.calendar WHERE version > 2") == [(0,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("calendar: {}\n", "line 1: there is no key 'calendar'"),
        ("calendars: [a]\n", "'calendars' is no mapping"),
        ("calendars:\n  a b: sat\n", "line 2: calendar 'a b': it is not a name of a calendar"),
        ("calendars:\n  a: {days: sat}\n", "line 2: calendar 'a': it is no text"),
        ("calendars:\n  a: [sat, 2026-02-30]\n", "calendar 'a': line 2: "),
        ("calendars: {a: calendar b, b: calendar a}\n", "calendar 'a' contains itself: a > b > a"),
        ("calendars:\n  a: calendar b\n", "calendar 'a' names calendar 'b', which is not known"),
        (
            'schedules:\n  x: {spec: "@daily\\nnot in b", handler: py:x}\n',
            "schedule 'x': calendar 'b' is not known",
        ),
    ],
)
def test_what_is_no_calendar_is_refused(text: str, said: str, cli: Cli, tmp_path: Path) -> None:
    answer = cli("schedules", "apply", write(tmp_path / "a.yaml", text))
    assert answer.code == 1
    assert said in answer.err.splitlines()[0]
    if "calendar:" in text:
        assert "did you mean 'calendars'?" in answer.err


def test_two_files_that_define_one_calendar_are_both_named(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "jobs" / "a.yaml", HOLIDAYS)
    write(tmp_path / "jobs" / "b.yaml", "calendars: {open: sat}\n")
    refused = cli("schedules", "apply", tmp_path / "jobs").err.splitlines()[0]
    assert "calendar 'open' is defined twice: in " in refused
    assert "a.yaml, line 6, and in " in refused
    assert refused.endswith("b.yaml, line 1")


def test_what_is_exported_is_applied_without_a_change(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    cli("calendars", "put", "holidays", write(tmp_path / "h", "  yearly 12-25 # no: é\n\nsat \n\n"))
    cli("calendars", "put", "closed", write(tmp_path / "c", "sun\ncalendar holidays"))
    cli("calendars", "put", "unused", write(tmp_path / "u", "mon"))
    cli("schedules", "put", "nightly", "0 3 * * *\nnot in closed", "py:x")
    contents = "SELECT name, content FROM pgcron.calendar ORDER BY name"
    before = execute(contents)
    file = tmp_path / "all.yaml"

    for names, count in ((["nightly"], 2), ([], 3)):
        cli("schedules", "export", "--output", file, *names)
        first = cli("schedules", "apply", file, "--source", "x")
        assert (first.code, first.err) == (0, "")
        assert execute(contents) == before
        again = cli("schedules", "apply", file, "--source", "x")
        assert again.out == f"calendars: {count} unchanged\n1 unchanged\n"
    assert "closed" in cli("schedules", "export", "--source", "x").out
