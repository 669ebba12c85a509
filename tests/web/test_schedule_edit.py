from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import quote

import httpx
import pytest

from tests.chaos.failpoints import clock_ahead_by
from tests.product.client import FIELDS, POLICIES
from tests.product.web import schedule_edit_page
from tests.sessions import own_session
from tests.web.conftest import Site

NAME = "nightly-backup"


def form_of(page: str) -> dict[str, str]:
    """The fields of the form as a browser would send them."""
    text = page.partition('<form class="definition"')[2].partition("</form>")[0]
    found = {m[1]: m[2] for m in re.finditer(r'<input[^>]*name="(\w+)" value="([^"]*)"', text)}
    for name, body in re.findall(r'<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', text, re.S):
        found[name] = body
    for name, body in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', text, re.S):
        chosen = re.search(r'<option value="([^"]*)" selected>', body)
        found[name] = chosen[1] if chosen else ""
    return {name: unescape(value) for name, value in found.items()}


async def opened(site: Site) -> dict[str, str]:
    page = await site.get(f"/schedules/{NAME}/edit")
    assert page.status_code == 200
    return form_of(page.text)


async def save(site: Site, form: dict[str, str], **fields: str) -> httpx.Response:
    return await site.post(f"/schedules/{NAME}/save", **{**form, **fields})


async def row_of(dsn: str, columns: str) -> tuple[object, ...]:
    connection = await own_session(dsn)
    try:
        row = await connection.fetchrow(
            f"SELECT {columns} FROM pgcron.schedule WHERE name = $1", NAME
        )
        assert row is not None
        return tuple(row)
    finally:
        await connection.close()


async def test_every_policy_has_a_field(read_site: Site) -> None:
    form = await opened(read_site)

    assert set(form) == {*FIELDS, "version", "note"}
    assert set(POLICIES) - {"enabled"} <= set(form)


async def test_a_form_that_changes_nothing_writes_nothing(
    full_site: Site, full_database: str
) -> None:
    before = await row_of(full_database, "version, to_jsonb(schedule)::text")
    answer = await save(full_site, await opened(full_site))

    assert answer.status_code == 303
    assert await row_of(full_database, "version, to_jsonb(schedule)::text") == before


async def test_a_schedule_is_edited_with_a_note(full_site: Site, full_database: str) -> None:
    form = await opened(full_site)
    changed = {
        "spec": "0 4 * * *\r\nnot 2026-12-24",
        "timezone": "Asia/Tokyo",
        "args": '{"db": "shop", "n": [1]}',
        "timeout": "2h30m",
        "start_deadline": "10m",
        "max_attempts": "7",
        "requires": "gpu=a100 ssd",
        "priority": "",
        "owner": "billing",
        "description": "Sends\r\nwhat is due.",
        "tags": "nightly, team:b",
        "links": '{"runbook": "https://wiki.example"}',
    }
    answer = await save(full_site, form, **changed, note="moved for <b>Tokyo</b>")

    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"/schedules/{NAME}?done=edited")
    assert await row_of(
        full_database,
        "spec, timezone, args ->> 'db', timeout::text, start_deadline::text, max_attempts,"
        " requires, priority, owner, description, tags, links ->> 'runbook', managed_by",
    ) == (
        "0 4 * * *\nnot 2026-12-24",
        "Asia/Tokyo",
        "shop",
        "02:30:00",
        "00:10:00",
        7,
        ["gpu=a100", "ssd"],
        5,
        "billing",
        "Sends\nwhat is due.",
        ["nightly", "team:b"],
        "https://wiki.example",
        form["managed_by"],
    )
    again = form_of((await full_site.get(f"/schedules/{NAME}/edit")).text)
    assert (again["timeout"], again["requires"]) == ("2h30m", "gpu=a100, ssd")
    versions = await full_site.get(f"/schedules/{NAME}/versions")
    assert "moved for &lt;b&gt;Tokyo&lt;/b&gt;" in versions.text
    await save(full_site, again, start_deadline="", max_attempts="")
    assert await row_of(full_database, "start_deadline, max_attempts") == (None, None)


async def test_0_takes_back_what_it_takes_back_elsewhere(
    full_site: Site, full_database: str
) -> None:
    form = await opened(full_site)
    some = {"max_runs": "9", "pause_after_failures": "3", "jitter": "5m", "probe_after": "1m"}
    assert (await save(full_site, form, **some, priority="3")).status_code == 303
    form = await opened(full_site)
    nothing = {"max_runs": "0", "pause_after_failures": "0", "jitter": "0s", "probe_after": "0s"}
    none = await save(full_site, form, **nothing, priority="0")

    assert none.status_code == 303
    kept = await row_of(full_database, ", ".join((*some, "priority")))
    assert kept == (None, None, None, None, 0)


async def test_a_preview_saves_nothing_and_keeps_what_was_typed(
    full_site: Site, full_database: str
) -> None:
    before = await row_of(full_database, "version, spec")
    page = await save(
        full_site, await opened(full_site), spec="30 2 29 2 *", timezone="Asia/Tokyo", do="preview"
    )

    assert page.status_code == 200
    assert form_of(page.text)["spec"].strip() == "30 2 29 2 *"
    assert "02-29 02:30:00 +0900" in page.text
    assert await row_of(full_database, "version, spec") == before


