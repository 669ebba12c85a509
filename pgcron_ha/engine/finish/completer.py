"""Writes to the database how runs ended: in batches, fenced by token, and never in doubt for long.

While one batch is under way the next one gathers, so that a single run is reported at once and a
burst costs one statement. A batch whose answer was lost is sent again with the same tokens. Runs
that are then refused are looked up by their fence number.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from time import monotonic
from typing import Any, ClassVar, Final

from pgcron_ha.db.driver.link import Busy, Link, NoPartition, Unanswered
from pgcron_ha.engine.batches import SetAside, end_refused_run, first_batch, impatience, isolate
from pgcron_ha.engine.finish import outcomes
from pgcron_ha.engine.run.claims import claims_of, started_claims_of
from pgcron_ha.engine.run.counters import count_failures, count_successes
from pgcron_ha.engine.run.recorder import Recorder
from pgcron_ha.engine.run.runner import Ended, Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, Fenced, PgcronError
from pgcron_ha.executors.contract.assets import declared_of
from pgcron_ha.executors.contract.base import Committed, Context, Doubtful, Succeeded
from pgcron_ha.telemetry.events import MoreRunsFailed, RunFailed, RunFenced, RunsReleased
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Completions in one statement: beyond this the statement's own time outweighs what is saved."""

WORKFLOWS: Final = 20
"""Workflows whose first steps one statement writes: 200 of each."""

MOST_PENDING: Final = 2 * BATCH
"""Ends that the database has not taken; with more of them a node claims nothing, and so executes
no more for which there may be no room in memory.
"""

MOST_PENDING_CHARACTERS: Final = 16 * 1024 * 1024

RETRIES: Final = 10
"""Ends set aside that one pass tries again."""

_LOCKS_SECONDS: Final = 30.0
"""For this time after a run was locked, each batch is first checked for locked rows."""

REPORTED_SINGLY: Final = 10
"""Failed runs of one batch that are named in the node's own log."""


_Send = Callable[[Sequence[Ended]], Awaitable[set[int]]]
"""Reports a batch and returns the runs that are over; the database refused the others."""

