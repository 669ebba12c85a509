"""What a chaos run plays on: a server that may be killed, and nodes behind proxies of their own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pwd
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import asyncpg

from pgcron_ha.operating_system import boottime
from tests.chaos import failpoints, mutants, record
from tests.chaos.failpoints import Failpoints
from tests.chaos.proxy import Proxy
from tests.e2e.nodes import NodeProcess, descendants_of, send
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.sessions import USUAL

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

DATABASE = "chaos"
MAX_CONNECTIONS = 80
SLOTS = 12
HANDLERS = "tests.chaos.handlers:app"
QUEUES = ("default", "narrow", "paced")
HORIZON_SECONDS = 4
"""How far ahead fires become runs: short, so that an outage can outlast it."""

# A killed server loses no more than a crashed one as long as the machine lives, so fsync may be
# off; commits are waited for all the same.
_SERVER_SETTINGS = {
    "fsync": "off",
    "max_connections": str(MAX_CONNECTIONS),
    "superuser_reserved_connections": "5",
    "log_line_prefix": "%m [%p] ",
    "log_min_error_statement": "error",
    "log_min_messages": "warning",
    "deadlock_timeout": "200ms",
    "max_prepared_transactions": "4",
    "max_notify_queue_pages": "64",
}
_PROGRAM = Path(__file__).with_name("shell_program.py")


def zone_of(node: str) -> str:
    """Nodes are n1, n2 …: every other one announces the same label."""
    return "a" if int(node[1:]) % 2 else "b"


_FAKETIME = "faketime/libfaketime.so.1"


def clock_of_its_own(file: Path) -> dict[str, str]:
    """The environment of a server whose clock is set by `file`. Raises FileNotFoundError without
    libfaketime (Debian: apt-get install libfaketime).
    """
    libraries = sorted(Path("/usr/lib").glob(f"*/{_FAKETIME}"))
    if not libraries:
        raise FileNotFoundError("libfaketime is not installed (Debian: apt-get install it)")
    return {
        "LD_PRELOAD": str(libraries[0]),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


@dataclass(frozen=True)
class Settings:
    """Of one chaos run. Times in seconds."""

    seed: int = 1
    seconds: float = 60.0
    nodes: int = 4
    ttl: float = 2.0
    points: Failpoints = field(default_factory=Failpoints)
    mutant: str | None = None
    only: tuple[str, ...] = ()
    quiet: float = 3.0
    """Leases that it is quiet before the faults, while all recovers, and after that."""


class Stage:
    """The server, the proxies and the nodes; everything is gone after it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.clock = folder / "clock" if "N25" in settings.only else None
        """The offset of the server's clock from the machine's; None: it has the machine's."""
        environment = {}
        if self.clock is not None:
            self.set_clock(0.0)
            environment = clock_of_its_own(self.clock)
        self.server = ThrowAwayServer(
            durable=True, settings=_SERVER_SETTINGS, environment=environment
        )
        self.server_log = folder / "server.log"
        self.proxies: dict[str, Proxy] = {}
        self.nodes: dict[str, NodeProcess] = {}
        self.past: list[NodeProcess] = []
        self.may_end_by_itself: set[str] = set()
        self.handling = asyncio.Lock()
        """Who stops or starts the server holds it: two at once would wait for each other."""
        self._started = 0
        self._chance = random.Random(settings.seed)
        record.begin(folder / "evidence.jsonl")
        self._switch = folder / "failpoints-are-on"
        self._configuration = folder / "pgcron-ha.toml"
        self._configuration.write_text(
            _CONFIGURATION.format(
                python=sys.executable, program=_PROGRAM, user=pwd.getpwuid(os.geteuid()).pw_name
            )
        )

    async def __aenter__(self) -> Stage:
        self._stack = contextlib.AsyncExitStack()
        try:
            self._stack.callback(self.server.close)
            await asyncio.to_thread(self.server.start)
            self.dsn = await asyncio.to_thread(self.server.create_database, DATABASE)
            await migrate(self.dsn)
            await self._prepare_database()
            path = self.server.folder / f".s.PGSQL.{self.server.port}"
            for number in range(self.settings.nodes):
                name = f"n{number + 1}"
                self.proxies[name] = await self._stack.enter_async_context(Proxy(path))
            self._stack.push_async_callback(self._close_nodes)
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _prepare_database(self) -> None:
        async with self.connected() as connection:
            await connection.execute(
                "CREATE TABLE public.effect (key text, run bigint, fence bigint,"
                " at timestamptz DEFAULT clock_timestamp())"
            )
            if self.settings.mutant is not None:
                await mutants.BY_NAME[self.settings.mutant].change_database(connection)

    @contextlib.asynccontextmanager
    async def connected(self, name: str = "chaos-harness") -> AsyncIterator[Connection]:
        """A direct connection to the server, ended without waiting for anything."""
        connection = await asyncpg.connect(
            self.dsn, timeout=3, command_timeout=10, server_settings={"application_name": name}
        )
        try:
            await connection.execute(USUAL)
            yield connection
        finally:
            connection.terminate()

    def allow_failpoints(self, are_on: bool) -> None:
        """In quiet phases nodes are left alone."""
        if are_on:
            self._switch.touch()
        else:
            self._switch.unlink(missing_ok=True)

    # Nodes.

    def spawn(self, name: str) -> NodeProcess:
        """Start a node's process; an earlier one of that name has ended or is ended by others."""
        self._started += 1
        skew = self._chance.choice([0.0, 0.0, -300.0, 300.0, 7 * 86400.0])
        points = self.settings.points.as_facts() | {
            "seed": self.settings.seed * 1000 + self._started,
            "ttl": self.settings.ttl,
            "skew_seconds": skew if self.settings.points.lost else 0.0,
        }
        port = self.proxies[name].port
        environment = os.environ | {
            "PGCRON_HA_DSN": f"postgresql://postgres:any@127.0.0.1:{port}/{DATABASE}"
            "?sslmode=disable",
            "PGCRON_HA_LOG_FORMAT": "json",
            "PGCRON_HA_NODE_LEASE_TTL": f"{self.settings.ttl:g}s",
            "PGCRON_HA_NODE_SLOTS": str(SLOTS),
            "PGCRON_HA_NODE_POLL_INTERVAL": "500ms",
            "PGCRON_HA_NODE_HORIZON": f"{HORIZON_SECONDS}s",
            "PGCRON_HA_NODE_GRACE": "3s",
            "CHAOS_NODE": name,
            failpoints.VARIABLE: json.dumps(points),
            failpoints.SWITCH: str(self._switch),
            mutants.VARIABLE: self.settings.mutant or "",
        }
        command = [sys.executable, "-m", "tests.chaos.node_program"]
        command += ["--config", str(self._configuration), "node", "--name", name]
        command += ["--state-directory", str(self.folder / "nodes"), "--app", HANDLERS]
        for queue in QUEUES:
            command += ["--queue", queue]
        command += ["--label", f"zone={zone_of(name)}"]
        log = self.folder / f"{name}.{self._started}.log"
        node = NodeProcess(name, command, environment, log)
        self.nodes[name] = node
        self.past.append(node)
        record.write("spawn", node=name, of=node.pid)
        return node

    async def kill(self, name: str) -> None:
        """SIGKILL; the node's death is written down."""
        node = self.nodes[name]
        if not node.has_ended():
            await asyncio.to_thread(node.kill9)
        record.write("death", node=name, of=node.pid, code=node.process.returncode)

    def lives(self, name: str) -> bool:
        """Whether there is a process of that name that has not ended."""
        return name in self.nodes and not self.nodes[name].has_ended()

    async def revive_ended(self) -> None:
        """Start again what ended by itself (a poison run, the last resort of a lost lease)."""
        for name, node in list(self.nodes.items()):
            if node.has_ended() and node.killed_at is None:
                node.killed_at = boottime()
                record.write("death", node=name, of=node.pid, code=node.process.returncode)
                self.spawn(name)

    async def stop_nodes(self) -> None:
        """SIGTERM to all, as a service manager does; waits for their end. One that does not come
        is written down, and the node killed later.
        """
        for node in self.nodes.values():
            if not node.has_ended():
                node.stop()
        for name, node in self.nodes.items():
            try:
                code: int | None = await asyncio.to_thread(node.exit_code, 60)
            except subprocess.TimeoutExpired:
                code = None
            record.write("left", node=name, of=node.pid, code=code)

    async def _close_nodes(self) -> None:
        for node in self.past:
            await asyncio.to_thread(node.close)

    # The server.

    def postmaster_family(self) -> list[int]:
        """The postmaster and all of its children."""
        return [self.server.pid, *descendants_of(self.server.pid)]

    async def stop_server(self, how: str) -> None:
        """``fast``, ``immediate`` or ``kill9``; what the server has logged is kept."""
        record.write("server", state="stopping", how=how)
        if how == "kill9":
            await asyncio.to_thread(self.server.kill9)
        else:
            await asyncio.to_thread(self.server.stop, how)  # type: ignore[arg-type]
        self.keep_server_log()

    async def start_server(self) -> None:
        """Returns when it takes connections."""
        await asyncio.to_thread(self.server.start)
        record.write("server", state="up")

    def keep_server_log(self) -> None:
        """A start empties the server's own file."""
        with self.server_log.open("ab") as kept:
            kept.write(self.server.log.read_bytes())

    def set_clock(self, seconds: float) -> None:
        """The server's clock is so far ahead of the machine's within a second."""
        assert self.clock is not None
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+f}\n")
        fresh.chmod(0o644)
        fresh.rename(self.clock)

    # Healing.

    async def heal(self) -> None:
        """Whatever nemeses have left: everything runs, passes, and is allowed."""
        for pid in self.postmaster_family():
            send(pid, signal.SIGCONT)
        for proxy in self.proxies.values():
            proxy.heal()
        for name, node in self.nodes.items():
            for pid in (node.pid, *descendants_of(node.pid)):
                send(pid, signal.SIGCONT)
            if node.has_ended():
                self.spawn(name)


_CONFIGURATION = """
[shell.program]
argv = ["{python}", "-I", "-S", "{program}", "{{seconds}}", "{{concurrency_key}}"]
placeholders = {{ seconds = "[0-9.]+", concurrency_key = "[a-z0-9]+" }}
environment = ["CHAOS_EVIDENCE", "CHAOS_NODE"]
user = "{user}"
grace = "1s"
"""
