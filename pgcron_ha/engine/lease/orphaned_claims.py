"""Runs that the database counts as this node's and that nobody here knows: the answer to their
claim never came.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import PgcronError
from pgcron_ha.telemetry.events import RunsReleased, ServiceFailed
from pgcron_ha.telemetry.log import emit

if TYPE_CHECKING:
    from uuid import UUID


async def settle_orphans(link: Link, node: str, orphans: Sequence[tuple[int, UUID]]) -> None:
    """Gives back runs (id, token) that never began here; one that was asked to stop meanwhile is
    not given back and ends as cancelled. `node` is this node's name.

    Raises nothing: what could not be settled is a stranger of the next beats again.
    """
    try:
        rows = await link.rows(
            "release_runs",
            run_ids=[run for run, _ in orphans],
            tokens=[token for _, token in orphans],
        )
        given = {row["id"] for row in rows}
        refused = [orphan for orphan in orphans if orphan[0] not in given]
        if refused:
            await _cancel(link, node, refused)
    except PgcronError as error:
        emit(ServiceFailed("session", f"could not give back claims: {error.message}", 0.0))
    else:
        if given:
            emit(RunsReleased(len(given), "the answer to their claim never came"))


async def _cancel(link: Link, node: str, orphans: Sequence[tuple[int, UUID]]) -> None:
    count = len(orphans)
    unknown = ("retry_afters", "elapsed_seconds", "tracebacks", "causes", "fingerprints")
    await link.rows(
        "fail_runs",
        run_ids=[run for run, _ in orphans],
        tokens=[token for _, token in orphans],
        kinds=["cancelled"] * count,
        retryables=[False] * count,
        error_classes=["Cancelled"] * count,
        errors=["asked to stop before it began"] * count,
        **dict.fromkeys(unknown, [None] * count),
        node=node,
    )