_LOCKED: Final = Busy("somebody has locked its row", "It is tried again.")


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
        self._pending: dict[Context, Ended] = {}
        self._characters = 0  # of results and errors that are pending
        self._resent: set[Context] = set()
        self._asks_for_locks_until = float("-inf")
        self.aside: SetAside[Context] = SetAside(self.name, most=10 * BATCH)

    def add(self, ended: list[Ended]) -> None:
        """Takes what ended. On the engine's loop."""
        self._pending.update((each[0], each) for each in ended)
        self._characters += sum(map(outcomes.characters_of, ended))
        self._bound_claims()
        self.wake()

    async def run_once(self) -> float | None:
        """One batch of each kind, then a few of those that were locked or too slow, each alone.

        Raises DatabaseUnavailable when there is no database; what it has not taken stays pending.
        """
        pending = (ended for ended in self._pending.values() if ended[0] not in self.aside)
        batch = first_batch(pending, BATCH, outcomes.characters_of)
        if batch:
            await self._report_all(batch)
        with impatience():
            for ended in self._to_try_again():
                await self._report_all([ended])
        if len(self._pending) > len(self.aside):
            return 0
        return self.aside.next_try()

    def _to_try_again(self) -> list[Ended]:
        due = (each for each in self.aside if not self.aside.waits(each))
        return [self._pending[each] for each in islice(due, RETRIES) if each in self._pending]

    async def _report_all(self, batch: list[Ended]) -> None:
        """Each kind of end in its own way, in the order of `at_once`: failures are the last, so
        that one that the database does not take keeps no success from being recorded.

        A COMMIT without an answer is reported as a failure. The statement that ends the run waits
        for the transaction if it is still under way. So a refusal means: check whether it was
        committed.
        """
        await self._recorder.flush_lines_of([context for context, _, _ in batch])
        self._resent.update(context for context, outcome, _ in batch if type(outcome) is Doubtful)
        at_once: dict[_Send, int] = {
            self._start: WORKFLOWS,
            self._finish: BATCH,
            self._finish_declaring: 1,
            self._acknowledge: BATCH,
            self._release: BATCH,
            self._fail: BATCH,
        }
        by_way: dict[_Send, list[Ended]] = {send: [] for send in at_once}
        for ended in batch:
            by_way[self._way_of(ended)].append(ended)
        for send, most in at_once.items():
            ends = by_way[send]
            for first in range(0, len(ends), most):
                await self._report(ends[first : first + most], send)

    def _way_of(self, ended: Ended) -> _Send:
        context, outcome, _ = ended
        if type(outcome) is Committed:
            return self._acknowledge
        if type(outcome) is not Succeeded:
            return self._release if outcomes.is_release(ended) else self._fail
        if context.handler.startswith("workflow:"):
            return self._start
        return self._finish_declaring if context._declared else self._finish

    async def _report(self, batch: Sequence[Ended], send: _Send) -> None:
        """A run that is locked, too large or refused does not keep others from being reported."""
        refused = await isolate(batch, partial(self._deliver, send), self._refuse, self._delay)
        await isolate(list(chain(*refused)), self._look_into, None, self._delay)

    async def _deliver(self, send: _Send, batch: Sequence[Ended]) -> list[Ended]:
        """Sends ends and settles those that were taken; returns those that were refused."""
        if monotonic() < self._asks_for_locks_until:
            batch = await self._not_locked(batch)
        if not batch:
            return []
        try:
            over = await send(batch)
        except Unanswered:
            self._resent.update(context for context, _, _ in batch)
            raise
        except Busy:
            left = await self._not_locked(batch) if len(batch) > 1 else batch
            if len(left) == len(batch):
                raise
            return await self._deliver(send, left)
        return self._settle(batch, over)

    async def _not_locked(self, batch: Sequence[Ended]) -> list[Ended]:
        """The runs whose rows are not locked; the others are set aside."""
        rows = await self._link.rows("locked_runs", **claims_of(ended[0] for ended in batch))
        if not rows:
            return list(batch)
        self._asks_for_locks_until = monotonic() + _LOCKS_SECONDS
        locked = {row[0] for row in rows}
        for ended in batch:
            if ended[0].run_id in locked:
                self._delay(ended, _LOCKED)
        return _without(locked, batch)

    def _delay(self, ended: Ended, error: PgcronError) -> None:
        self.aside.put(ended[0], f"the end of run {ended[0].run_id}", error)

    async def _refuse(self, ended: Ended, error: PgcronError) -> None:
        """Report an outcome that the database refuses as a failure. If that is refused, too, the
        run ends with the database's message.
        """
        try:
            over = await self._fail([outcomes.untellable(ended, error)])
        except Busy as busy:
            self._delay(ended, busy)
            return
        except DatabaseUnavailable:
            self._resent.add(ended[0])
            raise
        except PgcronError as refusal:
            over = await self._end_refused(ended[0], refusal)
        if refused := self._settle([ended], over):
            await self._look_into(refused)

    async def _end_refused(self, context: Context, refusal: PgcronError) -> set[int]:
        run, reason = context.run_id, refusal.message
        if not await end_refused_run(self._link, run, reason, context.token, self._node):
            return set()
        emit(RunFailed(run, context.handler, context.attempt, "dead", reason))
        return {run}

    async def _accept_late(self, refused: Sequence[Ended]) -> set[int]:
        """What this node finished while it was cut off is done, if nobody has begun it since."""
        late = [ended for ended in refused if type(ended[1]) is Succeeded]
        if not late:
            return set()
        try:
            declared = outcomes.declared_by_run(late)
            rows = await self._link.rows(
                "finish_late", **self._parameters_of(late), declared=declared
            )
        except DatabaseUnavailable:
            self._resent.update(context for context, _, _ in late)
            raise
        except PgcronError:
            return set()  # it is executed again
        accepted = {row[0] for row in rows}
        count_successes([ended for ended in late if ended[0].run_id in accepted])
        return accepted

    async def _arrived_before(self, refused: Sequence[Ended]) -> set[int]:
        """Runs whose end was sent before, without an answer, and is in the database."""
        doubtful = [ended for ended in refused if ended[0] in self._resent]
        if not doubtful:
            return set()
        claims = claims_of(ended[0] for ended in doubtful)
        rows = await self._link.rows("ended_by_fence", **claims)
        arrived = {row[0] for row in rows}
        succeeded = [ended for ended in doubtful if isinstance(ended[1], Succeeded | Doubtful)]
        count_successes([ended for ended in succeeded if ended[0].run_id in arrived])
        # A release leaves no trace: one that is refused the second time was done the first.
        return arrived.union(ended[0].run_id for ended in doubtful if outcomes.is_release(ended))

    async def _look_into(self, refused: Sequence[Ended]) -> None:
        """Refused ends are fenced, unless they are accepted late or had arrived before."""
        # A part that is halved may be settled in part.
        refused = [ended for ended in refused if ended[0] in self._pending]
        refused = self._settle(refused, await self._accept_late(refused))
        refused = self._settle(refused, await self._arrived_before(refused))
        for context, _, _ in refused:
            emit(RunFenced(context.run_id, context.attempt))
        self._settle(refused, {context.run_id for context, _, _ in refused})

    def _settle(self, batch: Sequence[Ended], over: set[int]) -> list[Ended]:
        """Forget those of a batch that are over; returns the others."""
        gone = [ended for ended in batch if ended[0].run_id in over]
        contexts = [context for context, _, _ in gone]
        self._resent.difference_update(contexts)
        for context in contexts:
            self._pending.pop(context, None)
        self._characters -= sum(map(outcomes.characters_of, gone))
        self._bound_claims()
        self.aside.forget(*contexts)
        self._runner.forget(contexts)
        self._freed()
        return _without(over, batch) if len(gone) < len(batch) else []

    def _bound_claims(self) -> None:
        """While the database does not take ends, the node takes no more runs."""
        owed = max(0, len(self._pending) - MOST_PENDING)
        if self._characters > MOST_PENDING_CHARACTERS:
            owed += MOST_PENDING
        self._runner.owed = owed

    async def _finish(self, batch: Sequence[Ended]) -> set[int]:
        parameters = self._parameters_of(batch)
        try:
            rows = await self._link.rows("finish_runs", **parameters)
        except NoPartition:
            rows = await self._link.rows("finish_runs_overflow", **parameters)
        over = {row[0] for row in rows}
        count_successes([each for each in batch if each[0].run_id in over])
        return over

    def _parameters_of(self, batch: Sequence[Ended]) -> dict[str, Any]:
        """The parameters of statements that complete runs."""
        kept = {"results": outcomes.results_of(batch), "without_args": outcomes.without_args(batch)}
        claims = started_claims_of(ended[0] for ended in batch)
        return {**claims, **kept, "node": self._node, "node_name": self._node}

    async def _acknowledge(self, batch: Sequence[Ended]) -> set[int]:
        """What its handler's own transaction has completed."""
        count_successes(batch)
        return {context.run_id for context, _, _ in batch}

    async def _start(self, batch: Sequence[Ended]) -> set[int]:
        """Workflows: what was claimed becomes its steps."""
        claims = claims_of(ended[0] for ended in batch)
        rows = await self._link.rows("start_claimed_workflows", **claims, node_name=self._node)
        return {row[0] for row in rows}

    async def _finish_declaring(self, batch: Sequence[Ended]) -> set[int]:
        """A run that has updated assets or adds steps: a transaction of its own, with them."""
        [(context, _, _)] = batch
        claim = {"run_id": context.run_id, "token": context.token, "elapsed": context.elapsed}
        [result] = outcomes.results_of(batch) or [None]
        kept = {"result": result, "keep_args": context.keeps_args}
        declared = json.dumps(declared_of(context))
        try:
            await self._link.rows("finish_run", **claim, **kept, node=self._node, declared=declared)
        except Fenced:
            return set()
        count_successes(batch)
        return {context.run_id}

    async def _release(self, batch: Sequence[Ended]) -> set[int]:
        claims = claims_of(ended[0] for ended in batch)
        rows = await self._link.rows("release_runs", **claims, weights=None)
        released = {row[0] for row in rows}
        if released:
            emit(RunsReleased(len(released), "this node stops"))
            with suppress(PgcronError):  # a hint: they look by themselves, a little later
                await self._link.rows("wake_idle_nodes")
        self._resent.update(context for context, _, _ in batch if context.run_id in released)
        # A run with a cancel request is not given back: it ends as cancelled.
        asked = _without(released, batch)
        return released | await self._fail(asked) if asked else released

    async def _fail(self, batch: Sequence[Ended]) -> set[int]:
        ends = [outcomes.attempt_end(ended, self._node) for ended in batch]
        rows = await self._link.rows("fail_runs", ends=json.dumps(ends))
        verdicts = {row["run_id"]: row["verdict"] for row in rows}
        count_failures(batch, verdicts, [outcomes.kind_of(ended[1]) for ended in batch])
        taken = [ended for ended in batch if ended[0].run_id in verdicts]
        if len(taken) > REPORTED_SINGLY:
            emit(MoreRunsFailed(len(taken) - REPORTED_SINGLY))
        for context, outcome, _ in taken[:REPORTED_SINGLY]:
            run, verdict = context.run_id, verdicts[context.run_id]
            message = outcomes.failure_of(outcome).message[:300]
            emit(RunFailed(run, context.handler, context.attempt, verdict, message))
        return set(verdicts)


def _without(runs: set[int], batch: Sequence[Ended]) -> list[Ended]:
    return [ended for ended in batch if ended[0].run_id not in runs]
