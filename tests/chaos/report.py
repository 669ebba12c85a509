"""What a chaos run says of itself: a few lines for people, and a Markdown page to keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.chaos.checking.coverage import SOMETIMES, uncovered
from tests.chaos.checking.figures import Figures, quantile
from tests.chaos.checking.history import History
from tests.chaos.checking.invariants import server_errors
from tests.chaos.checking.verdict import Verdict
from tests.chaos.stage import Settings

SHOWN = 20
"""Problems that are printed; the folder has the rest."""


@dataclass
class Played:
    """One seed: how it was set, what it left, and what was found."""

    settings: Settings
    verdict: Verdict
    seconds: float
    server_errors: Counter[str]


class Summary:
    """Several seeds together. Histories are not kept: a long one is large."""

    def __init__(self) -> None:
        self.played: list[Played] = []
        self.figures = Figures()

    def add(self, settings: Settings, history: History, verdict: Verdict) -> None:
        """Takes one seed."""
        phases = history.phases
        seconds = max(phases.values(), default=0.0) - min(phases.values(), default=0.0)
        self.played.append(Played(settings, verdict, seconds, server_errors(history)))
        self.figures.add(history)

    @property
    def coverage(self) -> Counter[str]:
        """How often each rare thing happened, in all seeds."""
        return sum((each.verdict.coverage for each in self.played), Counter())

    @property
    def word(self) -> str:
        """Broken if any is; else inconclusive if something was never seen in any of them."""
        if any(each.verdict.broken for each in self.played):
            return "broken"
        is_complete = not uncovered(self.coverage)
        return "green" if is_complete and self.played else "inconclusive"

    @property
    def fires(self) -> Counter[str]:
        """Owed and decided fires, in all seeds."""
        return sum((Counter(each.verdict.fires) for each in self.played), Counter())


def lines_of(settings: Settings, verdict: Verdict, seconds: float) -> Iterator[str]:
    """One seed, in short."""
    owed = verdict.fires.get("owed", 0)
    yield (
        f"seed {settings.seed}: {verdict.word}; {settings.nodes} nodes, TTL {settings.ttl:g} s,"
        f" {seconds:.0f} s; {owed} fires owed, {len(verdict.broken)} problems"
    )
    for problem in verdict.broken[:SHOWN]:
        yield f"  {problem}"
    if len(verdict.broken) > SHOWN:
        yield f"  … and {len(verdict.broken) - SHOWN} more"


def markdown(summary: Summary) -> str:
    """The page."""
    return "\n".join(
        [
            "# Chaos report",
            "",
            "Written by `make chaos REPORT=FILE`. Clocks of one machine; a busy machine is slower.",
            "",
            *_verdicts(summary),
            *_harm(summary),
            *_fires(summary),
            *_distributions("Recovery, seconds", summary.figures.recovery),
            *_distributions("Lateness of first starts, seconds", summary.figures.lateness),
            *_throughput(summary.figures.throughput),
            *_coverage(summary.coverage),
        ]
    )


def _verdicts(summary: Summary) -> list[str]:
    rows = [
        (
            *(each.settings.seed, each.settings.nodes, f"{each.settings.ttl:g}"),
            *(f"{each.seconds:.0f}", each.verdict.fires.get("owed", 0)),
            *(each.verdict.word, len(each.verdict.broken)),
        )
        for each in summary.played
    ]
    total = sum(each.seconds for each in summary.played)
    head = ("seed", "nodes", "TTL s", "seconds", "fires owed", "verdict", "problems")
    problems = [
        f"- seed {each.settings.seed}: {problem}"
        for each in summary.played
        for problem in each.verdict.broken[:SHOWN]
    ]
    return [
        f"Verdict: **{summary.word}**, {total / 60:.1f} minutes in all.",
        "",
        *_table(head, rows),
        *problems,
        "",
    ]


def _harm(summary: Summary) -> list[str]:
    rows = sorted(summary.figures.faults.items(), key=lambda item: (len(item[0][:3]), item[0]))
    errors = sum((each.server_errors for each in summary.played), Counter[str]())
    return [
        "## What was done to it",
        "",
        *_table(("nemesis", "times"), rows),
        "",
        "What the server refused meanwhile:",
        "",
        *_table(("error", "times"), errors.most_common(15)),
        "",
    ]


def _fires(summary: Summary) -> list[str]:
    counts = summary.fires
    rows = [(delivery, *_outcomes(found)) for delivery, found in _by_delivery(summary)]
    return [
        "## Occurrences and runs",
        "",
        *_table(("fires", "count"), sorted(counts.items())),
        "",
        *_table(("delivery", "runs", "outcomes", "executed more than once"), rows),
        "",
    ]


def _by_delivery(summary: Summary) -> list[tuple[str, tuple[Counter[str], int]]]:
    figures = summary.figures
    return [
        (delivery, (outcomes, figures.executed_again[delivery]))
        for delivery, outcomes in sorted(figures.outcomes.items())
    ]


def _outcomes(found: tuple[Counter[str], int]) -> tuple[int, str, int]:
    outcomes, again = found
    words = ", ".join(f"{name} {count}" for name, count in outcomes.most_common())
    return sum(outcomes.values()), words, again


def _distributions(title: str, values: Mapping[str, Sequence[float]]) -> list[str]:
    rows = [
        (
            *(name, len(seconds)),
            *(f"{quantile(seconds, part):.2f}" for part in (0.5, 0.95, 0.99)),
            f"{max(seconds):.2f}",
        )
        for name, seconds in sorted(values.items())
        if seconds
    ]
    return [f"## {title}", "", *_table(("what", "n", "p50", "p95", "p99", "max"), rows), ""]


def _throughput(values: Mapping[str, Sequence[float]]) -> list[str]:
    rows = [(phase, f"{sum(rates) / len(rates):.1f}") for phase, rates in values.items()]
    return ["## Completed runs a second", "", *_table(("phase", "mean"), rows), ""]


def _coverage(counts: Mapping[str, int]) -> list[str]:
    rows = [(name, counts.get(name, 0)) for name in SOMETIMES]
    return ["## What happened at least sometimes", "", *_table(("what", "times"), rows), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
