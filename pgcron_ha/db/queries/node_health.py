"""What is wrong with the services of a node, as its row says it: written by each beat while there
is something, read by pages and commands. And its unresponsive runs, which hold a slot although the
node was asked to stop them: they end only by themselves, or with their process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final, TypeVar

from pgcron_ha.harmless import storable
from pgcron_ha.model.formats import capital, duration, plural, short, who_and_why

Item = TypeVar("Item")

MOST_ENTRIES: Final = 20
MOST_CHARACTERS: Final = 300
"""Of one error or name."""

_LONGEST_SECONDS: Final = 1e9
"""Older is the last beat of no node; but its lease may be that of a row that breaks its rules."""

_WITHOUT: Final = {
    "admission": "It opens no gates: blocked runs wait.",
    "dispatcher": "It claims no runs.",
    "materializer": "It decides no fires.",
    "completer": "It records no ends of runs, which keep their slots.",
    "recorder": "It stores no output of runs.",
    "reaper": "It takes nothing over from dead nodes.",
    "watch": "It enforces no time limits.",
    "backfills": "It goes on with no backfill.",
    "workflows": "It goes on with no workflow.",
    "breakers": "It opens and closes no circuit breakers.",
    "janitor": "It makes and drops no partitions, and removes nothing that is over.",
    "listener": "It looks for work at its poll interval.",
    "audit webhook": "It sends no audit.",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A service whose passes do not succeed; or something, `what`, that it goes on without."""

    service: str
    error: str
    seconds: float
    """Since its last good pass, or since that was set aside."""
    what: str = ""
    tries: int = 0

    @property
    def kind(self) -> tuple[str, str]:
        """Each service that fails is a kind of its own; of what is set aside, service and kind."""
        return self.service, kind_of(self.what)

    @property
    def consequence(self) -> str:
        """What the node does not do while the service fails."""
        return _WITHOUT.get(self.service, "")


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Empty: nothing is wrong."""

    troubles: tuple[Trouble, ...] = ()
    """Services that fail first."""
    more: int = 0
    """How many more things are set aside."""


def written(health: NodeHealth) -> str | None:
    """As the node's row keeps it, bounded; None when nothing is wrong."""
    if not health.troubles:
        return None
    fair = in_turns(health.troubles, lambda each: each.kind)[:MOST_ENTRIES]
    failing = [_bounded(asdict(each)) for each in fair if not each.what]
    without = [_bounded(asdict(each)) for each in fair if each.what]
    more = health.more + len(health.troubles) - len(fair)
    return json.dumps({"failing": failing, "without": without, "more": more})


def read_health(row: Mapping[str, Any]) -> NodeHealth:
    """Of a row with ``health`` (JSON, or its text) and ``health_age``, the seconds since it was
    written.
    """
    found = row["health"]
    if isinstance(found, str):
        found = json.loads(found)
    if not found or row["state"] == "dead":
        return NodeHealth()
    age = min(max(0.0, row["health_age"]), _LONGEST_SECONDS)
    try:
        entries = (*found["failing"], *found["without"])
        return NodeHealth(tuple(_read(each, age) for each in entries), int(found["more"]))
    except (TypeError, ValueError, KeyError) as error:
        unread = f"what it reports of its services can't be read: {type(error).__name__}: {error}"
        return NodeHealth((Trouble("node", unread, age),))


def _read(written: Mapping[str, Any], age: float) -> Trouble:
    """Of what it knows: a node of a newer version may report more."""
    known = {each.name: written[each.name] for each in fields(Trouble) if each.name in written}
    return Trouble(**{**known, "seconds": float(written["seconds"]) + age})


def kind_of(what: str) -> str:
    """The word that it begins with: run, schedule, breaker …"""
    return what.partition(" ")[0]


def in_turns(items: Iterable[Item], kind: Callable[[Item], Hashable]) -> list[Item]:
    """The first of each kind, then the second of each …: in a short list none hides the others."""
    seen: Counter[Hashable] = Counter()
    turns: list[tuple[int, Item]] = []
    for item in items:
        turns.append((seen[kind(item)], item))
        seen[kind(item)] += 1
    return [item for _, item in sorted(turns, key=lambda turn: turn[0])]


def without_words(each: Trouble) -> str:
    """Why a service goes on without it."""
    times = "once" if each.tries == 1 else f"{each.tries} times"
    return f"the {each.service} goes on without it, tried {times}: {each.error}"


