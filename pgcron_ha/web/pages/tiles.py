"""The six numbers of the overview, always in the same order, so that their place is learnt."""

from __future__ import annotations

from typing import Final, NamedTuple

from pgcron_ha.db.queries.pages.overview import COUNTED_EXACTLY, blocked
from pgcron_ha.web.formats import Mark, duration, number, plural
from pgcron_ha.web.pages.attention import Link
from pgcron_ha.web.pages.facts import Facts

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


def tiles(link: Link, seen: Facts) -> list[Tile]:
    """Failing, late, dead letters, nodes, worst queue lag, start delay."""
    return [
        _failing(link, seen),
        _late(link, seen),
        _dead(link, seen),
        _nodes(link, seen),
        _lag(link, seen),
        _delay(seen),
    ]


def _mark(tone: str, word: str = "ok") -> Mark:
    return Mark(_GLYPHS[tone], word, tone)


def _failing(link: Link, seen: Facts) -> Tile:
    words = [health.word for _, health in seen.judged]
    failing = [word for word in words if word in ("failing", "stuck", "invalid")]
    label, href = "Failing schedules", link("schedules", {"health": "failing"})
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
    letters, lately = seen.cluster["dead_letters"], seen.cluster["dead_letters_of_last_hour"]
    label, href = "Dead letters", link("dead")
    if not letters:
        return Tile(label, "0", _mark("ok"), "nothing to triage", href)
    shown = f"{number(COUNTED_EXACTLY)}+" if letters > COUNTED_EXACTLY else number(letters)
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
    waiting, label = [*seen.due, *blocked(seen.waiting)], "Worst queue lag"
    if not waiting:
        return Tile(label, "0", _mark("ok"), "nothing is due and waiting", link("queues"), "s")
    worst = min(waiting, key=lambda row: row["oldest_due"])
    seconds = max(0.0, (seen.now - worst["oldest_due"]).total_seconds())
    tone = "fail" if seconds > LAG_BAD_SECONDS else "late" if seconds > LAG_LATE_SECONDS else "ok"
    mark = _mark(tone, "ok" if tone == "ok" else "behind")
    # A number that is read from afar: no seconds beside many minutes.
    shown = seconds if seconds < LAG_BAD_SECONDS else seconds - seconds % 60
    queue = worst["queue"]
    return Tile(label, duration(shown), mark, f"queue {queue}", link("queue", name=queue))


def _delay(seen: Facts) -> Tile:
    label, recent = "Start delay p99", seen.recent
    if recent["start_delay_p99"] is None:
        return Tile(label, "–", _mark("idle", "no data"), "nothing ended in 5 minutes")
    started = plural(recent["started"], "run")
    is_late = recent["start_delay_p99"] > DELAY_LATE_SECONDS
    note = f"of the newest {started}" if recent["is_cut"] else f"of {started} in 5 minutes"
    mark = _mark("late", "slow") if is_late else _mark("ok")
    return Tile(label, duration(recent["start_delay_p99"]), mark, note)
