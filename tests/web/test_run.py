"""One run: what is said of it, its log, and its verbs."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.seed import ANSI

DEAD, SKIPPED, SUCCEEDED = (
    f"SELECT max(id) FROM pgcron.history WHERE outcome = '{word}' AND origin = 'schedule'"
    for word in ("dead", "skipped", "succeeded")
)
RUNNING = "SELECT id FROM pgcron.run WHERE state = 'running' AND schedule = 'etl/orders'"
BLOCKED = "SELECT id FROM pgcron.run WHERE gate IS NOT NULL"
RETRYING = "SELECT id FROM pgcron.run WHERE state = 'ready' AND attempt = 2"
PAUSED = "SELECT min(id) FROM pgcron.run WHERE queue = 'mail'"
LATER = "SELECT min(id) FROM pgcron.run WHERE due_at > now() + interval '5 min'"


@pytest.fixture
async def sql(full_database: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await own_session(full_database)
    yield connection
    await connection.close()


SENTENCES = (
    (DEAD, "dead", "Gave up after attempt 5 of 5"),
    (SKIPPED, "skipped", "The last run is not over."),
    (SUCCEEDED, "succeeded", "Done."),
    (RUNNING, "running", "Attempt 1 of 5 executes on berlin-1 for"),
    (BLOCKED, "blocked", "no live node offers &#39;py:nobody.offers&#39; for queue"),
    (RETRYING, "retrying", "Attempt 2 of 5 failed: TimeoutError: no answer in 30 s"),
    (PAUSED, "ready", "queue mail is paused by ana (provider maintenance until 18:00)"),
    (LATER, "scheduled", "It is due in"),
)


async def test_a_run_says_in_a_sentence_how_it_stands(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    for which, word, sentence in SENTENCES:
        run = await sql.fetchval(which)

        answer = await full_site.get(f"/runs/{run}")

        assert answer.status_code == 200
        head = answer.text.partition('id="head"')[2].partition("</section>")[0]
        assert f"</span>{word}</span>" in head
        assert sentence in head
        assert f"<title>{word} · run {run} · " in answer.text


async def test_a_run_that_waits_for_a_broken_limit_says_what_is_wrong_with_it(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    await sql.execute(
        "ALTER TABLE pgcron.queue DROP CONSTRAINT a_queue_runs_1_to_100000_at_once;"
        "UPDATE pgcron.queue SET max_running = 0, paused_at = NULL WHERE name = 'mail'"
    )
    run = await sql.fetchval(PAUSED)

    text = (await full_site.get(f"/runs/{run}")).text

    assert "queue &#39;mail&#39; waits until it is mended: max_running must be between" in text


async def test_the_attempts_of_a_dead_run_show_errors_and_tracebacks(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(
        "SELECT max(id) FROM pgcron.history WHERE handler = 'py:etl.products' AND outcome = 'dead'"
    )

    text = (await full_site.get(f"/runs/{run}")).text

    attempts = text.partition('id="attempts"')[2].partition("</section>")[0]
    assert re.findall(r'attempt-number">(\d)<', attempts) == ["5", "4", "3", "2", "1"]
    assert attempts.count("could not connect to server: Connection refused") == 10
    assert attempts.count("jobs.py&#34;, line 42") == 5
    assert attempts.count("<details open>") == 1
    kinds = re.findall(r"<dt><span[^>]*></span>([\w ]+)</dt>", text)
    assert kinds == ["waiting", "executing", "backing off"]
    assert f'href="/runs/{run}?verb=redrive"' in text


async def test_errors_args_and_lines_from_outside_harm_nothing(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    hostile = await sql.fetchval("SELECT max(id) FROM pgcron.history WHERE handler = 'py:hostile'")
    running = await sql.fetchval(RUNNING)
    await sql.execute(
        """UPDATE pgcron.run SET args = '{"<script>alert(1)</script>": "\\u202e \\u001b[31m"}'
           WHERE id = $1""",
        running,
    )

    for run in (hostile, running):
        text = (await full_site.get(f"/runs/{run}")).text
        assert "<script>alert" not in text
        assert "<img" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    log = text.partition('id="log"')[2]
    assert "red link cleared override" in log
    assert "evil.example" not in log
    download = await full_site.get(f"/runs/{running}/log")
    assert ANSI not in download.text
    assert "red link cleared override" in download.text
    assert download.headers["content-type"] == "text/plain; charset=utf-8"
    assert download.headers["content-disposition"].startswith("attachment")
    assert download.text.count("\n") == 30


async def test_how_far_a_run_is_stands_in_a_live_region(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    runs = await sql.fetch("SELECT id FROM pgcron.run WHERE state = 'running' ORDER BY id LIMIT 2")
    one, two = (row["id"] for row in runs)
    await sql.execute(
        "INSERT INTO pgcron.progress SELECT id, attempt, now(), 1250, CASE id WHEN $1 THEN 5000"
        " END, '<b>rows</b>' FROM pgcron.run WHERE id IN ($1, $2)",
        *(one, two),
    )

    text = (await full_site.get(f"/runs/{one}")).text

    head = text.partition('id="head"')[2].partition("</section>")[0]
    assert '<progress id="progress-bar" value="25" max="100">' in head
    assert "25 % · 1,250 of 5,000 · <bdi>&lt;b&gt;rows&lt;/b&gt;</bdi>" in head
    assert '<progress id="progress-bar">' in (await full_site.get(f"/runs/{two}")).text


async def test_args_keep_every_digit_and_large_ones_are_cut(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    exact = await sql.fetchval(
        """SELECT pgcron.enqueue('py:x', '{"id": 12345678901234567890.10, "empty": {}}')"""
    )
    large = await sql.fetchval(
        "SELECT pgcron.enqueue('py:x', jsonb_build_object('text', repeat('x', 100000)))"
    )
    deep = await sql.fetchval(
        "SELECT pgcron.enqueue('py:x',"
        " ('{\"a\":' || repeat('[', 90) || repeat(']', 90) || '}')::jsonb)"
    )

    laid_out = html.unescape((await full_site.get(f"/runs/{exact}")).text)
    assert '{\n    "id": 12345678901234567890.10,\n    "empty": {\n    }\n}' in laid_out
    cut = await full_site.get(f"/runs/{large}")
    assert "bytes, cut" in cut.text
    assert len(cut.text) < 60_000
    assert len((await full_site.get(f"/runs/{deep}")).text) < 90_000


async def test_the_newest_lines_of_the_log_have_numbers_and_the_download_has_all(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)
    await sql.execute(
        """INSERT INTO pgcron.log (run_id, attempt, sequence, stream, line)
           SELECT $1, 2, n, 'stdout', 'line ' || n FROM generate_series(1, 1200) n""",
        run,
    )

    def shown(text: str) -> list[str]:
        return re.findall(r'<li class="log-line \w+" id="(L[\d-]+)"', text)

    text = (await full_site.get(f"/runs/{run}")).text
    download = (await full_site.get(f"/runs/{run}/log")).text

    assert shown(text) == [f"L2-{n}" for n in range(701, 1201)]
    assert "Older lines are in the" in text
    assert f"pgcron-ha runs logs {run} --attempt 2 --limit 10000" in text
    assert "grows while it executes" in text
    assert "1.0 " in download
    assert download.count(" 2.") == 1200


async def test_a_download_that_is_cut_names_what_prints_all(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)
    await sql.execute(
        """INSERT INTO pgcron.log (run_id, attempt, sequence, stream, line)
           SELECT $1, 2, n, 'stdout', repeat('x', 8000) FROM generate_series(1, 600) n""",
        run,
    )

    download = (await full_site.get(f"/runs/{run}/log")).text

    assert download.count("x" * 8000) < 600
    assert f"pgcron-ha runs logs {run} --attempt 2 --limit 10000" in download.splitlines()[-1]


async def test_a_download_is_read_anew_each_time(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)
    line = "INSERT INTO pgcron.log VALUES ($1, 1, $2, now(), 'stdout', 'line of ' || $2::int)"

    for number in (30, 31, 32):
        await sql.execute(line, run, number)
        assert f"line of {number}" in (await full_site.get(f"/runs/{run}/log")).text


async def test_the_log_grows_in_the_live_part(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)
    await sql.execute(
        "INSERT INTO pgcron.log VALUES ($1, 1, 30, now(), 'stdout', 'one more line')", run
    )

    live = await full_site.get(f"/runs/{run}", **{"X-Pgcron-Live": "1"})

    assert "one more line" in live.text.partition('id="log" data-live')[2]
    assert "<header" not in live.text


NOT_THERE = (
    ("/runs/9999", 404, "all runs"),
    ("/runs/x", 404, "there is no page"),
    ("/runs/-1", 404, "there is no page"),
    ("/runs/1e3", 404, "there is no page"),
    ("/runs/999999999999999999", 404, "does not exist"),
    ("/runs/9999999999999999999999", 404, "there is no page"),
    ("/runs/%00", 404, "there is no page"),
    ("/runs/9999/log", 404, "does not exist"),
    ("/runs/10001/logs", 404, "there is no page"),
)


async def test_what_does_not_exist_is_a_page_that_says_so(read_site: Site) -> None:
    for path, status, hint in NOT_THERE:
        answer = await read_site.get(path)

        assert answer.status_code == status, path
        assert hint in answer.text, path


async def test_a_waiting_run_is_cancelled_with_a_reason(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(BLOCKED)

    answer = await full_site.post(f"/runs/{run}/cancel", note="<b>not needed</b>")
    page = await full_site.get(answer.headers["location"])

    assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run}?done=cancelled")
    assert "Cancelled by ui:local: &lt;b&gt;not needed&lt;/b&gt;" in page.text
    assert "Cancelled: it had not begun and never will." in page.text
    assert "?verb=cancel" not in page.text


async def test_a_running_run_is_asked_to_stop_once(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)

    answer = await full_site.post(f"/runs/{run}/cancel")
    page = await full_site.get(answer.headers["location"])

    assert "Its node was asked to stop it" in page.text
    assert "?verb=cancel" not in page.text
    assert await sql.fetchval("SELECT cancel_reason FROM pgcron.run WHERE id = $1", run) == (
        "cancelled by ui:local"
    )


async def test_a_run_that_was_asked_to_stop_can_be_killed_once(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)
    assert "?verb=kill" not in (await full_site.get(f"/runs/{run}")).text
    await full_site.post(f"/runs/{run}/cancel")
    assert "?verb=kill" in (await full_site.get(f"/runs/{run}")).text

    answer = await full_site.post(f"/runs/{run}/kill")
    page = await full_site.get(answer.headers["location"])

    assert answer.headers["location"] == f"/runs/{run}?done=kill_requested"
    assert "It was asked to end at once." in page.text
    assert "and to end it by force" in page.text
    assert "?verb=kill" not in page.text
    assert await sql.fetchval("SELECT kill_at IS NOT NULL FROM pgcron.run WHERE id = $1", run)


async def test_a_retrying_run_is_due_at_once(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RETRYING)
    await sql.execute("UPDATE pgcron.run SET due_at = now() + interval '1 day' WHERE id = $1", run)
    assert f'href="/runs/{run}?verb=retry"' in (await full_site.get(f"/runs/{run}")).text

    answer = await full_site.post(f"/runs/{run}/retry")

    assert answer.headers["location"] == f"/runs/{run}?done=retried"
    assert await sql.fetchval("SELECT due_at <= now() FROM pgcron.run WHERE id = $1", run)


async def test_an_ended_run_runs_again_and_both_name_each_other(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(SUCCEEDED)

    answer = await full_site.post(f"/runs/{run}/retry")
    made = re.fullmatch(r"/runs/(\d+)\?done=rerun", answer.headers["location"])
    assert made is not None
    child = await full_site.get(f"/runs/{made[1]}")
    parent = await full_site.get(f"/runs/{run}")

    assert f'<a href="/runs/{run}">' in child.text
    assert "rerun, by ui:local" in child.text
    assert f'<a href="/runs/{made[1]}">run {made[1]}</a>' in parent.text


async def test_a_run_that_runs_is_not_retried(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(RUNNING)

    answer = await full_site.post(f"/runs/{run}/retry")

    assert answer.status_code == 409
    assert f"run {run} is running" in answer.text
    assert (await full_site.post("/runs/9999/cancel")).status_code == 404
    assert (await full_site.post(f"/runs/{run}/cancel", why="x")).status_code == 400


async def test_a_dead_letter_without_history_is_shown_by_what_it_kept(
    full_site: Site, sql: asyncpg.Connection[asyncpg.Record]
) -> None:
    run = await sql.fetchval(
        "SELECT max(run_id) FROM pgcron.dead_letter WHERE handler = 'py:image.resize'"
    )

    text = (await full_site.get(f"/runs/{run}")).text

    assert "Retention has removed its history" in text
    assert "cannot identify image file" in text
