"""``python -m tests.simulation``: many seeds, one with all it tells, or the mutants."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.mutants import MUTANTS, seeds_until_caught
from tests.simulation.simulate import Reported, simulate


def main() -> int:
    arguments = _arguments()
    if arguments.seed is not None:
        print(simulate(arguments.seed))
        return 0
    if arguments.mutants:
        return _report_mutants(arguments.seeds)
    return _run_many(arguments.first, arguments.seeds, arguments.processes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="this seed alone, with all it tells")
    parser.add_argument("--seeds", type=int, default=2000, help="so many seeds")
    parser.add_argument("--from", dest="first", type=int, default=1, help="the first of them")
    parser.add_argument("--processes", type=int, default=2, help="at the same time")
    parser.add_argument("--mutants", action="store_true", help="how soon each lost guard shows")
    return parser.parse_args()


def _run_many(first: int, count: int, processes: int) -> int:
    began = time.monotonic()
    reported: list[Reported] = []
    failures: list[str] = []
    with ProcessPoolExecutor(processes) as pool:
        for result in pool.map(attempt, range(first, first + count), chunksize=10):
            if isinstance(result, Reported):
                reported.append(result)
            else:
                failures.append(result)
                print(result, flush=True)
    outcomes: Counter[str] = sum((each.outcomes for each in reported), Counter())
    trouble: Counter[str] = sum((each.seen for each in reported), Counter())
    print(f"{len(reported)} seeds without a fault, {len(failures)} with one")
    print(f"{sum(each.seconds for each in reported) / 3600:.1f} virtual hours", end=", ")
    print(f"{sum(each.statements for each in reported)} statements", end=", ")
    print(f"{sum(each.owed for each in reported)} owed fires in {time.monotonic() - began:.0f} s")
    print("trouble:", dict(trouble.most_common()))
    print("outcomes:", dict(outcomes.most_common()))
    return 1 if failures else 0


def attempt(seed: int) -> Reported | str:
    """What a seed came to, or the report of what is wrong with it."""
    try:
        return simulate(seed)
    except Exception as error:
        return "".join(traceback.format_exception(error, limit=-4))


def _report_mutants(most: int) -> int:
    missed = 0
    for mutant in MUTANTS:
        began = time.monotonic()
        caught = seeds_until_caught(mutant, most)
        missed += caught is None
        verdict = "NOT CAUGHT" if caught is None else f"by seed {caught[0]}: {caught[1]}"
        print(f"{mutant.name:34} {time.monotonic() - began:6.1f} s  {verdict}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
