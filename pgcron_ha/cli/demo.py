"""``pgcron-ha demo``: watch a few nodes work, and prove that they lost nothing."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import shlex
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import click

from pgcron_ha.cli.arguments import option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.nodes import slots_of, state_of
from pgcron_ha.cli.output import coloured, columns, plural, shown, table_lines
from pgcron_ha.cli.schedule_occurrences import proof_lines
from pgcron_ha.cli.status import read_tables, summary_lines
from pgcron_ha.cli.watching import TableScreen
from pgcron_ha.cli.web import free_port
from pgcron_ha.client.verifying import prove
from pgcron_ha.config.loading import load_settings
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.connecting import connect
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.driver.session_settings import COMMAND
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages.overview import recent
from pgcron_ha.db.queries.pages.schedules import schedules
from pgcron_ha.demo.app import put_examples
from pgcron_ha.demo.folder import LEASE_TTL, DemoFolder, DemoProcess, WorkDatabase, stop_all
from pgcron_ha.errors import Conflict, DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.coroutines import wait_at_most
from pgcron_ha.executors.process.supervisor_client import descendants_die_too
from pgcron_ha.model.formats import state_words

MOST_NODES: Final = 10
USUAL_PORT: Final = 8420
_SECONDS: Final = click.FloatRange(1, 7 * 86400.0)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_FIRST_RUN_SECONDS: Final = 60.0
_FIRST_RUN_PAUSE: Final = 0.05
# A terminal shows no more.
_MOST_SCHEDULES: Final = 15


def _seconds_to(moment: datetime, row: overview.Row) -> float:
    return max(0.0, float((moment - row["now"]).total_seconds()))


def _next(row: overview.Row) -> str | None:
    return row["next_fire"] and f"in {_seconds_to(row['next_fire'], row):.0f} s"


def _now(row: overview.Row) -> str | None:
    if not row["enabled"]:
        return f"paused: {row['paused_note']}"
    if row["running_runs"]:
        return "running"
    return f"retries: {row['retry_error']}" if row["retry_error"] else None


def _took(row: overview.Row) -> str | None:
    newest = row["durations"][0] if row["durations"] else None
    return None if newest is None else f"{newest * 1000:.0f} ms"


def _outcomes(row: overview.Row) -> list[str]:
    """Its newest runs, counted by outcome."""
    counted = Counter(row["outcomes"] or ()).most_common()
    return [f"{count} {outcome}" for outcome, count in counted]


# Of rows that have the database's time as "now".
_NODES: Final = columns(
    "NODE=name:16 STATE:14 PID=process_id LEASE SLOTS ENDED=ended_because",
    STATE=state_of,
    # It runs out when its node has been killed.
    LEASE=lambda row: f"{_seconds_to(row['lease_until'], row):.1f} s",
    SLOTS=slots_of,
)
_SCHEDULES: Final = columns(
    # The spec is last: a narrow terminal cuts it.
    "SCHEDULE=name:16 NEXT NOW:18 LAST_RUNS TOOK SPEC:24",
    NEXT=_next,
    NOW=_now,
    LAST_RUNS=_outcomes,
    TOOK=_took,
    SPEC=lambda row: row["spec"].replace("\n", " | "),
)


@click.command(name="demo")
@option("--for SECONDS", "End by itself after this time.", _SECONDS, into="seconds")
@option("--nodes", "How many nodes.", click.IntRange(1, MOST_NODES), default=2)
@option(
    "--data",
    "The demo's own folder. Default: ~/.local/state/pgcron_ha/demo, or below /var/lib for root.",
    click.Path(path_type=Path, file_okay=False),
    into="folder",
)
def demo_command(seconds: float | None, nodes: int, folder: Path | None) -> int:
    """Watch two nodes work on an embedded PostgreSQL, and kill one.

    Their schedules show every kind of handler: Python functions (one every second, one that fails
    now and then and is tried again, two that take too long), a program that backs up the demo's
    tables and verifies the dump, an SQL report, a request to the demo's own pages. At its end,
    also by Ctrl-C, the ledger is verified: exit code 1 if a due occurrence is missing or double.

    With PGCRON_HA_DSN or --dsn it works in that database, in the schema pgcron_demo, which it
    removes at its end.
    """
    sources = command_context().read()
    is_given = sources.values["dsn"].origin in ("environment", "flag")
    given = load_settings(sources).dsn if is_given else None
    return asyncio.run(_Demo(given, DemoFolder(folder), seconds, free_port(USUAL_PORT)).run(nodes))


class _Demo:
    def __init__(
        self, given: str | None, folder: DemoFolder, seconds: float | None, port: int
    ) -> None:
        schema = "pgcron" if given is None else "pgcron_demo"
        self._database = WorkDatabase(given, folder.server, schema)
        self._folder = folder
        self._seconds = seconds
        self._port = port
        self._screen = TableScreen()
        self._stop = asyncio.Event()
        self._nodes: list[DemoProcess] = []
        self._noted: set[int] = set()
        self._connection: Connection | None = None
        self._began = time.monotonic()
        self._trouble = ""

    async def run(self, nodes: int) -> int:
        """Until its time is over or a signal comes; the exit code. No process of it is left."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._stop.set)
        code = 0
        with self._folder.held():
            try:
                await self._prepare(nodes)
                if not self._stop.is_set():
                    with descendants_die_too():
                        code = await self._work(nodes)
            except PgcronError:
                # A Ctrl-C breaks the start that was under way; that is no error.
                if self._nodes or not self._stop.is_set():
                    raise
            finally:
                if self._connection is not None:
                    self._connection.terminate()
                await self._database.down()
        if self._stop.is_set():
            for number in _SIGNALS:  # it ends now: one more Ctrl-C changes nothing
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)
            self._screen.say("stopped: no process of the demo is left")
        return code

    async def _prepare(self, nodes: int) -> None:
        where = f"an embedded PostgreSQL, in {self._folder.server}"
        if not self._database.is_embedded:
            where = f"the schema {self._database.schema} of {self._database.shown_dsn()}"
        self._screen.say(f"starting {plural(nodes, 'node')} on {where}")
        await self._database.up(anew=True)
        self._folder.configure(self._database, self._port)
        await self._call(put_examples)

    async def _work(self, nodes: int) -> int:
        since = await self._call(overview.database_time)
        self._pages = DemoProcess(self._folder, "web", "web", "--listen", f"127.0.0.1:{self._port}")
        try:
            for number in range(1, nodes + 1):
                name = f"node-{number}"
                self._nodes.append(DemoProcess(self._folder, name, "node", "--name", name))
            await self._serve()
            self._screen.say(*self._introduction(), "")
            await self._first_run()
            await self._watch()
            self._screen.say("stopping the nodes: they end what they run")
        finally:
            living = sum(node.ending is None for node in self._nodes)
            await stop_all(self._nodes)
            await stop_all([self._pages])  # last: the nodes' last runs send requests to them
        return await self._verify(since, living)

    async def _serve(self) -> None:
        """Returns when the pages have printed their address, or have ended."""
        while not self._stop.is_set() and self._pages.ending is None and not self._address():
            await wait_at_most(self._stop, _FIRST_RUN_PAUSE)

    def _address(self) -> str:
        """Which lets a browser in to the pages, once: the last one that they have printed."""
        found = re.findall(r"^open +(\S+)", self._pages.log.read_text(), re.MULTILINE)
        return str(found[-1]) if found else ""

    def _introduction(self) -> list[str]:
        return [
            *self._next_steps(),
            f"          (what it runs starts elsewhere when its lease of {LEASE_TTL} is over)",
            f"look      {self._command()} status",
            "          (instead of status: nodes, schedules, runs, dead)",
            f"database  {self._command()} config --print-dsn",
            f"files     {self._folder.path}: logs, dumps",
            "stop      Ctrl-C",
        ]

    def _next_steps(self) -> list[str]:
        living = [node for node in self._nodes if node.ending is None]
        return [
            f"run one   {self._command()} enqueue py:hello --wait",
            f"pages     {self._address()}",
            f"kill one  {f'kill -9 {living[0].pid}' if living else 'no node is left'}",
        ]

    def _command(self) -> str:
        """How the program is called for this database; its usual one is found without a file."""
        is_usual = shutil.which("pgcron-ha") == sys.argv[0]
        program = "pgcron-ha" if is_usual else f"{sys.executable} -m pgcron_ha"
        is_found = self._database.is_embedded and self._folder.path == DemoFolder(None).path
        option = f" --config {shlex.quote(str(self._folder.configuration))}"
        return program if is_found else program + option

    async def _first_run(self) -> None:
        """Returns when a run has succeeded. DatabaseUnavailable if none does."""
        end = time.monotonic() + _FIRST_RUN_SECONDS
        while not self._stop.is_set():
            ended = await self._call(overview.outcomes)
            if any(each["outcome"] == "succeeded" for each in ended):
                self._screen.say(f"first job executed after {self._elapsed()}", "")
                return
            if time.monotonic() > end or all(node.ending for node in self._nodes):
                first = self._nodes[0]
                raise DatabaseUnavailable(
                    f"no run succeeded; {first.name} {first.ending or 'runs'}",
                    first.last_words(),
                    f"The nodes' logs are in '{self._folder.logs}'.",
                )
            await wait_at_most(self._stop, _FIRST_RUN_PAUSE)

    async def _watch(self) -> None:
        end = math.inf if self._seconds is None else time.monotonic() + self._seconds
        while not self._stop.is_set() and (left := end - time.monotonic()) > 0:
            self._note_endings()
            try:
                lines = await self._table()
            except PgcronError as error:
                await self._restore(error)
            else:
                self._trouble = ""
                until = "" if left == math.inf else f", {left:.0f} s to go"
                title = f"pgcron_ha demo  {self._elapsed()}{until}; stop: Ctrl-C"
                self._screen.draw([title, *self._next_steps(), "", *lines])
            await wait_at_most(self._stop, min(self._screen.seconds, left))

    async def _table(self) -> list[str]:
        """What `pgcron-ha nodes`, the pages' schedules and `pgcron-ha status` show."""
        now = {"now": await self._call(overview.database_time)}
        nodes = await self._call(overview.nodes, is_dead=None)
        found = await self._call(schedules, limit=_MOST_SCHEDULES)
        colour = coloured if self._screen.is_terminal else str
        return [
            *table_lines([row | now for row in nodes], _NODES, colour),
            "",
            *table_lines([row | now for row in found], _SCHEDULES, colour),
            "",
            *summary_lines(await self._call(read_tables)),
        ]

    def _note_endings(self) -> None:
        """Says of each node that has ended how, once."""
        living = [node for node in self._nodes if node.ending is None]
        rest = "no node is left: what becomes due now waits"
        if living:
            rest = f"what it ran starts elsewhere when its lease of {LEASE_TTL} is over"
        for node in self._nodes:
            if node.ending is not None and node.pid not in self._noted:
                self._noted.add(node.pid)
                self._screen.say(f"{node.name} (process {node.pid}) {node.ending}: {rest}", "")

    async def _restore(self, error: PgcronError) -> None:
        """The database is away: say so once, and start the embedded server again."""
        if self._trouble != error.message:
            self._trouble = error.message
            self._screen.say(f"{error.message} ({error.detail}); the nodes wait for it")
        with contextlib.suppress(PgcronError):
            await self._database.restore()

    async def _verify(self, since: datetime, living: int) -> int:
        """Prove from the specs and the ledger that nothing is missing and nothing double."""
        await self._database.restore()
        proof = await self._call(prove, since)
        ended = await self._call(overview.outcomes)
        words = ", ".join(f"{each['runs']} {state_words(each['outcome'])}" for each in ended)
        delay = (await self._call(recent)).get("start_delay_p99")
        self._screen.say(
            "",
            f"after {self._elapsed()}, {living} of {len(self._nodes)} nodes alive at the end:",
            "",
            f"ended      {words or 'no run'}",
            f"punctual   start delay p99 {shown(delay and f'{delay * 1000:.0f} ms')}",
            f"logs       {self._folder.logs}",
            "",
            *proof_lines(proof, since),
        )
        if not self._database.is_embedded:
            await self._clear()
        return 1 if proof.breaks else 0

    async def _clear(self) -> None:
        for _ in range(20):  # a node that was killed counts as alive until its lease is over
            with contextlib.suppress(Conflict):
                return await self._database.clear()
            await asyncio.sleep(0.5)
        await self._database.clear()

    async def _call(
        self, statement: Callable[..., Awaitable[Any]], *given: Any, **options: Any
    ) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(self._database.dsn, COMMAND)
        with answers():  # the pages' queries leave that to their pool
            schema = self._database.schema
            return await statement(self._connection, *given, schema=schema, **options)

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._began:.1f} s"
