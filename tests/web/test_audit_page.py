"""What the pages do is recorded with who, from where and why; and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from tests.chaos.failpoints import clock_ahead_by
from tests.db.audited import make_world
from tests.db.control import Connection
from tests.product.db import AUDIT_WORDS
from tests.product.web import ROUTES, audit_page, singular
from tests.sessions import own_session
from tests.web.conftest import Site
from tests.web.seed import EMOJI_NAME, HOSTILE_NAME, LONG_NAME, RIGHT_TO_LEFT_NAME
from tests.web.tenants import pages_of

FIRE: Final = "2031-05-01 00:00"
STEP: Final = "/runs/{flow}/steps"


class Post(NamedTuple):
    """A form, in the order in which the forms of a world can be sent, and what is recorded."""

    path: str
    recorded: str
    fields: Mapping[str, str] = MappingProxyType({})


# By the name of the route.
POSTS: Final[dict[str, Post]] = {
    "create_schedule": Post(
        "/new-schedule",
        "create schedule new",
        {"name": "new", "spec": "@daily", "handler": "py:work"},
    ),
    "edit_schedule": Post(
        "/schedules/job/save", "edit schedule job", {"spec": "@hourly", "note": "why"}
    ),
    "run_schedule": Post("/schedules/job/run", "run schedule job"),
    "pause_schedule": Post("/schedules/job/pause", "pause schedule job", {"note": "why"}),
    "resume_schedule": Post("/schedules/job/resume", "resume schedule job"),
    "restore_schedule": Post("/schedules/job/restore", "edit schedule job", {"version": "1"}),
    "skip_occurrence": Post(
        "/schedules/job/occurrences/skip", "skip occurrence job", {"fire_time": FIRE}
    ),
    "restore_occurrence": Post(
        "/schedules/job/occurrences/restore", "restore occurrence job", {"fire_time": FIRE}
    ),
    "move_occurrence": Post(
        "/schedules/job/occurrences/move",
        "move occurrence job",
        {"fire_time": FIRE, "due_at": "2031-05-01 07:00"},
    ),
    "edit_occurrence": Post(
        "/schedules/job/occurrences/edit",
        "edit occurrence job",
        {"fire_time": FIRE, "args": '{"a": 1}'},
    ),
    "start_backfill": Post(
        "/schedules/job/backfill",
        "start backfill 2",
        {"since": "2026-01-01", "until": "2026-01-03"},
    ),
    "pause_backfill": Post("/backfills/2/pause", "pause backfill 2"),
    "resume_backfill": Post("/backfills/2/resume", "resume backfill 2"),
    "stop_backfill": Post("/backfills/2/stop", "stop backfill 2", {"note": "why"}),
    "rename_schedule": Post("/schedules/job/rename", "rename schedule job", {"name": "work"}),
    "delete_schedule": Post("/schedules/work/delete", "delete schedule work", {"sure": "yes"}),
    "edit_calendar": Post("/calendars", "edit calendar days", {"name": "days", "content": "sun"}),
    "delete_calendar": Post("/calendars/spare/delete", "delete calendar spare"),
    "redrive_run": Post("/dead/{dead}/redrive", "redrive run {dead}", {"note": "why"}),
    "archive_run": Post("/dead/{last}/archive", "archive run {last}", {"note": "why"}),
    "redrive_runs": Post("/dead/redrive?group=cause 2", "redrive run None"),
    "archive_runs": Post("/dead/archive?group=cause 3", "archive run *", {"note": "why"}),
    "pause_queue": Post("/queues/mail/pause", "pause queue mail", {"note": "why"}),
    "resume_queue": Post("/queues/mail/resume", "resume queue mail"),
    "reset_breaker": Post("/breakers/py:b/reset", "reset breaker py:b"),
    "cordon_node": Post("/nodes/{node}/cordon", "cordon node n1", {"note": "why"}),
    "uncordon_node": Post("/nodes/{node}/uncordon", "uncordon node n1"),
    "cancel_run": Post("/runs/{waiting}/cancel", "cancel run {waiting}", {"note": "why"}),
    "retry_run": Post("/runs/{ended}/retry", "retry run {ended}", {"note": "why"}),
    "pause_run": Post("/runs/{flow}/pause", "pause run {flow}", {"note": "why"}),
    "resume_run": Post("/runs/{flow}/resume", "resume run {flow}"),
    "set_args_step": Post(f"{STEP}/last/args", "set_args step {flow}", {"args": '{"a": 1}'}),
    "clear_step": Post(f"{STEP}/paid/clear", "clear step {flow}", {"note": "why"}),
    "signal_step": Post(f"{STEP}/paid/signal", "signal step {flow}", {"payload": "1"}),
    "approve_step": Post(f"{STEP}/boss/approve", "approve step {flow}", {"note": "why"}),
    "reject_step": Post(f"{STEP}/boss/reject", "reject step {flow}", {"note": "why"}),
    "skip_step": Post(f"{STEP}/boss/skip", "skip step {flow}", {"note": "why"}),
    "succeed_step": Post(f"{STEP}/paid/succeed", "succeed step {flow}", {"note": "why"}),
    "kill_run": Post("/runs/{flow}/kill", "kill run {flow}"),
}
# Its run says who started it.
NOT_RECORDED: Final = {"start_workflow"}
# Tests of logins and tokens look at what they record.
OF_ACCOUNTS: Final = {
    *(each.name for each in ROUTES if each.method == "POST" and each.path.startswith("/account")),
    *("log_in", "log_out"),
}


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    connection = await own_session(database)
    yield connection
    await connection.close()


async def test_each_verb_of_the_pages_is_recorded_once(site: Site, connection: Connection) -> None:
    world = await make_world(connection)
    node = await connection.fetchval("SELECT incarnation FROM pgcron.node WHERE name = 'n1'")
    last = await connection.fetchval("SELECT max(id) FROM pgcron.audit")
    wrong = {}

    for route, post in POSTS.items():
        path = post.path.format(**world, node=node)
        answer = await site.post(path, **post.fields)
        rows = await connection.fetch(
            "SELECT id, actor, interface, address, note, outcome,"
            " concat_ws(' ', verb, kind, coalesce(name, 'None')) AS what FROM pgcron.audit"
            " WHERE id > $1 ORDER BY id",
            last,
        )
        last = max([last, *(row["id"] for row in rows)])
        said = [(row["actor"], row["interface"], row["address"], row["outcome"]) for row in rows]
        what = [row["what"] for row in rows]
        note = post.fields.get("note")
        if (
            answer.status_code != httpx.codes.SEE_OTHER
            or said != [("ui:local", "ui", "127.0.0.1", "done")]
            or not re.fullmatch(post.recorded.format(**world).replace("*", r"\d+"), what[0])
            or (note is not None and rows[0]["note"] != note)
        ):
            wrong[route] = answer.status_code, rows

    assert wrong == {}


async def test_a_refusal_has_the_verb_and_the_kind_of_what_was_not_done(
    database: str, connection: Connection
) -> None:
    world = await make_world(connection)
    node = await connection.fetchval("SELECT incarnation FROM pgcron.node WHERE name = 'n1'")
    wanted = {route: post.recorded.split()[:2] for route, post in POSTS.items()}
    wanted["restore_schedule"] = ["restore", "schedule"]  # when it is done it is an edit
    found: dict[str, list[str]] = {}

    async with pages_of(database) as pages:
        pages.come()
        for route, post in POSTS.items():
            answer = await pages.post(post.path.format(**world, node=node), **post.fields)
            (row,) = await connection.fetch("SELECT * FROM pgcron.audit ORDER BY id DESC LIMIT 1")
            assert (answer.status_code, row["outcome"]) == (httpx.codes.FORBIDDEN, "refused")
            found[route] = [row["verb"], row["kind"]]
            if route == "cordon_node":
                assert row["name"] == "n1"
        await pages.get("/schedules/job/edit")
        await pages.get("/audit")

    assert found == wanted
    read = await connection.fetch(
        "SELECT verb, kind, name FROM pgcron.audit ORDER BY id DESC LIMIT 2"
    )
    assert [tuple(row) for row in read] == [("read", "audit", None), ("read", "schedule", "job")]


def test_each_verb_of_the_pages_has_a_form_here() -> None:
    routes = {route.name for route in ROUTES if route.method == "POST"}

    assert routes == POSTS.keys() | NOT_RECORDED | OF_ACCOUNTS


async def test_each_kind_that_is_recorded_can_be_asked_for(connection: Connection) -> None:
    functions = await connection.fetch(
        r"""SELECT regexp_replace(pg_get_functiondef(p.oid), '\s+', ' ', 'g') AS text FROM pg_proc p
            WHERE p.pronamespace = 'pgcron'::regnamespace AND p.prosrc ~ 'record_audit'"""
    )
    triggers = await connection.fetch(
        "SELECT DISTINCT split_part(encode(t.tgargs, 'escape'), '\\000', 1) AS kind"
        " FROM pg_trigger t WHERE t.tgname IN ('audit_change', 'audit_delete')"
    )
    kinds = {row["kind"] for row in triggers} | {"queue", "calendar", "key", "producer"}
    for row in functions:
        kinds |= set(re.findall(r"record_audit\((?:[^',]|'[^']*')+, '(\w+)',", row["text"]))
    for route in ROUTES:
        if route.permission != "open":
            about = route.path.split("/")[1] if "/{" in route.path else None
            read = singular(about or route.permission.partition(":")[0])
            kinds.add(route.audited[1] if route.audited else read)

    assert sorted(kinds) == sorted(AUDIT_WORDS["kind"])


def names(text: str) -> list[str]:
    """What was done, from top to bottom."""
    rows = re.findall(r'<th scope="row" data-label="What"[^>]*>(.*?)</th>', text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


async def test_filters_choose_what_is_shown(site: Site, connection: Connection) -> None:
    await connection.execute("""
        SELECT pgcron.set_queue('mail', 3, actor => 'anna');
        SELECT pgcron.set_queue('slow', 3, actor => 'bert');
        SELECT pgcron.pause_queue('mail', 'full', actor => 'bert');
        SELECT pgcron.record_audit('pause', 'cluster', NULL, 'eve', outcome => 'refused')""")

    async def found(query: str) -> list[str]:
        return names((await site.get(f"/audit{query}")).text)

    everything = [
        "✕ refused: pause cluster",
        "pause queue mail",
        "set queue slow",
        "set queue mail",
    ]
    assert await found("") == everything
    assert await found("?actor=bert") == everything[1:3]
    assert await found("?name=mail&verb=set") == everything[3:]
    assert await found("?kind=queue&outcome=done&interface=sql&login=postgres") == everything[1:]
    assert await found("?outcome=refused") == everything[:1]
    assert await found("?since=1h&until=2099-01-01") == everything
    assert await found("?until=2001-01-01") == []
    assert "full" in (await site.get("/audit?verb=pause")).text
    for wrong in (
        "outcome=maybe",
        "kind=test",
        "before=yesterday",
        "before=2026-01-01T00:00:00Z~x",
        "who=me",
    ):
        assert (await site.get(f"/audit?{wrong}")).status_code == 400


async def test_ago_is_by_the_clock_of_the_database(
    site: Site, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.execute("SELECT pgcron.set_queue('mail', 3)")
    monkeypatch.setattr(audit_page, "datetime", clock_ahead_by(7200))

    assert names((await site.get("/audit?since=1h")).text) == ["set queue mail"]


async def test_every_row_is_on_one_page(site: Site, connection: Connection) -> None:
    await connection.execute(
        "SELECT pgcron.record_audit('look', 'test', n::text) FROM generate_series(1, 120) n"
    )

    for query in ("", "?actor=postgres"):
        path, found = f"/audit{query}", []
        while path:
            text = (await site.get(path)).text
            found += names(text)
            older = re.search(r'href="([^"]+)" rel="next">Older<', text)
            path = older[1].replace("&amp;", "&") if older else ""
        assert found == [f"look test {number}" for number in range(120, 0, -1)]


@pytest.mark.parametrize("text", [HOSTILE_NAME, RIGHT_TO_LEFT_NAME, EMOJI_NAME, LONG_NAME])
async def test_no_text_of_a_row_becomes_part_of_the_page(
    site: Site, connection: Connection, text: str
) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pgcron.act_as($1::text, $1::text, $1::text)", text)
        for kind in (text, "schedule", "run", "queue"):
            await connection.execute(
                "SELECT pgcron.record_audit($1::text, $2::text, $1::text, note => $1::text,"
                " before => jsonb_build_object($1::text, $1::text),"
                " after => jsonb_build_object($1::text, jsonb_build_object($1::text, $1::text)))",
                text,
                kind,
            )

    for query in ("", *(f"?{field}={quote(text, safe='')}" for field in ("actor", "name", "verb"))):
        page = await site.get(f"/audit{query}")

        assert page.status_code == 200
        assert len(names(page.text)) == 4
        assert "<script>alert" not in page.text
        assert "onerror=" not in page.text


async def test_pages_of_objects_lead_to_what_was_done_to_them(
    site: Site, connection: Connection
) -> None:
    world = await make_world(connection)

    for path in ("/schedules/held", "/queues/slow", f"/runs/{world['dead']}"):
        text = (await site.get(path)).text
        href = re.search(r'href="(/audit\?[^"]+)">Audit<', text)
        assert href is not None, path
        listed = await site.get(href[1].replace("&amp;", "&"))
        assert listed.status_code == 200
    assert names((await site.get("/audit?name=slow")).text) == ["pause queue slow"]
    assert 'href="/queues/slow"' in (await site.get("/audit?name=slow")).text
