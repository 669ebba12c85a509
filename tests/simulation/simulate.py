"""One seed, from the first node to the verdict."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tests.product.telemetry import LOGGER
from tests.simulation.clocks import installed
from tests.simulation.judge import Judge, Violation
from tests.simulation.ledger import Ledger
from tests.simulation.nodes import Place, Size
from tests.simulation.store import Store
from tests.simulation.story import Story
from tests.simulation.tables import FIRST_INSTANT, Run
from tests.simulation.wire import Server
from tests.simulation.world import World

TROUBLE_SECONDS: Final = 60.0
"""How long faults, edits and new work go on."""

_LOOK_SECONDS: Final = 1.0
_TTLS: Final = (5.0, 10.0, 15.0)


@dataclass(frozen=True)
class Reported:
    """What a seed came to, when nothing was wrong."""

    seed: int
    trace: str
    steps: int
    statements: int
    owed: int
    outcomes: Counter[str]
    seen: Counter[str]
    seconds: float


class WatchedStore(Store):
    """Says which key each run was made for."""

    judge: Judge

    def insert_run(self, run: Run) -> None:
        if run.overlap_key is not None:
            self.judge.keys[run.id] = run.overlap_key
        super().insert_run(run)


class Simulation:
    """A cluster, its troubles and its judge."""

    def __init__(self, seed: int, store_type: type[WatchedStore] = WatchedStore) -> None:
        self.seed = seed
        self.world = World(seed)
        chance = self.world.chance
        self.size = Size(
            ttl=chance.choice(_TTLS),
            slots=chance.randint(1, 5),
            horizon=chance.choice((8.0, 20.0, 60.0)),
            prefetch=chance.choice((0, 3, 1000)),
        )
        self.judge = Judge(self.world)
        self.store = store_type(self._clock, chance)
        self.store.judge = self.judge
        self.ledger = Ledger()
        self.server = Server(self.world, self.store)
        self.place = Place(self.world, self.server, self.judge, self.size)
        self.story = Story(seed, self.place, self.store, self.ledger, TROUBLE_SECONDS)

    def run(self) -> Reported:
        """Raises Violation, or whatever else went wrong, in the middle of it."""
        gc.disable()  # what it would find is decided by what ran before this seed
        try:
            with installed(self.place.replacements(), self.seed):
                try:
                    return self._run()
                finally:
                    self.bury()
        finally:
            gc.enable()

    def _run(self) -> Reported:
        self.story.begin()
        self.world.call_at(_LOOK_SECONDS, self._look)
        self.world.run_until(TROUBLE_SECONDS)
        end = self._drain()
        owed = self.ledger.check(self.store)
        self._check_evidence()
        outcomes = Counter(ended.outcome for ended in self.store.history.values())
        self.world.report("end", sorted(outcomes.items()), owed)
        return Reported(
            self.seed,
            self.world.trace,
            self.world.steps,
            self.server.statements,
            owed,
            outcomes,
            self.judge.seen,
            end,
        )

    def _drain(self) -> float:
        """Once nothing disturbs any more, everything that is due ends."""
        now, longest = self.world.now, TROUBLE_SECONDS + 6 * self.size.ttl + 150
        while any(run.due_at <= self.store.now() + timedelta(seconds=30) for run in self._left()):
            if now > longest:
                left = sorted((r.id, r.state, r.hold, r.attempt, r.handler) for r in self._left())
                raise Violation(
                    f"not done after {now - TROUBLE_SECONDS:.0f} s of peace: {left[:5]}"
                )
            now += 2.0
            self.world.run_until(now)
        self.world.run_until(now + 2)
        return now

    def _left(self) -> list[Run]:
        return list(self.store.runs.values())

    def _check_evidence(self) -> None:
        """A run that succeeded was executed completely."""
        for run, ended in self.store.history.items():
            if ended.outcome == "succeeded" and ended.run.fence not in self.judge.completed:
                raise Violation(f"run {run} has succeeded, but not by the claim that it names")
            if ended.outcome == "lost" and ended.run.delivery != "at_most_once":
                raise Violation(f"run {run} is lost")

    def _look(self) -> None:
        self.judge.look()
        self.judge.look_for_outlaws()
        self.world.call_at(self.world.now + _LOOK_SECONDS, self._look)

    def _clock(self) -> datetime:
        return FIRST_INSTANT + timedelta(
            microseconds=round((self.world.now + self.place.clock_step) * 1e6)
        )

    def bury(self) -> None:
        for process in self.place.processes:
            process.is_alive = False
            process.bury()


def quietly(action: Callable[[], Reported]) -> Reported:
    """Without what the nodes say about themselves."""
    logger = logging.getLogger(LOGGER)
    before = logger.disabled
    logger.disabled = True
    try:
        return action()
    finally:
        logger.disabled = before


def simulate(seed: int) -> Reported:
    """Runs one seed; raises what it found, with the seed in its notes."""
    simulation = Simulation(seed)
    try:
        return quietly(simulation.run)
    except BaseException as error:
        error.add_note(f"seed {seed}; {simulation.size}; trouble:")
        error.add_note("\n".join(simulation.story.reported))
        error.add_note(f"again: python -m tests.simulation --seed {seed}")
        raise
