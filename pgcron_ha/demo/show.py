"""The demo from its first to its last line: server, schema, nodes, live table, summary."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from pgcron_ha.db import demo, doors
from pgcron_ha.db.clients import Connection, connect_client
from pgcron_ha.db.dsn import password_of, without_password
from pgcron_ha.demo.accounting import Account, read_accounts
from pgcron_ha.demo.database import WorkDatabase, process_environment
from pgcron_ha.demo.examples import EXAMPLES, put_examples
from pgcron_ha.demo.facts import read_facts
from pgcron_ha.demo.folder import GRACE_SECONDS, LEASE_TTL, DemoFolder
from pgcron_ha.demo.migration import Migration
from pgcron_ha.demo.node_process import NodeProcess
from pgcron_ha.demo.places import (
    DATABASE_VARIABLE,
    FOLDER_VARIABLE,
    ONLY_SCHEMA_VARIABLE,
    PASSWORD_VARIABLE,
    PORT_VARIABLE,
)
from pgcron_ha.demo.screen import Screen
from pgcron_ha.demo.summary import summary_lines, unaccounted_error
from pgcron_ha.demo.table import table_lines
from pgcron_ha.errors import DatabaseUnavailable, NotFound, PgcronError

GIVEN_SCHEMA: Final = "pgcron_demo"
"""The demo's schema in a database that is not its own: what is there stays untouched."""

_SCHEMA: Final = "pgcron"
_DATABASE: Final = "demo"
_TICK: Final = "tick"

