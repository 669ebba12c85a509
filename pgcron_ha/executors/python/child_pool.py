"""Executes isolated ``py:`` handlers in warm child processes, each one run at a time.

They are fresh interpreters that import the Apps by their names, not copies of a process with
threads. A run that finds one waiting costs a fraction of a millisecond; one that does not waits for
an interpreter and the imports of the Apps. They are started by a supervisor of their own, so they
die with the node and with its lease. A process is replaced after a number of runs, when it has
grown, and when a run has left processes behind.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import Failure, ignore_failure
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.outcome import Outcome
from pgcron_ha.executors.contract.previous import Source
from pgcron_ha.executors.python.child_loop import ChildLoop
from pgcron_ha.executors.python.handler import PythonHandler
from pgcron_ha.executors.python.isolation import Isolation

_KILL_SECONDS: Final = 5.0
"""How long `close` waits for what it has killed."""


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """How a child is started. ``code`` is Python that serves on descriptor 3, ``opening`` what it
    is told first; ``inherit`` are descriptors that stay open until the last child is gone.
    """

    code: str
    opening: Mapping[str, Any]
    inherit: Sequence[int] = ()


def isolations_of(
    handlers: Mapping[str, PythonHandler], program: ChildProgram | None
) -> dict[str, Isolation]:
    """Those of the isolated handlers, by full name. Raises `ConfigError` if there are some and no
    ``program`` for a child.
    """
    every = {name: handler.isolation for name, handler in handlers.items()}
    isolated = {name: each for name, each in every.items() if each is not None}
    if isolated and program is None:
        raise ConfigError(
            f"the isolated handler {min(isolated)!r} can't have a process of its own",
            "A fresh process finds handlers by the name of their App.",
            "Start the node with --app module:attribute.",
        )
    return isolated


class ChildPool:
    """At most ``limit`` processes. ``isolations`` are those of the handlers by full name.

    ``done`` is called once for each context given to `start`, from the pool's thread, when its run
    has really ended.
    """

    def __init__(
        self,
        program: ChildProgram,
        isolations: Mapping[str, Isolation],
        done: Callable[[Context, Outcome], None],
        limit: int,
        previous: Source = None,
        failed: Failure = ignore_failure,
    ) -> None:
        """Without ``previous`` their handlers can't ask for the run before."""
        self._is_closing = False
        self._failed = failed
        self._ended: Future[None] = Future()
        self._loop = ChildLoop(
            program.code, program.opening, program.inherit, isolations, done, limit, previous
        )
        self._thread = threading.Thread(target=self._run, name="pgcron-children", daemon=True)
        self._thread.start()

    def start(self, context: Context) -> None:
        """Hand it to a warm process, or to the next that is."""
        self._loop.report("start", context)

    def stop(self, context: Context) -> None:
        """Ask its handler to stop, for ``context.stop_reason``."""
        self._loop.report("stop", context)

    def kill(self, context: Context) -> None:
        """SIGKILL to its process and all that stem from it."""
        self._loop.report("kill", context)

    def renew_lease(self, deadline: float) -> None:
        """The supervisor kills everything at this instant, even if this process is frozen."""
        self._loop.renew_lease(deadline)

    async def close(self) -> None:
        """Kill what still runs, end all processes, the supervisor and the thread."""
        if self._is_closing:
            return
        self._is_closing = True
        self._loop.report("kill all")
        nothing_left, ended = map(asyncio.wrap_future, (self._loop.nothing_left, self._ended))
        await asyncio.wait(
            {nothing_left, ended}, timeout=_KILL_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        self._loop.report("end")
        await ended
        self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.serve()
        except BaseException as error:
            self._failed(error)
            raise
        finally:
            self._ended.set_result(None)
