"""Parts of ``pgcron_ha.embedded`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.embedded.binaries import BIN_VARIABLE, OLDEST_MAJOR, system_binaries
from pgcron_ha.embedded.cluster import Deadline, Postmaster, find_postmaster, readable_binaries
from pgcron_ha.embedded.directory import DataDirectory
from pgcron_ha.operating_system import FileLock

__all__ = [
    "BIN_VARIABLE",
    "OLDEST_MAJOR",
    "DataDirectory",
    "Deadline",
    "FileLock",
    "Postmaster",
    "find_postmaster",
    "readable_binaries",
    "system_binaries",
]
