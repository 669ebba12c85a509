"""Handlers that do what none should, each as a coroutine, in a thread and in its own process.

``py:floods.async``, ``py:floods.thread``, ``py:floods.process``; the bystander is a good one.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pgcron_ha import App, Context

KINDS = ("async", "thread", "process")

app = App()
Body = TypeVar("Body", bound=Callable[..., Any])


class Unheard(BaseException):
    """No Exception."""


def in_every_way(body: Body) -> Body:
    """Offer a plain function in all kinds."""
    name = body.__name__

    async def as_coroutine(ctx: Context, **args: Any) -> Any:
        return body(ctx, **args)

    app.handler(f"{name}.async")(as_coroutine)
    app.handler(f"{name}.thread")(body)
    app.handler(f"{name}.process", isolation="process", memory="512MB")(body)
    return body


@app.handler("bystander")
def bystander() -> None:
    """Does nothing, but in time: the database notes when it began."""


@app.handler("holds_a_connection")
async def holds_a_connection(ctx: Context, seconds: float) -> None:
    async with ctx.connection() as own:
        await own.execute("SELECT 1")
        await asyncio.sleep(seconds)


@app.handler("holds_a_connection_in_a_thread")
def holds_a_connection_in_a_thread(ctx: Context, seconds: float) -> None:
    with ctx.connection() as own:
        own.execute("SELECT pg_sleep($1)", seconds)


@in_every_way
def returns_no_json(ctx: Context) -> object:
    return object()


@in_every_way
def floods(ctx: Context, megabytes: int) -> None:
    line = "x" * 1023
    for _ in range(megabytes * 1024):
        print(line)


@in_every_way
def floods_a_line(ctx: Context, megabytes: int) -> None:
    for _ in range(megabytes):
        sys.stdout.write("x" * (1 << 20))


@in_every_way
def leaves_a_daemon(ctx: Context, path: str) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(f"{os.getpid()}\n")
            signal.alarm(60)  # if nobody ends it
            while True:
                signal.pause()
        os._exit(0)
    _wait_for_the_number_in(path)


@in_every_way
def returns_twice(ctx: Context, path: str) -> str:
    """Forks, and forgets to end the child."""
    return "the child" if _forked(path) else "the handler"


@in_every_way
def finds_the_disk_full(ctx: Context) -> None:
    with open("/dev/full", "w") as file:
        file.write("no room for it")


@app.handler("forks_and_waits")
async def forks_and_waits(ctx: Context, path: str) -> None:
    if _forked(path):
        await asyncio.sleep(60)


@app.handler("forks_in_a_transaction")
async def forks_in_a_transaction(ctx: Context, path: str) -> None:
    async with ctx.connection() as own:
        await own.execute("INSERT INTO public.effect VALUES ($1)", ctx.run_id)
        _forked(path)


def _forked(path: str) -> bool:
    """Whether this is the child, whose process id stands there by then."""
    if os.fork() == 0:
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")
        return True
    _wait_for_the_number_in(path)
    return False


def _wait_for_the_number_in(path: str) -> None:
    """The file stands there a moment before its one write."""
    while not Path(path).exists() or Path(path).stat().st_size == 0:
        time.sleep(0.01)


@in_every_way
def closes_its_pipes(ctx: Context) -> None:
    sys.stdout.close()
    sys.stderr.close()
    os.close(1)
    os.close(2)
    print("nobody hears this")


@in_every_way
def blocks(ctx: Context, seconds: float) -> None:
    time.sleep(seconds)


@in_every_way
def spins(ctx: Context, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@in_every_way
def leaves_the_interpreter(ctx: Context) -> None:
    sys.exit(3)


@in_every_way
def interrupts(ctx: Context) -> None:
    raise KeyboardInterrupt


@in_every_way
def raises_what_nobody_catches(ctx: Context) -> None:
    raise Unheard("not an Exception")


@in_every_way
def recurses(ctx: Context) -> None:
    recurses(ctx)


@app.handler("ends_its_process", isolation="process")
async def ends_its_process(ctx: Context) -> None:
    os._exit(0)


@app.handler("eats", isolation="process", memory="256MB")
def eats(ctx: Context) -> None:
    held = []
    while True:
        held.append(bytearray(1 << 24))


@app.handler("fills_the_disk", isolation="process")
def fills_the_disk(ctx: Context, path: str) -> None:
    """Of the size that its process may write."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    with open(path, "wb") as file:
        while True:
            file.write(bytes(1 << 16))


@app.handler("unresponsive", isolation="process")
def unresponsive(ctx: Context, path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@app.handler("goes_on")
async def goes_on(ctx: Context, path: str) -> str:
    """Is asked to stop, and has something better to do."""
    Path(path).write_text(f"{os.getpid()}\n")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "went on"
    return "slept"


@app.handler("kills_the_children_of_its_node")
def kills_the_children_of_its_node(ctx: Context) -> None:
    for pid in _children_of(os.getpid()):
        os.kill(pid, signal.SIGKILL)


@app.handler("kills_its_siblings", isolation="process")
def kills_its_siblings(ctx: Context) -> None:
    assert os.getppid() != 1, "no supervisor: all processes of the machine would be siblings"
    for pid in _children_of(os.getppid()):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)


@app.handler("kills_its_supervisor", isolation="process")
def kills_its_supervisor(ctx: Context) -> None:
    assert os.getppid() != 1
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def _children_of(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(path.parent.name))
    return found
