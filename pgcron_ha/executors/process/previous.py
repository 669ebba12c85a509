"""Programs that are told how the run before theirs ended: asked for before they are started."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import CancelledError, Future

from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.executors.contract.attempt import StopReason
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import outcome_of_error
from pgcron_ha.executors.contract.outcome import Outcome, stopped_early
from pgcron_ha.executors.contract.previous import (
    AsksDatabase,
    Previous,
    find_previous,
    not_reported,
)


class PreviousDesk:
    """The runs that wait for the answer. Belongs to the shell's thread; the database is asked on
    the event loop where this was made.
    """

    def __init__(self, database: AsksDatabase) -> None:
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._asked: dict[Context, Future[Previous | None]] = {}

    @property
    def waiting(self) -> list[Context]:
        """Those whose answer was not taken yet."""
        return list(self._asked)

    def ask(self, context: Context, answered: Callable[[], None]) -> None:
        """``answered`` is called once, in whichever thread knows first; then `take` it."""
        finding = find_previous(self._database, context)
        asked = self._asked[context] = asyncio.run_coroutine_threadsafe(finding, self._loop)
        asked.add_done_callback(lambda _: answered())

    def stop(self, context: Context) -> None:
        """Nobody waits for the answer any more; then it counts as answered."""
        if context in self._asked:
            self._asked[context].cancel()

    def take(self, context: Context) -> Outcome | None:
        """Keep the answer in the context; the outcome of the run if there is none."""
        try:
            context._previous_found = self._asked.pop(context).result()
        except CancelledError:
            return stopped_early(context.stop_reason or StopReason.SHUTDOWN)
        except DatabaseUnavailable as error:
            return not_reported(error)
        except Exception as error:
            return outcome_of_error(error, context)
        return None
