"""The fixture ``pgcron``: executes runs of an App at once, by a node in this process, in a schema
for tests: created, removed, emptied between tests, and its runs made due earlier.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Unpack

from pgcron_ha.client.app import App
from pgcron_ha.client.checks import args_text, duration
from pgcron_ha.client.options import RunOptions
from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.client.run_status import RunStatus, read_status
from pgcron_ha.client.workflow_starts import AdHoc, request_start
from pgcron_ha.config.loading import load_settings, read_sources
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.values import Span, did_you_mean
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.connecting import connected
from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.driver.statements import load
from pgcron_ha.db.queries import workflows
from pgcron_ha.db.queries.pages.run import why_run_waits
from pgcron_ha.db.queries.pages.schedules import offered
from pgcron_ha.db.queries.rows import Row, Rows
from pgcron_ha.db.schema.uninstall import uninstall
from pgcron_ha.engine.node import Node
from pgcron_ha.errors import ConfigError, PgcronError, WaitTimedOut
from pgcron_ha.testing.workflows import Outcome, WorkflowStatus, statuses, with_outcomes

_MARK: Final = "pgcron_ha: made for tests"


async def make_schema(dsn: str, schema: str) -> None:
    """A new schema marked as one of tests, in place of one that has the mark.

    Raises ConfigError for one without the mark: it may be in use.
    """
    from pgcron_ha.db.schema.migrate import migrate  # slow to import, and rarely needed

    statements = load(schema)
    async with connected(dsn) as connection:
        found = await connection.fetchrow(statements["testing_schema_comment"].sql, schema)
        if found is not None and found["is_there"] and found["comment"] != _MARK:
            raise ConfigError(
                f"the schema '{schema}' is in the database for tests already",
                "Tests empty it before each of them, so it must be one that they have made.",
                "Name a database without it (the fixture pgcron_dsn), or another schema "
                "(pgcron_schema); `pgcron-ha migrate --uninstall --yes` removes it.",
            )
        await remove_schema(dsn, schema)
        await migrate(dsn, schema)
        await connection.execute(statements["testing_mark_schema"].sql)


async def remove_schema(dsn: str, schema: str) -> None:
    """Removes what `make_schema` has made, if it is there."""
    await uninstall(dsn, schema, by_force=True)


class SchemaUnderTest:
    """What a test does to its schema, over one connection; errors are of `pgcron_ha.errors`."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self._schema = schema
        self.busy: list[str] = []
        """The handlers that executed or could begin when `is_quiet` looked last."""
        self.lives = False
        """Whether the run that it was asked for had not ended then."""

    async def is_quiet(self, run_id: int | None) -> bool:
        """Whether nothing executes or could begin, or this run has ended."""
        (row,) = await self.fetch("testing_unfinished", run_id=run_id)
        self.busy, self.lives = row["busy"] or [], row["lives"]
        return not self.busy or (run_id is not None and not self.lives)

    async def come_nearer(self, most: timedelta) -> timedelta | None:
        """Makes all waiting runs due earlier, so that the next is due now: by how much; None if
        there is none, or it would be more than `most`.
        """
        (row,) = await self.fetch("testing_next_due")
        if row["seconds"] is None or row["seconds"] > most.total_seconds():
            return None
        seconds = max(0.0, row["seconds"])
        await self.fetch("testing_come_nearer", seconds=seconds)
        return timedelta(seconds=seconds)

    async def refuse_stuck(self, run_id: int | None) -> None:
        """Raises WaitTimedOut for this run, of None for a due one that no node offers, with the
        cause. While a node lives, as it is about what that offers.
        """
        for row in await self.fetch("testing_stuck", run_id=run_id):
            why = await why_run_waits(self.connection, row["id"], schema=self._schema)
            why = why or f"it is due at {row['due_at']}"
            known = (await offered(self.connection, schema=self._schema))["handlers"]
            near = "" if row["handler"] in known else did_you_mean(row["handler"], known)
            raise WaitTimedOut(
                f"run {row['id']} of {row['handler']} did not end: {why}{near}",
                "Nothing that could execute it is left to do. The node of a test offers the "
                "handlers of the App and those of pgcron-ha.toml.",
                "Correct the run, or let the App or pgcron-ha.toml have what it waits for. A "
                "workflow's step may have a chosen outcome.",
            )

    async def fetch(self, name: str, /, **values: Any) -> list[Row]:
        """The rows of a statement."""
        return await Rows(name)(self.connection, schema=self._schema, **values)


