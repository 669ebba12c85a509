"""The end of a process in which a handler goes on that nothing else can end.

Such a node can't give up its lease: nobody may begin the run while the handler lives. So the
process becomes another program (`exec`, which ends every thread of it), and that one signs the node
off. Others take over at once, and what supervises the process sees it end with a status.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict, dataclass
from typing import Final, NoReturn

from pgcron_ha.db.driver.link import Link

EXIT_DEAF: Final = 72
"""The status of a node that ended itself because a handler did not stop (node.on_deaf_handler)."""

SIGN_OFF_SECONDS: Final = 10.0
"""Without an answer for so long the lease runs out by itself."""

_MOST_REAPED: Final = 1000
_CODE: Final = "import sys; sys.path[:] = {path}; from {module} import main; main()"


@dataclass(frozen=True, slots=True)
class Farewell:
    """What is left to do: the node's session ends for this reason, the process with this status."""

    dsn: str
    schema: str
    incarnation: str
    reason: str
    status: int


def bid(farewell: Farewell) -> NoReturn:
    """Become the program that signs off; nothing of this one runs afterwards."""
    try:
        reading, writing = os.pipe()
        os.write(writing, json.dumps(asdict(farewell)).encode())
        os.close(writing)
        os.dup2(reading, 0)
        code = _CODE.format(path=repr(sys.path), module=__name__)
        os.execv(sys.executable, [sys.executable, "-c", code])
    finally:  # no such program any more: the lease runs out
        os._exit(farewell.status)


def main() -> NoReturn:
    """The program."""
    farewell = Farewell(**json.load(sys.stdin))
    try:
        asyncio.run(asyncio.wait_for(_sign_off(farewell), SIGN_OFF_SECONDS))
    except Exception as error:
        told = f"could not sign off, the lease runs out: {type(error).__name__}: {error}"
        print(told, file=sys.stderr)
    sys.exit(farewell.status)


async def _sign_off(farewell: Farewell) -> None:
    link = Link(farewell.dsn, farewell.schema)
    await link.rows("leave", incarnation=farewell.incarnation, reason=farewell.reason)
    await link.rows("reap_runs", at_most=_MOST_REAPED)
    await link.rows("wake_idle_nodes")
    await link.close()
