"""The migration of `demo` and `dev`: a process of its own, because alembic is large and slow to
load. It is started first and loads while the server starts.

``python -m pgcron_ha.demo.migration`` reads ``{"dsn", "schema"}`` from stdin; with an error it
prints ``{"message", "detail", "hint"}`` and exits with 1. Without input it just ends.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from types import TracebackType
from typing import Final, Self

from pgcron_ha.demo.database import process_environment
from pgcron_ha.errors import PgcronError, SchemaError

# The schema is made in a second; a database that waits for somebody's lock needs longer.
_MIGRATE_SECONDS: Final = 120
_LONGEST_DETAIL: Final = 800


class Migration:
    """A migration that waits to be told where; ends with its ``with`` block at the latest."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pgcron_ha.demo.migration"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=process_environment({}),
            start_new_session=True,
        )

    async def run(self, dsn: str, schema: str) -> None:
        """Bring the schema up to this version. Raises SchemaError with what alembic's side said."""
        await asyncio.to_thread(self._run, json.dumps({"dsn": dsn, "schema": schema}))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _run(self, task: str) -> None:
        try:
            told, said = self._process.communicate(task, timeout=_MIGRATE_SECONDS)
        except subprocess.TimeoutExpired:
            raise SchemaError(
                f"the migration did not end within {_MIGRATE_SECONDS} s",
                "Somebody holds a lock on the schema, or the server is very slow.",
                "Look into pg_stat_activity, and try again.",
            ) from None
        if self._process.returncode == 0:
            return
        if told:
            answer = json.loads(told)
            raise SchemaError(answer["message"], answer["detail"], answer["hint"])
        code = self._process.returncode
        raise SchemaError(f"the migration ended with exit code {code}", said[-_LONGEST_DETAIL:])


def main() -> int:
    """Do what the module says; returns the exit code."""
    from pgcron_ha.db.schema import migrate

    given = sys.stdin.read()
    if not given:
        return 1
    task = json.loads(given)
    try:
        asyncio.run(migrate(task["dsn"], task["schema"]))
    except PgcronError as error:
        print(json.dumps(error.as_json()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
