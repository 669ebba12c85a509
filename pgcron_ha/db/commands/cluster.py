"""What people set for the whole cluster: cordons of nodes, pauses and limits of queues and keys,
circuit breakers, how long records are kept.

A node is named by its name (every process of it, those that start later, too) or by the incarnation
of one process. NotFound for one that nobody knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows
from pgcron_ha.model.formats import state_words

cordon_node: Final = Call[int]("cordon_node", "node", note=None)
"""It claims nothing from now on and ends what it holds; how many of its processes live."""

uncordon_node: Final = Call[int]("uncordon_node", "node")
"""It claims again; how many of its processes do. Conflict for a process of a cordoned name."""

held_by_node: Final = Call[int]("held_by_node", "node")
"""How many runs its living processes hold: 0 is drained, once it is cordoned."""

pause_cluster: Final = Call[None]("pause_cluster", note=None)
"""Nobody claims anything until it is resumed; what runs goes on, and fires become runs."""

resume_cluster: Final = Call[None]("resume_cluster")
"""Runs are claimed again."""

pause_queue: Final = Call[None]("pause_queue", "queue", note=None)
"""Nobody claims from the queue until it is resumed; what runs goes on."""

resume_queue: Final = Call[None]("resume_queue", "queue")
"""The queue is claimed from again; nothing happens to one that was not paused."""

set_queue: Final = Call[None]("set_queue", "queue", "max_running")
"""Limits how many of the queue's runs execute at once on all nodes together, and how many (`rate`)
start in any span of `per`; None is no limit.
"""

set_concurrency: Final = Call[None]("set_concurrency", "concurrency_key", "slots")
"""Limits how many runs of the key execute at once, and how many (`rate`) start in any span of
`per`; None is no limit. A name that ends with ``*`` is for all keys with that prefix.
"""

delete_concurrency: Final = Call[None]("delete_concurrency", "concurrency_key")
"""What was set for this name holds no more."""

retention: Final = Rows("list_retention", limit=DEFAULT_LIMIT)
"""Tables (`relation`) first, then rules (`queue`, `outcome`; None: every), the most specific first:
`keep` is what was set, `in_force` is shorter where history as a whole is.
"""

set_retention: Final = Call[None]("set_retention", "keep")
"""Keeps such runs (`queue`, `outcome`) for a shorter time than history, after their end.
InvalidInput.
"""

delete_retention: Final = Call[None]("delete_retention")
"""Deletes the rule for just these (`queue`, `outcome`); what is left holds. NotFound."""

set_table_retention: Final = Call[None]("set_table_retention", "relation", "keep")
"""How long a table's partitions are kept: occurrence, history, attempt, log or audit. InvalidInput,
NotFound.
"""


breakers: Final = Rows("list_breakers", limit=DEFAULT_LIMIT)
"""All of them, those that are not closed first; `waiting` counts up to 10,000 runs."""

fallback_of_run: Final = Rows("fallback_of_run", "run_id").one
"""The breaker whose fallback took a run, and what the run asked for; None: no other took it."""

set_breaker: Final = Call[None](
    "set_breaker", "breaker", "failures", "within", "open_for", handlers=()
)
"""These settings count before what nodes declare. `handlers` share it with the one that it is
named after. InvalidInput.
"""

reset_breaker: Final = Call[bool]("reset_breaker", "breaker")
"""Closes it; what waits for it goes. Whether it was not closed. NotFound."""

delete_breaker: Final = Call[None]("delete_breaker", "breaker")
"""It is gone; a node that declares it makes it anew when it starts. NotFound."""


def scope_words(row: Mapping[str, Any]) -> str:
    """What a row of `retention` is about: ``succeeded runs of queue 'mail'``."""
    if row["relation"] is not None:
        return str(row["relation"])
    outcome = "ended" if row["outcome"] is None else state_words(row["outcome"])
    return f"{outcome} runs" + ("" if row["queue"] is None else f" of queue '{row['queue']}'")


def fallback_words(row: Mapping[str, Any]) -> str:
    """Why a run has another handler or queue than requested, from `fallback_of_run`."""
    asked = f"asked for {row['asked_handler']} in queue {row['asked_queue']}"
    return f"{asked}; the circuit of {row['breaker']} was open: {row['reason'][:300]}"
