"""Numbers, times and lists as English sentences write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Final

# A longer list is cut: a sentence is read, and the fires that follow it are exact.
MOST_ITEMS: Final = 8

WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_MILLISECONDS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
_BYTES: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNTED: Final = ("", "first", "second", "third", "fourth", "fifth")

_TYPES: Final = {bool: "true or false", int: "a number", float: "a number", str: "text"}


def type_words(value: object) -> str:
    """What a value is that is to be something else: ``a number``, ``a list``, ``an Error``."""
    if isinstance(value, Mapping):
        return "a mapping"
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    return _TYPES.get(type(value)) or ("nothing" if value is None else f"{article} {name}")


def listed(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of more than `MOST_ITEMS` the rest is counted."""
    if len(items) > MOST_ITEMS:
        rest = len(items) - MOST_ITEMS + 1
        items = [*items[: MOST_ITEMS - 1], f"{rest} more"]
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def stretches_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each stretch of neighbours; the numbers ascend."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = found[-1][0], number
        else:
            found.append((number, number))
    return found


def runs_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """As `stretches_of`, but two neighbours alone are two."""
    parts: list[tuple[int, int]] = []
    for first, last in stretches_of(numbers):
        parts += [(first, first), (last, last)] if last - first == 1 else [(first, last)]
    return parts


def ranges(
    numbers: Iterable[int], words: Sequence[str] | None = None, between: str = " to "
) -> list[str]:
    """``1 to 5``, ``9``; or ``Monday to Friday``; ``1-5`` with a hyphen between them."""
    runs = ([str(n) if words is None else words[n] for n in run] for run in runs_of(numbers))
    return [low if low == high else f"{low}{between}{high}" for low, high in runs]


def ranged(numbers: Iterable[int], words: Sequence[str] | None = None) -> str:
    """``1 to 5 and 9``, or ``Monday to Friday``."""
    return listed(ranges(numbers, words))


def duration_text(length: timedelta | float) -> str:
    """``1h30m``, ``500ms``, ``0s``: as specs, files and settings write it, to the millisecond; a
    number is seconds.
    """
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    left = round(seconds * 1000)
    parts = []
    for unit, size in _MILLISECONDS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def in_number(count: int, word: str, words: str | None = None) -> str:
    """``run`` for one, else ``runs``; ``words`` where an s is not enough."""
    return word if count == 1 else words or word + "s"


def in_bytes(count: float, gap: str = " ") -> str:
    """``0 B``, ``8.0 KiB``, ``1.2 GiB``, ``340 MiB``."""
    size, unit = float(count), 0
    while size >= 1023.95 and unit < len(_BYTES) - 1:
        size, unit = size / 1024, unit + 1
    digits = 1 if unit and size < 99.95 else 0
    return f"{size:.{digits}f}{gap}{_BYTES[unit]}"


def ordinal(number: int) -> str:
    """``1st``, ``22nd``, ``13th``."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


def counted(number: int) -> str:
    """``the second``, ``the last``, ``the third from the end``."""
    if number == -1:
        return "the last"
    position = abs(number)
    word = _COUNTED[position] if position < len(_COUNTED) else ordinal(position)
    return f"the {word} from the end" if number < 0 else f"the {word}"


def step_of(numbers: Sequence[int], first: int, end: int) -> int | None:
    """n, when the numbers are every nth from ``first`` up to below ``end``: at least three."""
    if len(numbers) < 3 or numbers[0] != first:
        return None
    step = numbers[1] - first
    return step if step > 1 and tuple(numbers) == tuple(range(first, end, step)) else None


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC, with the fraction of the second that there is: ``2026-11-21T02:00:00Z``."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def clock(at: time | datetime) -> str:
    """``18:00``, with seconds if there are some."""
    return f"{at:%H:%M:%S}" if at.second else f"{at:%H:%M}"


def moment(instant: datetime) -> str:
    """``2026-12-24 18:00``, with seconds if there are some."""
    return f"{instant:%Y-%m-%d} {clock(instant)}"
