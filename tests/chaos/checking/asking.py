"""C3 and C12: what clients were told holds."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.checking.history import Facts, History


def check_acknowledged(history: History) -> Iterator[str]:
    """C3: an acknowledged enqueue is there, a refused one is not, an unknown one at most once."""
    rows = list(itertools.chain(history.table("ended"), history.table("live")))
    known = {row["id"] for row in rows}
    by_operation = _runs_by_operation(rows)
    for number, facts in history.answers().items():
        if facts["what"] not in ("enqueue", "program"):
            continue
        result, count = facts["result"], by_operation[number]
        if result == "ok" and facts["value"] not in known:
            yield f"C3: run {facts['value']} was acknowledged and is nowhere"
        if result == "refused" and count:
            yield f"C3: operation {number} was refused and has {count} runs"
        if count > 1:
            yield f"C3: operation {number} made {count} runs"


def check_keys(history: History) -> Iterator[str]:
    """C12: one run a key, and everybody who used the key was told its id."""
    by_operation = _runs_by_operation(
        itertools.chain(history.table("ended"), history.table("live"))
    )
    reported: dict[str, set[int]] = defaultdict(set)
    made: Counter[str] = Counter()
    for number, facts in history.answers().items():
        key = facts.get("key")
        if facts["what"] != "enqueue" or key is None:
            continue
        made[key] += by_operation[number]
        if facts["result"] == "ok":
            reported[key].add(facts["value"])
    for key, runs in reported.items():
        if len(runs) > 1:
            yield f"C12: the key {key!r} has named the runs {sorted(runs)}"
    for key, count in made.items():
        if count > 1:
            yield f"C12: {count} runs were made with the key {key!r}"


def _runs_by_operation(rows: Iterator[Facts] | list[Facts]) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in rows:
        if row["origin"] == "enqueued":
            number = json.loads(row["args"]).get("op")
            if number is not None:
                found[number] += 1
    return found
