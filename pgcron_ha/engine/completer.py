"""Tells the database how runs ended: batches, fenced by token, and never in doubt for long.

While one batch is under way the next one gathers, so that a lone run is told at once and a burst
costs one statement. A batch whose answer got lost is sent again with the same tokens; what is then
refused is looked up by its fence number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.link import Busy, Link, NoPartition, Unanswered
from pgcron_ha.engine.counting import count_failures, count_successes
from pgcron_ha.engine.recorder import Recorder
from pgcron_ha.engine.runner import Ended, Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.executors.base import (
    SUCCEEDED,
    Committed,
    Context,
    Doubtful,
    Failed,
    Interrupted,
    Outcome,
    StopReason,
    Succeeded,
)
from pgcron_ha.executors.failures import causes_of
from pgcron_ha.executors.fingerprints import fingerprint_of
from pgcron_ha.telemetry.events import MoreRunsFailed, RunFailed, RunFenced, RunsReleased
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Completions in one statement: beyond this the statement's own time outweighs what is saved."""

TOLD_SINGLY: Final = 10
"""Failed runs of one batch that are named in the node's own log."""

_TEXT_LIMIT: Final = 16_000
"""Characters kept of an error or traceback in the database."""

_KINDS: Final = {
    StopReason.CANCELLED: "cancelled",
    StopReason.TIMED_OUT: "timed_out",
    StopReason.SILENT: "timed_out",
    StopReason.GIVEN_UP: "timed_out",
    StopReason.LEASE_LOST: "lease_lost",
    StopReason.SHUTDOWN: "lease_lost",
}

_WHY: Final = {
    StopReason.TIMED_OUT: "it executed longer than its timeout",
    StopReason.SILENT: "it gave no sign for its silence timeout (no line, no progress, no beat)",
    StopReason.GIVEN_UP: "its time in all was over",
}


@dataclass(slots=True)
class _Told:
    """What a batch came to: what is over, and what the database refused."""

    over: list[Context]
    refused: list[Context]


_Send = Callable[[Sequence[Ended]], Awaitable[_Told]]


