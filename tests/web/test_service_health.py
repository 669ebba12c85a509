"""What nodes say is wrong with their services: on the overview, the pages of nodes, in metrics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.db.control import Connection
from tests.product.config import load_settings, read_sources
from tests.product.db import NodeHealth, Trouble, written
from tests.product.engine import Node, Service, SetAside
from tests.product.executors import remember_secret
from tests.product.telemetry import Counters
from tests.product.web import NodeCollector
from tests.waiting import slowness, until
from tests.web.conftest import Site

SECRET = "a-secret-of-the-node"


@pytest.fixture
async def node(database: str, tmp_path: Path) -> AsyncIterator[Node]:
    flags = {"dsn": database, "node.name": "n1", "node.state_directory": str(tmp_path)}
    node = Node(load_settings(read_sources(environment={}, flags=flags)), (), "0")
    task = asyncio.create_task(node.run())
    await until("the node has joined", lambda: node.look().incarnation is not None or task.done())
    yield node
    node.stop()
    await task


def row_of(page: str, what: str) -> str:
    """The row of "Needs attention" about it."""
    attention = page.partition('id="attention"')[2].partition("</section>")[0]
    return next((row for row in attention.split("<tr>") if what in row), "")


async def test_a_service_that_fails_is_named_within_seconds_and_forgotten_after(
    site: Site, node: Node, connection: Connection
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('often', 'every 1s', 'py:a')"
    )
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("LOCK TABLE pgcron.outdated_plan")

    async def is_named() -> bool:
        return "lock timeout" in row_of((await site.get("/")).text, "Materializer of node n1")

    await until("the overview names it", is_named, deadline=10 * slowness())
    row = row_of((await site.get("/")).text, "Materializer of node n1")
    assert "No pass has succeeded for" in row
    assert "It decides no fires." in row
    assert "Materializer: no pass has succeeded for" in (await site.get("/nodes")).text

    await transaction.rollback()

    async def is_forgotten() -> bool:
        return not row_of((await site.get("/")).text, "Materializer of node n1")

    await until("the overview forgets it", is_forgotten, deadline=15 * slowness())


async def test_what_a_service_goes_on_without_is_named_with_its_secrets_masked(
    site: Site, node: Node
) -> None:
    remember_secret(SECRET)
    aside: SetAside[int] = next(s for s in node._services if s.name == "completer").aside
    for number in range(30):
        aside.put(number, f"run {number}", f"canceling statement: {SECRET} \0 \ud800")
        aside.put(number, f"run {number}", f"canceling statement: {SECRET} \0 \ud800")

    async def is_named() -> bool:
        return "goes on without it" in row_of((await site.get("/")).text, "run 7<")

    await until("the overview names it", is_named, deadline=5 * slowness())
    page = (await site.get("/?attention=all")).text
    assert "tried 2 times: canceling statement: *** " in row_of(page, "run 7<")
    assert "10 more things" in page
    assert SECRET not in page
    href = f"/nodes/{node.look().incarnation}"
    assert "Run 7: the completer goes on without it" in (await site.get(href)).text
    samples = [
        s for metric in NodeCollector(node.look, Counters()).collect() for s in metric.samples
    ]
    values = {(s.name, s.labels.get("service")): s.value for s in samples}
    assert values["pgcron_set_aside", "completer"] == 30
    assert values["pgcron_set_aside", "reaper"] == 0
    assert 0 <= values["pgcron_service_last_good_age_seconds", "dispatcher"] < 30

    for number in range(30):
        aside.forget(number)

    async def is_forgotten() -> bool:
        return "set aside" not in (await site.get("/")).text

    await until("the overview forgets it", is_forgotten, deadline=5 * slowness())


async def test_what_many_of_one_kind_have_hides_nothing_else(site: Site, node: Node) -> None:
    asides: dict[str, SetAside[Any]] = {s.name: s.aside for s in node._services}
    for number in range(100):
        asides["completer"].put(number, f"run {number}", "its row is locked")
        asides["janitor"].put(("test", number), f"run {number}", "its row is locked")
    asides["janitor"].put(("test", 200), "breaker 'py:bad'", "its numbers are out of range")

    async def is_named() -> bool:
        return "out of range" in row_of((await site.get("/")).text, "breaker &#39;py:bad&#39;")

    await until("the overview names the one breaker", is_named, deadline=10 * slowness())


def test_it_is_said_what_does_not_happen_while_a_service_fails() -> None:
    names = {each.name for each in Service.__subclasses__() if each.__module__.startswith("pgcron")}

    assert {"audit webhook", "dispatcher", "workflows"} <= names
    assert {name for name in names if not Trouble(name, "it fails", 1.0).consequence} == set()


async def test_one_cause_on_several_nodes_is_one_row(site: Site, connection: Connection) -> None:
    health = NodeHealth(
        (
            Trouble("dispatcher", "canceling statement", 40.0),
            Trouble("reaper", "locked", 4.0, "run 5", 3),
        )
    )
    for number in range(5):
        await connection.execute(
            """INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_ttl,
                                        lease_until, slots, queues, health)
               VALUES (gen_random_uuid(), $1, 'h', 1, '0', '15 s', now() + interval '15 s', 4,
                       '{default}', $2)""",
            f"n{number}",
            written(health),
        )
    # Each has a predecessor that lost its lease a minute ago.
    await connection.execute(
        """INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_ttl, state,
                                    lease_until, ended_at, ended_because, slots, queues)
           SELECT gen_random_uuid(), n.name, 'h', 1, '0', '15 s', 'dead', now() - interval '60 s',
                  now() - interval '60 s', 'lease_lost', 4, '{default}' FROM pgcron.node n"""
    )

    page = (await site.get("/")).text
    row = row_of(page, "Dispatcher of nodes n0, n1, n2 and 2 more")
    assert re.search("No pass has succeeded for 4[0-9] s: canceling statement", row)
    assert "It claims no runs." in row
    assert "On nodes n0, n1, n2 and 2 more the reaper goes on without it, tried 3 times" in page
    assert "Nothing." not in page.partition('id="attention"')[2].partition("</section>")[0]


@pytest.mark.parametrize("table", ["node", "run", "cursor", "cluster"])
async def test_who_locks_a_table_is_named_by_the_overview_even_if_it_can_not_be_read(
    site: Site, connection: Connection, table: str
) -> None:
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(f"LOCK TABLE pgcron.{table} IN ACCESS EXCLUSIVE MODE")

    async def is_named() -> bool:
        text = (await site.get("/")).text
        return (
            re.search(rf"ession {pid} \(user .{{0,80}} holds a lock on {table} for", text)
            is not None
        )

    await until("the overview names it", is_named, deadline=8 * slowness())
    await transaction.rollback()


async def test_who_locks_what_is_only_written_is_a_cause_of_its_own(
    site: Site, connection: Connection
) -> None:
    pid = await connection.fetchval("SELECT pg_backend_pid()")
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute("LOCK TABLE pgcron.run IN SHARE MODE")

    async def row() -> str:
        return row_of((await site.get("/")).text, f"Session {pid}")

    await until("the overview names it", row, deadline=8 * slowness())
    assert "It holds a lock on run for" in await row()
    await transaction.rollback()


async def test_a_schedule_whose_row_breaks_its_rules_hides_no_other_cause(
    site: Site, connection: Connection
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler)"
        " VALUES ('bad', '@daily', 'py:a'), ('worse', '@daily', 'py:a')"
    )
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("UPDATE pgcron.schedule SET calendars = '5' WHERE name = 'bad'")
        await connection.execute(
            "UPDATE pgcron.cursor SET status = 'invalid', error = '{\"message\": \"no spec\"}'"
            " WHERE schedule_id = (SELECT id FROM pgcron.schedule WHERE name = 'worse')"
        )

    overview = await site.get("/")

    assert overview.status_code == 200
    assert "no spec" in row_of(overview.text, "worse")
    assert "bad" in (await site.get("/schedules")).text
