"""The list of runs: filters, pages, bounds, and what it says when it finds nothing."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from tests.product.db import pages_runs as ask
from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.seed import EMOJI_NAME, HOSTILE_NAME, LONG_NAME, RIGHT_TO_LEFT_NAME

HISTORY = """
    INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, outcome,
                                attempt, due_at, created_at, created_by, started_at, finished_at,
                                node, schedule_id, schedule)
    SELECT n, gen_random_uuid(), 'enqueued', 'default', 5,
           CASE WHEN n = 1 THEN 'py:rare' ELSE 'py:common' END, '{}', 'at_least_once', 'succeeded',
           1, now(), now(), 'x', now(), now() - (20000 - n) * interval '1 ms', 'n1', $2, $3
      FROM generate_series(1, $1::int) n
"""


def numbers(text: str) -> list[int]:
    """The runs of a list, from top to bottom."""
    rows = text.partition('id="list"')[2]
    return [int(found) for found in re.findall(r'<th scope="row"[^>]*><a href="/runs/(\d+)"', rows)]


def states(text: str) -> set[str]:
    rows = text.partition('id="list"')[2]
    return set(re.findall(r'data-label="State"><span class="badge[^>]*>.*?</span>([\w ]+)<', rows))


async def every_page(site: Site, path: str) -> list[int]:
    """The numbers of all pages, as a person finds them who follows the links."""
    found: list[int] = []
    for _ in range(90):
        text = (await site.get(path)).text
        found += numbers(text)
        further = re.search(r'href="([^"]+)"(?: rel="next")?>(?:Older|Look further)<', text)
        if further is None:
            return found
        path = further[1].replace("&amp;", "&")
    raise AssertionError("the pages do not end")


async def test_an_empty_list_says_how_to_make_a_run(site: Site) -> None:
    answer = await site.get("/runs")

    assert answer.status_code == 200
    assert "No runs yet" in answer.text
    assert "pgcron-ha enqueue" in answer.text


FILTERS = {
    "state=running": {"running"},
    "state=blocked": {"blocked"},
    "state=retrying": {"retrying"},
    "state=dead": {"dead"},
    "state=skipped": {"skipped"},
    "state=waiting&queue=default": {"blocked", "ready", "retrying", "scheduled"},
    "state=attention": {"dead", "blocked", "retrying"},
    "state=dead&node=berlin-1": {"dead"},
    "state=succeeded&queue=etl&since=7d": {"succeeded"},
    "schedule=etl/orders": {"running", "skipped", "succeeded"},
    "schedule=etl/orders&state=skipped": {"skipped"},
}


async def test_filters_choose_runs(read_site: Site) -> None:
    found = {query: states((await read_site.get(f"/runs?{query}")).text) for query in FILTERS}

    assert found == FILTERS


QUESTIONS = {
    "queue=etl": "queue = 'etl'",
    "handler=py:cache.warm": "handler = 'py:cache.warm'",
    "schedule=cache-warmer": "schedule = 'cache-warmer'",
    "schedule=cache-warmer&state=dead": "schedule = 'cache-warmer' AND state = 'dead'",
    "node=berlin-2": "node = 'berlin-2'",
    "node=paris-1&queue=etl": "node = 'paris-1' AND queue = 'etl'",
    "error=SMTPserver": "error ILIKE '%smtpserver%'",
    "state=dead&error=SMTPserver": "state = 'dead' AND error ILIKE '%smtpserver%'",
    "schedule=cache-warmer&error=a": "schedule = 'cache-warmer' AND error ILIKE '%a%'",
    "state=ended&since=6h": "finished_at >= now() - interval '6 hours'",
    "state=ended&until=6h": "finished_at < now() - interval '6 hours'",
    "": "true",
}


async def test_all_pages_together_hold_each_run_once(full_database: str, full_site: Site) -> None:
    connection = await own_session(full_database)
    for query, condition in QUESTIONS.items():
        expected = await connection.fetch(f"SELECT id FROM pgcron.runs WHERE {condition}")

        found = await every_page(full_site, f"/runs?{query}")

        assert sorted(found) == sorted(row["id"] for row in expected), query
    await connection.close()


async def test_a_rare_run_is_found_after_bounded_looks(
    database: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "LOOK", 300)
    monkeypatch.setattr(ask, "FURTHER_LOOK", 200)
    # Many waiting runs with higher numbers do not stand before those that ended.
    connection = await own_session(database)
    await connection.execute(HISTORY.replace("$1", "1000").replace("$2, $3", "NULL, NULL"))
    await connection.execute("UPDATE pgcron.history SET tags = '{rare}' WHERE id = 1")
    await connection.execute(
        "INSERT INTO pgcron.run (id, handler, due_at)"
        " SELECT n, 'py:later', now() + interval '1 day' FROM generate_series(5001, 7000) n"
    )
    await connection.close()

    first = await site.get("/runs?handler=py:rare")

    assert "No run found so far" in first.text
    assert "600 runs were looked at" in first.text
    assert await every_page(site, "/runs?handler=py:rare") == [1]
    assert await every_page(site, "/runs?tag=rare") == [1]
    assert await every_page(site, "/runs?handler=py:common") == list(range(1000, 1, -1))
    assert sorted(await every_page(site, "/runs")) == [*range(1, 1001), *range(5001, 7001)]


async def test_the_end_of_a_time_is_found_without_walking_there(
    database: str, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "LOOK", 300)
    monkeypatch.setattr(ask, "NUMBERS_MARGIN", 50)
    connection = await own_session(database)
    await connection.execute(
        HISTORY.replace("$1", "5000")
        .replace("$2, $3", "NULL, NULL")
        .replace("(20000 - n) * interval '1 ms'", "(5000 - n) * interval '1 minute'")
        .replace("now(), now(), 'x'", "now(), now() - (5002 - n) * interval '1 minute', 'x'")
    )
    await connection.close()

    answer = await site.get("/runs?until=2000m&since=2040m")

    assert numbers(answer.text) == list(range(3000, 2960, -1))


async def test_runs_of_a_schedule_that_ended_at_one_instant_are_paged_without_a_gap(
    database: str, site: Site
) -> None:
    connection = await own_session(database)
    schedule = await connection.fetchval(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('batch', '0 0 1 1 *', 'py:x')"
        " RETURNING id"
    )
    await connection.execute(
        HISTORY.replace("$1", "180")
        .replace("$2, $3", f"{schedule}, 'batch'")
        .replace("now() - (20000 - n) * interval '1 ms'", "now()")
    )
    await connection.close()

    assert await every_page(site, "/runs?schedule=batch") == list(range(180, 0, -1))


async def test_what_has_no_partition_is_listed(database: str, site: Site) -> None:
    connection = await own_session(database)
    await connection.execute(
        HISTORY.replace("$1", "3")
        .replace("$2, $3", "NULL, NULL")
        .replace("history", "history_overflow")
    )
    await connection.close()

    assert numbers((await site.get("/runs?state=succeeded")).text) == [3, 2, 1]


async def test_any_name_can_be_filtered_by(read_site: Site) -> None:
    for given in (HOSTILE_NAME, RIGHT_TO_LEFT_NAME, EMOJI_NAME, LONG_NAME):
        answer = await read_site.get(f"/runs?schedule={quote(given, safe='')}&since=30d")

        assert answer.status_code == 200
        assert numbers(answer.text)
        assert "<script>alert" not in answer.text
        # The field holds what was given, so that it can be sent again.
        assert "\u202e" not in re.sub(r' value="[^"]*"', "", answer.text)


BAD_FILTERS = (
    ("state=ded", 400, "Did you mean &#39;dead&#39;?"),
    ("stat=dead", 400, "Did you mean &#39;state&#39;?"),
    ("queue=etll", 200, "No run matches"),
    ("schedule=etl-orders", 200, "No run matches"),
    ("since=yesterday", 400, "is not a time"),
    ("until=2026-13-01", 400, "is not a time"),
    ("since=0001-01-01", 400, "is not a time"),
    ("before=x", 400, "is not a page"),
    ("before=2026-11-21T06:30:00~5", 400, "is not a page"),
    ("before=1.9999999999999999999", 400, "is not a page"),
    ("find=no-such-key", 404, "no run has the idempotency key"),
    ("queue=%00", 400, ""),
)


async def test_bad_filters_are_a_page_that_says_so(read_site: Site) -> None:
    for query, status, hint in BAD_FILTERS:
        answer = await read_site.get(f"/runs?{query}")

        assert answer.status_code == status, query
        assert hint in answer.text, query
        assert "Traceback" not in answer.text


async def test_nothing_that_matches_says_how_to_get_back(read_site: Site) -> None:
    answer = await read_site.get("/runs?queue=etl&state=cancelled")

    assert answer.status_code == 200
    assert "No run matches" in answer.text
    assert 'href="/runs?queue=etl"' in answer.text


async def test_the_box_opens_a_run_by_its_number_or_its_key(
    full_database: str, full_site: Site
) -> None:
    connection = await own_session(full_database)
    run = await connection.fetchval(
        "SELECT pgcron.enqueue('py:report', idempotency_key => 'order/17')"
    )
    await connection.close()

    by_number = await full_site.get("/runs?find=10050")
    by_key = await full_site.get("/runs?find=order/17")

    assert (by_number.status_code, by_number.headers["location"]) == (303, "/runs/10050")
    assert (by_key.status_code, by_key.headers["location"]) == (303, f"/runs/{run}")


async def test_the_box_knows_the_keys_of_producers_also_deleted_ones_and_none_that_is_over(
    full_database: str, full_site: Site
) -> None:
    connection = await own_session(full_database)
    await connection.execute("""
        SELECT pgcron.confine_producer('pg_monitor');
        SELECT pgcron.enqueue('py:report', idempotency_key => 'over');
        SELECT pgcron.enqueue('py:report', unique_key => 'past', unique_for => '1 hour');
        UPDATE pgcron.idempotency SET expires_at = now() WHERE key = 'over';
        UPDATE pgcron.unique_period SET until = now() WHERE key = 'past';
        INSERT INTO pgcron.idempotency VALUES ('theirs', 10050, now() + '1 day', 'pg_monitor');
        INSERT INTO pgcron.unique_period VALUES
          ('at a time', 'py:report', 10050, now() + '1 day', 'pg_monitor');
        SELECT pgcron.confine_producer('pg_read_all_stats');
        INSERT INTO pgcron.idempotency VALUES
          ('deleted', 10050, now() + '1 day', 'pg_read_all_stats');
        INSERT INTO pgcron.unique_period VALUES
          ('deleted too', 'py:report', 10050, now() + '1 day', 'pg_read_all_stats');
        SELECT pgcron.delete_producer('pg_read_all_stats')""")
    await connection.close()

    found = {
        key: (await full_site.get(f"/runs?find={key}")).headers.get("location")
        for key in ("over", "past", "theirs", "at a time", "deleted", "deleted too")
    }

    there = "/runs/10050"
    theirs = dict.fromkeys(("theirs", "at a time", "deleted", "deleted too"), there)
    assert found == {"over": None, "past": None, **theirs}


async def test_runs_of_a_deleted_schedule_are_still_found(
    full_database: str, full_site: Site
) -> None:
    connection = await own_session(full_database)
    await connection.execute("SELECT pgcron.delete_schedule('weekly-report', 'ana', 'cli')")
    await connection.close()

    answer = await full_site.get("/runs?schedule=weekly-report")

    assert states(answer.text) == {"succeeded"}


async def test_a_time_without_a_zone_is_the_viewers(read_site: Site) -> None:
    answer = await read_site.get("/runs?since=2026-01-01%2000:30&tz=Asia/Kathmandu")

    assert answer.status_code == 200
    assert 'value="2026-01-01 00:30"' in answer.text


def test_every_state_can_be_asked_for() -> None:
    grouped = {word for words in ask.STATE_GROUPS.values() for word in words}

    assert grouped <= set(ask.STATE_WORDS)
