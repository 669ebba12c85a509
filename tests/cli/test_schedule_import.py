"""``schedules import``: files, templates and the report."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute
from tests.product.db import password_of, without_password

CRONTAB = "*/5 * * * * tidy.sh\n@reboot start-up\n"


def test_a_crontab_becomes_a_file_to_review_and_a_report(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "crontab").write_text(CRONTAB)

    reported = cli("schedules", "import", "crontab", "crontab", "--timezone", "Europe/Berlin")
    assert reported.code == 0
    assert reported.out.startswith("schedules:\n  tidy:\n    spec: '*/5 * * * *'\n")
    assert "    timezone: Europe/Berlin\n" in reported.out
    assert "\n# [shell.tidy]\n# argv = [\n" in reported.out
    assert reported.err.splitlines() == [
        "crontab, line 2: not carried over: @reboot is no time but an event of one host: start-up",
        "1 schedule carried over",
    ]
    (tmp_path / "jobs.yaml").write_text(reported.out)
    assert cli("schedules", "apply", "jobs.yaml").out.endswith("1 added\n")


def test_files_are_written_and_applied(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    (tmp_path / "crontab").write_text(CRONTAB)
    files = ("--output", "jobs.yaml", "--templates", "part.toml")

    assert cli("schedules", "import", "crontab", "crontab", *files).out == ""
    assert tomllib.loads((tmp_path / "part.toml").read_text())["shell"]["tidy"]["timeout"] == "7d"
    assert cli("schedules", "apply", "jobs.yaml", "--source", "host-1").out.endswith("1 added\n")
    assert execute("SELECT name, source FROM pgcron.schedule") == [("tidy", "host-1")]
    assert cli("schedules", "import", "crontab", "crontab", "--timezone", "Berlin").code == 1


def test_manifests_of_kubernetes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "k.yaml").write_text(
        "kind: CronJob\nmetadata: {name: a}\nspec: {schedule: '@daily', suspend: true}\n"
    )
    reported = cli("schedules", "import", "kubernetes", "k.yaml")
    assert "    dst: robfig\n" in reported.out
    assert "    enabled: false\n" in reported.out


def test_the_table_of_pg_cron_is_read(
    cli: Cli, execute: Execute, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", password_of(database) or "")
    execute("CREATE SCHEMA cron")
    execute(
        "CREATE TABLE cron.job (jobid bigint, schedule text, command text, nodename text,"
        " nodeport int, database text, username text, active boolean, jobname text)"
    )
    execute(
        "INSERT INTO cron.job VALUES (1, '0 4 * * *', 'VACUUM', 'localhost', 5432, 'shop', 'anna',"
        " true, 'nightly')"
    )
    import_jobs = ("schedules", "import", "pg_cron", "--from-dsn", without_password(database))
    reported = cli(*import_jobs)
    assert "  nightly:\n    spec: 0 4 * * *\n    handler: sql:nightly\n" in reported.out
    assert '# statement = "VACUUM"\n' in reported.out
    assert cli("schedules", "import", "pg_cron").code == 2
    execute("DROP SCHEMA cron CASCADE")
    assert cli(*import_jobs).code == 1
