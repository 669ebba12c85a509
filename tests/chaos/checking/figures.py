"""C9 and C10: how late, how fast again, how much: figures of one history or of several."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.chaos.checking.history import Execution, History
from tests.chaos.checking.invariants import outages

PHASES = ("before", "faults", "recovery", "after", "drain", "over")
_KILLED = -9


@dataclass
class Figures:
    """Seconds by what they measure; runs a second by phase; outcomes by delivery."""

    recovery: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    lateness: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    throughput: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    outcomes: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    executed_again: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def add(self, history: History) -> None:
        """Takes one more history."""
        spans = _spans_of_faults(history)
        for name, at, seconds in itertools.chain(
            _after_deaths(history),
            _after_freezes(history),
            _after_partitions(history),
            _after_restarts(history),
            _after_the_end(history),
        ):
            amid = sum(begin < at + seconds and end > at for begin, end in spans) > 1
            others = ", amid other faults" if amid else ""
            self.recovery[f"TTL {history.ttl:g} s: {name}{others}"].append(seconds)
        for phase, seconds in _lateness(history):
            self.lateness[phase].append(seconds)
        for seconds in _lateness_of_the_healthy(history):
            self.lateness["healthy schedules, but for server restarts and table locks"].append(
                seconds
            )
        for phase, rate in _throughput(history):
            self.throughput[phase].append(rate)
        for row in history.table("ended"):
            self.outcomes[row["delivery"]][row["outcome"]] += 1
            if len(history.executions_of.get(row["id"], [])) > 1:
                self.executed_again[row["delivery"]] += 1
        for event in history.of("fault"):
            if event["phase"] == "off":
                kind = "could not be done" if event["problem"] else event["name"]
                self.faults[f"{event['nemesis']} {kind}"] += 1


def quantile(values: Sequence[float], part: float) -> float:
    """The value that so much of them do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


_Recovery: TypeAlias = tuple[str, float, float]
"""What it was from, when it began, and how many seconds it took."""


def _spans_of_faults(history: History) -> list[tuple[float, float]]:
    """From the beginning to the end of each fault; one without an end has none."""
    ends = {e["number"]: e["at"] for e in history.of("fault") if e["phase"] == "off"}
    return [
        (event["at"], ends.get(event["number"], float("inf")))
        for event in history.of("fault")
        if event["phase"] == "on"
    ]


def _after_deaths(history: History) -> Iterator[_Recovery]:
    """From the kill of a node to the next start of what it executed, first attempts only."""
    spawns = [(event["node"], event["at"]) for event in history.of("spawn")]
    for death in history.of("death"):
        if death["code"] != _KILLED:
            continue
        at = death["at"]
        back = [when for name, when in spawns if name == death["node"] and when > at]
        is_back_soon = bool(back) and back[0] - at < history.ttl / 2
        what = "node killed, restarted at once" if is_back_soon else "node killed"
        for seconds in _next_starts(history, death["of"], at):
            yield what, at, seconds


def _after_freezes(history: History) -> Iterator[_Recovery]:
    for freezes in history.freezes.values():
        for freeze in freezes:
            if freeze.end - freeze.begin > 1.2 * history.ttl:
                for seconds in _next_starts(history, freeze.pid, freeze.begin):
                    yield "node frozen for longer than its lease", freeze.begin, seconds


def _after_partitions(history: History) -> Iterator[_Recovery]:
    heals: dict[str, list[float]] = defaultdict(list)
    for event in history.of("healed"):
        heals[event["node"]].append(event["at"])
    pids = _processes(history)
    cuts = list(history.of("cut"))
    for cut in cuts:
        together = [each for each in cuts if abs(each["at"] - cut["at"]) < 0.1]
        healed = [at for at in heals[cut["node"]] if at > cut["at"]]
        if len(together) > 1 or not healed or healed[0] - cut["at"] < 1.2 * history.ttl:
            continue
        for pid in pids.get(cut["node"], ()):
            for seconds in _next_starts(history, pid, cut["at"]):
                yield "node cut off for longer than its lease", cut["at"], seconds


def _after_restarts(history: History) -> Iterator[_Recovery]:
    what = "server takes connections again, to the first start"
    starts = [execution.began for execution in history.executions]
    for event in history.of("server"):
        if event["state"] == "up":
            after = [at for at in starts if at > event["at"]]
            if after:
                yield what, event["at"], after[0] - event["at"]


def _after_the_end(history: History) -> Iterator[_Recovery]:
    phases = history.phases
    if "drain" in phases and "over" in phases:
        paused = phases["drain"]
        yield "schedules paused, to nothing left alive", paused, phases["over"] - paused


def _next_starts(history: History, pid: int, at: float) -> Iterator[float]:
    """For each first attempt that executed in that process then: the start of its next one."""
    for executions in history.executions_of.values():
        for one, following in itertools.pairwise(executions):
            if _was_executing(one, pid, at) and one.attempt == 1 and following.began > at:
                yield following.began - at


def _was_executing(execution: Execution, pid: int, at: float) -> bool:
    if execution.pid != pid or execution.began > at:
        return False
    return not execution.has_completed and execution.heard > at - 0.5


def _processes(history: History) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in history.of("spawn"):
        found[event["node"]].append(event["of"])
    return found


def _lateness(history: History) -> Iterator[tuple[str, float]]:
    """From the fire time to the first start of its run."""
    for event in history.of("start"):
        if event.get("fire") is not None and event["attempt"] == 1:
            due = history.boottime_of(event["fire"])
            yield _phase_at(history, event["at"]), event["at"] - due


def _lateness_of_the_healthy(history: History) -> Iterator[float]:
    """Of schedules that nobody edits, locks or poisons, while the server is there."""
    hurt = [(begin, end + history.ttl) for begin, end in outages(history)]
    for event in history.of("start"):
        name = event.get("schedule") or "poison"
        if event.get("fire") is None or event["attempt"] != 1 or name.startswith(("e", "poison")):
            continue
        due = history.boottime_of(event["fire"])
        if not any(begin <= due <= end for begin, end in hurt):
            yield event["at"] - due


def _throughput(history: History) -> Iterator[tuple[str, float]]:
    ends = Counter(_phase_at(history, event["at"]) for event in history.of("end"))
    for phase, following in itertools.pairwise(PHASES):
        if phase in history.phases and following in history.phases:
            seconds = history.phases[following] - history.phases[phase]
            if seconds > 0:
                yield phase, ends[phase] / seconds


def _phase_at(history: History, at: float) -> str:
    begun = [name for name in PHASES if history.phases.get(name, float("inf")) <= at]
    return begun[-1] if begun else "start"


def figures_of(histories: Iterable[History]) -> Figures:
    """All of them together."""
    figures = Figures()
    for history in histories:
        figures.add(history)
    return figures
