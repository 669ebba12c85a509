"""What every service of a node is: a bounded `run_once`, and a loop around it that is written
once.
"""

from __future__ import annotations

import asyncio
import random
from typing import ClassVar, Final

from pgcron_ha.errors import PgcronError, Refused
from pgcron_ha.telemetry.events import ServiceFailed
from pgcron_ha.telemetry.log import emit

_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.25


class Service:
    """Subclasses have a name, an interval in seconds, and `run_once`, which may be called at any
    time by a test.
    """

    name: ClassVar[str]

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._wake = asyncio.Event()
        self._stopping = False
        self._may_retry = False

    async def run_once(self) -> float | None:
        """One bounded pass. Returns the seconds to the next one: 0 for at once, None for the
        interval.

        Raises PgcronError when the pass failed; it is tried again with back-off.
        """
        raise TypeError(f"{type(self).__name__} does nothing")

    def wake(self) -> None:
        """The next pass begins at once. From the service's loop only."""
        self._wake.set()

    def retry(self) -> None:
        """The database answers: a back-off ends. From the service's loop only."""
        self._may_retry = True

    def stop(self) -> None:
        """The loop ends after the pass under way."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Passes until `stop`: at the interval with jitter, sooner when woken, later when they
        fail.
        """
        failures = 0
        while not self._stopping:
            try:
                self._wake.clear()
                wait = await self.run_once()
                failures = 0
            except PgcronError as error:
                failures += 1
                wait = backoff(failures)
                emit(ServiceFailed(self.name, told(error), wait))
                await self._pause(
                    wait
                )  # a wake-up does not cut a back-off short, or a dead database would be hammered
                continue
            if wait is None:
                wait = self.interval * random.uniform(0.75, 1.25)
            await self.rest(wait)

    async def rest(self, seconds: float) -> None:
        """Waits for a wake-up, at most `seconds`."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    async def _pause(self, seconds: float) -> None:
        self._may_retry = False
        end = asyncio.get_running_loop().time() + seconds
        # `stop` and `retry` must cut it short, `wake` must not: no event says just that.
        while not (self._stopping or self._may_retry):
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.sleep(min(left, _LOOK_SECONDS))


def told(error: PgcronError) -> str:
    """What failed; of a right that a node lacks, also where it comes from."""
    if not isinstance(error, Refused):
        return error.message
    return f"{error.message}; a node has the rights of the role that migrated, or it is GRANTed one"


def backoff(failures: int) -> float:
    """Seconds to wait after so many failures in a row: exponential with full jitter, bounded."""
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** min(failures, 10))
    return random.uniform(_FIRST_PAUSE_SECONDS / 2, longest)
