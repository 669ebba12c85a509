"""What handlers start dies with their node, and learns nothing of it from ``/proc``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.executors.running import alive, readable_pid
from tests.product.executors import MARK, _environment, bury_descendants
from tests.waiting import wait_for

# A program in a session of its own, and one that its parent has left: an orphan.
_STARTS = """
import os, signal, subprocess, sys, time
from pgcron_ha.executors.process.supervisor_client import descendants_die_too
with descendants_die_too():
    for name in ("one", "two"):
        script = "(echo $$ >{0}.new; mv {0}.new {0}; exec sleep 60)".format(name)
        left = script if name == "one" else f"sh -c '{script}' &"
        subprocess.Popen(["sh", "-c", left], start_new_session=True)
    if sys.argv[1] == "ends":
        while not (os.path.exists("one") and os.path.exists("two")):
            time.sleep(0.01)
        os._exit(71) if sys.argv[2] == "hard" else sys.exit(0)
    time.sleep(60)
"""
_LOOKS = """
import ctypes, os, subprocess, sys
from pgcron_ha.operating_system import hide_from_others
if os.geteuid() == 0:  # who reads everything; a change of user hides a process, too
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[1] == "hides":
    hide_from_others()
look = "cat /proc/$PPID/environ; cat /proc/$PPID/cmdline"
print(subprocess.run(["sh", "-c", look], env={}, capture_output=True).stdout)
"""


def begin(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    path = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen([sys.executable, "-c", _STARTS, *arguments], cwd=folder, env=path)


def pids(folder: Path) -> list[int]:
    files = [folder / "one", folder / "two"]
    wait_for("both work", lambda: all(readable_pid(file) for file in files))
    return [int(file.read_text()) for file in files]


@pytest.mark.parametrize("end", ["killed", "hard"])
def test_what_a_node_has_started_dies_when_it_is_killed(tmp_path: Path, end: str) -> None:
    with begin(tmp_path, "ends" if end == "hard" else "stays", end) as process:
        both = pids(tmp_path)
        if end == "killed":
            process.kill()
        process.wait()
        wait_for("both are dead", lambda: not any(alive(pid) for pid in both))


def test_what_a_node_has_started_lives_on_when_it_ends_in_order(tmp_path: Path) -> None:
    with begin(tmp_path, "ends", "softly") as process:
        both = pids(tmp_path)
        assert process.wait() == 0
    try:
        assert all(alive(pid) for pid in both)
    finally:
        for pid in both:
            os.kill(pid, 9)


def test_a_successor_kills_what_is_left_before_it_joins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "the first one's")
    bury_descendants(tmp_path)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as left:
        # The kernel shows it a moment after the process is there.
        entry = f"{MARK}=the first one's".encode()
        environment = Path(f"/proc/{left.pid}/environ")
        wait_for("its environment is there", lambda: entry in environment.read_bytes())
        monkeypatch.setenv(MARK, "the second one's")
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as own:
            bury_descendants(tmp_path)
            assert left.wait(5) == -9
            assert own.poll() is None
            own.kill()


@pytest.mark.parametrize("hides", ["hides", "shows"])
def test_a_process_of_the_same_user_reads_no_environment_of_a_node(hides: str) -> None:
    path = {"PYTHONPATH": str(Path(__file__).parents[2]), "PGCRON_HA_DSN": "postgresql://u:hush@h"}
    command = [sys.executable, "-c", _LOOKS, hides]
    seen = subprocess.run(command, env=path, capture_output=True, check=True).stdout
    assert b"hide_from_others" in seen, "it looked"
    assert (b"hush" in seen) is (hides == "shows")


def test_an_isolated_handler_gets_no_setting_of_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGCRON_HA_DSN", "postgresql://u:hush@h")
    monkeypatch.setenv("SHOP", "kept")
    given = _environment()
    assert given["SHOP"] == "kept"
    assert [name for name in given if name.startswith("PGCRON_HA_")] == []
