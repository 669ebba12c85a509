"""What workflows cost: steps of several shapes beside as many plain runs of the same round."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks import machine, stage
from tests.benchmarks.drains import drain_with_node
from tests.benchmarks.figures import Result, percentile
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place, difference
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.statement_log import logged, longest, server_log
from tests.benchmarks.web_process import WebProcess
from tests.product.web import LIFE_SECONDS
from tests.sessions import own_session

_ARGS: Final = {"t": 1, "k": "step"}
_LOGGED_MS: Final = 10


@dataclass(frozen=True)
class Shape:
    """Steps, and how often a workflow of them runs; `runs` and `edges` are those of all."""

    name: str
    steps: Sequence[Mapping[str, Any]]
    runs: int
    edges: int
    times: int = 1
    args: Mapping[str, Any] | None = None


def _step(name: str, *after: str, **keys: Any) -> dict[str, Any]:
    keys = {"handler": "py:noop", "args": _ARGS, **keys}
    return {"name": name, **keys, **({"after": after} if after else {})}


def shapes(sizes: Sizes) -> Iterator[Shape]:
    """Those that the design names, smaller where the benchmark is to be quick."""
    wide, chain = sizes.workflow_wide, sizes.workflow_wide // 10
    middle = [_step(f"s{number}", "first") for number in range(wide)]
    names = [each["name"] for each in middle]
    links = [_step("s0"), *(_step(f"s{n}", f"s{n - 1}") for n in range(1, chain))]
    yield Shape(f"chain of {chain}", links, chain, chain)
    yield Shape(
        f"fan-out and fan-in of {wide}",
        [_step("first"), *middle, _step("last", *names)],
        wide + 2,
        2 * wide,
    )
    count = sizes.workflow_wide // 100
    hundred = [_step("first"), *(_step(f"s{n}", "first") for n in range(98))]
    hundred.append(_step("last", *(f"s{n}" for n in range(98))))
    yield Shape(f"{count} workflows of 100", hundred, 100 * count, 196 * count, times=count)
    layer = sizes.workflow_layer
    upper = [_step(f"a{n}") for n in range(layer)]
    lower = [_step(f"b{n}", *(each["name"] for each in upper)) for n in range(layer)]
    yield Shape(f"{layer * layer} edges", [*upper, *lower], 2 * layer, layer * layer)
    item = _step("list", for_each="$.args.list", args={"k": "step"}, args_from={"t": "$.item"})
    lists = {"list": list(range(wide))}
    yield Shape(f"a list of {wide}", [item], wide, wide, args=lists)
    yield Shape(f"10 lists of {wide}", [item], 10 * wide, 10 * wide, times=10, args=lists)


@dataclass(frozen=True)
class Plain:
    """As many plain runs: the CPU of their INSERT, in one statement, and of claims and ends."""

    insert: float
    worker: float
    server: float | None


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """Each shape on a database of its own, after as many plain runs."""
    result = Result(
        "workflows",
        "as many plain runs of the same round: their claims and ends",
        {"steps at once": sizes.workflow_wide, "steps of a layer": sizes.workflow_layer},
    )
    for shape in shapes(sizes):
        async with ground.place() as place:
            plain = await _plain(place, shape.runs)
        async with ground.place() as place, logged(place, _LOGGED_MS):
            await _measure(result, place, shape, plain)
            if shape.times == 1 and shape.runs >= sizes.workflow_wide:
                await _add_pages(result, place, shape.name, sizes.page_samples)
    return result.finished()


async def _plain(place: Place, runs: int) -> Plain:
    backend = place.observer.get_server_pid()
    insert = machine.fine_cpu_seconds(backend)
    await stage.insert_runs(place.observer, runs)
    insert = machine.fine_cpu_seconds(backend) - insert
    drain = await drain_with_node(place, runs)
    return Plain(insert, drain.worker_cpu, drain.server_cpu)


async def _measure(result: Result, place: Place, shape: Shape, plain: Plain) -> None:
    began = time.perf_counter()
    definition = json.dumps({"steps": shape.steps})
    await place.observer.execute("SELECT pgcron.put_workflow('shape', $1)", definition)
    defined = time.perf_counter() - began
    log_ended = len(server_log(place))
    with NodeProcess(place.dsn) as node:
        await stage.joined(place.observer, node)
        worker, server = machine.cpu_seconds(node.pid), place.server_cpu()
        began = time.perf_counter()
        await _start(place, shape)

        async def is_over() -> bool:
            query = "SELECT count(*) FROM pgcron.history WHERE origin = 'enqueued'"
            return bool(await place.observer.fetchval(query) == shape.times)

        await stage.until(f"{shape.name} is over", is_over)
        seconds = time.perf_counter() - began
        worker = machine.cpu_seconds(node.pid) - worker
        used = difference(server, place.server_cpu())
    succeeded = await place.observer.fetchval(
        "SELECT count(*) FROM pgcron.history WHERE origin = 'step' AND outcome = 'succeeded'"
    )
    if succeeded != shape.runs:
        raise RuntimeError(f"{succeeded} of {shape.runs} steps succeeded")
    result.add(f"{shape.name}: defined in", defined, "s")
    result.add(f"{shape.name}: steps", shape.runs / seconds, "/s")
    _add_cpu(result, shape, worker, used, plain)
    slowest, statement = longest(place, log_ended) or (None, f"none over {_LOGGED_MS} ms")
    result.add(f"{shape.name}: longest statement ({statement})", slowest, "ms", None, "≤ 100")


async def _start(place: Place, shape: Shape) -> None:
    """One after the other, as a service does."""
    service = await own_session(place.dsn)
    for _ in range(shape.times):
        await service.execute(
            "SELECT pgcron.start_workflow('shape', $1)", json.dumps(shape.args or {})
        )
    await service.close()


def _add_cpu(
    result: Result, shape: Shape, worker: float, server: float | None, plain: Plain
) -> None:
    """Of the server also for an edge: all of it, and what it is more than plain runs cost, which
    have neither steps to write nor dependents to count for.
    """
    name, each = shape.name, 1e6 / shape.runs
    result.add(f"{name}: CPU of the worker", worker * each, "µs/step", plain.worker * each)
    if server is None or plain.server is None:
        return
    result.add(f"{name}: CPU of the server", server * each, "µs/step", plain.server * each)
    of_an_edge = 1e6 / shape.edges
    for what, base, goal in (
        ("all CPU of the server", 0.0, ""),
        ("more than claim and end of plain runs", plain.server, "≤ 30"),
        ("more than INSERT, claim and end of plain runs", plain.server + plain.insert, ""),
    ):
        result.add(f"{name}: {what}", (server - base) * of_an_edge, "µs/edge", None, goal)


async def _add_pages(result: Result, place: Place, name: str, samples: int) -> None:
    """Each page is asked for again when what was read for it is forgotten."""
    run = await place.observer.fetchval("SELECT max(run) FROM pgcron.workflow_run")
    step = await place.observer.fetchval("SELECT min(name) FROM pgcron.workflow_steps")
    paths = {
        "the run": f"/runs/{run}",
        "a step": f"/runs/{run}/steps/{step}",
        "the workflow": "/workflows/shape",
        "all workflows": "/workflows",
    }
    taken: dict[str, list[float]] = {page: [] for page in paths}
    with WebProcess(place.dsn) as web:
        visitor = web.visitor()
        for number in range(samples + 1):
            began = time.monotonic()
            for page, path in paths.items():
                answer = await asyncio.to_thread(visitor.get, path)
                if answer.status != 200:
                    raise RuntimeError(f"{path}: {answer.status}")
                if number:  # the first plans the statements
                    taken[page].append(answer.seconds * 1000)
            await asyncio.sleep(max(0.0, began + LIFE_SECONDS + 0.1 - time.monotonic()))
        visitor.close()
    for page, milliseconds in taken.items():
        p95 = percentile(milliseconds, 0.95)
        result.add(f"{name}: page of {page}, p95", p95, "ms", goal="≤ 200")
