"""Claimed runs that never began here are given back, so that others may have them."""

from __future__ import annotations

from collections.abc import Sequence

from pgcron_ha.db.driver.link import Link
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Context, Interrupted, StopReason
from pgcron_ha.telemetry.events import RunsReleased
from pgcron_ha.telemetry.log import emit


async def give_back(link: Link, runner: Runner, contexts: Sequence[Context], why: str) -> None:
    """The attempt does not count; one that was cancelled meanwhile ends as that. `contexts` were
    taken from the runner, and it forgets them.
    """
    if not contexts:
        return
    try:
        rows = await link.rows(
            "release_runs",
            run_ids=[context.run_id for context in contexts],
            tokens=[context.token for context in contexts],
        )
    except PgcronError:
        runner.forget(contexts)  # the next beats release the runs that are still this node's
        raise
    given = {row["id"] for row in rows}
    runner.forget([context for context in contexts if context.run_id in given])
    for context in contexts:
        if context.run_id not in given:  # it was cancelled, and ends as that
            stopped = Interrupted(StopReason.CANCELLED, "asked to stop before it began")
            runner.done(context, stopped)
    if given:
        emit(RunsReleased(len(given), why))
        await link.rows("wake_idle_nodes")
