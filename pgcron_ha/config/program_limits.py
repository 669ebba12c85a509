"""``limits`` of a shell template: what the system refuses a program beyond (setrlimit)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pgcron_ha.config.values import parse_duration

LIMITS: Final = ("cpu", "memory", "file_size", "open_files", "processes")
_UNITS: Final = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"(\d{1,12})(B|KiB|MiB|GiB|TiB)", re.ASCII)
_MOST_NUMBER: Final = 1_000_000


def read_limits(raw: object) -> Mapping[str, int]:
    """The limits by name: seconds, bytes, numbers. Raises ValueError with a sentence.

    - ``cpu``: processor time of each process (a duration), then SIGXCPU;
    - ``memory``: address space of each process (a size), beyond which allocation fails;
    - ``file_size``: of what each process writes (a size), beyond which writing fails;
    - ``open_files``: of each process; ``processes``: of the user, with those that are no run.
    """
    if not isinstance(raw, dict):
        raise ValueError('expected a table such as { memory = "512MiB", cpu = "10m" }')
    unknown = sorted(set(raw) - set(LIMITS))
    if unknown:
        raise ValueError(f"'{unknown[0]}' is no limit; the limits are {', '.join(LIMITS)}")
    return MappingProxyType({name: _limit(name, value) for name, value in raw.items()})


def _limit(name: str, value: object) -> int:
    if name == "cpu":
        try:
            seconds = parse_duration(value if isinstance(value, str) else "")
        except ValueError as error:
            raise ValueError(f"cpu '{value}': expected {error}") from None
        if seconds < 1:
            raise ValueError(f"cpu '{value}': expected a duration of 1s or more")
        return round(seconds)
    if name in ("memory", "file_size"):
        match = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if match is None or int(match[1]) == 0:
            raise ValueError(f"{name} '{value}': expected a size such as \"512MiB\"")
        return int(match[1]) * _UNITS[match[2]]
    if type(value) is not int or not 1 <= value <= _MOST_NUMBER:
        raise ValueError(f"{name} '{value}': expected a number from 1 to {_MOST_NUMBER:,}")
    return value
