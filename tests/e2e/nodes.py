"""Nodes as processes: started as an operator does, killed as a bad day does."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pgcron_ha.operating_system import boottime
from tests.e2e.evidence import VARIABLE, Evidence
from tests.e2e.nursery import Nursery, NurseryProcess, is_gone
from tests.waiting import COMMAND_SECONDS, wait_for

__all__ = [
    "CHECKOUT",
    "Cluster",
    "NodeProcess",
    "children_of",
    "descendants_of",
    "is_gone",
    "parent_of",
    "send",
]

CHECKOUT = Path(__file__).parents[2]
HANDLERS = "tests.e2e.handlers:app"
MORE_HANDLERS = "tests.e2e.more_handlers:app"

_PROGRAM = Path(__file__).with_name("program.py")


class NodeProcess:
    """One ``pgcron-ha node``, or ``web``. Its log is read as events."""

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str],
        log: Path,
        nursery: Nursery | None = None,
        folder: Path = CHECKOUT,
    ) -> None:
        self.name = name
        self.log = log
        self.killed_at: float | None = None
        self.started_at = boottime()
        self.process: subprocess.Popen[bytes] | NurseryProcess
        if nursery is not None:
            self.process = nursery.start(command[3:], environment, log)
            return
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the node says of itself, by the name of the event."""
        written = self.output().rpartition("\n")[0]  # the node may be writing the last line
        lines = [line for line in written.splitlines() if line.startswith("{")]
        return [fact for fact in map(json.loads, lines) if fact.get("event") == name]

    def has_joined(self, times: int = 1) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(
                f"{self.name} ended with {self.process.returncode}: {self.output()}"
            )
        return len(self.events("NodeJoined")) >= times

    def kill9(self) -> float:
        """SIGKILL; returns the boottime instant after which no code of it has run."""
        self.process.kill()
        self.process.wait(COMMAND_SECONDS)
        self.killed_at = boottime()
        return self.killed_at

    def stop(self) -> None:
        """SIGTERM, as a service manager does."""
        self.process.terminate()

    def pause(self) -> float:
        """SIGSTOP; returns when it was sent."""
        at = boottime()
        os.kill(self.pid, signal.SIGSTOP)
        return at

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def exit_code(self, seconds: float = COMMAND_SECONDS) -> int:
        """Waits for the end."""
        return self.process.wait(seconds)

    def close(self) -> None:
        """Nothing of it is left afterwards, whatever the test did to it."""
        family = descendants_of(self.pid)
        if not self.has_ended():
            for pid in (self.pid, *family):
                send(pid, signal.SIGCONT)
            self.kill9()
        for pid in family:
            wait_for(f"process {pid} of {self.name} is gone", partial(is_gone, pid))


class Cluster:
    """The nodes of one test on one database, their configuration file and their evidence."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.folder = folder
        self.evidence = Evidence(folder / "evidence")
        self.nodes: list[NodeProcess] = []
        self.nursery: Nursery | None = None
        """Where nodes begin from now on; else each begins as an interpreter of its own."""
        self.package: Path | None = None
        """A folder with another pgcron_ha than the checkout's, for what begins from now on."""
        self.variables: dict[str, str] = {}
        """Of nodes and commands from now on, beside those of every process."""
        self.configuration = folder / "pgcron-ha.toml"
        self.configuration.write_text(
            _CONFIGURATION.format(
                python=sys.executable, program=_PROGRAM, user=pwd.getpwuid(os.geteuid()).pw_name
            )
        )

    def start(self, name: str, *, app: str | None = HANDLERS, **settings: Any) -> NodeProcess:
        """A node that has joined. ``settings``: of ``[node]``, such as ``slots=4``."""
        node = self.spawn(name, app=app, **settings)
        wait_for(f"{name} has joined", node.has_joined, deadline=COMMAND_SECONDS)
        return node

    def spawn(
        self,
        name: str,
        *,
        app: str | None = HANDLERS,
        dsn: str | None = None,
        options: Sequence[str] = (),
        **settings: object,
    ) -> NodeProcess:
        """A node whose process has just begun; `options` of its command line."""
        chosen: dict[str, object] = {"lease_ttl": "3s", "slots": 16, "poll_interval": "200ms"}
        variables = {
            f"PGCRON_HA_NODE_{key.upper()}": str(value)
            for key, value in (chosen | settings).items()
        }
        command = [sys.executable, "-m", "pgcron_ha", "--config", str(self.configuration), "node"]
        command += ["--name", name, "--state-directory", str(self.folder / "nodes")]
        command += ["--app", app] if app is not None else []
        return self._begin(name, [*command, *options], dsn, variables)

    def serve_web(self, *options: str) -> NodeProcess:
        """A ``pgcron-ha web`` whose process has just begun."""
        command = [sys.executable, "-m", "pgcron_ha", "--config", str(self.configuration), "web"]
        return self._begin("web", [*command, "--listen", "127.0.0.1:0", *options])

    def _begin(
        self,
        name: str,
        command: list[str],
        dsn: str | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> NodeProcess:
        environment = (
            os.environ
            | variables
            | {
                "PGCRON_HA_DSN": dsn or self.dsn,
                "PGCRON_HA_LOG_FORMAT": "json",
                VARIABLE: str(self.evidence.path),
            }
            | self.variables
        )
        log = self.folder / f"{name}.{len(self.nodes)}.log"
        node = NodeProcess(
            name, command, environment | self._path(), log, self.nursery, self._place()
        )
        self.nodes.append(node)
        return node

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``pgcron-ha`` with these arguments on the cluster's database, to its end."""
        return self.python("-m", "pgcron_ha", *arguments)

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The interpreter with these arguments, to its end."""
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=self._place(),
            env=os.environ | {"PGCRON_HA_DSN": self.dsn} | self.variables | self._path(),
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def _place(self) -> Path:
        """Where processes begin: in the checkout they would import what stands there."""
        return CHECKOUT if self.package is None else self.folder

    def _path(self) -> dict[str, str]:
        return {} if self.package is None else {"PYTHONPATH": f"{self.package}:{CHECKOUT}"}

    def deaths(self) -> dict[int, float]:
        """When the killed nodes were killed, by process id."""
        return {node.pid: node.killed_at for node in self.nodes if node.killed_at is not None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for node in self.nodes:
                print(f"--- {node.name} ({node.pid})\n{node.output()[-3000:]}")
        finally:
            for node in self.nodes:
                node.close()


def children_of(pid: int) -> list[int]:
    """Those that live; empty when the process is gone."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[1] == str(pid) and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def parent_of(pid: int) -> int:
    """Of a process that lives, such as the supervisor of a program."""
    stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def descendants_of(pid: int) -> list[int]:
    children = children_of(pid)
    return children + [each for child in children for each in descendants_of(child)]


def send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass  # it ended by itself


_CONFIGURATION = """
[shell.program]
argv = ["{python}", "-I", "-S", "{program}", "{{seconds}}", "{{manner}}"]
placeholders = {{ seconds = "[0-9.]+", manner = "[a-z]+" }}
environment = ["EVIDENCE"]
user = "{user}"
grace = "1s"

[shell.finish]
argv = ["{python}", "-I", "-S", "{program}", "{{seconds}}"]
placeholders = {{ seconds = "[0-9.]+" }}
environment = ["EVIDENCE"]
user = "{user}"
on_lease_loss = "finish"
"""
