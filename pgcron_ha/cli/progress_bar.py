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


def progress_text(reported: Progress) -> str:
    """Such as ``30 % (3 of 10) copying orders``; without a total ``3 copying orders``."""
    amount = f"{reported.done:.10g}"
    if reported.total is not None:
        amount = f"{_share(reported):.0%} ({amount} of {reported.total:.10g})".replace("%", " %")
    return amount if reported.note is None else f"{amount} {reported.note}"


def bar(reported: Progress) -> str:
    """The text behind a bar, when there is a total."""
    if reported.total is None:
        return progress_text(reported)
    full = int(_WIDTH * _share(reported))
    return f"[{'#' * full}{'.' * (_WIDTH - full)}] {progress_text(reported)}"


def _share(reported: Progress) -> float:
    return min(1.0, reported.done / reported.total) if reported.total else 0.0
