"""Workflows in the load: chains, joins, lists, fan-outs, failures and what they lead to, signals.

Each step writes its name into its evidence. What a workflow that nobody touched must come to is
said here, beside its definition; what its dependencies are is read from the product.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.chaos.clients import Client

PAUSE_SECONDS: Final = 0.5
OPEN: Final = 5
"""So many of the workflows that a client has started last are those it meddles with."""

WIDE: Final = 600
"""More children than one end tells by itself."""

ITEMS: Final = 12
Step = dict[str, Any]


def _step(name: str, *after: str, seconds: float = 0.05, fail: float = 0.0, **more: Any) -> Step:
    """One that may fail by chance, and succeeds in the end."""
    args = {"step": name, "seconds": seconds, "fail": fail} | more.pop("args", {})
    usual = {"handler": "py:step", "max_attempts": 100, "retry": {"base": "0.2 s", "cap": "1 s"}}
    return {"name": name, **usual, "args": args, "after": list(after), **more}


def _undo(name: str) -> Step:
    step = _step(f"undo_{name}", compensates=name)
    del step["after"]
    return step


def _hopeless(name: str, *after: str, **more: Any) -> Step:
    """Dead at its first error."""
    retry = {"base": "0.2 s", "cap": "1 s", "discard_on": ["Hopeless"]}
    args = {"hopeless": True} | more.pop("args", {})
    return _step(name, *after, args=args, retry=retry, **{"max_attempts": 50} | more)


@dataclass(frozen=True)
class Shape:
    """`keys` of the definition beside its steps. `ends`: how it ends, and `states` the steps that
    do not succeed (several words: one of them), when nobody meddles with it.
    """

    steps: tuple[Step, ...]
    keys: Mapping[str, Any] = field(default_factory=dict)
    ends: str = "succeeded"
    states: Mapping[str, str] = field(default_factory=dict)
    share: int = 4
    args: Mapping[str, Any] = field(default_factory=dict)


_PARENTS: Final = tuple(f"p{number}" for number in range(8))
_FAN: Final = tuple(f"f{number}" for number in range(WIDE))

SHAPES: Final[Mapping[str, Shape]] = {
    "chain": Shape(
        (
            _step("a", args_from={"op": "$.args.op"}),
            _step("b", "a", fail=0.1, when="$.a.rows > 0"),
            _step("c", "b"),
            _step("never", "b", when="$.b.rows > 100"),
            _step("d", "c", "never", rule="none_failed"),
        ),
        states={"never": "skipped"},
    ),
    "joins": Shape(
        (
            _step("head", seconds=0.0),
            *(_step(name, "head", seconds=0.1, fail=0.1) for name in _PARENTS),
            _step("join", *_PARENTS),
            _step("other", *_PARENTS[:4], "head", args_from={"rows": "$.p0.rows"}),
            _step("last", "join", "other"),
        ),
        share=8,
    ),
    "list": Shape(
        (_step("each", for_each="$.args.items", max_parallel=3, fail=0.05), _step("last", "each")),
        args={"items": list(range(ITEMS))},
    ),
    "bad list": Shape(
        (
            _hopeless("each", for_each="$.args.items", tolerate=1, args={"bad": [3, 7]}),
            _step("last", "each"),
            _step("cleanup", **{"finally": True}),
        ),
        ends="dead",
        states={"each": "dead", "last": "upstream_failed"},
        args={"items": list(range(ITEMS))},
        share=2,
    ),
    "saga": Shape(
        (
            _step("reserve"),
            _undo("reserve"),
            _step("charge", "reserve", fail=0.1),
            _undo("charge"),
            _hopeless("maybe", "reserve", optional=True),
            _hopeless("ship", "charge", "maybe"),
            _step("after", "ship"),
            _undo("after"),
            _step("alarm", "ship", rule="one_failed"),
            _step("cleanup", **{"finally": True}),
        ),
        ends="dead",
        states={
            **{"maybe": "dead", "ship": "dead", "after": "upstream_failed"},
            "undo_after": "skipped",
        },
    ),
    "stop": Shape(
        (
            _hopeless("bad"),
            _step("slow", seconds=1.5),
            _step("after", "slow"),
            _step("cleanup", **{"finally": True}),
        ),
        {"on_failure": "stop"},
        ends="dead",
        states={"bad": "dead", "after": "upstream_failed succeeded"},
        share=2,
    ),
    "kill": Shape(
        (
            _hopeless("bad"),
            _step("slow", seconds=3.0),
            _step("after", "slow"),
            _step("cleanup", **{"finally": True}),
        ),
        {"on_failure": "kill"},
        ends="dead",
        # after is cancelled when bad fails so late that it executes by then
        states={
            "bad": "dead",
            "slow": "cancelled succeeded",
            "after": "upstream_failed succeeded cancelled",
        },
        share=2,
    ),
    "signal": Shape(
        (
            _step("a"),
            {
                **{"name": "go", "wait_for": "signal", "after": "a"},
                **{"deadline": "6 s", "at_deadline": "succeed"},
            },
            {"name": "pause", "wait_for": "timer", "deadline": "1 s", "after": "a"},
            _step("b", "go"),
            _step("c", "b", "pause"),
        )
    ),
    "sub": Shape(
        (
            _step("a"),
            {
                **{"name": "inner", "handler": "workflow:c-joins", "after": "a"},
                "args": {"step": "inner"},
            },
            _step("b", "inner"),
        ),
        share=2,
    ),
    "money": Shape(
        (
            *(_step(name, handler="py:step_transfer", delivery="transactional") for name in "abc"),
            _step("sum", *"abc", handler="py:step_transfer", delivery="transactional"),
            _step("last", "sum"),
        )
    ),
    "busy": Shape(
        (
            _step(
                "poll",
                args={"busy": 0.5},
                repeat={"while": "$.busy", "at_most": 100, "every": "0.2 s"},
            ),
            _step("last", "poll"),
        ),
        share=2,
    ),
    "narrow": Shape(
        (
            *(_step(name, fail=0.1) for name in "ab"),
            *(_step(f"{name}{number}", name, seconds=0.2) for name in "ab" for number in range(4)),
            _step("last", *(f"{name}{number}" for name in "ab" for number in range(4))),
        ),
        {"parallelism": 3},
    ),
    "wide": Shape(
        (_step("head"), *(_step(name, "head", seconds=0.0) for name in _FAN), _step("join", *_FAN)),
        share=0,
    ),
}
"""What clients start, each as the workflow ``c-NAME``; `wide` now and then."""

WIDE_EVERY: Final = 50
"""Of so many starts one is wide."""


def workflow_of(name: str) -> str:
    """The workflow's name: that of a handler has no blanks."""
    return f"c-{name.replace(' ', '-')}"


