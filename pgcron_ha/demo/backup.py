"""The demo's shell job: back up the database, verify the dump, keep the newest few.

``python -m pgcron_ha.demo.backup FOLDER KEEP``; the database comes from `places` in the
environment, so that no password stands among the arguments. Exit code 0 only for a dump that
pg_restore can read and that holds our tables.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pgcron_ha.demo.places import DATABASE_VARIABLE, ONLY_SCHEMA_VARIABLE
from pgcron_ha.embedded import find_binaries

# The template's own timeout ends the run; this one ends a tool that hangs, with a traceback in the
# log that says which.
_TOOL_SECONDS = 50.0


def main(arguments: list[str], environment: Mapping[str, str] = os.environ) -> int:
    """Do what the module says; returns the exit code."""
    folder, keep = Path(arguments[0]), int(arguments[1])
    name = environment.get("PGCRON_FIRE_TIME", "now").replace(":", "")
    dump = folder / f"{name}.dump"
    unfinished = dump.with_suffix(".new")
    command = [
        "--format=custom",
        f"--file={unfinished}",
        f"--dbname={environment[DATABASE_VARIABLE]}",
    ]
    if schema := environment.get(ONLY_SCHEMA_VARIABLE):
        command.append(f"--schema={schema}")
    _run("pg_dump", *command)
    contents = _run("pg_restore", "--list", str(unfinished)).splitlines()
    tables = sum(" TABLE DATA " in line for line in contents)
    if not tables:
        print(f"{unfinished} holds no table", file=sys.stderr)
        return 1
    unfinished.replace(dump)
    for old in sorted(folder.glob("*.dump"))[:-keep]:
        old.unlink(missing_ok=True)
    print(f"{dump.name}: {dump.stat().st_size:,} bytes, {tables} tables, verified")
    return 0


def _run(tool: str, *arguments: str) -> str:
    binaries = find_binaries()
    done = subprocess.run(
        [binaries.tool(tool), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=binaries.environment(),
        timeout=_TOOL_SECONDS,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
