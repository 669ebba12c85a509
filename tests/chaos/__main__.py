"""``python -m tests.chaos``: faults by a seed against real nodes, and a verdict.

``--seed 3 --minutes 5`` one long run; ``--seeds 1,2,3 --ttl 2,5`` six; ``--check FOLDER`` judges
what an earlier run has left; ``--mutants`` takes one guard away after the other and must see it.
Exit code: 0 green, 1 broken, 2 inconclusive (something that had to happen never did).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.chaos import hunting
from tests.chaos.checking.history import load
from tests.chaos.checking.verdict import Verdict, check
from tests.chaos.failpoints import Failpoints
from tests.chaos.nemeses import NEMESES, ways_of
from tests.chaos.playing import play
from tests.chaos.report import Summary, lines_of, markdown
from tests.chaos.stage import Settings
from tests.servers import remove_leftovers

EXIT_CODES: Final = {"green": 0, "broken": 1, "inconclusive": 2}
POINTS: Final = Failpoints(lost=0.02, frozen=0.002, slow=0.03, late=0.003)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays, judges, prints; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.check:
        return _print_check(Path(options.check))
    remove_leftovers()
    only = tuple(options.only.split(",")) if options.only else ()
    if not all(map(ways_of, only)):
        print(f"unknown nemeses; there are {', '.join(NEMESES)}", file=sys.stderr)
        return 2
    if options.mutants is not None:
        names = options.mutants.split(",") if options.mutants else []
        return hunting.hunt(names, Path(options.report) if options.report else None)
    seeds = [int(seed) for seed in (options.seeds or str(options.seed)).split(",")]
    summary = Summary()
    for ttl, seed in itertools.product(map(float, options.ttl.split(",")), seeds):
        settings = Settings(seed, options.minutes * 60, options.nodes, ttl, POINTS, None, only)
        play_and_add(settings, summary, keep=options.keep)
        if options.report:  # after each: what was played is not lost with what comes later
            Path(options.report).write_text(markdown(summary) + "\n")
    print(f"\nverdict: {summary.word}")
    _print_coverage(summary)
    if options.report:
        print(f"report: {options.report}")
    return EXIT_CODES[summary.word]


def play_and_add(settings: Settings, summary: Summary, *, keep: bool = False) -> Verdict:
    """One seed. The folder of a broken run stays, to be looked at."""
    folder = Path(tempfile.mkdtemp(prefix=f"pgcron-chaos-{settings.seed}-"))
    folder.chmod(0o755)  # programs of shell templates may be another user
    asyncio.run(play(settings, folder))
    history = load(folder)
    verdict = check(history)
    summary.add(settings, history, verdict)
    print(*lines_of(settings, verdict, summary.played[-1].seconds), sep="\n", flush=True)
    if verdict.broken or keep:
        print(f"  everything is in {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return verdict


def _print_check(folder: Path) -> int:
    history = load(folder)
    verdict = check(history)
    settings = Settings(seed=0, ttl=history.ttl)
    print(*lines_of(settings, verdict, 0.0), sep="\n")
    for name, count in verdict.coverage.items():
        print(f"  {count:6d} × {name}")
    return EXIT_CODES[verdict.word]


def _print_coverage(summary: Summary) -> None:
    for name, count in summary.coverage.items():
        print(f"  {count:6d} × {name}")
    for name in set(summary.coverage) ^ set(summary.played[0].verdict.coverage):
        print(f"   never: {name}")
    figures = summary.figures
    for name, seconds in sorted(figures.recovery.items()):
        print(f"  {name}: {len(seconds)} times, at most {max(seconds):.2f} s")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", help="several, as 1,2,3")
    parser.add_argument("--minutes", type=float, default=1.5, help="of faults, for each seed")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--ttl", default="2", help="seconds; several, as 2,5,15")
    parser.add_argument("--only", help="nemeses, as N1,N19.crowd_schedules")
    parser.add_argument("--report", help="a Markdown file to write")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a green run")
    parser.add_argument("--check", metavar="FOLDER", help="judge an earlier run again")
    parser.add_argument("--mutants", nargs="?", const="", help="all of them, or a,b")
    return parser


if __name__ == "__main__":
    sys.exit(main())
