"""What the simulation has found, each as the shortest story that shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.product.engine import LeasePhase
from tests.simulation.clocks import installed
from tests.simulation.simulate import Simulation


@contextmanager
def stage() -> Iterator[Simulation]:
    """A simulation without troubles of its own."""
    simulation = Simulation(seed=1)
    with installed(simulation.place.replacements(), seed=1):
        try:
            yield simulation
        finally:
            simulation.bury()


def enqueue(simulation: Simulation, args: str) -> int:
    rows = simulation.store.call(
        "enqueue",
        handler="py:work",
        args=args,
        queue=None,
        priority=None,
        due_at=None,
        idempotency_key=None,
        key_lifetime=None,
        timeout=None,
        max_attempts=None,
        delivery=None,
        retry=None,
        actor="me",
    )
    run: int = rows[0]["run_id"]
    return run


def test_a_node_fences_itself_though_its_engine_stands_still_and_nothing_answers() -> None:
    """After a failed beat the session tried again without a pause, for as long as the engine stood
    still: the watch on the same loop never had its turn.
    """
    with stage() as simulation:
        world, ttl = simulation.world, simulation.size.ttl
        process = simulation.place.start("n1")
        enqueue(simulation, '{"seconds": 1000}')
        world.run_until(3)
        assert len(simulation.judge.live) == 1

        simulation.place.weathers["n1"].is_cut = True
        world.run_until(world.now + ttl / 2)
        process.engine.stall(10 * ttl)
        world.run_until(world.now + ttl)

        session = simulation.place.nodes["n1"].session
        assert session.lease.phase(process.boottime()) is LeasePhase.OVER
        assert simulation.judge.live == []


def test_a_probe_without_an_answer_does_not_make_a_node_listen_twice() -> None:
    """The next pass listened once more over the same connection, and each notification was heard
    by both.
    """
    with stage() as simulation:
        simulation.place.start("n1")
        simulation.world.run_until(2)
        simulation.place.weathers["n1"].answer_lost = 1.0
        simulation.server.restart(0.1)
        simulation.world.run_until(30)
        simulation.place.weathers["n1"].clear()
        simulation.world.run_until(60)

        assert len(simulation.store.listeners) == 1


def test_a_burial_that_arrives_after_the_death_of_its_sender_leaves_the_successor_alone() -> None:
    """It buried the successor, which was at work: its runs began elsewhere beside it."""
    with stage() as simulation:
        world, store = simulation.world, simulation.store
        first = simulation.place.start("n1")
        world.run_until(3)
        [old] = store.nodes.values()
        first.end()
        world.run_until(4)
        simulation.place.start("n1")
        world.run_until(6)
        assert old.state == "dead"
        assert old.home is not None

        store.call("bury_predecessors", home=old.home, incarnation=old.incarnation)

        assert sum(node.state == "alive" for node in store.nodes.values()) == 1