class Completer(Service):
    """Takes what ended from the runner and makes it durable."""

    name: ClassVar[str] = "completer"

    def __init__(
        self, link: Link, node: str, runner: Runner, recorder: Recorder, freed: Callable[[], None]
    ) -> None:
        """`node` is this node's name; `freed` is called after each batch."""
        super().__init__(interval=1.0)
        self._link = link
        self._node = node
        self._runner = runner
        self._recorder = recorder
        self._freed = freed
        self._pending: list[Ended] = []
        self._resent: set[Context] = set()
        self.completed = 0
        """Runs whose end was acknowledged, since the node began."""

    def add(self, ended: list[Ended]) -> None:
        """Takes what ended. On the engine's loop."""
        self._pending.extend(ended)
        self.wake()

    @property
    def is_empty(self) -> bool:
        """Whether everything that ended has been told."""
        return not self._pending

    async def run_once(self) -> float | None:
        """One batch of each kind. Raises DatabaseUnavailable after an unknown outcome; the batch
        stays pending.
        """
        batch = self._pending[:BATCH]
        if not batch:
            return None
        await self._recorder.flush_lines_of([context for context, _, _ in batch])
        successes = [ended for ended in batch if _is_success(ended)]
        await self._tell(successes, self._finish)
        if len(successes) < len(batch):
            others = await self._tell_committed(
                [ended for ended in batch if type(ended[1]) is not Succeeded]
            )
            await self._tell([each for each in others if _is_release(each)], self._release)
            await self._tell([each for each in others if not _is_release(each)], self._fail)
        return 0 if self._pending else None

    async def _tell_committed(self, batch: list[Ended]) -> list[Ended]:
        """Settles what was completed by its handler's own transaction; returns the others.

        A COMMIT without an answer is told as a failure. Whoever ends the run waits for the
        transaction, if it still is under way, so the refusal means: look whether it was committed.
        """
        committed = [ended for ended in batch if type(ended[1]) is Committed]
        if committed:
            count_successes(committed)
            await self._settle(committed, _Told([ended[0] for ended in committed], []))
        self._resent.update(ended[0] for ended in batch if type(ended[1]) is Doubtful)
        return [ended for ended in batch if type(ended[1]) is not Committed]

    async def _tell(self, batch: list[Ended], send: _Send) -> None:
        if not batch:
            return
        try:
            told = await self._send_halving(batch, send)
        except Unanswered:
            self._resent.update(context for context, _, _ in batch)
            raise
        await self._settle(batch, told)

    async def _send_halving(self, batch: list[Ended], send: _Send) -> _Told:
        """One row that the database can't take must not keep the others from being told."""
        try:
            return await send(batch)
        except (DatabaseUnavailable, Busy):
            raise
        except PgcronError as error:
            if len(batch) == 1:
                return await self._fail([_untellable(batch[0], error)])
        middle = len(batch) // 2
        first = await self._send_halving(batch[:middle], send)
        second = await self._send_halving(batch[middle:], send)
        return _Told(first.over + second.over, first.refused + second.refused)

    async def _settle(self, batch: list[Ended], told: _Told) -> None:
        doubtful = [context for context in told.refused if context in self._resent]
        if doubtful:
            rows = await self._link.rows(
                "ended_by_fence",
                run_ids=[c.run_id for c in doubtful],
                fences=[c.fence for c in doubtful],
            )
            arrived = {row[0] for row in rows}
            count_successes(
                [
                    each
                    for each in batch
                    if each[0].run_id in arrived and isinstance(each[1], Succeeded | Doubtful)
                ]
            )
            # A release leaves no trace: one that is refused the second time was done the first.
            arrived.update(ended[0].run_id for ended in batch if _is_release(ended))
            told.refused = [
                context
                for context in told.refused
                if context not in doubtful or context.run_id not in arrived
            ]
        for context in told.refused:
            emit(RunFenced(context.run_id, context.attempt))
        contexts = [context for context, _, _ in batch]
        self._resent.difference_update(contexts)
        gone = {id(ended) for ended in batch}
        self._pending = [ended for ended in self._pending if id(ended) not in gone]
        self._runner.forget(contexts)
        self.completed += len(batch) - len(told.refused)
        self._freed()

    async def _finish(self, batch: Sequence[Ended]) -> _Told:
        now = monotonic()
        parameters = {
            "run_ids": [ended[0].run_id for ended in batch],
            "tokens": [ended[0].token for ended in batch],
            "elapsed_seconds": [now - (ended[0].started_monotonic or now) for ended in batch],
            "results": _results(batch),
            "node": self._node,
        }
        try:
            rows = await self._link.rows("finish_runs", **parameters)
        except NoPartition:
            rows = await self._link.rows("finish_runs_overflow", **parameters)
        if len(rows) == len(batch):
            count_successes(batch)
            return _Told([ended[0] for ended in batch], [])
        accepted = {row[0] for row in rows}
        count_successes([ended for ended in batch if ended[0].run_id in accepted])
        return _Told(
            [ended[0] for ended in batch if ended[0].run_id in accepted],
            [ended[0] for ended in batch if ended[0].run_id not in accepted],
        )

    async def _release(self, batch: Sequence[Ended]) -> _Told:
        contexts = [ended[0] for ended in batch]
        rows = await self._link.rows(
            "release_runs", run_ids=[c.run_id for c in contexts], tokens=[c.token for c in contexts]
        )
        accepted = {row[0] for row in rows}
        if accepted:
            emit(RunsReleased(len(accepted), "this node stops"))
            await self._wake_others()
        # A run with a cancel request is not given back: it ends as cancelled.
        asked = [ended for ended in batch if ended[0].run_id not in accepted]
        told = await self._fail(asked) if asked else _Told([], [])
        return _Told([c for c in contexts if c.run_id in accepted] + told.over, told.refused)

    async def _wake_others(self) -> None:
        try:
            await self._link.rows("wake_idle_nodes")
        except PgcronError:
            pass  # a hint: they look by themselves, a little later

    async def _fail(self, batch: Sequence[Ended]) -> _Told:
        now = monotonic()
        failures = [_failure(ended[1]) for ended in batch]
        rows = await self._link.rows(
            "fail_runs",
            run_ids=[ended[0].run_id for ended in batch],
            tokens=[ended[0].token for ended in batch],
            kinds=[_kind(ended[1]) for ended in batch],
            retryables=[failure.retry for failure in failures],
            retry_afters=[
                failure.after.total_seconds() if failure.after is not None else None
                for failure in failures
            ],
            elapsed_seconds=[
                None if ended[0].started_monotonic is None else now - ended[0].started_monotonic
                for ended in batch
            ],
            error_classes=[_clean(failure.error_class) for failure in failures],
            errors=[_clean(failure.message) for failure in failures],
            tracebacks=[_clean(failure.traceback) for failure in failures],
            causes=[causes_of(failure) for failure in failures],
            fingerprints=[
                failure.fingerprint or fingerprint_of(failure, ended[0].handler)
                for ended, failure in zip(batch, failures, strict=True)
            ],
            node=self._node,
        )
        verdicts = {row["run_id"]: row["verdict"] for row in rows}
        count_failures(batch, verdicts, [_kind(ended[1]) for ended in batch])
        told = [pair for pair in zip(batch, failures, strict=True) if pair[0][0].run_id in verdicts]
        if len(told) > TOLD_SINGLY:
            emit(MoreRunsFailed(len(told) - TOLD_SINGLY))
        for (context, _, _), failure in told[:TOLD_SINGLY]:
            emit(
                RunFailed(
                    context.run_id,
                    context.handler,
                    context.attempt,
                    verdicts[context.run_id],
                    failure.message[:300],
                )
            )
        return _Told(
            [ended[0] for ended in batch if ended[0].run_id in verdicts],
            [ended[0] for ended in batch if ended[0].run_id not in verdicts],
        )


