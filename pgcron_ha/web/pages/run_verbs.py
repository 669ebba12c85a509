"""What can be done to a run: POST only, as the same functions that SQL and the CLI call."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.web.pages.run import run_number
from pgcron_ha.web.visit import Visit

_CANCELLED: Final = {"requested": "cancel_requested"}


async def cancel(visit: Visit) -> Response:
    """Ends a waiting run, asks the node of a running one to stop it; ``reason`` is kept."""
    run = run_number(visit)
    reason = (await visit.form("reason")).get("reason")
    verdict = await visit.act(
        lambda connection: functions.cancel_run(
            connection, run, reason, actor=visit.actor, schema=visit.schema
        )
    )
    return visit.redirect("run", {"done": _CANCELLED.get(verdict, verdict)}, id=run)


async def kill(visit: Visit) -> Response:
    """Asks the node of a run that was asked to stop to end it by force."""
    run = run_number(visit)
    await visit.form()
    verdict = await visit.act(
        lambda connection: functions.cancel_run(
            connection, run, by_force=True, actor=visit.actor, schema=visit.schema
        )
    )
    done = "kill_requested" if verdict == "requested" else verdict
    return visit.redirect("run", {"done": done}, id=run)


async def retry(visit: Visit) -> Response:
    """A waiting run is due at once, an ended one runs again as a new run; then shows it."""
    run = run_number(visit)
    await visit.form()
    made = await visit.make_run(
        "retry",
        run,
        lambda connection: functions.retry_run(
            connection, run, actor=visit.actor, schema=visit.schema
        ),
    )
    done = "retried" if made.run == run else "rerun"
    return visit.redirect("run", {"done": done if made.is_new else "repeated"}, id=made.run)
