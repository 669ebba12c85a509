"""What two sessions may do to the same rows at the same time, and the rows they do it to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from tests.product.engine import decide, materialize_parameters
from tests.simulation.tables import Row

Call = Callable[..., list[Row]]
Statement = tuple[str, dict[str, Any]]

NODES: Final = (UUID(int=1), UUID(int=2), UUID(int=3))
HORIZON: Final = 30.0


@dataclass
class Scene:
    """Two living nodes and a dead one; what is known of the runs and the schedule."""

    runs: list[int] = field(default_factory=list)
    claims: list[Row] = field(default_factory=list)
    cursors: list[Row] = field(default_factory=list)

    def held(self, *more: str) -> dict[str, Any]:
        values: dict[str, Any] = {
            "run_ids": [row["id"] for row in self.claims],
            "tokens": [row["token"] for row in self.claims],
            "elapsed_seconds": [0.5 for _ in self.claims],
        }
        return {name: values[name] for name in ("run_ids", "tokens", *more)}


Act = Callable[[Scene], Statement]
Setup = Callable[[Call, Callable[[float], None]], Scene]


def join(call: Call, number: int) -> None:
    call(
        "join_node",
        incarnation=NODES[number],
        name=f"n{number}",
        host="here",
        process_id=1,
        version="0",
        tzdata="2026a",
        home=None,
        lease_ttl=30.0,
        slots=4,
        queues=["default"],
        labels="{}",
    )
    call("offer_handlers", incarnation=NODES[number], handlers=["py:work"])


def enqueue(call: Call, **given: Any) -> int:
    columns: dict[str, Any] = {
        **{"handler": "py:work", "args": "{}", "queue": "default", "priority": 5, "due_at": None},
        **{"idempotency_key": None, "key_lifetime": None, "timeout": 60.0, "max_attempts": 3},
        **{"delivery": "at_least_once", "retry": None, "concurrency_key": None, "requires": None},
        **{"weight": None, "actor": "me"},
        **{"start_within": None, "give_up_after": None, "silence_timeout": None},
    }
    run: int = call("enqueue", **columns | given)[0]["run_id"]
    return run


def put(**given: Any) -> Statement:
    columns: dict[str, Any] = {
        **{"name": "job", "spec": "*/10 * * * * *", "handler": "py:work", "args": None},
        **{"timezone": None, "dst": None, "queue": None, "priority": None, "enabled": None},
        **{"overlap": "skip", "catchup": "latest", "catchup_window": 3600.0, "timeout": 60.0},
        **{"start_deadline": None, "max_attempts": None, "retry_base": 1.0, "retry_cap": 4.0},
        **{"retry": None, "delivery": None, "managed_by": None, "actor": "me", "interface": "sql"},
        **{
            "concurrency_key": None,
            "requires": None,
            "give_up_after": None,
            "silence_timeout": None,
            "weight": None,
            "expected_version": None,
            "max_running": None,
            "max_queued": None,
            "queue_drops": None,
            "after_pause": None,
            "jitter": None,
            "max_runs": None,
            "pause_after_failures": None,
            "probe_after": None,
            "depends_on_previous": None,
        },
    }
    return "put_schedule", columns | given


RUN_NOW: Final[dict[str, Any]] = {
    "name": "job",
    "args": None,
    "actor": "me",
    "overlap": None,
    "fire_time": None,
}
_PATHS: Final = {"queues": ["default"], "priorities": [5]}
_SOUND: Final = {"health": None, "is_unresponsive": False}


def _claim_runs(node: int) -> Act:
    from tests.db.control import NO_BOUND

    bounds = {"bound_dues": [NO_BOUND], "bound_ids": [0]}
    return lambda scene: (
        "claim_runs",
        {"incarnation": NODES[node], "handlers": ["py:work"], "limit": 5, **_PATHS, **bounds},
    )


def _claim_overlapping(node: int) -> Act:
    room = {"free": 2, "ahead": 0, "look": 20}
    return lambda scene: (
        "claim_overlapping",
        {"incarnation": NODES[node], "handlers": ["py:work"], **_PATHS, **room},
    )


def _fail(kind: str, retryable: bool) -> Act:
    def act(scene: Scene) -> Statement:
        count = len(scene.claims)
        return "fail_runs", {
            **scene.held("elapsed_seconds"),
            **{"kinds": [kind] * count, "retryables": [retryable] * count, "node": "n"},
            **{"retry_afters": [None] * count, "error_classes": ["E"] * count},
            **{"errors": ["wrong"] * count, "tracebacks": [None] * count},
            **{"causes": ["E"] * count, "fingerprints": [None] * count},
        }

    return act


def _materialize(scene: Scene) -> Statement:
    decisions: list[Any] = [(row, *decide(row, HORIZON)) for row in scene.cursors]
    return "materialize", materialize_parameters(decisions)


def _of_schedule(verb: str, **more: Any) -> Act:
    return lambda scene: (verb, {"name": "job", "actor": "me", "interface": "sql", **more})


def _of_run(verb: str, which: int, **more: Any) -> Act:
    return lambda scene: (verb, {"run_id": scene.runs[which], "actor": "me", **more})


def _waiting(outcome: str) -> Act:
    return lambda scene: (
        "end_waiting_runs",
        {"run_ids": scene.runs, "outcome": outcome, "reason": "why"},
    )


ACTS: Final[Mapping[str, Act]] = {
    "claim": _claim_runs(0),
    "claim elsewhere": _claim_runs(1),
    "keys": _claim_overlapping(0),
    "concurrency keys elsewhere": _claim_overlapping(1),
    "finish": lambda scene: (
        "finish_runs",
        {**scene.held("elapsed_seconds"), "results": None, "node": "n"},
    ),
    "fail": _fail("failed", True),
    "fail for good": _fail("failed", False),
    "release": lambda scene: ("release_runs", {**scene.held(), "weights": None}),
    "mark": lambda scene: ("mark_started", scene.held("elapsed_seconds")),
    "reap": lambda scene: ("reap_runs", {"at_most": 10}),
    "beat": lambda scene: (
        "beat",
        {"incarnation": NODES[0], "slots_used": 1, "is_draining": False, **_SOUND},
    ),
    "leave": lambda scene: ("leave", {"incarnation": NODES[0], "reason": "it stops"}),
    "cancel": _of_run("cancel_run", 0, reason="why"),
    "cancel the last": _of_run("cancel_run", -1, reason="why"),
    "retry": _of_run("retry_run", 0),
    "expire": _waiting("expired"),
    "park": lambda scene: ("park_unserved", {**_PATHS, "look": 10}),
    "unpark": lambda scene: ("unpark_served", {"at_most": 10}),
    "pause the queue": lambda scene: (
        "pause_queue",
        {"name": "default", "note": None, "actor": "me"},
    ),
    "materialize": _materialize,
    "pause": _of_schedule("pause_schedule", note=None, until=None, pause=None),
    "resume": _of_schedule("resume_schedule"),
    "delete": _of_schedule("delete_schedule"),
    "edit": lambda scene: put(priority=4),
    "edit the timing": lambda scene: put(spec="*/7 * * * * *"),
    "run now": lambda scene: ("run_now", RUN_NOW),
}


def _nodes(call: Call) -> None:
    for number in range(len(NODES)):
        join(call, number)
    call("leave", incarnation=NODES[2], reason="it is dead")


def _ready(call: Call, pass_time: Callable[[float], None]) -> Scene:
    _nodes(call)
    scene = Scene([enqueue(call)])
    pass_time(1)
    return scene


def _running(call: Call, pass_time: Callable[[float], None]) -> Scene:
    scene = _ready(call, pass_time)
    name, parameters = ACTS["claim"](scene)
    scene.claims = call(name, **parameters)
    pass_time(1)
    return scene


def _orphaned(call: Call, pass_time: Callable[[float], None]) -> Scene:
    scene = _running(call, pass_time)
    call("leave", incarnation=NODES[0], reason="it was killed")
    return scene


def _retried(call: Call, pass_time: Callable[[float], None]) -> Scene:
    scene = _running(call, pass_time)
    name, parameters = ACTS["fail"](scene)
    call(name, **parameters)
    pass_time(30)
    call("beat", incarnation=NODES[1], slots_used=0, is_draining=False, **_SOUND)
    return scene


def _planned(call: Call, pass_time: Callable[[float], None]) -> Scene:
    """A schedule whose first fires nobody has decided yet."""
    _nodes(call)
    name, parameters = put()
    call(name, **parameters)
    pass_time(3)
    return Scene([], [], call("due_cursors", refill=HORIZON, at_most=10, aside=[]))


def _keyed(call: Call, pass_time: Callable[[float], None]) -> Scene:
    """One fire executes, the next is due, a third lies ahead."""
    scene = _planned(call, pass_time)
    name, parameters = _materialize(scene)
    call(name, **parameters)
    pass_time(8)
    name, parameters = ACTS["keys"](scene)
    scene.claims = [row for row in call(name, **parameters) if row["verdict"] == "claim"]
    scene.runs = [row["id"] for row in scene.claims]
    scene.runs += [row["run_id"] for row in call("run_now", **RUN_NOW)]
    pass_time(1)
    scene.cursors = call("due_cursors", refill=HORIZON + 30, at_most=10, aside=[])
    return scene


_OF_CLAIMS = (
    "finish",
    "fail",
    "fail for good",
    "release",
    "mark",
    "reap",
    "leave",
    "beat",
    "cancel",
)

SCENES: Final[Mapping[str, tuple[Setup, tuple[str, ...]]]] = {
    "ready": (
        _ready,
        (
            *("claim", "claim elsewhere", "cancel", "retry", "expire", "park", "unpark"),
            *("leave", "reap", "pause the queue"),
        ),
    ),
    "running": (_running, (*_OF_CLAIMS, "claim elsewhere", "retry", "expire")),
    "orphaned": (_orphaned, (*_OF_CLAIMS, "claim elsewhere", "retry")),
    "retried": (
        _retried,
        ("claim elsewhere", "finish", "fail", "release", "cancel", "retry", "expire", "park"),
    ),
    "planned": (
        _planned,
        (
            *("materialize", "pause", "resume", "delete", "edit", "edit the timing"),
            *("run now", "keys"),
        ),
    ),
    "keyed": (
        _keyed,
        (
            *(
                "keys",
                "concurrency keys elsewhere",
                "finish",
                "fail",
                "release",
                "leave",
                "reap",
                "cancel",
            ),
            *("cancel the last", "materialize", "pause", "delete", "edit the timing", "run now"),
        ),
    ),
}
