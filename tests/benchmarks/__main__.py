"""``python -m tests.benchmarks [--only NAME,…] [--json FILE] [--quick]``, and `--help`.

Runs the benchmarks on a server of their own, one after the other, each in a fresh database and
beside its baseline. Prints a table for each; no figure is judged. All of them take about half an
hour, `--quick` eight minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from tests.benchmarks import (
    backlog,
    crash,
    delivery,
    drain,
    each_minute,
    edit,
    enqueue,
    features,
    fire_times,
    first_run,
    held_horizon,
    hourly,
    idle,
    limits,
    outage,
    pages,
    pickup,
    pickup_gates,
    punctuality,
    retention,
    workflows,
)
from tests.benchmarks.figures import Result, table
from tests.benchmarks.place import Ground, own_ground
from tests.benchmarks.settings import described
from tests.benchmarks.sizes import FULL, QUICK, TINY, Sizes

Benchmark: TypeAlias = Callable[[Ground, Sizes], Awaitable[Result]]

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "fire_times": fire_times.benchmark,
    "idle": idle.benchmark,
    "pickup": pickup.benchmark,
    "pickup_gates": pickup_gates.benchmark,
    "enqueue": enqueue.one_by_one,
    "enqueue_bulk": enqueue.in_bulk,
    "drain": drain.benchmark,
    "delivery": delivery.benchmark,
    "backlog": backlog.benchmark,
    "limits": limits.benchmark,
    "features": features.benchmark,
    "held_horizon": held_horizon.benchmark,
    "same_second": punctuality.same_second,
    "every_second": punctuality.every_second,
    "every_minute_allow": punctuality.every_minute_allow,
    "every_minute_skip": punctuality.every_minute_skip,
    "each_minute": each_minute.benchmark,
    "edit": edit.benchmark,
    "outage": outage.benchmark,
    "crash": crash.benchmark,
    "first_run": first_run.benchmark,
    "hourly": hourly.benchmark,
    "pages": pages.benchmark,
    "retention": retention.benchmark,
    "workflows": workflows.benchmark,
}


async def main(arguments: argparse.Namespace) -> int:
    """Run what was asked for; 1 when a benchmark could not be run."""
    sizes = arguments.sizes
    if arguments.schedules is not None:
        sizes = replace(sizes, hourly_schedules=arguments.schedules)
    if arguments.history is not None:
        sizes = replace(sizes, page_history=arguments.history)
    if arguments.kills is not None:
        sizes = replace(sizes, crash_kills=arguments.kills)
    if arguments.lease is not None:
        sizes = replace(sizes, crash_lease=f"{arguments.lease}s")
    document: dict[str, Any] = {"at": datetime.now(UTC).isoformat(timespec="seconds")}
    failed: list[str] = []
    async with own_ground() as ground:
        async with ground.place() as place:
            document |= await described(place.observer)
        print(json.dumps(document, ensure_ascii=False), flush=True)
        document["benchmarks"] = []
        for name in arguments.only:
            try:
                result = await BENCHMARKS[name](ground, sizes)
            # One that can't be run takes none of the others' figures away.
            except Exception as error:
                failed.append(name)
                print(f"{name}: failed: {error!r}", file=sys.stderr, flush=True)
                continue
            print(table(result), flush=True)
            document["benchmarks"].append(result.as_json())
            _write(arguments.json, document)
    return 1 if failed else 0


def _write(file: Path | None, document: dict[str, Any]) -> None:
    if file is not None:
        file.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument(
        "--only", type=_names, default=list(BENCHMARKS), help=f"of {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep everything here as JSON")
    parser.add_argument("--schedules", type=int, help="how many the benchmark 'hourly' has")
    parser.add_argument("--history", type=int, help="how many ended runs the benchmark 'pages' has")
    parser.add_argument("--kills", type=int, help="how often 'crash' ends a node in each way")
    parser.add_argument("--lease", type=int, help="of 'crash', in seconds")
    extent = parser.add_mutually_exclusive_group()
    for flag, sizes, words in (
        ("--quick", QUICK, "smaller sizes: some minutes for all"),
        ("--tiny", TINY, "only to see that everything works; the figures mean nothing"),
    ):
        extent.add_argument(
            flag, dest="sizes", action="store_const", const=sizes, default=FULL, help=words
        )
    return parser.parse_args(arguments)


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"no benchmark is called {', '.join(unknown) or 'nothing'};"
            f" there are {', '.join(BENCHMARKS)}"
        )
    return names


if __name__ == "__main__":
    sys.exit(asyncio.run(main(parsed())))
