"""The checkers see nothing in valid histories, and each lie in one that has one."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.chaos.checking.fires import Ledger, Version
from tests.chaos.checking.history import Facts, History, entries
from tests.chaos.checking.verdict import check
from tests.chaos.lying import CASES, Lie, began, copy_of, has_ticks, some, tell
from tests.chaos.synthetic import WALL, valid_history


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 100_000))
def test_a_valid_history_is_not_broken(seed: int) -> None:
    assert check(valid_history(seed)).broken == []


def loses_a_fire(history: History, chance: random.Random) -> bool:
    row = some(history, "occurrences", chance)
    if row is None or not 4 < row["fire_at"] - WALL < 29:
        return False
    history.table("occurrences").remove(row)
    return True


def decides_a_fire_twice(history: History, chance: random.Random) -> bool:
    row = some(history, "occurrences", chance)
    if row is None:
        return False
    history.table("occurrences").append(dict(row))
    return True


def decides_and_misses_a_fire(history: History, chance: random.Random) -> bool:
    row = some(history, "occurrences", chance)
    if row is None or not 4 < row["fire_at"] - WALL < 29:
        return False
    at, schedule = row["fire_at"], row["schedule_id"]
    missed = {"schedule_id": schedule, "first_at": at, "last_at": at, "reason": "catchup_none"}
    history.table("missed").append(missed)
    return True


def decides_what_nobody_owed(history: History, chance: random.Random) -> bool:
    row = some(history, "missed", chance, reason="paused")
    run = some(history, "ended", chance)
    if row is None or run is None:
        return False
    fire = {"schedule_id": row["schedule_id"], "fire_at": WALL + 50, "decision": "run"}
    history.table("occurrences").append({**fire, "run_id": run["id"]})
    return True


def forgets_a_pause(history: History, chance: random.Random) -> bool:
    row = some(history, "missed", chance, reason="paused")
    if row is None:
        return False
    versions = [v for v in history.table("versions") if v["schedule_id"] == row["schedule_id"]]
    if not any("* * * * * *" in json.loads(v["content"])["spec"] for v in versions[-2:]):
        return False
    history.table("missed").remove(row)
    return True


def ends_a_run_twice(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance)
    if row is None:
        return False
    history.table("ended").append(dict(row))
    return True


def keeps_an_ended_run_alive(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance)
    if row is None:
        return False
    live = {**row, "state": "ready", "gate": None}
    del live["outcome"], live["finished_at"]
    history.table("live").append(live)
    return True


def loses_a_run(history: History, chance: random.Random) -> bool:
    operation = next((f for f in history.answers().values() if is_enqueued(f)), None)
    if operation is None:
        return False
    rows = history.table("ended")
    history.tables["ended"] = [row for row in rows if row["id"] != operation["value"]]
    return True


def is_enqueued(facts: Facts) -> bool:
    return bool(facts["what"] == "enqueue" and facts["result"] == "ok")


def makes_a_refused_run(history: History, chance: random.Random) -> bool:
    for number, facts in history.answers().items():
        if facts["what"] == "enqueue" and facts["result"] == "refused":
            row = some(history, "ended", chance, outcome="cancelled", origin="enqueued")
            if row is None:
                return False
            row["args"] = json.dumps({"op": number})
            return True
    return False


def reports_a_key_two_runs(history: History, chance: random.Random) -> bool:
    asked = [f for f in history.answers().values() if is_enqueued(f) and f["key"]]
    if len(asked) < 2:
        return False
    for event in history.of("ask"):
        if event["op"] == asked[0]["op"]:
            event["key"] = asked[1]["key"]
    return bool(asked[0]["value"] != asked[1]["value"])


def succeeds_without_an_end(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded")
    if row is None:
        return False
    history.events = [
        event
        for event in history.events
        if not (event["kind"] == "end" and event["fence"] == row["fence"])
    ]
    return True


def succeeds_by_another_s_completion(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded")
    if row is None:
        return False
    row["fence"] += 100_000
    return True


def succeeds_too_early(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded")
    if row is None:
        return False
    row["finished_at"] -= 0.5
    return True


def starts_a_careful_run_again(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, delivery="at_most_once", outcome="lost")
    if row is None:
        return False
    began(history, row["id"], row["fence"] + 100_000, 2, at=85.0)
    return True


def executes_a_schedule_twice(history: History, chance: random.Random) -> bool:
    starts = [e for e in history.of("start") if e["concurrency_key"] is not None]
    if len(starts) < 2:
        return False
    one = chance.choice(starts)
    for event in history.of("start"):
        if event["concurrency_key"] == one["concurrency_key"] and event["run"] != one["run"]:
            moved = one["at"] + 0.01 - event["at"]
            for each in history.events:
                if each.get("fence") == event["fence"]:
                    each["at"] += moved
            return has_ticks(history, one["fence"])
    return False


def executes_a_run_twice_at_once(history: History, chance: random.Random) -> bool:
    execution = chance.choice(history.executions)
    if not has_ticks(history, execution.fence):
        return False
    at = execution.began + 0.05
    began(history, execution.run, execution.fence + 100_000, execution.attempt + 1, at)
    return True


def goes_on_after_it_woke_up(history: History, chance: random.Random) -> bool:
    """A zombie: heard long after its freeze, beside its successor."""
    for pid, (freeze, *_) in history.freezes.items():
        frozen = [e for e in history.executions if e.pid == pid]
        following = [e for e in history.executions_of[frozen[0].run] if e.began > freeze.begin]
        if not following:
            continue
        facts = {"run": frozen[0].run, "fence": frozen[0].fence, "pid": pid}
        history.events.append({"kind": "tick", "at": freeze.end + 3, **facts})
        return True
    return False


def tries_too_often(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded")
    if row is None:
        return False
    row["attempt"] = (row["max_attempts"] or 5) + 1
    return True


def dies_of_a_few_attempts(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="succeeded", max_attempts=100)
    if row is None:
        return False
    row["outcome"] = "dead"
    return True


def dies_with_two_nodes(history: History, chance: random.Random) -> bool:
    if not dies_of_a_few_attempts(history, chance):
        return False
    row = some(history, "ended", chance, outcome="dead", max_attempts=100)
    assert row is not None
    for attempt in (201, 202):
        lost = {"run_id": row["id"], "attempt": attempt, "outcome": "lease_lost"}
        history.table("attempts").append({**lost, "started_at": None, "ended_at": WALL})
    return True


def runs_what_it_skipped(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="skipped")
    if row is None:
        return False
    began(history, row["id"], 200_000, 1, at=row["finished_at"] - WALL)
    return True


def lets_fences_fall(history: History, chance: random.Random) -> bool:
    for executions in history.executions_of.values():
        if len(executions) > 1:
            low, high = executions[0].fence, executions[1].fence
            for event in history.events:
                if event.get("fence") in (low, high):
                    event["fence"] = high if event["fence"] == low else low
            return True
    return False


def retries_before_the_end(history: History, chance: random.Random) -> bool:
    row = some(history, "attempts", chance)
    if row is None or len(history.executions_of[row["run_id"]]) <= row["attempt"]:
        return False
    row["ended_at"] += 10
    return True


def cancels_unasked(history: History, chance: random.Random) -> bool:
    row = some(history, "ended", chance, outcome="cancelled")
    if row is None:
        return False
    for event in history.of("ask"):
        if event.get("run") == row["id"]:
            event["run"] = -1
    return True


def leaves_a_run_alive(history: History, chance: random.Random) -> bool:
    for event in history.of("phase"):
        if event["name"] == "over":
            event["drained"] = False
    return True


def crowds_a_schedule(history: History, chance: random.Random) -> bool:
    chance.choice(list(history.of("look")))["crowded_schedules"] = 1
    return True


def lets_a_run_wait(history: History, chance: random.Random) -> bool:
    list(history.of("look"))[-1]["waiting"] = 20.0
    return True


def leaves_a_dead_node_s_run(history: History, chance: random.Random) -> bool:
    list(history.of("look"))[-1]["orphaned"] = 20.0
    return True


def keeps_failing(history: History, chance: random.Random) -> bool:
    look = chance.choice(list(history.of("look")))
    look["failing"] = ["n1: reaper: a lock"]
    return not any(history.of("server", "fault"))


def names_no_poison(history: History, chance: random.Random) -> bool:
    at = chance.choice(list(history.of("look")))["at"]
    shown = {"kind": "poison shown", "what": "queue", "name": "poison-1", "seconds": None}
    history.events.append({**shown, "at": at})
    return True


def hoards_runs(history: History, chance: random.Random) -> bool:
    looks = list(history.of("look"))
    for look in looks:
        look["hoarders"] = ["n"] if look["at"] - looks[0]["at"] <= history.ttl else []
    return len(looks) > history.ttl


LIES: tuple[tuple[str, Lie], ...] = (
    ("C1", loses_a_fire),
    ("C1", decides_a_fire_twice),
    ("C1", decides_and_misses_a_fire),
    ("C1", decides_what_nobody_owed),
    ("C1", forgets_a_pause),
    ("C2", ends_a_run_twice),
    ("C2", keeps_an_ended_run_alive),
    ("C3", loses_a_run),
    ("C3", makes_a_refused_run),
    ("C5", succeeds_without_an_end),
    ("C5", succeeds_by_another_s_completion),
    ("C5", succeeds_too_early),
    ("C6", starts_a_careful_run_again),
    ("C7", executes_a_schedule_twice),
    ("C7", executes_a_run_twice_at_once),
    ("C7", goes_on_after_it_woke_up),
    ("C8", tries_too_often),
    ("C8", dies_of_a_few_attempts),
    ("C8", runs_what_it_skipped),
    ("C8", lets_fences_fall),
    ("C8", retries_before_the_end),
    ("C8", cancels_unasked),
    ("C12", reports_a_key_two_runs),
    ("C13", leaves_a_run_alive),
    ("C13", crowds_a_schedule),
    ("C13", lets_a_run_wait),
    ("C13", leaves_a_dead_node_s_run),
    ("C13", hoards_runs),
    ("C15", keeps_failing),
    ("C15", names_no_poison),
)


@pytest.mark.parametrize(("checker", "lie"), LIES, ids=lambda value: getattr(value, "__name__", ""))
def test_a_lie_is_seen(checker: str, lie: Lie) -> None:
    tell(checker, lie)


def test_a_run_may_die_with_two_nodes() -> None:
    reported = 0
    for seed in range(20):
        history = copy_of(seed)
        if dies_with_two_nodes(history, random.Random(seed)):
            changed = History(history.events, history.tables, ttl=history.ttl)
            assert not [each for each in check(changed).broken if "died after" in each]
            reported += 1
    assert reported > CASES


LOG = """\
2026-11-21 18:00:00.000 UTC [12] ERROR:  deadlock detected
2026-11-21 18:00:00.000 UTC [12] DETAIL:  Process 12 waits
\tProcess 13: {query}
2026-11-21 18:00:01.000 UTC [12] LOG:  {message}
"""


@pytest.mark.parametrize(
    ("query", "message", "is_broken"),
    [
        ("UPDATE pgcron.run SET state = 'running'", "all is well", True),
        ("LOCK TABLE pgcron.run IN ACCESS EXCLUSIVE MODE", "all is well", False),
        ("LOCK TABLE", 'duplicate key value violates unique constraint "run_overlap_slot"', True),
        ("LOCK TABLE", 'duplicate key value violates unique constraint "schedule_name_key"', False),
    ],
)
def test_the_server_s_log_is_read(query: str, message: str, is_broken: bool) -> None:
    history = copy_of(1)
    log = LOG.format(query=query, message=message)
    history.server_log = entries(log)

    assert bool(check(history).broken) is is_broken


def test_a_backlog_while_every_slot_is_taken_is_no_fault() -> None:
    history = valid_history(1)
    *_, before, look = history.of("look")
    look["waiting"], before["nodes_with_room"] = 20.0, 0
    assert check(history).broken == []  # there has been room for a second

    before["nodes_with_room"] = 1
    assert [problem[:3] for problem in check(history).broken] == ["C13"]


@pytest.mark.parametrize(("mode", "is_fine"), [("table lock", True), ("long row lock", False)])
def test_a_service_may_fail_while_its_table_is_locked(mode: str, is_fine: bool) -> None:
    history = copy_of(1)
    looks = list(history.of("look"))
    looks[3]["failing"] = ["n1: reaper: a lock"]
    for look, state in ((looks[1], "on"), (looks[4], "off")):
        held = {"kind": "held", "what": mode, "state": state, "table": "run"}
        history.events.append({**held, "at": look["at"]})
    changed = History(history.events, history.tables, ttl=history.ttl)

    assert (check(changed).broken == []) is is_fine


def test_runs_whose_claim_was_not_answered_may_be_too_many_for_a_moment() -> None:
    history = valid_history(1)
    list(history.of("look"))[1]["hoarders"] = ["n"]

    assert check(history).broken == []


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_a_fire_that_was_cancelled_before_a_pause_took_it_away_was_owed(is_cancelled: bool) -> None:
    versions = [
        Version(0.0, 0.0, "* * * * * *", "UTC", True),
        Version(10.5, 10.6, "* * * * * *", "UTC", False),
    ]
    reported: list[dict[str, Any]] = [{"first_at": 0.0, "last_at": 20.0}]
    cancelled = {12} if is_cancelled else set()
    ledger = Ledger(versions, Counter({12: 1}), reported, 20.0, cancelled)

    found = list(ledger.problems())
    assert found == ([] if is_cancelled else ["fire 12 (12) decided, but nobody owed it"])
