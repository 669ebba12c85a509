"""``python -m tests.matrix [--only NAME,…] [--needs] [--list] [-- PYTEST ARGUMENT…]``

Runs the tests of the protocol in each environment of `tests.matrix.columns`, one after the other,
and prints a line for each. Exit code 1 when a test failed or was skipped in one of them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.house.checkout import ROOT
from tests.matrix.columns import Column, columns

# One more than processors, as tests also wait; more than 4 only wait for each other's servers.
_PROCESSES = min((os.cpu_count() or 1) + 1, 4)
# Of a test.
_SECONDS = "300"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME,…", help="these environments")
    parser.add_argument("--needs", action="store_true", help="prepare with these commands")
    parser.add_argument("--list", action="store_true", help="their names, without running")
    parser.add_argument("pytest", nargs="*", help="more arguments for pytest")
    chosen = parser.parse_args(arguments)
    names = [name for name in chosen.only.split(",") if name]
    every = {column.name: column for column in columns()}
    unknown = [name for name in names if name not in every]
    if unknown:
        print(f"no environment is called {unknown[0]!r}; --list names them", file=sys.stderr)
        return 2
    kept = [every[name] for name in names] or list(every.values())
    if chosen.needs:
        print(".ci/postgresql", *sorted({column.major for column in kept}))
        for pooler in sorted({column.pooler for column in kept if column.pooler}):
            print(".ci/pgbouncer", pooler)
        return 0
    if chosen.list:
        print("\n".join(f"{each.name:14} {each.title}" for each in every.values()))
        return 0
    return 0 if run_all(kept, chosen.pytest) else 1


def run_all(kept: Sequence[Column], arguments: Sequence[str]) -> bool:
    """Whether all tests passed everywhere. Prints what pytest prints, and the table."""
    lines = []
    failed = 0
    for column in kept:
        print(f"\n== {column.title}", flush=True)
        began = time.monotonic()
        code = _run(column, arguments)
        failed += code != 0
        verdict = "passed" if code == 0 else f"FAILED (exit code {code})"
        lines.append(f"{column.title:40} {time.monotonic() - began:6.0f} s  {verdict}")
    print("\n" + "\n".join(lines), flush=True)
    return failed == 0


def _run(column: Column, arguments: Sequence[str]) -> int:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "tests.house.no_skips"),
        *("-n", str(_PROCESSES)),
        *("--timeout", _SECONDS),
        *column.arguments(),
        *arguments,
    ]
    environment = {**os.environ, **column.environment()}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
