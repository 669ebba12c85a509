"""A schedule in English: ``At 03:00 on Monday to Friday, in Europe/Berlin; …``.

It helps authors to check a spec. The text is no more precise than the spec; the next fires beside
it (`pgcron_ha.spec.preview`) are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.spec.bounds import EARLIEST, LATEST
from pgcron_ha.spec.calendars.shift import CalendarExclusion
from pgcron_ha.spec.cron.expression import START, NthExpression
from pgcron_ha.spec.cron.fires import DstPolicy
from pgcron_ha.spec.exclusions import CronExclusion, DatesExclusion, Exclusion, InstantExclusion
from pgcron_ha.spec.recurrence import FREQUENCIES, read_parts
from pgcron_ha.spec.recurring_times import RecurringTimes
from pgcron_ha.spec.rules import EPOCH, AssetRule, FireRule, InstantRule, IntervalRule, WallRule
from pgcron_ha.spec.spec import Spec
from pgcron_ha.spec.text import counted, duration_text, in_number, listed, moment, ordinal
from pgcron_ha.spec.words import covered_words, cron_words, day_words, time_words
from pgcron_ha.spec.zones import load_zone

_UNITS: Final = dict(zip(FREQUENCIES, ("year", "month", "week", "day"), strict=True))

# Long unions are cut; a sentence of this length is read by nobody to its end.
MOST_CHARACTERS: Final = 1500

_CLOCK_CHANGES: Final = {
    DstPolicy.ROBFIG: "wall times that the clock skips are lost, repeated ones fire twice",
    DstPolicy.SKIP: "wall times that the clock skips are lost, repeated ones fire once",
}


def sentence(spec: Spec, policies: Mapping[str, Any] | None = None) -> str:
    """One sentence of at most `MOST_CHARACTERS`, the same for equal arguments; it never raises.

    ``policies`` are a schedule's, by name, durations as `timedelta` or seconds; absent or None:
    nothing is said.
    """
    parts = [_when(spec)]
    change = _CLOCK_CHANGES.get(spec.dst)
    has_wall_times = any(isinstance(rule, WallRule) for rule in spec.rules)
    if change is not None and spec.timezone != "UTC" and has_wall_times:
        parts.append(change)
    chosen = dict(policies or {})
    if spec.assets:  # no fire is late, and none is skipped: updates wait for the end of a run
        chosen |= {"catchup": None} | ({"overlap": None} if chosen.get("overlap") == "skip" else {})
    text = "; ".join([*parts, *policy_words(chosen)])
    text = f"{text[:1].upper()}{text[1:]}"
    if len(text) >= MOST_CHARACTERS:
        return f"{text[: MOST_CHARACTERS - 1]}…"
    return f"{text}."


def rule_words(rule: FireRule, timezone: str) -> str:
    """One line that fires."""
    if isinstance(rule, WallRule):
        times = rule.times
        if isinstance(times, RecurringTimes):
            return _recurrence_words(rule.canonical, times)
        if not isinstance(times, NthExpression):
            return cron_words(times)
        since = "" if times.anchor == START else f" counted from {moment(times.anchor)}"
        return f"each {ordinal(times.step)} time{since} of: {cron_words(times)}"
    if isinstance(rule, IntervalRule):
        since = "" if rule.anchor == EPOCH else f" counted from {moment(rule.anchor)} UTC"
        return f"every {duration_text(rule.period)}{since}"
    if isinstance(rule, AssetRule):
        number = len(rule.assets)
        assets, were = in_number(number, "asset"), in_number(number, "was", "were")
        return f"when {assets} {listed(rule.assets)} {were} updated"
    assert isinstance(rule, InstantRule)
    return f"once at {moment(rule.instant.astimezone(load_zone(timezone)))}"


def _recurrence_words(line: str, times: RecurringTimes) -> str:
    """When it fires, without the zone; begins in lower case."""
    parts = read_parts(line.split()[1])
    unit = _UNITS[parts.texts["FREQ"]]
    every = f"every {times.interval} {unit}s (counted from {times.first:%Y-%m-%d})"
    words = [every if times.interval > 1 else f"each {unit}"]
    days = day_words(times.days)
    words.append(days.replace(" of the month", "") if unit == "month" else days)
    words.append(time_words(times.hours, times.minutes, times.seconds))
    if times.positions:
        chosen = listed([counted(place) for place in times.positions])
        words.append(f"(of these only {chosen} of the {unit})")
    text = " ".join(word for word in words if word)
    if parts.count is not None:
        text += f", {parts.count} {in_number(parts.count, 'time')} from {moment(times.first)} on"
    if parts.until is not None:
        written = parts.texts["UNTIL"]
        day_or_time = moment(parts.until) if "T" in written else f"the end of {parts.until.date()}"
        text += f", until {day_or_time}{' UTC' if written.endswith('Z') else ''}"
    return text


def exclusion_words(exclusion: Exclusion, timezone: str) -> str:
    """What one ``not`` line leaves out, without the word not."""
    if isinstance(exclusion, DatesExclusion):
        dates = exclusion.canonical.removeprefix("not ").replace("..", " to ")
        return f"on {listed(dates.split(','))}"
    if isinstance(exclusion, CronExclusion):
        return covered_words(exclusion.expression)
    if isinstance(exclusion, InstantExclusion):
        return f"at {moment(exclusion.instant.astimezone(load_zone(timezone)))}"
    assert isinstance(exclusion, CalendarExclusion)
    kept = "outside" if exclusion.use.keeps else "on days of"
    return f"{kept} calendar {exclusion.use.name}"


def _when(spec: Spec) -> str:
    text = ", and ".join(rule_words(rule, spec.timezone) for rule in spec.rules)
    has_zone = any(not isinstance(rule, IntervalRule | AssetRule) for rule in spec.rules)
    if has_zone or spec.exclusions:
        text += f", in {spec.timezone}"
    zone = load_zone(spec.timezone)
    if spec.first != EARLIEST:
        text += f", from {moment(spec.first.astimezone(zone))} on"
    if spec.last != LATEST:
        text += f", until {moment(spec.last.astimezone(zone))}"
    left_out = [exclusion_words(one, spec.timezone) for one in spec.exclusions]
    if left_out:
        text += f", but not {', nor '.join(left_out)}"
    for line in spec.moves.lines if spec.moves is not None else ():
        text += f", {exclusion_words(line, spec.timezone)} on the {line.use.move} day that is left"
    return text


_OVERLAPS: Final = {
    "skip": "the fire is skipped",
    "queue": "the fire waits for its end",
    "replace": "it is cancelled, and the new one starts when it has stopped",
    "terminate": "it is killed, and the new one starts when it has stopped",
}


def policy_words(policies: Mapping[str, Any]) -> list[str]:
    """The clauses of those that are given and decide whether and when a fire is executed, in a
    fixed order; how, they say themselves. Durations are `timedelta` or seconds.
    """
    get = policies.get
    most = get("max_runs")
    clauses = (
        "it is paused" if get("enabled") is False else "",
        _lasting("each fire is due up to {} later, all alike", get("jitter")),
        f"it ends after {most} {in_number(most, 'run')}" if most else "",
        _overlap(policies),
        "a fire does not run while the one before it has failed"
        if get("depends_on_previous")
        else "",
        _catchup(get("catchup"), get("catchup_window")),
        "what fires in a pause is late" if get("after_pause") == "catchup" else "",
        _lasting("a run that has not begun {} after its fire expires", get("start_deadline")),
    )
    return [clause for clause in clauses if clause]


def _lasting(words: str, length: timedelta | float | None) -> str:
    return words.format(duration_text(length)) if length else ""


def _overlap(policies: Mapping[str, Any]) -> str:
    word = policies.get("overlap")
    if word is None:
        return ""
    most = policies.get("max_running")
    last = "the last run is" if most in (None, 1) else f"{most} runs are"
    what = _OVERLAPS.get(str(word), f"overlap is {word}")
    if word == "allow":
        if most == 1:
            return "its runs wait for one another, however many"
        allowed = f"up to {most} of its runs overlap, and others wait, however many"
        return "runs may overlap" if most is None else allowed
    if word == "queue" and most not in (None, 1):
        what = "the fire waits for the end of one"
    if word == "queue" and policies.get("max_queued") is not None:
        dropped = "oldest" if policies.get("queue_drops") == "oldest" else "newest"
        queued = policies["max_queued"]
        what += f" (at most {queued} {in_number(queued, 'does', 'do')}; the {dropped} is dropped)"
    return f"if {last} not over, {what}"


def _catchup(word: Any, window: timedelta | float | None) -> str:
    if word in (None, "none"):
        return "" if word is None else "late fires don't run"
    late = "late fires" if window is None else f"fires late by up to {duration_text(window)}"
    if word == "all":
        return f"all {late} run"
    number = str(word).removeprefix("latest").strip()
    newest = f"the newest {number} run" if number else "only the newest runs"
    return f"of {late} {newest}"
