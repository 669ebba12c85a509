"""``schedules apply``, ``export`` and ``schema``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute

NIGHTLY = """
schedules:
  nightly:
    spec: 0 3 * * mon-fri
    timezone: Europe/Berlin
    handler: py:report
    args: {kind: full}
    timeout: 30m
"""
HOURLY = """
schedules:
  hourly:
    spec: ["@hourly", "not * * * * sun"]
    handler: shell:tidy
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_files_of_a_folder_are_applied_with_a_diff(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    write(tmp_path / "jobs" / "a.yaml", NIGHTLY)
    write(tmp_path / "jobs" / "b.yaml", HOURLY)
    write(tmp_path / "jobs" / "pgcron-ha.toml", "[node]\nslots = 4\n")

    tried = cli("schedules", "apply", tmp_path / "jobs", "--dry-run")
    assert (tried.code, tried.err) == (0, "")
    assert tried.out.splitlines()[-2:] == ["2 added", "nothing is changed: this was a dry run"]
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]

    done = cli("schedules", "apply", tmp_path / "jobs")
    assert done.out.splitlines() == [
        "+ hourly",
        "    spec: @hourly not * * * * sun",
        "    handler: shell:tidy",
        "    managed_by: file",
        "    source: jobs",
        "+ nightly",
        "    spec: 0 3 * * mon-fri",
        "    timezone: Europe/Berlin",
        "    handler: py:report",
        '    args: {"kind": "full"}',
        "    timeout: 30m",
        "    managed_by: file",
        "    source: jobs",
        "2 added",
    ]
    assert execute("SELECT name, managed_by, source FROM pgcron.schedule ORDER BY name") == [
        ("hourly", "file", "jobs"),
        ("nightly", "file", "jobs"),
    ]
    assert execute("SELECT DISTINCT interface FROM pgcron.schedule_version") == [("file",)]
    assert cli("schedules", "show", "nightly", "--json").rows[0]["source"] == "jobs"
    assert cli("schedules", "apply", tmp_path / "jobs").out == "2 unchanged\n"

    write(tmp_path / "jobs" / "a.yaml", NIGHTLY.replace("30m", "45m").replace("full", "brief"))
    (changed,) = cli("schedules", "apply", tmp_path / "jobs", "--json").rows[1:]
    assert changed == {
        "schedule": "nightly",
        "change": "changed",
        "columns": {"args": ['{"kind": "full"}', '{"kind": "brief"}'], "timeout": [1800, 2700]},
    }


def test_folders_behind_symbolic_links_are_left_alone(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "jobs" / "a.yaml", NIGHTLY)
    write(tmp_path / "elsewhere" / "b.yaml", HOURLY)
    (tmp_path / "jobs" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "jobs" / "loop").symlink_to(tmp_path / "jobs")

    applied = cli("schedules", "apply", tmp_path / "jobs")

    assert (applied.code, applied.out.splitlines()[-1]) == (0, "1 added"), applied


