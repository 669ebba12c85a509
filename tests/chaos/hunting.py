"""Takes one guard away after the other, and says how long it took to notice.

A harness that can't see a missing guard proves nothing by seeing no fault.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chaos.checking.history import load
from tests.chaos.checking.verdict import check
from tests.chaos.mutants import BY_NAME, MUTANTS
from tests.chaos.playing import play
from tests.chaos.stage import Settings
from tests.chaos.taking_away import Mutant

FAULT_SECONDS: Final = 20.0
"""Of one try; a mutant that is not caught gets another seed."""

TRIES: Final = 8
SURVIVOR_TRIES: Final = 2

HEADLINE: Final = (
    "Each guard of the protocol was taken away, and nodes and server were attacked until a checker"
    " noticed. Seconds count starts of servers and nodes, quiet phases and the end of all runs."
)

_CHECKER = re.compile(r"^(C\d+)")


@dataclass(frozen=True)
class Catch:
    """What became of one mutant. `seconds`: from the first start of nodes to the verdict."""

    mutant: Mutant
    problems: list[str]
    seconds: float
    tries: int

    @property
    def is_as_expected(self) -> bool:
        """Caught, or known to be invisible here."""
        return bool(self.problems) != bool(self.mutant.survives)

    def row(self) -> str:
        """A line of the table."""
        checkers = sorted({found[1] for p in self.problems if (found := _CHECKER.match(p))})
        caught = ", ".join(checkers) or ("survives" if self.mutant.survives else "NOT CAUGHT")
        return f"| {self.mutant.name} | {self.mutant.guard} | {caught} | {self.seconds:.0f} |"


def hunt(names: Sequence[str], report: Path | None = None) -> int:
    """Tries these mutants, or all; prints a table; the exit code is 0 if all were caught."""
    chosen = [BY_NAME[name] for name in names] if names else list(MUTANTS)
    catches = []
    for mutant in chosen:
        catches.append(catch(mutant))
        print(catches[-1].row(), flush=True)
        for problem in catches[-1].problems[:2]:
            print(f"    {problem[:200]}", flush=True)
    page = f"# Mutants\n\n{HEADLINE}\n\n{table(catches)}\n\n{notes(catches)}"
    print(page)
    if report is not None:
        report.write_text(page)
    return 0 if all(each.is_as_expected for each in catches) else 1


def catch(mutant: Mutant) -> Catch:
    """Seeds one after the other, until one shows it."""
    began = time.monotonic()
    problems: list[str] = []
    seed = 0
    while not problems and seed < (SURVIVOR_TRIES if mutant.survives else TRIES):
        seed += 1
        problems = try_once(mutant, seed)
    return Catch(mutant, problems, time.monotonic() - began, seed)


def try_once(mutant: Mutant | None, seed: int, seconds: float = FAULT_SECONDS) -> list[str]:
    """What the checkers say of one play with the nemeses that the mutant needs."""
    folder = Path(tempfile.mkdtemp(prefix="pgcron-mutant-"))
    folder.chmod(0o755)
    settings = Settings(seed=seed, seconds=seconds, nodes=5, quiet=1.5)
    if mutant is not None:
        settings = dataclasses.replace(
            settings, mutant=mutant.name, only=mutant.needs, points=mutant.points
        )
    try:
        asyncio.run(play(settings, folder))
        return check(load(folder)).broken
    finally:
        shutil.rmtree(folder)


def notes(catches: Sequence[Catch]) -> str:
    """Why what survives is expected to."""
    lines = [
        f"`{each.mutant.name}` survives: {each.mutant.survives}.\n"
        for each in catches
        if each.mutant.survives
    ]
    return "".join(lines)


def table(catches: Sequence[Catch]) -> str:
    """All of them, as Markdown."""
    head = [
        "| mutant | the guard that it lacks | caught by | after s |",
        "| --- | --- | --- | --- |",
    ]
    return "\n".join([*head, *(each.row() for each in catches)])
