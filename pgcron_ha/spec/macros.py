"""Macros for schedules that need no exact minute: ``@hourly~``, ``@daily~`` and so on.

When in its period such a schedule fires is a hash of the schedule's seed (its uuid): the same on
every node, for ever, and another one for the next schedule. All macros of one seed take the same
minute, and all but ``@hourly~`` the same hour.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from pgcron_ha.errors import InvalidSpec

EXAMPLE_SEED = "00000000-0000-0000-0000-000000000000"
"""For judging a spec before its schedule exists: whether it is readable depends on no seed."""

_MACROS: dict[str, Callable[[int, int, int, int], str]] = {
    "@hourly~": lambda minute, hour, day, month: f"{minute} * * * *",
    "@daily~": lambda minute, hour, day, month: f"{minute} {hour} * * *",
    "@weekly~": lambda minute, hour, day, month: f"{minute} {hour} * * {day % 7}",
    "@monthly~": lambda minute, hour, day, month: f"{minute} {hour} {day + 1} * *",
    "@yearly~": lambda minute, hour, day, month: f"{minute} {hour} {day + 1} {month + 1} *",
}
_DAYS = 28  # every month has them, and every weekday comes as often


def is_spread(text: str) -> bool:
    """Whether it is one of the macros, in any case."""
    return text.strip(" \t").lower() in _MACROS


def spread_fields(text: str, seed: str | None) -> str:
    """The cron expression that the macro is for this seed; raises `InvalidSpec` without one."""
    macro = text.strip(" \t").lower()
    if seed is None:
        raise InvalidSpec(
            f'"{macro}" fires at another time for each schedule',
            "its minute, hour and day are a hash of the schedule's uuid",
            "name its uuid: `pgcron-ha next --seed UUID`; `pgcron-ha schedules show` has its fires",
        )
    rest = int.from_bytes(hashlib.sha256(seed.lower().encode()).digest()[:8], "big")
    rest, minute = divmod(rest, 60)
    rest, hour = divmod(rest, 24)
    rest, day = divmod(rest, _DAYS)
    return _MACROS[macro](minute, hour, day, rest % 12)
