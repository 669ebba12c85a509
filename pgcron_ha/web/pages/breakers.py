"""Circuit breakers on the pages: causes on the overview, lines of a queue, and the verb."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from starlette.responses import Response

from pgcron_ha.db.commands import breakers
from pgcron_ha.web.contexts import Action, Attention
from pgcron_ha.web.formats import plural
from pgcron_ha.web.page_request import PageRequest


async def reset(page_request: PageRequest) -> Response:
    """Closes it: what waits for it goes."""
    name = page_request.segment("name")
    await page_request.form()
    await page_request.act(
        lambda connection: breakers.reset_breaker(
            connection, name, actor=page_request.actor, schema=page_request.schema
        )
    )
    return page_request.redirect("overview", {"done": "breaker_reset"})


def open_circuits(
    page_request: PageRequest,
    rows: Sequence[dict[str, Any]],
    held: Sequence[dict[str, Any]],
    now: datetime,
) -> Iterator[Attention]:
    """One cause for each breaker that is not closed."""
    for row in rows:
        waiting = sum(group["runs"] for group in held if group["name"] == row["name"])
        fallback = row["fallback_handler"] or row["fallback_queue"]
        wait = plural(waiting, "run waits", "runs wait")
        yield Attention(
            "⊘",
            "half open" if row["state"] == "half_open" else "open",
            "late",
            row["name"],
            page_request.link("runs", {"handler": row["name"]}),
            row["opened_at"],
            f"{circuit_sentence(row, now)} {wait}.",
            f"New ones go to {fallback} meanwhile." if fallback else None,
            (Action("Reset", page_request.link("reset_breaker", name=row["name"])),),
        )


def circuit_sentence(row: dict[str, Any], now: datetime) -> str:
    """How the breaker stands, as a sentence."""
    words = breakers.circuit_words(row, now).rstrip(".")
    return f"{words[:1].upper()}{words[1:]}."
