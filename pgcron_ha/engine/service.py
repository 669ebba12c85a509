"""What every service of a node is: a bounded `run_once`, and the loop around it."""

from __future__ import annotations

import asyncio
import random
from time import monotonic
from typing import Any, ClassVar, Final

from pgcron_ha.db.driver.link import Busy
from pgcron_ha.engine.batches import SetAside, known
from pgcron_ha.errors import PgcronError, Refused
from pgcron_ha.executors.contract.coroutines import wait_at_most
from pgcron_ha.telemetry.events import ServiceFailed
from pgcron_ha.telemetry.log import emit

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_LOCKED_PAUSE_SECONDS: Final = 1.0
# Shorter failures are not reported: the next tries usually succeed.
_MOMENT_SECONDS: Final = 1.0

MOST_UNKNOWN_FAILURES: Final = 50
"""After this many passes in a row with an unexpected exception the process ends: a new process may
do better.
"""


class Service:
    """Subclasses have a name, an interval in seconds, and `run_once`, which may be called at any
    time by a test.
    """

    name: ClassVar[str]
    longest_pass: ClassVar[float] = 30.0
    """A pass that takes more seconds than this is in trouble."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._wake = asyncio.Event()
        self._stopping = False
        self._go_on = asyncio.Event()
        self.good_at = monotonic()
        """When a pass last went well, or the service was made; `time.monotonic` seconds."""
        self.error: str | None = None
        """Why the last pass failed; None when it went well."""
        self.aside: SetAside[Any] = SetAside(self.name)
        """What the service goes on without."""
        self._failing_since: float | None = None
        self._pass_began: float | None = None

    async def run_once(self) -> float | None:
        """One bounded pass. Returns the seconds to the next one: 0 for at once, None for the
        interval.

        Raises PgcronError when the pass failed; it is tried again with back-off.
        """
        raise TypeError(f"{type(self).__name__} does nothing")

    @property
    def trouble(self) -> str | None:
        """Why no pass goes well, when it is no matter of an instant; None: nothing is wrong."""
        if self._stopping:
            return None
        if self._failing_since is not None:
            return self.error if monotonic() - self._failing_since > _MOMENT_SECONDS else None
        began = self._pass_began
        if began is not None and monotonic() - began > self.longest_pass:
            return f"its pass has not ended within {self.longest_pass:g} s"
        return None

    def wake(self) -> None:
        """The next pass begins at once. From the service's loop only."""
        self._wake.set()

    def retry(self) -> None:
        """The database answers: a back-off ends. From the service's loop only."""
        self._go_on.set()

    def went_well(self) -> None:
        """What failed before is over; a pass that lasts says so before it ends."""
        self.good_at, self.error, self._failing_since = monotonic(), None, None

    def stop(self) -> None:
        """The loop ends after the pass under way."""
        self._stopping = True
        self._wake.set()
        self._go_on.set()

    async def run(self) -> None:
        """Passes until `stop`: at the interval with jitter, sooner when woken, later when they
        fail.

        An exception that is no `PgcronError` is a failed pass, too; many in a row are raised.
        """
        failures = unknown = 0
        while not self._stopping:
            try:
                self._wake.clear()
                self._pass_began = monotonic()
                wait = await self.run_once()
            except Exception as error:
                failures += 1
                unknown = 0 if isinstance(error, PgcronError) else unknown + 1
                if unknown >= MOST_UNKNOWN_FAILURES:
                    raise
                self._pass_began = None
                await self._back_off(known(error), failures)
            else:
                failures = unknown = 0
                self._pass_began = None
                self.went_well()
                if wait is None:
                    wait = self.interval * random.uniform(0.75, 1.25)
                await self.rest(wait)

    async def _back_off(self, error: PgcronError, failures: int) -> None:
        self.error, wait = reported(error), backoff(failures)
        self._failing_since = self._failing_since or monotonic()
        if isinstance(error, Busy):  # it has waited for the lock already, and goes on soon after it
            wait = min(wait, _LOCKED_PAUSE_SECONDS)
        emit(ServiceFailed(self.name, self.error, wait))
        # A wake-up does not cut a back-off short, or a dead database would be hammered; only `stop`
        # and `retry` do.
        self._go_on.clear()
        if not self._stopping:
            await wait_at_most(self._go_on, wait)

    async def rest(self, seconds: float) -> None:
        """Waits for a wake-up, at most `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        await wait_at_most(self._wake, seconds)


def reported(error: PgcronError) -> str:
    """What failed; of a right that a node lacks, also where it comes from."""
    if not isinstance(error, Refused):
        return error.message
    return f"{error.message}; a node has the rights of the role that migrated, or it is GRANTed one"


def backoff(failures: int) -> float:
    """Seconds to wait after this number of failures in a row: exponential, full jitter, bounded."""
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(failures, 10))
    return random.uniform(_FIRST_PAUSE_SECONDS / 2, longest)