async def test_the_next_fires_are_by_the_clock_of_the_database(
    full_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = {"spec": "* * * * *", "do": "preview"}
    made = form_of((await full_site.get("/new-schedule")).text)
    forms = {"/new-schedule": made, f"/schedules/{NAME}/save": await opened(full_site)}
    monkeypatch.setattr(schedule_edit_page, "datetime", clock_ahead_by(7200), raising=False)

    for address, form in forms.items():
        page = await full_site.post(address, **{**form, "handler": "py:x", **changed})
        first = re.search(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ", page.text)
        assert first is not None
        assert datetime.fromisoformat(first[0]) < datetime.now(UTC) + timedelta(hours=1)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("spec", "61 * * * *", "61"),
        ("spec", "", "the spec is empty"),
        ("timezone", "Europe/Nowhere", "Europe/Nowhere"),
        ("args", "[1]", "args is a JSON"),
        ("args", "{", "args"),
        ("timeout", "soon", "timeout"),
        ("priority", "much", "priority much is out of range"),
        ("priority", "12", "12"),
        ("handler", "ftp", "ftp"),
        ("overlap", "maybe", "maybe"),
        ("catchup", "all", "catch"),
    ],
)
async def test_what_is_wrong_is_told_in_the_form(
    full_site: Site, full_database: str, field: str, value: str, says: str
) -> None:
    before = await row_of(full_database, "version")
    page = await save(full_site, await opened(full_site), **{field: value}, queue="typed")

    assert page.status_code == 400
    error = page.text.partition('id="error"')[2].partition("</section>")[0]
    assert says in unescape(error)
    assert form_of(page.text)["queue"] == "typed"
    assert await row_of(full_database, "version") == before


async def test_the_second_of_two_editors_sees_both_and_loses_nothing(
    full_site: Site, full_database: str
) -> None:
    mine = await opened(full_site)
    theirs = await opened(full_site)
    await save(full_site, theirs, spec="0 5 * * *", queue="theirs")

    met = await save(full_site, mine, spec="0 6 * * *", priority="1")

    assert met.status_code == 409
    error = unescape(met.text.partition('id="error"')[2].partition("</section>")[0])
    assert "It was written by ui:local through ui at 20" in error
    cells = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", error)]
    assert ["spec", mine["spec"].strip(), "0 5 * * *", "0 6 * * *"] == cells[4:8]
    assert ["queue", mine["queue"], "theirs", "not changed"] == cells[8:12]
    again = form_of(met.text)
    assert "At 06:00 every day" in met.text.partition('id="preview"')[2]
    assert (again["spec"].strip(), again["queue"], again["priority"]) == (
        "0 6 * * *",
        "theirs",
        "1",
    )
    assert (await save(full_site, again)).status_code == 303
    found = await row_of(full_database, "spec, queue, priority")
    assert found == ("0 6 * * *", "theirs", 1)


async def test_versions_are_listed_and_restored(full_site: Site, full_database: str) -> None:
    form = await opened(full_site)
    before = await row_of(full_database, "spec")
    await save(full_site, form, spec="0 5 * * *")
    page = await full_site.get(f"/schedules/{NAME}/versions")
    assert "→ <code>0 5 * * *</code>" in page.text
    assert "ui:local" in page.text
    version = form["version"]
    assert f"Restore {version}<" in page.text

    late = await full_site.post(
        f"/schedules/{NAME}/restore", version=version, expected_version=version
    )
    done = await full_site.post(f"/schedules/{NAME}/restore", version=version)

    assert (late.status_code, done.status_code) == (409, 303)
    assert await row_of(full_database, "spec") == before
    shown = await full_site.get(f"/schedules/{NAME}/versions?done=restored")
    assert f"restored from version {version}" in shown.text
    older = (await full_site.get(f"/schedules/{NAME}/versions?before=1")).text
    assert "No older version is kept." in older
    for query in ("before=x", "before=99999999999"):
        assert (await full_site.get(f"/schedules/{NAME}/versions?{query}")).status_code == 400
    assert (await full_site.post(f"/schedules/{NAME}/restore")).status_code == 404
    assert (await full_site.get("/schedules/nobody/versions")).status_code == 404
    assert (await full_site.get("/schedules/nobody/edit")).status_code == 404
    assert (await full_site.post("/schedules/nobody/save")).status_code == 404


async def test_a_deleted_schedule_is_restored(full_site: Site, full_database: str) -> None:
    connection = await own_session(full_database)
    await connection.execute("SELECT pgcron.delete_schedule($1)", NAME)
    await connection.close()
    page = await full_site.get(f"/schedules/{NAME}/versions")
    assert "it was deleted" in page.text
    version = re.findall(r"Restore (\d+)<", page.text)[0]

    answer = await full_site.post(f"/schedules/{quote(NAME)}/restore", version=version)

    assert answer.status_code == 303
    assert (await full_site.get(f"/schedules/{NAME}")).status_code == 200


async def test_who_owns_it_is_told_where_it_is_edited(full_site: Site, full_database: str) -> None:
    connection = await own_session(full_database)
    await connection.execute("UPDATE pgcron.schedule SET managed_by = 'code'")
    await connection.close()
    for path in ("", "/edit"):
        page = await full_site.get(f"/schedules/{NAME}{path}")
        assert "It is managed by the code of an application" in page.text
