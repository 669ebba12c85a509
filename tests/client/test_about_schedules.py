"""Owner, description, tags and links of a schedule, and tags of a run, as Python says them."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput
from tests.db.control import Connection
from tests.product.client import define_schedule

ABOUT: dict[str, Any] = {
    "owner": "billing",
    "description": "Sends what is due.\nTwice a day.\n",
    "tags": ["nightly", "team:billing"],
    "links": {"runbook": "https://wiki.example/billing?a=b"},
}


async def test_a_schedule_says_what_it_is_about(database: str, connection: Connection) -> None:
    async with App(database) as app:
        app.add_schedule("told", "@daily", "send", **ABOUT)
        app.add_schedule("bare", "@daily", "send")
        await app.put_schedules()
        await app.put_schedules()

    told, bare = await connection.fetch(
        "SELECT owner, description, tags, links::text, version FROM pgcron.schedules "
        "ORDER BY name DESC"
    )
    assert tuple(told) == (
        "billing",
        "Sends what is due.\nTwice a day.",
        ["nightly", "team:billing"],
        '{"runbook": "https://wiki.example/billing?a=b"}',
        1,
    )
    assert tuple(bare) == (None, None, None, None, 1)


async def test_what_is_said_about_a_schedule_leaves_its_fires_alone(
    database: str, connection: Connection
) -> None:
    async with App(database) as app:
        app.add_schedule("s", "@daily", "send", **ABOUT)
        await app.put_schedules()
    generation = "SELECT generation FROM pgcron.cursor"
    before = await connection.fetchval(generation)
    await connection.execute("UPDATE pgcron.schedule SET owner = 'sales', tags = NULL")
    assert await connection.fetchval(generation) == before

    async with App(database) as app:  # the code no longer says it
        app.add_schedule("s", "@daily", "send")
        await app.put_schedules()
    row = await connection.fetchrow(
        "SELECT num_nonnulls(owner, description, tags, links) AS known, version "
        "FROM pgcron.schedule"
    )
    assert row is not None
    assert tuple(row) == (0, 3)
    assert await connection.fetchval(generation) == before


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"owner": "x" * 201}, "the owner is empty, too long"),
        ({"owner": 7}, "the owner is empty, too long"),
        ({"description": "x" * 2001}, "the description is empty, too long"),
        ({"description": "a\x1b[31m"}, "the description is empty, too long"),
        ({"tags": "nightly"}, "tags 'nightly' is not a list of tags"),
        ({"tags": ["a", "a"]}, "is not a list of tags"),
        ({"tags": ["two words"]}, "is not a list of tags"),
        ({"tags": [f"t{n}" for n in range(21)]}, "is not a list of tags"),
        ({"links": ["https://a"]}, "are not titles and addresses"),
        ({"links": {"a": "javascript:alert(1)"}}, "are not titles and addresses"),
        ({"links": {"a": "https://" + "x" * 2000}}, "are not titles and addresses"),
        ({"links": {" ": "https://a"}}, "the title of a link is empty"),
        ({"links": {f"l{n}": "https://a" for n in range(11)}}, "are not titles and addresses"),
    ],
    ids=str,
)
def test_what_can_not_be_said_of_it_is_refused_with_the_rule(
    wrong: dict[str, Any], fact: str
) -> None:
    with pytest.raises(InvalidInput, match=fact) as refusal:
        define_schedule("s", "@daily", "py:send", wrong)
    assert refusal.value.detail
    assert refusal.value.hint


async def test_a_run_has_tags_of_its_own_or_of_its_handler(database: str) -> None:
    async with App(database) as app:
        app.handler("send", tags=["nightly"])(lambda: None)
        app.add_schedule("send", "@daily", "send")
        assert app.schedules["send"].tags == ("nightly",)
        made = [
            await app.enqueue("send"),
            await app.enqueue("send", tags=["x", "team:y"]),
            await app.enqueue("send", tags=[]),
            *await app.enqueue_many([{"handler": "send"}, {"handler": "send", "tags": ["z"]}]),
        ]
        with pytest.raises(InvalidInput, match="is not a list of tags"):
            await app.enqueue("send", tags=["two words"])

    connection = await asyncpg.connect(database)
    rows = await connection.fetch("SELECT id, tags FROM pgcron.run")
    found = {row["id"]: row["tags"] for row in rows}
    expected = [["nightly"], ["x", "team:y"], None, ["nightly"], ["z"]]
    assert [found[run] for run in made] == expected
    await connection.close()


@pytest.mark.parametrize(
    ("policies", "refusal"),
    [
        ({"catchup": "all"}, "catch-up policy 'all' with overlap 'skip'"),
        ({"overlap": "replace", "max_running": 2}, "overlap replace with max_running 2"),
        ({"max_queued": 5}, "max_queued with overlap 'skip'"),
        ({"probe_after": "1m", "pause_after_failures": 0}, "probe_after without pause_after_fail"),
    ],
)
def test_policies_that_do_not_go_together_are_refused_where_they_are_written(
    policies: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(InvalidInput, match=refusal):
        App().add_schedule("s", "@daily", "py:x", **policies)
