"""What a person with a role for one team sees of another: nothing, in names, counts and errors."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from difflib import unified_diff
from itertools import count

import httpx
import pytest

from tests.house.checkout import ROOT
from tests.product.db import NEWEST, every_variant, load
from tests.product.model import OF_THE_CLUSTER, OWN_ACCOUNT, Grant
from tests.product.web import ROUTES
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.web.tenants import (
    FOREIGN,
    OWN,
    SHARED,
    Pages,
    Tenant,
    add_node,
    add_tenant,
    pages_of,
    said,
)

_numbers = count(1)
SCOPES = {
    "team": [Grant("viewer", "team", OWN)],
    "queue": [Grant("viewer", "queue", f"{OWN}-*")],
    "tag": [Grant("viewer", "tag", f"{OWN}-tag")],
    "schedule": [Grant("viewer", "schedule", f"{OWN}-*")],
    "handler": [Grant("viewer", "handler", f"py:{OWN}.*")],
    "all kinds": [
        Grant("editor", "team", OWN),
        Grant("viewer", "handler", f"workflow:{OWN}-*"),
        Grant("viewer", "handler", f"py:{OWN}.*"),
    ],
}
# Filters by the other team's names, and by what both have.
ASKED = (
    "/?attention=all",
    "/runs?state=dead",
    "/runs?state=attention",
    "/runs?state=running",
    "/runs?state=waiting",
    "/runs?state=ended",
    "/runs?node=berlin-1",
    "/runs?error=wrong",
    "/schedules?health=failing",
    "/schedules?health=late",
    "/schedules?health=invalid",
    "/schedules?state=paused",
    "/schedules?text=nightly",
    "/workflows?text=flow",
    "/dead?state=all",
    "/dead?state=archived",
    "/backfills?state=open",
)
NAMED = (
    "/runs?schedule={}-nightly",
    "/runs?handler=py:{}.report",
    "/runs?queue={}-mail",
    "/runs?tag={}-tag",
    "/runs?find={}-key",
    "/runs?find={}-unique",
    "/schedules?text={}",
    "/schedules?owner={}",
    "/schedules?tag={}-tag",
    "/schedules?queue={}-mail",
    "/dead?handler=py:{}.fails",
    "/dead?group={}1",
    "/dead?state=all&schedule={}-failing",
    "/backfills?schedule={}-nightly",
    "/workflows?text={}",
    "/new-schedule?copy={}-nightly",
    "/schedules/{}-nightly",
    "/schedules/{}-nightly/occurrences?at=03:00",
    "/schedules/{}-nightly/versions",
    "/schedules/{}-nightly/edit",
    "/queues/{}-mail",
    "/calendars/{}-days",
    "/workflows/{}-flow",
)


# Of one object whose page was authorized, of rows that another statement has chosen, or that the
# cluster is paused, which all may know.
OF_ONE = """
    list_attempts page_cluster page_history_start page_item_counts page_last_lines page_ledger_end
    page_longest_steps page_occurrences page_run_letter page_step page_step_counts page_step_groups
    page_steps page_timeline_runs page_workflow page_workflow_cells page_workflow_graph
    page_workflow_nodes page_workflow_run runs_of_ids waits_of_runs
