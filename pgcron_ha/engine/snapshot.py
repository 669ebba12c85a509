"""Snapshots of a node for display: from memory, in the node's own thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.node_snapshot import NodeSnapshot


class NodeLook:
    """Call it for the node's `NodeSnapshot`; `follow` sets the parts that it reads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._followed: tuple[Session, Runner, Mapping[str, Link], int] | None = None
        self._services: Sequence[Service] = ()

    def follow(
        self, session: Session, runner: Runner, links: Mapping[str, Link], handlers: int
    ) -> None:
        """Set the node's current parts and its number of handlers."""
        self._followed = session, runner, links, handlers

    def follow_services(self, services: Sequence[Service]) -> None:
        """These work for it."""
        self._services = services

    def __call__(self) -> NodeSnapshot:
        """The state of the node."""
        if self._followed is None:
            return NodeSnapshot(self._name)
        session, runner, links, handlers = self._followed
        incarnation = session.incarnation
        return NodeSnapshot(
            self._name,
            None if incarnation is None else str(incarnation),
            session.is_draining,
            max(0.0, session.lease.ttl - session.lease.age(boottime())),
            runner.slots,
            runner.executing,
            runner.waiting,
            tuple(context.run_id for context in runner.contexts()),
            handlers,
            {name: link.opened for name, link in links.items()},
            {
                service.name: (monotonic() - service.good_at, len(service.aside))
                for service in self._services
            },
            session.is_cordoned,
        )