def test_what_is_left_out_is_its_default_again_but_for_a_pause(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.yaml", NIGHTLY + "    start_deadline: 10m\n    requires: [gpu]\n")
    cli("schedules", "apply", file)
    cli("schedules", "pause", "nightly", "--note", "holiday")
    state = "SELECT start_deadline, requires, enabled, paused_note FROM pgcron.schedule"
    assert execute(state)[0][2:] == (False, "holiday")

    file.write_text(NIGHTLY)
    assert "    start_deadline: 10m → -\n" in cli("schedules", "apply", file).out
    assert execute(state) == [(None, None, False, "holiday")]
    file.write_text(NIGHTLY + "    enabled: true\n")
    assert cli("schedules", "apply", file).out.startswith("~ nightly\n    enabled: no → yes\n")


def test_only_what_the_source_owns_is_pruned(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    both = write(tmp_path / "a.yaml", f"{NIGHTLY}  other: {{spec: '@daily', handler: 'py:x'}}\n")
    write(tmp_path / "b.yaml", HOURLY)
    cli("schedules", "apply", both, "--source", "team-a")
    cli("schedules", "apply", tmp_path / "b.yaml")
    cli("schedules", "put", "by-hand", "@daily", "py:x")
    both.write_text(NIGHTLY)

    assert cli("schedules", "apply", both, "--source", "team-a").out == "1 unchanged\n"
    pruned = cli("schedules", "apply", both, "--source", "team-a", "--prune")
    assert pruned.out == "- other\n1 unchanged, 1 pruned\n"
    names = execute("SELECT name FROM pgcron.schedule ORDER BY name")
    assert names == [("by-hand",), ("hourly",), ("nightly",)]
    both.write_text("schedules: {}\n")
    assert "defines no schedule" in cli("schedules", "apply", both, "--prune").err


def test_a_folder_with_a_dot_in_its_name_is_a_source_of_its_own(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    write(tmp_path / "reports.eu" / "a.yaml", NIGHTLY)
    write(tmp_path / "reports.us" / "b.yaml", HOURLY)

    for folder in ("reports.eu", "reports.us"):
        applied = cli("schedules", "apply", tmp_path / folder, "--prune")
        assert applied.out.endswith("\n1 added\n")

    assert execute("SELECT name, source FROM pgcron.schedule ORDER BY name") == [
        ("hourly", "reports.us"),
        ("nightly", "reports.eu"),
    ]


def test_a_name_has_one_source_unless_it_is_taken_over(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = write(tmp_path / "a.yaml", NIGHTLY)
    cli("schedules", "apply", file, "--source", "team-a")

    refused = cli("schedules", "apply", file, "--source", "team-b")
    first = refused.err.splitlines()[0]
    assert first == "error: schedule 'nightly' is defined by the files of 'team-a' and of 'team-b'"
    taken = cli("schedules", "apply", file, "--source", "team-b", "--take-over")
    assert taken.out == "~ nightly\n    source: team-a → team-b\n1 changed\n"
    cli("schedules", "put", "nightly", "@daily", "py:x", "--managed-by", "cli")
    assert execute("SELECT managed_by, source FROM pgcron.schedule") == [("cli", None)]
    assert cli("schedules", "apply", file, "--source", "team-a").code == 0


def test_all_or_nothing_is_applied_and_the_one_at_fault_is_named(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    at_fault = '  wrong: {spec: "@daily\\nnot in nowhere", handler: "py:x"}\n'
    file = write(tmp_path / "a.yaml", NIGHTLY + at_fault)

    refused = cli("schedules", "apply", file)
    message, detail, hint, read = refused.err.splitlines()
    place = f"{file}, line {NIGHTLY.count(chr(10)) + 1}"
    assert message == f"error: {place}: schedule 'wrong': calendar 'nowhere' is not known"
    assert detail == "detail: A spec names calendars that exist, spelled exactly."
    assert hint == "hint: There are: none. `pgcron-ha calendars put` makes one."
    assert read.startswith("read: pgcron-ha docs ")
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]


def test_every_problem_of_the_files_is_told_with_its_line(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    write(folder / "a.yaml", NIGHTLY.replace("timezone", "timezome"))
    second = "schedules:\n  x: {spec: 61 * * * *, handler: py:x}\n  y: {spec: '@daily'}"
    write(folder / "b.yaml", second)
    write(folder / "c.yaml", "[schedules.hourly]\nspec = 1\n")
    write(folder / "d.yaml", "schedules:\n  x: {spec: '@daily', handler: 'py:x', priority: 12}\n")

    reported = cli("schedules", "apply", folder).err.splitlines()
    assert reported[0] == "error: 5 mistakes"
    assert [line.split("jobs/")[-1] for line in reported[2:-1]] == [
        "a.yaml, line 5: there is no key 'timezome'; did you mean 'timezone'?",
        "b.yaml, line 2: schedule 'x': the minute field does not allow \"61\": its numbers go"
        " from 0 to 59",
        "b.yaml, line 3: schedule 'y': handler is missing. A schedule has a spec and a handler.",
        "c.yaml, line 2: did not find expected <document start>. This is not YAML 1.2 that a file"
        " of schedules may have.",
        "d.yaml, line 2: schedule 'x': priority 12 is out of range. A priority is a number from 0"
        " (first) to 9 (last).",
    ]


def test_policies_that_do_not_go_together_are_told_with_their_lines(
    cli: Cli, tmp_path: Path
) -> None:
    more = "spec: '@daily', handler: 'py:x'}"
    text = f"schedules:\n  a: {{catchup: all, {more}\n  b: {{max_queued: 5, {more}\n"
    file = write(tmp_path / "jobs.yaml", text)

    reported = cli("schedules", "apply", file).err

    assert reported.startswith("error: 2 mistakes\n")
    assert "jobs.yaml, line 2: schedule 'a': catch-up policy 'all' with overlap 'skip'" in reported
    assert "jobs.yaml, line 3: schedule 'b': max_queued with overlap 'skip'" in reported


def test_every_mistake_of_a_definition_is_named(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    write(file, "schedules:\n  x: {spec: 61 * * * *, overlap: maybe, weigth: 2, enabled: 1}\n")

    reported = cli("schedules", "apply", file).err.splitlines()
    assert reported[0] == "error: 5 mistakes"
    for fact in (
        "no key 'weigth'",
        "schedule 'x': handler is missing",
        "schedule 'x': enabled",
        "schedule 'x': overlap policy 'maybe'",
        "schedule 'x': the minute field does not allow \"61\"",
    ):
        assert sum(fact in line for line in reported) == 1, fact


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schedule: {}\n", "there is no key 'schedule'"),
        ("- a\n", "there is no key 'schedules'"),
        ("schedules:\n  a: 5\n", "line 2: schedule 'a': it is a number"),
        ("schedules:\n  a: {}\n  a: {}\n", "line 3: 'a' is given twice; first in line 2"),
        ("schedules: {}\n---\nschedules: {}\n", "has 2 documents"),
        ("schedules: &a\n  b: *a\n", "line 1: found unconstructable recursive node"),
        ("schedules: !!python/none x\n", "for the tag 'tag:yaml.org,2002:python/none'"),
        ("schedules:\n  a: {spec: '@daily', handler: py:x, enabled: maybe}\n", "is not true or"),
        ("schedules:\n  a: {spec: '@daily', handler: py:x, args: [1]}\n", "args is a JSON array"),
        (
            "schedules:\n  a: {spec: [every 61s, not 0-29 * * * * *, not 30-59 * * * * *],"
            " handler: py:x}\n",
            "line 2: schedule 'a': the spec never fires, or too rarely to be found",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, said: str, cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", text)
    answer = cli("schedules", "apply", file)
    assert answer.code == 1
    assert said in answer.err.splitlines()[0]


def test_two_files_that_own_one_name_are_both_named(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "jobs" / "a.yaml", NIGHTLY)
    write(tmp_path / "jobs" / "b.yaml", NIGHTLY)
    refused = cli("schedules", "apply", tmp_path / "jobs").err.splitlines()[0]
    assert "is defined twice: in " in refused
    assert "a.yaml, line 3, and in " in refused
    assert refused.endswith("b.yaml, line 3")


def test_what_is_exported_is_applied_without_a_change(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    cli("schedules", "put", "no", "@hourly\nnot * * * * sun", "shell:tidy", "--paused")
    cli("schedules", "put", "b", "0 3 * * *", "py:x", "--args", '{"a": null, "on": "no"}',
        "--tz", "Europe/Berlin", "--start-deadline", "36h", "--requires", "gpu=a100",
        "--retry", '{"backoff": ["5s", "1m"]}',
        "--concurrency-key", "007", "--weight", "2")  # fmt: skip
    contents = (
        "SELECT to_jsonb(s) - '{version,updated_at,managed_by,source}'::text[]"
        " FROM pgcron.schedule s ORDER BY name"
    )
    before = execute(contents)
    file = tmp_path / "all.yaml"
    assert cli("schedules", "export", "--output", file).code == 0
    assert cli("schedules", "apply", file).code == 0
    assert execute(contents) == before
    assert cli("schedules", "apply", file).out == "2 unchanged\n"
    assert cli("schedules", "export", "no").out == (
        "schedules:\n"
        "  'no':\n"
        "    spec: |-\n"
        "      @hourly\n"
        "      not * * * * sun\n"
        "    handler: shell:tidy\n"
        "    enabled: false\n"
    )
    assert cli("schedules", "export", "--source", "none").out == "schedules: {}\n"
    assert cli("schedules", "export", "gone").code == 1


def test_the_published_form_is_printed(cli: Cli) -> None:
    schema = json.loads(cli("schedules", "schema").out)
    assert "timezone" in schema["$defs"]["schedule"]["properties"]


def test_who_takes_a_schedule_from_its_code_is_warned(cli: Cli, tmp_path: Path) -> None:
    cli("schedules", "put", "nightly", "@daily", "py:x", "--managed-by", "code")
    taken = cli("schedules", "apply", write(tmp_path / "a.yaml", NIGHTLY))
    assert "    managed_by: code → file\n" in taken.out
    assert taken.err.startswith("warning: schedule 'nightly' was managed by the code of an app")
    assert cli("schedules", "apply", tmp_path / "a.yaml").err == ""
