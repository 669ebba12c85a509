"""Guards of the protocol, each taken away for the time of a seed: the simulation must notice.

A guard of the database is taken from the stand-in, one of the node from the engine's own class.

Not among them, as it was not noticed in 150 seeds: a lease that counts from the answer of a beat
instead of from its sending. The margins (handlers stop at 0.65 of the lease, an answer comes
within a quarter of it) leave hardly a history that shows it; tests/unit/test_lease.py has the rule.
Nor a burial by one that is dead itself, which one seed in thousands shows: test_found.py tells it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.executors.contract.base import Interrupted, StopReason
from tests.product.engine import completer, lease, node, runner
from tests.product.engine import reconcile_module as reconcile
from tests.simulation import retries
from tests.simulation.simulate import simulate
from tests.simulation.store import Store
from tests.simulation.tables import Cursor, NodeRow, Run


@dataclass(frozen=True)
class Mutant:
    """What is replaced by what, and why that can't be borne."""

    name: str
    where: Any
    what: str
    by: Callable[..., Any]
    shows_soon: bool = True
    seen_at: int = 1
    """A seed that has shown it, looked at first. Any change of what nodes send moves the histories;
    then it is hunted, and this number only wants to be written again.
    """

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Inside, the guard is gone."""
        original = getattr(self.where, self.what)
        setattr(self.where, self.what, self.by)
        try:
            yield
        finally:
            setattr(self.where, self.what, original)


def seeds_until_caught(mutant: Mutant, most: int) -> tuple[int, str] | None:
    """(the seed that shows it, what was seen), or None after that many."""
    with mutant.at_work():
        for seed in (mutant.seen_at, *range(1, most + 1)):
            try:
                simulate(seed)
            except Exception as error:
                return seed, str(error).splitlines()[0][:100] or type(error).__name__
    return None


def _any_token(self: Store, run: Run | None, token: object) -> bool:
    return run is not None and run.state == "running"


def _any_beat(self: Store, node: NodeRow, beat_sequence: int) -> bool:
    return node.state != "dead"


def _any_generation(self: Store, cursor: Cursor, generation: int, watermark: object) -> bool:
    return True


def _any_key(self: Store, concurrency_key: int, first: Run) -> bool:
    return True


def _always_retry(run: Run, failure: retries.Failure) -> str:
    return "retry"


def _no_phase(self: node.Node, phase: lease.LeasePhase) -> None:
    pass


def _silent_at_once(self: reconcile.PeerWatch, now: float) -> list[Any]:
    return [(peer, sequence) for peer, (sequence, _, _) in self._seen.items()]


def _is_stopped(ended: runner.Ended) -> bool:
    outcome = ended[1]
    return isinstance(outcome, Interrupted) and outcome.reason is StopReason.SHUTDOWN


def _no_reconciliation(*_: Any) -> reconcile.Reconciliation:
    return reconcile.Reconciliation([], [], [], {})


def _release_at_once(
    beat: reconcile.Beat, held: Any, unknown: Any, settled_at: float
) -> reconcile.Reconciliation:
    seen_before = {run: (token, float("-inf")) for run, token in beat.runs.items()}
    return reconcile.reconcile(beat, held, seen_before, float("inf"))


MUTANTS: Final = (
    Mutant("the token is not asked for", Store, "holds", _any_token, shows_soon=False),
    Mutant(
        "death without looking at the beat", Store, "may_declare_dead", _any_beat, shows_soon=False
    ),
    Mutant(
        "no compare-and-set of the cursor",
        Store,
        "is_undecided",
        _any_generation,
        shows_soon=False,
        seen_at=28,
    ),
    Mutant("a concurrency key is not looked at", Store, "may_take_key", _any_key, seen_at=14),
    Mutant("a retry without end", retries, "_verdict", _always_retry),
    Mutant("a node does not fence itself", node.Node, "_on_phase", _no_phase, seen_at=33),
    Mutant(
        "no comparison with the beat",
        node,
        "reconcile",
        _no_reconciliation,
        shows_soon=False,
        seen_at=4,
    ),
    Mutant("unknown claims are released at once", node, "reconcile", _release_at_once, seen_at=37),
    Mutant(
        "the server's clock alone is believed",
        reconcile.PeerWatch,
        "silent",
        _silent_at_once,
        shows_soon=False,
    ),
    Mutant(
        "a run that may start once is given back",
        completer,
        "is_release",
        _is_stopped,
        shows_soon=False,
    ),
)