def merged(health: Iterable[tuple[str, NodeHealth]]) -> Sequence[tuple[tuple[str, ...], Trouble]]:
    """What is wrong on nodes (names, and the health of each; a name may have several, of which one
    lives), each cause once with the nodes that have it.
    """
    causes: dict[tuple[str, str], tuple[list[str], Trouble]] = {}
    for node, found in health:
        for cause in found.troubles:
            key = cause.service, cause.what or cause.error
            nodes, longest = causes.get(key, ([], cause))
            causes[key] = [*nodes, node], max(longest, cause, key=lambda each: each.seconds)
    rows = [(tuple(nodes), cause) for nodes, cause in causes.values()]
    return in_turns(rows, lambda each: each[1].kind)


def _bounded(entry: dict[str, Any]) -> dict[str, Any]:
    return {
        name: storable(value, MOST_CHARACTERS) if isinstance(value, str) else value
        for name, value in entry.items()
    }


FEW: Final = 5
"""Unresponsive runs that a row of ``list_nodes`` has at most, as its statement says."""


def unresponsive_words(runs: Sequence[int]) -> str:
    """What they are, as the beginning of a sentence about their node."""
    more = " and more" if len(runs) >= FEW else ""
    names = ", ".join(map(str, runs))
    if len(runs) == 1:
        return f"run {names} goes on though asked to stop, and holds its slot"
    return f"runs {names}{more} go on though asked to stop, and hold their slots"


_POOLED: Final = (
    "No notification reaches it (none passes through a pooler in transaction mode), so it looks "
    "for work by and by. A listen_dsn that leads to the server itself lets work begin at once."
)


def node_row(facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """One node incarnation at an instant: a row of `pgcron_ha.db.queries.pages.nodes.nodes`, and

    - ``word``: alive, cordoned, draining, silent (its lease ran out), gone (left in order) or died;
    - ``left``, seconds of its lease, below zero if it ran out, and ``lease_left``: at least 0, None
      of the dead;
    - ``over_at``: when it ended, of a silent one the end of its lease; None while it lives;
    - ``cordon``: by whom and why it takes nothing new; None: it does;
    - ``reason``: why it ended; of a cordoned one by whom it is, and why;
    - ``services``: their health, and ``troubles``, a sentence for each thing that is wrong;
    - ``labels``, each as key=value, and a ``sentence``: why it ended, or what happens to it now.
    """
    word, left = str(facts["state"]), (facts["lease_until"] - now).total_seconds()
    is_dead = word == "dead"
    if is_dead:
        word = "died" if "lease" in (facts["ended_because"] or "") else "gone"
    elif left <= 0:
        word = "silent"
    cordon = None
    if facts["cordoned_at"]:
        cordon = who_and_why(facts["cordoned_by"], short(facts["cordon_note"] or ""))
    services = read_health(facts)
    row = {
        **facts,
        "word": word,
        "left": left,
        "lease_left": None if is_dead else max(0.0, left),
        "over_at": facts["lease_until"] if word == "silent" else facts["ended_at"],
        "cordon": cordon,
        "reason": facts["ended_because"] if cordon is None else cordon,
        "services": services,
        "troubles": [_trouble_words(each) for each in services.troubles],
        "labels": [f"{key}={value}" for key, value in json.loads(facts["labels"]).items()],
    }
    unresponsive = facts["unresponsive_runs"]
    said = [
        _sentence(row),
        unresponsive and f"{capital(unresponsive_words(unresponsive))}.",
        _POOLED if facts["is_pooled"] and not is_dead else None,
    ]
    return {**row, "sentence": " ".join(filter(None, said)) or None}


def _trouble_words(each: Trouble) -> str:
    if each.what:
        return f"{capital(each.what)}: {without_words(each)}"
    fails = f"no pass has succeeded for {duration(each.seconds)}"
    return f"{capital(each.service)}: {fails}: {each.error}"


def _sentence(row: Mapping[str, Any]) -> str | None:
    runs = row["runs"]
    match row["word"]:
        case "silent":
            held = f"; a living one declares it dead and takes over {plural(runs, 'run')}"
            return f"Its lease ran out {duration(-row['left'])} ago{held if runs else ''}."
        case "cordoned":
            rest = f"finishes {plural(runs, 'run')}" if runs else "holds no run: it is drained"
            by = f", by word of {row['cordon']}" if row["cordon"] else ""
            return f"It takes nothing new{by}; it {rest}."
        case "draining":
            if not runs:
                return "It leaves."
            return f"It takes nothing new and finishes {plural(runs, 'run')}."
        case "died":
            because = capital(row["ended_because"])
            return f"{because}: its runs were taken over by living nodes."
        case "gone":
            return capital(row["ended_because"] or "")
    return None
