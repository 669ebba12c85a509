"""What needs attention: every cause can be seen, and quiet words hide no dead letter."""

from __future__ import annotations

import re

import asyncpg
import pytest

from tests.db.control import claim_both, finish, join
from tests.sessions import own_session
from tests.web.conftest import Serve, Site

CAUSES = 25
SHOWN = 20
ROW = '<td data-label="Why"'


@pytest.fixture
async def connection(database: str) -> asyncpg.Connection[asyncpg.Record]:
    return await own_session(database)


async def test_more_causes_than_fit_are_a_link_away(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.queue (name, paused_at, paused_by, paused_note)
           SELECT 'queue-' || n, now(), 'ana', 'works' FROM generate_series(1, $1::int) n""",
        CAUSES,
    )
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('a', '0 3 * * *', 'py:a')"
    )
    await connection.close()

    page = await site.get("/?window=6h")
    href = "/?window=6h&amp;attention=all#attention"
    assert page.text.count(ROW) == SHOWN
    assert f'<a href="{href}">and {CAUSES + 1 - SHOWN} more</a>' in page.text

    everything = await site.get(href.replace("&amp;", "&").partition("#")[0])
    assert everything.text.count(ROW) == CAUSES + 1
    assert " more</" not in everything.text


async def test_many_causes_of_one_kind_hide_no_other(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    names = [f"s-{number}" for number in range(CAUSES)]
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) SELECT n, '0 3 * * *', 'py:a'"
        " FROM unnest($1::text[]) n",
        names,
    )
    await connection.execute(
        """UPDATE pgcron.cursor SET status = 'invalid', error = jsonb_build_object('message',
           'bad ' || schedule_id)"""
    )
    await connection.execute(
        "INSERT INTO pgcron.queue (name, paused_at, paused_by) VALUES ('quiet', now(), 'ana')"
    )
    await connection.close()

    page = await site.get("/")
    needs = re.search(r'<section id="attention".*?</section>', page.text, re.DOTALL)

    assert needs is not None
    assert needs[0].count(ROW) == SHOWN
    assert "quiet" in needs[0]


async def test_causes_say_what_to_do(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('a', '0 3 * * *', 'py:a');
           UPDATE pgcron.cursor SET status = 'invalid', error = '{"message": "bad", "hint":
           "Write it otherwise."}';
           SELECT pgcron.enqueue('py:nobody', queue => 'mail');
           UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'"""
    )
    await connection.close()

    attention = (await site.get("/")).text.partition('id="attention"')[2].partition("</section>")[0]

    assert "It never fires: bad" in attention
    assert "Write it otherwise." in attention
    assert "pgcron-ha schedules list --handler py:nobody" in attention


