"""The demo's shell job: back up the demo's schema, verify the dump, keep the newest few.

``python -m pgcron_ha.demo.backup`` in the demo's folder; the database is that of the folder's
``pgcron-ha.toml``. It fails unless pg_restore can read the dump and finds tables in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from pgcron_ha.config.loading import load_settings
from pgcron_ha.db.driver.dsn import password_of, without_password
from pgcron_ha.embedded import find_binaries

_KEPT: Final = 3


def main() -> None:
    """Do what the module says."""
    settings = load_settings()
    dsn = settings.required_dsn()
    dump = Path("dumps", f"{os.environ['PGCRON_FIRE_TIME'].replace(':', '')}.dump")
    unfinished = dump.with_suffix(".new")
    database = f"--dbname={without_password(dsn)}"
    _run(dsn, "pg_dump", "-Fc", f"--file={unfinished}", f"--schema={settings.schema}", database)
    contents = _run(dsn, "pg_restore", "--list", str(unfinished)).splitlines()
    tables = sum(" TABLE DATA " in line for line in contents)
    if not tables:
        sys.exit(f"{unfinished} holds no table")
    unfinished.replace(dump)
    for old in sorted(dump.parent.glob("*.dump"))[:-_KEPT]:
        old.unlink(missing_ok=True)
    print(f"{dump.name}: {dump.stat().st_size:,} bytes, {tables} tables, verified")


def _run(dsn: str, tool: str, *arguments: str) -> str:
    binaries = find_binaries()
    password = password_of(dsn)  # not among the arguments, which every user can read
    return subprocess.run(
        [binaries.tool(tool), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=binaries.environment() | ({"PGPASSWORD": password} if password else {}),
    ).stdout


if __name__ == "__main__":
    main()
