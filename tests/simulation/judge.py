"""Who executed what and when, and what must never be seen."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from pgcron_ha.executors.contract.base import Context
from tests.simulation.world import Process, World

if TYPE_CHECKING:
    from tests.simulation.handlers import SimulatedExecutor

# From the end of the lease to the end of the process that can't stop a handler, and for callbacks
# that are a little late.
LAST_RESORT_SECONDS: Final = 1.0
_LATE_SECONDS: Final = 0.3


class Violation(AssertionError):
    """The simulation saw what must never be."""


class Execution:
    """One attempt, from the handler's first step to its last."""

    def __init__(
        self, context: Context, process: Process, executor: SimulatedExecutor, is_stubborn: bool
    ) -> None:
        self.context = context
        self.process = process
        self.executor = executor
        self.is_stubborn = is_stubborn
        self.has_ended = False

    def grace(self) -> float:
        ttl = self.executor.ttl
        return min(LAST_RESORT_SECONDS, 0.1 * ttl) if self.is_stubborn else 0.0

    def is_live(self) -> bool:
        """Whether it may have an effect now: a frozen handler can't, and one that looks at its
        lease won't when it is over.
        """
        if self.has_ended:
            return False
        if self.executor.is_supervised:
            return True
        if not self.process.is_alive or self.process.frozen:
            return False
        return self.process.boottime() < self.executor.deadline + self.grace()

    def __str__(self) -> str:
        context = self.context
        return f"run {context.run_id} attempt {context.attempt} on {self.process.name}"


class Judge:
    """Told by the handlers what they do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.live: list[Execution] = []
        self.keys: dict[int, int] = {}
        self.begun: Counter[int] = Counter()
        self.completed: set[int] = set()
        """Fence numbers of the claims whose handler came to its end."""
        self.seen: Counter[str] = Counter()

    def begins(self, execution: Execution) -> None:
        context = execution.context
        self._world.report("begins", context.run_id, context.attempt, execution.process.name)
        self.begun[context.run_id] += 1
        if context.delivery == "at_most_once" and self.begun[context.run_id] > 1:
            self._fail(f"{execution}: it may start only once")
        self.live.append(execution)
        self.look()

    def completes(self, execution: Execution) -> None:
        self.completed.add(execution.context.fence)

    def ends(self, execution: Execution) -> None:
        if not execution.has_ended:
            execution.has_ended = True
            self.live.remove(execution)
            self._world.report("ends", execution.context.run_id, execution.process.name)

    def look(self) -> None:
        """No two live executions of one run or of one key."""
        seen: dict[object, Execution] = {}
        for execution in self.live:
            if not execution.is_live():
                continue
            run = execution.context.run_id
            concurrency_key = self.keys.get(run)
            for key in (("run", run), ("concurrency_key", concurrency_key)):
                other = seen.get(key)
                if other is not None and key[1] is not None:
                    self._fail(f"{execution} beside {other}: one {key[0]}")
                seen[key] = execution

    def look_for_outlaws(self) -> None:
        """Nothing executes in a running process whose lease has been over for long."""
        for execution in self.live:
            process = execution.process
            if process.frozen or not process.is_alive or execution.executor.is_supervised:
                continue
            since = max(process.true_time(execution.executor.deadline), process.resumed_at)
            if self._world.now - since > LAST_RESORT_SECONDS + _LATE_SECONDS:
                self._fail(f"{execution} runs without a lease")

    def _fail(self, sentence: str) -> None:
        raise Violation(sentence)
