"""What an administrator of everything who has logged in can't do: shown by trying."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from pgcron_ha import App
from tests.db.audited import make_world
from tests.db.control import Connection
from tests.db.roles import verdicts
from tests.pooler import straight
from tests.product.cli import granting
from tests.product.config import load_settings, read_sources
from tests.product.engine import Node
from tests.servers import USER
from tests.sessions import own_session
from tests.waiting import until
from tests.web.login_sites import PASSWORD, Login, Visitor
from tests.web.test_audit_page import POSTS

# All that pages with login need, in one role.
PARTS = ("viewer", "auditor", "operator", "scheduler", "login")
# Who may do what, and how long records are kept.
OF_POWER = (
    *("pgcron.web_user", "pgcron.role_grant", "pgcron.api_token", "pgcron.owned"),
    *("pgcron.producer", "pgcron.retention", "pgcron.retention_rule"),
    *("pg_catalog.pg_roles", "pg_catalog.pg_auth_members"),
)
RECORDS = ("pgcron.audit", "pgcron.history")
NO_PAGE = (
    *("/users", "/users/eve", "/roles", "/roles/grant", "/groups", "/producers", "/tokens"),
    *("/audit", "/audit/1", "/history", "/occurrences", "/runs", "/runs/1", "/runs/1/log"),
    *("/account", "/account/roles", "/storage", "/schedules/held/occurrences", "/handlers"),
)
NO_TOKEN = ({"role": "owner"}, {"owner": "bob"}, {"days": "366"}, {"scopes": "schema:pgcron"})
NOT_BY_THE_ROLE = (
    "INSERT INTO pgcron.audit (actor, interface, verb, kind) VALUES ('a', 'b', 'c', 'd')",
    "UPDATE pgcron.audit SET actor = 'bob'",
    "DELETE FROM pgcron.audit",
    "TRUNCATE pgcron.audit",
    "SELECT pgcron.record_audit('a', 'b', 'c')",
    "INSERT INTO pgcron.history SELECT * FROM pgcron.history",
    "UPDATE pgcron.history SET outcome = 'succeeded'",
    "DELETE FROM pgcron.history",
    "TRUNCATE pgcron.history",
    "UPDATE pgcron.occurrence SET reason = 'none'",
    "SELECT pgcron.set_table_retention('audit', '1 day')",
    "ALTER TABLE pgcron.audit DISABLE TRIGGER ALL",
    "SELECT pgcron.add_user('eve', NULL, 'admin')",
    "SELECT pgcron.remove_user('bob')",
    "SELECT pgcron.grant_role('user', 'bob', 'admin')",
    "INSERT INTO pgcron.role_grant (subject_kind, subject, role) VALUES ('user', 'bob', 'admin')",
    "SELECT pgcron.confine_producer(session_user::text)",
    "INSERT INTO pgcron.offer SELECT * FROM pgcron.offer",
    "UPDATE pgcron.node SET queues = '{}'",
    "CREATE ROLE eve",
    f"SET ROLE {USER}",
)

app = App()


@app.handler()
async def offered() -> None:
    pass


@pytest.fixture
async def pages_dsn(database: str, connection: Connection) -> AsyncIterator[str]:
    """Of a role that has what pages need."""
    role = f"pages_of_{urlsplit(database).path[1:]}"
    await connection.execute(f"CREATE ROLE {role} LOGIN")
    for part in PARTS:
        await connection.execute(granting(part, role))
    yield urlsplit(straight(database))._replace(netloc=f"{role}@").geturl()
    await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@asynccontextmanager
async def working_node(dsn: str, folder: Path) -> AsyncIterator[None]:
    """A real one, which offers one handler."""
    flags = {"dsn": dsn, "node.name": "real", "node.state_directory": str(folder)}
    node = Node(load_settings(read_sources(environment={}, flags=flags)), [app], "0")
    running = asyncio.create_task(node.run())
    try:
        yield
    finally:
        node.stop()
        await running


async def runs_only_what_is_offered(admin: Visitor, connection: Connection) -> None:
    """Of what he defines, edits and runs, what no node offers waits."""
    for name, handler in (("a", "shell:id"), ("b", "py:offered"), ("c", "py:offered")):
        made = await admin.post("/new-schedule", name=name, spec="@yearly", handler=handler)
        assert made.is_redirect, made.text
    assert (await admin.post("/schedules/b/save", handler="sql:drop")).is_redirect
    assert (await admin.post("/workflows/mine/start")).status_code == HTTPStatus.NOT_FOUND
    for name in "abc":
        assert (await admin.post(f"/schedules/{name}/run")).is_redirect

    async def looked_at() -> dict[str, asyncpg.Record] | None:
        rows = await connection.fetch("SELECT * FROM pgcron.runs WHERE origin = 'manual'")
        is_over = {row["state"] for row in rows} == {"blocked", "succeeded"}
        return {row["handler"]: row for row in rows} if is_over else None

    found = await until("one has run, and the others wait for a node", looked_at)
    assert found is not None
    assert found.keys() == {"shell:id", "sql:drop", "py:offered"}
    assert found["py:offered"]["state"] == "succeeded"
    for handler in ("shell:id", "sql:drop"):
        waiting = found[handler]
        assert (waiting["waits_for"], waiting["attempt"]) == ("no_node", 0)
        page = unescape((await admin.get(f"/runs/{waiting['id']}")).text)
        assert f"no live node offers '{handler}' for queue 'default'" in page


async def rows_of(connection: Connection, tables: tuple[str, ...]) -> dict[str, set[str]]:
    found = {}
    for table in tables:
        rows = await connection.fetch(f"SELECT t::text AS text FROM {table} t")
        found[table] = {row["text"] for row in rows}
    return found


async def gains_nothing_by_a_page(admin: Visitor, connection: Connection, token: str) -> None:
    """He sends every form that there is, and many that there are not."""
    world = await make_world(connection)
    node = await connection.fetchval("SELECT incarnation FROM pgcron.node WHERE name = 'n1'")
    power, records = [await rows_of(connection, tables) for tables in (OF_POWER, RECORDS)]

    for post in POSTS.values():
        done = await admin.post(post.path.format(**world, node=node), **post.fields)
        assert done.is_redirect, (post.path, done.text)
    for path in NO_PAGE:
        assert (await admin.post(path, name="eve", role="admin")).status_code in (404, 405), path
        for method in ("PUT", "PATCH", "DELETE"):
            assert (await admin.client.request(method, path)).status_code == 405, path
    for more in NO_TOKEN:
        given = {"name": "more", "role": "admin", **more}
        assert (await admin.post("/account/tokens", **given)).status_code == 400, more
    of_bob = {"name": "bob", "current": PASSWORD, "new": "another long password"}
    assert (await admin.post("/account/password", **of_bob)).status_code == 400
    assert (await admin.post(f"/account/tokens/{token}/revoke")).status_code == 404

    assert await rows_of(connection, OF_POWER) == power
    after = await rows_of(connection, RECORDS)
    for table, rows in records.items():
        assert rows, table
        assert rows <= after[table], table


async def test_a_full_administrator_does_what_the_threat_model_says_and_no_more(
    login: Login, connection: Connection, pages_dsn: str, tmp_path: Path
) -> None:
    await login.add("root")
    await login.add("bob", "viewer")
    of_bob = (await login.token("his", "--owner", "bob"))["authorization"].split("_")[1]
    async with login.serve(dsn=pages_dsn, local=True) as url, Visitor(url) as admin:
        await admin.log_in("root")
        async with working_node(login.dsn, tmp_path):
            await runs_only_what_is_offered(admin, connection)
        await gains_nothing_by_a_page(admin, connection, of_bob)
        made = await admin.post("/account/tokens", name="widest", role="admin")
        [widest] = await login.command("tokens", "list", "root")
    session = await own_session(pages_dsn)
    by_the_role = await verdicts(session, *NOT_BY_THE_ROLE)
    await session.close()

    assert (made.status_code, widest["roles"]) == (200, ["admin"])
    assert by_the_role == dict.fromkeys(NOT_BY_THE_ROLE, "42501")
