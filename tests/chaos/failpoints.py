"""What a network or a scheduler does at the worst moment, done inside the node by a seed.

Every statement of a node goes through `Link`, whose one method that sends is wrapped here, in the
tests' own program only: the product has no trace of it. Black-box faults hide what these show: an
answer lost after the commit, or so late that the node has lost its lease and got another; a node
frozen between its last look at the lease and the commit; a decision made long after it was read.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from tests.chaos import record
from tests.product.db import Link, Unanswered
from tests.product.engine import recorder

VARIABLE: Final = "CHAOS_FAILPOINTS"
SWITCH: Final = "CHAOS_SWITCH"
"""Names a file; failpoints do something only while it is there."""

LOSABLE: Final = frozenset(
    {
        *("claim", "claim_gated", "admit_overlap", "finish_runs", "fail_runs"),
        *("release_runs", "expire_runs", "materialize", "beat", "reap_these", "append_lines"),
        *("start_claimed_workflows", "advance_workflow"),
    }
)
"""What changes something, and may then be sent again, or never be sent again."""

ENDINGS: Final = frozenset({"finish_runs", "fail_runs", "release_runs", "start_claimed_workflows"})
"""Before these a frozen node is a zombie: it comes back with the end of a run it has lost."""

CAREFUL: Final = frozenset({"claim", "claim_gated"})
"""Their rows are of another incarnation, and others may have them, when they come too late."""

ONE_NODE: Final = "n1"
"""Only its renewals are answered late: an observer that is as late would see nothing of it."""

DECISIONS: Final = frozenset({"materialize", "declare_dead"})
"""Read, decided, and only then sent: a compare-and-set must notice what happened meanwhile."""


@dataclass(frozen=True)
class Failpoints:
    """Probabilities for each statement; `beat_delay`, how late each renewal is answered, in leases;
    and how far the node's wall clock is off.
    """

    seed: int = 0
    ttl: float = 2.0
    lost: float = 0.0
    frozen: float = 0.0
    slow: float = 0.0
    late: float = 0.0
    beat_delay: float = 0.0
    skew_seconds: float = 0.0

    def as_facts(self) -> dict[str, Any]:
        """For the environment of a node."""
        return asdict(self)


def install(points: Failpoints) -> None:
    """In this process, before the node starts."""
    chance = random.Random(points.seed)
    switch = os.environ[SWITCH]
    send = Link._send

    async def send_or_fail(link: Link, name: str, parameters: dict[str, Any]) -> Any:
        if not os.path.exists(switch):
            return await send(link, name, parameters)
        if name in DECISIONS and chance.random() < points.slow:
            seconds = chance.uniform(0.1, 1.2) * points.ttl
            record.write("slow", statement=name, seconds=seconds)
            await asyncio.sleep(seconds)
        if name in ENDINGS and chance.random() < points.frozen:
            freeze(chance.uniform(1.1, 1.8) * points.ttl)
        rows = await send(link, name, parameters)
        if name == "beat" and points.beat_delay and os.environ["CHAOS_NODE"] == ONE_NODE:
            await asyncio.sleep(points.beat_delay * points.ttl)
        if name in CAREFUL and rows and chance.random() < points.late:
            # The session's thread notices first that this node was dead, and joins anew.
            record.write("late", statement=name)
            freeze(chance.uniform(1.2, 1.6) * points.ttl)
            await asyncio.sleep(chance.uniform(0.3, 0.8) * points.ttl)
        if name in LOSABLE and chance.random() < points.lost:
            record.write("lost", statement=name)
            link.drop()
            raise Unanswered("the connection to the database broke", "a failpoint broke it")
        return rows

    Link._send = send_or_fail  # type: ignore[assignment, method-assign]
    if points.skew_seconds:
        recorder.datetime = clock_ahead_by(points.skew_seconds)  # type: ignore[attr-defined]


def freeze(seconds: float) -> None:
    """SIGSTOP to this process; somebody else lets it go on."""
    pid = os.getpid()
    record.write("freeze", of=pid, seconds=seconds)
    subprocess.Popen(
        ["/bin/sh", "-c", f"sleep {seconds:.3f}; kill -CONT {pid}"],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.kill(pid, signal.SIGSTOP)


def clock_ahead_by(seconds: float) -> type[datetime]:
    """A `datetime` whose now is wrong, as on a node whose clock was never set."""

    class SkewedDatetime(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=seconds)

    return SkewedDatetime
