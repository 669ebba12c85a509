"""The live table as lines of text: nodes, schedules, counts. Pure; colours come from `screen`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from pgcron_ha.db.overview import Row
from pgcron_ha.demo.facts import Facts

_GAP: Final = "  "
_ERROR_CHARACTERS: Final = 60


def table_lines(facts: Facts, endings: Mapping[int, str]) -> list[str]:
    """The whole table; `endings` says of node processes (by id) how they ended."""
    return [
        *aligned([("NODE", "STATE", "PID", "LEASE LEFT", "SLOTS"), *_nodes(facts, endings)]),
        "",
        *aligned(
            [
                ("SCHEDULE", "SPEC", "NEXT FIRE", "RUNS", "LAST RUN", "TOOK", "ON"),
                *(_schedule(row, facts) for row in facts.schedules),
            ]
        ),
        "",
        *_counts(facts),
        *_asked_for(facts),
    ]


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines with straight columns."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        _GAP.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def outcome_words(outcomes: Mapping[str, int]) -> str:
    """``20 succeeded, 1 dead``; succeeded first, then by number."""
    ordered = sorted(outcomes.items(), key=lambda item: (item[0] != "succeeded", -item[1]))
    return ", ".join(f"{count} {outcome}" for outcome, count in ordered if count)


def _nodes(facts: Facts, endings: Mapping[int, str]) -> Iterator[tuple[str, ...]]:
    for node in facts.nodes:
        left = (node["lease_until"] - facts.now).total_seconds()
        is_dead = node["state"] == "dead"
        state = node["state"]
        if is_dead:
            state = f"dead: {node['ended_because']}"
        elif node["process_id"] in endings:
            state = f"killed: {endings[node['process_id']]}, its lease runs out"
        elif left <= 0:
            state = "silent"
        yield (
            node["name"],
            state,
            str(node["process_id"]),
            "-" if is_dead else f"{max(left, 0.0):.1f} s",
            "-" if is_dead else f"{node['slots_used']}/{node['slots']}",
        )


def _schedule(row: Row, facts: Facts) -> tuple[str, ...]:
    counted = {
        each["outcome"]: each["runs"] for each in facts.outcomes if each["schedule"] == row["name"]
    }
    retries = sum(each["retries"] for each in facts.outcomes if each["schedule"] == row["name"])
    runs = outcome_words(counted) or "-"
    # What matters most stands left: a narrow terminal cuts the rest.
    return (
        row["name"][:16],
        " | ".join(row["spec"].split("\n"))[:24],
        _next(row, facts.now),
        f"{runs}, {retries} {'retry' if retries == 1 else 'retries'}" if retries else runs,
        f"{row['outcome']} {_clock(row['finished_at'])}" if row["outcome"] else "-",
        "-" if row["seconds"] is None else f"{row['seconds'] * 1000:.0f} ms",
        row["node"] or "-",
    )


def _next(row: Row, now: datetime) -> str:
    if not row["enabled"]:
        return "paused"
    if row["status"] == "invalid":
        return "invalid"
    if row["next_fire"] is None:
        return "-"
    return f"in {max((row['next_fire'] - now).total_seconds(), 0.0):.0f} s"


def _counts(facts: Facts) -> Iterator[str]:
    total: dict[str, int] = {}
    for each in facts.outcomes:
        total[each["outcome"]] = total.get(each["outcome"], 0) + each["runs"]
    counts = facts.counts
    yield (
        f"runs      {outcome_words(total) or 'none has ended yet'}; {counts['running']} running, "
        f"{counts['due']} due, {counts['later']} later, {counts['parked']} parked; "
        f"{counts['dead_letters']} dead letters"
    )
    for parked in facts.parked:
        yield f"parked    {parked['runs']} of {parked['handler']}: {parked['reason']}"


def _asked_for(facts: Facts) -> Iterator[str]:
    for run in facts.asked_for:
        words = f"asked for run {run['id']} {run['handler']}: {run['state']}"
        if run["node"]:
            words += f" on {run['node']}"
        told = run["error"] or run["result"]
        yield f"{words}, {' '.join(told.split())[:_ERROR_CHARACTERS]}" if told else words


def _clock(instant: datetime) -> str:
    return f"{instant.astimezone():%H:%M:%S}"
