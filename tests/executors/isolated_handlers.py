"""Handlers with processes of their own, for the tests; children import them by name."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pgcron_ha import App, Context, Discard, Snooze
from pgcron_ha.operating_system import boottime

app = App()


@app.handler("add", isolation="process")
async def add(ctx: Context, left: int, day: date | None = None) -> dict[str, Any]:
    given = {"key": ctx.idempotency_key, "origin": ctx.origin}
    return {"sum": left + 1, "day": str(day), "attempt": ctx.attempt, **given}


@app.handler("reported", isolation="process")
async def reported(ctx: Context) -> Any:
    """What both kinds of callers learn; asked twice at once."""
    first, second = await asyncio.gather(ctx.previous(), ctx.previous())
    assert first == second
    return None if first is None else first.document()


@app.handler("reported_in_a_thread", isolation="process")
def reported_in_a_thread(ctx: Context) -> Any:
    found = ctx.previous().wait()
    return None if found is None else found.document()


@app.handler("results", isolation="process")
def results(ctx: Context) -> Any:
    return dict(ctx.results)


@app.handler("updates", isolation="process")
def updates(ctx: Context) -> None:
    ctx.update_asset("sales", {"rows": 3})
    ctx.update_asset("stock")
    ctx.add_step("more", "py:where", queue="mail")


@app.handler("enqueues", isolation="process")
async def enqueues() -> int:
    return await app.enqueue("add", {"left": 1})


@app.handler("rights", isolation="process")
def rights() -> list[str]:
    mask = os.umask(0)
    os.umask(mask)
    status = Path("/proc/self/status").read_text()
    return [f"{mask:03o}", *(line for line in status.splitlines() if "NoNewPrivs" in line)]


@app.handler("where", isolation="process")
def where() -> list[int]:
    return [os.getpid(), os.getppid()]


@app.handler("talks", isolation="process")
async def talks(ctx: Context, path: str) -> None:
    print("printed")
    print("to stderr", file=sys.stderr)
    logging.getLogger("shop").warning("logged")
    ctx.log("reported")
    ctx.progress(1, 2)
    os.write(1, b"below python\n")
    await (await asyncio.create_subprocess_exec("/bin/echo", "of a program")).wait()
    while not Path(path).exists():  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(0.01)


@app.handler("fails", isolation="process")
def fails(how: str) -> Any:
    if how == "raises":
        raise LookupError("no such order")
    if how == "discards":
        raise Discard("the customer is gone")
    if how == "snoozes":
        raise Snooze(timedelta(minutes=5))
    if how == "exits":
        sys.exit(3)
    return object()


@app.handler("dies", isolation="process")
def dies(how: str) -> None:
    print("last words", file=sys.stderr)
    if how == "exits":
        os._exit(7)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "silent":
        os.close(3)
    if how == "babbles":
        os.write(3, b"nonsense\n")
        time.sleep(60)
    if how == "forges":
        ended = {"event": "ended", "outcome": {"text": None}, "declared": ["no", "object"]}
        for run in range(1, 100):  # one of them is this one
            message = {**ended, "run": run, "left": 0, "dropped": 0, "resident": 0}
            os.write(3, json.dumps(message).encode() + b"\n")
        time.sleep(60)


@app.handler("eats", isolation="process", memory="256MiB")
def eats(size: int) -> int:
    return len(bytearray(size))


@app.handler("computes", isolation="process", cpu=1)
def computes(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@app.handler("waits", isolation="process")
async def waits(path: str) -> str:
    Path(path).write_text(f"{os.getpid()}\n")
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cancelled")
        raise
    return "never"


@app.handler("asks", isolation="process")
def asks(ctx: Context, path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    end = boottime() + 60
    while boottime() < end:
        ctx.check()
        time.sleep(0.01)


@app.handler("unresponsive", isolation="process")
def unresponsive(path: str) -> None:
    Path(path).write_text(f"{os.getpid()}\n")
    while True:
        try:
            time.sleep(60)
        except BaseException:
            continue


@app.handler("leaves_a_daemon", isolation="process")
def leaves_a_daemon(path: str) -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            Path(path).write_text(f"{os.getpid()}\n")
            while True:
                signal.pause()
        os._exit(0)
    while not Path(path).exists() or Path(path).stat().st_size == 0:
        time.sleep(0.01)
    return "left"


@app.handler("kills_its_supervisor", isolation="process")
def kills_its_supervisor() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@app.handler("leaks", isolation="process")
async def leaks(ctx: Context, secret: str, before: int) -> dict[str, Any]:
    """Says it in every way there is, after so many other characters."""
    print("x" * before + secret)
    ctx.log("y" * before + secret)
    ctx.progress(1, 2, "n " * (min(before, 190) // 2) + secret)
    if before % 2:
        raise ValueError("z" * before + secret)
    return {secret: ["w" * before + secret], "note": f"({secret})"}
