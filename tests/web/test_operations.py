"""A form that is sent twice is done once: the database decides."""

from __future__ import annotations

import asyncio
import re

import httpx

from tests.sessions import own_session
from tests.web.conftest import Site

RUN_NOW = "/schedules/weekly-report/run"


async def number_of(site: Site, path: str, action: str) -> str:
    """The number that the form with this action holds on a page."""
    page = (await site.get(path)).text
    form = re.search(rf'action="{re.escape(action)}"><input[^>]* value="([^"]+)"', page)
    assert form is not None, page
    return form[1]


async def runs_of(dsn: str, origin: str) -> list[int]:
    connection = await own_session(dsn)
    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE origin = $1", origin)
    await connection.close()
    return [row["id"] for row in rows]


def run_in(answer: httpx.Response) -> int:
    assert answer.status_code == 303, answer.text
    return int(answer.headers["location"].partition("?")[0].rpartition("/")[2])


async def test_run_now_sent_many_times_at_once_makes_one_run(
    full_site: Site, full_database: str
) -> None:
    number = await number_of(full_site, "/schedules/weekly-report", RUN_NOW)

    answers = await asyncio.gather(*(full_site.post(RUN_NOW, operation=number) for _ in range(8)))
    later = await full_site.post(RUN_NOW, operation=number)

    (run,) = await runs_of(full_database, "manual")
    assert {run_in(answer) for answer in (*answers, later)} == {run}
    said = [answer.headers["location"].rpartition("=")[2] for answer in answers]
    assert sorted(said) == ["repeated"] * 7 + ["run"]
    page = await full_site.get(later.headers["location"])
    assert "This form had been sent already; this is the run that it made." in page.text


async def test_a_form_that_is_sent_after_its_number_s_lifetime_is_another_one(
    full_site: Site, full_database: str
) -> None:
    number = await number_of(full_site, "/schedules/weekly-report", RUN_NOW)
    first = run_in(await full_site.post(RUN_NOW, operation=number))
    connection = await own_session(full_database)
    await connection.execute("UPDATE pgcron.idempotency SET expires_at = now()")
    await connection.close()

    second, third = [run_in(await full_site.post(RUN_NOW, operation=number)) for _ in range(2)]

    assert [first, second] == sorted(await runs_of(full_database, "manual"))
    assert third == second


async def test_each_answer_has_numbers_of_its_own(full_site: Site, full_database: str) -> None:
    pages = await asyncio.gather(*(full_site.get("/schedules/weekly-report") for _ in range(5)))
    numbers = {re.findall(r'name="operation" value="([^"]+)"', page.text)[0] for page in pages}

    for number in numbers:
        await full_site.post(RUN_NOW, operation=number)
    await full_site.post(RUN_NOW)
    await full_site.post(RUN_NOW)

    assert len(numbers) == 5
    assert len(await runs_of(full_database, "manual")) == 7


async def test_retry_and_redrive_sent_twice_give_the_first_result(
    full_site: Site, full_database: str
) -> None:
    connection = await own_session(full_database)
    row = await connection.fetchrow(
        """SELECT (SELECT min(id) FROM pgcron.history WHERE outcome = 'succeeded'),
                  (SELECT min(run_id) FROM pgcron.dead_letter)"""
    )
    assert row is not None
    ended, letter = row
    await connection.close()
    for path, origin in ((f"/runs/{ended}/retry", "rerun"), (f"/dead/{letter}/redrive", "redrive")):
        run, _, verb = path.replace("dead", "runs").rpartition("/")
        number = await number_of(full_site, f"{run}?verb={verb}", path)

        first, second = [await full_site.post(path, operation=number) for _ in range(2)]

        assert await runs_of(full_database, origin) == [run_in(first)] == [run_in(second)]


async def test_what_failed_was_not_done(full_site: Site, full_database: str) -> None:
    number = "0123456789abcdef"
    missing = await full_site.post("/schedules/later/run", operation=number)
    connection = await own_session(full_database)
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('later', '@daily', 'py:x')"
    )
    await connection.close()

    made = await full_site.post("/schedules/later/run", operation=number)

    assert missing.status_code == 404
    assert await runs_of(full_database, "manual") == [run_in(made)]
