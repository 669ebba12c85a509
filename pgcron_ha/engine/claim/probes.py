"""Claims of probes: one run of a handler whose breaker may be tested, for a free slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.lease.session import Session


class Probes:
    """Requested by the service that reads the breakers, claimed by the dispatcher. The database
    chooses the node that probes; a refused node asks again with its next look.
    """

    def __init__(self, link: Link, session: Session, queues: Sequence[str]) -> None:
        self._link = link
        self._session = session
        self._queues = list(queues)
        self._handlers: list[str] = []
        self._run: int | None = None

    @property
    def is_asked(self) -> bool:
        """Whether a probe of this node's handlers may be due."""
        return bool(self._handlers)

    def ask(self, handlers: Sequence[str]) -> None:
        """A probe of one of these is due, as far as the last look knows."""
        self._handlers = list(handlers)

    def is_over(self, holds: Callable[[int], bool]) -> bool:
        """Whether this node's probe is a run it no longer holds; true only once."""
        is_over = self._run is not None and not holds(self._run)
        if is_over:
            self._run = None
        return is_over

    async def claim(self) -> list[Row]:
        """At most one row, as ``claim_runs`` gives them."""
        handlers, self._handlers = self._handlers, []
        rows = await self._link.rows(
            "claim_probe",
            incarnation=self._session.incarnation,
            queues=self._queues,
            handlers=handlers,
        )
        self._run = rows[0]["id"] if rows else self._run
        return rows
