"""Executes ``shell:`` templates: programs with a fixed argument vector, never a shell.

One thread reads the output of all runs and speaks with the supervisor, which starts the programs
and ends them, also when this node is dead or frozen. A line ``::progress 3/10 copying`` that a
program prints is no line of its log but says how far it is (`progress`).

A program knows its run by PGCRON_RUN_ID, PGCRON_ATTEMPT, PGCRON_TOKEN, PGCRON_FENCE,
PGCRON_IDEMPOTENCY_KEY, PGCRON_SCHEDULE, PGCRON_FIRE_TIME, PGCRON_ORIGIN (``schedule``,
``backfill``, ``manual``, ``enqueued``, ``rerun`` or ``redrive``) and PGCRON_ARGS_FILE. With
``previous = true`` it knows the schedule's run before this one, too, by PGCRON_PREVIOUS_RUN_ID,
PGCRON_PREVIOUS_OUTCOME, PGCRON_PREVIOUS_FIRE_TIME and PGCRON_PREVIOUS_FINISHED_AT, empty without
one, and all of it, its result and error too, as JSON in the file PGCRON_PREVIOUS_FILE (``null``
without one); an attempt whose answer does not come within 10 s is tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.executors.contract.attempt import LogSink, StopReason
from pgcron_ha.executors.contract.base import Done, Failure, Feed, ignore_failure
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.process.command import account_of, can_reach
from pgcron_ha.executors.process.loop import ShellLoop
from pgcron_ha.executors.process.previous import PreviousDesk

if TYPE_CHECKING:
    from pgcron_ha.db.driver.transactions import Transactions

_KILL_SECONDS = 5.0
"""How long `close` waits for what it has killed."""


class ShellExecutor:
    """An `Executor` for the templates of the node's configuration.

    ``inherit`` are descriptors (the lock of the state directory) that stay open until this node and
    all its children are gone. Args files are written below ``directory``, or below the system's
    directory for temporary files if a template's user could not reach them there. ``transactions``
    find the run before where a template is told of it; they are closed with this. Raises
    `ConfigError` for a template whose user is missing (the node is root), unknown or not possible.
    """

    kind: ClassVar[str] = "shell"

    def __init__(
        self,
        templates: Mapping[str, ShellTemplate],
        done: Done,
        feed: Feed,
        sink: LogSink,
        inherit: Sequence[int] = (),
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        transactions: Transactions | None = None,
        failed: Failure = ignore_failure,
    ) -> None:
        offered = {f"shell:{each.name}": (each, account_of(each)) for each in templates.values()}
        accounts = [account for _, account in offered.values() if account is not None]
        if directory is not None and not all(can_reach(directory, each) for each in accounts):
            directory = None
        self._handlers = frozenset(offered)
        self._directory = Path(tempfile.mkdtemp(prefix="pgcron-ha-", dir=directory))
        # Others may pass through, to the file that is their own, but not list it.
        self._directory.chmod(0o711 if accounts else 0o700)
        self._closing = False
        self._ended: Future[None] = Future()
        self._loop = ShellLoop(
            offered,
            done,
            feed,
            sink,
            tuple(inherit),
            self._directory,
            os.environ if environment is None else environment,
            None if transactions is None else PreviousDesk(transactions),
        )
        self._transactions = transactions
        self._failed = failed
        self._thread = threading.Thread(target=self._run, name="pgcron-shell", daemon=True)
        self._thread.start()

    def handlers(self) -> frozenset[str]:
        """The full names of the templates."""
        return self._handlers

    def start(self, contexts: Sequence[Context]) -> None:
        """Hand all over to the thread."""
        self._loop.report(("start", contexts))
        if self._ended.done():
            self._loop.refuse_waiting()

    def stop(self, context: Context, reason: StopReason) -> None:
        """SIGTERM to the run's process group, and SIGKILL when the template's grace is over."""
        if context.stop_reason is None:
            context.stop_reason = reason
            self._loop.report(("stop", (context,)))

    def kill(self, context: Context) -> bool:
        """SIGKILL to the run's process group."""
        if context.stop_reason is None:
            context.stop_reason = StopReason.CANCELLED
        self._loop.report(("kill", (context,)))
        return True

    def renew_lease(self, deadline: float) -> None:
        """The supervisor kills everything at this instant, even if this process is frozen."""
        self._loop.renew_lease(deadline)

    async def close(self, grace: float) -> None:
        """Stop all runs, kill them after ``grace`` seconds, end the supervisor and the thread."""
        if self._closing:
            return
        self._closing = True
        self._loop.report(("close", ()))
        nothing_left, ended = map(asyncio.wrap_future, (self._loop.nothing_left, self._ended))
        first = asyncio.FIRST_COMPLETED
        await asyncio.wait({nothing_left, ended}, timeout=grace, return_when=first)
        if not nothing_left.done():
            self._loop.report(("kill all", ()))
            await asyncio.wait({nothing_left, ended}, timeout=_KILL_SECONDS, return_when=first)
        self._loop.report(("end", ()))
        await ended
        self._thread.join()
        if self._transactions is not None:
            await self._transactions.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._directory)

    def _run(self) -> None:
        try:
            self._loop.serve()
        except BaseException as error:
            self._failed(error)
            self._loop.break_off()
            raise
        finally:
            self._ended.set_result(None)
