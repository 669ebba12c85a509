"""One history of a chaos run: what everybody wrote down, and what the tables said afterwards.

Checkers are pure functions of it. Instants are CLOCK_BOOTTIME seconds; those of the tables are
seconds since the epoch, `History.boottime_of` turns them round.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from tests.chaos import record

Facts: TypeAlias = dict[str, Any]

_LOG_ENTRY = re.compile(
    r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \S+ \[\d+\] (?!DETAIL|HINT|CONTEXT|QUERY|STATEMENT)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Freeze:
    """A process that could not execute from `begin` to `end`."""

    pid: int
    begin: float
    end: float


@dataclass(frozen=True)
class Execution:
    """One claim that began to execute; `heard` is its last line, `how` it ended, if it did."""

    run: int
    attempt: int
    fence: int
    pid: int
    node: str
    concurrency_key: str | None
    began: float
    heard: float
    how: str | None
    gate: str | None = None
    step: str | None = None

    @property
    def has_completed(self) -> bool:
        """Whether the handler did all of its work."""
        return self.how == "end"


@dataclass
class History:
    """`events` by time, `tables` by name, what the server and the nodes logged."""

    events: list[Facts] = field(default_factory=list)
    tables: dict[str, list[Facts]] = field(default_factory=dict)
    server_log: list[str] = field(default_factory=list)
    node_events: list[Facts] = field(default_factory=list)
    ttl: float = 2.0

    def __post_init__(self) -> None:
        self.events.sort(key=lambda event: float(event["at"]))
        for event in self.of("phase"):
            self.ttl = event.get("ttl", self.ttl)

    def of(self, *kinds: str) -> Iterator[Facts]:
        """The events of these kinds, by time."""
        return (event for event in self.events if event["kind"] in kinds)

    def table(self, name: str) -> list[Facts]:
        """The rows of one table; empty when it was not read."""
        return self.tables.get(name, [])

    @cached_property
    def offset(self) -> float:
        """Wall clock minus boottime, as the watch saw it."""
        middle: float = median([look["offset"] for look in self.of("look")] or [0.0])
        return middle

    @cached_property
    def slack(self) -> float:
        """By how much the server's clock may have been wrong, as it was set."""
        return max((abs(event["seconds"]) + 1 for event in self.of("clock")), default=0.0)

    def boottime_of(self, instant: float) -> float:
        """From the epoch's seconds."""
        return instant - self.offset

    @cached_property
    def executions(self) -> list[Execution]:
        """Every claim that began, by its beginning."""
        claims: dict[tuple[int, int], list[Facts]] = defaultdict(list)
        for event in self.of("start", "tick", "end", "stopped"):
            claims[event["run"], event["fence"]].append(event)
        found = [_execution(events) for events in claims.values() if events[0]["kind"] == "start"]
        return sorted(found, key=lambda each: each.began)

    @cached_property
    def executions_of(self) -> dict[int, list[Execution]]:
        """By run, each list by beginning."""
        runs: dict[int, list[Execution]] = defaultdict(list)
        for execution in self.executions:
            runs[execution.run].append(execution)
        return runs

    @cached_property
    def freezes(self) -> dict[int, list[Freeze]]:
        """By process; a freeze without a thaw lasts as long as it was meant to."""
        found: dict[int, list[Freeze]] = defaultdict(list)
        thaws: dict[int, list[float]] = defaultdict(list)
        for event in self.of("thaw"):
            thaws[event["of"]].append(event["at"])
        for event in self.of("freeze"):
            pid, begin = event["of"], event["at"]
            meant = begin + event["seconds"]
            later = [at for at in thaws[pid] if at >= begin]
            end = max(meant, min(later)) if later else meant
            found[pid].append(Freeze(pid, begin, end))
        return found

    @cached_property
    def phases(self) -> dict[str, float]:
        """When each phase began."""
        return {event["name"]: event["at"] for event in self.of("phase")}

    def answers(self) -> dict[int, Facts]:
        """What clients asked, each with ``result``, ``value``, ``until`` (when it was settled)."""
        asked = {event["op"]: dict(event) for event in self.of("ask")}
        for facts in asked.values():
            facts |= {"result": "unknown", "value": None, "until": None}
        for event in self.of("answer"):
            facts = asked[event["op"]]
            facts |= {"result": event["result"], "value": event["value"], "until": event["at"]}
        return asked


def load(folder: Path) -> History:
    """What a chaos run has left in its folder."""
    tables = folder / "tables.json"
    log = folder / "server.log"
    return History(
        list(record.read(folder / "evidence.jsonl")),
        json.loads(tables.read_text()) if tables.exists() else {},
        entries(log.read_text(errors="replace")) if log.exists() else [],
        list(_node_events(sorted(folder.glob("n*.log")))),
    )


def entries(log: str) -> list[str]:
    """The server's log, several lines of one message together."""
    starts = [match.start() for match in _LOG_ENTRY.finditer(log)]
    ends = [*starts[1:], len(log)]
    return [log[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _node_events(logs: Iterable[Path]) -> Iterator[Facts]:
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith("{"):
                try:
                    yield json.loads(line) | {"log": log.name}
                except ValueError:
                    continue


def _execution(events: list[Facts]) -> Execution:
    first, last = events[0], events[-1]
    ends = [event["kind"] for event in events if event["kind"] in ("end", "stopped")]
    return Execution(
        first["run"],
        first["attempt"],
        first["fence"],
        first["pid"],
        first["node"],
        first.get("concurrency_key"),
        first["at"],
        last["at"],
        ends[-1] if ends else None,
        first.get("gate"),
        first.get("step"),
    )