def _is_release(ended: Ended) -> bool:
    """A stop of the node is not the run's fault: the attempt is given back, unless it may never
    begin twice.
    """
    context, outcome, _ = ended
    return (
        isinstance(outcome, Interrupted)
        and outcome.reason is StopReason.SHUTDOWN
        and (context.delivery != "at_most_once" or context.started_monotonic is None)
    )


def _is_success(ended: Ended) -> bool:
    return type(ended[1]) is Succeeded


def _kind(outcome: Outcome) -> str:
    if isinstance(outcome, Interrupted):
        return _KINDS[outcome.reason]
    return "snoozed" if isinstance(outcome, Failed) and outcome.snooze else "failed"


def _failure(outcome: Outcome) -> Failed:
    if isinstance(outcome, Failed):
        return outcome
    if isinstance(outcome, Interrupted):
        why, message = _WHY.get(outcome.reason), outcome.message
        if why is not None:
            message = why if message == f"stopped: {outcome.reason}" else f"{why}: {message}"
        return Failed(outcome.reason.name.title().replace("_", ""), message)
    return Failed("Unknown", "the outcome could not be stored", retry=False)


def _untellable(ended: Ended, error: PgcronError) -> Ended:
    """The failure that is stored instead of an outcome that the database can't take."""
    context, outcome, at = ended
    message = f"the database refused the outcome: {error.message}"
    retry = outcome.retry if isinstance(outcome, Failed) else False
    return (
        context,
        Failed("OutcomeRefused", message.encode("ascii", "replace").decode("ascii"), None, retry),
        at,
    )


def _results(batch: Sequence[Ended]) -> list[str | None] | None:
    """What the handlers returned; None when none of them returned anything."""
    if all(ended[1] is SUCCEEDED for ended in batch):
        return None
    return [outcome.text if isinstance(outcome, Succeeded) else None for _, outcome, _ in batch]


def _clean(text: str | None) -> str | None:
    """PostgreSQL takes no NUL in a text, and no half of a surrogate pair."""
    if text is None:
        return None
    return text[:_TEXT_LIMIT].replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
