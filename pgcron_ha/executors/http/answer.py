"""From an answer to an outcome: what its status, its check and its body mean.

Work that a service has accepted and not done yet is polled until it ends. The contract, for a
destination with ``poll``: the service answers the request with 202 and the address of the work in
``Operation-Location`` or ``Location``, on the same scheme, host and port. That address is polled
with GET and the headers of the run:

- 202: it goes on. ``Retry-After`` may make the pause longer.
- 200 with a JSON object whose ``status`` (letter case, blanks, ``-`` and ``_`` ignored) is
  notStarted, accepted, pending, queued, running, inProgress or processing: it goes on;
  ``percentComplete`` (0 to 100) is shown as progress.
  succeeded, success, completed, done: it succeeded, and ``result`` is the run's result.
  failed, failure, error, cancelled, canceled: it has failed, for the reason in ``error`` (a text,
  or an object with ``message``); another attempt is made unless ``retry`` is false.
  retry: another attempt is made, whatever the run's policy says about causes. Before either,
  ``retry_after`` seconds pass if it is there.
- any other expected answer ends the run like the answer to a plain request.
- a status code of the destination's ``retry``, or no answer, a few times in a row: the work may
  go on all the same.
- any other status code is a failure.

The service is not informed when polling stops. A further attempt sends the request again with the
same ``Idempotency-Key`` and a higher ``Pgcron-Fence``.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from pgcron_ha.config.http_destinations import AnswerCheck, HttpDestination, Statuses
from pgcron_ha.executors.contract.base import SUCCEEDED, Context, Failed, Outcome, Succeeded
from pgcron_ha.executors.contract.failures import bounded_text, outcome_of_result
from pgcron_ha.executors.http import work_reports
from pgcron_ha.executors.http.client import HttpAnswer, HttpClient
from pgcron_ha.executors.http.request import HttpRequest
from pgcron_ha.model.json_values import read_json

MAX_EXCERPT_CHARACTERS: Final = 2048
"""Of the body of an answer that is a failure, kept with the error."""


class NotJson(Exception):
    """The body is no JSON document that can be kept."""


def outcome_of_answer(
    destination: HttpDestination, answer: HttpAnswer, context: Context
) -> Outcome:
    """What the answer means for the run; what is worth reading of it goes to the run's log."""
    context.log(_line(answer))
    if not is_among(answer.status, destination.expect):
        return failure_of_status(destination, answer, context)
    try:
        document = json_of(answer, context)
    except NotJson as error:
        if destination.check is not None:
            return _unexpected(answer, f"{error}, and the check needs JSON", context)
        for line in work_reports.first_lines(_text_of(answer, context).splitlines(), "answer"):
            context.log(line)
        return SUCCEEDED
    if destination.check is not None:
        found = _value_at(document, destination.check)
        expected = destination.check.value
        # As JSON compares: true is not 1, and 1 is 1.0.
        if found != expected or isinstance(found, bool) != isinstance(expected, bool):
            path = ".".join(destination.check.path)
            return _unexpected(answer, f"{path} is {json.dumps(found)[:200]}", context)
    return outcome_of_document(document, context)


def outcome_of_document(document: Any, context: Context) -> Outcome:
    """`Succeeded` with the document as its result, if it fits. The service has done its work: an
    answer that can't be kept does not make a failure of that.
    """
    outcome = outcome_of_result(document, context._masker)
    if isinstance(outcome, Succeeded):
        return outcome
    context.log(f"the answer is not kept as the result: {outcome.message}")
    return SUCCEEDED


def failure_of_status(destination: HttpDestination, answer: HttpAnswer, context: Context) -> Failed:
    """The failure for an unexpected status; retried if `retry` contains the status."""
    retry = may_be_retried(destination, answer.status)
    message = f"{_asked(answer)} answered {answer.status} {answer.reason}".rstrip()
    if "location" in answer.headers and 300 <= answer.status < 400:
        message += f" to {answer.headers['location'][:500]}, which is not followed"
    return Failed(
        f"Http{answer.status}",
        message,
        _excerpt(answer, context),
        retry=retry,
        after=retry_after(answer) if retry else None,
        causes=(f"http:{answer.status}", f"http:{answer.status // 100}xx"),
    )


def may_be_retried(destination: HttpDestination, status: int) -> bool:
    """Whether another attempt may help; `discard` wins over `retry`."""
    return is_among(status, destination.retry) and not is_among(status, destination.discard)


def is_among(status: int, statuses: Statuses) -> bool:
    """Whether one of the ranges has it."""
    return any(status in each for each in statuses)


