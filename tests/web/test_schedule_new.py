"""A schedule is made on a page: looked at first, refused with the reason, never over another."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from tests.product.client import FIELDS
from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.test_schedule_edit import form_of

PAGE = "/new-schedule"


async def create(site: Site, **fields: str) -> httpx.Response:
    """Sends the form as it is opened, with these fields filled in."""
    opened = await site.get(PAGE)
    assert opened.status_code == 200
    return await site.post(PAGE, **{**form_of(opened.text), "do": "create", **fields})


async def rows(dsn: str, statement: str) -> list[tuple[object, ...]]:
    connection = await own_session(dsn)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


def problem_of(page: str, field: str) -> str:
    """What stands beside a field of the form."""
    found = re.search(rf'<p class="wrong" id="wrong-{field}">(.*?)</p>', page, re.S)
    return "" if found is None else unescape(re.sub(r"<[^>]+>", "", found[1]))


async def test_a_schedule_is_made_with_the_defaults_or_others(site: Site, database: str) -> None:
    opened = form_of((await site.get(PAGE)).text)
    assert set(opened) == {"name", "state", *FIELDS}
    assert (opened["timezone"], opened["overlap"], opened["catchup_window"]) == (
        "UTC",
        "skip",
        "1h",
    )

    plain = await create(site, name="daily/one", spec="0 3 * * *", handler="py:report")
    others = {"timezone": "Asia/Tokyo", "timeout": "", "requires": "gpu", "max_attempts": "7"}
    spec = "0 4 * * *\r\nnot 2026-12-24"
    given = {"args": '{"day": 1}', "overlap": "queue", "max_queued": "3", "state": "paused"}
    await create(site, name=" two ", spec=spec, handler="py:b", **others, **given)

    assert plain.status_code == 303
    assert plain.headers["location"] == "/schedules/daily%2Fone?done=created"
    assert "Created" in (await site.get(plain.headers["location"])).text
    columns = "spec, timezone, timeout::text, requires, args ->> 'day', overlap, max_queued"
    assert await rows(
        database, f"SELECT name, enabled, managed_by, {columns} FROM pgcron.schedule ORDER BY id"
    ) == [
        ("daily/one", True, "ui", "0 3 * * *", "UTC", "01:00:00", None, None, "skip", None),
        (
            *("two", False, "ui", "0 4 * * *\nnot 2026-12-24", "Asia/Tokyo", "01:00:00"),
            *(["gpu"], "1", "queue", 3),
        ),
    ]
    who = await rows(database, "SELECT DISTINCT actor, interface FROM pgcron.schedule_version")
    assert who == [("ui:local", "ui")]


async def test_what_it_would_do_is_seen_before_anything_is_made(
    full_site: Site, full_database: str
) -> None:
    before = await rows(full_database, "SELECT count(*) FROM pgcron.schedule")
    page = await create(
        full_site,
        do="preview",
        name="",
        spec="30 2 * * *\n@daily~",
        timezone="Europe/Berlin",
        handler="py:nobody",
    )

    assert page.status_code == 200
    ahead = unescape(page.text.partition('id="preview"')[2])
    assert "At 02:30 every day" in ahead
    assert "No living node offers py:nobody for queue default" in ahead
    assert "those shown here are an example" in ahead
    assert form_of(page.text)["spec"].strip() == "30 2 * * *\n@daily~"
    assert f'formaction="{PAGE}#preview"' in page.text
    assert await rows(full_database, "SELECT count(*) FROM pgcron.schedule") == before
    offered = await rows(
        full_database,
        "SELECT o.handler FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)"
        " WHERE n.state = 'alive' AND 'default' = ANY(n.queues) LIMIT 1",
    )
    handler = str(offered[0][0])
    assert f'<option value="{handler}">' in page.text
    served = await create(full_site, do="preview", spec="@daily", handler=handler)
    assert "No living node" not in served.text


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("name", "", "the schedule's name is empty"),
        ("spec", "61 * * * *", "61"),
        ("spec", "", "the spec is empty"),
        ("spec", "0 9 * * *\nnot in nowhere", "nowhere"),
        ("spec", "0 9 * * sat\nnot * * * * sat", "left out"),
        ("timezone", "Europe/Berln", "Europe/Berlin"),
        ("handler", "rm -rf", "rm -rf"),
        ("args", "{", "args"),
        ("priority", "12", "12"),
        ("catchup", "some", "catch"),
    ],
)
async def test_what_is_wrong_is_told_beside_its_field(
    site: Site, database: str, field: str, value: str, says: str
) -> None:
    given = {"name": "job", "spec": "@daily", "handler": "py:x", "queue": "typed", field: value}
    page = await create(site, **given)

    assert page.status_code == 400
    assert says in problem_of(page.text, field)
    assert f'href="#field-{field}"' in page.text
    kept = form_of(page.text)
    assert (kept[field].strip(), kept["queue"]) == (value, "typed")
    assert await rows(database, "SELECT name FROM pgcron.schedule") == []


async def test_policies_that_do_not_go_together_are_refused(site: Site, database: str) -> None:
    together = {"overlap": "replace", "max_running": "3"}
    page = await create(site, name="job", spec="@daily", handler="py:x", **together)

    assert page.status_code == 400
    assert "replace" in page.text.partition('id="error"')[2].partition("</section>")[0]
    assert "open><summary>Policies" in page.text
    assert await rows(database, "SELECT name FROM pgcron.schedule") == []


async def test_a_name_that_exists_is_refused_and_not_overwritten(
    full_site: Site, full_database: str
) -> None:
    kept = "SELECT spec, handler, version FROM pgcron.schedule WHERE name = 'nightly-backup'"
    before = await rows(full_database, kept)
    page = await create(full_site, name="nightly-backup", spec="@hourly", handler="py:other")

    assert page.status_code == 409
    assert "schedule 'nightly-backup' exists already" in problem_of(page.text, "name")
    assert "Nothing was overwritten" in page.text
    assert form_of(page.text)["spec"].strip() == "@hourly"
    assert await rows(full_database, kept) == before


async def test_a_schedule_is_copied(full_site: Site, full_database: str) -> None:
    opened = await full_site.get(f"{PAGE}?copy=nightly-backup")
    form = form_of(opened.text)
    assert (form["name"], form["managed_by"]) == ("", "ui")
    made = await full_site.post(PAGE, **{**form, "name": "another", "do": "create"})

    assert made.status_code == 303
    same = "spec, timezone, handler, args, queue, overlap, catchup, timeout, max_attempts, retry"
    copies = await rows(
        full_database,
        f"SELECT DISTINCT {same} FROM pgcron.schedule WHERE name IN ('nightly-backup', 'another')",
    )
    assert len(copies) == 1
    assert (await full_site.get(f"{PAGE}?copy=nobody")).status_code == 404


async def test_args_as_large_as_a_schedule_may_have_are_made_and_edited(
    site: Site, database: str
) -> None:
    args = '{"text": "%s"}' % ("é" * 131_000)
    made = await create(site, name="large", spec="@daily", handler="py:x", args=args)
    assert made.status_code == 303
    form = form_of((await site.get("/schedules/large/edit")).text)
    assert form["args"].strip() == args
    changed = args.replace('{"text"', '{"words"')
    saved = await site.post("/schedules/large/save", **{**form, "args": changed})
    assert saved.status_code == 303
    size = "SELECT length(args ->> 'words') FROM pgcron.schedule"
    assert await rows(database, size) == [(131_000,)]
    fire = {"fire_time": "2090-01-01 00:00", "args": changed}
    assert (await site.post("/schedules/large/occurrences/edit", **fire)).status_code == 303
    again = form_of((await site.get("/schedules/large/edit")).text)
    larger = '{"text": "%s"}' % ("é" * 131_072)
    refused = await site.post("/schedules/large/save", **{**again, "args": larger})
    assert refused.status_code == 413
    assert "may have 262144 bytes" in problem_of(refused.text, "args")
