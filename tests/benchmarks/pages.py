"""What pages cost when history is long: every list, filter and page from far back, over HTTP.

Each page is asked for by one visitor of a real ``pgcron-ha web``, never twice within the second for
which what was read is shared, so every answer is read and drawn anew. The baseline is the same page
of a cluster of a thousandth of the history, in the same round. What a role within a scope adds is
measured beside a role for everything, in one more round. Then as many open overviews as the
sizes say ask again as the page's script does, and one, and the server's statements are counted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heappop, heappush
from typing import Final

import asyncpg

from tests.benchmarks import machine, page_rows
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.page_addresses import addresses
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.statement_log import logged, server_log, statements
from tests.benchmarks.web_process import Answer, WebProcess
from tests.product.db import load
from tests.product.web import LIFE_SECONDS, REFRESH_SECONDS

_SMALLER: Final = 1_000
_LEAST_ROWS: Final = 1_000
_LEAST_SCHEDULES: Final = 120
_MOST_MS: Final = 100.0
_GOAL: Final = f"≤ {_MOST_MS:g}"
_ROUND_SECONDS: Final = LIFE_SECONDS + 0.1
# What somebody within a scope opens: the first page of each list, and what is looked for in it.
_OF_A_TEAM: Final = (
    *("overview", "runs", "runs, state attention", "runs, handler py:job_119", "schedule, busy"),
    *("schedules", "schedules, health failing", "dead letters", "dead letters, state all"),
)
# What a plan of a statement looks like in the server's log.
_PLAN: Final = re.compile(r"LOG:  duration: ([\d.]+) ms  plan:\n((?:\t.*\n)+)")
_REPORTED_PLAN_LINES: Final = 60


@dataclass(frozen=True)
class Planned:
    """One statement as the server executed it: milliseconds, and its plan with buffers."""

    name: str
    milliseconds: float
    plan: str


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """All pages in turn, so that a slow moment of the machine falls on each of them."""
    result = Result(
        "pages",
        f"the same page with a {_SMALLER}th of the history",
        {
            "history": sizes.page_history,
            "schedules": sizes.page_schedules,
            "waiting": sizes.page_waiting,
            "samples": sizes.page_samples,
        },
    )
    async with ground.place() as place, ground.place() as small_place:
        began = time.monotonic()
        await page_rows.fill(
            place.observer, sizes.page_history, sizes.page_schedules, sizes.page_waiting
        )
        result.details["seconds to fill"] = time.monotonic() - began
        rows = max(sizes.page_history // _SMALLER, _LEAST_ROWS)
        await page_rows.fill(small_place.observer, rows, _LEAST_SCHEDULES, 100)
        result.add("select 1, p50", await _round_trip(place.observer), "ms")
        await _add_pages(result, place, small_place, sizes.page_samples)
        await _add_scope(result, place, sizes.page_samples)
        await _add_viewers(result, place, sizes)
    return result.finished()


@dataclass
class Samples:
    """Of one page: milliseconds until it was there, and of processor time of web and server."""

    first: float = 0.0
    taken: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def as_json(self) -> dict[str, float | None]:
        """Percentiles."""
        return {
            "first": self.first,
            "p50": percentile(self.taken, 0.5),
            "p95": percentile(self.taken, 0.95),
            "worst": percentile(self.taken, 1.0),
            "CPU p50": percentile(self.cpu, 0.5),
        }


class Clocked:
    """A web and its visitor; what a request cost is read from the kernel."""

    def __init__(
        self, web: WebProcess, place: Place, paths: Mapping[str, str], user: str | None = None
    ) -> None:
        self._web = web
        self._visitor = web.visitor(user)
        self._server = place.postmaster
        self._processes: list[int] = []
        self.paths = paths
        self.samples = {page: Samples() for page in paths}

    def look_for_processes(self) -> None:
        """The web, and the backends of its connections, which come and go seldom."""
        backends = [] if self._server is None else machine.children(self._server)
        self._processes = [self._web.pid, *backends]

    def ask(self, page: str, *, is_first: bool) -> None:
        """One more sample; the first, for which statements are planned, is kept apart."""
        before = self._cpu()
        taken = _taken(page, self._visitor.get(self.paths[page]))
        samples = self.samples[page]
        if is_first:
            samples.first = taken
        else:
            samples.taken.append(taken)
            samples.cpu.append((self._cpu() - before) * 1000)

    def close(self) -> None:
        """Ends the visit."""
        self._visitor.close()

    def _cpu(self) -> float:
        return sum(machine.fine_cpu_seconds(each) for each in self._processes)


async def _add_pages(result: Result, place: Place, small_place: Place, samples: int) -> None:
    paths, small_paths = [await addresses(each.observer) for each in (place, small_place)]
    with WebProcess(place.dsn) as web, WebProcess(small_place.dsn) as small_web:
        measured, base = Clocked(web, place, paths), Clocked(small_web, small_place, small_paths)
        await asyncio.to_thread(_sample, measured, base, samples)
        memory = machine.peak_memory_bytes(web.pid)
    slow = []
    for page, seen in measured.samples.items():
        value, other = (percentile(each.samples[page].taken, 0.95) for each in (measured, base))
        result.add(f"{page}, p95", value, "ms", other, _GOAL)
        slow += [page] if value is None or value > _MOST_MS else []
        result.details[page] = seen.as_json()
    _add_cpu(result, measured, base)
    result.add("peak memory of the web", memory / 1e6, "MB")
    await _add_plans(result, place, paths, slow)


async def _add_scope(result: Result, place: Place, samples: int) -> None:
    """What pages cost who sees one team of forty, beside who sees everything."""
    await place.observer.execute("""
        INSERT INTO pgcron.role_grant (subject_kind, subject, role, scope_kind, scope)
        VALUES ('user', 'one', 'viewer', 'team', 'team-1'), ('user', 'all', 'viewer', 'all', '*')
        """)
    own_run = await place.observer.fetchval(
        "SELECT max(id) FROM pgcron.history WHERE schedule = 'team-1/job-1'"
    )
    known = await addresses(place.observer)
    paths = {"run": f"/runs/{own_run}"} | {page: known[page] for page in _OF_A_TEAM}
    with WebProcess(place.dsn, behind_proxy=True) as web:
        one, every = Clocked(web, place, paths, "one"), Clocked(web, place, paths, "all")
        await asyncio.to_thread(_sample, one, every, samples)
    for page, seen in one.samples.items():
        other = percentile(every.samples[page].cpu, 0.5)
        name = f"CPU for a viewer of one team (baseline: of everything), {page}, p50"
        result.add(name, percentile(seen.cpu, 0.5), "ms", other, "≤ 1.1 ×")
        result.details[f"{page}, one team"] = seen.as_json()


def _add_cpu(result: Result, measured: Clocked, base: Clocked) -> None:
    """What no other load of the machine adds to: of the dearest overview, and the dearest list."""
    for word, is_overview in (("overview", True), ("list", False)):
        pages = [page for page in measured.paths if page.startswith("overview") == is_overview]
        costs = {page: percentile(measured.samples[page].cpu, 0.5) or 0.0 for page in pages}
        dearest = max(costs, key=lambda page: costs[page])
        other = percentile(base.samples[dearest].cpu, 0.5)
        name = f"CPU of web and server, dearest {word} ({dearest}), p50"
        result.add(name, costs[dearest], "ms", other, _GOAL)


def _sample(measured: Clocked, base: Clocked, samples: int) -> None:
    """In turn; no page is asked for twice within the second for which it is remembered."""
    for number in range(samples + 1):
        began = time.monotonic()
        for each in (measured, base):
            each.look_for_processes()
        for page in measured.paths:
            for each in (measured, base):
                each.ask(page, is_first=number == 0)
        time.sleep(max(0.0, began + _ROUND_SECONDS - time.monotonic()))
    measured.close()
    base.close()


def _taken(page: str, answer: Answer) -> float:
    """Raises RuntimeError for what is no page, so that no error is taken for a fast one."""
    if answer.status != 200:
        text = re.sub(r"<[^>]*>|\s+", " ", answer.text.partition("<main")[2])
        raise RuntimeError(f"{page}: {answer.status} {text[:300]}")
    return answer.seconds * 1000


async def _add_plans(
    result: Result, place: Place, paths: Mapping[str, str], slow: Sequence[str]
) -> None:
    """The slowest statement of each page, and its plan where the page is too slow."""
    if not await _explains(place):
        return
    reported = result.details.setdefault("slowest statement", {})
    with WebProcess(place.dsn) as web:
        visitor = web.visitor()
        # Nothing is planned anew the second time, which alone counts.
        for path in paths.values():
            await asyncio.to_thread(visitor.get, path)
        await asyncio.sleep(_ROUND_SECONDS)
        for page, path in paths.items():
            before = len(server_log(place))
            await asyncio.to_thread(visitor.get, path)
            found = _planned(server_log(place)[before:])
            if not found:
                continue
            worst = max(found, key=lambda each: each.milliseconds)
            every = sum(each.milliseconds for each in found)
            reported[page] = f"{worst.name}: {worst.milliseconds:.1f} of {every:.1f} ms"
            if page in slow:
                result.notes.append(f"{page}: {reported[page]} of statements, planned as")
                lines = worst.plan.splitlines()
                begin = next((at for at, line in enumerate(lines) if "(cost=" in line), 0)
                result.notes += lines[begin : begin + _REPORTED_PLAN_LINES]
        visitor.close()


async def _explains(place: Place) -> bool:
    """Whether the server can write down plans; new connections do so from now on."""
    try:
        await place.observer.execute("LOAD 'auto_explain'")
    except asyncpg.PostgresError:
        return False
    database = await place.observer.fetchval("SELECT current_database()")
    for setting in (
        "session_preload_libraries = 'auto_explain'",
        "auto_explain.log_min_duration = 0",
        "auto_explain.log_analyze = on",
        "auto_explain.log_timing = off",
        "auto_explain.log_buffers = on",
    ):
        await place.observer.execute(f"ALTER DATABASE {database} SET {setting}")
    return True


def _planned(text: str) -> list[Planned]:
    return [
        Planned(_statement_name(block), float(milliseconds), block)
        for milliseconds, block in _PLAN.findall(text)
    ]


def _statement_name(block: str) -> str:
    reported = re.sub(r"\s+", " ", block)
    return next((name for name, sql in _known() if sql in reported), "another statement")


@lru_cache(maxsize=1)
def _known() -> list[tuple[str, str]]:
    return [(name, re.sub(r"\s+", " ", each.sql)) for name, each in load().items()]


async def _add_viewers(result: Result, place: Place, sizes: Sizes) -> None:
    """Open overviews that ask again, evenly spread, and one alone."""
    seconds = sizes.page_viewer_seconds
    name = await place.observer.fetchval("SELECT current_database()")
    await place.observer.execute(f"ALTER DATABASE {name} RESET ALL")
    rates: dict[int, tuple[float, float | None, float]] = {}
    with WebProcess(place.dsn) as web:
        for viewers in (1, sizes.page_viewers):
            async with logged(place):
                # Connected and planned before it is counted, and what was read is old.
                await asyncio.to_thread(_watched, web, 1, REFRESH_SECONDS)
                before, server = len(statements(place)), place.server_cpu()
                worker = machine.cpu_seconds(web.pid)
                await asyncio.to_thread(_watched, web, viewers, seconds)
                found = statements(place)[before:]
            used = difference(server, place.server_cpu())
            worker = machine.cpu_seconds(web.pid) - worker
            share = None if used is None else used / seconds * 100
            rates[viewers] = (len(found) / seconds, share, worker / seconds * 100)
            result.details[f"statements of {viewers} open overviews"] = dict(
                Counter(found).most_common()
            )
    one, many = rates[1], rates[sizes.page_viewers]
    words = f"{sizes.page_viewers} open overviews (baseline: one)"
    result.add(f"statements of {words}", many[0], "1/s", one[0], "as one")
    result.add(f"CPU of the server, {words}", many[1], "% of a core", one[1])
    result.add(f"CPU of the web, {words}", many[2], "% of a core", one[2])


def _watched(web: WebProcess, viewers: int, seconds: float) -> None:
    """Each asks anew `REFRESH_SECONDS` after an answer, as the script of the page does."""
    began = time.monotonic()
    waiting = [
        (began + number * REFRESH_SECONDS / viewers, number, web.visitor())
        for number in range(viewers)
    ]
    while waiting[0][0] < began + seconds:
        due, number, visitor = heappop(waiting)
        time.sleep(max(0.0, due - time.monotonic()))
        _taken("overview", visitor.get("/", is_live=True))
        heappush(waiting, (time.monotonic() + REFRESH_SECONDS, number, visitor))
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    for _, _, visitor in waiting:
        visitor.close()


async def _round_trip(connection: asyncpg.Connection) -> float | None:
    times = []
    for _ in range(100):
        began = time.perf_counter()
        await connection.fetchval("SELECT 1")
        times.append((time.perf_counter() - began) * 1000)
    return percentile(times, 0.5)
