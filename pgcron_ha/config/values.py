"""Raw values to typed ones: each reader takes what TOML, a variable or a flag gave. And times as
people write them, wherever an option, an argument or a form takes an instant.

A reader raises `ValueError` with what was expected, worded to follow "expected …".
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

# Longest first: durations are written in this order.
SECONDS_BY_UNIT = {"w": 604800.0, "d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
BYTES_BY_UNIT = {
    **{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40},
    **{"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
}

_SIZE = re.compile(rf"([0-9]{{1,12}}(?:\.[0-9]{{1,3}})?) ?({'|'.join(BYTES_BY_UNIT)})")
_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_DURATION = re.compile("".join(f"(?:({_NUMBER}){unit})?" for unit in SECONDS_BY_UNIT))
_CLOCK: Final = re.compile(r"(?:(yesterday|today|tomorrow) +)?(\d{1,2}:\d{2}(?::\d{2})?)")
_DAYS: Final = {None: None, "yesterday": -1, "today": 0, "tomorrow": 1}


# Hosts that only this machine can connect to.
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
# A list comes from one line of a file or one variable; beyond this it is a mistake.
MAX_LIST_ITEMS = 200
MOST_LABELS = 64

# As the database allows them.
QUEUE_NAME = r"[A-Za-z0-9_.-]{1,100}"
HANDLER_NAME = r"(?!.{207})[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}"
LABEL_NAME = r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}"
LABEL_VALUE = r"[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}"

Reader = Callable[[object], Any]

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

Span: TypeAlias = timedelta | float | str
"""A duration in Python: a timedelta, seconds, or a text such as ``90s``."""


def parse_duration(text: str) -> float:
    """``15s``, ``500ms``, ``1h30m``, ``2d`` as seconds; units from large to small, each once.

    Raises `ValueError` for anything else, a bare number too: it does not say its unit.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError("a duration with its unit, such as 500ms, 15s, 30m or 1h30m")
    numbers, sizes = map(float, found.groups("0")), SECONDS_BY_UNIT.values()
    return sum(number * size for number, size in zip(numbers, sizes, strict=True))


def parse_size(raw: object) -> int:
    """``512MiB``, ``1.5 GB`` as bytes. Raises `ValueError` for anything else, and for nothing."""
    match = _SIZE.fullmatch(str(raw))
    size = 0 if match is None else int(float(match[1]) * BYTES_BY_UNIT[match[2]])
    if match is None or not size:
        raise ValueError('a size such as "512MiB"')
    return size


def seconds_of(value: object) -> float:
    """Seconds of a timedelta, a number of seconds, or a text that `parse_duration` reads; infinity
    for more than a timedelta has, and not a number for anything else.
    """
    try:
        seconds = parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return math.nan
    if isinstance(seconds, timedelta):
        seconds = seconds.total_seconds()
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return math.nan
    return math.inf if abs(seconds) >= 1e12 else float(seconds)


def duration(least: str, most: str) -> Reader:
    """Seconds of ``"15s"`` between two bounds, both allowed; a number without a unit is refused."""

    def read(raw: object) -> float:
        seconds = parse_duration(raw.strip() if isinstance(raw, str) else "")
        if not parse_duration(least) <= seconds <= parse_duration(most):
            raise ValueError(f"a duration from {least} to {most}")
        return seconds

    return read


