"""Which PostgreSQL is used, and every one of this machine that can be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pgcron_ha.embedded import Binaries, EmbeddedPostgres, find_binaries
from pgcron_ha.errors import ConfigError
from tests.embedded.processes import rows, shows, write_row
from tests.product.embedded import OLDEST_MAJOR, system_binaries

# The usual one at least; where the system has others, they too.
INSTALLED = dict.fromkeys(
    [find_binaries(), *(found for found in system_binaries() if found.major >= OLDEST_MAJOR)]
)


@pytest.mark.parametrize("binaries", INSTALLED, ids=lambda binaries: str(binaries.major))
def test_every_installed_postgresql_can_be_chosen(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, binaries: Binaries
) -> None:
    monkeypatch.setenv("PGCRON_HA_PG_BIN", str(binaries.directory))

    embedded.up()

    write_row(embedded.dsn(), "kept")
    assert rows(embedded.dsn()) == ["kept"]
    assert shows(embedded.dsn(), "server_version").split(".")[0] == str(binaries.major)


def test_variables_for_other_servers_do_not_matter(
    embedded: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"PGPORT": "1", "PGDATA": "/nowhere", "LC_ALL": "xx_XX"}.items():
        monkeypatch.setenv(name, value)

    assert shows(embedded.up().dsn(), "port") == "5432"


def test_the_servers_own_pg_dump_dumps_it(embedded: EmbeddedPostgres) -> None:
    write_row(embedded.up().dsn(), "a row to dump")

    dump = subprocess.run(
        [find_binaries().tool("pg_dump"), embedded.dsn()],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "a row to dump" in dump.stdout


@pytest.mark.parametrize("chosen", ["/nowhere/bin", os.path.dirname(__file__), "/bin"])
def test_a_wrong_choice_of_programs_is_refused(chosen: str) -> None:
    with pytest.raises(ConfigError, match=f"PGCRON_HA_PG_BIN '{chosen}'") as caught:
        find_binaries({"PGCRON_HA_PG_BIN": chosen})

    assert "14 or newer" in str(caught.value.detail)


def test_an_old_postgresql_is_refused(tmp_path: Path) -> None:
    for name in ("initdb", "postgres"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho 'postgres (PostgreSQL) 13.23'\n")
        program.chmod(0o755)

    with pytest.raises(ConfigError, match="can be used"):
        find_binaries({"PGCRON_HA_PG_BIN": str(tmp_path)})


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'pg_nothing'") as caught:
        find_binaries().tool("pg_nothing")
    assert "Install" in str(caught.value.hint)
