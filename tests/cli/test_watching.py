"""A followed run on a terminal and without one; Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute, dsn_of
from tests.cli.test_cluster import insert_node
from tests.cli.test_runs import insert_ended
from tests.product.cli import elapsed

_ROOT = Path(__file__).resolve().parents[2]
_BEGIN = (
    "UPDATE pgcron.run SET state = 'running', attempt = 1, owner = gen_random_uuid(), "
    "token = gen_random_uuid(), fence = 1, claimed_at = now(), "
    "started_at = now() - interval '65 s'"
)
_PROGRESS = (
    "INSERT INTO pgcron.progress (run_id, attempt, at, done, total, note) "
    "VALUES (%s, 1, now(), %s, 8, 'copying') "
    "ON CONFLICT (run_id) DO UPDATE SET done = EXCLUDED.done"
)
_LINE = (
    "INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line) "
    "VALUES (%s, 1, %s, '2026-01-01T00:00Z', 'stdout', %s)"
)
_DEADLINE_SECONDS = 60


class Watcher:
    """`pgcron-ha runs watch` as a process of its own, and what it wrote on stderr so far."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: int) -> None:
        self.process = process
        self._stderr = stderr
        self.said = ""

    def until_said(self, pattern: str) -> None:
        end = time.monotonic() + _DEADLINE_SECONDS
        while not re.search(pattern, self.said):
            left = end - time.monotonic()
            if left < 0 or not self._read(left):
                pytest.fail(f"not said: {pattern!r}; said: {self.said!r}")

    def end(self) -> tuple[int, str]:
        """Exit code and stdout, after its end."""
        out = self.process.communicate(timeout=_DEADLINE_SECONDS)[0]
        while self._read(0):
            pass
        return self.process.returncode, out.decode()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._stderr], [], [], seconds)[0]:
            return False
        try:
            found = os.read(self._stderr, 65536)
        except OSError:  # how a terminal says that nobody writes any more
            return False
        self.said += found.decode()
        return bool(found)


@contextmanager
def watch(database: str, *words: object, on_terminal: bool) -> Iterator[Watcher]:
    stderr, given = pty.openpty() if on_terminal else os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "pgcron_ha", *map(str, words)],
        cwd=_ROOT,
        env={**os.environ, "PGCRON_HA_DSN": database, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=given,
        start_new_session=True,
        preexec_fn=_as_from_a_terminal,
    )
    os.close(given)
    try:
        yield Watcher(process, stderr)
    finally:
        process.kill()
        process.communicate()
        os.close(stderr)