"""


def test_each_statement_of_a_list_asks_for_the_scope() -> None:
    files = (ROOT / "pgcron_ha/db/sql").glob("pages_*.sql")
    of_pages = {name for path in files for name in re.findall(r"-- name: (\w+)", path.read_text())}
    open_ones = [
        each.name for each in every_variant() if each.name in of_pages and not each.scoped_sql
    ]

    assert sorted(open_ones) == OF_ONE.split()


def test_others_send_their_statements_without_a_scope() -> None:
    for each in every_variant():
        # reached asks it of the editor's scopes, whatever the viewer's are
        assert each.name == "reached" or not re.search(r"\w*in_scope\(", each.sql), each.name
        assert each.parameters == tuple(dict.fromkeys(each.parameters))


async def test_statements_with_a_scope_prepare_as_those_without(database: str) -> None:
    connection = await own_session(database)
    for each in load(revision=NEWEST).values():
        if not each.scoped_sql:
            continue
        number = len(each.parameters) + 1
        asked = each.scoped_sql.count("in_scope(")
        assert each.scoped_sql.count(f", scopes => ${number}::text[])") == asked > 0, each.name
        one, scoped = [await connection.prepare(sql) for sql in (each.sql, each.scoped_sql)]
        assert [p.name for p in scoped.get_parameters()[-1:]] == ["text[]"], each.name
        assert one.get_parameters() == scoped.get_parameters()[:-1], each.name
        columns = [[(c.name, c.type.name) for c in s.get_attributes()] for s in (one, scoped)]
        assert columns[0] == columns[1], each.name
    await connection.close()


@pytest.fixture
async def alone_and_both(
    server: ThrowAwayServer, template: str
) -> AsyncIterator[tuple[Pages, Pages, Tenant, Tenant]]:
    """The pages of a cluster with one team, and those of its copy to which another came."""
    names = [f"scopes_{os.getpid()}_{next(_numbers)}" for _ in range(2)]
    alone = server.create_database(names[0], template)
    await add_node(alone)
    own = await add_tenant(alone, OWN)
    both = server.create_database(names[1], names[0])
    foreign = await add_tenant(both, FOREIGN)
    async with pages_of(alone) as one, pages_of(both) as other:
        yield one, other, own, foreign
    for name in names:
        server.drop_database(name)


def paths(tenant: Tenant) -> Iterator[str]:
    """The pages that are read, of this team, but for those of the cluster."""
    for route in ROUTES:
        is_read = route.method == "GET" and route.permission not in {"open", *OWN_ACCOUNT}
        if is_read and route.permission not in OF_THE_CLUSTER:
            yield tenant.path(route.path)
    yield from ASKED
    yield from (path.format(tenant.name) for path in NAMED)
    yield from (f"/runs/{run}" for run in (tenant.running, tenant.ended, tenant.dead, tenant.flow))
    yield f"/runs/{tenant.ended}/log"


def require_same(one: httpx.Response, other: httpx.Response) -> None:
    """Two answers of one path say the same."""
    first, second = [[str(each.status_code), *said(each.text)] for each in (one, other)]
    lines = list(unified_diff(first, second, lineterm="", n=0))
    assert not lines, "\n".join([str(one.url), *lines])


@pytest.mark.parametrize("kind", SCOPES)
async def test_pages_say_what_they_say_without_the_other_team(
    alone_and_both: tuple[Pages, Pages, Tenant, Tenant], kind: str
) -> None:
    alone, both, own, _ = alone_and_both
    for pages in (alone, both):
        pages.come(*SCOPES[kind])
    seen = 0
    for path in paths(own):
        one, other = await alone.get(path), await both.get(path)
        assert FOREIGN not in other.text, path
        require_same(one, other)
        seen += OWN in other.text
    assert seen > 10


@pytest.mark.parametrize("kind", SCOPES)
async def test_what_belongs_to_others_is_as_if_it_did_not_exist(
    alone_and_both: tuple[Pages, Pages, Tenant, Tenant], kind: str
) -> None:
    alone, both, _, foreign = alone_and_both
    for pages in (alone, both):
        pages.come(*SCOPES[kind])
    for path in paths(foreign):
        one, other = await alone.get(path), await both.get(path)
        require_same(one, other)


@pytest.mark.parametrize("kind", SCOPES)
async def test_verbs_on_what_belongs_to_others_answer_as_if_it_did_not_exist(
    alone_and_both: tuple[Pages, Pages, Tenant, Tenant], kind: str
) -> None:
    alone, both, _, foreign = alone_and_both
    for pages in (alone, both):
        pages.come(*(Grant("editor", one.scope_kind, one.scope) for one in SCOPES[kind]))
    for route in ROUTES:
        is_open = route.permission in {"open", *OWN_ACCOUNT}
        if route.method == "POST" and "{" in route.path and not is_open:
            path = foreign.path(route.path)
            one, other = await alone.post(path), await both.post(path)
            assert one.status_code in (403, 404), path
            require_same(one, other)


@pytest.mark.parametrize("kind", ["team", "queue", "handler", "everything", "nothing of it"])
async def test_a_team_sees_its_producers_and_their_limits(
    alone_and_both: tuple[Pages, Pages, Tenant, Tenant], kind: str
) -> None:
    _, both, _, _ = alone_and_both
    grants = {"everything": [Grant("viewer")], "nothing of it": [Grant("viewer", "team", "x")]}
    both.come(*(grants | SCOPES)[kind])
    rows = producers((await both.get("/queues")).text)

    own, foreign = [f"py:{team}.report into {team}-mail" for team in (OWN, FOREIGN)]
    limits = "backlog up to 700, weight up to 1, priority 5 to 9, args up to 256 KiB"
    of_own = [f"{SHARED} {own} {limits}", f"{OWN}-shop {own} {limits}"]
    of_all = [
        f"{FOREIGN}-shop {foreign} {limits}",
        f"{SHARED} {foreign}, {own} {limits}",
        of_own[1],
    ]
    assert rows == {"everything": of_all, "nothing of it": []}.get(kind, of_own)


async def test_a_producer_of_a_team_is_seen_by_it_alone_with_all_that_it_may(database: str) -> None:
    await add_node(database)
    await add_tenant(database, OWN)
    connection = await own_session(database)
    await connection.execute(f"""
        SELECT pgcron.confine_producer('{OWN}-shop', '{{other,*}}', '{{*}}', largest_log => 4096);
        SELECT pgcron.set_team('queue', 'other', 'others')""")
    await connection.close()
    async with pages_of(database) as pages:
        pages.come(Grant("viewer", "team", OWN))
        own = producers((await pages.get("/queues")).text)
        pages.come(Grant("viewer", "team", "others"))
        others = producers((await pages.get("/queues")).text)

    mine = f"* into *, * into other, py:{OWN}.report into {OWN}-mail"
    limits = "backlog up to 700, weight up to 1, priority 5 to 9, args up to 256 KiB"
    assert own[1:] == [f"{OWN}-shop {mine} {limits}, log of an attempt up to 4.0 KiB"]
    assert others == [f"{OWN}-shop * into other {limits}, log of an attempt up to 4.0 KiB"]


def producers(page: str) -> list[str]:
    """What the page of the queues says of each."""
    table = page.partition('<section id="producers"')[2].partition("</section>")[0]
    rows = table.partition("<tbody")[2].split("<tr")[1:]
    return [" ".join(re.sub(r"<[^>]*>", " ", f"<tr{row}").split()) for row in rows]


@pytest.mark.parametrize("path", ["/nodes", "/storage", "/metrics", "/statusz"])
async def test_pages_of_the_cluster_are_for_roles_for_everything(
    alone_and_both: tuple[Pages, Pages, Tenant, Tenant], path: str
) -> None:
    _, both, _, _ = alone_and_both
    both.come(*SCOPES["all kinds"], Grant("admin", "team", OWN))
    answer = await both.get(path)

    assert answer.status_code == 403
    assert "Only a role for everything gives it." in answer.text
    assert FOREIGN not in answer.text


async def test_the_newest_runs_come_first_however_the_server_finds_their_teams(
    database: str,
) -> None:
    connection = await own_session(database)
    await connection.execute(f"""
        SELECT pgcron.put_schedule('{OWN}-' || n, '@yearly', 'py:a', owner => '{OWN}')
        FROM generate_series(1, 30) n;
        INSERT INTO pgcron.history (id, due_at, created_at, finished_at, handler, queue,
          schedule_id, schedule, origin, args, delivery, priority, outcome, attempt, created_by)
        SELECT n, now(), now(), now(), 'py:a', 'default', s.id, s.name, 'manual', '{{}}',
               'at_least_once', 5, 'succeeded', 1, 'ana'
        FROM generate_series(1, 3000) n
        JOIN (SELECT id, name, row_number() OVER () AS place FROM pgcron.schedule) s
          ON s.place = n % 30 + 1;
    """)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET enable_nestloop = off')
    await connection.close()

    async with pages_of(database) as pages:
        pages.come(Grant("viewer", "team", OWN))
        page = await pages.get("/runs?state=ended")

    shown = [int(number) for number in re.findall(r'href="/runs/(\d+)"', page.text)]
    assert list(dict.fromkeys(shown))[:20] == list(range(3000, 2980, -1))
