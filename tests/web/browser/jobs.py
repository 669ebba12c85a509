"""What the node of the browser's tests can do."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from pathlib import Path

from pgcron_ha import App, Context

STEP_SECONDS = 0.02

app = App()


@app.handler("quick")
async def quick(context: Context) -> dict[str, str]:
    """Says what terminals and browsers must not believe, and succeeds."""
    print("<script>pwned=1</script> \x1b[31mred\x1b[0m nul:\0: \u202egnp.exe {{7*7}}")
    return {"<b>": "</script>"}


@app.handler("waits")
async def waits(context: Context) -> None:
    """Until it is cancelled."""
    print("waiting")
    await asyncio.Event().wait()


@app.handler("stays", isolation="process")
def stays(context: Context) -> None:
    """Until it is killed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    while True:
        with suppress(BaseException):
            threading.Event().wait()


@app.handler("follows")
async def follows(context: Context, path: str) -> None:
    """Prints each line of a file that somebody writes, up to the line "end"."""
    reported = 0
    while True:
        lines = Path(path).read_text().splitlines() if Path(path).exists() else []
        for line in lines[reported:]:
            if line == "end":
                return
            print(line)
        reported = len(lines)
        await asyncio.sleep(STEP_SECONDS)
