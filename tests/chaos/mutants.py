"""Guards of the protocol, each of which can be taken away: what the harness must be able to see.

A mutant changes named statements or methods in the node's own process, or functions, indexes and
constraints of the database after its migration. Where one guard stands behind another, the mutant
takes both: what holds without the first is the second's work. ``needs`` are the nemeses that make
a mutant visible soon; ``points`` the failpoints that do.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from pgcron_ha.operating_system import boottime
from tests.chaos.failpoints import Failpoints
from tests.chaos.mutants_of_gates import DROP_OVERLAP_INDEX, MUTANTS_OF_GATES
from tests.chaos.mutants_of_workflows import MUTANTS_OF_WORKFLOWS
from tests.chaos.taking_away import Mutant, Replacements, StaleMutant, replace
from tests.product.engine import acceptance, dispatcher, lease, node, session
from tests.product.engine import reconcile_module as reconcile
from tests.product.executors import supervisor_client

VARIABLE: Final = "CHAOS_MUTANT"

# Changes of methods.


def _put(place: Any, name: str, changed: object) -> None:
    """In the place of what is called so there."""
    if not hasattr(place, name):
        raise StaleMutant(f"{place!r} has no {name} any more")
    setattr(place, name, changed)


def _never_fence_itself() -> None:
    held, over = lease.LeasePhase.HELD, lease.LeasePhase.OVER
    _put(lease.Lease, "phase", lambda self, now: held if self.renewed_at > 0 else over)
    _put(lease.Lease, "is_held", lambda self, now: self.renewed_at > 0)
    # Executors keep the deadline by themselves.
    acknowledge = session.Session._acknowledge

    def acknowledge_for_ever(self: session.Session, sent: float) -> None:
        acknowledge(self, sent)
        self._hooks.renewed(sent + 1e6)

    _put(session.Session, "_acknowledge", acknowledge_for_ever)


def _without(part: str) -> Callable[[], None]:
    """What reconciliation finds of this kind is not done."""

    def change() -> None:
        def less(*arguments: Any) -> reconcile.Reconciliation:
            nothing: Any = []
            return dataclasses.replace(reconcile.reconcile(*arguments), **{part: nothing})

        _put(node, "reconcile", less)

    return change


def _release_at_first_sight() -> None:
    """Without waiting for the answers that are under way."""

    def at_once(beat: Any, held: Any, unknown: Any, settled: float) -> reconcile.Reconciliation:
        first = {run: (token, float("-inf")) for run, token in beat.runs.items()}
        return reconcile.reconcile(beat, held, first, float("inf"))

    _put(node, "reconcile", at_once)


def _count_the_lease_from_the_answer() -> None:
    renew = lease.Lease.renew
    _put(lease.Lease, "renew", lambda self, sent_at: renew(self, boottime()))


def _trust_notifications() -> None:
    initialise = dispatcher.Dispatcher.__init__

    def without_poll(self: dispatcher.Dispatcher, *arguments: Any) -> None:
        initialise(self, *arguments)
        self.interval = 3600.0

    _put(dispatcher.Dispatcher, "__init__", without_poll)
    _put(dispatcher.Dispatcher, "_until_due", lambda self: 3600.0)
    _put(dispatcher.Dispatcher, "joined", lambda self: None)


_CARELESS = """
from pgcron_ha.executors.process import supervisor
class Careless(supervisor.Supervisor):
    def kill_all(self):
        import os, time
        os.closerange(3, 256)
        time.sleep(20)
    def _keep_lease(self):
        pass