async def test_many_schedules_that_are_due_hide_no_invalid_one(
    site: Site, connection: asyncpg.Connection[asyncpg.Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgcron_ha.db.queries.pages.schedules.MOST_IDS", 5)
    await connection.execute(
        """INSERT INTO pgcron.schedule (name, spec, handler)
           SELECT 's-' || n, '0 3 * * *', 'py:a' FROM generate_series(1, 5) n;
           INSERT INTO pgcron.run (handler, origin, schedule_id, schedule, due_at, scheduled_for)
           SELECT 'py:a', 'schedule', id, name, now() - interval '1 minute',
                  now() - interval '1 minute' FROM pgcron.schedule;
           INSERT INTO pgcron.schedule (name, spec, handler)
           VALUES ('bad', '0 3 * * *', 'py:a');
           UPDATE pgcron.cursor SET status = 'invalid', error = '{"message": "it is wrong"}'
           WHERE schedule_id = (SELECT id FROM pgcron.schedule WHERE name = 'bad')"""
    )
    await connection.close()

    assert "It never fires: it is wrong" in (await site.get("/?attention=all")).text


async def test_an_unknown_number_of_causes_is_refused_with_the_known_one(site: Site) -> None:
    page = await site.get("/?attention=al")

    assert page.status_code == 400
    assert "Did you mean &#39;all&#39;?" in page.text


async def test_nothing_needs_attention_but_an_open_dead_letter_is_named(
    full_database: str, serve: Serve
) -> None:
    connection = await own_session(full_database)
    await connection.execute("DELETE FROM pgcron.run")
    await connection.execute("DELETE FROM pgcron.queue")
    await connection.execute("DELETE FROM pgcron.node WHERE state = 'dead'")
    await connection.execute("DELETE FROM pgcron.dead_letter WHERE schedule_id IS NULL")
    await connection.execute("DELETE FROM pgcron.schedule")
    letters = await connection.fetchval("SELECT count(*) FROM pgcron.dead_letter")
    await connection.close()

    async with serve(full_database) as site:
        page = await site.get("/")

    attention = page.text.partition('id="attention"')[2].partition("</section>")[0]
    assert "Nothing." in attention
    assert f"{letters} dead letters of before are still open" in attention
    assert 'href="/dead"' in attention


async def test_a_queue_whose_runs_are_all_blocked_is_one_with_work(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('a', '0 3 * * *', 'py:a');
           SELECT pgcron.enqueue('py:nobody', queue => 'mail');
           UPDATE pgcron.run SET state = 'blocked', gate = 'no_node'"""
    )
    await connection.close()

    queues = (await site.get("/")).text.partition('id="queues"')[2].partition("</section>")[0]
    assert "mail" in queues
    assert re.findall(r'data-label="(Due|Blocked|Running)" class="right">(\d+)<', queues) == [
        ("Due", "0"),
        ("Blocked", "1"),
        ("Running", "0"),
    ]


async def test_one_number_of_blocked_runs_is_shown_everywhere_and_they_are_no_lag(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        """WITH made AS (INSERT INTO pgcron.schedule (name, spec, handler, queue)
                         VALUES ('a', '0 3 * * *', 'py:nobody', 'mail') RETURNING id)
           INSERT INTO pgcron.run (handler, queue, origin, schedule_id, schedule, overlap, due_at,
                                   scheduled_for, state, gate)
           SELECT 'py:nobody', 'mail', 'schedule', id, 'a', 'queue',
                  now() - late * interval '1 min', now() - late * interval '1 min', 'blocked',
                  CASE late WHEN 5 THEN 'no_node' ELSE 'overlap' END
           FROM made, generate_series(1, 5) late"""
    )
    shown = await connection.fetchval("SELECT blocked FROM pgcron.queues WHERE name = 'mail'")
    await connection.close()

    overview = (await site.get("/")).text
    assert shown == 5
    assert "5 runs wait: " in overview
    assert '<td data-label="Blocked" class="right">5<' in overview
    lag = overview.partition("Worst queue lag")[2].partition("</a>")[0]
    assert "nothing is due and waiting" in lag
    assert "</span>5</span>" in (await site.get("/queues")).text
    assert '<span class="tile-value">5</span>' in (await site.get("/queues/mail")).text


async def test_a_fire_that_is_decided_ahead_is_scheduled_not_ready(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        """WITH made AS (INSERT INTO pgcron.schedule (name, spec, handler)
                         VALUES ('a', '0 3 * * *', 'py:a') RETURNING id),
                run AS (INSERT INTO pgcron.run (handler, origin, schedule_id, schedule,
                                                    due_at, scheduled_for)
                        SELECT 'py:a', 'schedule', id, 'a', fire, fire
                          FROM made, (SELECT now() + interval '1 hour') later(fire)
                        RETURNING id, schedule_id, due_at)
           INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id)
           SELECT schedule_id, due_at, 'run', id FROM run"""
    )
    await connection.close()

    page = await site.get("/schedules/a")

    ledger = page.text.partition('id="ledger"')[2]
    assert "</span>scheduled</span>" in ledger
    assert "</span>ready</span>" not in ledger


async def test_the_timeline_of_a_young_cluster_is_short_until_somebody_chooses(
    database: str, site: Site, serve: Serve, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('a', '* * * * *', 'py:a')"
    )
    await connection.execute(
        "UPDATE pgcron.cursor SET status = 'valid', next_fire = now() + interval '1 minute'"
    )

    assert chosen_window((await site.get("/")).text) == "1h"
    assert chosen_window((await site.get("/?window=24h")).text) == "24h"

    await connection.execute("SET session_replication_role = replica")
    await connection.execute("UPDATE pgcron.schedule SET created_at = now() - interval '1 hour'")
    await connection.close()
    async with serve(database) as later:
        assert chosen_window((await later.get("/")).text) == "24h"


async def test_a_schedule_that_no_node_has_read_yet_is_not_said_to_be_missing(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('a', '* * * * *', 'py:a')"
    )
    await connection.close()

    page = await site.get("/")

    timeline = page.text.partition('id="timeline"')[2].partition("</section>")[0]
    assert "No fire is known of 1 schedule:" in timeline
    assert "No schedules." not in timeline


async def test_the_timeline_has_what_ran_of_a_schedule_that_is_paused_now(
    site: Site, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    await connection.execute(
        "SELECT pgcron.put_schedule('rests', '@daily', 'py:a', overlap => 'allow')"
    )
    node = await join(connection, handlers=["py:a"], queues=["default"])
    run = await connection.fetchval("SELECT pgcron.run_now('rests')")
    await finish(connection, await claim_both(connection, node, 1))
    await connection.execute("SELECT pgcron.pause_schedule('rests')")
    await connection.close()

    page = await site.get("/")

    timeline = page.text.partition('id="timeline"')[2].partition("</section>")[0]
    assert 'href="/schedules/rests"' in timeline
    assert f'href="/runs/{run}"' in timeline


async def test_a_long_past_is_shown_whole(read_site: Site) -> None:
    assert chosen_window((await read_site.get("/")).text) == "24h"


async def test_a_silent_node_and_a_cluster_without_nodes_say_since_when(
    full_database: str, serve: Serve
) -> None:
    connection = await own_session(full_database)
    await connection.execute(
        """UPDATE pgcron.node SET lease_until = now() - interval '7 minutes'
           WHERE state <> 'dead'"""
    )
    await connection.close()

    async with serve(full_database) as site:
        page = await site.get("/")

    for what in ("No node is alive", "berlin-1"):
        row = page.text.partition('id="attention"')[2].partition(what)[2].partition("</tr>")[0]
        assert re.search(r">7\sm ago</time>", row), what


def chosen_window(page: str) -> str:
    """The length of the timeline that the page marks as chosen."""
    found: list[str] = re.findall(r'\?window=\w+" aria-current="true">(\w+)<', page)
    (word,) = found
    return word
