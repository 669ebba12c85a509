"""What schedules do by themselves, and what people do to one fire, with real nodes."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.e2e.ledger import Connection, unaccounted
from tests.e2e.nodes import Cluster
from tests.waiting import slowness, until


@pytest.mark.long
async def test_a_schedule_pauses_after_failures_and_goes_on_when_a_later_fire_succeeds(
    cluster: Cluster, connection: Connection
) -> None:
    nodes = [cluster.start(name, horizon="4s") for name in ("a", "b")]
    policies = "max_attempts => 1, overlap => 'allow', pause_after_failures => 3"
    await connection.execute(
        "SELECT pgcron.put_schedule('s', '* * * * * *', 'py:fails', probe_after => '2 s', "
        f"{policies})"
    )
    paused = "SELECT NOT enabled AND paused_note LIKE 'paused after%' FROM pgcron.schedule"
    await until("failures paused it", lambda: connection.fetchval(paused))
    nodes[0].kill9()
    again = "SELECT max(pauses) FROM pgcron.fire_failure"
    await until("it is paused again", lambda: at_least(connection, again, 2))
    runs = await connection.fetchval("SELECT count(*) FROM pgcron.history")
    # Three that failed, what was claimed before a node had judged them, and one after the pause.
    assert 4 <= runs <= 20
    await connection.execute(
        "UPDATE pgcron.schedule SET handler = 'py:work', args = '{\"seconds\": 0}'"
    )
    resumed = (
        "SELECT enabled AND v.actor = 'pgcron_ha' FROM pgcron.schedule s"
        " JOIN pgcron.schedule_version v ON v.schedule_id = s.id AND v.version = s.version"
    )
    await until("the pause is over", lambda: connection.fetchval(resumed))
    succeeded = "SELECT count(*) FROM pgcron.history WHERE outcome = 'succeeded'"
    await until("it fires on", lambda: at_least(connection, succeeded, 3))

    reported = await connection.fetchval(
        "SELECT count(*) FROM pgcron.missed WHERE reason = 'paused'"
        " AND note LIKE 'pgcron_ha: paused after%'"
    )
    assert reported >= 2
    await end(connection)


async def test_a_pause_ends_by_itself_and_no_fire_after_its_end_is_lost(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("a", horizon="4s")
    await connection.execute(
        "SELECT pgcron.put_schedule('s', '* * * * * *', 'py:work', overlap => 'allow',"
        " catchup => 'all')"
    )
    ran = "SELECT count(*) FROM pgcron.history"
    await until("it fires", lambda: at_least(connection, ran, 2))
    said = cluster.command("schedules", "pause", "s", "--until", "3s", "--note", "a fair")
    assert said.returncode == 0, said.stderr
    end_of_pause: datetime = await connection.fetchval("SELECT paused_until FROM pgcron.schedule")
    after = "SELECT count(*) FROM pgcron.occurrence WHERE fire_at > $1 AND decision = 'run'"
    await until("it goes on", lambda: at_least(connection, after, 3, end_of_pause))

    row = await connection.fetchrow(
        "SELECT v.actor, (SELECT max(last_at) FROM pgcron.missed WHERE reason = 'paused'"
        " AND note LIKE '%: a fair') AS reported, (SELECT min(fire_at) FROM pgcron.occurrence"
        " WHERE fire_at > $1) AS first"
        " FROM pgcron.schedule_version v ORDER BY v.version DESC LIMIT 1",
        end_of_pause,
    )
    assert row is not None
    assert (row["actor"], row["reported"]) == ("pgcron_ha", end_of_pause)
    assert (row["first"] - end_of_pause).total_seconds() <= 1
    await end(connection)


@pytest.mark.long
async def test_a_fire_of_next_month_is_moved_to_now_and_another_is_skipped(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("a", horizon="4s")
    day = ((await connection.fetchval("SELECT now()")) + timedelta(days=30)).date()
    fire, no_fire = f"{day}T00:00Z", f"{day + timedelta(days=1)}T00:00Z"
    put = "SELECT pgcron.put_schedule('s', $1, 'py:work')"
    await connection.execute(put, f"0 0 {day.day} {day.month} *")
    valid = "SELECT status = 'valid' FROM pgcron.cursor"
    await until("it is decided", lambda: connection.fetchval(valid))
    # The command has to come before it.
    soon: datetime = await connection.fetchval(
        "SELECT date_trunc('second', now() + $1)", timedelta(seconds=10 * slowness())
    )
    moved = cluster.command("schedules", "move", "s", fire, soon.isoformat(), "--note", "a fair")
    assert moved.returncode == 0, moved.stderr
    refused = cluster.command("schedules", "skip", "s", no_fire)
    assert f"before at {day}T00:00:00Z" in refused.stderr
    ended = "SELECT count(*) FROM pgcron.history"
    await until("it ran", lambda: at_least(connection, ended, 1), deadline=180)

    row = await connection.fetchrow("SELECT scheduled_for, due_at, outcome FROM pgcron.history")
    assert row is not None
    assert (row["scheduled_for"].date(), row["due_at"], row["outcome"]) == (day, soon, "succeeded")
    why = cluster.command("schedules", "why", "s", fire)
    assert "moved" in why.stdout
    late = cluster.command("schedules", "skip", "s", fire)
    assert "has ended as run" in late.stderr
    assert await unaccounted(connection) == 0


async def at_least(connection: Connection, count: str, least: int, *values: object) -> bool:
    found: int = await connection.fetchval(count, *values)
    return found >= least


async def end(connection: Connection) -> None:
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")

    async def nothing_lives() -> bool:
        return not await connection.fetchval("SELECT count(*) FROM pgcron.run")

    await until("nothing lives", nothing_lives)
    assert await unaccounted(connection) == 0
