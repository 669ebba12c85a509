from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.cli.demos import DemoProcess, processes_about
from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS, wait_for

WHERE = """
import os
from pgcron_ha import App
app = App()

@app.handler()
def where(context):
    return os.environ["PGCRON_HA_DSN"].partition("@")[2]
"""


@pytest.fixture
def place() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="pgcron-v-")).resolve()
    root.chmod(0o755)
    yield root
    wait_for("everything is gone", lambda: not processes_about(root))
    shutil.rmtree(root)


def offers(dsn: str, handler: str) -> bool:
    with psycopg.connect(dsn) as connection:
        found = connection.execute(
            "SELECT handler FROM pgcron.offer WHERE handler = %s", [handler]
        ).fetchone()
    return found is not None


def command(environment: dict[str, str], *arguments: str) -> str:
    own = {name: each for name, each in os.environ.items() if not name.startswith("PGCRON_")}
    return subprocess.run(
        [sys.executable, "-m", "pgcron_ha", *arguments],
        env={**own, **environment},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=True,
    ).stdout


def test_dev_runs_a_node_on_an_embedded_server_and_ctrl_c_ends_both(place: Path) -> None:
    (place / "jobs.py").write_text(WHERE)
    python_path = os.pathsep.join([str(place), str(ROOT)])
    environment = {"XDG_STATE_HOME": str(place), "PYTHONPATH": python_path}
    dev = DemoProcess(place, "--app", "jobs:app", command="dev", environment=environment)
    try:
        dsn = dev.wait_for_output(r"^database +(postgresql://.*)$")[1]
        assert str(place) in dsn
        # A handler finds the database for connections of its own.
        (printed,) = command(environment, "enqueue", "py:where", "--wait").splitlines()[-1:]
        assert place.name in printed
        # Commands find it; one whose files they can't read is none.
        assert "the running pgcron-ha dev" in command(environment, "config")
        password = place / "pgcron_ha" / "embedded" / "password"
        password.rename(password.with_name("elsewhere"))
        assert "dsn = (none)" in command(environment, "config")
        password.with_name("elsewhere").rename(password)

        dev.interrupt()

        assert dev.end() == 0, dev.output
        assert "Traceback" not in dev.output
    finally:
        dev.close()
    assert processes_about(place) == []


@pytest.mark.long
def test_dev_starts_again_when_a_file_changes_also_after_one_that_can_not_be_loaded(
    place: Path, empty_database: str
) -> None:
    code = place / "jobs.py"
    fine = "from pgcron_ha import App\n\napp = App()\n"
    code.write_text(fine)
    environment = {
        "PYTHONPATH": os.pathsep.join([str(place), str(ROOT)]),
        "PGCRON_HA_DSN": empty_database,
    }
    options = ("--app", "jobs:app", "--reload")
    dev = DemoProcess(place, *options, command="dev", environment=environment, cwd=place)
    try:
        dev.wait_for_output("joined as .* with 0 handlers")
        code.write_text(fine + "this is no Python\n")
        dev.wait_for_output("^error: ")
        # The reloader looks anew a moment after it has started the node, and does not see what
        # changed before that.
        edits = itertools.count()

        def is_seen() -> bool:
            if next(edits) % 100 == 0:
                code.write_text(fine + "\n\n@app.handler()\ndef hello(context):\n    pass\n")
            return re.search("joined as .* with 1 handler", dev.output) is not None

        wait_for("the node starts again", is_seen)

        dev.interrupt()

        assert dev.end() == 0, dev.output
        assert "Traceback" not in dev.output
    finally:
        dev.close()


def test_dev_works_in_the_database_that_was_given(place: Path, empty_database: str) -> None:
    environment = {"XDG_STATE_HOME": str(place), "PGCRON_HA_DSN": empty_database}
    dev = DemoProcess(
        place, "--app", "pgcron_ha.demo.app:app", command="dev", environment=environment
    )
    try:
        dev.wait_for_output("^database +postgresql://postgres@/empty")
        wait_for("the node offers the app's handlers", lambda: offers(empty_database, "py:hello"))
        assert not (place / "pgcron_ha" / "embedded").exists()

        dev.interrupt()

        assert dev.end() == 0, dev.output
    finally:
        dev.close()


def test_dev_says_what_is_wrong_with_the_database(place: Path) -> None:
    dsn = f"postgresql://nobody@/nowhere?host={place}"
    dev = DemoProcess(place, command="dev", environment={"PGCRON_HA_DSN": dsn})

    assert dev.end() == 1
    assert "error: the database can't be reached" in dev.output
    assert "Traceback" not in dev.output
    dev.close()
