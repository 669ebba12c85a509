"""How the run of the fire before ended: what `Context.previous` gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from pgcron_ha.db.driver.link import HANDLER_ANSWER_SECONDS, Busy, Link
from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.coroutines import submit
from pgcron_ha.executors.contract.outcome import Failed
from pgcron_ha.spec.text import instant_text


class Previous(NamedTuple):
    """The last run that had ended of an earlier fire of the same schedule."""

    run_id: int
    fire_time: datetime
    """The instant that it was for; aware, UTC."""
    outcome: str
    """succeeded, dead, lost, cancelled, expired or upstream_failed."""
    finished_at: datetime
    result: Any
    """What its handler returned; None for a run that did not succeed."""
    error: str | None

    def document(self) -> dict[str, Any]:
        """As JSON: for programs and services."""
        instants = {"fire_time": self.fire_time, "finished_at": self.finished_at}
        return self._asdict() | {name: instant_text(each) for name, each in instants.items()}


def facts_of(document: Mapping[str, Any] | None) -> dict[str, str]:
    """The small facts of its document as texts, by the words of their names; all empty without."""
    names = ("run_id", "outcome", "fire_time", "finished_at")
    return {name: str((document or {}).get(name, "")) for name in names}


def run_facts(context: Attempt) -> dict[str, str | int | None]:
    """What identifies a run and its attempt, for programs, services and statements."""
    fire_time = context.fire_time
    return {
        "run_id": context.run_id,
        "attempt": context.attempt,
        "token": str(context.token),
        "fence": context.fence,
        "idempotency_key": context.idempotency_key,
        "schedule": context.schedule,
        "fire_time": None if fire_time is None else instant_text(fire_time),
        "origin": context.origin,
    }


def as_text(fact: str | int | None) -> str:
    """Of one fact: empty for none."""
    return "" if fact is None else str(fact)


Source: TypeAlias = tuple[Link, asyncio.AbstractEventLoop]
"""The connection over which handlers ask, and their event loop."""


async def find_previous(link: Link, context: Attempt) -> Previous | None:
    """Of the run before this one; None also for runs without a schedule. Raises
    DatabaseUnavailable, also where many others ask before it.
    """
    if context.schedule is None:
        return None
    try:
        async with asyncio.timeout(HANDLER_ANSWER_SECONDS):
            rows = await link.rows("previous_result", run_id=context.run_id)
    except (TimeoutError, Busy) as error:
        raise DatabaseUnavailable("the database did not answer in time") from error
    found = [Previous(**{**row, "result": json.loads(row["result"] or "null")}) for row in rows]
    return found[0] if found else None


async def note_previous(link: Link, context: Attempt) -> Failed | None:
    """Find it for a template that asks for it, before its run begins, and keep its document. The
    outcome, a retry, of a run for which the database does not answer.
    """
    try:
        previous = await find_previous(link, context)
        context._previous_found = previous and previous.document()
    except DatabaseUnavailable as error:
        return Failed(type(error).__name__, f"the run before is not known: {error}")
    return None


class AskedPrevious:
    """``await`` it in an async handler; a plain function calls `wait`."""

    def __init__(self, source: Source | None, context: Attempt) -> None:
        self._source = source
        self._context = context

    def __await__(self) -> Generator[Any, None, Previous | None]:
        """None: this is the first, or it is not kept any more."""
        return self._find().__await__()

    async def _find(self) -> Previous | None:
        return None if self._source is None else await find_previous(self._source[0], self._context)

    def wait(self) -> Previous | None:
        """As `await` gives it, in a plain function. Raises InvalidInput on the event loop."""
        if self._source is None:
            return None
        found: Previous | None = submit(self._source[1], self._find()).result()
        return found
