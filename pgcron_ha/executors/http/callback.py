"""Runs that wait for a callback: the service accepts the work and reports its end later.

The contract, for a destination with ``completion = "callback"``. The request carries
``Pgcron-Callback-Url`` and ``Pgcron-Callback-Token``; the body may contain them, too, as
``{callback_url}`` and ``{callback_token}``. The service answers 202. Later it sends any number of
POST requests to that address, with the token and the JSON of `work_reports`::

    curl --retry 10 "$CALLBACK_URL" -H "Authorization: Bearer $CALLBACK_TOKEN" \\
         -d '{"status": "succeeded", "result": {"rows": 5}}'

Any answer but 202 ends the run like the answer to a plain request. A callback is answered

- 200: it is stored, and the run's node is notified; also when the same end is reported again.
- 400, 413: it is unreadable or too large; the answer says what is wrong.
- 401: the token does not exist. 409: another end was reported before.
- 410: the attempt is over (its run was stopped, timed out, or taken from a node that died). Another
  attempt may do the work. The service may stop.
- 429, 503: try again later, see ``Retry-After``.

The token (256 random bits, its SHA-256 in the database) belongs to one attempt. It is valid as soon
as the request is sent, also before the 202. A waiting run holds its slot, its key and its lease.
Its time limits count, and it is stopped like any other. Only the 410 informs the service that
nothing waits for it any more.

An end that was answered 200 is the run's end. If the node dies before it reads that end, the node
that takes the run over records it. A service that gets no answer sends the report again. An attempt
without an end is retried like any other whose node died: with the same ``Idempotency-Key`` and
another token.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from typing import Any, Final

from pgcron_ha.credentials import hashed
from pgcron_ha.db.driver.link import Busy, Link, Row
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.contract.attempt import Stopped
from pgcron_ha.executors.contract.base import Context, Outcome, StopReason
from pgcron_ha.executors.contract.coroutines import wait_at_most
from pgcron_ha.executors.http.answer import outcome_of_document
from pgcron_ha.executors.http.work_reports import PATH, failure_of

CLOSE_SECONDS: Final = 3.0
"""For asking, when a run is stopped, whether its service was quicker. Less than the grace of a
stop: what can't be asked is over without an answer.
"""

_PAUSE_SECONDS: Final = 0.5


class Callback:
    """The end of one attempt, as its service will report it."""

    def __init__(self, desk: CallbackDesk, context: Context, public_url: str) -> None:
        self._desk = desk
        self._context = context
        self.key = context.run_id, context.fence
        """The attempt."""
        self.token = secrets.token_urlsafe(32)
        self.address = {
            "callback_url": public_url + PATH.format(run=context.run_id, fence=context.fence),
            "callback_token": self.token,
        }
        self._ended: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Outcome:
        """Wait for the outcome that the service reports."""
        self._context.log("accepted: the service calls back when it has ended")
        return await asyncio.shield(self._ended)  # after a stop, `close` may still return the end

    async def close(self) -> Outcome | None:
        """From now on no callback is taken; the outcome, if the service was quicker."""
        context = self._context
        if context.stop_reason is StopReason.LEASE_LOST:
            return None  # the node that takes the run over looks for it
        if not self._ended.done():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    rows = await self._desk.insist("close_callback", context, fence=context.fence)
                    for row in rows:
                        self.take(row)
        return self._ended.result() if self._ended.done() else None

    def take(self, row: Row) -> None:
        """What the service has said since the last time."""
        if row["has_news"]:
            for line in row["lines"]:
                self._context.log(line)
            if row["done"] is not None and row["status"] is None:
                self._context.progress(row["done"], row["total"], row["note"])
        if row["status"] is not None and not self._ended.done():
            self._context.log(f"the service has called back: {row['status']}")
            self._ended.set_result(self._outcome(row))

    def _outcome(self, row: Row) -> Outcome:
        if row["status"] == "succeeded":
            return outcome_of_document(json.loads(row["result"] or "null"), self._context)
        return failure_of(row["status"], row["error"] or "", row["retry_after"])


class CallbackDesk:
    """The callbacks that runs of this node wait for. Belongs to one event loop.

    One statement asks for all of them: when the database says that something came, and each
    ``interval`` seconds in case that got lost.
    """

    def __init__(self, link: Link, public_url: str, interval: float) -> None:
        self.link = link
        self._public_url = public_url
        self._interval = interval
        self._waiting: dict[tuple[int, int], Callback] = {}
        self.rung = asyncio.Event()
        """Something came, perhaps for one of these."""
        self._listening: asyncio.Task[None] | None = None

    async def open(self, context: Context) -> Callback:
        """Before the service is called. Raises `Stopped` when the run is not held any more."""
        callback = Callback(self, context, self._public_url)
        kept = hashed(callback.token)
        if not await self.insist("open_callback", context, token=context.token, token_hash=kept):
            raise Stopped(StopReason.LEASE_LOST)
        self._waiting[callback.key] = callback
        if self._listening is None or self._listening.done():
            self._listening = asyncio.get_running_loop().create_task(self._listen())
        return callback

    def forget(self, callback: Callback) -> None:
        """Nobody waits for it any more."""
        self._waiting.pop(callback.key, None)

    async def shut(self) -> None:
        """After the last of them."""
        if self._listening is not None:
            self._listening.cancel()
        await self.link.close()

    async def insist(self, statement: str, context: Context, **parameters: Any) -> list[Row]:
        """Its rows, when the database answers again; a stop of the run ends the waiting."""
        while True:
            try:
                return await self.link.rows(statement, run_id=context.run_id, **parameters)
            except (DatabaseUnavailable, Busy):
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _listen(self) -> None:
        while self._waiting:
            self.rung.clear()
            runs, fences = zip(*self._waiting, strict=True)
            with contextlib.suppress(PgcronError):  # asked again soon
                for row in await self.link.rows("hear_callbacks", run_ids=runs, fences=fences):
                    callback = self._waiting.get((row["run_id"], row["fence"]))
                    if callback is not None:
                        callback.take(row)
            await wait_at_most(self.rung, self._interval)