def json_of(answer: HttpAnswer, context: Context) -> Any:
    """The answer as JSON, secrets taken out; raises `NotJson`."""
    if not answer.is_whole:
        raise NotJson("the answer is too long, or compressed")
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise NotJson(f"the answer is of type {media_type[:100]!r}")
    try:
        document = read_json(answer.body.decode("utf-8-sig"))
        # Not its text, in which a service may escape any character of a secret.
        return document if context._masker is None else context._masker.mask_document(document)
    except (ValueError, RecursionError) as error:
        raise NotJson(f"the answer is no JSON ({str(error)[:200]})") from None


def retry_after(answer: HttpAnswer) -> timedelta | None:
    """The pause the service asks for, in seconds or as a date, from 0 to a day."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        seconds = float(text[:12])
    elif (instant := _date(text)) is not None:
        # The service's own clock gives the delay from now.
        now = _date(answer.headers.get("date", "")) or datetime.now(UTC)
        seconds = (instant - now).total_seconds()
    else:
        return None
    return timedelta(seconds=max(0.0, min(seconds, work_reports.MAX_RETRY_AFTER_SECONDS)))


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a zone that is years away
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _line(answer: HttpAnswer) -> str:
    size = f"{len(answer.body)} bytes" if answer.is_whole else f"over {len(answer.body)} bytes"
    took = f"{answer.seconds * 1000:.0f} ms"
    reason = f" {answer.reason}" if answer.reason else ""
    return f"{_asked(answer)} answered {answer.status}{reason} in {took}, {size}"


def _asked(answer: HttpAnswer) -> str:
    """Without the query, which may be long and say more than an address."""
    parts = urlsplit(answer.request.url)
    return f"{answer.request.method} {parts.scheme}://{parts.netloc}{parts.path}"


def _unexpected(answer: HttpAnswer, why: str, context: Context) -> Failed:
    message = f"{_asked(answer)} answered {answer.status}, but {why}"
    return Failed("UnexpectedAnswer", message, _excerpt(answer, context))


def _excerpt(answer: HttpAnswer, context: Context) -> str | None:
    return bounded_text(_text_of(answer, context), MAX_EXCERPT_CHARACTERS) or None


def _text_of(answer: HttpAnswer, context: Context) -> str:
    """Secrets taken out of the whole, before it is cut; empty for a body that is no text."""
    media_type = answer.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    words = ("json", "xml", "javascript", "x-www-form-urlencoded")
    is_text = media_type.startswith("text/") or media_type.endswith(words)
    text = answer.body.decode("utf-8", "replace") if is_text else ""
    return text if context._masker is None else context._masker.mask(text)


def _value_at(document: Any, check: AnswerCheck) -> Any:
    """None where there is no such place."""
    for step in check.path:
        if isinstance(document, dict):
            document = document.get(step)
        elif isinstance(document, list) and step.isascii() and step.isdigit():
            document = document[int(step)] if int(step) < len(document) else None
        else:
            return None
    return document


MAX_LOST_ANSWERS: Final = 10
"""In a row, before the work is given up."""

MAX_PAUSE_SECONDS: Final = 300.0
"""The longest pause between two questions that a service may ask for."""


@dataclass(frozen=True)
class Operation:
    """The work one run waits for: its status is asked for every ``_pause`` seconds."""

    _client: HttpClient
    _context: Context
    _pause: float

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
            is_last = lost + 1 >= MAX_LOST_ANSWERS
            try:
                answer = await self._client.exchange(request)
            except (OSError, httpx.TransportError) as error:
                if is_last:
                    raise
                lost, pause = lost + 1, self._pause
                self._context.log(f"no answer ({type(error).__name__}): asking again")
                continue
            pause = self._next_pause(answer)
            if may_be_retried(self._client.destination, answer.status) and not is_last:
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
        wanted = retry_after(answer) or timedelta()
        return max(self._pause, min(wanted.total_seconds(), MAX_PAUSE_SECONDS))

    def _outcome_of(self, answer: HttpAnswer) -> Outcome | None:
        """None while it goes on."""
        if answer.status == 202:
            return None
        if not is_among(answer.status, self._client.destination.expect):
            return failure_of_status(self._client.destination, answer, self._context)
        try:
            document = json_of(answer, self._context)
        except NotJson:
            document = None
        kind, ended = work_reports.work_status_of(document)
        if kind == "running":
            if (percent := work_reports.percent_of(document)) is not None:
                self._context.progress(percent, 100)
            return None
        if kind == "succeeded":
            self._context.log(ended)
            return outcome_of_document(document.get("result"), self._context)
        if kind is None:
            return outcome_of_answer(self._client.destination, answer, self._context)
        return work_reports.failure_of(kind, ended, work_reports.delay_of(document))
