"""``/runs/{id}``: what happened, where did the time go, what is the error, what can be done; the
newest lines of its log, and as far as it fits all of it as a text file.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.cluster import fallback_of_run, fallback_words
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.pages import run as ask
from pgcron_ha.db.queries.pages.workflows import step_of_run
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.harmless import left_out
from pgcron_ha.model.formats import duration, mark_of, rfc
from pgcron_ha.model.verdicts import run_sentence, run_word
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages import steps
from pgcron_ha.web.plots import tries_of, where_time_went
from pgcron_ha.web.verbs import page_with_verbs, run_verb, verb

# Characters of a log as a file.
MOST_LOG: Final = 4 * 1024 * 1024
# Lines of one statement; with 8 KiB each they are still no burden.
_PIECE: Final = 200
_WORKFLOW: Final = "workflow:"


async def show_run(page_request: PageRequest) -> Response:
    """The page; of a workflow ``state`` and ``after`` choose the steps."""
    run_id = page_request.segments["id"]
    given = page_request.query(*steps.FILTERS, "verb")
    snapshot = await page_request.gather("run", _read_run, run_id)
    view = _view(page_request, snapshot.value, snapshot.now)
    if view["row"]["handler"].startswith(_WORKFLOW):
        view |= await steps.view_of_workflow(page_request, view, given)
    title = f"{mark_of(view['word']).word} · run {run_id} · {view['what']}"
    return page_with_verbs(page_request, "run", snapshot, title=title, **view)


async def show_log(page_request: PageRequest) -> Response:
    """The lines with instant, attempt, number and stream; the last line says if there are more."""
    run_id = page_request.segments["id"]
    page_request.query()
    snapshot = await page_request.gather("run_log", _read_log, run_id, life=0)
    headers = {"content-disposition": f'attachment; filename="run-{run_id}.log.txt"'}
    return PlainTextResponse(snapshot.value, headers=headers)


# Ends a waiting run, asks the node of a running one to stop it; ``note`` is kept.
cancel = verb(functions.cancel_run, "run", {"requested": "cancel_requested"}, "note")
# Asks the node of a run that was asked to stop to end it by force.
kill = verb(functions.kill_run, "run", {"requested": "kill_requested"}, "note")
# A waiting run is due at once, an ended one runs again as a new run.
retry = run_verb(functions.retry_run, "rerun", "note")


async def _read_run(session: Session, run_id: int) -> Row:
    """The run with what belongs to it, its attempts that did not succeed, and the last lines of
    its log, in one read-only transaction. NotFound.
    """
    run = await session.call(ask.run, run_id)
    is_ended = run["finished_at"] is not None
    is_dead = run["state"] in ("dead", "lost")
    attempts = await session.call(ask.attempts, run_id=run_id)
    return {
        **run,
        "fallback": await session.call(fallback_of_run, run_id),
        "step": await session.call(step_of_run, run_id) if run["origin"] == "step" else None,
        "letter": await session.call(ask.letter, run_id=run_id) if is_dead else None,
        "children": await session.call(ask.children, run_id=run_id) if is_ended else [],
        "attempts": attempts,
        "is_snoozed": bool(attempts) and attempts[0]["outcome"] == "snoozed",
        "lines": (await session.call(ask.last_lines, run_id=run_id))[::-1],
    }


def _view(page_request: PageRequest, row: Row, now: datetime) -> dict[str, Any]:
    """What the page shows."""
    word, letter, attempts = run_word(row, now), row["letter"], row["attempts"]
    shown = attempts[: ask.ATTEMPTS]
    is_open_letter = letter is not None and letter["closed_at"] is None
    # An unfolded one holds its region as it is, so while more may come all are folded.
    with_traceback = (one["attempt"] for one in shown if one["traceback"] and row["finished_at"])
    return {
        "row": row,
        "word": word,
        "sentence": run_sentence(row, letter, now),
        "what": row["schedule_now"] or row["schedule"] or row["handler"],  # the heading
        "facts": _facts(page_request, row),
        "instants": _instants(row),
        "progress": _progress(row),
        "bar": where_time_went(row, shown, now),
        "attempts": tries_of(row, shown),
        "unfolded": next(with_traceback, None),
        "hidden_attempts": len(attempts) > len(shown) and shown[-1]["attempt"] - 1,
        "args": _json(row["args"], row["args_bytes"]),
        "result": _json(row["result"], row["result_bytes"]),
        "lines": row["lines"][-ask.LINES :],
        "has_older_lines": len(row["lines"]) > ask.LINES,
        "workflow": None,
        "verbs": {
            "redrive": is_open_letter,
            "archive": is_open_letter,
            # an open dead letter is redriven, which closes it
            "retry": not is_open_letter and _may_run_again(row, word),
            "resume": False,
            "pause": False,
            "cancel": row["finished_at"] is None and row["cancel_at"] is None,
            "kill": row["cancel_at"] is not None and row["kill_at"] is None,
        },
        "is_gone": row["place"] == ask.GONE,
    }


def _progress(row: Row) -> Row | None:
    """What it reported last: ``amount``, such as 3 of 10, and ``percent``, if it named a total."""
    done, total = row["done"], row["total"]
    if done is None:
        return None
    percent = None if total is None else f"{min(100.0, 100 * done / total):.0f}"
    amount = f"{done:,.10g}" + ("" if total is None else f" of {total:,.10g}")
    return {**row, "amount": amount, "percent": percent}


def _may_run_again(row: Row, word: str) -> bool:
    """Whether it may run again, or, while it waits, at once."""
    if row["finished_at"] is None:
        return word not in ("running", "blocked", "ready")
    return row["place"] != ask.GONE and row["args"] is not None and row["step"] is None


def _facts(page_request: PageRequest, row: Row) -> list[tuple[str, str | None, str | None]]:
    """Word, value (what has none is not shown), and an address if there is one."""

    def runs(name: str) -> str:
        return page_request.link("runs", {name: row[name]})

    def lasting(name: str, words: str) -> str | None:
        return row[name] and words.format(duration(row[name]))

    parent, group = row["parent_run"], (row["letter"] or {}).get("fingerprint")
    dead = page_request.link("dead", {"state": "all", "group": group})
    is_deleted = row["schedule"] and not row["schedule_now"]
    naps = f", of which {row['snoozes']} snoozed" if row["snoozes"] else ""
    return [
        ("Handler", row["handler"], runs("handler")),
        ("Queue", row["queue"], runs("queue")),
        ("Priority", f"{row['priority']}" + (" (0 is first)" if row["priority"] else ""), None),
        ("Attempt", f"{row['attempt']} of {row['max_attempts']}{naps}", None),
        ("Concurrency key", row["concurrency_key"], None),
        ("Requires", ", ".join(row["requires"] or ()), None),
        ("Unique key", _unique_key(row), None),
        ("Retries", row["retry"], None),
        ("Died as", group and f"all of {group}", dead),
        ("Node", row["node"], runs("node")),
        ("Schedule", f"{row['schedule']} (deleted)" if is_deleted else None, runs("schedule")),
        ("Made from", parent and f"run {parent}", parent and page_request.link("run", id=parent)),
        ("Fallback", row["fallback"] and fallback_words(row["fallback"]), None),
        ("Origin", ", by ".join(filter(None, [row["origin"], row["created_by"]])), None),
        ("Requested with the login", row["created_login"], None),
        ("Delivery", row["delivery"].replace("_", " "), None),
        ("Timeout", lasting("timeout", "{}"), None),
        ("Given up", lasting("give_up_after", "{} after it is due"), None),
        ("Silence", lasting("silence_timeout", "at most {}"), None),
        ("Id", str(row["uuid"]), None),
    ]


def _unique_key(row: Row) -> str | None:
    if not row["unique_key"]:
        return None
    spans = {"waiting": "while it waits", "taken": "until a node took it", "period": "for a time"}
    return f"{row['unique_key']} ({spans.get(row['unique_scope'], 'while it is open')})"


def _instants(row: Row) -> list[tuple[str, datetime | None]]:
    fire = row["scheduled_for"] or row["nominal_for"]
    return [
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


def _json(text: str | None, size: int) -> dict[str, Any] | None:
    """Args or a result; `size` is in bytes, of the whole. None where there is none."""
    if text is None:
        return None
    return {"text": text, "size": size, "is_cut": len(text) == ask.MOST_JSON}


async def _read_log(session: Session, run_id: int) -> str:
    """The text, at most about `MOST_LOG`. NotFound."""
    await session.call(ask.run, run_id)
    parts: list[str] = []
    size, after = 0, {"after_attempt": 0}
    while size < MOST_LOG:
        found = await session.call(overview.lines, run_id, **after, limit=_PIECE)
        for row in found:
            number = f"{row['attempt']}.{row['sequence']}"
            text = left_out(row["line"]).replace("\n", " ")
            parts.append(f"{rfc(row['at'])} {number:<8} {row['stream']:<6} {text}\n")
            size += len(parts[-1])
        if len(found) < _PIECE:
            return "".join(parts)
        last = found[-1]
        after = {"after_attempt": last["attempt"], "after_sequence": last["sequence"]}
    parts.append(
        f"(cut: the log is longer than {MOST_LOG:,} characters; all of an attempt:"
        f" pgcron-ha runs logs {run_id} --attempt {last['attempt']} --limit 10000)\n"
    )
    return "".join(parts)
