"""What a node reports of itself: a snapshot for probes and metrics, and what is wrong with its
services, for its row. From memory, on the engine's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.queries.node_health import (
    MOST_ENTRIES,
    NodeHealth,
    Trouble,
    in_turns,
    kind_of,
    written,
)
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.executors.contract.masking import mask
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.node_snapshot import NodeSnapshot

# What changes more often is published by the beats as they come.
_PUBLISH_SECONDS: Final = 1.0


class ServiceHealth:
    """`look` several times a second; `text` is what the next beat writes."""

    def __init__(self, services: Sequence[Service], changed: Callable[[], None]) -> None:
        """`changed` asks for a beat at once."""
        self._services = services
        self._changed = changed
        self._last: frozenset[tuple[str, str]] = frozenset()
        self._published_at = float("-inf")
        self.text: str | None = None
        """None when nothing is wrong. One assignment changes it: it is read by another thread."""

    def look(self) -> None:
        """From the engine's loop only: services belong to it."""
        health = self._health()
        self.text = written(health)
        causes = frozenset((each.service, each.what or each.error) for each in health.troubles)
        if causes != self._last and monotonic() - self._published_at > _PUBLISH_SECONDS:
            self._last, self._published_at = causes, monotonic()
            self._changed()

    def _health(self) -> NodeHealth:
        now = monotonic()
        failing = [
            Trouble(service.name, mask(trouble), now - service.good_at)
            for service in self._services
            if (trouble := service.trouble) is not None
        ]
        without = [
            Trouble(service.name, mask(each.error), now - each.since, mask(each.what), each.tries)
            for service in self._services
            for each in in_turns(service.aside.entries(), lambda entry: kind_of(entry.what))[
                :MOST_ENTRIES
            ]
        ]
        without.sort(key=lambda each: -each.seconds)
        more = sum(len(service.aside) for service in self._services) - len(without)
        return NodeHealth((*failing, *without), more)


def snapshot(
    session: Session, runner: Runner, links: Mapping[str, Link], services: Sequence[Service]
) -> NodeSnapshot:
    """The state of a node, from its parts."""
    return NodeSnapshot(
        session.identity.name,
        None if session.incarnation is None else str(session.incarnation),
        session.is_draining,
        max(0.0, session.lease.ttl - session.lease.age(boottime())),
        runner.slots.number,
        runner.executing,
        runner.waiting,
        tuple(context.run_id for context in runner.contexts()),
        len(session.identity.handlers),
        {name: link.opened for name, link in links.items()},
        {each.name: (monotonic() - each.good_at, len(each.aside)) for each in services},
        session.is_cordoned,
    )
