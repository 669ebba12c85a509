from __future__ import annotations

from tests.sessions import own_session
from tests.web.conftest import Site

HOLIDAYS = "yearly 12-25 # Christmas <b>Day</b>\nyearly easter+1"


async def test_a_calendar_is_made_shown_used_and_deleted(full_site: Site) -> None:
    assert '<a href="/calendars/closed">' in (await full_site.get("/calendars")).text
    assert "the shops" in (await full_site.get("/calendars/closed")).text
    made = await full_site.post("/calendars", name="holidays", content=HOLIDAYS)
    assert made.headers["location"] == "/calendars/holidays?done=calendar_saved"
    text = "mon-fri\r\nnot calendar holidays"
    await full_site.post("/calendars", name="business-days", content=text)
    read = (await full_site.get("/schedules/weekly-report/edit")).text
    assert "version" in read
    saved = await full_site.post(
        "/schedules/weekly-report/save",
        spec="0 0 * * *\nonly in business-days, move next",
        timezone="America/New_York",
        do="save",
    )
    assert saved.status_code == 303, saved.text

    page = (await full_site.get("/calendars/holidays")).text
    assert "Christmas &lt;b&gt;Day&lt;/b&gt;" in page
    assert '<a href="/calendars/business-days">' in page
    assert '<a href="/schedules/weekly-report">' in page
    assert "version 1" in page
    assert "ui:local" in page
    schedule = (await full_site.get("/schedules/weekly-report")).text
    assert '<a href="/calendars/business-days">' in schedule
    assert '<a href="/calendars/holidays">' in schedule
    assert "/calendars/holidays" in (await full_site.get("/calendars")).text

    used = await full_site.post("/calendars/holidays/delete")
    assert used.status_code == 409
    assert "weekly-report" in used.text
    await full_site.post("/calendars", name="alone", content="2026-12-24")
    gone = await full_site.post("/calendars/alone/delete")
    assert gone.headers["location"] == "/calendars?done=calendar_deleted"
    assert (await full_site.get("/calendars/alone")).status_code == 404


async def test_what_can_not_be_is_told_in_the_form_which_keeps_it(full_site: Site) -> None:
    for name, content, words in (
        ("holidays", "sat\nsomeday <b>", "does not name days"),
        ("holidays", "calendar nobody", "nobody"),
        ("two words", "sat", "is not a name of a calendar"),
    ):
        answer = await full_site.post("/calendars", name=name, content=content)
        assert answer.status_code == 400
        assert words in answer.text
        assert content.split("\n")[0] in answer.text
    assert (await full_site.get("/calendars/holidays")).status_code == 404


async def test_a_calendar_that_nobody_can_read_says_why(
    full_site: Site, full_database: str
) -> None:
    connection = await own_session(full_database)
    await connection.execute("SELECT pgcron.put_calendar('unread', 'someday <b>')")
    await connection.close()

    page = (await full_site.get("/calendars/unread")).text

    assert "Nobody can read it: " in page
    assert "does not name days" in page
    assert "someday &lt;b&gt;" in page
