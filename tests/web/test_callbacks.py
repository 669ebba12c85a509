"""What comes to the address of callbacks, and what is let in."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx
import pytest

from pgcron_ha.credentials import hashed
from pgcron_ha.errors import ConfigError
from tests.db import control
from tests.db.control import Connection, Row
from tests.product.config import Address
from tests.product.db import CallbackKey, ClientPool, known_callbacks
from tests.product.executors import WORK_REPORTS_MAX_BODY_BYTES as MAX_BODY_BYTES
from tests.product.web import (
    MOST_AT_ONCE,
    MOST_OF_ONE,
    TokenCheck,
    WebServer,
    callback_listener,
    create_app,
    create_callback_app,
)

TOKEN = "A_-" + "b" * 40


@pytest.fixture
async def client(database: str) -> AsyncIterator[httpx.AsyncClient]:
    """Speaks to a listener for callbacks."""
    server = callback_listener(database, Address("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    async with httpx.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
        yield client
    server.stop()
    await running


@pytest.fixture
async def run(connection: Connection) -> Row:
    """A run that waits for a callback with `TOKEN`."""
    return await waiting(connection, TOKEN)


async def waiting(connection: Connection, token: str, lease_ttl: float = 60) -> Row:
    node = await control.join(connection, lease_ttl=lease_ttl)
    await control.enqueue(connection)
    (run,) = await control.claim(connection, node)
    kept = hashed(token)
    await control.call(
        connection, "open_callback", run_id=run["id"], token=run["token"], token_hash=kept
    )
    return run


async def send(
    client: httpx.AsyncClient, run: Row, body: Any = None, token: str | None = TOKEN, **headers: str
) -> httpx.Response:
    given = {} if token is None else {"Authorization": f"Bearer {token}"}
    content = body if isinstance(body, bytes | str) else json.dumps(body or {"status": "done"})
    path = f"/callback/runs/{run['id']}/{run['fence']}"
    return await client.post(path, content=content, headers=given | headers)


async def status_of(connection: Connection, run: Row) -> str | None:
    found: str | None = await connection.fetchval(
        "SELECT status FROM pgcron.callback WHERE run_id = $1", run["id"]
    )
    return found


async def test_a_callback_is_taken_however_often_it_is_delivered(
    client: httpx.AsyncClient, run: Row, connection: Connection
) -> None:
    said = {"status": "Succeeded", "result": {"n": [1, "ä"]}, "unknown": "names are passed over"}

    first, second, other = [
        await send(client, run, body) for body in (said, said, {"status": "failed"})
    ]

    assert [each.status_code for each in (first, second, other)] == [200, 200, 409]
    assert await status_of(connection, run) == "succeeded"
    assert first.headers["cache-control"] == "no-store"


async def test_pages_elsewhere_and_other_hosts_need_nothing_but_the_token(
    client: httpx.AsyncClient, run: Row
) -> None:
    answer = await send(client, run, Host="jobs.example.com", Origin="https://elsewhere.example")

    assert answer.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}c"},
        {"Authorization": f"Bearer {TOKEN}="},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {'x' * 5000}"},
    ],
)
async def test_a_forged_token_learns_nothing(
    client: httpx.AsyncClient, run: Row, connection: Connection, headers: dict[str, str]
) -> None:
    paths = [
        f"/callback/runs/{run['id']}/{run['fence']}",
        f"/callback/runs/{run['id']}/{run['fence'] + 1}",
        "/callback/runs/999999999/1",
        "/callback/runs/99999999999999999999999999/1",
        "/callback/runs/x/%00",
        "/callback/runs/-1/0",
    ]
    body = json.dumps({"status": "done"})

    answers = [await client.post(path, content=body, headers=headers) for path in paths]

    assert {(each.status_code, each.text) for each in answers} == {(401, answers[0].text)}
    assert {each.headers["www-authenticate"] for each in answers} == {"Bearer"}
    assert await status_of(connection, run) is None


async def test_the_token_of_another_run_is_a_forged_one(
    client: httpx.AsyncClient, run: Row, connection: Connection
) -> None:
    other = "B" * 43
    await waiting(connection, other)

    assert (await send(client, run, token=other)).status_code == 401
    assert await status_of(connection, run) is None


async def test_a_token_whose_attempt_is_over_is_told_so(
    client: httpx.AsyncClient, run: Row, connection: Connection
) -> None:
    await control.fail(connection, [run])

    assert (await send(client, run)).status_code == 410


async def test_ten_megabytes_are_refused_before_they_are_read(
    client: httpx.AsyncClient, run: Row, connection: Connection
) -> None:
    path = f"/callback/runs/{run['id']}/{run['fence']}"
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n"
    chunk = b"1000\r\n" + b"x" * 4096 + b"\r\n"

    announced = await status_line(client, f"{head}Content-Length: 10000000\r\n\r\n".encode())
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk * 100
    unannounced = await status_line(client, chunked)  # no end of it is ever sent

    assert [line[:12] for line in (announced, unannounced)] == [b"HTTP/1.1 413"] * 2
    assert await status_of(connection, run) is None


async def status_line(client: httpx.AsyncClient, request: bytes) -> bytes:
    """The first line that is answered to what need not be a whole request."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    writer.write(request)
    line = await asyncio.wait_for(reader.readline(), 20)
    writer.close()
    return line


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 400),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 400),
        (b"[]", 400),
        (b"{}", 400),
        (b'{"status": null}', 400),
        (b'{"status": "perhaps"}', 400),
        (b'{"status": "done", "result": NaN}', 400),
        (b'{"status": "done", "result": 1e999}', 400),
        (b'{"status": "done", "result": "\\u0000"}', 400),
        (b'{"status": "done", "result": "\\ud800"}', 400),
        (b'{"status": "done", "log": 5}', 400),
        (b'{"status": "retry", "retry_after": "soon"}', 400),
        (b'{"status": "retry", "retry_after": -1}', 400),
        (b'{"status": "done", "result": "' + b"x" * 262_150 + b'"}', 413),
        (b'{"status": "done", "log": "' + b"x" * MAX_BODY_BYTES + b'"}', 413),
    ],
    ids=str,
)
async def test_what_can_not_be_read_is_refused_and_changes_nothing(
    client: httpx.AsyncClient, run: Row, connection: Connection, body: bytes, code: int
) -> None:
    answer = await send(client, run, body)

    assert answer.status_code == code
    assert answer.json()["message"]
    assert await status_of(connection, run) is None


