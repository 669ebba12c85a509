"""Following one run until it ends, on stderr; what it comes to is printed on stdout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgcron_ha.cli.output import echo, print_json, shown
from pgcron_ha.cli.screen import Screen
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.run_status import RunStatus, ended_among, read_status
from pgcron_ha.client.waiting import Notifications, Waiting, require_success
from pgcron_ha.db.commands.breakers import why_run_waits
from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.queries.overview import database_time, lines
from pgcron_ha.errors import Refused

FIRST_LOOK_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.5
"""Between two looks at the progress; the end is heard."""

LINES_AT_ONCE: Final = 1000


def follow_to_end(
    run_id: int, *, timeout: float | None = None, with_log: bool = False, as_json: bool = False
) -> None:
    """Shows a run until it ends, then its result; Ctrl-C ends the showing.

    Raises NotFound, WaitTimedOut, RunFailed, RunCancelled, RunNotStarted.
    """
    try:
        status = on_database(lambda session: follow(session, run_id, timeout, with_log))
    except KeyboardInterrupt:
        again = f"`pgcron-ha runs watch {run_id}` follows it again"
        echo(f"run {run_id} goes on; {again}", err=True)
        raise
    print_end(status, as_json)


async def follow(
    session: Session, run_id: int, timeout: float | None = None, with_log: bool = False
) -> RunStatus:
    """Until the run has ended; how it ended. Raises NotFound, WaitTimedOut."""
    followed = _Followed(session, run_id, with_log)
    await followed.begin()
    own = session.settings.listen_dsn
    link = Link(own or session.settings.required_dsn(), session.schema, title="pgcron_ha waiting")
    notifications = Notifications(link, followed.connection, session.schema, own is not None)
    waiting = Waiting(followed.ended_among, notifications)
    ended = asyncio.ensure_future(waiting.until_ended(run_id, timeout))
    pause = FIRST_LOOK_SECONDS
    try:
        while True:
            is_over = ended.done()
            status = await followed.look(is_patient=is_over or pause == LOOK_SECONDS)
            if status.is_ended:
                return status
            if is_over:
                await ended  # raises, unless the run ended between the two looks
            await asyncio.wait({ended}, timeout=pause)
            pause = min(LOOK_SECONDS, pause * 1.5)
    finally:
        followed.screen.clear()
        waiting.close()
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


def print_end(status: RunStatus, as_json: bool) -> None:
    """The result, or the error of how it ended: RunFailed, RunCancelled, RunNotStarted."""
    if as_json:
        print_json(
            {
                "run_id": status.id,
                "state": status.state,
                "attempt": status.attempt,
                "result": status.result,
                "error": status.error,
            }
        )
        require_success(status)
        return
    require_success(status)
    if status.result is not None:
        print_json(status.result)


class _Followed:
    """One run, looked at over the command's one connection by one at a time."""

    def __init__(self, session: Session, run_id: int, with_log: bool) -> None:
        self._session = session
        self._run_id = run_id
        self._with_log = with_log
        self._after = (0, -1)
        self._lock = asyncio.Lock()
        self.screen = Screen()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """The connection, for a statement."""
        async with self._lock:
            yield self._session.connection

    async def begin(self) -> None:
        """Compares the clocks."""
        async with self.connection() as connection:
            there = await database_time(connection, schema=self._session.schema)
        ahead = there - datetime.now(UTC)
        self.screen = Screen(ahead if abs(ahead) > timedelta(seconds=1) else timedelta(0))

    async def ended_among(self, run_ids: list[int]) -> list[int]:
        """Those of these runs that are over."""
        async with self.connection() as connection:
            return await ended_among(connection, run_ids, self._session.schema)

    async def look(self, is_patient: bool) -> RunStatus:
        """How it stands, which is shown; with why it is not taken if it waits and `is_patient`."""
        schema = self._session.schema
        waits_for = None
        async with self.connection() as connection:
            status = await read_status(connection, self._run_id, schema)
            if self._with_log:
                await self._print_lines(connection)
            if status.state == "ready" and is_patient:
                try:
                    waits_for = await why_run_waits(connection, self._run_id, schema=schema)
                except Refused:
                    pass  # who may only enqueue is not told of nodes
        if not status.is_ended:
            self.screen.show(status, waits_for)
        return status

    async def _print_lines(self, connection: Any) -> None:
        is_more = True
        while is_more:
            found = await lines(
                connection,
                self._run_id,
                after=self._after,
                limit=LINES_AT_ONCE,
                schema=self._session.schema,
            )
            for line in found:
                self._after = (line["attempt"], line["sequence"])
                self.screen.print_line(
                    f"{shown(line['at'])} {line['attempt']} {line['stream']:<6} {line['line']}"
                )
            is_more = len(found) == LINES_AT_ONCE
