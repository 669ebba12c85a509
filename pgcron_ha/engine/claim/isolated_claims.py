"""Isolates the kinds of claims: one that is refused, locked or too slow waits, the others go on.

After a refusal the runs that can't be claimed are searched one by one, and end as dead letters with
the server's reason. If there is none, this kind of claim is tried again after a second.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, TypeVar

from pgcron_ha.db.driver.link import Busy, Link, Row
from pgcron_ha.engine.batches import SetAside, end_refused_runs, impatience
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.errors import DatabaseUnavailable, PgcronError, Refused, SchemaError
from pgcron_ha.operating_system import boottime

Answer = TypeVar("Answer")

LONGEST_PAUSE_SECONDS: Final = 1.0
"""How long a kind of claim waits after a failure at most: a lock may be gone by then."""

LOOK: Final = 500
"""Due runs of each priority among which one statement searches for those no node may take."""

_REFUSED_AT_ONCE: Final = 1000
"""Runs that are tried one by one after a refusal."""

_TRIES: Final = 5
"""Claims in a row after each of which runs were found that can't be claimed."""

_SEARCH_EVERY: Final = 1.0
"""Seconds between two searches that found nothing."""


@dataclass(eq=False)
class IsolatedClaims:
    """Sends the claims of a dispatcher, and keeps those that fail apart. ``_handlers`` are full
    names, looked at anew by each claim.
    """

    _link: Link
    _session: Session
    _queues: Sequence[str]
    _handlers: Sequence[str]
    aside: SetAside[str]
    """The kinds of claims, and queues, that wait; by name."""
    answered_after: float = 0.0
    """How long the last claim took, in seconds."""
    _sent_at: float | None = None
    _searched_at: float = float("-inf")
    _unserved_at: float = float("-inf")

    def settled_at(self) -> float:
        """Every claim sent before this CLOCK_BOOTTIME instant has been answered, or its rows are
        unknown here.
        """
        return boottime() if self._sent_at is None else self._sent_at

    async def settle(self, claiming: Awaitable[Answer]) -> Answer:
        """The answer to a claim; meanwhile it counts as unsettled."""
        self._sent_at = sent_at = boottime()
        try:
            answer = await claiming
            self.answered_after = boottime() - sent_at
            return answer
        finally:
            self._sent_at = None

    async def send(self, statement: str, /, **parameters: Any) -> list[Row]:
        """The rows of one statement, for this node's incarnation and handlers."""
        parameters.setdefault("handlers", list(self._handlers))
        incarnation = self._session.incarnation
        return await self._link.rows(statement, incarnation=incarnation, **parameters)

    async def rows(self, kind: str, statement: str, /, **parameters: Any) -> list[Row]:
        """As `send`, for a statement that claims or blocks; none while this kind of claim waits, or
        when it fails now.

        Raises DatabaseUnavailable without a database, and what is wrong with the whole
        installation: a missing right or table.
        """
        if self.aside.waits(kind):
            return []
        for _ in range(_TRIES):
            try:
                with impatience(kind in self.aside):
                    rows = await self.settle(self.send(statement, **parameters))
            except (DatabaseUnavailable, Refused, SchemaError):
                raise
            except PgcronError as error:
                if isinstance(error, Busy) or not await self.end_refused(self._queues):
                    self.aside.put(kind, kind, error)
                    break
            else:
                self.aside.forget(kind)
                return rows
        return []

    async def block(self) -> int:
        """Set aside due runs that no living node may take; how many there were. After a search that
        found none there is another a second later.
        """
        if monotonic() - self._unserved_at < _SEARCH_EVERY:
            return 0
        kind, queues = "runs that no node serves", list(self._queues)
        blocked = await self.rows(kind, "block_unserved", look=LOOK, queues=queues)
        if not blocked:
            self._unserved_at = monotonic()
        return len(blocked)

    async def end_refused(self, queues: Sequence[str]) -> int:
        """Ends the due runs of these queues that can't be claimed; returns how many there were."""
        if monotonic() - self._searched_at < _SEARCH_EVERY:
            return 0
        refused = await self.send("refused_runs", at_most=_REFUSED_AT_ONCE, queues=list(queues))
        ended = await end_refused_runs(self._link, refused)
        if not ended:
            self._searched_at = monotonic()
        return ended
