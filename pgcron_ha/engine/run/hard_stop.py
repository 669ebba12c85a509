"""The end of a process whose handlers go on without a lease: nothing else ends them in time."""

from __future__ import annotations

import os
import threading
from typing import Final

from pgcron_ha.engine.lease.lease import Lease, LeasePhase
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.events import ServiceFailed
from pgcron_ha.telemetry.log import emit

LAST_RESORT_SECONDS: Final = 1.0
"""Between the kill of what ran without a lease and the end of the process, for handlers that only
need a moment; half of what is left of the lease at most, so that the end comes before its end.
"""

EXIT_WITHOUT_LEASE: Final = 71
"""The status of such a process."""


def end_soon(runner: Runner, lease: Lease) -> None:
    """After a moment, unless what can't be killed has ended by then or the lease is back."""
    timer = threading.Timer(min(LAST_RESORT_SECONDS, 0.05 * lease.ttl), _end, (runner, lease))
    timer.daemon = True
    timer.start()


def _end(runner: Runner, lease: Lease) -> None:
    if lease.phase(boottime()) is LeasePhase.OVER and runner.kill_stopped(grace=0):
        message = "handlers do not stop although the lease is over; this process ends"
        emit(ServiceFailed("node", message, 0.0))
        os._exit(EXIT_WITHOUT_LEASE)
