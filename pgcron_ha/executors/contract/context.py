"""`Context`: what a handler knows about its run, and what it may do with it."""

from __future__ import annotations

import threading
from typing import Any

from pgcron_ha.db.driver.transactions import Isolation
from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract import assets
from pgcron_ha.executors.contract.attempt import Attempt, Stream
from pgcron_ha.executors.contract.log_lines import RunLog
from pgcron_ha.executors.contract.previous import AskedPrevious
from pgcron_ha.executors.contract.progress import checked
from pgcron_ha.executors.contract.transaction import RunTransaction, TransactionBlock

_creation = threading.Lock()


class Context(Attempt):
    """One attempt of one run, as its handler sees it.

    ``run_id`` and ``run_uuid`` name the run, ``handler`` is its full name (``py:report``),
    ``attempt`` counts from 1 to ``max_attempts``. ``schedule`` is the schedule's name and
    ``fire_time`` the aware UTC instant of the occurrence; both are None for enqueued runs; a step
    has the fire time of its workflow. ``token`` is this claim's fence in the database; ``fence`` is
    a number that only grows, for outside stores that must refuse an older holder.
    ``idempotency_key`` is the same for every attempt. ``timeout`` is in seconds, None means no
    limit. ``delivery`` is ``at_least_once``, ``at_most_once`` or ``transactional``. ``origin`` is
    how the run came about: ``schedule`` (a fire), ``backfill``, ``manual`` (the schedule was run by
    hand), ``enqueued``, ``rerun`` (tried again by hand, or by a backfill), ``redrive`` or ``step``
    (of a workflow).
    ``started_monotonic`` is the `time.monotonic` instant at which the handler began,
    ``stop_reason`` why it was asked to stop; both are None before.
    """

    __slots__ = ()
    _log: RunLog | None
    _transaction: RunTransaction | None

    def connection(self, isolation: Isolation = "read_committed") -> TransactionBlock:
        """A connection to the product's database, inside the transaction that completes this run.

        ``async with context.connection() as connection`` gives an asyncpg connection, a plain
        ``with`` (in plain functions) one whose ``execute``, ``fetch``, ``fetchrow``, ``fetchval``
        and ``executemany`` wait. What is done there is committed together with the run's
        completion when the handler returns, and only if this claim still holds the run: once,
        whatever dies. It is rolled back when the handler fails, and what one block did when the
        block fails. The transaction is not ended by the handler; an idle one is ended by the
        server after a minute. Raises `InvalidInput` for a run with another delivery.
        """
        if self._transaction is None:
            raise InvalidInput(
                f"run {self.run_id} has no transaction: its delivery is {self.delivery}",
                "Only with transactional, and in a py: handler of the node's own process, effects"
                " and completion are committed together.",
                "Ask for the run, or define its schedule, with delivery => 'transactional'.",
            )
        return TransactionBlock(self._transaction, isolation)

    def previous(self) -> AskedPrevious:
        """How the run of the schedule's fire before this one ended, and what it returned.

        ``await context.previous()`` gives a `pgcron_ha.executors.contract.previous.Previous`, in a
        plain function ``context.previous().wait()``; None for the first, and for runs without a
        schedule. Runs by hand and skipped fires are passed over. Raises DatabaseUnavailable, and
        `InvalidInput` where the handler is no ``py:`` one.
        """
        source = None if self._services is None else self._services.previous
        if source is None and self.schedule is not None:
            raise InvalidInput(
                f"run {self.run_id} can't ask for the one before it",
                "Only py: handlers of a node can; templates have previous = true instead.",
                "Ask in SQL: pgcron.previous_of(run_id, token).",
            )
        return AskedPrevious(source, self)

    def update_asset(self, name: str, metadata: dict[str, Any] | None = None) -> None:
        """Say that this run has updated an asset: the schedules on it run once each of their
        assets was.

        It is so once the run has succeeded, in the transaction that says so; a run that fails has
        updated nothing. ``metadata`` is a JSON object of at most 4096 bytes; of one asset the last
        call counts. Thread-safe. Raises `InvalidInput` for a name or metadata that no asset has,
        and beyond 100 assets.
        """
        kept = assets.checked_metadata(name, metadata, self._masker)
        self._declare("assets", name, kept, assets.MOST_UPDATES, "Name what they make up together.")

    def add_step(
        self, name: str, handler: str, args: dict[str, Any] | None = None, **keys: Any
    ) -> None:
        """Add a step to this run's workflow, where only this run knows which there are to be.

        It is added once the run has succeeded, in the transaction that says so; a run that fails
        has added nothing. The steps that a run adds are a workflow within its step: that is over
        when they are, and has their result, so what comes after it waits for them. ``handler`` is
        a full name (``py:resize``); ``keys`` are those that a step has in a file: ``after`` names
        others that this run added before, ``rule``, ``when``, ``queue``, ``timeout`` ("90 s"), and
        so on; ``$.args`` of paths are the args of the workflow. Of one name the last call counts.
        Thread-safe. Raises `InvalidInput` for what JSON does not have, for a run that is no step,
        and beyond 1,000 steps; what else no step may have ends the run as failed.
        """
        if self.origin != "step":
            raise InvalidInput(
                f"run {self.run_id} can't add step {name!r:.200}",
                "Only a run that is a step of a workflow adds steps.",
                "Start a workflow of them: `await app.start(…)`.",
            )
        step = {"name": name, "handler": handler, "args": args or {}, **keys}
        instead = "Return a list, and let a step with `for_each` go through it."
        self._declare("steps", name, assets.checked_step(name, step), assets.MOST_STEPS, instead)

    def _declare(self, kind: str, name: str, value: Any, most: int, instead: str) -> None:
        with _creation:
            declared = self._declared = self._declared or {}
            of_kind = declared.setdefault(kind, {})
            of_kind[name] = value
            named = len(of_kind)
        if named > most:
            raise InvalidInput(
                f"run {self.run_id} has named {named} {kind}",
                f"A run names at most {most} {kind}.",
                instead,
            )

    def log(self, line: str, stream: Stream = "log") -> None:
        """Add to the run's log; a text of several lines becomes several. Thread-safe."""
        log = self._open_log()
        if log is not None:
            for part in str(line).split("\n"):
                log.write_line(stream, part)

    def beat(self) -> None:
        """Report that the run is alive, as often as you like: its silence timeout starts again.

        Each line and each progress report does the same. Thread-safe.
        """
        self.gave_sign = True
        if self._services is not None:
            self._services.sink.beat(self)

    def progress(self, done: float, total: float | None = None, note: str | None = None) -> None:
        """Report how far the run is, as often as you like. Thread-safe.

        The latest report is kept, written at most once a second, and shown while the run executes.
        Negative and infinite numbers are not recorded; a note has one line of 200 characters.
        """
        self.gave_sign = True
        progress = checked(done, total, note, self._masker)
        if progress is not None and self._services is not None:
            self._services.sink.progress(self, progress)

    def _open_log(self) -> RunLog | None:
        """The run's log, made when it is first written to; None outside an executor."""
        if self._log is None and (services := self._services) is not None:
            with _creation:
                if self._log is None:
                    self._log = RunLog(self, services.sink)
        return self._log
