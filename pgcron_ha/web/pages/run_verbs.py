"""What can be done to a run: POST only, as the same functions that SQL and the CLI call."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.run import run_number

_CANCELLED: Final = {"requested": "cancel_requested"}


async def cancel(page_request: PageRequest) -> Response:
    """Ends a waiting run, asks the node of a running one to stop it; ``reason`` is kept."""
    run = run_number(page_request)
    reason = (await page_request.form("reason")).get("reason")
    verdict = await page_request.act(
        lambda connection: functions.cancel_run(
            connection, run, reason, actor=page_request.actor, schema=page_request.schema
        )
    )
    return page_request.redirect("run", {"done": _CANCELLED.get(verdict, verdict)}, id=run)


async def kill(page_request: PageRequest) -> Response:
    """Asks the node of a run that was asked to stop to end it by force."""
    run = run_number(page_request)
    await page_request.form()
    verdict = await page_request.act(
        lambda connection: functions.cancel_run(
            connection, run, by_force=True, actor=page_request.actor, schema=page_request.schema
        )
    )
    done = "kill_requested" if verdict == "requested" else verdict
    return page_request.redirect("run", {"done": done}, id=run)


async def retry(page_request: PageRequest) -> Response:
    """A waiting run is due at once, an ended one runs again as a new run; then shows it."""
    run = run_number(page_request)
    await page_request.form()
    made = await page_request.make_run(
        "retry",
        run,
        lambda connection: functions.retry_run(
            connection, run, actor=page_request.actor, schema=page_request.schema
        ),
    )
    done = "retried" if made.run == run else "rerun"
    return page_request.redirect("run", {"done": done if made.is_new else "repeated"}, id=made.run)
