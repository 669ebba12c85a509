"""The worst single parse and the worst single next fire, whatever the spec, zone and policy.

Every input is timed with cold caches and with warm ones; what others do to the machine is taken out
by the best of a few repeats. The baseline is croniter alone with the same expression, where it
takes it.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from croniter import croniter

from pgcron_ha.errors import PgcronError
from tests.benchmarks.figures import Result
from tests.benchmarks.place import Ground
from tests.benchmarks.sizes import Sizes
from tests.product.spec import DstPolicy, expression, parse_spec, zones
from tests.product.spec import spec as specs

_LIST: Final = ",".join(map(str, range(0, 60, 1)))
SPECS: Final = (
    "* * * * *",
    "0 3 * * *",
    "*/5 * * * mon-fri",
    "30 2 * 3 sun#2",
    "0 0 29 2 *",
    "0 0 29 2 mon",
    "0 0 29 2 sun#5",
    "0 0 31 2 *",
    "0 0 30 2 1",
    "59 59 23 31 12 sun#5",
    "0 0 L * *",
    "0 0 LW * *",
    "0 0 L-3 2 5L",
    "0 0 31W * *",
    "0 12 1W,15W,L * mon#1,fri#3",
    f"{_LIST} {_LIST} * * * *",
    f"{_LIST} 1,3,5,7,9,11 1-31/2 1-12/5 1-6/2",
    f"{_LIST},{_LIST},{_LIST},{_LIST} * * * *",
    "*/61 * * * *",
    "0 0 1 1 *",
    "@yearly",
    "every 1s from 1970-01-01T00:00Z",
    "every 366d from 1970-01-01T00:00Z",
    "at 2090-12-24T18:00Z",
    "0 0 29 2 mon\n0 0 29 2 tue\n0 0 29 2 wed\nnot * * * * *",
    "* * * * * *\nnot * * * * *",
    "* * * * *\nnot * 0-22 * * *",
    "x" * 4000,
    "0 " * 1000,
    "*" * 1000 + " * * * *",
    "-".join(["1"] * 500) + " * * * *",
)
ZONES: Final = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Pacific/Apia",
    "Antarctica/Troll",
    "Asia/Gaza",
)
INSTANTS: Final = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 3, 29, 0, 59, 59, tzinfo=UTC),
    datetime(2096, 3, 1, tzinfo=UTC),
)
_SHOWN: Final = 60


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """All combinations of the lists above."""
    zones_used = ZONES if sizes.fire_time_repeats > 1 else ZONES[:2]
    result = Result(
        "fire_times",
        "croniter alone (its parse, its next), in UTC",
        {
            "specs": len(SPECS),
            "zones": len(zones_used),
            "instants": len(INSTANTS),
            "policies": len(DstPolicy),
            "best of": sizes.fire_time_repeats,
        },
    )
    parses: dict[str, float] = {}
    nexts: dict[str, float] = {}
    warm: dict[str, float] = {}
    for text, zone, policy in itertools.product(SPECS, zones_used, DstPolicy):
        _measure_spec(text, zone, policy, sizes.fire_time_repeats, parses, nexts, warm)
    base_parse, base_next = _baseline(sizes.fire_time_repeats)
    for name, found, base, goal in (
        ("worst parse, cold", parses, base_parse, "≤ 50"),
        ("worst next, cold", nexts, base_next, "≤ 50"),
        ("worst next, warm", warm, base_next, "≤ 50"),
    ):
        worst = max(found, key=lambda key: found[key])
        result.add(name, found[worst] * 1000, "ms", max(base.values()) * 1000, goal)
        result.details[name] = worst
        slowest = max(base, key=lambda key: base[key])
        result.details[f"{name}: baseline"] = slowest
    return result.finished()


def _measure_spec(
    text: str,
    zone: str,
    policy: DstPolicy,
    repeats: int,
    parses: dict[str, float],
    nexts: dict[str, float],
    warm: dict[str, float],
) -> None:
    key = f"{text[:_SHOWN]!r} in {zone}, {policy}"
    parses[key] = _best(repeats, lambda: _refused(lambda: parse_spec(text, zone, policy)))
    try:
        spec = parse_spec(text, zone, policy)
    except PgcronError:
        return
    for instant in INSTANTS:
        after = f"{key}, after {instant:%Y-%m-%d}"
        nexts[after] = _best(repeats, lambda at=instant: spec.next(at))  # type: ignore[misc]
        again = [_seconds(lambda at=instant: spec.next(at)) for _ in range(repeats)]  # type: ignore[misc]
        warm[after] = min(again)


def _baseline(repeats: int) -> tuple[dict[str, float], dict[str, float]]:
    parses: dict[str, float] = {}
    nexts: dict[str, float] = {}
    for text in SPECS:
        if not _is_croniter(text):
            continue
        key = text[:_SHOWN]
        parses[key] = _best(repeats, lambda each=text: croniter.expand(each))  # type: ignore[misc]
        for instant in INSTANTS:
            nexts[f"{key}, after {instant:%Y-%m-%d}"] = _best(
                repeats,
                lambda each=text, at=instant: _refused(  # type: ignore[misc]
                    lambda: croniter(each, at).get_next(datetime)
                ),
            )
    return parses, nexts


def _is_croniter(text: str) -> bool:
    # Its six fields have the seconds last: they would be another schedule.
    return len(text) < 1000 and len(text.split()) == 5 and croniter.is_valid(text)


def _best(repeats: int, work: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(repeats):
        _forget()
        seconds.append(_seconds(work))
    return min(seconds)


def _seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _refused(work: Callable[[], Any]) -> None:
    try:
        work()
    except (PgcronError, ValueError):
        pass  # a refusal is an answer too


def _forget() -> None:
    """Empties the engine's caches, zones included."""
    for module in (expression, specs, zones):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
    gc.collect(0)
