"""What a handler says of the process of its own that it wants: ``isolation="process"``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from pgcron_ha.config.values import seconds_of
from pgcron_ha.errors import ConfigError

LEAST_MEMORY_BYTES = 64 * 1024 * 1024
"""Below it Python and a usual program do not even begin."""

LEAST_CPU_SECONDS = 1.0
"""The operating system counts whole seconds."""

_SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(MB|MiB|GB|GiB)")
_BYTES_BY_UNIT = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}


@dataclass(frozen=True, slots=True)
class Isolation:
    """A run gets a process of its own that can be killed. ``memory`` is in bytes and counts all
    the process holds, ``cpu`` is seconds of processor time of one run; None means no limit.
    """

    memory: int | None = None
    cpu: float | None = None


def read_isolation(
    isolation: str | None, memory: str | int | None, cpu: str | float | None
) -> Isolation | None:
    """From what `App.handler` was given: ``process`` or None, ``512MB`` or bytes, ``60s`` or
    seconds. Raises `ConfigError`.
    """
    if isolation is None:
        if memory is None and cpu is None:
            return None
        raise ConfigError(
            "memory and cpu are given without isolation='process'",
            "Functions of one process share its memory and its processor time.",
            "Give isolation='process', too, or leave them out.",
        )
    if isolation != "process":
        raise ConfigError(
            f"isolation is {isolation!r}", "It is 'process', or not given.", "Write 'process'."
        )
    return Isolation(
        None if memory is None else _memory(memory), None if cpu is None else _cpu(cpu)
    )


def _memory(value: str | int) -> int:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    size = value if found is None else int(float(found[1]) * _BYTES_BY_UNIT[found[2]])
    if type(size) is not int or size < LEAST_MEMORY_BYTES:
        raise ConfigError(
            f"memory is {value!r}",
            f"It is a size of at least {LEAST_MEMORY_BYTES // 2**20}MiB, or that many bytes.",
            "Write for example '512MB'.",
        )
    return size


def _cpu(value: str | float) -> float:
    seconds = seconds_of(value)
    if not LEAST_CPU_SECONDS <= seconds < math.inf:
        raise ConfigError(
            f"cpu is {value!r}",
            f"It is a time of at least {LEAST_CPU_SECONDS:g}s, or that many seconds.",
            "Write for example '60s'.",
        )
    return seconds
