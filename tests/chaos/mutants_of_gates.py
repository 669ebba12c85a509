"""Guards of admission, and of the claim: limits, rates, labels, overlap slots, the fire before."""

from __future__ import annotations

from typing import Final

from tests.chaos.taking_away import Mutant

DROP_OVERLAP_INDEX: Final = "DROP INDEX pgcron.run_overlap_slot"
_SLEEP_BEFORE_IT_TAKES = (
    (
        "    claimed := pgcron.take_chosen(",
        "    PERFORM pg_sleep(0.2);\n    claimed := pgcron.take_chosen(",
    ),
)
_ANY_NUMBER = ("WHEN r.slots IS NULL THEN", "WHEN true THEN")
_KEY_ROOM = "least(k.key_room, k.quota)"
_HOLDS_A_SLOT = "AND o.overlap_slot IS NOT NULL\n        UNION ALL"

MUTANTS_OF_GATES: Final = (
    Mutant(
        "replaced_too_early",
        "what is replaced keeps its slot until it is really over (and the slot's unique index)",
        functions={
            "overlap_taken": (
                (_HOLDS_A_SLOT, _HOLDS_A_SLOT.replace("\n", " AND o.cancel_at IS NULL\n")),
            )
        },
        commands=(DROP_OVERLAP_INDEX,),
        needs=("N1",),
    ),
    Mutant(
        "previous_unchecked",
        "a fire that depends on the one before it begins after that has succeeded",
        functions={
            "admit_previous": (("is_open := dependent.verdict = 'fine';", "is_open := true;"),)
        },
        needs=("N19.pester",),
    ),
    Mutant(
        "key_unchecked",
        "of a key no more runs are claimed than it has slots (and the slots' unique index)",
        functions={
            "choose_gated": ((_KEY_ROOM, "k.quota"), _ANY_NUMBER),
            "key_room": (("LEAST(limits.room,", "LEAST(NULL::int,"),),
        },
        needs=("N1",),
    ),
    Mutant(
        "key_slots_without_places",
        "of two nodes that count at the same moment one has a key's last slot (its unique index)",
        functions={"choose_gated": (_ANY_NUMBER,), "claim_gated": _SLEEP_BEFORE_IT_TAKES},
        needs=("N1",),
    ),
    Mutant(
        "key_weight_unchecked",
        "the weights of a key's runs are together at most its slots, where they count",
        functions={"choose_gated": (("(k.slots_upto > k.key_room) IS NOT TRUE", "true"),)},
        needs=("N1",),
    ),
    Mutant(
        "taken_unseen",
        "a run that was chosen is looked at again when its row is locked",
        functions={
            "take_chosen": ((" AND l.state = 'ready' AND l.due_at <= now()", ""),),
            "claim_gated": _SLEEP_BEFORE_IT_TAKES,
        },
        needs=("N1",),
    ),
    Mutant(
        "rate_unchecked",
        "of a key no more runs start in a time than its rate says",
        functions={
            "choose_gated": ((_KEY_ROOM, "k.key_room"),),
            "key_room": (("array_remove(ARRAY[limits.rate]", "array_remove(ARRAY[NULL::int]"),),
        },
        needs=("N1",),
    ),
    Mutant(
        "rate_uncounted",
        "a claim is counted for its rate",
        functions={
            "count_claimed": (
                ("IF limited <> '{}' THEN", "IF false THEN"),
                (
                    "IF EXISTS (SELECT FROM pgcron.concurrency_limit l WHERE l.rate IS NOT NULL)",
                    "IF false",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "rate_unlocked",
        "a key's rate, and its weight, is read and counted by one node at a time",
        functions={
            "lock_rates": (("ORDER BY w.name\n                  FOR UPDATE SKIP LOCKED", ""),),
            "claim_gated": _SLEEP_BEFORE_IT_TAKES,
        },
        needs=("N1",),
    ),
    Mutant(
        "queue_unchecked",
        "of a queue no more runs are claimed than may execute at once",
        functions={"lock_queues": (("- running.runs", "- 0"),)},
        needs=("N1",),
    ),
    Mutant(
        "queue_unlocked",
        "a limited queue is counted and claimed from by one node at a time",
        functions={
            "lock_queues": (("ORDER BY q.name FOR NO KEY UPDATE SKIP LOCKED", "ORDER BY q.name"),),
            "claim_gated": _SLEEP_BEFORE_IT_TAKES,
        },
        needs=("N1",),
    ),
    Mutant(
        "limits_passed_by",
        "a limited queue is left to the claim that looks at its limit",
        functions={
            "claim": (("WHERE q.name = open_path.queue AND NOT q.is_plain)", "WHERE false)"),)
        },
        needs=("N1",),
    ),
    Mutant(
        "labels_unchecked",
        "a run that requires labels is claimed by nodes that have them",
        functions={
            "label_words": (
                (
                    "coalesce(array_agg(word), '{}')",
                    "coalesce(array_agg(word), '{}') || '{zone=a,zone=b}'::text[]",
                ),
            )
        },
        needs=("N1",),
    ),
    Mutant(
        "breaker_unchecked",
        "while a handler's breaker is not closed only its probes are claimed",
        functions={
            "is_broken": (("b.state <> 'closed'", "false"),),
            "look_at_breakers": (
                (
                    "ARRAY(SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = b.name"
                    " ORDER BY m.handler)",
                    "'{}'::text[]",
                ),
            ),
        },
        needs=("N1",),
    ),
    Mutant(
        "blocked_for_ever",
        "a run that no node could take is ready again when one joins that can",
        texts={"unblock": (("p.gate IN ('breaker', 'no_node')", "p.gate IN ('breaker')"),)},
        needs=("N1",),
    ),
    Mutant(
        "claims_ahead_of_time",
        "a run is claimed when it is due",
        functions={"claim": (("c.due_at <= now()", "c.due_at <= now() + interval '2 s'"),)},
        needs=("N1",),
    ),
    Mutant(
        "weight_unchecked",
        "no more weight is claimed than a node has free slots",
        functions={
            "choose_gated": (
                ("d.weight > free AS is_heavy", "false AS is_heavy"),
                ("WHERE r.is_heavy OR r.upto <= r.room", "WHERE true"),
            )
        },
        needs=("N1",),
        survives="the node that claims too much lets it wait for slots of its own",
    ),
)
"""Any load shows most of them: what limits are for is in it all the time."""
