from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from pgcron_ha.embedded import EmbeddedPostgres
from tests.cli.conftest import Cli
from tests.cli.demos import DemoProcess, processes_about
from tests.product.db import password_of, without_password
from tests.product.demo import app
from tests.waiting import COMMAND_SECONDS, wait_for

Start = Callable[..., DemoProcess]
ACCOUNTED = (
    r"^(\d+) schedules, \d+ instants since \S+ and to come: each is accounted for, none twice$"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A path that is not there yet, below one that every user may enter."""
    root = Path(tempfile.mkdtemp(prefix="pgcron-d-")).resolve()
    root.chmod(0o755)
    yield root / "demo"
    wait_for("the demo is gone", lambda: not processes_about(root))
    shutil.rmtree(root)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts demos on the folder; all are ended after the test."""
    started: list[DemoProcess] = []

    def call(*arguments: object, **how: object) -> DemoProcess:
        started.append(DemoProcess(folder, *arguments, **how))  # type: ignore[arg-type]
        return started[-1]

    yield call
    for demo in started:
        demo.close()


def run(command: str) -> str:
    """What a command prints when it is pasted into a shell that has no settings of ours."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PGCRON_")}
    return subprocess.run(
        command,
        shell=True,
        check=True,
        timeout=COMMAND_SECONDS,
        capture_output=True,
        text=True,
        env=plain,
    ).stdout


def ended(folder: Path) -> dict[str, set[str]]:
    """By schedule how runs ended, as the database of a demo that is over says."""
    query = "SELECT schedule, array_agg(outcome) FROM pgcron.history GROUP BY schedule"
    with EmbeddedPostgres(folder / "server") as server, psycopg.connect(server.dsn()) as connection:
        return {name: {*outcomes} for name, outcomes in connection.execute(query)}


@pytest.mark.long
def test_a_demo_with_a_time_ends_by_itself_and_accounts_for_every_occurrence(
    start: Start, folder: Path
) -> None:
    demo = start("--for", 15)

    assert demo.end() == 0, demo.output
    assert "Traceback" not in demo.output
    demo.wait_for_output(r"first job executed after \d+\.\d s")
    assert int(demo.wait_for_output(ACCOUNTED)[1]) >= len(app.schedules)
    demo.wait_for_output(r"start delay p99 \d+ ms")
    assert processes_about(folder) == []
    outcomes = ended(folder)
    for name in app.schedules.keys() - {"follow"}:
        assert "succeeded" in outcomes[name], name
    assert "skipped" in outcomes["crawl"]
    assert "cancelled" in outcomes["follow"]
    assert "succeeded" in outcomes["greet"]
    assert "cleanup" not in outcomes
    assert list((folder / "dumps").glob("*.dump"))
    assert (folder / "pgcron-ha.toml").stat().st_mode & 0o077 == 0


@pytest.mark.long
def test_what_the_examples_are_for_is_explained(start: Start, cli: Cli) -> None:
    demo = start("--for", 12, "--nodes", 1)
    dsn = run(demo.wait_for_output(r"^database +(.*)$")[1]).strip()
    demo.wait_for_output("^first job executed")

    def why(name: str, instant: datetime) -> dict[str, Any]:
        [reported] = cli("schedules", "why", name, instant.isoformat(), "--json", dsn=dsn).rows
        return reported

    with psycopg.connect(dsn, autocommit=True) as connection:

        def fire_of(name: str, outcome: str) -> datetime:
            query = "SELECT scheduled_for FROM pgcron.history WHERE schedule = %s AND outcome = %s"
            found = wait_for(
                f"{name} {outcome}", lambda: connection.execute(query, (name, outcome)).fetchall()
            )
            fire: datetime = found[0][0]
            return fire

        skipped = why("crawl", fire_of("crawl", "skipped"))
        replaced = why("follow", fire_of("follow", "cancelled"))
    assert skipped["code"] == "overlap_skipped"
    assert replaced["outcome"] == "cancelled"
    paused = why("cleanup", datetime(2098, 3, 1, 4, tzinfo=UTC))
    assert (paused["code"], paused["note"]) == (
        "is_paused",
        "until somebody has looked at the old dumps",
    )
    holiday = why("greet", datetime(2098, 12, 25, 4, tzinfo=UTC))
    assert holiday["reason"] == "left out by calendar holidays: 2098-12-25 Christmas"
    assert demo.end() == 0, demo.output


@pytest.mark.long
def test_a_fire_that_is_lost_is_named_and_ends_the_demo_with_1(start: Start) -> None:
    demo = start("--for", 4, "--nodes", 1)
    dsn = run(demo.wait_for_output(r"^database +(.*)$")[1]).strip()
    demo.wait_for_output("^first job executed")

    with psycopg.connect(dsn, autocommit=True) as connection:
        lost = wait_for(
            "a run of tick has ended and is lost",
            lambda: connection.execute(
                "DELETE FROM pgcron.occurrence o USING pgcron.history h"
                " WHERE o.run_id = h.id AND h.schedule = 'tick' RETURNING fire_at"
            ).fetchall(),
        )

    assert demo.end() == 1
    for (fire,) in lost:
        demo.wait_for_output(rf"^tick +{fire:%Y-%m-%dT%H:%M:%SZ} .*an instant has no answer")
    demo.wait_for_output(r"instants since \S+ and to come: \d+ breaks? a rule")
    assert "Traceback" not in demo.output


def test_a_database_that_can_not_be_reached_is_one_clear_error(start: Start, folder: Path) -> None:
    dsn = f"postgresql://ann:secret@/nowhere?host={folder.parent}"

    demo = start(environment={"PGCRON_HA_DSN": dsn})

    assert demo.end() == 1
    assert "error: the database can't be reached" in demo.output
    assert "Traceback" not in demo.output
    assert "secret" not in demo.output


@pytest.mark.long
def test_a_node_that_is_killed_is_shown_as_dead_and_nothing_is_lost(start: Start) -> None:
    demo = start("--for", 18)
    demo.wait_for_output("^first job executed")
    pid = int(demo.wait_for_output(r"^kill one  kill -9 (\d+)")[1])
    demo.wait_for_output(
        rf"^node-\d +alive +{pid} "
    )  # one that has not joined can't be seen to die

    os.kill(pid, signal.SIGKILL)

    demo.wait_for_output(
        rf"\(process {pid}\) killed by signal 9 \(SIGKILL\): what it ran starts elsewhere"
    )
    demo.wait_for_output(rf"^node-\d +dead +{pid} .*its lease ran out")
    assert demo.end() == 0, demo.output
    demo.wait_for_output("1 of 2 nodes alive at the end")
    demo.wait_for_output(ACCOUNTED)


@pytest.mark.long
def test_the_printed_commands_work_and_ctrl_c_ends_it_in_order(start: Start, folder: Path) -> None:
    demo = start("--nodes", 1)
    demo.wait_for_output("^first job executed")
    assert len(processes_about(folder)) >= 3  # the demo, its node, its server

    status = run(demo.wait_for_output(r"^look +(.*)$")[1])
    result = run(demo.wait_for_output(r"^run one +(.*)$")[1])

    assert "1 alive" in status
    assert result.endswith('"hello, you"\n')
    demo.interrupt()
    assert demo.end() == 0, demo.output
    demo.wait_for_output(ACCOUNTED)
    assert demo.output.endswith("stopped: no process of the demo is left\n")
    assert "Traceback" not in demo.output
    assert processes_about(folder) == []


@pytest.mark.long
def test_a_ctrl_c_while_the_demo_starts_is_no_error(start: Start, folder: Path) -> None:
    demo = start()
    demo.wait_for_output("^starting 2 nodes on an embedded PostgreSQL")

    demo.interrupt()

    assert demo.end() == 0, demo.output
    assert "Traceback" not in demo.output
    assert processes_about(folder) == []


@pytest.mark.long
def test_nothing_outlives_a_demo_that_is_killed(start: Start, folder: Path) -> None:
    demo = start()
    demo.wait_for_output("^first job executed")

    demo.process.kill()
    demo.end()

    wait_for("all is gone", lambda: not processes_about(folder))


@pytest.mark.long
def test_a_second_demo_on_one_folder_is_refused(start: Start, folder: Path) -> None:
    first = start()
    first.wait_for_output("^starting")

    second = start()

    assert second.end() == 1
    assert f"error: another demo runs in '{folder}'" in second.output
    assert "--data" in second.output
    first.interrupt()
    assert first.end() == 0


def test_a_folder_of_something_else_is_refused_and_left_alone(start: Start, folder: Path) -> None:
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "precious").write_text("1")

    demo = start()

    assert demo.end() == 1
    assert "holds files of something else" in demo.output
    assert (folder / "logs" / "precious").read_text() == "1"


@pytest.mark.long
def test_the_next_demo_begins_anew(start: Start, folder: Path) -> None:
    first = start("--for", 1, "--nodes", 1)
    assert first.end() == 0, first.output
    (folder / "dumps" / "old.dump").write_text("")
    until = datetime.now(UTC)

    second = start("--for", 1, "--nodes", 1)

    assert second.end() == 0, second.output
    second.wait_for_output(ACCOUNTED)
    assert not (folder / "dumps" / "old.dump").exists()
    with EmbeddedPostgres(folder / "server") as server, psycopg.connect(server.dsn()) as connection:
        query = "SELECT min(finished_at) > %s FROM pgcron.history"
        assert connection.execute(query, (until,)).fetchone() == (True,)


@pytest.mark.long
def test_in_a_given_database_the_demo_has_a_schema_of_its_own_and_removes_it(
    start: Start, database: str, folder: Path
) -> None:
    demo = start("--for", 2, environment={"PGCRON_HA_DSN": database})

    assert demo.end() == 0, demo.output
    demo.wait_for_output(ACCOUNTED)
    assert "throw-away" not in demo.output  # the password
    assert not (folder / "server").exists()
    with psycopg.connect(database) as connection:
        left = connection.execute(
            "SELECT (SELECT count(*) FROM pgcron.schedule), to_regnamespace('pgcron_demo')"
        ).fetchone()
    assert left == (0, None)


@pytest.mark.long
def test_a_given_database_is_left_clean_by_a_ctrl_c_after_a_node_was_killed(
    start: Start, database: str
) -> None:
    demo = start(environment={"PGCRON_HA_DSN": database})
    demo.wait_for_output("^first job executed")
    os.kill(int(demo.wait_for_output(r"^kill one  kill -9 (\d+)")[1]), signal.SIGKILL)

    demo.interrupt()

    assert demo.end() == 0, demo.output
    demo.wait_for_output(ACCOUNTED)
    with psycopg.connect(database) as connection:
        left = connection.execute("SELECT to_regnamespace('pgcron_demo')").fetchone()
    assert left == (None,)


@pytest.mark.long
def test_what_can_not_be_verified_after_a_ctrl_c_is_an_error(start: Start, database: str) -> None:
    demo = start("--nodes", 1, environment={"PGCRON_HA_DSN": database})
    demo.wait_for_output("^first job executed")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER SCHEMA pgcron_demo RENAME TO elsewhere")

    demo.interrupt()

    assert demo.end() == 1, demo.output
    assert "error: " in demo.output
    assert "Traceback" not in demo.output


@pytest.mark.long
def test_a_server_that_is_killed_comes_back_and_the_demo_goes_on(
    start: Start, folder: Path
) -> None:
    demo = start("--for", 10, "--nodes", 1)
    demo.wait_for_output("^first job executed")
    pid = int((folder / "server" / "pgdata" / "postmaster.pid").read_text().splitlines()[0])

    os.kill(pid, signal.SIGKILL)

    assert demo.end() == 0, demo.output
    demo.wait_for_output(ACCOUNTED)
    assert "Traceback" not in demo.output


@pytest.mark.long
def test_on_a_terminal_the_table_is_drawn_in_place_until_a_signal_comes(folder: Path) -> None:
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    drawn = b""
    demo = DemoProcess(folder, "--nodes", 1, output=theirs, environment={"TERM": "xterm"})
    try:
        os.close(theirs)
        while piece := _read(own):
            drawn += piece
            if drawn.count(b"\x1b[J") == 4:
                demo.interrupt(signal.SIGTERM)
        assert demo.end() == 0, drawn
    finally:
        demo.close()
        os.close(own)
    screen = drawn.decode()
    assert "first job executed after" in screen
    assert screen.index("\x1b[J") < screen.index("is accounted for")
    assert screen.endswith("stopped: no process of the demo is left\r\n")
    assert processes_about(folder) == []
    *_, frame, _ = screen.split("\x1b[J")
    lines = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frame).splitlines()
    assert len(lines) <= 30
    assert all(len(line) <= 80 for line in lines)
    begins = [line.split("  ")[0] for line in lines]
    assert begins[:4] == ["pgcron_ha demo", "run one", "pages", "kill one"]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other side is closed
        return b""


@pytest.mark.long
def test_the_demo_says_where_its_pages_are_and_ends_them_with_it(start: Start) -> None:
    demo = start("--for", 60)
    key = demo.wait_for_output(r"pages +((http://127\.0\.0\.1:\d+/)enter/\S+)")
    cookie = dict(httpx.get(key[1]).cookies)
    address = key[2]
    page = wait_for("the pages answer", lambda: _page(address, cookie))
    asked = f"{address}runs?schedule=ready&state=succeeded"
    wait_for("a job has asked them", lambda: re.search(r'href="(/runs/\d+)', _page(asked, cookie)))
    demo.interrupt(signal.SIGINT)

    assert demo.end() == 0, demo.output
    assert "<title>" in page
    assert _page(address, cookie) == ""


def _page(address: str, cookie: dict[str, str]) -> str:
    """What is at the address; nothing when nobody listens there."""
    try:
        return httpx.get(address, cookies=cookie, timeout=5).text
    except httpx.HTTPError:
        return ""


@pytest.mark.parametrize(
    ("dsn", "bare", "password"),
    [
        ("postgresql://ann:s%40t@h:1/d", "postgresql://ann@h:1/d", "s@t"),
        ("postgresql://ann@h/d", "postgresql://ann@h/d", None),
        ("postgresql:///d?host=/run", "postgresql:///d?host=/run", None),
        ("postgresql://h/d?password=x&port=1", "postgresql://h/d?port=1", "x"),
        ("postgresql://a:b@h1:1,h2:2/d?user=c", "postgresql://a@h1:1,h2:2/d?user=c", "b"),
    ],
)
def test_a_password_is_kept_apart_from_the_dsn(dsn: str, bare: str, password: str | None) -> None:
    assert without_password(dsn) == bare
    assert password_of(dsn) == password
