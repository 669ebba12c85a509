"""A dump that is taken while nodes are at work comes back elsewhere: all of it is of one moment,
and what was running then is handled as after a failover that has lost the rest.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from tests.db import control
from tests.db.dump_schema import REVIEWED, dump
from tests.e2e.nodes import Cluster
from tests.product.client import prove
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.waiting import COMMAND_SECONDS, until

HELD = {"at_least_once": "succeeded", "transactional": "succeeded", "at_most_once": "lost"}


@pytest.mark.long
async def test_a_dump_under_load_is_restored_and_goes_on(
    cluster: Cluster,
    server: ThrowAwayServer,
    connection: asyncpg.Connection,
    empty_database: str,
    tmp_path: Path,
) -> None:
    await control.put_schedule(connection, "tick", spec="* * * * * *", handler="py:work")
    path = str(tmp_path / "go on")
    held = {
        delivery: (
            await control.enqueue(
                connection,
                handler="py:wait_for_file",
                args=json.dumps({"path": path}),
                delivery=delivery,
                max_attempts=1 if delivery == "at_most_once" else 3,
            )
        )[0]
        for delivery in HELD
    }
    cluster.start("a")
    running = "SELECT count(*) = 3 FROM pgcron.run WHERE id = ANY($1) AND state = 'running'"
    await until("three run", lambda: connection.fetchval(running, [*held.values()]))
    ticked = "SELECT count(*) > 2 FROM pgcron.history WHERE schedule = 'tick'"
    await until("it ticks", lambda: connection.fetchval(ticked))

    copy = tmp_path / "copy"
    await asyncio.to_thread(call, server, "pg_dump", "-Fc", "-f", copy, cluster.dsn)
    await asyncio.to_thread(call, server, "pg_restore", "-d", empty_database, copy)
    Path(path).touch()

    assert unbracketed(dump(empty_database)) == unbracketed(REVIEWED.read_text())
    folder = tmp_path / "restored"
    folder.mkdir()
    with Cluster(empty_database, folder) as restored:
        restored.start("b")
        there = await own_session(empty_database)
        reported = "SELECT delivery::text, outcome::text FROM pgcron.history WHERE id = ANY($1)"
        ids = list(held.values())

        async def outcomes() -> dict[str, str]:
            return {row["delivery"]: row["outcome"] for row in await there.fetch(reported, ids)}

        async def all_ended() -> bool:
            return len(await outcomes()) == len(HELD)

        await until("what was running has ended", all_ended)
        assert await outcomes() == HELD
        newest = await there.fetchval("SELECT max(scheduled_for) FROM pgcron.history")
        later = "SELECT count(*) > 2 FROM pgcron.history WHERE scheduled_for > $1"
        await until("it ticks there", lambda: there.fetchval(later, newest))
        proof = await prove(there, datetime.now(UTC) - timedelta(days=1))
        assert proof.breaks == []
        # Each of those that may run again did, once.
        again = Counter(
            event.run for event in restored.evidence.events("start") if event.run in ids
        )
        assert again == {held["at_least_once"]: 1, held["transactional"]: 1}
        await there.close()


def unbracketed(text: str) -> str:
    """What is read from a dump has other brackets around the same conditions, and names for the
    columns of constants.
    """
    return re.sub(r"(NULL::\w+) AS \w+", r"\1", re.sub("[()]", "", text))


def call(server: ThrowAwayServer, tool: str, *words: object) -> None:
    command = [str(server.binaries.tool(tool)), *map(str, words)]
    environment = server.binaries.environment()
    answer = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=COMMAND_SECONDS
    )
    assert answer.returncode == 0, answer.stderr
