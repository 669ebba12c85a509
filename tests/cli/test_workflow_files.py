"""Workflows in files of ``schedules apply`` and ``export``."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli, Execute

ETL = """
workflows:
  etl:
    timeout: 8 hours
    steps:
      - {name: load, handler: shell:load, args_from: {rows: $.extract.rows}}
      - {name: extract, handler: py:extract, timeout: 30m}
"""
NIGHTLY = 'schedules: {nightly: {spec: 0 3 * * *, handler: "workflow:etl"}}\n'
KNOWN = "SELECT name, version, managed_by, source FROM pgcron.workflows ORDER BY name"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_workflows_are_applied_with_a_diff(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    file = write(tmp_path / "jobs" / "etl.yaml", ETL)
    tried = cli("schedules", "apply", tmp_path / "jobs", "--dry-run")
    assert tried.err == ""
    assert tried.out.splitlines()[-3:] == [
        "workflows: 1 added",
        "no schedules",
        "nothing is changed: this was a dry run",
    ]
    assert execute(KNOWN) == []

    done = cli("schedules", "apply", tmp_path / "jobs")
    assert done.out.splitlines()[:5] == [
        "+ workflow etl",
        "    + timeout: 8h",
        "    + steps:",
        "    + - name: extract",
        "    +   handler: py:extract",
    ]
    assert execute(KNOWN) == [("etl", 1, "file", "jobs")]
    assert cli("schedules", "apply", tmp_path / "jobs").out.splitlines() == [
        "workflows: 1 unchanged",
        "no schedules",
    ]

    write(file, ETL.replace("30m", "45m") + NIGHTLY)
    rows = cli("schedules", "apply", tmp_path / "jobs", "--json").rows
    assert rows[0] == {
        "workflow": "etl",
        "change": "changed",
        "lines": ["-   timeout: 30m", "+   timeout: 45m"],
    }
    assert execute(KNOWN) == [("etl", 2, "file", "jobs")]


def test_what_is_exported_is_applied_unchanged(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    write(tmp_path / "jobs" / "etl.yaml", ETL + NIGHTLY)
    cli("schedules", "apply", tmp_path / "jobs")
    execute(
        'SELECT pgcron.put_workflow(\'other\', \'{"steps": [{"name": "a", "handler": "py:a",'
        ' "timeout": "90 seconds", "retry": null}], "timeout": "2 days"}\')'
    )
    everything = cli("schedules", "export")
    assert "  other:\n    timeout: 48h\n    steps:\n    - name: a\n" in everything.out
    again = write(tmp_path / "again" / "jobs.yaml", everything.out)
    applied = cli("schedules", "apply", again, "--source", "jobs", "--dry-run")
    assert "workflows: 1 changed, 1 unchanged" in applied.out  # the other was no file's

    for arguments in (("nightly",), ("--source", "jobs")):
        found = cli("schedules", "export", *arguments).out
        assert "  etl:\n" in found
        assert "other" not in found


def test_one_source_owns_a_workflow(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", ETL)
    write(tmp_path / "b.yaml", ETL)
    cli("schedules", "apply", tmp_path / "a.yaml")

    refused = cli("schedules", "apply", tmp_path / "b.yaml")
    assert refused.code == 1
    assert "workflow 'etl' is defined by the files of 'a' and of 'b'" in refused.err
    taken = cli("schedules", "apply", tmp_path / "b.yaml", "--take-over")
    assert taken.out.splitlines()[:2] == ["~ workflow etl", "    source: a → b"]
    assert execute(KNOWN) == [("etl", 1, "file", "b")]

    execute(
        "SELECT pgcron.put_workflow('etl', definition, managed_by => 'code') FROM pgcron.workflows"
    )
    warned = cli("schedules", "apply", tmp_path / "b.yaml")
    assert "warning: workflow 'etl' was managed by the code of an application" in warned.err


def test_what_a_file_defines_no_longer_is_pruned(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = write(tmp_path / "jobs.yaml", ETL + NIGHTLY)
    cli("schedules", "apply", file)
    write(file, "workflows: {}\nschedules: {}\n")
    assert "would delete everything" in str(cli("schedules", "apply", file, "--prune").err)

    write(file, ETL.replace("etl:", "new:"))
    assert "pruned" not in cli("schedules", "apply", file, "--dry-run").out
    pruned = cli("schedules", "apply", file, "--prune")
    assert "workflows: 1 added, 1 pruned" in pruned.out
    assert "- workflow etl" in pruned.out
    assert execute(KNOWN) == [("new", 1, "file", "jobs")]
    assert execute("SELECT count(*) FROM pgcron.schedule") == [(0,)]


def test_what_the_database_refuses_is_named(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    file = write(tmp_path / "jobs.yaml", ETL.replace("$.extract.rows", "$.extract.rows ??"))
    refused = cli("schedules", "apply", file)
    assert refused.code == 1
    assert f"{file}, line 3: workflow 'etl': step 2 ('load'): args_from rows" in refused.err
    assert execute(KNOWN) == []
    file = write(tmp_path / "jobs.yaml", ETL.replace("extract.rows", "extrakt.rows"))
    refused = cli("schedules", "apply", file)
    assert "line 3: workflow 'etl': step 1 ('load') in line 6: 'extrakt' is no step" in refused.err


def test_several_mistakes_each_have_their_rule(cli: Cli, tmp_path: Path) -> None:
    steps = "[{name: a, wait_for: aproval}, {name: b, handler: py:b, afer: a}]"
    file = write(
        tmp_path / "jobs.yaml", f"workflows:\n  w: {{on_failure: explode, steps: {steps}}}\n"
    )
    named = [line.split("'w': ")[-1] for line in cli("schedules", "apply", file).err.splitlines()]
    assert named[2:-1] == [
        "on_failure 'explode' is not known. It is one of continue, stop, kill.",
        "step 1 ('a') in line 2: wait_for 'aproval' is not known. It is one of signal, approval,"
        " timer.",
        "step 2 ('b') in line 2: a step has no key 'afer'; did you mean 'after'?",
    ]
