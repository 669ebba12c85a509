"""Gated work in the load: runs that pass limits, labels, a breaker or a policy on their way.

The handler writes the name of its gate into its evidence. What may never be exceeded, `LIMITS`, is
judged by the intervals that handlers have recorded, not by what the product says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.clients import RETRY, Client

PAUSE_SECONDS: Final = 0.3
AT_ONCE: Final = (1, 1, 1, 6)
"""Runs of one gate: several at once are more than its limit lets begin."""

PER_SECONDS: Final = 2.0
HEAVY: Final = 5


@dataclass(frozen=True)
class Limit:
    """So many at once at most, or of so much weight, or so many starts in any span of
    `PER_SECONDS`.
    """

    most: int | None = None
    by_weight: bool = False
    rate: int | None = None


LIMITS: Final[Mapping[str, Limit]] = {
    "key one": Limit(most=1),
    "key three": Limit(most=3),
    "key weighed": Limit(most=6, by_weight=True),
    "key rated": Limit(rate=4),
    "key both": Limit(most=2),
    "queue narrow": Limit(most=2),
    "queue paced": Limit(rate=4),
    "schedule g-queue": Limit(most=2),
    "schedule g-replace": Limit(most=1),
    "schedule g-terminate": Limit(most=1),
    "schedule g-previous": Limit(most=1),
}

SETTINGS: Final = (
    "SELECT pgcron.set_concurrency('three', 3)",
    "SELECT pgcron.set_concurrency('both', 2)",
    "SELECT pgcron.set_concurrency('weighed', 6, by_weight => true)",
    f"SELECT pgcron.set_concurrency('rated', NULL, 4, '{PER_SECONDS} s')",
    "SELECT pgcron.set_queue('narrow', 2)",
    f"SELECT pgcron.set_queue('paced', NULL, 4, '{PER_SECONDS} s')",
    "SELECT pgcron.set_breaker('py:flaky', 3, '5 s', '1 s', '2 s')",
)
"""What the limits are made with; a key without a setting has one slot."""


@dataclass(frozen=True)
class Gate:
    """`columns` of the run; the `limits` that it is under; the zone of nodes that may have it."""

    limits: tuple[str, ...] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)
    zone: str | None = None
    weight: int = 1


RUNS: Final[Mapping[str, Gate]] = {
    "one": Gate(("key one",), {"concurrency_key": "one"}),
    "three": Gate(("key three",), {"concurrency_key": "three"}),
    "weighed": Gate(("key weighed",), {"concurrency_key": "weighed"}),
    "weighed more": Gate(("key weighed",), {"concurrency_key": "weighed", "weight": 4}, weight=4),
    "rated": Gate(("key rated",), {"concurrency_key": "rated"}),
    "narrow": Gate(("queue narrow",), {"queue": "narrow"}),
    "paced": Gate(("queue paced",), {"queue": "paced"}),
    "heavy": Gate((), {"weight": HEAVY, "concurrency_key": f"*weight {HEAVY}"}, weight=HEAVY),
    "placed": Gate((), {"requires": ["zone=a"]}, zone="a"),
    "both": Gate(
        ("key both", "queue narrow"),
        {"concurrency_key": "both", "queue": "narrow", "requires": ["zone=b"], "weight": 2},
        zone="b",
        weight=2,
    ),
    "guarded": Gate((), {"handler": "py:flaky"}),
    "money": Gate((), {"handler": "py:transfer", "delivery": "transactional"}),
}
"""What clients enqueue."""

SCHEDULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "g-queue": {"overlap": "queue", "max_running": 2, "max_queued": 3},
    "g-replace": {"overlap": "replace", "spec": "*/2 * * * * *"},
    "g-terminate": {"overlap": "terminate", "spec": "*/3 * * * * *"},
    "g-previous": {"overlap": "queue", "depends_on_previous": True, "spec": "*/2 * * * * *"},
}
"""Schedules with the policies that others have not, by name; the columns that they need."""

_SECONDS: Final = {"g-queue": 2.2, "g-replace": 2.5, "g-terminate": 3.5, "g-previous": 0.3}
"""How long their runs last: most of them longer than until the next fire."""

GATES: Final[Mapping[str, Gate]] = {
    **RUNS,
    **{name: Gate((f"schedule {name}",)) for name in SCHEDULES},
}


async def create_gates(client: Client) -> None:
    """Limits, and the schedules that are gated. Raises TimeoutError without an answer."""
    for setting in SETTINGS:
        query = setting.replace("SELECT ", "SELECT $1::int, ", 1)
        if await client.ask("set", query) is None:
            raise TimeoutError(setting)
    for name, columns in SCHEDULES.items():
        args = json.dumps({"gate": name, "seconds": _SECONDS[name]})
        given = {"spec": "* * * * * *", **columns}
        places = ", ".join(f"${number}" for number in range(4, len(given) + 4))
        made = await client.ask(
            "create",
            "INSERT INTO pgcron.schedule (name, handler, max_attempts, retry, args,"
            f" {', '.join(given)}) SELECT $2, 'py:gated', 100, {RETRY},"
            f" $3::jsonb || jsonb_build_object('op', $1::int), {places} RETURNING id",
            *(name, args, *given.values()),
            name=name,
        )
        if made is None:
            raise TimeoutError(name)


async def enqueue_gated(client: Client, name: str, seconds: float) -> int | None:
    """One run of this gate, by a plain INSERT; its id. By its priority it may go before others that
    a node has already chosen.
    """
    priority = client.chance.choice([0, 5, 9])
    columns = {"handler": "py:gated", "priority": priority, **RUNS[name].columns}
    args: dict[str, Any] = {"gate": name}
    if columns["handler"] == "py:gated":
        args["seconds"] = seconds
    places = ", ".join(f"${number}" for number in range(3, len(columns) + 3))
    run: int | None = await client.ask(
        "enqueue",
        f"INSERT INTO pgcron.run (args, max_attempts, retry, {', '.join(columns)})"
        f" SELECT $2::jsonb || jsonb_build_object('op', $1::int), 100, {RETRY},"
        f" {places} RETURNING id",
        *(json.dumps(args), *columns.values()),
        handler=columns["handler"],
    )
    return run


async def keep_enqueueing_gated(client: Client, ttl: float, stop: asyncio.Event) -> None:
    """Of every gate, until it is told to stop."""
    chance = client.chance
    while not stop.is_set():
        name = chance.choice(sorted(RUNS))
        for _ in range(chance.choice(AT_ONCE)):
            is_long = chance.random() < 0.03
            seconds = chance.uniform(0.5, 2.0) * ttl if is_long else chance.random() * 0.4
            await enqueue_gated(client, name, round(seconds, 2))
        if chance.random() < 0.04:
            await _break_a_chain(client)
        await asyncio.sleep(PAUSE_SECONDS)


async def _break_a_chain(client: Client) -> None:
    """After a fire that was cancelled no other of its schedule runs, until something of it has
    succeeded: so the one or the other.
    """
    name = "g-previous"
    if client.chance.random() < 0.5:
        query = "SELECT pgcron.run_now($2) FROM (SELECT $1::int) one"
        await client.ask("run now", query, name, name=name)
        return
    found = "SELECT id FROM pgcron.run WHERE schedule = $1 ORDER BY due_at LIMIT 1"
    try:
        rows = await client.rows(found, name)
    except Exception:  # a driver has many words for a database that is away
        client.forget_connection()
        return
    for row in rows:
        query = "SELECT pgcron.cancel_run($2) FROM (SELECT $1::int) one"
        await client.ask("cancel", query, row["id"], run=row["id"])
