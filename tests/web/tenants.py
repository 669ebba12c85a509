"""Two teams with everything that has a page, and people whose roles are for one of them.

Whatever belongs to a team has its name in it: in names, keys, notes, errors, args and lines.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from html import unescape
from typing import Final

import asyncpg
import httpx
from starlette.requests import Request

from tests.db.control import Node, call, claim_both, fail, finish, join
from tests.db.workflows import Stage
from tests.product.config import Address
from tests.product.db import NodeHealth, Trouble, written
from tests.product.model import Grant, Person
from tests.product.web import Entry, WebServer, create_app
from tests.sessions import own_session

OWN, FOREIGN = "zebra", "quokka"
SHARED: Final = "serves-all-teams"
"""A producer with rules of every team."""
OF_CLUSTER: Final = frozenset({"nodes", "node", "storage", "statusz", "metrics", "roles"})


def scoped(role: str, team: str = OWN) -> tuple[Grant, ...]:
    """The role for everything of a team."""
    return (
        Grant(role, "team", team),
        Grant(role, "handler", f"workflow:{team}*"),
        Grant(role, "handler", f"py:{team}.*"),
    )


@dataclass(frozen=True)
class Tenant:
    """A team: numbers of what has no name."""

    name: str
    waiting: int
    running: int
    ended: int
    dead: int
    backfill: int
    flow: int

    def path(self, path: str) -> str:
        """The path of a route, of an object of this team."""
        first = path.split("/")[1]
        numbers = {"runs": self.waiting, "dead": self.dead, "backfills": self.backfill}
        names = {
            "schedules": f"{self.name}-nightly",
            "queues": f"{self.name}-mail",
            "calendars": f"{self.name}-days",
            "workflows": f"{self.name}-flow",
            "breakers": f"py:{self.name}.sync",
            "nodes": "00000000-0000-0000-0000-000000000001",
            "storage": "run",
        }
        number = self.flow if "/steps/" in path else numbers.get(first, 0)
        if path.endswith(("runs/{id}/pause", "runs/{id}/resume")):
            number = self.flow
        return path.format_map(
            {"id": number, "name": names.get(first, ""), "step": "check"}
            | {"incarnation": names["nodes"]}
        )


async def add_tenant(dsn: str, team: str, node: Node | None = None) -> Tenant:
    """Everything of one team."""
    connection = await own_session(dsn)
    try:
        return await _add(connection, team)
    finally:
        await connection.close()


async def add_node(dsn: str) -> None:
    """One that serves both teams."""
    connection = await own_session(dsn)
    teams = (OWN, FOREIGN)
    handlers = [f"{kind}{team}{rest}" for team in teams for kind, rest in _HANDLERS]
    node = await join(
        connection,
        handlers=handlers,
        queues=["default", *(f"{team}-mail" for team in teams)],
        lease_ttl=300,
        name="berlin-1",
    )
    await connection.execute(
        "UPDATE pgcron.node SET lease_until = now() + interval '1 hour' WHERE incarnation = $1",
        node.incarnation,
    )
    await connection.close()


_HANDLERS: Final = (("py:", ".report"), ("py:", ".fails"), ("py:", ".sync"), ("workflow:", "-flow"))


async def _add(connection: asyncpg.Connection[asyncpg.Record], team: str) -> Tenant:
    incarnation = await connection.fetchval("SELECT incarnation FROM pgcron.node LIMIT 1")
    queue = f"{team}-mail"
    node = Node(incarnation, [f"py:{team}.report", f"py:{team}.fails"], [queue])
    options = f"queue => '{queue}', tags => '{{{team}-tag}}', actor => '{team}-ann'"
    await _define(connection, team, queue)
    trouble = Trouble("dispatcher", f"{team} is locked", 5.0, f"schedule '{team}-nightly'")
    await connection.execute("UPDATE pgcron.node SET health = $1", written(NodeHealth((trouble,))))
    executed = await _execute(connection, team, queue, node, options)
    waiting = await _wait(connection, team, queue, options)
    backfill = await connection.fetchval(
        f"SELECT pgcron.backfill('{team}-nightly', now() - interval '3 days',"
        f" note => '{team} was away')"
    )
    stage = Stage(connection, Node(incarnation, [f"workflow:{team}-flow"], ["default"]))
    steps = [
        {"name": "check", "wait_for": "approval"},
        {"name": f"{team}-step", "handler": f"py:{team}.report", "after": "check"},
    ]
    await stage.put(f"{team}-flow", *steps, description=f"Of {team}")
    flow = await stage.start(f"{team}-flow", {"of": team})
    await stage.work()
    return Tenant(team, waiting, *executed, backfill, flow)


async def _define(connection: asyncpg.Connection[asyncpg.Record], team: str, queue: str) -> None:
    for role in (f"{team}-shop", SHARED):
        with suppress(asyncpg.DuplicateObjectError):
            await connection.execute(f'CREATE ROLE "{role}"')
        await connection.execute(
            "SELECT pgcron.confine_producer($1, ARRAY[$2], ARRAY[$3], backlog => 700)",
            role,
            queue,
            f"py:{team}.report",
        )
    await connection.execute(f"""
        SELECT pgcron.set_team('queue', '{queue}', '{team}');
        SELECT pgcron.put_calendar('{team}-days', 'yearly 12-25 # {team} day');
        SELECT pgcron.set_team('calendar', '{team}-days', '{team}');
        SELECT pgcron.set_team('producer', '{team}-shop', '{team}');
        SELECT pgcron.put_schedule('{team}-nightly', '0 3 * * *' || chr(10) || 'not in {team}-days',
          'py:{team}.report', queue => '{queue}', owner => '{team}', tags => '{{{team}-tag}}',
          overlap => 'allow', args => '{{"of": "{team}"}}',
          description => 'For {team}.', actor => '{team}-ann');
        SELECT pgcron.put_schedule('{team}-paused', '0 3 * * *', 'py:{team}.report',
          queue => '{queue}', owner => '{team}', tags => '{{{team}-tag}}');
        SELECT pgcron.pause_schedule('{team}-paused', '{team} moves', '{team}-ann');
        SELECT pgcron.put_schedule('{team}-failing', '* * * * *', 'py:{team}.fails',
          overlap => 'allow',
          queue => '{queue}', owner => '{team}', tags => '{{{team}-tag}}');
        UPDATE pgcron.cursor SET status = 'valid', next_fire = now() + interval '1 hour'
          WHERE status = 'unchecked';
        SELECT pgcron.put_schedule('{team}-broken', 'rubbish of {team}', 'py:{team}.report',
          queue => '{queue}', owner => '{team}', tags => '{{{team}-tag}}');
        UPDATE pgcron.cursor c SET status = 'invalid', error = '{{"message": "{team} is no spec"}}'
          FROM pgcron.schedule s WHERE s.id = c.schedule_id AND s.name = '{team}-broken';
        SELECT pgcron.set_retention('10 days', '{queue}');
        SELECT pgcron.set_queue('{queue}', max_running => 7, actor => '{team}-ann');
        SELECT pgcron.set_breaker('py:{team}.sync', open_for => '10 minutes');
        SELECT pgcron.open_breaker('py:{team}.sync', '{team} is away', '5 failures in 1 m');
    """)


async def _execute(
    connection: asyncpg.Connection[asyncpg.Record], team: str, queue: str, node: Node, options: str
) -> tuple[int, int, int]:
    """A run that executes, one that has ended, and a dead letter."""
    made = f"SELECT pgcron.run_now('{team}-nightly', actor => '{team}-ann')"
    ended, running = [await connection.fetchval(made) for _ in range(2)]
    dead = await connection.fetchval(f"SELECT pgcron.run_now('{team}-failing')")
    enqueued_dead = await connection.fetchval(
        f"SELECT pgcron.enqueue('py:{team}.fails', {options})"
    )
    claimed = {row["id"]: row for row in await claim_both(connection, node, 10)}
    await finish(connection, [claimed[ended]])
    failing = [claimed[dead], claimed[enqueued_dead]]
    await fail(connection, failing, retryable=False, fingerprint=f"{team}1")
    await connection.execute(
        "UPDATE pgcron.dead_letter SET error = $1 WHERE queue = $2", f"{team} went wrong", queue
    )
    await connection.execute(
        "UPDATE pgcron.history SET error = $1 WHERE queue = $2 AND error IS NOT NULL",
        f"{team} went wrong",
        queue,
    )
    await call(
        connection,
        "mark_started",
        run_ids=[running],
        tokens=[claimed[running]["token"]],
        elapsed_seconds=[0.1],
    )
    await connection.execute(
        "INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line)"
        " VALUES ($1, 1, 1, now(), 'stdout', $2)",
        ended,
        f"a line of {team}",
    )
    return running, ended, dead


async def _wait(
    connection: asyncpg.Connection[asyncpg.Record], team: str, queue: str, options: str
) -> int:
    """Runs that wait for a breaker, for a node, and for later, which is the one that is named."""
    await connection.execute(
        f"INSERT INTO pgcron.run (handler, queue, due_at, schedule_id, schedule, origin, tags)"
        f" SELECT 'py:{team}.sync', '{queue}', now() - interval '1 minute', s.id, s.name,"
        f"   'manual', s.tags FROM pgcron.schedule s WHERE s.name = '{team}-nightly'"
    )
    await connection.execute(
        "UPDATE pgcron.run SET state = 'blocked', gate = 'breaker' WHERE handler = $1",
        f"py:{team}.sync",
    )
    waiting = await connection.fetchval(
        f"SELECT pgcron.enqueue('py:{team}.report', '{{\"of\": \"{team}\"}}', {options},"
        f" idempotency_key => '{team}-key',"
        f" due_at => now() + interval '1 hour', concurrency_key => '{team}-customer')"
    )
    due = f"SELECT pgcron.enqueue('py:{team}.nobody', {options}, unique_key => '{team}-unique')"
    await connection.execute(due)
    return int(waiting)


@dataclass
class Pages:
    """Pages that are opened as one person or another."""

    client: httpx.AsyncClient
    url: str
    people: dict[str, Person]

    async def get(self, path: str, person: str = "me") -> httpx.Response:
        """Opens one."""
        return await self.client.get(path, headers={"x-person": person})

    async def post(self, path: str, person: str = "me", **fields: str) -> httpx.Response:
        """Sends a form."""
        headers = {"x-person": person, "origin": self.url.rstrip("/")}
        return await self.client.post(path, headers=headers, data=fields)

    def come(self, *grants: Grant, person: str = "me") -> None:
        """The person of this name has these roles from now on."""
        self.people[person] = Person(f"ui:{person}", grants)


@asynccontextmanager
async def pages_of(dsn: str) -> AsyncIterator[Pages]:
    """The pages of a database, for whoever a request names."""
    people: dict[str, Person] = {}

    async def authenticate(request: Request) -> Person | None:
        return people[request.headers["x-person"]]

    app = create_app(dsn, version="9.9", entry=Entry(authenticate=authenticate))
    server = WebServer(app, Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
            yield Pages(client, server.url, people)
    finally:
        server.stop()
        await running


async def rows_of_all(dsn: str) -> dict[str, str]:
    """What every table has, but for the audit and tokens of forms."""
    connection = await own_session(dsn)
    tables = await connection.fetch("""
        SELECT c.relname AS name FROM pg_class c
        WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition AND c.relname NOT IN ('audit', 'idempotency')""")
    found = {}
    for (name,) in tables:
        found[name] = await connection.fetchval(
            f"SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM pgcron.{name} t"
        )
    await connection.close()
    return found


_TIMES: Final = re.compile(
    r"(?:\d[\d.,]*\s?(?:ms|s|m|h|d)\b\s?)+(?<!\s)|\d\d:\d\d(?::\d\d)?|\d{4}-\d\d-\d\d"
    r"|\d+ %|[0-9a-f]{32}|just now"
)


def said(page: str) -> list[str]:
    """What a page says, without the times, which go on, and their percentages."""
    text = re.sub(r"<(title|style|script|time).*?</\1>|<[^>]*>", " \n", page, flags=re.DOTALL)
    lines = (_TIMES.sub("T", unescape(line)).strip() for line in text.split("\n"))
    return [line for line in lines if line.strip("T ")]
