"""Executes ``sql:`` profiles: statements of the node's configuration in databases it names.

One event loop in a thread of its own. A stop cancels the statement through another connection;
what does not end then, and everything when the node's lease is over, loses its session. A frozen
node can do neither: what must not go on beside the next attempt is a transactional profile, or says
`SELECT pgcron.assert_token(:pgcron_run_id, :pgcron_token)` in the product's database.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any, ClassVar, Final

from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.db.sql_session import SqlDatabase, SqlSession
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.base import Done, Feed
from pgcron_ha.executors.context import Context, Lease, LogSink, StopReason
from pgcron_ha.executors.operating_system import boottime
from pgcron_ha.executors.outcome import Failed, Outcome, stopped_early
from pgcron_ha.executors.sql_run import SqlRun
from pgcron_ha.executors.transaction import FlushLines

Warn = Callable[[str], None]

_LEASE_LOOK_SECONDS: Final = 0.2
_END_SECONDS: Final = 10.0


class SqlExecutor:
    """An `Executor` for SQL profiles. ``databases`` has one for each profile, by its name.

    ``flush`` writes the lines of a run before it is completed by its own transaction. ``warn``
    gets a sentence for a profile whose role may do what it should not.
    """

    kind: ClassVar[str] = "sql"

    def __init__(
        self,
        profiles: Mapping[str, SqlProfile],
        databases: Mapping[str, SqlDatabase],
        done: Done,
        feed: Feed,
        sink: LogSink,
        flush: FlushLines,
        warn: Warn | None = None,
    ) -> None:
        self._profiles = {f"sql:{name}": profile for name, profile in profiles.items()}
        self._databases = {f"sql:{name}": database for name, database in databases.items()}
        self._done = done
        self._feed = feed
        self._sink = sink
        self._flush = flush
        self._lease = Lease()
        self._live: set[Context] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False
        self._nothing_left: Future[None] = Future()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="pgcron-sql", daemon=True)
        self._thread.start()
        self._submit(self._watch_lease())
        if warn is not None:
            self._submit(self._look_at_roles(warn))

    def handlers(self) -> frozenset[str]:
        """The full names of the profiles."""
        return frozenset(self._profiles)

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand all over to the loop in one hop."""
        try:
            self._loop.call_soon_threadsafe(self._start_all, tuple(contexts))
        except RuntimeError:  # closed: nothing begins any more
            for context in contexts:
                self._done(context, stopped_early(context.stop_reason or StopReason.SHUTDOWN))

    def stop(self, context: Context, reason: StopReason) -> None:
        """Cancel the statement under way; when the profile's grace is over, end the session."""
        if context.stop_reason is None:
            context.stop_reason = reason
            self._call(self._stop, context)

    def kill(self, context: Context) -> bool:
        """End the session at once."""
        if context.stop_reason is None:
            context.stop_reason = StopReason.CANCELLED
        self._call(self._kill, context)
        return True

    def renew_lease(self, deadline: float) -> None:
        """At this instant all sessions are ended."""
        self._lease.deadline = deadline

    async def close(self, grace: float) -> None:
        """Stop all runs, end their sessions after ``grace`` seconds, leave no connection."""
        if self._closing:
            return
        self._closing = True
        for context in list(self._live):
            self.stop(context, StopReason.SHUTDOWN)
        self._call(self._note_nothing_left)
        nothing_left = asyncio.wrap_future(self._nothing_left)
        await asyncio.wait({nothing_left}, timeout=grace)
        if not nothing_left.done():
            for context in list(self._live):
                self.kill(context)
            await asyncio.wait({nothing_left}, timeout=_END_SECONDS)
        ending = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        await asyncio.wait({asyncio.wrap_future(ending)}, timeout=_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, _END_SECONDS)

    # Everything below happens on the loop.

    def _call(self, callback: Callable[..., object], *arguments: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            pass  # closed: nothing runs any more

    def _submit(self, work: Coroutine[Any, Any, None]) -> None:
        self._call(self._keep, work)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _start_all(self, contexts: Sequence[Context]) -> None:
        for context in contexts:
            self._start(context)

    def _start(self, context: Context) -> None:
        self._live.add(context)
        context._sink, context._lease = self._sink, self._lease
        profile = self._profiles.get(context.handler)
        if profile is None:
            message = f"this node does not offer the handler {context.handler!r}"
            self._finish(context, Failed("NotFound", message))
            return
        run = SqlRun(context, profile, self._databases[context.handler], self._flush)
        context._work = run
        run.task = self._keep(self._execute(run))

    async def _execute(self, run: SqlRun) -> None:
        context = run.context
        run.has_begun = True
        outcome: Outcome | None
        if context.stop_reason is None and self._closing:
            context.stop_reason = StopReason.SHUTDOWN
        if context.stop_reason is None and boottime() >= self._lease.deadline:
            context.stop_reason = StopReason.LEASE_LOST
        if context.stop_reason is not None:
            outcome = stopped_early(context.stop_reason or StopReason.SHUTDOWN)
        elif (outcome := run.refusal()) is None:
            context.started_monotonic = monotonic()
            limit = run.profile.timeout
            timer = limit and self._loop.call_later(limit, self.stop, context, StopReason.TIMED_OUT)
            outcome = await run.execute()
            if timer:
                timer.cancel()
            if run.ending is not None:
                await run.ending
        self._finish(context, outcome)

    def _finish(self, context: Context, outcome: Outcome) -> None:
        if context not in self._live:
            return
        if context._log is not None:
            context._log.finish()
        context._work = None
        self._live.discard(context)
        self._done(context, outcome)
        following = None if self._closing else self._feed()
        if following is not None:
            self._start(following)
        self._note_nothing_left()

    def _note_nothing_left(self) -> None:
        if self._closing and not self._live and not self._nothing_left.done():
            self._nothing_left.set_result(None)

    def _stop(self, context: Context) -> None:
        run: SqlRun | None = context._work
        if run is None or run.task is None or not run.has_begun:
            return  # over, or sees the reason itself when it begins
        if run.session is None:
            run.task.cancel()  # it waits for its connection
        else:
            self._keep(run.session.cancel())
        self._loop.call_later(run.profile.grace, self._kill, context)

    def _kill(self, context: Context) -> None:
        run: SqlRun | None = context._work
        if run is None or run.task is None or run.is_killed or not run.has_begun:
            return
        run.is_killed = True
        if run.session is None:
            run.task.cancel()
        else:
            run.ending = self._keep(self._end_session(run.session, context))

    async def _end_session(self, session: SqlSession, context: Context) -> None:
        """The run is over when its session is gone, or nobody can tell."""
        if not await session.terminate():
            context.log("the database can't be asked whether the session has ended")

    async def _watch_lease(self) -> None:
        while True:
            if boottime() >= self._lease.deadline:
                for context in list(self._live):
                    context.stop_reason = context.stop_reason or StopReason.LEASE_LOST
                    self._kill(context)
            await asyncio.sleep(_LEASE_LOOK_SECONDS)

    async def _look_at_roles(self, warn: Warn) -> None:
        for handler, database in self._databases.items():
            try:
                login = await database.login()
            except PgcronError as error:
                warn(f"the profile of {handler} can't be used now: {error.message}")
                continue
            if login.is_superuser:
                warn(f"{handler} works as {login.role!r}, a superuser: give it a role of its own")
            elif login.owns_schema:
                warn(f"{handler} works as {login.role!r}, which owns the product's tables")

    async def _end(self) -> None:
        for database in self._databases.values():
            await database.close()
        current = asyncio.current_task()
        for task in list(self._tasks):
            if task is not current:
                task.cancel()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