def shape_of(workflow: str) -> Shape | None:
    """What is known of a workflow by this name."""
    return next((SHAPES[name] for name in SHAPES if workflow_of(name) == workflow), None)


async def create_workflows(client: Client) -> None:
    """All shapes. Raises TimeoutError without an answer."""
    for name, shape in SHAPES.items():
        definition = json.dumps({"steps": shape.steps, **shape.keys})
        query = "SELECT pgcron.put_workflow($2, $3) FROM (SELECT $1::int) one"
        if await client.ask("define", query, workflow_of(name), definition) is None:
            raise TimeoutError(name)


async def start(client: Client, name: str) -> int | None:
    """One run of this shape; its id."""
    run: int | None = await client.ask(
        "enqueue",
        "SELECT pgcron.start_workflow($2::text, jsonb_build_object('op', $1::int) || $3::jsonb)",
        *(workflow_of(name), json.dumps(SHAPES[name].args)),
        handler=f"workflow:{workflow_of(name)}",
    )
    return run


async def keep_starting(client: Client, stop: asyncio.Event) -> None:
    """Of every shape, and something done to some of those that were started before."""
    chance = client.chance
    shares = [name for name, shape in SHAPES.items() for _ in range(shape.share)]
    begun: list[tuple[int, str]] = []
    number = 0
    while not stop.is_set():
        name = "wide" if number % WIDE_EVERY == 5 else chance.choice(shares)
        number += 1
        run = await start(client, name)
        if run is not None:
            begun.append((run, name))
        del begun[:-OPEN]
        if begun:
            await _meddle(client, *chance.choice(begun))
        await asyncio.sleep(PAUSE_SECONDS)


async def _meddle(client: Client, run: int, name: str) -> None:
    """By chance: a signal, a step that is cleared or ended by hand, the whole cancelled, killed or
    redriven.
    """
    one = "FROM (SELECT $1::int) one"
    chance = client.chance
    kind = chance.random()
    if name == "signal" and kind < 0.5:
        await client.ask("signal", f"SELECT pgcron.signal($2, 'go', '1') {one}", run, run=run)
    elif kind < 0.25:
        step = chance.choice(SHAPES[name].steps)["name"]
        query = f"SELECT pgcron.clear_step($2, $3) {one}"
        await client.ask("clear", query, run, step, run=run, step=step)
    elif kind < 0.29:
        step = chance.choice(SHAPES[name].steps)["name"]
        verb = chance.choice(["skip_step", "succeed_step"])
        query = f"SELECT pgcron.{verb}($2, $3) {one}"
        await client.ask("end step", query, run, step, run=run, step=step)
    elif kind < 0.34:
        verb = chance.choice(["cancel_run", "kill_run"])
        await client.ask("cancel", f"SELECT pgcron.{verb}($2) {one}", run, run=run)
    elif kind < 0.44:
        try:
            rows = await client.rows(
                "SELECT d.run_id FROM pgcron.dead_letter d WHERE d.handler LIKE 'workflow:c-%'"
                " AND d.redriven_as IS NULL LIMIT 1"
            )
        except Exception:  # a driver has many words for a database that is away
            client.forget_connection()
            return
        for row in rows:
            query = f"SELECT pgcron.redrive($2) {one}"
            await client.ask("redrive", query, row["run_id"], run=row["run_id"])
