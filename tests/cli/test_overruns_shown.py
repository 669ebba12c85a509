"""A run that executes for longer than expected is marked in listings, for people and programs."""

from __future__ import annotations

import asyncio

from tests.cli.conftest import Cli, Execute
from tests.db.control import call
from tests.db.test_overruns import started
from tests.sessions import own_session


async def begin(dsn: str) -> int:
    connection = await own_session(dsn)
    try:
        _, run = await started(connection, 40)
        await call(connection, "notice_overruns", at_most=10)
    finally:
        await connection.close()
    return run


def test_a_run_that_overruns_is_marked_in_the_lists(
    cli: Cli, execute: Execute, database: str
) -> None:
    run = asyncio.run(begin(database))
    [(name,)] = execute("SELECT name FROM pgcron.schedule")

    for options in ((), ("--schedule", name)):
        [row] = [row for row in cli("runs", "list", *options, "--json").rows if row["id"] == run]
        assert row["overrun_after"] == 30.0
        assert "running (overruns)" in cli("runs", "list", *options).out
    [shown] = cli("runs", "show", run, "--json").rows
    assert shown["overrun_after"] == 30.0
    assert "overrun_after" in cli("runs", "show", run).out
    [schedule] = cli("schedules", "list", "--json").rows
    assert (schedule["status"], schedule["overrunning"]) == ("unchecked", 1)
    assert " overruns " in cli("schedules", "list").out
    assert execute("SELECT overrunning FROM pgcron.schedules") == [(1,)]
    assert execute("SELECT count(*) FROM pgcron.runs WHERE overrun_after = '30 s'") == [(1,)]

    execute("DELETE FROM pgcron.overrun")
    assert "overruns" not in cli("runs", "list").out + cli("schedules", "list").out