_FIRST_JOB_SECONDS: Final = 60.0
_FIRST_JOB_PAUSE: Final = 0.05
# What is under way when the time is over may end, so that the summary has outcomes.
_SETTLE_SECONDS: Final = 5.0
_SETTLE_PAUSE: Final = 0.1
# After its grace a node gives back what runs, which takes it a moment.
_STOP_SECONDS: Final = GRACE_SECONDS + 15.0


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says. `dsn` None: an embedded server; `seconds` None: until Ctrl-C."""

    folder: Path
    dsn: str | None = None
    seconds: float | None = None
    nodes: int = 2
    keep: bool = False
    port: int = 0
    """Where the pages are shown, on 127.0.0.1."""


async def show_demo(options: DemoOptions, screen: Screen) -> None:
    """The whole demo; returns after its own end or the first SIGINT or SIGTERM.

    Raises Conflict when due occurrences are not accounted for at its own end or when another demo
    has the folder, and the errors of a start that fails. No process of it is left in any case.
    """
    folder = DemoFolder(options.folder)
    folder.lock()
    try:
        await _Demo(options, folder, screen).run()
    finally:
        screen.stop_drawing()
        folder.unlock()


class _Demo:
    def __init__(self, options: DemoOptions, folder: DemoFolder, screen: Screen) -> None:
        self._options = options
        self._folder = folder
        self._screen = screen
        self._database = WorkDatabase(options.dsn, folder.server, _DATABASE)
        self._schema = _SCHEMA if self._database.is_embedded else GIVEN_SCHEMA
        self._stop = asyncio.Event()
        self._nodes: list[NodeProcess] = []
        self._pages: NodeProcess | None = None
        self._endings: dict[int, str] = {}
        self._connection: Connection | None = None
        self._since: datetime
        self._began = time.monotonic()
        self._trouble = ""

    async def run(self) -> None:
        with self._signals():
            try:
                await self._start()
                await self._watch()
                await self._finish()
            except PgcronError:
                # A Ctrl-C breaks what was under way; that is no error.
                if not self._stop.is_set():
                    raise
            finally:
                await self._stop_nodes()
                if self._connection is not None:
                    self._connection.terminate()
                await self._database.down()
        if self._stop.is_set():
            self._screen.say("stopped: no process of the demo is left")

    # Starting.

    async def _start(self) -> None:
        self._folder.prepare(keep=self._options.keep)
        where = f"an embedded PostgreSQL, in {self._folder.server}"
        if not self._database.is_embedded:
            where = f"the schema {self._schema} of {self._database.shown_dsn()}"
        self._screen.say(f"starting {self._options.nodes} nodes on {where}")
        with Migration() as migration:
            await self._database.up(fresh=not self._options.keep)
            if self._stop.is_set():
                return
            await migration.run(self._database.dsn, self._schema)
        self._folder.configure(self._database.dsn, self._schema)
        async with self._connected() as connection:
            await put_examples(connection, self._schema)
            self._since = await demo.clock(connection)
        if self._stop.is_set():
            return
        for number in range(1, self._options.nodes + 1):
            self._nodes.append(self._start_node(f"node-{number}"))
        self._pages = self._start_process(
            "web", "web", "--listen", f"127.0.0.1:{self._options.port}"
        )
        self._screen.say(*self._introduction(), "")
        await self._first_job()

    def _start_node(self, name: str) -> NodeProcess:
        return self._start_process(name, "node", "--name", name)

    def _start_process(self, name: str, *arguments: str) -> NodeProcess:
        dsn = self._database.dsn
        own = {
            "PGCRON_HA_DSN": dsn,
            "PGCRON_HA_SCHEMA": self._schema,
            FOLDER_VARIABLE: str(self._folder.path),
            DATABASE_VARIABLE: without_password(dsn),
            PORT_VARIABLE: str(self._options.port),
        }
        if password := password_of(dsn):
            own[PASSWORD_VARIABLE] = password
        if not self._database.is_embedded:
            own[ONLY_SCHEMA_VARIABLE] = self._schema
        log = self._folder.logs / f"{name}.log"
        return NodeProcess(
            name, self._folder.configuration, log, process_environment(own), arguments
        )

    async def _first_job(self) -> None:
        end = time.monotonic() + _FIRST_JOB_SECONDS
        while not self._stop.is_set():
            async with self._connected() as connection:
                if await demo.has_executed(connection, self._since, schema=self._schema):
                    break
            self._require_a_node()
            if time.monotonic() > end:
                raise DatabaseUnavailable(
                    f"no job was executed within {_FIRST_JOB_SECONDS:g} s",
                    self._nodes[0].last_words(),
                    f"The nodes' logs are in '{self._folder.logs}'.",
                )
            await self._pause(_FIRST_JOB_PAUSE)
        self._first = f"first job executed after {time.monotonic() - self._began:.1f} s"
        if not self._screen.is_terminal and not self._stop.is_set():
            self._screen.say(self._first, "")

    def _require_a_node(self) -> None:
        if not any(node.is_alive for node in self._nodes):
            raise DatabaseUnavailable(
                f"{self._nodes[0].name} {self._nodes[0].ending}",
                self._nodes[0].last_words(),
                f"The nodes' logs are in '{self._folder.logs}'.",
            )

    # Watching.

    async def _watch(self) -> None:
        begin = time.monotonic()
        seconds = self._options.seconds
        while not self._stop.is_set():
            left = None if seconds is None else seconds - (time.monotonic() - begin)
            if left is not None and left <= 0:
                return
            self._note_endings()
            try:
                async with self._connected() as connection:
                    facts = await read_facts(connection, self._schema, self._since)
            except PgcronError as error:
                await self._restore(error)
            else:
                self._trouble = ""
                lines = [self._title(left), "", *table_lines(facts, self._endings), *self._notes()]
                self._screen.draw(lines, self._introduction())
            pause = self._screen.seconds
            await self._pause(pause if left is None else min(pause, left))

    def _note_endings(self) -> None:
        for node in self._nodes:
            if node.pid not in self._endings and (ending := node.ending):
                self._endings[node.pid] = ending
                if not self._screen.is_terminal:
                    self._screen.say(self._ending_note(node, ending), "")

    def _notes(self) -> list[str]:
        if not self._screen.is_terminal:
            return []
        ended = [node for node in self._nodes if node.pid in self._endings]
        return [self._ending_note(node, self._endings[node.pid]) for node in ended]

    def _ending_note(self, node: NodeProcess, ending: str) -> str:
        if any(other.is_alive for other in self._nodes):
            rest = (
                f"what it ran starts elsewhere once its lease of {LEASE_TTL} is over; "
                "it is not replaced"
            )
        else:
            rest = "no node is left: what becomes due now waits"
        return f"note      {node.name} (process {node.pid}) {ending}: {rest}"

    async def _restore(self, error: PgcronError) -> None:
        """The database is away: say it once, and have our own server again."""
        if self._trouble != error.message:
            self._trouble = error.message
            self._screen.say(f"note      {error.message} ({error.detail}); the nodes wait for it")
        if not self._stop.is_set():
            with contextlib.suppress(PgcronError):
                await self._database.restore()

    # Ending.

    async def _finish(self) -> None:
        if not self._nodes:
            return
        self._screen.stop_drawing()
        self._note_endings()
        living = sum(node.is_alive for node in self._nodes)
        seconds = time.monotonic() - self._began
        async with self._connected() as connection:
            until = await demo.clock(connection)
            if living and not self._stop.is_set():
                await self._settle(connection, until)
        self._screen.say("stopping the nodes: they end what they run")
        await self._stop_nodes()
        async with self._connected() as connection:
            accounts = await read_accounts(connection, self._schema, self._since, until)
            delays = await demo.delays(connection, _TICK, self._since, schema=self._schema)
            if not self._database.is_embedded:
                await self._leave_given_database(connection)
        nodes = f"{living} of {len(self._nodes)} nodes alive at the end"
        self._screen.say("", *summary_lines(accounts, seconds, nodes, delays))
        self._screen.say(
            f"its files stay in {self._folder.path}; the next demo begins anew, or goes on: --keep"
        )
        self._judge(accounts)

    def _judge(self, accounts: list[Account]) -> None:
        if error := unaccounted_error(accounts, str(self._folder.logs)):
            if not self._stop.is_set():
                raise error
            self._screen.say(error.message, str(error.detail))

    async def _settle(self, connection: Connection, until: datetime) -> None:
        end = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < end and not self._stop.is_set():
            if not await demo.has_unsettled(connection, until, schema=self._schema):
                return
            await self._pause(_SETTLE_PAUSE)

    async def _leave_given_database(self, connection: Connection) -> None:
        """Nobody will run the demo's schedules any more."""
        from pgcron_ha.demo.app import app

        for name in (*app.schedules, *EXAMPLES):
            with contextlib.suppress(NotFound):
                await doors.delete_schedule(connection, name, door="cli", schema=self._schema)
        self._screen.say(
            f"the demo's schedules are deleted; DROP SCHEMA {self._schema} CASCADE removes the rest"
        )

    async def _stop_nodes(self) -> None:
        """The pages go last: what the nodes end asks them."""
        await self._stop_processes(self._nodes)
        await self._stop_processes([self._pages] if self._pages is not None else [])

    async def _stop_processes(self, started: list[NodeProcess]) -> None:
        for process in started:
            process.terminate()
        waits = (asyncio.to_thread(process.wait, _STOP_SECONDS) for process in started)
        await asyncio.gather(*waits)
        for process in started:
            process.kill()

    # What all of it uses.

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect_client(self._database.dsn)
        yield self._connection

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)
                if self._stop.is_set():
                    # All is stopped, and the process ends now: one more Ctrl-C changes nothing.
                    signal.signal(number, signal.SIG_IGN)

    def _on_signal(self) -> None:
        """The first one begins the end; a second one does not wait for the nodes."""
        if self._stop.is_set():
            for node in self._nodes:
                node.kill()
        self._stop.set()

    def _title(self, left: float | None) -> str:
        elapsed = f"{time.monotonic() - self._began:.0f} s"
        until = "until Ctrl-C" if left is None else f"{left:.0f} s to go"
        return f"pgcron_ha demo  {elapsed}, {until}; {self._first}"

    def _introduction(self) -> list[str]:
        alive = next((node.pid for node in self._nodes if node.is_alive), None)
        kill = f"kill -9 {alive}" if alive else "(no node is left)"
        insert = f"INSERT INTO {self._schema}.run (handler) VALUES ('py:hello')"
        return [
            f"pages     http://127.0.0.1:{self._options.port}/",
            f"kill one  {kill}",
            f"          (what it runs starts elsewhere when its lease of {LEASE_TTL} is over)",
            f'run one   {self._database.psql()} -c "{insert}"',
            f"look      {_program()} --config {self._folder.configuration} status",
            "          (instead of status: nodes, schedules list, runs list, dead list)",
            f"database  {self._database.shown_dsn()}",
            f"files     {self._folder.path}: logs, dumps, report.txt, trend.csv",
            "stop      Ctrl-C",
        ]


def _program() -> str:
    name = Path(sys.argv[0]).name
    return sys.argv[0] if name == "pgcron-ha" else f"{sys.executable} -m pgcron_ha"
