"""Whatever happens to a node, no child outlives its lease, and none outlives its lock."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.executors.family import KINDS
from tests.executors.running import alive, readable_pid
from tests.product.executors import SupervisorClient
from tests.waiting import DEADLINE_SECONDS, wait_for

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def node(directory: Path, ttl: float) -> Iterator[subprocess.Popen[bytes]]:
    """A node-like process whose run has started its whole family."""
    command = [sys.executable, "-m", "tests.executors.node_process", str(directory), str(ttl)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            wait_for("the family is there", lambda: readable_pid(directory / "main"))
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def family(directory: Path) -> list[int]:
    pids = [int((directory / kind).read_text()) for kind in ("main", *KINDS)]
    assert all(alive(pid) for pid in pids)
    return pids


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def lock_is_free(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def test_kill_9_of_the_node_kills_every_descendant_before_the_lock_is_free(tmp_path: Path) -> None:
    with node(tmp_path, ttl=60) as process, opened(tmp_path / "lock") as lock:
        pids = family(tmp_path)
        assert not lock_is_free(lock)
        process.kill()
        process.wait()
        wait_for("the lock is free", lambda: lock_is_free(lock))
        assert [pid for pid in pids if alive(pid)] == []
        wait_for("no args file is left", lambda: not list(tmp_path.glob("pgcron-ha-*")))


def test_the_lock_stays_held_while_a_child_of_a_dead_node_lives(tmp_path: Path) -> None:
    with node(tmp_path, ttl=60) as process, opened(tmp_path / "lock") as lock:
        pids = family(tmp_path)
        supervisor = _parent(pids[0])
        os.kill(supervisor, signal.SIGSTOP)  # so that the children are not killed yet
        try:
            process.kill()
            process.wait()
            assert all(alive(pid) for pid in pids)
            assert not lock_is_free(lock)
        finally:
            os.kill(supervisor, signal.SIGCONT)
        wait_for("the lock is free", lambda: lock_is_free(lock))
        assert [pid for pid in pids if alive(pid)] == []


async def test_a_stop_that_arrives_before_the_program_begins_reaches_it(tmp_path: Path) -> None:
    client = SupervisorClient((), tmp_path / "args")
    reading, writing = os.pipe()
    ended: dict[int, tuple[str, int]] = {}
    all_ended = asyncio.Event()

    def hear(message: dict[str, Any]) -> None:
        if message["event"] == "ended":
            ended[message["run"]] = message["cause"], message["status"]
        if len(ended) == 20:
            all_ended.set()

    client.listen(asyncio.get_running_loop(), hear, lambda problem: None)
    try:
        for number in range(20):
            environment = {"PGCRON_ARGS_FILE": str(tmp_path / "none"), "PGCRON_FENCE": str(number)}
            run: dict[str, Any] = {"argv": ["/bin/sleep", "60"], "environment": environment}
            run |= {"directory": None, "account": None, "run": number}
            run |= {"descriptors": 2, "mark": "PGCRON_FENCE", "outlives_lease": False}
            client.send({"do": "run", **run}, (os.dup(writing), os.dup(writing)))
            client.send({"do": "stop", "run": number})
        await asyncio.wait_for(all_ended.wait(), DEADLINE_SECONDS)
        assert set(ended.values()) == {("asked", -signal.SIGTERM)}
    finally:
        os.close(reading)
        os.close(writing)
        client.close()


def test_a_frozen_nodes_descendants_die_at_the_leases_end_and_it_learns_that(
    tmp_path: Path,
) -> None:
    with node(tmp_path, ttl=0.6) as process, opened(tmp_path / "lock") as lock:
        pids = family(tmp_path)
        process.send_signal(signal.SIGSTOP)
        wait_for("all are dead", lambda: not any(alive(pid) for pid in pids))
        assert not (tmp_path / "outcome").exists()
        assert not lock_is_free(lock), "the frozen node still holds its lock"
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 0
        assert (tmp_path / "outcome").read_text() == "lease_lost\n"
        wait_for("the lock is free", lambda: lock_is_free(lock))


def test_a_node_that_is_only_slow_keeps_its_children(tmp_path: Path) -> None:
    with node(tmp_path, ttl=30) as process:
        pids = family(tmp_path)
        process.send_signal(signal.SIGSTOP)
        wait_for("it is stopped", lambda: "T (stopped)" in _status(process.pid))
        process.send_signal(signal.SIGCONT)
        wait_for("it goes on", lambda: "T (stopped)" not in _status(process.pid))
        assert all(alive(pid) for pid in pids)
        assert not (tmp_path / "outcome").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_of_a_terminal_or_an_init_system_do_not_end_the_supervisor(
    tmp_path: Path, number: signal.Signals
) -> None:
    with node(tmp_path, ttl=60):
        pids = family(tmp_path)
        supervisor = _parent(pids[0])
        os.kill(supervisor, number)
        ignored = int(_status(supervisor).split("SigIgn:\t")[1].split()[0], 16)
        assert ignored & (1 << (number - 1))
        assert all(alive(pid) for pid in (supervisor, *pids))


def _parent(pid: int) -> int:
    return int(_status(pid).split("PPid:\t")[1].split()[0])


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
