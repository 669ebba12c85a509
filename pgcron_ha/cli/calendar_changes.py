"""What an apply of files does to calendars, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from pgcron_ha.cli.output import echo, print_json
from pgcron_ha.db.commands.calendar_files import AppliedCalendar

SIGNS = {"added": "+", "changed": "~", "pruned": "-"}
_MOST_LINES = 40


def print_calendar_changes(
    applied: Sequence[AppliedCalendar], source: str, *, as_json: bool
) -> None:
    """Each that is not as it was, with its lines that are new or gone."""
    for one in applied:
        if as_json:
            lines = list(_changed_lines(one))
            print_json({"calendar": one.name, "change": one.change, "lines": lines})
        elif one.change in SIGNS:
            _print_change(one, source)


def counted(changes: Sequence[str]) -> str:
    """``2 added, 1 unchanged``; empty if there is nothing."""
    counts = {word: changes.count(word) for word in ("added", "changed", "unchanged", "pruned")}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _print_change(one: AppliedCalendar, source: str) -> None:
    echo(f"{SIGNS[one.change]} calendar {one.name}")
    if one.change == "pruned":
        return
    if one.change == "changed" and one.source_before != source:
        echo(f"    source: {one.source_before or '-'} → {source}")
    lines = list(_changed_lines(one))
    for line in lines[:_MOST_LINES]:
        echo(f"    {line}")
    if len(lines) > _MOST_LINES:
        echo(f"    and {len(lines) - _MOST_LINES} more lines")
    if one.change == "changed" and lines and one.users:
        echo(f"    used by {one.users} schedule{'s'[: one.users > 1]}")


def _changed_lines(one: AppliedCalendar) -> Iterator[str]:
    before, after = (_lines(text) for text in (one.before, one.after))
    for tag, low, high, first, last in SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            yield from (f"- {line}" for line in before[low:high])
            yield from (f"+ {line}" for line in after[first:last])


def _lines(text: str | None) -> list[str]:
    return (text or "").rstrip(" \t\r\n").split("\n") if (text or "").strip() else []
