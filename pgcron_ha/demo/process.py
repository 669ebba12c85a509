"""A node, or the pages, as a process of the demo."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from pgcron_ha.demo.folder import DemoFolder
from pgcron_ha.operating_system import how_it_ended

# After its grace a node gives back what runs, which takes it a moment.
_STOP_SECONDS: Final = 20.0
# Of a node's log, what fits on a screen and has the reason.
_LONGEST_REASON: Final = 1200


class DemoProcess:
    """``pgcron-ha ARGUMENT…``; its group is its own, so that a Ctrl-C reaches the demo alone."""

    def __init__(self, folder: DemoFolder, name: str, *arguments: str) -> None:
        self.name = name
        self.log = folder.logs / f"{name}.log"
        kept = ("PGCRON_HA_PG_BIN",)  # the folder's file has all the settings
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pgcron_ha", "--config", folder.configuration, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={
                    name: value
                    for name, value in os.environ.items()
                    if not name.startswith("PGCRON_HA_") or name in kept
                },
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def ending(self) -> str | None:
        """How it ended, in words; None while it runs."""
        code = self._process.poll()
        return None if code is None else how_it_ended(code)

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace").strip()[-_LONGEST_REASON:]

    def stop(self) -> None:
        """Tell it to end in order, wait until it has, and end it by force if it does not."""
        if self.ending is None:
            self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def stop_all(processes: Sequence[DemoProcess]) -> None:
    """All at once; returns when they have ended."""
    await asyncio.gather(*(asyncio.to_thread(process.stop) for process in processes))
