"""The stand-in of ``nodes.sql``: sessions, leases, and who is dead."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pgcron_ha.errors import Conflict, NotFound
from tests.product.db import NEWEST
from tests.simulation.tables import NodeRow, Row, Tables, seconds


class NodeStatements(Tables):
    def join_node(
        self,
        *,
        incarnation: UUID,
        name: str,
        host: str,
        process_id: int,
        version: str,
        tzdata: str,
        home: str | None,
        lease_ttl: float,
        slots: int,
        queues: Sequence[str],
        labels: str = "{}",
    ) -> list[Row]:
        until = self.now() + seconds(lease_ttl)
        self.nodes[incarnation] = NodeRow(
            incarnation, name, home, lease_ttl, until, slots, list(queues), labels=labels
        )
        self._apply_cordons(self.nodes[incarnation])
        return [Row(now=self.now())]

    def offer_handlers(self, *, incarnation: UUID, handlers: Sequence[str]) -> list[Row]:
        self.offers.update((incarnation, handler) for handler in handlers)
        return []

    def bury_predecessors(self, *, home: str, incarnation: UUID) -> list[Row]:
        """What comes late, by one that is dead itself, buries nobody."""
        earlier = [
            node
            for node in self.nodes.values()
            if self.may_bury(incarnation)
            and node.home == home
            and node.incarnation != incarnation
            and node.state != "dead"
        ]
        because = "restarted: its successor holds the lock of its state directory"
        return [self._bury(node, because) for node in earlier]

    def may_bury(self, incarnation: UUID) -> bool:
        node = self.nodes.get(incarnation)
        return node is not None and node.state != "dead"

    def learn_timezones(self, *, names: Sequence[str]) -> list[Row]:
        return []

    def note_timeline(self) -> list[Row]:
        return []

    def note_synchronous(self) -> list[Row]:
        return []

    def beat(
        self,
        *,
        incarnation: UUID,
        slots_used: int,
        is_draining: bool,
        is_unresponsive: bool,
        health: str | None,
    ) -> list[Row]:
        node = self.nodes.get(incarnation)
        if node is None or node.state == "dead":
            return []
        node.lease_until = self.now() + seconds(node.lease_ttl)
        node.beat_sequence += 1
        node.slots_used = slots_used
        if is_draining or node.state == "draining":
            node.state = "draining"
        else:
            self._apply_cordons(node)
        mine = sorted(
            (run for run in self.runs.values() if run.owner == incarnation), key=lambda r: r.id
        )
        peers = sorted(
            (n for n in self.nodes.values() if n.state != "dead" and n is not node),
            key=lambda n: n.incarnation,
        )
        return [
            Row(
                now=self.now(),
                run_ids=[run.id for run in mine],
                tokens=[run.token for run in mine],
                cancelled_ids=[run.id for run in mine if run.cancel_at is not None],
                killed_ids=[],
                peers=[peer.incarnation for peer in peers],
                peer_sequences=[peer.beat_sequence for peer in peers],
                peer_ttls=[peer.lease_ttl for peer in peers],
                breakers=[],
                is_cordoned=node.state == "cordoned",
                revision=NEWEST,
                is_another_server=False,
                is_otherwise_synchronous=False,
            )
        ]

    def end_late_fires(self, **parameters: object) -> list[Row]:
        return [Row(ended=0)]

    # No row here breaks its rules.

    def refused_runs(self, **parameters: object) -> list[Row]:
        return []

    def refused_runs_in_line(self, **parameters: object) -> list[Row]:
        return []

    def broken_settings(self) -> list[Row]:
        return []

    # Nobody asks for a backfill here.

    def open_backfills(self, **parameters: object) -> list[Row]:
        return []

    def step_backfill(self, **parameters: object) -> list[Row]:
        raise AssertionError("there is no backfill in the simulation")

    def one_backfill(self, **parameters: object) -> list[Row]:
        raise AssertionError("there is no backfill in the simulation")

    def plan_backfill(self, **parameters: object) -> list[Row]:
        raise AssertionError("there is no backfill in the simulation")

    def give_up_backfill(self, **parameters: object) -> list[Row]:
        raise AssertionError("there is no backfill in the simulation")

    def forget_backfills(self, **parameters: object) -> list[Row]:
        return []

    # Nobody declares a circuit breaker here, so none is ever open.

    def declare_breakers(self, *, declared: str) -> list[Row]:
        raise AssertionError("no handler of the simulation has a breaker")

    def look_at_breakers(self) -> list[Row]:
        return []

    def claim_probe(
        self, *, incarnation: UUID, queues: Sequence[str], handlers: Sequence[str]
    ) -> list[Row]:
        return []

    def park_broken(self, *, queues: Sequence[str], look: int) -> list[Row]:
        return []

    def divert_runs(self, *, at_most: int) -> list[Row]:
        return []

    def unpark_mended(self, *, at_most: int) -> list[Row]:
        return []

    def forget_diversions(self, *, at_most: int) -> list[Row]:
        return []

    def cordon_node(self, *, node: str, reason: str | None, actor: str | None) -> list[Row]:
        self._require_node(node)
        self.cordons.add(node)
        named = self._named(node)
        self.notify("node")
        return [Row(cordon_node=len(named))]

    def uncordon_node(self, *, node: str, actor: str | None) -> list[Row]:
        self._require_node(node)
        for one in self.nodes.values():
            if str(one.incarnation) == node and one.name in self.cordons:
                raise Conflict(f"node {node} is cordoned by its name")
            if one.name == node:
                self.cordons.discard(str(one.incarnation))
        self.cordons.discard(node)
        named = self._named(node)
        self.notify("node")
        return [Row(uncordon_node=sum(one.state == "alive" for one in named))]

    def _named(self, node: str) -> list[NodeRow]:
        """The living of that name, or of that incarnation, as their cordons want them."""
        named = [
            one
            for one in self.nodes.values()
            if one.state != "dead" and node in (one.name, str(one.incarnation))
        ]
        for one in named:
            if one.state != "draining":
                self._apply_cordons(one)
        return named

    def _apply_cordons(self, node: NodeRow) -> None:
        is_cordoned = bool(self.cordons & {node.name, str(node.incarnation)})
        node.state = "cordoned" if is_cordoned else "alive"

    def _require_node(self, node: str) -> None:
        if not any(node in (one.name, str(one.incarnation)) for one in self.nodes.values()):
            raise NotFound(f"node {node} does not exist")

    def say_idle(self, *, incarnation: UUID, is_idle: bool) -> list[Row]:
        node = self.nodes.get(incarnation)
        if node is not None and node.state != "dead":
            node.is_idle = is_idle
        return []

    def stop_listening(self) -> list[Row]:
        raise AssertionError("there is no pooler here")

    def wake_idle_nodes(self) -> list[Row]:
        self.wake_idle()
        return []

    def probe_listeners(self) -> list[Row]:
        self.notify("probe")
        return [Row(pg_notify=None)]

    def declare_dead(self, *, incarnation: UUID, beat_sequence: int) -> list[Row]:
        node = self.nodes.get(incarnation)
        if node is None or not self.may_declare_dead(node, beat_sequence):
            return []
        return [self._bury(node, "its lease ran out")]

    def may_declare_dead(self, node: NodeRow, beat_sequence: int) -> bool:
        """The compare-and-set, and the database's own clock."""
        return (
            node.state != "dead"
            and node.beat_sequence == beat_sequence
            and node.lease_until < self.now()
        )

    def leave(self, *, incarnation: UUID, reason: str) -> list[Row]:
        node = self.nodes.get(incarnation)
        if node is None or node.state == "dead":
            return []
        node.is_idle, node.slots_used = False, 0
        return [self._bury(node, reason)]

    def forget_nodes(self, **parameters: object) -> list[Row]:
        owners = {run.owner for run in self.runs.values()}
        for node in list(self.nodes.values()):
            if node.ended_at is None or node.ended_at >= self.now() - seconds(86400):
                continue
            if node.incarnation not in owners:
                del self.nodes[node.incarnation]
                self.offers = {offer for offer in self.offers if offer[0] != node.incarnation}
        return []

    def _bury(self, node: NodeRow, because: str) -> Row:
        node.state, node.ended_at, node.ended_because = "dead", self.now(), because
        return Row(incarnation=node.incarnation)
