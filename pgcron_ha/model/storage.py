"""How large tables are, how fast they grow, and when their partitions go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

LOOKED_BACK: Final = timedelta(days=7)
"""Growth is measured over the partitions of these days."""
NUMBERS: Final = ("rows", "dead", "heap", "indexes", "toast")
_SHORTEST: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Size:
    """Sizes are in bytes, rows are estimates."""

    name: str
    rows: int
    dead: int
    heap: int
    indexes: int
    toast: int
    vacuumed_at: datetime | None
    """When it, or a part of it, was vacuumed last."""

    @property
    def total(self) -> int:
        """Heap, indexes and TOAST."""
        return self.heap + self.indexes + self.toast


@dataclass(frozen=True)
class Part(Size):
    """A partition, or all of a table that has none."""

    low: datetime | None
    """The first instant that it takes; None: no bound, or no partition."""
    high: datetime | None
    """The first instant that it takes no more."""
    dropped_at: datetime | None
    """When retention drops it; None: never."""


@dataclass(frozen=True)
class TableSize(Size):
    """A table with its partitions, in the order of their bounds."""

    parts: tuple[Part, ...]
    keep: timedelta | None
    """How long retention keeps its rows; None: it has no partitions."""

    @property
    def is_partitioned(self) -> bool:
        """Whether `parts` are partitions."""
        return self.keep is not None

    def growth(self, now: datetime) -> float | None:
        """Bytes that a day adds, by the partitions of the last `LOOKED_BACK`; None: not known."""
        grown, span = 0, timedelta()
        for part in self.parts:
            if part.low is None or part.high is None:
                continue
            if part.low < now and part.high > now - LOOKED_BACK:
                grown += part.total
                span += min(part.high, now) - part.low
        return None if span < _SHORTEST else grown / (span / _DAY)

    def expected(self, now: datetime) -> float | None:
        """Bytes that it comes to by and by, if it grows on like this; None: not known."""
        growth = self.growth(now)
        return None if growth is None or self.keep is None else growth * (self.keep / _DAY)


def tables_of(rows: Iterable[Mapping[str, Any]]) -> tuple[TableSize, ...]:
    """Tables from the rows of their parts (relation, keep in seconds, and the fields of `Part`),
    the largest first.
    """
    by_table = groupby(sorted(rows, key=_place), key=lambda row: row["relation"])
    found = [_table(name, list(parts)) for name, parts in by_table]
    return tuple(sorted(found, key=lambda table: (-table.total, table.name)))


def total_growth(tables: Iterable[TableSize], now: datetime) -> float:
    """Bytes that a day adds to those of the tables that keep what was."""
    return sum(table.growth(now) or 0.0 for table in tables)


def _place(row: Mapping[str, Any]) -> tuple[str, bool, Any]:
    high = row["high"]
    return row["relation"], high is not None, high.timestamp() if high is not None else row["name"]


def _table(name: str, rows: list[Mapping[str, Any]]) -> TableSize:
    keep = rows[0]["keep"]
    parts = tuple(Part(**{each.name: row[each.name] for each in fields(Part)}) for row in rows)
    numbers: Any = {each: sum(row[each] for row in rows) for each in NUMBERS}
    vacuumed_at = max((part.vacuumed_at for part in parts if part.vacuumed_at), default=None)
    kept = None if keep is None else timedelta(seconds=keep)
    return TableSize(name, **numbers, vacuumed_at=vacuumed_at, parts=parts, keep=kept)
