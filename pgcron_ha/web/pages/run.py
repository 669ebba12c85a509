"""``/runs/{id}``: what happened, where did the time go, what is the error, what can be done."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands.breakers import diversion_words
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.pages import breakers as ask_breakers
from pgcron_ha.db.queries.pages import run as ask
from pgcron_ha.db.queries.pages import runs as ask_runs
from pgcron_ha.errors import NotFound
from pgcron_ha.web.formats import duration, state_mark
from pgcron_ha.web.json_text import pretty
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.run_lines import LogPlace, log_place, log_view
from pgcron_ha.web.run_contexts import AttemptLine, ChildRun, JsonText, ProgressBar, RunView
from pgcron_ha.web.run_time import where_time_went
from pgcron_ha.web.run_words import retry_words, run_sentence, run_word

# Characters of a laid-out args or result.
MOST_PRETTY: Final = 30_000
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_GONE: Final = 4


class NoSuchRun(NotFound):
    """A number that no run has, with the runs next to it."""

    def __init__(self, text: str, near: list[tuple[str, str]]) -> None:
        super().__init__(
            f"run '{text[:60]}' does not exist",
            "It was never enqueued, its transaction was rolled back, or retention removed it.",
            "Look for it in the list of runs.",
        )
        self.near = near


@dataclass(frozen=True)
class Found:
    """What was read; `run` is None when there is no such run."""

    run: dict[str, Any] | None
    waits: dict[str, Any] | None
    progress: dict[str, Any] | None
    letter: dict[str, Any] | None
    attempts: list[dict[str, Any]]
    children: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    near: list[int]


async def show_run(page_request: PageRequest) -> Response:
    """The page; ``?log=`` chooses the piece of the log: first, before-1.500, after-1.500."""
    run_id = run_number(page_request)
    place = log_place(page_request.query("log").get("log"))
    snapshot = await page_request.read(
        ("run", run_id, place),
        lambda connection: read_run(connection, page_request.schema, run_id, place),
    )
    if (drawn := page_request.drawn(snapshot)) is not None:
        return drawn
    found = snapshot.value
    if found.run is None:
        near = [(f"run {other}", page_request.link("run", id=other)) for other in found.near]
        raise NoSuchRun(str(run_id), near)
    view = _view(page_request, found, found.run, place, snapshot.now)
    title = f"{state_mark(view.word).word} · run {run_id} · {view.what}"
    return page_request.page("run.html", view, snapshot, title=title, section="runs")


def run_number(page_request: PageRequest) -> int:
    """The run of the address. NoSuchRun for what is no number."""
    text = page_request.segment("id")
    if _NUMBER.fullmatch(text) is None:
        raise NoSuchRun(text, [("all runs", page_request.link("runs"))])
    return int(text)


async def read_run(connection: Connection, schema: str, run_id: int, place: LogPlace) -> Found:
    """Everything the page shows, in one read-only transaction."""
    run = await ask.run(connection, run_id, schema=schema)
    if run is None:
        near = await ask_runs.near_runs(connection, run_id, schema=schema)
        return Found(None, None, None, None, [], [], [], near)
    is_waiting = run["finished_at"] is None and run["state"] != "running"
    run["breakers"] = await ask_breakers.of_run(connection, run_id, schema=schema)
    is_running = run["state"] == "running"
    is_dead = run["state"] in ("dead", "lost")
    # One line and one attempt more than are shown tell that there are more.
    read_lines = ask.lines_before if place.side == "before" else ask.lines_after
    return Found(
        run=run,
        waits=await ask.waits_for(connection, run_id, schema=schema) if is_waiting else None,
        progress=await ask.progress(connection, run_id, schema=schema) if is_running else None,
        letter=await ask.letter(connection, run_id, schema=schema) if is_dead else None,
        attempts=await ask.attempts(connection, run_id, limit=ask.ATTEMPTS + 1, schema=schema),
        children=await ask.children(connection, run_id, schema=schema)
        if run["finished_at"] is not None
        else [],
        lines=await read_lines(connection, run_id, place.line, limit=ask.LINES + 1, schema=schema),
        near=[],
    )


def _view(
    page_request: PageRequest, found: Found, row: dict[str, Any], place: LogPlace, now: datetime
) -> RunView:
    newest = found.attempts[0]["outcome"] if found.attempts else None
    row = {**row, "is_snoozed": newest == "snoozed"}
    circuit = next((each for each in row["breakers"] if each["state"]), None)
    waits = None if found.waits is None else {**found.waits, "circuit": circuit}
    word = run_word(row, now)
    shown = found.attempts[: ask.ATTEMPTS]
    is_open_letter = found.letter is not None and found.letter["requeued_as"] is None
    redrive_href = page_request.link("redrive", id=row["id"]) if is_open_letter else None
    return RunView(
        row=row,
        word=word,
        sentence=run_sentence(row, waits, found.letter, now),
        what=row["schedule_now"] or row["schedule"] or row["handler"],
        schedule_href=page_request.link("schedule", name=row["schedule_now"])
        if row["schedule_now"]
        else None,
        facts=_facts(page_request, row, found.letter),
        instants=_instants(row),
        progress=_progress(found.progress),
        bar=where_time_went(row, shown, now),
        attempts=_attempts(row, shown, now),
        hidden_attempts=max(0, shown[-1]["attempt"] - 1) if len(found.attempts) > len(shown) else 0,
        args=_json(row["args"], row["args_bytes"]),
        result=_json(row["result"], row["result_bytes"]) if row["result"] is not None else None,
        log=log_view(page_request, row, found.lines, place),
        slot_holder=(found.waits or {}).get("slot_holder"),
        children=_children(found),
        cancel_word=_cancel_word(row, word),
        may_kill=row["cancel_at"] is not None and row["kill_at"] is None,
        retry_word=_retry_word(row, word, redrive_href),
        redrive_href=redrive_href,
        note="Retention has removed its history; this is what its dead letter kept."
        if row["place"] == _GONE
        else None,
    )


def _progress(reported: dict[str, Any] | None) -> ProgressBar | None:
    if reported is None:
        return None
    done, total = reported["done"], reported["total"]
    if total is None:
        return ProgressBar(f"{done:,.10g}", None, reported["note"], reported["at"])
    share = min(100.0, 100 * done / total)
    return ProgressBar(
        f"{done:,.10g} of {total:,.10g}", f"{share:.0f}", reported["note"], reported["at"]
    )


def _cancel_word(row: dict[str, Any], word: str) -> str | None:
    if row["finished_at"] is not None or row["cancel_at"] is not None:
        return None
    return "Ask it to stop" if word == "running" else "Cancel"


def _retry_word(row: dict[str, Any], word: str, redrive_href: str | None) -> str | None:
    if row["finished_at"] is not None:
        return None if redrive_href or row["place"] == _GONE else "Run again"
    return None if word in ("running", "blocked", "ready", "parked") else "Run it now"


def _facts(
    page_request: PageRequest, row: dict[str, Any], letter: dict[str, Any] | None
) -> list[tuple[str, str, str | None]]:
    def runs(**filters: str) -> str:
        return page_request.link("runs", filters)

    parent = row["parent_run"]
    facts: list[tuple[str, str, str | None]] = [
        ("Handler", row["handler"], runs(handler=row["handler"])),
        ("Queue", row["queue"], runs(queue=row["queue"])),
        ("Priority", f"{row['priority']}" + (" (0 is first)" if row["priority"] else ""), None),
        ("Attempt", f"{row['attempt']} of {row['max_attempts']}{_naps(row)}", None),
    ]
    if row["lane"]:
        facts.append(("Lane", row["lane"], None))
    if row["requires"]:
        facts.append(("Requires", ", ".join(row["requires"]), None))
    if row["unique_key"]:
        spans = {
            "waiting": "while it waits",
            "taken": "until a node took it",
            "period": "for a time",
        }
        span = spans.get(row["unique_scope"], "while it is open")
        facts.append(("Unique key", f"{row['unique_key']} ({span})", None))
    if (policy := retry_words(row["retry"])) is not None:
        facts.append(("Retries", policy, None))
    if letter is not None and letter["fingerprint"]:
        same = {"state": "all", "group": letter["fingerprint"]}
        facts.append(
            ("Died as", f"all of {letter['fingerprint']}", page_request.link("dead", same))
        )
    if row["node"]:
        facts.append(("Node", row["node"], runs(node=row["node"])))
    if row["schedule"] and not row["schedule_now"]:
        facts.append(("Schedule", f"{row['schedule']} (deleted)", runs(schedule=row["schedule"])))
    if parent is not None:
        facts.append(("Made from", f"run {parent}", page_request.link("run", id=parent)))
    facts += [
        ("Diverted", diversion_words(one), None) for one in row["breakers"] if not one["state"]
    ]
    made = row["origin"] + (f", by {row['created_by']}" if row["created_by"] else "")
    facts.append(("Origin", made, None))
    facts.append(("Delivery", row["delivery"].replace("_", " "), None))
    if row["timeout"] is not None:
        facts.append(("Timeout", duration(row["timeout"]), None))
    if row["give_up_after"] is not None:
        facts.append(("Given up", f"{duration(row['give_up_after'])} after it is due", None))
    if row["silence_timeout"] is not None:
        facts.append(("Silence", f"at most {duration(row['silence_timeout'])}", None))
    facts.append(("Id", str(row["uuid"]), None))
    return facts


def _naps(row: dict[str, Any]) -> str:
    return f", of which {row['snoozes']} snoozed" if row["snoozes"] else ""


def _instants(row: dict[str, Any]) -> list[tuple[str, datetime | None]]:
    fire = row["scheduled_for"] or row["nominal_for"]
    named = [
        ("Fire time", fire),
        ("Made", row["created_at"]),
        ("Due", row["due_at"] if row["due_at"] != fire else None),
        ("Claimed", row["claimed_at"]),
        ("Began", row["started_at"]),
        ("Ended", row["finished_at"]),
        ("Asked to stop", row["cancel_at"]),
        ("Asked to be killed", row["kill_at"]),
        ("Expires", row["expire_at"]),
    ]
    return [(word, instant) for word, instant in named if instant is not None]


def _attempts(
    row: dict[str, Any], failed: list[dict[str, Any]], now: datetime
) -> list[AttemptLine]:
    lines: list[AttemptLine] = []
    if row["claimed_at"] is not None and all(a["attempt"] != row["attempt"] for a in failed):
        began, end = row["started_at"], row["finished_at"]
        lines.append(
            AttemptLine(
                number=row["attempt"],
                outcome=row["state"],
                node=row["node"],
                claimed_at=row["claimed_at"],
                started_at=began,
                ended_at=end,
                seconds=None if began is None else ((end or now) - began).total_seconds(),
                error_class=None,
                error=row["error"] if end is not None else None,
                traceback=None,
                is_open=False,
            )
        )
    # An unfolded one holds its region as it is, so while more may come all are folded.
    ended = row["finished_at"] is not None
    unfolded = next((a["attempt"] for a in failed if a["traceback"] and ended), None)
    lines.extend(_attempt(attempt, attempt["attempt"] == unfolded) for attempt in failed)
    return lines


def _attempt(attempt: dict[str, Any], is_open: bool) -> AttemptLine:
    began = attempt["started_at"]
    return AttemptLine(
        number=attempt["attempt"],
        outcome=attempt["outcome"],
        node=attempt["node"],
        claimed_at=attempt["claimed_at"],
        started_at=began,
        ended_at=attempt["ended_at"],
        seconds=None if began is None else (attempt["ended_at"] - began).total_seconds(),
        error_class=attempt["error_class"],
        error=attempt["error"],
        traceback=attempt["traceback"],
        is_open=is_open,
    )


def _json(text: str, size: int) -> JsonText:
    laid_out = pretty(text, MOST_PRETTY)
    return JsonText(laid_out, size, len(text.encode()) < size or laid_out.endswith("…"))


def _children(found: Found) -> list[ChildRun]:
    children = [
        ChildRun(
            child["id"], f"{child['origin']} by {child['created_by']}", child["state"], child["at"]
        )
        for child in found.children
    ]
    redriven = found.letter["requeued_as"] if found.letter is not None else None
    if found.letter is not None and redriven and all(c.id != redriven for c in children):
        by = found.letter["requeued_by"]
        children.append(ChildRun(redriven, f"redrive by {by}", "", found.letter["requeued_at"]))
    return children
