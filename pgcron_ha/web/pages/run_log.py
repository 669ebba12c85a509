"""``/runs/{id}/log``: a run's log as a text file, as far as it fits."""

from __future__ import annotations

from typing import Final

from starlette.responses import PlainTextResponse, Response

from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import run as ask
from pgcron_ha.harmless import left_out
from pgcron_ha.web.formats import rfc
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.run import NoSuchRun, run_number

MOST_CHARACTERS: Final = 4 * 1024 * 1024
# Lines of one statement; with 8 KiB each they are still no burden.
_PIECE: Final = 200
# Longer than any line the database keeps.
_WHOLE_LINE: Final = 10_000


async def show_log(page_request: PageRequest) -> Response:
    """The lines with instant, attempt, number and stream; the last line says if there are more."""
    run_id = run_number(page_request)
    page_request.query()
    snapshot = await page_request.read(
        ("run_log", run_id), lambda connection: read_log(connection, page_request.schema, run_id)
    )
    if snapshot.value is None:
        raise NoSuchRun(str(run_id), [("all runs", page_request.link("runs"))])
    return PlainTextResponse(
        snapshot.value,
        headers={"content-disposition": f'attachment; filename="run-{run_id}.log.txt"'},
    )


async def read_log(connection: Connection, schema: str, run_id: int) -> str | None:
    """The text, at most about `MOST_CHARACTERS`; None: no such run."""
    if await ask.run(connection, run_id, schema=schema) is None:
        return None
    parts: list[str] = []
    size, line = 0, (0, 0)
    while size < MOST_CHARACTERS:
        found = await ask.lines_after(
            connection, run_id, line, limit=_PIECE, most=_WHOLE_LINE, schema=schema
        )
        for row in found:
            text = left_out(row["line"]).replace("\n", " ")
            where = f"{row['attempt']}.{row['sequence']}"
            parts.append(f"{rfc(row['at'])} {where:<8} {row['stream']:<6} {text}\n")
            size += len(parts[-1])
        if len(found) < _PIECE:
            return "".join(parts)
        line = (found[-1]["attempt"], found[-1]["sequence"])
    parts.append(f"(cut: the log is longer than {MOST_CHARACTERS:,} characters)\n")
    return "".join(parts)
