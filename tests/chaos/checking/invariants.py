"""C13: what must hold at every look, and what the server has logged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from tests.chaos.checking.history import Facts, History
from tests.chaos.watching import FAILING_SECONDS

ORPHANED_SECONDS: Final = 2.0
WAITING_SECONDS: Final = 8.0
"""In quiet times: for how long a dead node's row may run; for how long a due run may wait, and how
long it takes until no backlog is left once nothing new comes."""

GATED_SECONDS: Final = 25.0
"""The same for a run that waits at a gate: behind others of its key, or for its breaker."""

# While these last, the whole database is away from some node, or from all.
_STOPS_ALL = frozenset(
    {
        "lock_tables",
        "restart_server",
        "outlast_the_horizon",
        "kill_backend",
        "freeze_server",
        "make_read_only",
        "exhaust_connections",
        "terminate_backends",
        "partition",
        "cut_off_unresponsive",
        "stall",
        "reset",
        "delay",
        "set_clock",
    }
)
# Sessions of nemeses do what nobody should; their statements are known by these words.
_WANTED = re.compile(
    r"SELECT 1 FROM pgcron\.run WHERE id = |ORDER BY random\(\) LIMIT 50 FOR UPDATE"
    r"|LOCK TABLE|PREPARE|ATTACH|DETACH"
)
_UNIQUE = re.compile(r'duplicate key value violates unique constraint "(\w+)"')
_CHECK = re.compile(r'violates check constraint "(\w+)"')
_CLIENTS_OWN = re.compile(r"schedule_name_key")


def check_looks(history: History) -> Iterator[str]:
    """Schedules are never crowded; in quiet times nothing is left lying, and no backlog stays."""
    quiet = history.phases.get("after", float("inf"))
    calm = history.phases.get("drain", float("inf")) + WAITING_SECONDS
    crowded = sum(1 for look in history.of("look") if look["crowded_schedules"])
    if crowded:
        yield f"C13: {crowded} looks saw two running runs in a schedule"
    for owner, seconds in _hoarding(history).items():
        # Claims whose answer was lost are given back at the second beat that shows them.
        if seconds > history.ttl / 2:
            yield f"C13: node {owner} had more careful runs than slots for {seconds:.1f} s"
    full = 0.0
    for look in history.of("look"):
        if not has_room(look):
            full = look["at"]
        if look["at"] < quiet:
            continue
        if look["orphaned"] > ORPHANED_SECONDS:
            yield f"C13: a dead node's run was still running after {look['orphaned']:.1f} s"
        # While every slot is taken a backlog waits: what counts is how long there has been room.
        waiting, at_gates = (
            min(look[name], look["at"] - full) for name in ("waiting", "waiting_at_gates")
        )
        if look["at"] > calm and waiting > WAITING_SECONDS:
            yield f"C13: a due run waited for {waiting:.1f} s with room, though all was quiet"
        if look["at"] > calm and at_gates > GATED_SECONDS:
            yield f"C13: a run waited at a gate for {at_gates:.1f} s with room"


def check_services(history: History) -> Iterator[str]:
    """C15: nothing in a row or a lock makes a service fail for long, but a lock on a whole table;
    every row that breaks its rules is named.
    """
    hurt = list(outages(history))
    for look in history.of("look"):
        at: float = look["at"]
        if any(begin - 1 < at < end + FAILING_SECONDS + 5 for begin, end in hurt):
            continue
        for failing in look.get("failing", ()):
            yield f"C15: a service had no good pass for {FAILING_SECONDS:g} s: {failing}"
    for event in history.of("poison shown"):
        if event["seconds"] is None:
            yield f"C15: the poisoned {event['what']} {event['name']} was named nowhere"


def outages(history: History) -> Iterator[tuple[float, float]]:
    """From when to when the server was away or a whole table locked."""
    begun: dict[str, float] = {}
    for event in history.of("server", "held", "fault"):
        key = _outage_of(event)
        if key is None:
            continue
        name, is_begin = key
        if is_begin:
            begun.setdefault(name, event["at"])
        elif name in begun:
            yield begun.pop(name), event["at"]
    for at in begun.values():
        yield at, float("inf")


def _outage_of(event: Facts) -> tuple[str, bool] | None:
    if event["kind"] == "held":
        is_table = event["what"] == "table lock"
        return (f"lock {event['table']}", event["state"] == "on") if is_table else None
    if event["kind"] == "fault":
        is_hurt = event["name"] in _STOPS_ALL
        return (f"fault {event['number']}", event["phase"] == "on") if is_hurt else None
    return "server", event["state"] == "stopping"


def has_room(look: Facts) -> bool:
    """Whether some node had a free slot."""
    return bool(look.get("nodes_with_room", 1))


def _hoarding(history: History) -> dict[str, float]:
    """For how long each node had more careful runs than slots, from the first look to the last
    one of an unbroken row of them. Not while somebody holds a lock on rows or a table: what has
    ended keeps no slot, though the database can't record it yet.
    """
    longest: dict[str, float] = {}
    since: dict[str, float] = {}
    locks = 0
    for event in history.of("look", "held"):
        if event["kind"] == "held":
            is_lock = event["what"] in ("table lock", "long row lock")
            locks += is_lock * (1 if event["state"] == "on" else -1)
            continue
        at: float = event["at"]
        owners = [] if locks else event["hoarders"]
        since = {owner: since.get(owner, at) for owner in owners}
        for owner, begin in since.items():
            longest[owner] = max(longest.get(owner, 0.0), at - begin)
    return longest


def check_drained(history: History) -> Iterator[str]:
    """In the end nothing lives, and nodes leave in order."""
    for event in history.of("phase"):
        if event["name"] == "over" and not event["drained"]:
            left = Counter(
                (row["state"], row["handler"], row["gate"]) for row in history.table("live")
            )
            yield f"C13: {sum(left.values())} runs never ended: {left.most_common(4)}"
    for event in history.of("left"):
        if event["code"] is None:
            yield f"C13: node {event['node']} was told to stop and did not"
        elif event["code"] != 0:
            yield f"C13: node {event['node']} left with exit code {event['code']}"


def check_server_log(history: History) -> Iterator[str]:
    """C14's zeros: no deadlock of our own, no net under a claim was needed, no constraint broke."""
    poisoned = any(history.of("poisoned"))
    for entry in history.server_log:
        if "deadlock detected" in entry and not _WANTED.search(entry):
            yield f"C14: deadlock: {entry[:600]}"
        for pattern in (_UNIQUE,) if poisoned else (_UNIQUE, _CHECK):
            found = pattern.search(entry)
            if found and not _CLIENTS_OWN.search(found[1]):
                yield f"C14: the net {found[1]!r} was needed: {entry[:300]}"
        if " PANIC: " in entry or "TRAP:" in entry:
            yield f"C14: {entry[:300]}"


def server_errors(history: History) -> Counter[str]:
    """What the server refused, by its words without numbers."""
    found: Counter[str] = Counter()
    for entry in history.server_log:
        message = entry.partition("ERROR: ")[2].split("\n")[0].strip()
        if message:
            found[re.sub(r"\d+", "…", message)[:100]] += 1
    return found
