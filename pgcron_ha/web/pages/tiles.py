"""The six numbers of the overview, always in the same order, so that their place is learnt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.queries.pages.overview import COUNTED_EXACTLY
from pgcron_ha.web.contexts import NodeLine, Tile
from pgcron_ha.web.formats import duration, number, plural
from pgcron_ha.web.health import Health
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.facts import Facts

# A queue's oldest due run, a start: waiting longer than this is worth a colour.
LAG_LATE_SECONDS: Final = 30.0
LAG_BAD_SECONDS: Final = 300.0
DELAY_LATE_SECONDS: Final = 5.0
_GLYPHS: Final = {"ok": "✓", "late": "▲", "fail": "✕", "idle": "–"}


def tiles(
    page_request: PageRequest,
    facts: Facts,
    judged: Sequence[tuple[dict[str, Any], Health]],
    nodes: Sequence[NodeLine],
    now: datetime,
) -> tuple[Tile, ...]:
    """Failing, late, dead letters, nodes, worst queue lag, start delay."""
    return (
        _failing(page_request, judged),
        _late(page_request, judged, now),
        _dead(page_request, facts),
        _nodes(page_request, facts, nodes),
        _lag(page_request, facts, now),
        _delay(facts),
    )


def _tile(label: str, value: str, tone: str, word: str, note: str, **more: Any) -> Tile:
    return Tile(
        label=label,
        value=value,
        unit=more.get("unit", ""),
        word=word,
        glyph=_GLYPHS[tone],
        tone=tone,
        note=note,
        href=more.get("href"),
    )


def _failing(page_request: PageRequest, judged: Sequence[tuple[dict[str, Any], Health]]) -> Tile:
    words = [health.word for _, health in judged if health.word in ("failing", "stuck", "invalid")]
    href = page_request.link("schedules", {"health": "failing"})
    if not words:
        return _tile("Failing schedules", "0", "ok", "ok", "every last run succeeded", href=href)
    counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    return _tile("Failing schedules", number(len(words)), "fail", "failing", counts, href=href)


def _late(
    page_request: PageRequest, judged: Sequence[tuple[dict[str, Any], Health]], now: datetime
) -> Tile:
    since = [health.since or now for _, health in judged if health.word in ("late", "stale")]
    href = page_request.link("schedules", {"health": "late"})
    if not since:
        return _tile("Late", "0", "ok", "ok", "every fire started in time", href=href)
    oldest = duration((now - min(since)).total_seconds())
    return _tile("Late", number(len(since)), "late", "late", f"the oldest for {oldest}", href=href)


def _dead(page_request: PageRequest, facts: Facts) -> Tile:
    letters, lately = facts.cluster["dead_letters"], facts.cluster["dead_letters_of_last_hour"]
    href = page_request.link("dead")
    if not letters:
        return _tile("Dead letters", "0", "ok", "ok", "nothing to triage", href=href)
    shown = f"{number(COUNTED_EXACTLY)}+" if letters > COUNTED_EXACTLY else number(letters)
    note = f"{plural(len(facts.dead), 'cause')}, {number(lately)} in the last hour"
    tone = "fail" if lately else "late"
    return _tile("Dead letters", shown, tone, "rising" if lately else "waiting", note, href=href)


def _nodes(page_request: PageRequest, facts: Facts, nodes: Sequence[NodeLine]) -> Tile:
    alive = [node for node in nodes if node.state == "alive"]
    silent = sum(node.state == "silent" for node in nodes)
    draining = sum(node.state == "draining" for node in nodes)
    cordoned = sum(node.state == "cordoned" for node in nodes)
    died = sum(node.state == "died" for node in nodes)
    href = page_request.link("nodes")
    slots = f"{sum(n.slots_used for n in alive)} of {sum(n.slots for n in alive)} slots used"
    others = ((cordoned, "cordoned"), (draining, "draining"), (silent, "silent"))
    extra = [f"{count} {word}" for count, word in others]
    note = ", ".join([slots, *(text for text in extra if not text.startswith("0"))])
    if not alive:
        idle = "nothing new runs" if cordoned else "nothing fires, nothing runs"
        return _tile("Nodes", "0", "fail", "none", idle, href=href)
    if silent or died:
        return _tile("Nodes", number(len(alive)), "late", "lost one", note, unit="alive", href=href)
    return _tile("Nodes", number(len(alive)), "ok", "ok", note, unit="alive", href=href)


def _lag(page_request: PageRequest, facts: Facts, now: datetime) -> Tile:
    waiting = [*facts.due, *facts.parked]
    if not waiting:
        href = page_request.link("queues")
        note = "nothing is due and waiting"
        return _tile("Worst queue lag", "0", "ok", "ok", note, unit="s", href=href)
    worst = min(waiting, key=lambda row: row["oldest_due"])
    seconds = max(0.0, (now - worst["oldest_due"]).total_seconds())
    tone = "fail" if seconds > LAG_BAD_SECONDS else "late" if seconds > LAG_LATE_SECONDS else "ok"
    word = {"fail": "behind", "late": "behind", "ok": "ok"}[tone]
    # A number that is read from afar: no seconds beside many minutes.
    shown = seconds if seconds < LAG_BAD_SECONDS else seconds - seconds % 60
    queue = worst["queue"]
    href = page_request.link("queue", name=queue)
    return _tile("Worst queue lag", duration(shown), tone, word, f"queue {queue}", href=href)


def _delay(facts: Facts) -> Tile:
    seconds, started = facts.recent.get("start_delay_p99"), facts.recent.get("started") or 0
    if seconds is None:
        return _tile("Start delay p99", "–", "idle", "no data", "nothing ended in 5 minutes")
    tone = "late" if seconds > DELAY_LATE_SECONDS else "ok"
    note = f"of {plural(started, 'run')} in 5 minutes"
    if facts.recent.get("is_cut"):
        note = f"of the newest {plural(started, 'run')}"
    return _tile(
        "Start delay p99", duration(seconds), tone, "slow" if tone == "late" else "ok", note
    )