def _as_from_a_terminal() -> None:
    """What a shell starts in the background, as these tests may be, ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_run(execute: Execute, run: int) -> None:
    """As a node does it, in one transaction."""
    execute(
        "WITH ended AS (DELETE FROM pgcron.run WHERE id = %s RETURNING *) "
        "INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, "
        "outcome, attempt, due_at, created_at, created_by, result) SELECT id, uuid, origin, queue, "
        "priority, handler, args, delivery, 'succeeded', 1, due_at, created_at, created_by, "
        "'[1]' FROM ended",
        run,
    )


def test_a_terminal_shows_a_bar_that_moves_and_log_lines_above_it(
    database: str, cli: Cli, execute: Execute
) -> None:
    run = int(cli("enqueue", "py:x").out)
    execute(_BEGIN)
    execute(_PROGRESS, run, 2)
    execute(_LINE, run, 0, "first line")
    with watch(database, "runs", "watch", run, "--log", on_terminal=True) as watcher:
        watcher.until_said(rf"run {run} \[#{{6}}\.{{18}}\] 25 % \(2 of 8\) copying · 1:\d\d")
        watcher.until_said(r"\r\x1b\[K2026-01-01T00:00:00Z 1 stdout first line\r\n")
        execute(_LINE, run, 1, "second line")
        execute(_PROGRESS, run, 6)
        watcher.until_said(r"second line")
        watcher.until_said(r"\r\x1b\[Krun \d+ \[#{18}\.{6}\] 75 %")
        end_run(execute, run)

        assert watcher.end() == (0, "[1]\n")
        assert watcher.said.endswith("\r\x1b[K")


def test_without_a_terminal_each_line_is_plain_and_ctrl_c_leaves_the_run_alone(
    database: str, cli: Cli, execute: Execute
) -> None:
    run = int(cli("enqueue", "py:x").out)
    execute(_BEGIN)
    execute(_PROGRESS, run, 2)
    with watch(database, "runs", "watch", run, on_terminal=False) as watcher:
        watcher.until_said(rf"run {run} running, attempt 1: 25 % \(2 of 8\) copying\n")
        execute(_PROGRESS, run, 4)
        watcher.until_said(rf"run {run} running, attempt 1: 50 % \(4 of 8\) copying\n")
        watcher.process.send_signal(signal.SIGINT)

        assert watcher.end() == (130, "")
        again = f"`pgcron-ha runs watch {run}` follows it again, `runs cancel {run}` ends it"
        assert f"run {run} goes on; {again}" in watcher.said
        assert "\r" not in watcher.said
        assert "Traceback" not in watcher.said
    assert execute("SELECT state, cancel_at FROM pgcron.run") == [("running", None)]


def test_a_run_that_is_tried_again_is_called_so(database: str, cli: Cli, execute: Execute) -> None:
    run = int(cli("enqueue", "py:x", "--due-at", "1h").out)
    execute("UPDATE pgcron.run SET attempt = 1 WHERE id = %s", run)
    with watch(database, "runs", "watch", run, on_terminal=False) as watcher:
        watcher.until_said(rf"run {run} retrying, attempt 1\n")


def test_a_producer_follows_what_it_enqueued(
    cli: Cli, execute: Execute, database: str, role: str
) -> None:
    execute(cli("grants", "producer", role, "--everything").out)
    insert_ended(execute, 900, "succeeded")
    execute("UPDATE pgcron.history SET created_by = %s", role)
    execute(f"INSERT INTO pgcron.idempotency VALUES ('k', 900, now() + interval '1 d', '{role}')")
    producer = ("--dsn", dsn_of(role, database))

    assert cli(*producer, "enqueue", "py:x", "--idempotency-key", "k", "--wait").out == "900\n[1]\n"
    other = cli("enqueue", "py:x", "--due-at", "2090-01-01T00:00Z").out.strip()
    refused = cli(*producer, "runs", "watch", other)
    assert refused.code == 1
    assert f"run {other} does not exist" in refused.err

    with watch(
        dsn_of(role, database), "enqueue", "py:y", "--due-at", "2090-01-01T00:00Z", "--wait",
        on_terminal=False,
    ) as watcher:  # fmt: skip
        watcher.until_said(r"run \d+ scheduled\n")
    assert execute("SELECT created_by FROM pgcron.run WHERE handler = 'py:y'") == [(role,)]


def test_a_producer_enqueues_though_the_user_of_the_machine_has_the_name_of_another_role(
    cli: Cli, execute: Execute, database: str, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute(cli("grants", "producer", role, "--everything").out)
    execute(
        """SELECT pgcron.put_workflow('etl', '{"steps": [{"name": "a", "handler": "py:a"}]}')"""
    )
    monkeypatch.setenv("LOGNAME", "postgres")

    for words in (["enqueue", "py:x"], ["workflows", "start", "etl"]):
        answer = cli("--dsn", dsn_of(role, database), *words)
        assert answer.code == 0, answer.err

    assert execute("SELECT handler, created_by FROM pgcron.run ORDER BY id") == [
        ("py:x", role),
        ("workflow:etl", role),
    ]


def test_who_waits_for_what_no_node_offers_reads_how_to_end_that(
    database: str, execute: Execute
) -> None:
    insert_node(execute, "n1", "py:report")
    with watch(database, "enqueue", "py:reprot", "--wait", on_terminal=False) as watcher:
        watcher.until_said(r"mean 'py:report'\? `pgcron-ha runs cancel \d+` ends the wait.\n")


def test_sentences_name_outcomes_in_words(cli: Cli, execute: Execute) -> None:
    insert_ended(execute, 900, "upstream_failed")

    assert "run 900 ended upstream failed: it broke" in cli("runs", "watch", "900").err
    assert "last hour  1 upstream failed" in cli("status").out


def test_log_goes_with_wait(cli: Cli) -> None:
    answer = cli("enqueue", "py:x", "--log")

    assert answer.code == 2
    assert "--wait" in answer.err


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0:00"), (7.9, "0:07"), (725, "12:05"), (3723, "1:02:03")]
)
def test_how_long_it_takes_is_told_as_a_clock_does(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text
