"""How large tables are and how fast they grow, by the sizes of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

NUMBERS: Final = ("rows", "dead", "heap", "indexes", "toast", "total")
# Fewer dead rows than this are gone before anybody feels them.
_MANY_DEAD_ROWS: Final = 100_000
_SHORTEST_SECONDS: Final = 3600.0
_DAY_SECONDS: Final = 86_400.0


def tables_of(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tables from the rows of their parts, each a partition or all of a ``relation`` that has none;
    the largest first.

    Each has its name as ``table``, its ``parts``, the sums of their `NUMBERS` (sizes in bytes, rows
    are estimates), when one of them was vacuumed last, and ``has_dead_rows``: whether one has many
    dead rows, and more than living ones. Of a partitioned table also ``partitions``, how many there
    are; ``kept``, how long retention keeps its rows; ``a_day``, the bytes that a day adds, by the
    partitions of the last seven days; and ``comes_to``, the size that it reaches if it grows on
    like this. These are None without partitions, the last two also if they span less than an hour.
    """
    by_table: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_table.setdefault(row["relation"], []).append(row)
    found = [_table(name, parts) for name, parts in by_table.items()]
    return sorted(found, key=lambda table: (-table["total"], table["table"]))


def _table(name: str, parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    keep = parts[0]["keep"]
    recent = [part for part in parts if part["recent"]]
    seconds = sum(part["recent"] for part in recent)
    grown = sum(part["total"] for part in recent)
    a_day = None if seconds < _SHORTEST_SECONDS else round(grown / seconds * _DAY_SECONDS)
    return {
        "table": name,
        "partitions": None if keep is None else len(parts),
        **{each: sum(part[each] for part in parts) for each in NUMBERS},
        "vacuumed_at": max(filter(None, (part["vacuumed_at"] for part in parts)), default=None),
        "a_day": a_day,
        "kept": None if keep is None else timedelta(seconds=keep),
        "comes_to": None if a_day is None else a_day * keep / _DAY_SECONDS,
        "has_dead_rows": any(part["dead"] > max(part["rows"], _MANY_DEAD_ROWS) for part in parts),
        "parts": parts,
    }
