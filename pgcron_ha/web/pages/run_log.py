"""The log of a run: one piece of it on the run's page, and ``/runs/{id}/log``, a text file of it
as far as it fits.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pgcron_ha.db.driver.pool import Connection
from pgcron_ha.db.queries.pages import run as ask
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.harmless import left_out
from pgcron_ha.web.address import WrongAddress
from pgcron_ha.web.formats import rfc
from pgcron_ha.web.page_request import PageRequest

MOST_CHARACTERS: Final = 4 * 1024 * 1024
# Lines of one statement; with 8 KiB each they are still no burden.
_PIECE: Final = 200
# Longer than any line the database keeps.
_WHOLE_LINE: Final = 10_000
_PLACE: Final = re.compile(r"(before|after)-([0-9]{1,9})\.([0-9]{1,9})")


class LogPlace(NamedTuple):
    """Which piece of a log: the lines ``before`` or ``after`` one (attempt, number)."""

    side: str = "before"
    line: tuple[int, int] = (ask.HIGHEST, ask.HIGHEST)

    @property
    def is_end(self) -> bool:
        """Whether these are the last lines."""
        return self.side == "before" and self.line[0] == ask.HIGHEST


def log_place(text: str | None) -> LogPlace:
    """What ``?log=`` says; InvalidInput."""
    if text is None:
        return LogPlace()
    if text == "first":
        return LogPlace("after", (0, 0))
    match = _PLACE.fullmatch(text)
    if match is None:
        raise WrongAddress(
            f"'{text[:60]}' is not a piece of a log",
            "A piece is 'first', or what is before or after a line, such as before-1.500.",
            "Leave it out for the newest lines.",
            wrong=text,
        )
    return LogPlace(match[1], (int(match[2]), int(match[3])))


def log_view(
    page_request: PageRequest, run: Row, read: list[Row], place: LogPlace
) -> dict[str, Any]:
    """A piece of a run's log; `read` has a line more than is shown if there are more."""
    has_more = len(read) > ask.LINES
    shown = read
    if has_more:
        shown = shown[1:] if place.side == "before" else shown[:-1]
    executes = run["state"] == "running"
    has_earlier = has_more if place.side == "before" else place.line > (0, 0)
    has_later = has_more if place.side == "after" else not place.is_end

    def link(piece: str) -> str:
        return page_request.link("run", {"log": piece}, id=run["id"]) + "#log"

    empty_note = "No lines are kept: it printed nothing, or retention removed them."
    if executes:
        empty_note = "It has printed nothing yet."
    elif not run["attempt"]:
        empty_note = "It has not begun."
    return {
        "lines": [{**line, "is_cut": len(line["line"]) > ask.MOST_LINE} for line in shown],
        "earlier_href": link(f"before-{_at(shown[0])}") if has_earlier and shown else None,
        "later_href": link(f"after-{_at(shown[-1])}") if has_later and shown else None,
        "grows": executes and place.is_end,
        "empty_note": empty_note,
    }


def _at(line: Row) -> str:
    return f"{line['attempt']}.{line['sequence']}"


async def read_log(connection: Connection, run_id: int, *, schema: str) -> str:
    """The text, at most about `MOST_CHARACTERS`. NotFound."""
    await ask.run(connection, run_id, schema=schema)
    parts: list[str] = []
    size, line = 0, (0, 0)
    while size < MOST_CHARACTERS:
        found = await ask.lines_after(
            connection,
            run_id=run_id,
            after_attempt=line[0],
            after_sequence=line[1],
            limit=_PIECE,
            most=_WHOLE_LINE,
            schema=schema,
        )
        for row in found:
            text = left_out(row["line"]).replace("\n", " ")
            parts.append(f"{rfc(row['at'])} {_at(row):<8} {row['stream']:<6} {text}\n")
            size += len(parts[-1])
        if len(found) < _PIECE:
            return "".join(parts)
        line = (found[-1]["attempt"], found[-1]["sequence"])
    parts.append(f"(cut: the log is longer than {MOST_CHARACTERS:,} characters)\n")
    return "".join(parts)
