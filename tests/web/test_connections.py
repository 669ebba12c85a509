"""How many connections a server keeps open, which ones, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from tests.product.config import Address
from tests.product.web import Bounds, WebServer, group_of

WHOLE = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: he"
BODY = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\nbegin"


@asynccontextmanager
async def served(bounds: Bounds) -> AsyncIterator[Address]:
    async def answer(request: Request) -> Response:
        await request.body()
        return PlainTextResponse("here")

    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    server = WebServer(app, Address("127.0.0.1", 0), bounds=bounds)
    running = asyncio.create_task(server.run())
    try:
        assert isinstance(server.address, Address)
        yield server.address
    finally:
        server.stop()
        await running


async def opened(stack: AsyncExitStack, address: Address, first: bytes) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    stack.callback(writer.close)
    writer.write(first)
    return reader


async def is_answered(reader: asyncio.StreamReader) -> bool:
    return (await asyncio.wait_for(reader.readline(), 10)).startswith(b"HTTP/1.1 200")


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(), 10) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("first", [b"", HALF, BODY], ids=["silent", "half a head", "slow body"])
async def test_who_takes_too_long_is_closed(first: bytes) -> None:
    bounds = Bounds(head_seconds=0.2, body_seconds=0.2)
    async with served(bounds) as address, AsyncExitStack() as stack:
        assert await is_closed(await opened(stack, address, first))


async def test_a_connection_that_stays_open_is_closed_when_no_other_head_comes() -> None:
    async with served(Bounds(head_seconds=0.5)) as address, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection(address.host, address.port)
        stack.callback(writer.close)
        for last in (WHOLE, WHOLE, HALF):
            writer.write(last)
            if last != HALF:
                assert await is_answered(reader)
                await reader.readuntil(b"here")
        assert await is_closed(reader)


async def test_of_too_many_the_oldest_without_a_head_gives_way() -> None:
    async with served(Bounds(most=20)) as address, AsyncExitStack() as stack:
        working, writer = await asyncio.open_connection(address.host, address.port)
        stack.callback(writer.close)
        writer.write(BODY)
        silent = [await opened(stack, address, b"") for _ in range(60)]
        assert await is_answered(await opened(stack, address, WHOLE))
        assert await is_closed(silent[0])
        writer.write(b"x" * 95)
        assert await is_answered(working)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("10.0.0.1", "10.0.0.2", False),
    ],
)
def test_addresses_of_one_customer_count_as_one(one: str, other: str, same: bool) -> None:
    assert (group_of((one, 1)) == group_of((other, 2))) is same