@pytest.mark.parametrize("padding", [0, 10 << 20], ids=["as it is", "a bomb"])
async def test_a_compressed_callback_is_not_inflated(
    client: httpx.AsyncClient, run: Row, connection: Connection, padding: int
) -> None:
    body = gzip.compress(b'{"status": "done"}' + b" " * padding)
    assert len(body) < MAX_BODY_BYTES

    compressed = await send(client, run, body, **{"Content-Encoding": "gzip"})
    untaken = await status_of(connection, run)
    # The header alone changes nothing: what came is what is read.
    plain = await send(client, run, {"status": "done"}, **{"Content-Encoding": "gzip"})

    assert (compressed.status_code, untaken) == (400, None)
    assert (plain.status_code, await status_of(connection, run)) == (200, "succeeded")


@pytest.mark.parametrize(
    "said",
    [
        {"log": ["a\0b", "\ud800", "\x1b[31m", "x" * 100_000, *["y"] * 500]},
        {"progress": {"done": -1}},
        {"progress": {"done": "three", "total": "many", "note": ["no"]}},
        {"progress": {"done": 3, "total": 0, "note": "\0\ud800" * 500}},
        {"progress": {"done": 10**400}},
        {"progress": {"done": True}},
        {"progress": 10**400, "percentComplete": 10**400},
        {"percentComplete": True},
        {"error": {"message": ["no", "text"]}, "retry": "perhaps"},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", ["running", "failed"])
async def test_what_makes_no_sense_beside_the_status_does_no_harm(
    client: httpx.AsyncClient, run: Row, status: str, said: dict[str, Any]
) -> None:
    assert (await send(client, run, {"status": status, **said})).status_code == 200


async def test_there_is_nothing_else(client: httpx.AsyncClient, run: Row) -> None:
    path = f"/callback/runs/{run['id']}/{run['fence']}"

    for other in ("/", "/runs", "/livez", "/metrics", "/static/app.js", path + "/", "/callback"):
        answer = await client.get(other)
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "only callbacks are taken here",
        )
    assert (await client.get(path)).status_code == 405
    assert (await client.request("DELETE", path)).status_code == 405


async def test_one_attempt_does_not_keep_the_others_out(
    database: str, run: Row, connection: Connection
) -> None:
    now = [0.0]
    app = create_callback_app(database, clock=lambda: now[0])
    other = await waiting(connection, "B" * 43)
    transport = httpx.ASGITransport(app)
    life = app.router.lifespan_context(app)
    async with life, httpx.AsyncClient(transport=transport, base_url="http://here") as client:

        async def say(run: Row, token: str = TOKEN) -> int:
            return (await send(client, run, {"status": "running"}, token)).status_code

        junk = [await say(run, "x" * 43) for _ in range(int(MOST_AT_ONCE) + 1)]
        flood = [await say(run) for _ in range(int(MOST_AT_ONCE) + 1)]
        of_the_other = await say(other, "B" * 43)
        now[0] += 0.02
        later = [await say(run) for _ in range(2)]

    assert set(junk) == {401}
    assert (set(flood[:-1]), flood[-1]) == ({200}, 429)
    assert of_the_other == 200
    assert later == [200, 429]


async def test_wrong_tokens_are_asked_for_together(database: str, run: Row) -> None:
    asked: list[int] = []

    async def ask(keys: Sequence[CallbackKey]) -> set[int]:
        asked.append(len(keys))
        async with pool.connection() as connection:
            return await known_callbacks(connection, keys)

    pool, check = ClientPool(database), TokenCheck(ask)
    right = CallbackKey(run["id"], run["fence"], hashed(TOKEN))
    wrong = [right._replace(token_hash=hashed(str(number))) for number in range(999)]

    found = await asyncio.gather(*map(check.knows, [*wrong[:500], right, *wrong[500:]]))
    await pool.close()

    assert [position for position, known in enumerate(found) if known] == [500]
    assert len(asked) <= 3


async def test_the_token_is_looked_at_before_the_body(client: httpx.AsyncClient, run: Row) -> None:
    head = f"POST /callback/runs/{run['id']}/{run['fence']} HTTP/1.1\r\nHost: here\r\n"
    wrong = f"{head}Authorization: Bearer {'x' * 43}\r\nContent-Length: 5000\r\n\r\n"
    none = f"{head}Content-Length: 5000\r\n\r\n"

    lines = [await status_line(client, request.encode()) for request in (wrong, none)]

    assert [line[:12] for line in lines] == [b"HTTP/1.1 401"] * 2


async def test_slow_bodies_of_one_attempt_leave_room_for_others(
    client: httpx.AsyncClient, run: Row, connection: Connection
) -> None:
    other = await waiting(connection, "B" * 43)
    head = f"POST /callback/runs/{run['id']}/{run['fence']} HTTP/1.1\r\nHost: here\r\n"
    slow = f"{head}Authorization: Bearer {TOKEN}\r\nContent-Length: 5000\r\n\r\n{{"
    held = []
    for _ in range(80):
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        writer.write(slow.encode())
        held.append((reader, writer))
    for reader, _ in held[MOST_OF_ONE:]:
        assert (await reader.readline())[:12] == b"HTTP/1.1 503"

    assert (await send(client, other, token="B" * 43)).status_code == 200
    for _, writer in held:
        writer.close()


async def test_a_database_that_is_away_asks_for_another_try() -> None:
    app = create_callback_app("postgresql://nobody@127.0.0.1:1/nowhere")
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        answer = await client.post("/callback/runs/1/1", json={"status": "done"}, headers=headers)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "127.0.0.1:1" not in answer.text


async def test_pages_still_listen_on_this_machine_alone(database: str) -> None:
    with pytest.raises(ConfigError, match=r"can't listen on '0\.0\.0\.0:0'"):
        WebServer(create_app(database), Address("0.0.0.0", 0))
