"""Guards of workflows: counts, locks, fences and the ends that release."""

from __future__ import annotations

from typing import Final

from tests.chaos.failpoints import Failpoints
from tests.chaos.taking_away import Mutant

_LOCKED = "LIMIT 1 FOR UPDATE SKIP LOCKED))[1]\n      FROM unnest(counts) g);"
_NOT_LOCKED = "LIMIT 1))[1]\n      FROM unnest(counts) g);"
_COUNTED = "UPDATE pgcron.step s SET waits = s.waits - t.ends, good"
_RELEASED = (
    "array_agg(f.id), array_agg(f.result::text)) FROM finished f\n"
    "  WHERE f.origin = 'step' HAVING count(*) > 0)"
)
_BEGINS = "  IF counts = '{}' THEN RETURN '{}'; END IF;\n"
_SLEEPS_BETWEEN = (
    "  PERFORM pg_sleep(CASE WHEN x.number IN (10, 11) THEN 0.05 ELSE 0 END)"
    " FROM (SELECT s.number FROM pgcron.step s JOIN unnest(counts) g"
    " ON g.workflow = s.workflow AND g.number = s.number"
    " WHERE s.item = -1{}) x;\n"
)
"""Those are the two joins of the shape that has such."""

MUTANTS_OF_WORKFLOWS: Final = (
    Mutant(
        "joins_locked_in_any_order",
        "a step is told of ends in one order with others, and not by who would have to wait",
        functions={
            "count_ends": (
                (_BEGINS, _BEGINS + _SLEEPS_BETWEEN.format(" ORDER BY random() FOR UPDATE OF s")),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "joins_uncounted",
        "a step counts the ends that it waits for",
        functions={"count_ends": ((_COUNTED, _COUNTED.replace("s.waits - t.ends", "0")),)},
        needs=("N1",),
    ),
    Mutant(
        "joins_counted_by_a_snapshot",
        "of two ends of one join the second counts on from the first",
        functions={
            "count_ends": (
                (_LOCKED, _NOT_LOCKED + "\n" + _SLEEPS_BETWEEN.format("")),
                (
                    _COUNTED,
                    _COUNTED.replace(
                        "s.waits - t.ends",
                        "(SELECT x.waits FROM pgcron.step x WHERE x.workflow = t.workflow"
                        " AND x.number = t.number AND x.item = -1) - t.ends",
                    ),
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "end_without_release",
        "a run's end tells the steps that wait for it",
        texts={
            "finish_runs": (
                (
                    "SELECT f.id FROM finished f WHERE (SELECT count(*) FROM released) >= 0",
                    "SELECT f.id FROM finished f",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "bad_end_without_release",
        "an end that is no success tells the steps that wait for it, too",
        functions={
            "step_ended": (
                (
                    "WHERE s.run = step_ended.run_id",
                    "WHERE step_ended.outcome <> 'dead' AND s.run = step_ended.run_id",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "release_without_fence",
        "who has lost a run releases nothing",
        texts={
            "finish_runs": (
                (
                    _RELEASED,
                    ":run_ids::bigint[], coalesce(:results::text[], '{}'))"
                    " FROM (SELECT count(*) FROM finished) f)",
                ),
            )
        },
        needs=("N3",),
        points=Failpoints(frozen=0.05),
    ),
    Mutant(
        "cleared_while_it_executes",
        "a step that is cleared, and all below it, are over before they begin again",
        functions={
            "clear_steps": (
                (
                    "false, 'its step is to be run again') > 0",
                    "false, 'its step is to be run again') < 0",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "list_unlimited",
        "of a list no more items execute at once than may",
        functions={
            "advance_lists": (
                (
                    "coalesce((one.definition).max_parallel, 10000) - counted.running",
                    "10000 - counted.running",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "parallelism_uncounted",
        "no more steps of a workflow execute at once than its parallelism says",
        functions={
            "begin_step": (
                (
                    "AND NOT (may_begin AND pgcron.room_of(w, definition) > 0) THEN",
                    "AND false THEN",
                ),
            )
        },
        needs=("N1",),
    ),
)
"""Workflows are in the load all the time, so that any fault shows most of them."""