def integer(least: int, most: int) -> Reader:
    """A whole number between two bounds, both allowed: ``16`` or ``"16"``."""

    def read(raw: object) -> int:
        is_written = isinstance(raw, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", raw.strip())
        number = int(str(raw)) if is_written else raw
        if type(number) is not int or not least <= number <= most:
            raise ValueError(f"a whole number from {least:,} to {most:,}")
        return number

    return read


def text(pattern: str, expected: str) -> Reader:
    """A text that matches a pattern from end to end, unchanged."""

    def read(raw: object) -> str:
        if not isinstance(raw, str) or not re.fullmatch(pattern, raw):
            raise ValueError(expected)
        return raw

    return read


def choice(words: tuple[str, ...]) -> Reader:
    """One of a few words, in any case."""

    def read(raw: object) -> str:
        by_folded = {word.lower(): word for word in words}
        if not isinstance(raw, str) or raw.lower() not in by_folded:
            raise ValueError(f"one of {', '.join(words)}")
        return by_folded[raw.lower()]

    return read


def text_list(pattern: str, expected: str, *, may_be_empty: bool = True) -> Reader:
    """Several texts in their order, none twice: a list in the file, with commas in a variable."""
    item = text(pattern, expected)

    def read(raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = [part.strip() for part in raw.split(",") if part.strip()]
        if not isinstance(raw, list | tuple) or len(raw) > MAX_LIST_ITEMS:
            raise ValueError(f"a list of at most {MAX_LIST_ITEMS} items, each {expected}")
        items = tuple(item(value) for value in raw)
        if len(set(items)) != len(items):
            raise ValueError("a list that names nothing twice")
        if not items and not may_be_empty:
            raise ValueError(f"at least one item: {expected}")
        return items

    return read


def labels(raw: object) -> Mapping[str, str]:
    """Read a table of the file, ``gpu=a100,zone=eu``, or a list of ``gpu=a100``."""
    if isinstance(raw, dict):
        raw = [f"{name}={text if isinstance(text, str) else ''}" for name, text in raw.items()]
    elif isinstance(raw, str):
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    items = raw if isinstance(raw, list | tuple) and len(raw) <= MOST_LABELS else [None]
    label = re.compile(f"{LABEL_NAME}={LABEL_VALUE}")
    found = dict(str(each).split("=") for each in items if label.fullmatch(str(each)))
    if len(found) < len(items):
        raise ValueError(
            f"at most {MOST_LABELS} labels, none twice, such as gpu=a100: letters, digits and"
            " _ . / - in a name, : + @ too in a value, up to 100 of them"
        )
    return found


@dataclass(frozen=True)
class Address:
    """Where a server listens: a host name or address, and a port (0: any free one)."""

    host: str
    port: int

    def __str__(self) -> str:
        """As people and URLs write it: ``127.0.0.1:8420``, ``[::1]:8420``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class SocketPath:
    """A socket of this machine, which its owner alone may open."""

    path: str

    def __str__(self) -> str:
        """As settings write it: ``unix:/run/pgcron-ha/web.socket``."""
        return f"unix:{self.path}"


def place_to_listen(raw: object) -> Address | SocketPath:
    """Read an `address`, or ``unix:/path``."""
    text = raw.strip() if isinstance(raw, str) else ""
    # The kernel has 108 bytes for a path.
    if re.fullmatch(r"unix:/[^\0]+", text) and len(text.encode()) <= 105:
        return SocketPath(text.removeprefix("unix:"))
    try:
        return address(raw)
    except ValueError as error:
        raise ValueError(f"{error}, or unix:/path of up to 100 bytes") from None


def networks(raw: object) -> tuple[Network, ...]:
    """Read a list of ``10.0.0.5``, ``10.1.0.0/16``; one without a mask is that address alone."""
    expected = "networks such as 10.0.0.5 or 10.1.0.0/16"
    items = text_list(r"[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?", expected)(raw)
    try:
        return tuple(ipaddress.ip_network(item) for item in items)
    except ValueError:
        raise ValueError(f"{expected}, without bits after the mask") from None


def address(raw: object) -> Address:
    """Read ``127.0.0.1:8420``, ``localhost:8420`` or ``[::1]:8420``."""
    pattern = r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253}):([0-9]{1,5})"
    found = re.fullmatch(pattern, raw.strip()) if isinstance(raw, str) else None
    if found is None or int(found[2]) > 65_535:
        raise ValueError("an address HOST:PORT, such as 127.0.0.1:8420")
    return Address(found[1].strip("[]"), int(found[2]))


def base_url(raw: object) -> str:
    """Read ``https://jobs.example.com`` or ``https://example.com/jobs``, without the last slash."""
    pattern = (
        r"https?://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9.-]{1,253})(:[0-9]{1,5})?(/[\w.~/-]{0,200})?"
    )
    text = raw.strip() if isinstance(raw, str) else ""
    if not re.fullmatch(pattern, text, re.ASCII):
        raise ValueError("a URL without user and query, such as https://jobs.example.com")
    return text.rstrip("/")


def database_url(raw: object) -> str:
    """Read ``postgresql://user@host/database``, unchanged; of SQLAlchemy's URLs the driver goes."""
    url = raw if isinstance(raw, str) else ""
    if not re.match(r"postgres(ql)?://\S", url):
        driver = re.match(r"postgres(?:ql)?(\+\w+)://", url)
        without = f", without {driver[1]}" if driver else ""
        raise ValueError(f"a URL such as postgresql://user@host:5432/database{without}")
    return url


def flag(raw: object) -> bool:
    """Read true or false, in a variable also as a word."""
    word = str(raw).lower() if isinstance(raw, bool | str) else ""
    if word not in ("true", "false"):
        raise ValueError("true or false")
    return word == "true"


def absolute_path(raw: object) -> str:
    """An absolute path; ``~`` is this user's home."""
    path = Path(str(raw)).expanduser() if isinstance(raw, str | Path) and str(raw) else Path()
    if not path.is_absolute():
        raise ValueError("an absolute path")
    return str(path)


def directory(raw: object) -> Path:
    """As `absolute_path`."""
    return Path(absolute_path(raw))


def texts(raw: object) -> tuple[str, ...]:
    """Read a list of strings unchanged."""
    items = raw if isinstance(raw, list | tuple) and len(raw) <= MAX_LIST_ITEMS else [None]
    if not all(isinstance(item, str) and "\0" not in item for item in items):
        raise ValueError(f"a list of strings, at most {MAX_LIST_ITEMS} and without NUL")
    return tuple(items)


class WrittenTime(NamedTuple):
    """A time as it was written: which instant it is depends on the zone and on now."""

    value: timedelta | time | datetime
    """How long ago or from now, a time of a day, or a datetime, aware if it has an offset."""
    day: int | None = None
    """Of a time of a day: days from today; None when no day was named."""

    def wall(self, now: datetime, zone: tzinfo | None, direction: int = -1) -> datetime:
        """Wall time in the zone (None: this machine's), or an aware datetime. A duration is so long
        ago, or with direction 1 from now. A time without a day is one of the zone's today.
        OverflowError.
        """
        if isinstance(self.value, timedelta):
            return now + direction * self.value
        if isinstance(self.value, datetime):
            return self.value
        day = now.astimezone(zone).date() + timedelta(days=self.day or 0)
        return datetime.combine(day, self.value)

    def last_wall(self, now: datetime, zone: tzinfo | None) -> datetime:
        """As `wall`, but a time without a day that is still to come is yesterday's."""
        found = self.wall(now, zone)
        is_clock = isinstance(self.value, time) and self.day is None
        if is_clock and found > now.astimezone(zone).replace(tzinfo=None):
            return found - timedelta(days=1)
        return found

    def at(self, now: datetime, zone: tzinfo | None, direction: int = -1) -> datetime:
        """The instant that `wall` is in the zone."""
        return attach(self.wall(now, zone, direction), zone)


def attach(moment: datetime, zone: tzinfo | None) -> datetime:
    """An aware datetime as it is; else wall time in the zone (None: this machine's)."""
    if moment.tzinfo is not None:
        return moment
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def read_time(text: str) -> WrittenTime:
    """``now``, ``2h``, ``18:30``, ``yesterday 03:00``, or a date and time by ISO 8601, with or
    without an offset. Raises `ValueError` for anything else.
    """
    words = text.strip()
    if words == "now":
        return WrittenTime(timedelta())
    with suppress(ValueError, OverflowError):
        return WrittenTime(timedelta(seconds=parse_duration(words.replace(" ", ""))))
    if clock := _CLOCK.fullmatch(words):
        return WrittenTime(time.fromisoformat(clock[2].rjust(5, "0")), _DAYS[clock[1]])
    return WrittenTime(datetime.fromisoformat(words))


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``; did you mean 'slots'?`` or an empty text: the end of a sentence about an unknown name."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{near[0]}'?" if near else ""
