"""The schema as text to review: ``python -m tests.db.dump_schema > tests/db/schema.sql``.

Tables, constraints, indexes, triggers, views and grants, as pg_dump writes them from a freshly
migrated database; without functions, which stand readable in ``migrations/sql``, without their
checksum, and without what differs from day to day (partitions) and from version to version of
pg_dump.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pgcron_ha.embedded import find_binaries
from tests.db import sql_reference
from tests.product.db import migrate
from tests.servers import ThrowAwayServer

REVIEWED: Final = Path(__file__).parent / "schema.sql"
COMMAND: Final = "python -m tests.db.dump_schema > tests/db/schema.sql"

_HEADER: Final = f"-- The schema that the migrations make, for review. Written by: {COMMAND}\n\n"
# A partition is named after its day or month, or `_before`, and its indexes after the partition.
_PARTITION: Final = re.compile(r"\b[a-z]+_(\d{6}|\d{8}|before)(_\w+)?\b")
_NOISE: Final = re.compile(
    r"^(--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*|ALTER .* OWNER TO .*"
    r"|COMMENT ON TABLE \w+\.alembic_version IS .*)?$"
)
_FUNCTION: Final = re.compile(r"^-- Name: .*; Type: (FUNCTION|PROCEDURE);")
_OF_FUNCTIONS: Final = re.compile(r"^-- Name: (FUNCTION|PROCEDURE) .*; Type: COMMENT;")
_TIMEOUT_SECONDS: Final = 60


def dump(dsn: str, schema: str = "pgcron") -> str:
    """The schema of the database at `dsn`, in the form of the reviewed file."""
    binaries = find_binaries()
    answer = subprocess.run(
        [binaries.tool("pg_dump"), *("--schema-only", "--no-owner", f"--schema={schema}", dsn)],
        capture_output=True,
        text=True,
        check=True,
        env=binaries.environment(),
        timeout=_TIMEOUT_SECONDS,
    )
    return _HEADER + "\n".join(_kept(answer.stdout)) + "\n"


def _kept(text: str) -> Iterator[str]:
    """The commands of a dump, without functions, partitions and what pg_dump says of itself."""
    for block in re.split(r"\n(?=--\n-- Name: )", text):
        lines = block.splitlines()
        title = next((line for line in lines if line.startswith("-- Name: ")), "")
        if _FUNCTION.match(title) or _OF_FUNCTIONS.match(title):
            continue
        command = "\n".join(line for line in lines if not _NOISE.match(line))
        if command.strip() and not _PARTITION.search(command.partition("(")[0] + title):
            yield command.strip("\n") + "\n"


def main() -> None:
    """Print the schema of a fresh database, and bring the tables of the SQL contract up to it."""
    with ThrowAwayServer() as server:
        dsn = server.create_database("to_dump")
        asyncio.run(migrate(dsn))
        sys.stdout.write(dump(dsn))
        sql_reference.PAGE.write_text(sql_reference.page(dsn), encoding="utf-8")


if __name__ == "__main__":
    main()
