"""``python -m tests.fuzz_specs --count 1000000 --seed 1``: on all cores, with progress."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from time import monotonic

from tests.fuzz_specs.evaluation import Evaluation, shown
from tests.fuzz_specs.grammar import Grammar

PART = 1000
WORST = 5


@dataclass
class Found:
    """What some cases showed."""

    cases: int = 0
    refused: int = 0
    errors: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    slow: Counter[str] = field(default_factory=Counter)
    """How many evaluations took longer than so much."""
    worst: dict[str, list[tuple[float, int, str]]] = field(default_factory=dict)
    """By kind of evaluation: seconds, steps, case."""

    def add(self, other: Found) -> None:
        """Those of other cases, too."""
        self.cases += other.cases
        self.refused += other.refused
        self.errors += other.errors
        self.over += other.over
        self.slow += other.slow
        for kind, worst in other.worst.items():
            self.worst[kind] = sorted([*self.worst.get(kind, []), *worst], reverse=True)[:WORST]


def run_part(seed: int, cases: int = PART) -> Found:
    """The first cases of one seed."""
    found = Found()
    grammar = Grammar(seed)
    for _ in range(cases):
        case = grammar.case()
        evaluation = Evaluation(case)
        try:
            evaluation.run()
        except Exception:
            found.errors.append(f"seed {seed}: {shown(case)}\n{traceback.format_exc()}")
        found.over += [f"{cost}: {shown(case)}" for cost in evaluation.over_budget()]
        for cost in evaluation.costs:
            for bound in (0.05, 0.1, 0.25, 0.5, 1.0):
                if cost.seconds > bound:
                    found.slow[f"{cost.what} over {bound} s"] += 1
            worst = found.worst.setdefault(cost.what, [])
            worst.append((cost.seconds, cost.steps, shown(case)))
            worst.sort(reverse=True)
            del worst[WORST:]
        found.cases += 1
        found.refused += evaluation.is_refused
    return found


def report(found: Found, seconds: float) -> None:
    """What there is to say about all of them."""
    print(f"{found.cases} specs ({found.refused} refused) in {seconds:.0f} s")
    for text in found.errors[:20]:
        print(f"ERROR {text}")
    for text in found.over[:20]:
        print(f"OVER THE BUDGET {text}")
    print(f"{len(found.errors)} errors that are not ours, {len(found.over)} over the budget")
    for text, number in sorted(found.slow.items()):
        print(f"{text}: {number}")
    for kind, worst in found.worst.items():
        for took, steps, text in worst:
            print(f"{kind}: {took * 1000:.0f} ms, {steps} steps: {text}")
    sys.stdout.flush()


def main() -> int:
    """Exit status 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz_specs")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    parts = -(-asked.count // PART)
    found, begin = Found(), monotonic()
    said = begin
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for part in pool.map(
            run_part, range(asked.seed * 1_000_000, asked.seed * 1_000_000 + parts)
        ):
            found.add(part)
            if monotonic() - said > 30:
                said = monotonic()
                report(found, said - begin)
    report(found, monotonic() - begin)
    return 1 if found.errors or found.over else 0


if __name__ == "__main__":
    sys.exit(main())