TIMEOUT_SECONDS: Final = 30.0
_FOR_EVER: Final = timedelta(days=366)
_LOOK_SECONDS: Final = 0.01
_MOST_NAMED: Final = 5


class Pgcron:
    """Runs the handlers and schedules of an App in tests, with nothing to wait for.

    The database is emptied before each test, and the schedules of the code are put into it, paused:
    the clock starts nothing. Every method that executes brings up a node in this process, with the
    executors, checks, retries, keys and records that a real one has, and takes it down again. Its
    handlers run in threads of their own, so patches of your modules reach them.
    """

    def __init__(self, app: App, dsn: str, schema: str, folder: Path, place: str = "") -> None:
        """`place` is where processes of their own find the App: ``module:attribute``."""
        self.app = app
        self.dsn = dsn
        """Of the database, for what your test asks or does there itself."""
        self.schema = schema
        self._folder = folder
        self._places = [place] if place else []
        self._reported: set[int] = set()

    async def run(
        self,
        handler: str | Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunStatus:
        """Enqueues a run, executes until it has ended, retries and all; how it ended.

        A retry is not waited for: it is made due at once. Raises as `App.enqueue`, WaitTimedOut.
        """
        async with self._schema_of_test() as schema:
            run_id = await self.app.enqueue(handler, args, conn=schema.connection, **options)
            return await self._run(schema, run_id)

    async def fire(
        self, schedule: str, at: datetime | None = None, args: Mapping[str, Any] | str | None = None
    ) -> RunStatus:
        """Lets a schedule fire once, as if it were `at` (aware; now), and executes as `run` does.

        The handler's `Context.fire_time` is `at`; its own clock is not moved. `args` (a mapping
        or JSON text) of None are the schedule's. Raises NotFound, InvalidInput, WaitTimedOut.
        """
        given = None if args is None else args_text(args)
        async with self._schema_of_test() as schema:
            run_id = await functions.run_now(
                schema.connection, schedule, given, fire_time=at, schema=self.schema
            )
            return await self._run(schema, run_id)

    async def run_workflow(
        self,
        workflow: str | Callable[..., Any] | AdHoc,
        args: Mapping[str, Any] | None = None,
        outcomes: Mapping[str, Outcome] | None = None,
    ) -> WorkflowStatus:
        """Starts what `App.start` takes, executes until it has ended; how it and its steps ended.

        Steps named in `outcomes` are not executed, and wait for nobody: each returns the value that
        stands there, raises the exception, or is the function, which gets its args as a handler
        does. They have the place, conditions and retries that the definition says. Raises NotFound,
        InvalidInput; WaitTimedOut when a step waits for what nobody does.
        """
        request = request_start(self.app._registry, workflow, args, {})
        async with self._schema_of_test() as schema:
            if request.definition is None:
                name = request.request.handler.removeprefix("workflow:")
                found = await workflows.workflow(schema.connection, name, schema=self.schema)
                definition = found["definition"]
            else:
                definition = json.loads(request.definition)
            text, chosen = with_outcomes(definition, outcomes or {})
            run_id = await replace(request, definition=text).send(schema.connection, self.schema)
            status = await self._run(schema, run_id, chosen)
            rows = await workflows.step_results(schema.connection, run_id, schema=self.schema)
            return WorkflowStatus(status, statuses(rows))

    async def drain(
        self, *, ahead: Span | None = None, timeout: float = TIMEOUT_SECONDS
    ) -> list[RunStatus]:
        """Executes until nothing is due; the ended runs that no earlier call has returned.

        With `ahead` (``"1h"``) also what would become due within that time, retries too, in its
        order, by making it due earlier. Raises WaitTimedOut when it takes longer than `timeout`
        seconds, and for a due run that neither the App nor ``pgcron-ha.toml`` has a handler for.
        """
        most = timedelta() if ahead is None else duration("ahead", ahead)
        async with self._schema_of_test() as schema:
            await self._execute(schema, None, most, timeout)
            rows = await schema.fetch("testing_ended", known=list(self._reported))
            ended = [row["id"] for row in rows]
            self._reported.update(ended)
            return [await read_status(schema.connection, each, self.schema) for each in ended]

    async def fires(self, schedule: str, after: datetime, count: int = 5) -> list[datetime]:
        """The next fire times (UTC) of a schedule after an instant (aware). Raises NotFound."""
        async with self._schema_of_test() as schema:
            (row,) = await schema.fetch("testing_schedule", name=schedule)
        return [fire.fire_at for fire in schedule_preview(row, after, count).fires]

    async def prepare(self) -> None:
        """What happens before each test: an empty schema, and the code's schedules, paused."""
        async with self._schema_of_test() as schema:
            await schema.fetch("testing_empty_schema")
            await self.app.put_workflows(schema.connection, schema=self.schema)
            await self.app.put_schedules(schema.connection, schema=self.schema)
            await schema.fetch("testing_rest_schedules")

    async def _run(self, schema: SchemaUnderTest, run_id: int, *apps: App) -> RunStatus:
        await self._execute(schema, run_id, _FOR_EVER, TIMEOUT_SECONDS, *apps)
        self._reported.add(run_id)
        return await read_status(schema.connection, run_id, self.schema)

    async def _execute(
        self,
        schema: SchemaUnderTest,
        run_id: int | None,
        most: timedelta,
        timeout: float,
        *apps: App,
    ) -> None:
        """Until nothing is due, or that run has ended; at most `most` of time is skipped."""
        end = time.monotonic() + timeout
        async with self._node(*apps) as is_working:
            while time.monotonic() < end:
                if not await schema.is_quiet(run_id):
                    is_working()
                    await asyncio.sleep(_LOOK_SECONDS)
                elif run_id is not None and not schema.lives:
                    return
                elif (passed := await schema.come_nearer(most)) is not None:
                    most -= passed
                # What came due between the two looks may have begun.
                elif await schema.is_quiet(run_id) and (run_id is None or schema.lives):
                    return await schema.refuse_stuck(run_id)
            raise WaitTimedOut(
                f"there was still something to execute after {timeout:g} s: "
                + (", ".join(schema.busy[:_MOST_NAMED]) or "runs that are due later"),
                "A handler takes longer, or runs ask for more runs without an end.",
                "Give drain a longer timeout, or look at what the handlers do.",
            )

    @asynccontextmanager
    async def _node(self, *apps: App) -> AsyncIterator[Callable[[], None]]:
        """While a node works; the function given raises the node's error if it has stopped."""
        node = Node(self._settings(), [self.app, *apps], "test")
        running = asyncio.create_task(node.run())

        def is_working() -> None:
            if running.done():
                running.result()
                raise PgcronError("the node of the test stopped by itself")

        try:
            yield is_working
        finally:
            node.stop()
            await running

    def _settings(self) -> Settings:
        """Those of the project (``pgcron-ha.toml`` with its templates), but for the database, and
        for where its audit is sent.
        """
        flags = {
            "dsn": self.dsn,
            "schema": self.schema,
            "node.name": "test",
            "node.apps": self._places,
            "node.state_directory": str(self._folder),
            "node.poll_interval": "100ms",
        }
        found = load_settings(read_sources(flags=flags))
        return replace(found, listen_dsn=None, audit=replace(found.audit, webhook=None))

    @asynccontextmanager
    async def _schema_of_test(self) -> AsyncIterator[SchemaUnderTest]:
        async with connected(self.dsn) as connection:
            yield SchemaUnderTest(connection, self.schema)
