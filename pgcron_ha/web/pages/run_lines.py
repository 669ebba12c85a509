"""The log on a run's page: one piece of it, and the addresses of the others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.db.queries.pages import run as ask
from pgcron_ha.web.address import WrongAddress
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.run_contexts import LogLine, LogView

_PLACE: Final = re.compile(r"(before|after)-([0-9]{1,9})\.([0-9]{1,9})")
_STREAMS: Final = {"stdout": "out", "stderr": "err"}


@dataclass(frozen=True)
class LogPlace:
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
    page_request: PageRequest, run: dict[str, Any], read: list[dict[str, Any]], place: LogPlace
) -> LogView:
    """A piece of a run's log; `read` has a line more than is shown if there are more."""
    has_more = len(read) > ask.LINES
    shown = read
    if has_more:
        shown = shown[1:] if place.side == "before" else shown[:-1]
    lines = tuple(_lines(shown))
    executes = run["state"] == "running"
    has_earlier = has_more if place.side == "before" else place.line > (0, 0)
    has_later = has_more if place.side == "after" else not place.is_end

    def link(piece: str) -> str:
        return page_request.link("run", {"log": piece}, id=run["id"]) + "#log"

    return LogView(
        lines=lines,
        earlier_href=link(f"before-{_at(shown[0])}") if has_earlier and shown else None,
        later_href=link(f"after-{_at(shown[-1])}") if has_later and shown else None,
        newest_href=None if place.is_end else page_request.link("run", id=run["id"]) + "#log",
        download_href=page_request.link("run_log", id=run["id"]),
        grows=executes and place.is_end,
        empty_note="It has printed nothing yet."
        if executes
        else "It has not begun."
        if not run["attempt"]
        else "No lines are kept: it printed nothing, or retention removed them.",
    )


def _at(line: dict[str, Any]) -> str:
    return f"{line['attempt']}.{line['sequence']}"


def _lines(lines: list[dict[str, Any]]) -> list[LogLine]:
    shown: list[LogLine] = []
    for at, line in enumerate(lines):
        shown.append(
            LogLine(
                anchor=f"L{line['attempt']}-{line['sequence']}",
                number=line["sequence"],
                at=line["at"],
                stream=_STREAMS.get(line["stream"], "log"),
                text=line["line"],
                is_cut=line["is_cut"],
                attempt=line["attempt"],
                is_first_of_attempt=at == 0 or lines[at - 1]["attempt"] != line["attempt"],
            )
        )
    return shown