supervisor.Supervisor = Careless
main()
"""


def _leave_children_alive() -> None:
    program = supervisor_client._PROGRAM
    _put(supervisor_client, "_PROGRAM", replace("_PROGRAM", program, (("main()\n", _CARELESS),)))


def _begin_what_was_claimed_before() -> None:
    """Runs that an earlier incarnation has claimed are begun all the same."""

    async def take(self: acceptance.Acceptance, rows: list[Any], *_: Any, **__: Any) -> None:
        self._runner.accept(rows, {})

    _put(acceptance.Acceptance, "take", take)


_DROP_FIRE_NET = "DROP INDEX pgcron.run_fire"
_LEDGER_FORGETS: Replacements = (
    ("  ON CONFLICT (schedule_id, fire_at) DO NOTHING\n", ""),
    ("  ON CONFLICT (schedule_id, scheduled_for) WHERE scheduled_for IS NOT NULL DO NOTHING\n", ""),
)
_NO_LEDGER = ("ALTER TABLE pgcron.occurrence DROP CONSTRAINT occurrence_pkey", _DROP_FIRE_NET)
_LOST = Failpoints(lost=0.05)
_ZOMBIES = Failpoints(lost=0.01, frozen=0.01)
_SLOW = Failpoints(slow=0.3, lost=0.01)
_ALWAYS_SLOW = Failpoints(slow=0.95)

_A_TOKEN = "token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid"
_THE_RUNS = ((_A_TOKEN, "token = pgcron.run_uuid(r.uuid, r.id, r.created_at)"),)
_OF_THE_ATTEMPT = ((_A_TOKEN, "token = md5(r.id || '/' || (r.attempt + 1))::uuid"),)
_CAS = " AND c.generation = p.generation AND c.watermark = p.watermark"
_NO_RULES = "ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules"
_SCHEDULE_LOCK = "\n                  FOR NO KEY UPDATE SKIP LOCKED"
_TAKEN = (
    ("SELECT count(*)::int,", "SELECT 0,"),
    ("array_agg(h.overlap_slot) FILTER (WHERE h.overlap_slot IS NOT NULL)", "NULL::smallint[]"),
)
_CANCEL = "PERFORM pgcron.ask_to_stop(ARRAY[run], by_force, why);"
_RETRYABLE = (
    "ended.retryable AND run.attempt < pgcron.attempts_allowed(run.max_attempts, run.delivery)"
)
_ONCE = (
    "WHEN run.delivery = 'at_most_once'"
    " THEN CASE kind WHEN 'lease_lost' THEN 'lost' ELSE 'dead' END"
)

MUTANTS: Final = (
    Mutant(
        "no_token",
        "completions are fenced by the claim's token",
        texts={"finish_runs": ((" AND r.token = given.token", ""),)},
        needs=("N3", "N6"),
        points=_ZOMBIES,
    ),
    Mutant(
        "token_of_the_run",
        "the token names the claim, not the run",
        functions={"claim": _THE_RUNS, "take_chosen": _THE_RUNS},
        needs=("N3", "N6"),
        points=_ZOMBIES,
    ),
    Mutant(
        "no_self_fence",
        "a node stops before its lease is over",
        in_node=_never_fence_itself,
        needs=("N6",),
    ),
    Mutant(
        "no_reconciliation",
        "claims whose answer was lost are given back",
        in_node=_without("to_release"),
        needs=("N5",),
        points=_LOST,
    ),
    Mutant(
        "hasty_reconciliation",
        "a claim whose answer is under way is not given back",
        in_node=_release_at_first_sight,
        needs=("N5", "N20"),
    ),
    Mutant(
        "begins_for_a_dead_incarnation",
        "what an earlier incarnation has claimed is not begun",
        in_node=_begin_what_was_claimed_before,
        needs=("N16",),
        points=Failpoints(late=0.05),
    ),
    Mutant(
        "no_compare_and_set",
        "the cursor is moved only from where it was read",
        texts={"materialize": ((_CAS, ""),)},
        needs=("N17",),
        points=_SLOW,
    ),
    Mutant(
        "no_generation",
        "a decision counts for the version it was made for",
        texts={"materialize": ((" AND c.generation = p.generation", ""),)},
        needs=("N17.pause_after_an_edit",),
        points=_ALWAYS_SLOW,
    ),
    Mutant(
        "no_ledger",
        "the ledger's key makes each fire one row (and the cursor's compare-and-set before it)",
        texts={"materialize": ((_CAS, ""), *_LEDGER_FORGETS)},
        commands=_NO_LEDGER,
        needs=("N17",),
        points=_SLOW,
    ),
    Mutant(
        "late_fires_untold",
        "fires that are dropped are written down",
        texts={
            "materialize": (
                (
                    "JOIN moved ON moved.schedule_id = d.schedule_id\n",
                    "JOIN moved ON moved.schedule_id = d.schedule_id AND false\n",
                ),
            )
        },
        needs=("N7.outlast_the_horizon",),
    ),
    Mutant(
        "pauses_untold",
        "resuming writes the pause down",
        functions={
            "apply_edit": (
                (
                    "PERFORM pgcron.record_missed(cursor_before, recorded_until, unrecorded);",
                    "NULL;",
                ),
            )
        },
        needs=("N17",),
    ),
    Mutant(
        "clock_before_locks",
        "an edit reads the clock after it has locked the rows (and the ledger keeps what ran)",
        functions={
            "apply_edit": (
                ("  edit_time := clock_timestamp();\n", ""),
                ("  edit_time timestamptz;", "  edit_time timestamptz := clock_timestamp();"),
                (
                    "(o.fire_at IN (SELECT scheduled_for FROM gone)"
                    " OR (o.fire_at > edit_time AND o.run_id IS NULL))",
                    "o.fire_at > edit_time",
                ),
            )
        },
        needs=("N17.edit_behind_a_lock",),
    ),
    Mutant(
        "edits_look_back",
        "an edit decides nothing before itself",
        functions={
            "apply_edit": (
                (
                    "WHEN unrecorded IS NOT NULL THEN recorded_until"
                    " WHEN (status = 'valid' OR is_paused) AND next_fire > edit_time"
                    " THEN edit_time",
                    "WHEN unrecorded = 'paused' THEN recorded_until",
                ),
            )
        },
        needs=("N17.wake_a_sleeper",),
    ),
    Mutant(
        "overlap_unchecked",
        "a schedule that is held is not claimed (and the slot's unique index)",
        functions={"overlap_taken": _TAKEN},
        commands=(DROP_OVERLAP_INDEX,),
        needs=("N1",),
    ),
    Mutant(
        "overlap_unlocked",
        "a schedule is decided under its lock (and the slot's unique index)",
        functions={
            "admit_overlap": (
                (_SCHEDULE_LOCK, ""),
                (
                    "  ready := pgcron.give_slots(",
                    "  PERFORM pg_sleep(0.3);\n  ready := pgcron.give_slots(",
                ),
            )
        },
        commands=(DROP_OVERLAP_INDEX,),
        needs=("N19.crowd_schedules",),
    ),
    Mutant(
        "forced_release",
        "a run that is asked to stop keeps its slot until it has stopped",
        functions={
            "stop_run": (
                (
                    _CANCEL,
                    "PERFORM pgcron.end_run(r, 'cancelled', NULL, why, NULL, NULL)"
                    " FROM pgcron.run r WHERE r.id = run;",
                ),
            )
        },
        needs=("N19",),
    ),
    Mutant(
        "reaper_without_beat",
        "a peer that has renewed meanwhile is not declared dead",
        texts={
            "declare_dead": (
                (
                    "n.beat_sequence = :beat_sequence AND n.lease_until < now()",
                    "(n.beat_sequence = :beat_sequence OR true)",
                ),
            )
        },
        needs=("N3",),
        points=Failpoints(slow=0.9, beat_delay=0.6),  # it renews shortly before its end
    ),
    Mutant(
        "lease_from_the_answer",
        "the lease counts from when its renewal was sent",
        in_node=_count_the_lease_from_the_answer,
        needs=("N6.cut_off_unresponsive",),
        points=Failpoints(beat_delay=0.23),
    ),
    Mutant(
        "claims_without_bound",
        "a claim's limit holds whatever plan is chosen",
        functions={
            "claim": (
                # What PostgreSQL may make of IN (… LIMIT …): evaluated anew for each row.
                (
                    "WHERE r.id = ANY(ARRAY(\n          SELECT due.id",
                    "WHERE r.id IN (SELECT due.id",
                ),
                ("LIMIT claim.plain))", "LIMIT claim.plain + 0 * r.attempt)"),
            )
        },
        needs=("N20.burst",),
    ),
    Mutant(
        "notifications_only",
        "a node looks for work by itself",
        in_node=_trust_notifications,
        needs=("N16", "N5"),
    ),
    Mutant(
        "endless_retries",
        "a run is not tried more often than allowed (and the rule of its row)",
        functions={"judge_attempt": ((_RETRYABLE, "ended.retryable"),)},
        commands=(_NO_RULES,),
        needs=("N20.break_handlers",),
    ),
    Mutant(
        "once_is_retried",
        "what may start once never comes back (and the rule of its row)",
        functions={
            "judge_attempt": ((_ONCE, ""), ("ELSIF run.delivery = 'at_most_once'", "ELSIF false")),
            "attempts_allowed": (("THEN 1", "THEN 5"),),
        },
        commands=(_NO_RULES,),
        needs=("N1",),
    ),
    Mutant(
        "children_survive",
        "the supervisor ends the programs of a dead node",
        in_node=_leave_children_alive,
        needs=("N2",),
    ),
    Mutant(
        "keys_forgotten",
        "a living idempotency key names its run",
        functions={"enqueue": (("WHERE known.expires_at <= now()", "WHERE true"),)},
        needs=("N1",),
    ),
    Mutant(
        "token_of_the_attempt",
        "the token is random: an attempt's number comes again after commits were lost",
        functions={"claim": _OF_THE_ATTEMPT, "take_chosen": _OF_THE_ATTEMPT},
        needs=("N3", "N6"),
        points=_ZOMBIES,
        survives="one server loses no commit; a failover that does is not played here",
    ),
    *MUTANTS_OF_GATES,
    *MUTANTS_OF_WORKFLOWS,
)
"""In the order in which they are tried."""

BY_NAME: Final = {mutant.name: mutant for mutant in MUTANTS}
