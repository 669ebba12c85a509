"""A node's own folder, and the lock that proves its predecessor dead.

The lock's descriptor is inherited by the process that supervises children, so it is free only when
the node *and* everything it started are gone. The process that gets it may free the runs of earlier
nodes of this folder at once, without waiting for a lease.
"""

from __future__ import annotations

import os
import socket
import time
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.process.supervisor_client import bury_descendants
from pgcron_ha.operating_system import FileLock, is_alive
from pgcron_ha.telemetry.events import NodeHasATwin
from pgcron_ha.telemetry.log import emit

# A dead node's children are killed within this time; its successor waits for that.
_DYING_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.02


class Home:
    """One folder below the state directory, locked for as long as this process or a child of it
    lives.
    """

    def __init__(self, state_directory: Path, node: str) -> None:
        """Blocks while the remains of a killed predecessor die. A living node of that name keeps
        its folder: this one takes another, and says so. Raises ConfigError when the folder can't be
        made.
        """
        for number in count(1):
            self.directory = state_directory / (node if number == 1 else f"{node}.{number}")
            self._lock = FileLock(self.directory / "lock")
            if self._is_acquired():
                break
        self.descriptor, self.release = self._lock.descriptor, self._lock.release
        if number > 1:
            emit(NodeHasATwin(node, str(self.directory)))
        bury_descendants(self.directory)
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, str(os.getpid()).encode(), 0)
        held = os.fstat(self.descriptor)
        self.identity = f"{_kernel()}:{held.st_dev}:{held.st_ino}:{self._mark()}"
        """Names the lock across hosts: two that have it can't live at once. A copied machine or
        container has locks of its own under the same names."""

    def _is_acquired(self) -> bool:
        """Whether the lock was had; waits while its owner is dead and only its children are still
        being killed.
        """
        end = time.monotonic() + _DYING_SECONDS
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            while not self._lock.try_acquire():
                owner = self._lock.path.read_text(encoding="ascii")  # may be about to write it
                if time.monotonic() > end or not owner.isdigit() or is_alive(int(owner)):
                    return False
                time.sleep(_LOOK_SECONDS)
        except OSError as error:
            raise ConfigError(
                f"the state directory {str(self.directory)!r} can't be used",
                str(error),
                "Set PGCRON_HA_NODE_STATE_DIRECTORY to a folder that this user may write.",
            ) from error
        return True

    def _mark(self) -> str:
        """A random name, written once. It distinguishes a copied or new folder from an older
        one.
        """
        path = self.directory / "identity"
        if not path.exists():
            path.write_text(uuid4().hex, encoding="ascii")
        return path.read_text(encoding="ascii").strip()


def _kernel() -> str:
    """Which kernel keeps the lock: each start of each machine is another one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:  # no Linux
        return socket.gethostname()
