"""Every route, as every role, within its scope and beyond it; the table of permissions."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from tests.house.checkout import ROOT
from tests.product.model import OF_THE_CLUSTER, OWN_ACCOUNT, ROLE_OF, ROLES, Grant
from tests.product.web import ROUTES, WebRoute
from tests.sessions import own_session
from tests.web.tenants import (
    FOREIGN,
    OWN,
    Pages,
    Tenant,
    add_node,
    add_tenant,
    pages_of,
    rows_of_all,
    scoped,
)

RANKS = list(ROLES)
GUARDED = [route for route in ROUTES if route.permission not in {"open", *OWN_ACCOUNT}]
REFUSED, NO_SUCH = HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND
# What the form of a verb has, {team} for the team it is about; a verb without fields has none.
FORMS = {
    "create_schedule": {
        "name": "{team}-new",
        "spec": "0 4 * * *",
        "handler": "py:{team}.report",
        "queue": "{team}-mail",
        "owner": "{team}",
    },
    "edit_calendar": {"name": "{team}-days", "content": "yearly 12-26"},
    "rename_schedule": {"name": "{team}-renamed"},
    "delete_schedule": {"sure": "yes"},
    "edit_schedule": {"description": "by another"},
    "restore_schedule": {"version": "1"},
    "start_backfill": {"since": "2026-01-01"},
    "skip_occurrence": {"fire_time": "2030-01-01 03:00"},
    "move_occurrence": {"fire_time": "2030-01-02 03:00", "due_at": "2030-01-02 04:00"},
    "edit_occurrence": {"fire_time": "2030-01-03 03:00", "args": "{{}}"},
    "restore_occurrence": {"fire_time": "2030-01-01 03:00"},
    "set_args_step": {"args": "{{}}"},
}
ADDRESSES = dict.fromkeys(("redrive_runs", "archive_runs"), "?handler=py:{team}.fails")
# They leave nothing for the others.
LAST = ["succeed_step", "rename_schedule", "delete_schedule", "delete_calendar"]


@dataclass(frozen=True)
class Cluster:
    pages: Pages
    dsn: str
    own: Tenant
    foreign: Tenant

    async def send(self, route: WebRoute, tenant: Tenant) -> int:
        """Opens the route of an object of the tenant; the status."""
        path = tenant.path(route.path)
        if route.name == "delete_schedule":
            path = path.replace("-nightly", "-paused")
        path += ADDRESSES.get(route.name, "").format(team=tenant.name)
        if route.method == "GET":
            return (await self.pages.get(path)).status_code
        form = FORMS.get(route.name, {})
        fields = {key: value.format(team=tenant.name) for key, value in form.items()}
        return (await self.pages.post(path, **fields)).status_code


@pytest.fixture
async def cluster(database: str) -> AsyncIterator[Cluster]:
    await add_node(database)
    own, foreign = [await add_tenant(database, team) for team in (OWN, FOREIGN)]
    async with pages_of(database) as pages:
        yield Cluster(pages, database, own, foreign)


def test_every_route_needs_a_permission_that_one_role_gives() -> None:
    listed = [name for names in ROLES.values() for name in names]

    assert len(set(listed)) == len(listed)
    assert {route.permission for route in GUARDED} <= set(listed)
    assert {route.name for route in ROUTES if route.permission == "open"} == {
        *("docs", "document", "livez", "readyz", "startupz", "static", "enter", "login"),
        *("log_in", "log_out", "login_by_provider", "provider_callback"),
    }


def test_the_page_about_roles_has_the_table() -> None:
    text = (ROOT / "docs/how-to/roles.md").read_text()

    for role, permissions in ROLES.items():
        assert f"| {role} | {', '.join(permissions)} |" in text
    assert all(f"`{permission}`" in text for permission in OF_THE_CLUSTER)


def test_no_verb_is_sent_with_the_permission_to_read() -> None:
    verbs = [route for route in GUARDED if route.method == "POST"]

    assert [route.name for route in verbs if ROLE_OF[route.permission] == "viewer"] == []


def of_object(route: WebRoute) -> bool:
    return "{" in route.path


def in_order(routes: list[WebRoute]) -> list[WebRoute]:
    return sorted(routes, key=lambda each: LAST.index(each.name) if each.name in LAST else -1)


@pytest.mark.parametrize("role", RANKS)
async def test_a_role_within_a_scope(cluster: Cluster, role: str) -> None:
    cluster.pages.come(*scoped(role))
    before = await rows_of_all(cluster.dsn)
    found: dict[tuple[str, str], int] = {}
    wanted: dict[tuple[str, str], int] = {}
    for route in GUARDED:  # what is not allowed
        is_held = RANKS.index(role) >= RANKS.index(ROLE_OF[route.permission])
        is_held &= route.permission not in OF_THE_CLUSTER
        if of_object(route):
            status = REFUSED if not is_held and not is_reachable(route, role) else NO_SUCH
            wanted[route.name, FOREIGN] = status
        elif route.method == "POST" and route.name not in ADDRESSES:
            wanted[route.name, FOREIGN] = REFUSED
        if (route.name, FOREIGN) in wanted:
            found[route.name, FOREIGN] = await cluster.send(route, cluster.foreign)
        if not is_held:
            wanted[route.name, OWN] = REFUSED
            found[route.name, OWN] = await cluster.send(route, cluster.own)
    for name in ADDRESSES:  # of a cause of others there are no letters
        route = next(each for each in GUARDED if each.name == name)
        await cluster.send(route, cluster.foreign)
    assert found == wanted
    assert await rows_of_all(cluster.dsn) == before

    refused = []
    for route in in_order(GUARDED):
        if (route.name, OWN) not in wanted:
            answer = await cluster.send(route, cluster.own)
            if answer not in (HTTPStatus.OK, HTTPStatus.SEE_OTHER, HTTPStatus.CONFLICT):
                refused.append((route.name, answer))
    assert refused == []
    after = await rows_of_all(cluster.dsn)
    foreign = [line for text in before.values() for line in lines_of(text)]
    assert foreign
    assert set(foreign) <= {line for text in after.values() for line in lines_of(text)}


def is_reachable(route: WebRoute, role: str) -> bool:
    """Whether the role opens the route anywhere, so that an object decides."""
    return (
        RANKS.index(role) >= RANKS.index(ROLE_OF[route.permission])
        and route.permission not in OF_THE_CLUSTER
    )


def lines_of(text: str | None) -> list[str]:
    """Rows of the foreign team."""
    return [line for line in (text or "").split("\n") if FOREIGN in line]


@pytest.mark.parametrize("role", RANKS)
async def test_a_viewer_of_everything_has_a_role_for_one_team(cluster: Cluster, role: str) -> None:
    cluster.pages.come(Grant("viewer"), *scoped(role))
    before = await rows_of_all(cluster.dsn)
    for route in GUARDED:
        if of_object(route) and "{incarnation}" not in route.path:
            is_read = ROLE_OF[route.permission] == "viewer"
            status = await cluster.send(route, cluster.foreign)
            assert status == (HTTPStatus.OK if is_read else REFUSED), route.name
    assert await rows_of_all(cluster.dsn) == before


@pytest.mark.parametrize("role", RANKS)
async def test_a_role_for_everything(cluster: Cluster, role: str) -> None:
    cluster.pages.come(Grant(role))
    for route in in_order(GUARDED):
        is_held = RANKS.index(role) >= RANKS.index(ROLE_OF[route.permission])
        status = await cluster.send(route, cluster.foreign)
        if "{incarnation}" in route.path and is_held:
            assert status == NO_SUCH
        else:
            assert (status == REFUSED) is not is_held, (route.name, status)


async def test_who_has_no_role_opens_nothing(cluster: Cluster) -> None:
    cluster.pages.come()
    for route in GUARDED:
        for tenant in (cluster.own, cluster.foreign):
            assert await cluster.send(route, tenant) == REFUSED, route.name
    assert "you have no role yet" in (await cluster.pages.get("/")).text


async def test_what_was_refused_is_in_the_audit(cluster: Cluster) -> None:
    cluster.pages.come(*scoped("viewer"))
    answer = await cluster.pages.post(f"/schedules/{OWN}-nightly/pause")

    assert answer.status_code == REFUSED
    assert "it needs the permission schedules:pause for schedule zebra-nightly" in answer.text
    assert "None of your roles gives it." in answer.text
    connection = await own_session(cluster.dsn)
    kept = await connection.fetchrow("SELECT * FROM pgcron.audit WHERE outcome = 'refused'")
    await connection.close()
    assert kept is not None
    assert [kept[name] for name in ("verb", "kind", "name", "actor", "interface", "address")] == [
        "pause",
        "schedule",
        "zebra-nightly",
        "ui:me",
        "ui",
        "127.0.0.1",
    ]


async def test_an_attempt_beyond_the_scope_is_in_the_audit_and_reveals_nothing(
    cluster: Cluster,
) -> None:
    cluster.pages.come(*scoped("operator"))
    paths = [f"/schedules/{FOREIGN}-nightly/run", f"/queues/{FOREIGN}-mail/pause"]
    for path in (*paths, f"/runs/{cluster.foreign.waiting}/cancel", "/schedules/nobody/run"):
        answer = await cluster.pages.post(path)
        assert answer.status_code == NO_SUCH
        assert "Or it is none of those that your roles are for." in answer.text
    await cluster.pages.get(f"/schedules/{FOREIGN}-nightly")

    connection = await own_session(cluster.dsn)
    kept = await connection.fetch(
        "SELECT verb, kind, name, actor FROM pgcron.audit WHERE outcome = 'refused' ORDER BY id"
    )
    await connection.close()
    assert [tuple(row) for row in kept] == [
        ("run", "schedule", f"{FOREIGN}-nightly", "ui:me"),
        ("pause", "queue", f"{FOREIGN}-mail", "ui:me"),
        ("cancel", "run", str(cluster.foreign.waiting), "ui:me"),
    ]


async def test_who_has_a_scope_sees_no_nodes_on_the_overview(cluster: Cluster) -> None:
    cluster.pages.come(*scoped("operator"))
    scoped_page = (await cluster.pages.get("/")).text
    cluster.pages.come(Grant("viewer"))
    page = (await cluster.pages.get("/")).text

    for word in ("berlin-1", "slots used", "Nodes and their leases"):
        assert word in page
        assert word not in scoped_page
    for path in ("/queues", f"/queues/{OWN}-mail"):
        page = (await cluster.pages.get(path)).text
        assert 'href="/nodes?queue=' in page
        assert re.search(r"\d of \d+ slots free", page)
    cluster.pages.come(*scoped("operator"), Grant("operator", "queue", f"{OWN}-*"))
    for path in ("/queues", f"/queues/{OWN}-mail"):
        page = (await cluster.pages.get(path)).text
        assert "1 node" in page
        assert 'href=""' not in page
        assert "slots free" not in page


async def test_a_queue_of_which_only_some_runs_are_in_scope_has_no_page_and_no_link(
    cluster: Cluster,
) -> None:
    page = f"/queues/{OWN}-mail"
    for grant, status in (
        (Grant("viewer", "tag", f"{OWN}-tag"), NO_SUCH),
        (Grant("viewer", "queue", f"{OWN}-mail"), HTTPStatus.OK),
    ):
        cluster.pages.come(grant)
        assert (await cluster.pages.get(page)).status_code == status
        for path in ("/", "/queues"):
            text = (await cluster.pages.get(path)).text
            assert (f'href="{page}"' in text) is (status == HTTPStatus.OK)
            assert (f"{OWN}-mail" in text) is (path == "/" or status == HTTPStatus.OK)


@pytest.mark.parametrize(
    ("field", "value"),
    [("queue", f"{FOREIGN}-mail"), ("owner", FOREIGN), ("handler", f"py:{FOREIGN}.report")],
)
async def test_nobody_edits_a_schedule_out_of_his_scope(
    cluster: Cluster, field: str, value: str
) -> None:
    kinds = {"queue": ("queue", f"{OWN}-mail"), "owner": ("team", OWN)}
    kinds["handler"] = ("handler", f"py:{OWN}.*")
    cluster.pages.come(Grant("editor", *kinds[field]))

    answer = await cluster.pages.post(f"/schedules/{OWN}-nightly/save", **{field: value})
    assert answer.status_code == REFUSED, answer.text
    assert "is, or would be, outside of your scope" in answer.text
    page = (await cluster.pages.get(f"/schedules/{OWN}-nightly")).text
    assert FOREIGN not in page


async def test_nobody_renames_a_schedule_out_of_his_scope(cluster: Cluster) -> None:
    cluster.pages.come(Grant("editor", "schedule", f"{OWN}-*"))

    path = f"/schedules/{OWN}-nightly/rename"
    assert (await cluster.pages.post(path, name="mine")).status_code == REFUSED
    assert (await cluster.pages.post(path, name=f"{OWN}-other")).status_code == HTTPStatus.SEE_OTHER


async def test_a_calendar_belongs_to_the_team_that_made_it(cluster: Cluster) -> None:
    cluster.pages.come(Grant("editor", "team", OWN))
    cluster.pages.come(Grant("editor", "team", FOREIGN), person="other")
    fields = {"name": "closed", "content": "yearly 01-01"}

    assert (await cluster.pages.post("/calendars", **fields)).status_code == HTTPStatus.SEE_OTHER
    assert (await cluster.pages.get("/calendars/closed")).status_code == HTTPStatus.OK
    assert (await cluster.pages.get("/calendars/closed", "other")).status_code == NO_SUCH
    assert (await cluster.pages.post("/calendars", "other", **fields)).status_code == REFUSED
    schedule = {
        "name": "uses",
        "spec": "0 4 * * *\nnot in closed",
        "handler": "py:known",
        "owner": FOREIGN,
    }
    answer = await cluster.pages.post("/new-schedule", "other", **schedule)
    assert "calendar &#34;closed&#34; is not known" in answer.text
    assert OWN not in answer.text


@pytest.mark.parametrize("team", ["back_office", "a\\b", "50% club"])
async def test_a_team_of_any_name_makes_calendars(cluster: Cluster, team: str) -> None:
    cluster.pages.come(Grant("editor", "team", team))
    fields = {"name": "closed", "content": "yearly 01-01"}

    for _ in range(2):
        answer = await cluster.pages.post("/calendars", **fields)
        assert answer.status_code == HTTPStatus.SEE_OTHER, answer.text
    connection = await own_session(cluster.dsn)
    owner = "SELECT team FROM pgcron.owned WHERE (kind, name) = ('calendar', 'closed')"
    assert await connection.fetchval(owner) == team
    await connection.close()


async def test_a_calendar_of_no_team_is_changed_by_editors_of_everything(cluster: Cluster) -> None:
    cluster.pages.come(Grant("editor", "team", OWN))
    cluster.pages.come(Grant("viewer", "team", FOREIGN), person="other")
    cluster.pages.come(Grant("editor"), person="all")
    cluster.pages.come(Grant("viewer"), Grant("editor", "team", OWN), person="part")
    connection = await own_session(cluster.dsn)
    await connection.execute("SELECT pgcron.put_calendar('holidays', 'yearly 12-25')")
    content = "SELECT content FROM pgcron.calendars WHERE name = 'holidays'"
    fields = {"name": "holidays", "content": "yearly 01-01"}

    answer = await cluster.pages.post("/calendars", **fields)
    assert answer.status_code == REFUSED, answer.text
    assert "calendar &#39;holidays&#39; is, or would be, outside of your scope" in answer.text
    assert "yearly 01-01</textarea>" in answer.text
    refused = "SELECT actor FROM pgcron.audit WHERE (verb, outcome) = ('edit', 'refused')"
    assert await connection.fetchval(refused) == "ui:me"
    assert await connection.fetchval(content) == "yearly 12-25"
    answer = await cluster.pages.post("/calendars", "all", **fields)
    assert answer.status_code == HTTPStatus.SEE_OTHER
    assert await connection.fetchval(content) == "yearly 01-01"
    assert (await cluster.pages.get("/calendars/holidays", "other")).status_code == HTTPStatus.OK
    for verb in ("Save", "Delete"):
        disabled = f"<button[^>]* disabled [^>]*>{verb}</button>"
        for person in ("me", "other", "part", "all"):
            page = (await cluster.pages.get("/calendars/holidays", person)).text
            assert bool(re.search(disabled, page)) is (person != "all"), (verb, person)
    await connection.close()


async def test_a_team_changes_its_calendar_whoever_uses_it(cluster: Cluster) -> None:
    cluster.pages.come(Grant("editor", "team", OWN))
    connection = await own_session(cluster.dsn)
    spec = f"0 4 * * *\nnot in {OWN}-days"
    await connection.execute(
        "SELECT pgcron.put_schedule('theirs', $1, 'py:x', owner => $2)", spec, FOREIGN
    )

    answer = await cluster.pages.post("/calendars", name=f"{OWN}-days", content="yearly 01-01")
    assert answer.status_code == HTTPStatus.SEE_OTHER, answer.text
    used = "SELECT calendars ->> $1 FROM pgcron.schedule WHERE name = 'theirs'"
    assert await connection.fetchval(used, f"{OWN}-days") == "yearly 01-01"
    async with connection.transaction():  # within the scopes of its transaction all the while
        await connection.execute(f"SELECT set_config('pgcron_ha.scopes', '{{team:{OWN}}}', true)")
        await connection.execute(f"SELECT pgcron.put_calendar('{OWN}-days', 'sat')")
        assert await connection.fetchval("SELECT pgcron.scopes()") == [f"team:{OWN}"]
    await connection.close()


async def test_buttons_of_what_may_not_be_done_are_disabled(cluster: Cluster) -> None:
    cluster.pages.come(Grant("viewer"), *scoped("operator"))

    own = (await cluster.pages.get(f"/schedules/{OWN}-nightly")).text
    foreign = (await cluster.pages.get(f"/schedules/{FOREIGN}-nightly")).text
    assert f'action="/schedules/{OWN}-nightly/run"' in own
    assert f'action="/schedules/{OWN}-nightly/rename"' not in own
    assert 'method="post"' not in foreign
    for verb in ("Run now", "Pause", "Edit", "Copy", "Rename", "Delete", "Backfill", "Skip"):
        assert re.search(f"<button[^>]* disabled [^>]*>{verb}</button>", foreign), verb


async def test_a_form_that_may_not_be_sent_has_disabled_buttons(cluster: Cluster) -> None:
    cluster.pages.come(Grant("viewer"))

    for path, verb in ((f"/schedules/{OWN}-nightly/edit", "Save"), ("/new-schedule", "Create")):
        page = (await cluster.pages.get(path)).text
        assert 'method="post"' not in page
        assert 'name="do"' not in page
        assert re.search(f"<button[^>]* disabled [^>]*>{verb}</button>", page)
        assert "Your roles do not let you do this here." in page
    cluster.pages.come(Grant("editor"))
    assert 'method="post"' in (await cluster.pages.get("/new-schedule")).text
