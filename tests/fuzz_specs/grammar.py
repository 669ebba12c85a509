"""Texts of schedules, chosen by a seed: all kinds of lines, in all combinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Final, TypeVar

from tests.product.spec import Calendars, DstPolicy, zone_names

_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_ZONES: Final = ("UTC", "Europe/Berlin", "America/New_York", "Africa/Casablanca", "Asia/Beirut")
_Any = TypeVar("_Any")
_LATE: Final = (*[0] * 6, 60, 86_400, 86_400 * 100, 86_400 * 3000)
_EPOCH: Final = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Case:
    """One schedule, as far as it says when it fires."""

    spec: str
    timezone: str
    dst: DstPolicy
    calendars: Calendars
    catchup: str
    delay: timedelta
    late: timedelta
    """How far behind the schedule is."""
    now: datetime


class Grammar:
    """Chooses cases; the same seed chooses the same."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._all_zones = sorted(zone_names())

    def case(self) -> Case:
        """The next one."""
        names = [f"c{number}" for number in range(self._number(1, 3))]
        lines = [self._rule() for _ in range(self._few(4))]
        lines += [self._exclusion() for _ in range(self._few(3) - 1)]
        lines += [self._calendar_use(names) for _ in range(self._few(3) - 1)]
        lines += [f"from {self._instant()}"] * self._often(0.1)
        lines += [f"until {self._instant()}"] * self._often(0.1)
        calendars = [(name, self._calendar(names[:at])) for at, name in enumerate(names)]
        return Case(
            spec="\n".join(lines),
            timezone=self._one(self._all_zones if self._often(0.05) else _ZONES),
            dst=self._one(tuple(DstPolicy)),
            calendars=tuple(calendars),
            catchup=self._one(("latest", "latest 5", "latest 100", "all", "none", "latest")),
            delay=timedelta(seconds=self._one((0, 0, 0, 30, 3600, 86_400))),
            late=timedelta(seconds=self._one(_LATE)),
            now=datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._number(0, 900_000_000)),
        )

    def _rule(self) -> str:
        kind = self._number(0, 9)
        if kind < 4:
            return self._cron()
        if kind < 7:
            return self._recurrence()
        if kind == 7:
            begin = f" from {self._instant()}Z" if self._often(0.3) else ""
            return f"every {self._duration()}{begin}"
        if kind == 8:
            begin = f" from {self._instant()}" if self._often(0.3) else ""
            step = self._one((2, 3, 7, 97, 1000, 10_000))
            return f"every {step}th of {self._cron()}{begin}"
        return self._one((f"at {self._instant()}", "@daily~", "@weekly~", "@monthly", "@hourly~"))

    def _cron(self) -> str:
        fields = [
            self._field(0, 59),
            self._field(0, 23),
            self._day_field(),
            self._named_field(1, 12, _MONTHS),
            self._weekday_field(),
        ]
        return " ".join([self._field(0, 59), *fields] if self._often(0.15) else fields)

    def _field(self, low: int, high: int) -> str:
        items = []
        for _ in range(self._few(4)):
            first = self._number(low, high)
            last = self._number(first, high)
            step = self._number(1, high)
            forms = ("*", f"{first}", f"{first}", f"{first}-{last}", f"*/{step}")
            items.append(self._one((*forms, f"{first}-{last}/{step}", f"{first}/{step}")))
        return ",".join(items)

    def _day_field(self) -> str:
        if self._often(0.4):
            return "*"
        number = self._number(1, 31)
        special = self._one(("L", "LW", f"L-{min(number, 30)}", f"{number}W", "29", "30", "31"))
        return special if self._often(0.4) else self._field(1, 31)

    def _weekday_field(self) -> str:
        if self._often(0.4):
            return "*"
        day, place = self._number(0, 7), self._number(1, 5)
        special = self._one((f"{day}#{place}", f"{day}L", f"fri#{place}", "sat,sun", "mon-fri"))
        return special if self._often(0.4) else self._field(0, 7)

    def _named_field(self, low: int, high: int, names: tuple[str, ...]) -> str:
        if self._often(0.5):
            return "*"
        return self._one(names) if self._often(0.3) else self._field(low, high)

    def _recurrence(self) -> str:
        parts = [f"FREQ={self._one(('YEARLY', 'MONTHLY', 'WEEKLY', 'DAILY'))}"]
        counted = self._often(0.1)
        choices: dict[str, tuple[float, Callable[[], str]]] = {
            "INTERVAL": (0.4, lambda: str(self._one((2, 3, 5, 7, 24, 25, 52, 100, 999, 1000)))),
            "COUNT": (float(counted), lambda: str(self._number(1, 1000))),
            "UNTIL": (
                0.0 if counted else 0.1,
                lambda: f"{self._number(2020, 2090)}0{self._number(1, 9)}15",
            ),
            "BYMONTH": (0.3, lambda: self._numbers(1, 12, False)),
            "BYMONTHDAY": (0.25, lambda: self._numbers(1, 31, True)),
            "BYDAY": (0.4, self._by_day),
            "BYHOUR": (0.3, lambda: self._numbers(0, 23, False)),
            "BYMINUTE": (0.3, lambda: self._numbers(0, 59, False)),
            "BYSECOND": (0.15, lambda: self._numbers(0, 59, False)),
            "BYSETPOS": (0.25, lambda: self._numbers(1, self._one((4, 31, 366)), True)),
            "WKST": (0.2, lambda: self._one(_DAYS)),
        }
        parts += [
            f"{name}={make()}" for name, (chance, make) in choices.items() if self._often(chance)
        ]
        begin = f" from {self._instant()}" if counted or self._often(0.3) else ""
        return f"rrule {';'.join(parts)}{begin}"

    def _by_day(self) -> str:
        ordinal = self._one(("", "", "mixed"))
        return ",".join(
            f"{self._one((1, 2, 5, -1, -5, 6, 10, 53, -53)) if ordinal else ''}{self._one(_DAYS)}"
            for _ in range(self._few(4))
        )

    def _numbers(self, low: int, high: int, is_signed: bool) -> str:
        if self._often(0.05):
            return ",".join(str(number) for number in range(low, min(high, 40) + 1))
        signs = (1, -1) if is_signed else (1,)
        numbers = [self._one(signs) * self._number(low, high) for _ in range(self._few(5))]
        return ",".join(map(str, numbers))

    def _exclusion(self) -> str:
        kind = self._number(0, 3)
        if kind == 0:
            first = _EPOCH + timedelta(days=self._number(20_000, 25_000))
            last = first + timedelta(days=self._one((0, 7, 400, 4000)))
            return f"not {first:%Y-%m-%d}..{last:%Y-%m-%d}"
        return f"not at {self._instant()}" if kind == 1 else f"not {self._cron()}"

    def _calendar_use(self, names: list[str]) -> str:
        move = self._one(("", ", move next", ", move previous", ", move next"))
        return f"{self._one(('not', 'only'))} in {self._one(names)}{move}"

    def _calendar(self, others: list[str]) -> str:
        return "\n".join(self._calendar_line(others) for _ in range(self._few(4)))

    def _calendar_line(self, others: list[str]) -> str:
        month, day = self._number(1, 12), self._number(1, 28)
        first = _EPOCH + timedelta(days=self._number(20_000, 25_000))
        line = self._one(
            (
                f"yearly {month:02}-{day:02}",
                f"yearly {month:02}-{day:02}..{self._number(1, 12):02}-28",
                "yearly 02-29",
                f"yearly {month:02}-{self._one(_WEEKDAYS)}#{self._one((1, 4, 5, 'L'))}",
                f"yearly easter{self._number(-60, 60):+}",
                f"{first:%Y-%m-%d}",
                f"{first:%Y-%m-%d}..{first + timedelta(days=self._number(0, 3000)):%Y-%m-%d}",
                "sat,sun",
                self._one(_WEEKDAYS),
                "mon-fri",
                f"calendar {self._one(others)}" if others else "sun",
            )
        )
        return f"not {line}" if self._often(0.15) else line

    def _instant(self) -> str:
        at = _EPOCH + timedelta(seconds=self._number(0, 86_400 * 30_000) // 60 * 60)
        return f"{at:%Y-%m-%dT%H:%M:%S}"

    def _duration(self) -> str:
        forms = ("1s", "7s", "1m", "5m", "7m", "61m", "1h30m", "1d", "25h", "366d")
        return self._one((*forms, f"{self._number(1, 100_000)}s"))

    def _one(self, of: Sequence[_Any]) -> _Any:
        return self._random.choice(of)

    def _number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def _few(self, most: int) -> int:
        """1 mostly."""
        return min(self._number(1, most), self._number(1, most), self._number(1, most))

    def _often(self, chance: float) -> bool:
        return self._random.random() < chance
