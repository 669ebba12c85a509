"""What an edit of a schedule changed, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

# Written by the machine with each edit; they say nothing about the schedule.
_BOOKKEEPING: Final = frozenset({"id", "uuid", "version", "created_at", "updated_at"})


class Change(NamedTuple):
    """One column that differs; None where it has no value."""

    column: str
    before: Any
    after: Any


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What differs between two versions, in the columns' order; a column that only one of them has
    counts as NULL in the other.
    """
    return [
        Change(column, before.get(column), after.get(column))
        for column in {**before, **after}
        if column not in _BOOKKEEPING and before.get(column) != after.get(column)
    ]


def of_versions(
    newest_first: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], list[Change]]]:
    """Each version of a schedule with what it changed of the one before it. The oldest given has no
    changes, as the one before it is not known.
    """
    before = [*newest_first[1:], *newest_first[-1:]]
    for row, older in zip(newest_first, before, strict=True):
        yield row, changes(older["content"], row["content"])
