"""The grammar of one cron field, strict: what is not written here is refused.

::

    field   = item { "," item }
    item    = "*" [step] | value [step] | value "-" value [step] | mark
    step    = "/" number                                1 to 4 digits, at least 1
    mark    = "L" | "LW" | "L-" n | n "W"               in the day field
            | weekday "#" n | weekday "L" | "L" n       in the weekday field

A day or weekday field may be a single ``?``, which means ``*``. ``9/15`` is ``9-59/15``. Ranges
don't wrap, but a weekday range may end with Sunday (``5-0``, ``fri-sun``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pgcron_ha.errors import InvalidSpec
from pgcron_ha.spec.text import MONTHS, WEEKDAYS, ranges

_NUMBER = r"[A-Z]{3}|\d{1,2}"
_ITEM = re.compile(rf"(?:\*|({_NUMBER})(?:-({_NUMBER}))?)(?:/(\d{{1,4}}))?", re.ASCII)
_FROM_THE_END = re.compile(r"L(?:W|-(0?[1-9]|[12]\d|30))?", re.ASCII)
_NEAREST_WEEKDAY = re.compile(r"(\d{1,2})W", re.ASCII)
_NTH_WEEKDAY = re.compile(r"([A-Z]{3}|\d)#([1-5])", re.ASCII)
_LAST_WEEKDAY = re.compile(r"(?:([A-Z]{3}|\d)L|L(\d))", re.ASCII)


@dataclass(frozen=True)
class FieldRule:
    """What one field allows: its name, its bounds (both included), the names of its numbers from
    the lowest on, and a fitting example.
    """

    name: str
    low: int
    high: int
    example: str
    names: tuple[str, ...] = ()

    def refuse(self, token: str, reason: str) -> InvalidSpec:
        """The error for ``token`` of this field; the hint is an expression that would do."""
        return InvalidSpec(
            f'the {self.name} field does not allow "{token}"',
            reason,
            f'for example "{self.example}"',
        )


SECOND = FieldRule("second", 0, 59, "*/10 * * * * *")
MINUTE = FieldRule("minute", 0, 59, "*/15 * * * *")
HOUR = FieldRule("hour", 0, 23, "0 9-17 * * *")
DAY = FieldRule("day", 1, 31, "0 9 1,15,L * *")
MONTH = FieldRule("month", 1, 12, "0 9 1 jan,jul *", tuple(name[:3].upper() for name in MONTHS))
_FROM_SUNDAY = (WEEKDAYS[-1], *WEEKDAYS[:-1])
WEEKDAY = FieldRule(
    "weekday", 0, 6, "0 9 * * mon-fri", tuple(name[:3].upper() for name in _FROM_SUNDAY)
)
RULES = (SECOND, MINUTE, HOUR, DAY, MONTH, WEEKDAY)


@dataclass(frozen=True)
class CronField:
    """One field, understood.

    ``values`` are the plain numbers (Sunday is 0), ascending; ``marks`` the days that depend on the
    month (``L``, ``LW``, ``L-3``, ``15W``; ``5#2``, ``L5``), sorted; ``starred`` says that the text
    began with ``*`` (or was ``?``), on which cron's day rule and job class depend.
    """

    values: tuple[int, ...]
    marks: tuple[str, ...]
    starred: bool
    canonical: str

    @property
    def everything(self) -> bool:
        """Whether the field was written as ``*`` or something that means the same."""
        return self.canonical == "*"


def parse_field(rule: FieldRule, text: str) -> CronField:
    """Read one field; raises `InvalidSpec` that names the field and the token."""
    if text == "?":
        if rule is not DAY and rule is not WEEKDAY:
            raise rule.refuse(text, "? stands alone in a day or weekday field, for any day")
        text = "*"
    values: set[int] = set()
    marks: set[str] = set()
    for item in text.split(","):
        mark = _mark(rule, item.upper(), item)
        if mark is not None:
            marks.add(mark)
        else:
            values.update(_values(rule, item.upper(), item))
    starred, full = text.startswith("*"), len(values) == rule.high - rule.low + 1
    if full:
        marks = set()  # nothing to add to every day
    if rule is MONTH:
        starred = full  # no rule of cron asks how a month field begins
    numbers = _stepped(rule, values) if starred else ranges(sorted(values), between="-")
    canonical = "*" if starred and full else ",".join([*numbers, *sorted(marks)])
    return CronField(tuple(sorted(values)), tuple(sorted(marks)), starred, canonical)


def _values(rule: FieldRule, item: str, written: str) -> Iterable[int]:
    match = _ITEM.fullmatch(item)
    if match is None:
        raise rule.refuse(written, _reason(rule, item))
    first, last, step_text = match.groups()
    step = int(step_text or 1)
    if step < 1:
        raise rule.refuse(written, "a step is at least 1")
    if first is None:  # a star
        return range(rule.low, rule.high + 1, step)
    low = _number(rule, first, written)
    if last is None:
        high = low if step_text is None else max(low, rule.high)
    else:
        high = _number(rule, last, written)
        if rule is WEEKDAY and high == 0 and low > 0:
            high = 7
    if low > high:
        raise rule.refuse(written, "a range begins with its smaller end; ranges don't wrap")
    # A weekday of 7 is Sunday, too, which is 0.
    return (value % (rule.high + 1) for value in range(low, high + 1, step))


def _mark(rule: FieldRule, item: str, written: str) -> str | None:
    """The canonical text of a day that depends on the month, or None if the item is plain."""
    if rule is DAY:
        if match := _FROM_THE_END.fullmatch(item):
            return item if match[1] is None else f"L-{int(match[1])}"
        if match := _NEAREST_WEEKDAY.fullmatch(item):
            return f"{_number(rule, match[1], written)}W"
    if rule is WEEKDAY:
        if match := _NTH_WEEKDAY.fullmatch(item):
            return f"{_number(rule, match[1], written) % 7}#{match[2]}"
        if match := _LAST_WEEKDAY.fullmatch(item):
            return f"L{_number(rule, match[1] or match[2], written) % 7}"
    return None


def _number(rule: FieldRule, text: str, written: str) -> int:
    if not text.isdigit():
        if text not in rule.names:
            raise rule.refuse(written, _reason(rule, text))
        return rule.low + rule.names.index(text)
    highest = 7 if rule is WEEKDAY else rule.high
    if not rule.low <= int(text) <= highest:
        raise rule.refuse(written, f"its numbers go from {rule.low} to {highest}")
    return int(text)


def _reason(rule: FieldRule, item: str) -> str:
    if "~" in item or (item[:1] in ("H", "R") and item[1:2] in ("", "/", "(")):
        return "random and hashed times (R, H, ~) would differ from node to node"
    allowed = "*, numbers, ranges a-b, steps /n and lists a,b"
    if rule is DAY:
        allowed += "; L, LW, L-1 to L-30 and nW"
    if rule.names:
        allowed += "; names of three letters"
    if rule is WEEKDAY:
        allowed += "; fri#1 to fri#5 and friL"
    return f"allowed are {allowed}"


def _stepped(rule: FieldRule, values: set[int]) -> list[str]:
    """A field that begins with ``*``: its smallest step, then what that step leaves out."""
    steps = (range(rule.low, rule.high + 1, step) for step in range(2, rule.high - rule.low + 2))
    covered = next(numbers for numbers in steps if values.issuperset(numbers))
    return [f"*/{covered.step}", *ranges(sorted(values.difference(covered)), between="-")]
