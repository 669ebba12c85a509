"""What a command takes from the folder that somebody happens to be in, and shows on its line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgcron_ha.errors import ConfigError
from tests.cli.conftest import Cli
from tests.product.config import _require_own
from tests.waiting import COMMAND_SECONDS

FILE = "pgcron-ha.toml"


# A program of one's own, which no command has configured.
PROGRAM = """
import asyncio
from pgcron_ha import App
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.secret_values import encrypt

async def call():
    {call}

try:
    asyncio.run(call())
except PgcronError as error:
    print(error.message, error.hint)
"""
ENQUEUE = "await App(schema='pgcron').enqueue('py:work')"
ENCRYPT = "encrypt('x', 'py:work', 'word')"


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """As typed in that folder."""
    return run(folder, "-m", "pgcron_ha", *words)


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python there, with no more of an environment than a login has."""
    environment = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    environment |= variables
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A file whose program leaves a mark."""
    (tmp_path / FILE).write_text(
        f'dsn = "postgresql://127.0.0.1:1/x"\npassword_from = "command:touch {tmp_path}/mark"\n'
    )
    (tmp_path / FILE).chmod(0o600)
    return tmp_path


def test_a_file_that_others_may_write_is_not_obeyed(trap: Path) -> None:
    (trap / FILE).chmod(0o666)

    answer = call(trap, "status")

    assert answer.returncode == 1
    assert f"'{FILE}' of this folder may be written by others (mode 0666)" in answer.stderr
    assert "--config" in answer.stderr
    assert not (trap / "mark").exists()


def test_a_file_of_another_user_is_not_obeyed(trap: Path) -> None:
    found = list((trap / FILE).stat())
    found[4] = os.geteuid() + 5  # st_uid

    with pytest.raises(ConfigError, match="belongs to the user with the id"):
        _require_own(Path(FILE), os.stat_result(found))


def test_a_program_is_executed_for_a_file_that_was_named_only(trap: Path) -> None:
    found = call(trap, "status")
    assert "'password_from' of 'pgcron-ha.toml' is not obeyed" in found.stderr
    assert not (trap / "mark").exists()

    call(trap, "--config", FILE, "status")
    assert (trap / "mark").exists()


@pytest.mark.parametrize(
    ("setting", "statement"),
    [
        ("password_from = {command}", ENQUEUE),
        ("secrets.keys = [{command}]", ENQUEUE),
        ("secrets.keys = [{command}]", ENCRYPT),
    ],
)
def test_a_program_of_a_file_that_was_only_found_is_not_executed_for_an_app(
    tmp_path: Path, setting: str, statement: str
) -> None:
    command = f'"command:touch {tmp_path}/mark"'
    (tmp_path / FILE).write_text(
        f'dsn = "postgresql://127.0.0.1:1/x"\n{setting.format(command=command)}\n'
    )

    answer = run(tmp_path, "-c", PROGRAM.format(call=statement))

    assert f"of '{FILE}' is not obeyed: it names what is executed here" in answer.stdout
    assert "or set the variable PGCRON_HA_" in answer.stdout
    assert not (tmp_path / "mark").exists()


def test_the_password_of_an_app_is_where_the_configuration_says(tmp_path: Path) -> None:
    run(
        tmp_path,
        "-c",
        PROGRAM.format(call=ENQUEUE),
        PGCRON_HA_DSN="postgresql://127.0.0.1:1/x",
        PGCRON_HA_PASSWORD_FROM=f"command:touch {tmp_path}/mark",
    )

    assert (tmp_path / "mark").exists()


def test_an_application_of_a_file_that_was_only_found_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from pathlib import Path\nPath('mark').touch()\n")
    (tmp_path / FILE).write_text(
        'dsn = "postgresql://127.0.0.1:1/x"\n[node]\napps = ["mine:app"]\n'
    )

    answer = call(tmp_path, "node")

    assert answer.returncode == 1
    assert "'node.apps' of 'pgcron-ha.toml' is not obeyed" in answer.stderr
    assert not (tmp_path / "mark").exists()


def test_a_file_with_a_password_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text('dsn = "postgresql://ann:secret@127.0.0.1:1/x"\n')
    said = {}
    for mode in (0o644, 0o600):
        file.chmod(mode)
        said[mode] = call(tmp_path, "status").stderr

    assert "holds a password, and others may read it" in said[0o644]
    assert "warning" not in said[0o600]
    assert "secret" not in said[0o644] + said[0o600]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:secret@h/d",
        "postgresql://h/d?user=ann&password=secret",
        "postgresql://h/d?sslpassword=secret",
    ],
)
def test_a_password_does_not_stand_in_the_list_of_processes(cli: Cli, dsn: str) -> None:
    answer = cli("--dsn", dsn, "status")

    assert answer.code == 1
    assert "PGCRON_HA_DSN" in answer.err
    assert "secret" not in answer.err


def test_a_dsn_without_a_password_is_for_the_line(cli: Cli) -> None:
    for dsn in (
        "postgresql://ann@127.0.0.1:1,127.0.0.1:2/d",
        "postgresql://127.0.0.1:1/d?user=a%40b",
    ):
        assert "has a password" not in cli("--dsn", dsn, "status").err


def test_a_password_in_the_dsn_of_another_database_is_refused_too(cli: Cli) -> None:
    dsn = "postgresql://ann:secret@127.0.0.1:1/d"

    answer = cli("schedules", "import", "pg_cron", "--from-dsn", dsn)

    assert answer.code == 1
    assert answer.err.startswith("error: --from-dsn has a password\n")
    assert "secret" not in answer.err
