"""What a benchmark hands back: figures beside their baselines, and how they are told."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured value. `baseline` was measured in the same run, in the same unit; None: there
    is none, or it was not seen. `goal` is the sentence of the design, as far as there is one.
    """

    name: str
    value: float | None
    unit: str
    baseline: float | None = None
    goal: str = ""

    @property
    def ratio(self) -> float | None:
        """The value as a multiple of its baseline."""
        return None if self.value is None or not self.baseline else self.value / self.baseline

    def as_json(self) -> dict[str, Any]:
        """All of it, the ratio too."""
        return {**asdict(self), "ratio": self.ratio}


@dataclass
class Result:
    """One benchmark of one run: its sizes, what it was measured against, and its figures."""

    name: str
    baseline: str
    sizes: Mapping[str, Any]
    figures: list[Figure] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Lines that people should see below the figures."""
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])
    load_after: float = 0.0
    seconds: float = 0.0
    _began: float = field(default_factory=time.monotonic, repr=False)

    def add(
        self,
        name: str,
        value: float | None,
        unit: str,
        baseline: float | None = None,
        goal: str = "",
    ) -> None:
        """One more figure."""
        self.figures.append(Figure(name, value, unit, baseline, goal))

    def finished(self) -> Result:
        """Itself, with the time it took and the load the machine had at its end."""
        self.seconds = time.monotonic() - self._began
        self.load_after = os.getloadavg()[0]
        return self

    def as_json(self) -> dict[str, Any]:
        """For the file that is kept."""
        return {
            "name": self.name,
            "baseline": self.baseline,
            "sizes": dict(self.sizes),
            "figures": [figure.as_json() for figure in self.figures],
            "details": self.details,
            "notes": self.notes,
            "load_before": self.load_before,
            "load_after": self.load_after,
            "seconds": self.seconds,
        }


def percentile(values: Sequence[float], part: float) -> float | None:
    """The value that `part` (0 to 1) of all values do not exceed; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def table(result: Result) -> str:
    """A few lines for people."""
    sizes = ", ".join(f"{name} {value}" for name, value in result.sizes.items())
    head = [
        f"{result.name}: {sizes}",
        f"  beside {result.baseline}; {result.seconds:.0f} s,"
        f" load {result.load_before:.1f} → {result.load_after:.1f}",
    ]
    rows = [("figure", "value", "baseline", "ratio", "unit", "goal")]
    rows += [_row(figure) for figure in result.figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join(head + lines + [f"  {note}" for note in result.notes])


def _row(figure: Figure) -> tuple[str, str, str, str, str, str]:
    numbers = (_number(figure.value), _number(figure.baseline), _number(figure.ratio))
    return (figure.name, *numbers, figure.unit, figure.goal)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        cell.rjust(width) if 1 <= column <= 3 else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return ("  " + "  ".join(cells)).rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
