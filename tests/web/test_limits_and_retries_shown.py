"""What holds a run back, how it is retried and how it died are told in words."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape
from typing import TypeAlias

import asyncpg
import pytest

from tests.sessions import own_session
from tests.web.conftest import Site

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

POLICY = '{"backoff": [5, "1m"], "jitter": false, "snooze_on": {"http:503": 90}, "snoozes": 7}'
# As jsonb orders its keys.
STORED = '{"jitter": false, "backoff": [5, "1m"], "snoozes": 7, "snooze_on": {"http:503": 90}}'
# Takes a run as a node would, in the first slot of its key.
CLAIM = """UPDATE pgcron.run r SET state = 'running', attempt = attempt + 1, claimed_at = now(),
             started_at = now(), token = gen_random_uuid(), fence = 7, key_slot =
             CASE WHEN concurrency_key IS NOT NULL THEN 1 END,
             owner = (SELECT incarnation FROM pgcron.node WHERE name = 'berlin-1')
           WHERE id = $1 RETURNING token"""

HANDLER = "py:etl.orders"


@pytest.fixture
async def sql(full_database: str) -> AsyncIterator[Connection]:
    connection = await own_session(full_database)
    yield connection
    await connection.close()


async def text_of(site: Site, path: str, region: str) -> str:
    """The words of a region of a page."""
    page = (await site.get(path)).text
    part = page.partition(f'id="{region}"')[2].partition("</section>")[0].partition(">")[2]
    words = " ".join(unescape(re.sub(r"<[^>]+>", " ", part)).split())
    return words.replace("\N{NARROW NO-BREAK SPACE}", " ")


async def enqueue(sql: Connection, queue: str = "etl", concurrency_key: str | None = None) -> int:
    run: int = await sql.fetchval(
        "SELECT pgcron.enqueue('py:etl.orders', queue => $1, concurrency_key => $2)",
        queue,
        concurrency_key,
    )
    return run


async def test_a_snoozed_run_has_not_failed(full_site: Site, sql: Connection) -> None:
    run = await enqueue(sql)
    token = await sql.fetchval(CLAIM, run)
    ended = await sql.fetchval(
        """SELECT verdict FROM pgcron.fail_runs(jsonb_build_array(jsonb_build_object(
             'run_id', $1::bigint, 'token', $2::uuid, 'kind', 'snoozed', 'retryable', true,
             'retry_after', 600, 'error_class', 'Snooze', 'error', 'the file is not there',
             'causes', '', 'node_name', 'berlin-1')))""",
        run,
        token,
    )

    head = await text_of(full_site, f"/runs/{run}", "head")

    assert ended == "snooze"
    assert "◷ snoozed" in head
    assert "Attempt 1 put itself off, which uses up none: the file is not there." in head
    assert "The next begins in 10 m, if nothing holds it up." in head.replace("9 m 59 s", "10 m")
    assert "failed" not in head
    facts = await text_of(full_site, f"/runs/{run}", "facts")
    assert "Attempt 1 of 6, of which 1 snoozed" in facts
    shown = await text_of(full_site, "/runs?state=retrying", "list")
    assert "snoozed" in shown
    assert "retrying" not in shown.partition(f"{run}")[2][:60]


async def test_a_run_says_which_limit_it_waits_for(full_site: Site, sql: Connection) -> None:
    await sql.execute(
        """SELECT pgcron.set_queue('one', 1);
           SELECT pgcron.set_queue('slow', NULL, 2, '1 minute');
           SELECT pgcron.set_concurrency('rated:*', 5, 1, '1 hour');
           SELECT pgcron.count_starts('queue', 'slow', '1 minute', clock_timestamp(), 2);
           SELECT pgcron.count_starts('key', 'rated:eu', '1 hour', clock_timestamp(), 1);
           UPDATE pgcron.node SET queues = queues || '{one,slow}'"""
    )
    await sql.fetchval(CLAIM, await enqueue(sql, "one"))
    await sql.fetchval(CLAIM, await enqueue(sql, concurrency_key="customer <7>"))

    said = {
        case: await text_of(full_site, f"/runs/{await enqueue(sql, *case)}", "head")
        for case in (("one",), ("slow",), ("etl", "rated:eu"), ("etl", "customer <7>"), ("etl",))
    }

    assert "queue one executes 1 already, as many as it may" in said["one",]
    assert re.search(r"queue slow has used up its rate; the next starts in \d", said["slow",])
    assert re.search(
        r"concurrency key rated:eu has used up its rate; the next starts in (59|60) m",
        said["etl", "rated:eu"],
    )
    assert "every slot of its concurrency key customer <7> is taken" in said["etl", "customer <7>"]
    assert "it waits for a free slot" in said["etl",]


async def test_a_run_that_no_node_is_large_enough_for_says_so_everywhere(
    full_site: Site, sql: Connection
) -> None:
    most = await sql.fetchval(
        "SELECT max(n.slots) FROM pgcron.node n JOIN pgcron.offer o USING (incarnation)"
        " WHERE o.handler = $1 AND 'etl' = ANY(n.queues)",
        HANDLER,
    )
    fits, heavy = [
        await sql.fetchval(
            "SELECT pgcron.enqueue($1, queue => 'etl', weight => $2, priority => 0)", HANDLER, slots
        )
        for slots in (most, most + 1)
    ]

    lacks = f"needs {most + 1} slots: no live node that offers '{HANDLER}' for queue 'etl'"
    assert f"{lacks} has so many" in await text_of(full_site, f"/runs/{heavy}", "head")
    assert "has so many" not in await text_of(full_site, f"/runs/{fits}", "head")
    assert f"{lacks} has so many" in await text_of(full_site, "/queues/etl", "next")
    attention = await text_of(full_site, "/?attention=all", "attention")
    assert f"1 run waits: {lacks} has so many." in attention
    assert f"needs {most} slots" not in attention


async def test_a_queue_says_its_rate_and_when_the_next_starts(
    full_site: Site, sql: Connection
) -> None:
    await sql.execute(
        """SELECT pgcron.set_queue('etl', NULL, 2, '1 minute');
           SELECT pgcron.set_queue('ops', NULL, 1500, '1 hour');
           SELECT pgcron.set_concurrency('rated:*', 5, 1, '1 hour');
           SELECT pgcron.count_starts('key', 'rated:eu', '1 hour', clock_timestamp(), 1);
           SELECT pgcron.count_starts('queue', 'ops', '1 hour', clock_timestamp(), 1500)"""
    )
    for queue, concurrency_key in (("etl", None), ("etl", "rated:eu"), ("ops", None)):
        await enqueue(sql, queue, concurrency_key)

    free = await text_of(full_site, "/queues/etl", "next")
    used_up = await text_of(full_site, "/queues/ops", "next")

    assert "a node takes it at its next look" in free
    assert re.search(
        r"concurrency key rated:eu has used up its rate; the next starts in (59|60) m", free
    )
    assert "▶ flowing" in await text_of(full_site, "/queues/etl", "head")
    assert "free; starts at most 2 in 1 m" in await text_of(full_site, "/queues/etl", "numbers")
    assert re.search(r"queue ops has used up its rate; the next starts in (59|60) m", used_up)
    assert re.search(
        r"▮ at its rate As many have started as may, 1 500 in 1 h; the next starts in"
        r" (59|1 h)",
        await text_of(full_site, "/queues/ops", "head"),
    )


async def test_keys_and_retry_policies_are_facts_of_runs_and_schedules(
    full_site: Site, sql: Connection
) -> None:
    run = await sql.fetchval(
        """INSERT INTO pgcron.run (handler, concurrency_key, retry)
           VALUES ('py:x', 'a <b>', $1::text::jsonb) RETURNING id""",
        POLICY,
    )
    await sql.execute(
        "UPDATE pgcron.schedule SET concurrency_key = 'eu', retry = $1::text::jsonb"
        " WHERE name = 'brand-new'",
        POLICY,
    )

    facts = await text_of(full_site, f"/runs/{run}", "facts")
    defined = await text_of(full_site, "/schedules/brand-new", "settings-title")

    assert "Concurrency key a <b>" in facts
    assert f"Retries {STORED}" in facts
    assert "Concurrency key eu" in defined
    assert f"Retry policy {STORED}" in defined


async def test_a_dead_run_leads_to_all_that_died_as_it_did(
    full_site: Site, sql: Connection
) -> None:
    letters = await sql.fetch(
        "UPDATE pgcron.dead_letter SET fingerprint = 'abc123' WHERE handler = 'py:etl.products'"
        " RETURNING run_id"
    )

    page = await full_site.get(f"/runs/{letters[0]['run_id']}")
    same = re.search(r'href="(/dead\?[^"]+)"><bdi>all of abc123<', page.text)

    assert same is not None
    shown = (await full_site.get(unescape(same[1]))).text.partition('id="letters"')[2]
    for letter in letters:
        assert f'<a href="/runs/{letter["run_id"]}">' in shown
    assert shown.count('scope="row"') == len(letters)
