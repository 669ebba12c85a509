"""The time zones that this node's tzdata has."""

from __future__ import annotations

from zoneinfo import available_timezones


def known_zones() -> tuple[str, ...]:
    """Names that a schedule may have, sorted; files of the tzdata folder that are none left out."""
    odd = ("posix/", "right/", "localtime", "posixrules", "Factory")
    return tuple(sorted(name for name in available_timezones() if not name.startswith(odd)))
