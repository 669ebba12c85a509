"""Work that a service has accepted and not done yet: its status is polled until it ends.

The contract, for a destination with ``poll``. The service answers the request with 202 and the
address of the work in ``Operation-Location`` or ``Location``, on the same scheme, host and port.
That address is polled with GET and the headers of the run:

- 202: it goes on. ``Retry-After`` may make the pause longer.
- 200 with a JSON object whose ``status`` (letter case, blanks, ``-`` and ``_`` ignored) is
  notStarted, accepted, pending, queued, running, inProgress or processing: it goes on;
  ``percentComplete`` (0 to 100) is shown as progress.
  succeeded, success, completed, done: it succeeded, and ``result`` is the run's result.
  failed, failure, error, cancelled, canceled: it has failed, for the reason in ``error`` (a text,
  or an object with ``message``); another attempt is made unless ``retry`` is false.
- any other expected answer ends the run like the answer to a plain request.
- a status of ``retry``, or no answer, a few times in a row: the work may go on all the same.
- any other status is a failure.

The service is not informed when polling stops. A further attempt sends the request again with the
same ``Idempotency-Key`` and a higher ``Pgcron-Fence``.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx

from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.masking import Masker
from pgcron_ha.executors.contract.outcome import Failed, Outcome
from pgcron_ha.executors.http.answer import (
    NotJson,
    failure_of_status,
    is_among,
    json_of,
    may_be_retried,
    outcome_of_answer,
    outcome_of_document,
    retry_after,
)
from pgcron_ha.executors.http.client import HttpAnswer, HttpClient
from pgcron_ha.executors.http.request import HttpRequest
from pgcron_ha.executors.http.work_reports import percent_of, work_status_of

MAX_LOST_ANSWERS: Final = 10
"""In a row, before the work is given up."""

MAX_PAUSE_SECONDS: Final = 300.0
"""The longest pause between two questions that a service may ask for."""


class Operation:
    """The work one run waits for."""

    def __init__(
        self, destination: HttpDestination, client: HttpClient, context: Context, masker: Masker
    ) -> None:
        self._destination = destination
        self._client = client
        self._context = context
        self._masker = masker
        self._pause = destination.poll or 0.0

    async def follow(self, accepted: HttpAnswer) -> Outcome:
        """Ask until it ends. Raises what `HttpClient.exchange` raises, when that is all it gets."""
        request = self._question(accepted)
        if request is None:
            message = "the service answered 202 without an address of this destination to ask"
            return Failed("UnexpectedAnswer", message, retry=False)
        self._context.log(f"accepted: its status is asked for every {self._pause:g} s")
        lost = 0
        pause = self._next_pause(accepted)
        while True:
            await asyncio.sleep(pause)
            self._context.check()
            try:
                answer = await self._client.exchange(request)
            except (OSError, httpx.TransportError) as error:
                lost += 1
                if lost >= MAX_LOST_ANSWERS:
                    raise
                self._context.log(f"no answer ({type(error).__name__}): asking again")
                pause = self._pause
                continue
            pause = self._next_pause(answer)
            if may_be_retried(self._destination, answer.status) and lost + 1 < MAX_LOST_ANSWERS:
                lost += 1
                self._context.log(f"the status is not known now ({answer.status}): asking again")
                continue
            lost = 0
            if answer.status == 303 and (elsewhere := self._question(answer)) is not None:
                request = elsewhere  # where the result is
                continue
            outcome = self._outcome_of(answer)
            if outcome is not None:
                return outcome

    def _question(self, accepted: HttpAnswer) -> HttpRequest | None:
        found, asked = accepted.headers, accepted.request
        location = found.get("operation-location") or found.get("location")
        url = self._client.same_origin(asked.url, location) if location else None
        headers = {name: each for name, each in asked.headers.items() if name != "Content-Type"}
        return None if url is None else HttpRequest("GET", url, headers, None)

    def _next_pause(self, answer: HttpAnswer) -> float:
        wanted = retry_after(answer)
        seconds = 0.0 if wanted is None else wanted.total_seconds()
        return max(self._pause, min(seconds, MAX_PAUSE_SECONDS))

    def _outcome_of(self, answer: HttpAnswer) -> Outcome | None:
        """None while it goes on."""
        if answer.status == 202:
            return None
        if not is_among(answer.status, self._destination.expect):
            return failure_of_status(self._destination, answer, self._masker)
        try:
            document = json_of(answer, self._masker)
        except NotJson:
            document = None
        status = work_status_of(document)
        if status.kind == "running":
            if (percent := percent_of(document)) is not None:
                self._context.progress(percent, 100)
            return None
        if status.kind == "succeeded":
            self._context.log(status.error)
            return outcome_of_document(document.get("result"), self._context)
        if status.kind == "failed":
            return Failed("OperationFailed", status.error, retry=status.may_retry)
        return outcome_of_answer(self._destination, answer, self._context, self._masker)
