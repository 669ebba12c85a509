"""The end of a process in which a handler goes on that nothing else can end.

Such a node can't give up its lease: no other node may begin the run while the handler lives. So the
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

EXIT_UNRESPONSIVE: Final = 72
"""The status of a node that ended itself because a handler did not stop
(node.on_unresponsive_handler).
"""

SIGN_OFF_SECONDS: Final = 10.0
"""Without an answer within this time the lease runs out by itself."""

_MOST_REAPED: Final = 1000
_CODE: Final = "import sys; sys.path[:] = {path}; from {module} import main; main()"


@dataclass(frozen=True, slots=True)
class ForcedExit:
    """What is left to do: the node's session ends for this reason, the process with this status."""

    dsn: str
    schema: str
    incarnation: str
    reason: str
    status: int


def bid(forced_exit: ForcedExit) -> NoReturn:
    """Become the program that signs off; nothing of this one runs afterwards."""
    try:
        reading, writing = os.pipe()
        os.write(writing, json.dumps(asdict(forced_exit)).encode())
        os.close(writing)
        os.dup2(reading, 0)
        code = _CODE.format(path=repr(sys.path), module=__name__)
        os.execv(sys.executable, [sys.executable, "-c", code])
    finally:  # no such program any more: the lease runs out
        os._exit(forced_exit.status)


def main() -> NoReturn:
    """The program."""
    forced_exit = ForcedExit(**json.load(sys.stdin))
    try:
        asyncio.run(asyncio.wait_for(_sign_off(forced_exit), SIGN_OFF_SECONDS))
    except Exception as error:
        reported = f"could not sign off, the lease runs out: {type(error).__name__}: {error}"
        print(reported, file=sys.stderr)
    sys.exit(forced_exit.status)


async def _sign_off(forced_exit: ForcedExit) -> None:
    link = Link(forced_exit.dsn, forced_exit.schema)
    await link.rows("leave", incarnation=forced_exit.incarnation, reason=forced_exit.reason)
    await link.rows("reap_runs", at_most=_MOST_REAPED)
    await link.rows("wake_idle_nodes")
    await link.close()
