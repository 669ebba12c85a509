"""How far a run is, as text and as a line that is written over itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgcron_ha.executors.contract.progress import Progress

_WIDTH: Final = 24


def progress_of(row: Mapping[str, Any]) -> Progress | None:
    """What a row with ``done``, ``total`` and ``note`` says."""
    if row["done"] is None:
        return None
    return Progress(row["done"], row["total"], row["note"])


def progress_text(told: Progress) -> str:
    """Such as ``30 % (3 of 10) copying orders``; without a total ``3 copying orders``."""
    amount = f"{told.done:.10g}"
    if told.total is not None:
        amount = f"{_share(told):.0%} ({amount} of {told.total:.10g})".replace("%", " %")
    return amount if told.note is None else f"{amount} {told.note}"


def bar(told: Progress) -> str:
    """The text behind a bar, when there is a total."""
    if told.total is None:
        return progress_text(told)
    full = int(_WIDTH * _share(told))
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {progress_text(told)}"


def _share(told: Progress) -> float:
    return min(1.0, told.done / told.total) if told.total else 0.0
