"""What a node says when it can't work, and what it does about schedules it can't read."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from pgcron_ha.errors import InvalidSpec
from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.product.spec import parse_spec
from tests.servers import ThrowAwayServer
from tests.waiting import until


async def refusal(cluster: Cluster, dsn: str) -> str:
    """What a node that can't begin has printed."""
    node = cluster.spawn("a", dsn=dsn)
    code = await asyncio.to_thread(node.exit_code, 20)
    assert code == 1
    assert "Traceback" not in node.output()
    assert node.output().count("error:") == 1
    return node.output()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("postgresql://postgres@127.0.0.1:1/work", "the database can't be reached"),
        ("postgresql://postgres@/work?host=/nowhere", "the database can't be reached"),
        ("mysql://localhost", "mysql://localhost"),
    ],
)
async def test_a_wrong_dsn_is_one_clear_error(cluster: Cluster, wrong: str, said: str) -> None:
    assert said in await refusal(cluster, wrong)


async def test_a_database_that_does_not_exist_is_one_clear_error(
    cluster: Cluster, server: ThrowAwayServer
) -> None:
    said = await refusal(cluster, server.dsn("nowhere"))

    assert "nowhere" in said
    assert "Create the database" in said


async def test_a_missing_migration_is_one_clear_error(
    cluster: Cluster, empty_database: str
) -> None:
    assert "pgcron-ha migrate" in await refusal(cluster, empty_database)


@pytest.mark.parametrize(
    "granted",
    [
        "SELECT 1",
        "GRANT USAGE ON SCHEMA pgcron TO {role}; "
        "GRANT SELECT ON ALL TABLES IN SCHEMA pgcron TO {role}",
    ],
)
async def test_a_role_without_rights_is_one_clear_error(
    cluster: Cluster, connection: Connection, database: str, granted: str
) -> None:
    role = "r" + urlsplit(database).path.strip("/")
    await connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        await connection.execute(granted.format(role=role))
        said = await refusal(cluster, database.replace("//postgres:", f"//{role}:"))
    finally:
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")

    assert "grants" in said


BAD_ZONES = ["Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Europe", "posixrules\n"]
BAD_SPECS = ["61 * * * *", "what is this", "not 0 3 * * *", "0 0 30 2 *", "every 0s"]


async def test_a_schedule_nobody_can_read_is_marked_and_shown_and_stops_no_other(
    cluster: Cluster, connection: Connection
) -> None:
    await connection.executemany(
        "INSERT INTO pgcron.timezone VALUES ($1)", [[z] for z in BAD_ZONES]
    )
    bad = [("* * * * * *", zone) for zone in BAD_ZONES] + [(spec, "UTC") for spec in BAD_SPECS]
    for number, (spec, zone) in enumerate([*bad, ("* * * * * *", "UTC")]):
        await connection.execute(
            "INSERT INTO pgcron.schedule (name, spec, timezone, handler)"
            " VALUES ($1, $2, $3, 'py:work')",
            f"s{number}",
            spec,
            zone,
        )
    node = cluster.start("a")

    await until("the good one fires", lambda: cluster.evidence.count("end") > 2)
    # A node that has just come asks once more whether it can read what others could not.
    marked = "SELECT count(*) FILTER (WHERE status = 'invalid') = $1 FROM pgcron.schedules"
    await until("all bad ones are marked", lambda: connection.fetchval(marked, len(bad)))
    rows = await connection.fetch("SELECT * FROM pgcron.schedules WHERE status = 'invalid'")
    assert {row["name"] for row in rows} == {f"s{number}" for number in range(len(bad))}
    for row in rows:
        error = json.loads(row["error"])
        assert error["message"]
        assert error["hint"]
    assert not node.has_ended()
    answer = await asyncio.to_thread(cluster.command, "schedules", "list", "--json")
    listed = [json.loads(line) for line in answer.stdout.splitlines()]
    assert sum(each["status"] == "invalid" for each in listed) == len(bad)
    shown = await asyncio.to_thread(cluster.command, "schedules", "show", "s0")
    assert "Mars/Olympus" in shown.stdout

    # One that plain SQL writes meanwhile is judged at once, with the sentences that others get.
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('raw', '61 * * * *', 'py:work')"
    )
    error = "SELECT error FROM pgcron.schedules WHERE name = 'raw' AND status = 'invalid'"
    judged = json.loads(await until("it is judged", lambda: connection.fetchval(error)))
    with pytest.raises(InvalidSpec) as refused:
        parse_spec("61 * * * *")
    assert judged["message"] == refused.value.message
    assert (judged["detail"], judged["hint"]) == (refused.value.detail, refused.value.hint)

    # Mended by plain SQL it fires.
    await connection.execute("UPDATE pgcron.schedule SET timezone = 'UTC' WHERE name = 's0'")
    fired = "SELECT count(*) FROM pgcron.history WHERE schedule = 's0'"
    await until("the mended one fires", lambda: connection.fetchval(fired))
