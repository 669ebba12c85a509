"""``/``: is anything wrong, what, and what was and will be."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Final, NamedTuple

from starlette.responses import Response

from pgcron_ha.db.queries.attention import (
    Facts,
    Link,
    causes,
    for_timeline,
    queue_link,
    read_facts,
    shortlist,
)
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.formats import Mark, duration, number, plural, who_and_why
from pgcron_ha.spec.budget import search
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.web.address import choice
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.plots import distance, timeline

# Two thirds of the axis are past.
WINDOWS: Final[dict[str, timedelta]] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
DEFAULT_WINDOW: Final = "24h"
# Chosen while all there is to see fits in it, so that the first minutes are more than a stroke.
FIRST_WINDOW: Final = "1h"
_ATTENTION_ROWS: Final = 20
# With ?attention=all: as long as a page may be that somebody reads.
_ALL_ATTENTION_ROWS: Final = 500
ALL: Final = "all"
_QUEUES: Final = 8
_NODES: Final = 8
# A queue's oldest due run, a start: waiting longer than this is worth a colour.
LAG_LATE_SECONDS: Final = 30.0
LAG_BAD_SECONDS: Final = 300.0
DELAY_LATE_SECONDS: Final = 5.0
_GLYPHS: Final = {"ok": "✓", "late": "▲", "fail": "✕", "idle": "–"}


class Tile(NamedTuple):
    """One number of the overview."""

    label: str
    value: str
    """The big number, worded."""
    mark: Mark
    """The state in a word, and the colour of its edge."""
    note: str
    """One line below: since when, which queue, how many causes."""
    href: str | None = None
    """The filtered list behind it."""
    unit: str = ""
    """What follows the number, small."""


async def show_overview(page_request: PageRequest) -> Response:
    """The page; ``?window=`` is how much time is shown, ``?attention=all`` lists every cause."""
    given = page_request.query("window", "attention")
    chosen = choice(given.get("window"), tuple(WINDOWS), "window")
    window = chosen or DEFAULT_WINDOW
    is_all = choice(given.get("attention"), (ALL,), "number of causes") == ALL
    snapshot = await page_request.gather("overview", read_facts, WINDOWS[window])
    seen = snapshot.value
    if chosen is None and _is_young(seen):
        window = FIRST_WINDOW
    attention = causes(page_request.link, seen)
    shown = shortlist(attention, _ALL_ATTENTION_ROWS if is_all else _ATTENTION_ROWS)
    all_href = page_request.link("overview", {"window": window, "attention": ALL}) + "#attention"
    is_used = seen.count["schedules"] or seen.nodes or seen.recent["runs"] or seen.blocking
    return page_request.page(
        "overview.html",
        snapshot,
        title=f"({len(attention)}) Overview" if attention else "Overview",
        tiles=_tiles(page_request.link, seen),
        attention=shown,
        more_attention=len(attention) - len(shown),
        all_attention_href=None if is_all else all_href,  # the page that shows every cause
        problems=len(attention),
        timeline=_timeline(page_request, seen, WINDOWS[window]),
        seen=seen,
        windows=page_request.choices("overview", "window", tuple(WINDOWS), {"window": window}),
        queues=_queue_lines(page_request.link, seen),
        nodes=seen.nodes[:_NODES] if page_request.may_open("nodes") else None,
        is_empty=not is_used,  # somebody has just installed it
    )


def _is_young(seen: Facts) -> bool:
    """Whether the past of the schedules, and what was read of their runs, fits `FIRST_WINDOW`."""
    begin = seen.now - WINDOWS[FIRST_WINDOW] * 2 / 3
    return all(row["created_at"] > begin for row, _ in seen.judged) and all(
        run["finished_at"] > begin for run in seen.tracks
    )


def _timeline(page_request: PageRequest, seen: Facts, length: timedelta) -> SimpleNamespace | None:
    rows = for_timeline(seen.judged, seen.now)
    if not rows:
        return None
    since, until = seen.now - length * 2 / 3, seen.now + length / 3
    running = [
        {**run, "outcome": "running", "started_at": run["since"], "finished_at": None}
        for run in seen.running
    ]
    tracks = [
        {
            "name": row["name"],
            "health": health.word,
            "runs": [r for r in (*seen.tracks, *running) if r["schedule_id"] == row["id"]],
            "fires": future_fires(row, seen.now, until, distance(since, until)),
        }
        for row, health in rows
    ]
    return timeline(tracks, since, seen.now, until, page_request.zone)


def future_fires(row: Row, now: datetime, until: datetime, distance: timedelta) -> list[datetime]:
    """Fires of an enabled, readable schedule up to `until`, each `distance` after the one before.

    So a schedule that fires every second costs no more than one that fires every hour.
    """
    if not row["enabled"] or row["status"] == "invalid":
        return []
    fires: list[datetime] = []
    with suppress(PgcronError), search():
        spec = spec_of(row)
        fire = spec.next(now)
        while fire is not None and fire <= until:
            fires.append(fire)
            fire = spec.next(fire + distance)
    return fires


def _queue_lines(link: Link, seen: Facts) -> list[Row]:
    """The queues with work, or paused; ``is_cut`` says that ``due`` is a lower bound."""
    paused = {
        row["name"]: who_and_why(row["paused_by"], row["paused_note"]) for row in seen.paused_queues
    }
    held = [{**row, "runs": row["at_gates"]} for row in seen.waiting if row["at_gates"]]
    found = [*seen.due, *held, *seen.running]
    lines = []
    for name in dict.fromkeys([*paused, *(row["queue"] for row in found)]):
        due, blocked = ([row for row in rows if row["queue"] == name] for rows in (seen.due, held))
        runs = sum(row["runs"] for row in due)
        line = {
            "name": name,
            "href": queue_link(link, seen, name),
            "due": runs,
            "blocked": sum(row["runs"] for row in blocked),
            "oldest_due": min((row["oldest_due"] for row in [*due, *blocked]), default=None),
            "running": sum(row["queue"] == name for row in seen.running),
            "is_cut": runs >= ask.LOOK,
            "paused": paused.get(name),
        }
        lines.append(line)
    lines.sort(key=lambda line: (line["oldest_due"] is None, line["oldest_due"]))
    return lines[:_QUEUES]


def _tiles(link: Link, seen: Facts) -> list[Tile]:
    """Failing, late, dead letters, nodes (to who may see them), worst queue lag, start delay."""
    return [
        _failing(link, seen),
        _late(link, seen),
        _dead(link, seen),
        *([_nodes(link, seen)] if link("nodes") else ()),
        _lag(link, seen),
        _delay(seen),
    ]


def _mark(tone: str, word: str = "ok") -> Mark:
    return Mark(_GLYPHS[tone], word, tone)


def _none_seen(label: str, newest: str, href: str | None = None) -> Tile:
    """Where a person sees none of those that were looked at, and there are more."""
    return Tile(
        label, "–", _mark("idle", "unknown"), f"none among the newest {newest} of all", href
    )


def _failing(link: Link, seen: Facts) -> Tile:
    words = [health.word for _, health in seen.judged]
    failing = [word for word in words if word in ("failing", "stuck", "invalid")]
    label, href = "Failing schedules", link("schedules", {"health": "failing"})
    if not failing and seen.open["looked"] > ask.LOOK:
        return _none_seen(label, f"{number(ask.LOOK)} dead letters", href)
    if not failing:
        return Tile(label, "0", _mark("ok"), "no last run failed", href)
    counts = ", ".join(f"{failing.count(word)} {word}" for word in dict.fromkeys(failing))
    return Tile(label, number(len(failing)), _mark("fail", "failing"), counts, href)


def _late(link: Link, seen: Facts) -> Tile:
    late = [health for _, health in seen.judged if health.word in ("late", "stale")]
    href = link("schedules", {"health": "late"})
    if not late:
        return Tile("Late", "0", _mark("ok"), "every fire that may start has started", href)
    oldest = duration((seen.now - min(one.since or seen.now for one in late)).total_seconds())
    return Tile("Late", number(len(late)), _mark("late", "late"), f"the oldest for {oldest}", href)


def _dead(link: Link, seen: Facts) -> Tile:
    letters, lately = seen.open["letters"], seen.open["of_last_hour"]
    label, href = "Dead letters", link("dead")
    is_cut = seen.open["looked"] > ask.COUNTED_EXACTLY
    if not letters and is_cut:
        return _none_seen(label, number(ask.COUNTED_EXACTLY), href)
    if not letters:
        return Tile(label, "0", _mark("ok"), "nothing to triage", href)
    shown = number(min(letters, ask.COUNTED_EXACTLY)) + "+" * is_cut
    note = f"{plural(len(seen.dead), 'cause')}, {number(lately)} in the last hour"
    mark = _mark("fail", "rising") if lately else _mark("late", "waiting")
    return Tile(label, shown, mark, note, href)


def _nodes(link: Link, seen: Facts) -> Tile:
    states = [node["word"] for node in seen.nodes]
    alive = [node for node in seen.nodes if node["word"] == "alive"]
    href = link("nodes")
    if not alive:
        is_idle = "cordoned" in states
        note = "nothing new runs" if is_idle else "nothing fires, nothing runs"
        return Tile("Nodes", "0", _mark("fail", "none"), note, href)
    slots = f"{sum(n['slots_used'] for n in alive)} of {sum(n['slots'] for n in alive)} slots used"
    others = [f"{states.count(word)} {word}" for word in ("cordoned", "draining", "silent")]
    note = ", ".join([slots, *(text for text in others if not text.startswith("0"))])
    has_lost = "silent" in states or "died" in states
    mark = _mark("late", "lost one") if has_lost else _mark("ok")
    return Tile("Nodes", number(len(alive)), mark, note, href, "alive")


def _lag(link: Link, seen: Facts) -> Tile:
    label = "Worst queue lag"
    if not seen.due:
        return Tile(label, "0", _mark("ok"), "nothing is due and waiting", link("queues"), "s")
    worst = min(seen.due, key=lambda row: row["oldest_due"])
    seconds = max(0.0, (seen.now - worst["oldest_due"]).total_seconds())
    tone = "fail" if seconds > LAG_BAD_SECONDS else "late" if seconds > LAG_LATE_SECONDS else "ok"
    mark = _mark(tone, "ok" if tone == "ok" else "behind")
    # A number that is read from afar: no seconds beside many minutes.
    shown = seconds if seconds < LAG_BAD_SECONDS else seconds - seconds % 60
    queue = worst["queue"]
    return Tile(label, duration(shown), mark, f"queue {queue}", queue_link(link, seen, queue))


def _delay(seen: Facts) -> Tile:
    label, recent = "Start delay p99", seen.recent
    if recent["start_delay_p99"] is None and recent["is_cut"]:
        return _none_seen(label, f"{number(ask.RECENT_RUNS)} runs")
    if recent["start_delay_p99"] is None:
        return Tile(label, "–", _mark("idle", "no data"), "nothing ended in 5 minutes")
    started = plural(recent["started"], "run")
    is_late = recent["start_delay_p99"] > DELAY_LATE_SECONDS
    note = f"of the newest {started}" if recent["is_cut"] else f"of {started} in 5 minutes"
    mark = _mark("late", "slow") if is_late else _mark("ok")
    return Tile(label, duration(recent["start_delay_p99"]), mark, note)
