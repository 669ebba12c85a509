"""``python -m tests.model [--full | --quick] [--only TEXT,…] [--trail] [--list]``

Checks the models of the protocol and prints, for each line, what was expected and what was found;
of a removed guard also how the promise breaks. Exit code 1 when a verdict differs from the
expected one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from tests.model.checker import CheckerFailed, Verdict
from tests.model.matrix import Line, lines

_TRAIL_LINES: Final = 24
_WIDTH: Final = 54


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the long lines, too (an hour)")
    parser.add_argument("--quick", action="store_true", help="only what the tests check")
    parser.add_argument("--only", default="", metavar="TEXT,…", help="lines that contain a text")
    parser.add_argument("--trail", action="store_true", help="how each removed guard is missed")
    parser.add_argument("--list", action="store_true", help="the lines, without checking")
    chosen = parser.parse_args(arguments)
    wanted = [text for text in chosen.only.split(",") if text]
    every = lines(2 if chosen.full else 0 if chosen.quick else 1)
    kept = [line for line in every if not wanted or any(text in _title(line) for text in wanted)]
    if not kept:
        print(f"no line contains {chosen.only!r}; --list names them", file=sys.stderr)
        return 2
    if chosen.list:
        print("\n".join(_title(line) for line in kept))
        return 0
    return 0 if check_all(kept, with_trails=chosen.trail) else 1


def check_all(kept: Sequence[Line], with_trails: bool) -> bool:
    """Whether every line was found as expected. Prints the table."""
    print(f"{'line':{_WIDTH}} {'states':>11} {'seconds':>8}  verdict")
    differing = 0
    for line in kept:
        try:
            verdict = line.check()
        except CheckerFailed as failure:
            verdict = Verdict(f"no verdict: {failure}", 0, 0.0, ())
        is_right = verdict.found == line.expected
        differing += not is_right
        print(
            f"{_title(line):{_WIDTH}} {verdict.states:>11,} {verdict.seconds:>8.1f}  "
            f"{verdict.found}{'' if is_right else f'   EXPECTED: {line.expected}'}",
            flush=True,
        )
        if verdict.steps and (with_trails or not is_right):
            print("\n".join(f"    {step}" for step in _shortened(verdict.steps)), flush=True)
    print(f"{len(kept)} lines, {differing} not as expected")
    return not differing


def _title(line: Line) -> str:
    return f"{line.model}: {line.name}"


def _shortened(steps: Sequence[str]) -> list[str]:
    """The end of a long counterexample is what matters."""
    if len(steps) <= _TRAIL_LINES:
        return list(steps)
    return [f"… {len(steps) - _TRAIL_LINES} steps before", *steps[-_TRAIL_LINES:]]


if __name__ == "__main__":
    sys.exit(main())
