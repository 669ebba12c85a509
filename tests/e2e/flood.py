"""A program that floods a listener from one address, with nothing but TCP, until it is killed:
silent connections, half heads, slow bodies, and requests with no token or a wrong one.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from contextlib import suppress

SILENT = HALF = 2000
SLOW = 200
JUNK_A_SECOND = 1000
LONG = 100_000

HALF_HEAD = b"POST /callback/runs/1/1 HTTP/1.1\r\nHost: here\r\nX-Padding: "
BUSY = asyncio.Semaphore(400)


async def hold(port: int, first: bytes, drop: bytes) -> None:
    """One connection that is opened again whenever it is closed, and sends a little each second."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            while not reader.at_eof():
                writer.write(drop)
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(4096), 1)
            writer.close()
        await asyncio.sleep(0.5)


async def junk(port: int, number: int) -> None:
    """A request without a token, or with one that is none of an attempt."""
    token = secrets.token_urlsafe(32) if number % 2 else "junk"
    head = (
        f"POST /callback/runs/{number}/1 HTTP/1.1\r\nHost: here\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: 21\r\n\r\n"
    )
    async with BUSY:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + b'{"status": "success"}')
            await reader.read(4096)
            writer.close()


async def main(port: int) -> None:
    """Floods this port of the machine; says so once all of it has begun."""
    slow = (
        f"POST /callback/runs/1/1 HTTP/1.1\r\nHost: here\r\nContent-Length: {LONG}\r\n"
        f"Authorization: Bearer {secrets.token_urlsafe(32)}\r\n\r\n"
    ).encode()
    held = [(b"", b"")] * SILENT + [(HALF_HEAD, b"x")] * HALF + [(slow, b"x")] * SLOW
    tasks = {asyncio.create_task(hold(port, *each)) for each in held}
    print("flooding", flush=True)
    loop = asyncio.get_running_loop()
    number, began = 0, loop.time()
    while True:
        while number < (loop.time() - began) * JUNK_A_SECOND:
            number += 1
            task = asyncio.create_task(junk(port, number))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
