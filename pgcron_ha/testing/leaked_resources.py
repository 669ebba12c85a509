"""What a process has, so that a test can see what an executor leaves behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LeakedResources:
    """What this process has: threads, children, descriptors (by number, and what they are)."""

    threads: frozenset[str]
    children: frozenset[int]
    descriptors: int

    @classmethod
    def now(cls) -> LeakedResources:
        """Processes and descriptors are seen where there is a ``/proc``."""
        threads = frozenset(f"{each.name}:{each.ident}" for each in threading.enumerate())
        return cls(threads, frozenset(_children()), _count_descriptors())

    def beyond(self, before: LeakedResources) -> list[str]:
        """What is here and was not there."""
        found = [f"thread {name}" for name in sorted(self.threads - before.threads)]
        found += [f"process {pid}" for pid in sorted(self.children - before.children)]
        more = self.descriptors - before.descriptors
        return found + ([f"{more} descriptors"] if more > 0 else [])


def _children() -> Iterator[int]:
    for listed in Path("/proc/self/task").glob("*/children"):
        yield from map(int, listed.read_text(encoding="ascii").split())


def _count_descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0
