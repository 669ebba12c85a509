from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.executors.contract.base import Failed, Interrupted, StopReason
from pgcron_ha.operating_system import boottime
from tests.db import control
from tests.db.control import Connection
from tests.db.gate import Gate
from tests.engine.conftest import MakeLink
from tests.engine.proxy import Proxy
from tests.engine.workshop import Workshop
from tests.product.db import Unanswered
from tests.product.engine import IDLE_LOOKS, dispatcher, search_order
from tests.product.telemetry import Event, RunsBlocked, RunsReleased
from tests.waiting import until

SLOTS = 4


@pytest.fixture
async def workshop(database: str) -> AsyncIterator[Workshop]:
    workshop = Workshop(database, slots=SLOTS)
    await workshop.join()
    yield workshop
    await workshop.leave()


async def claimed(connection: Connection) -> int:
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pgcron.run WHERE state = 'running'"
    )
    return count


async def due_fires(connection: Connection, schedule: int, count: int) -> list[int]:
    """Runs of a schedule with overlap skip, due one after the other."""
    rows = await connection.fetch(
        "INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, overlap,"
        " due_at)"
        " SELECT 'schedule', $1, 'job', fire, 'py:work', 'skip', fire"
        " FROM (SELECT now() - number * interval '1 minute' AS fire"
        "       FROM generate_series($2::int, 1, -1) number) fires RETURNING id",
        schedule,
        count,
    )
    return [row["id"] for row in rows]


def pretend_a_burst(workshop: Workshop, ended: int) -> None:
    """As if so many runs had ended within a second: a quarter of them is claimed ahead."""
    workshop.dispatcher._prefetching.count(ended, monotonic())
    workshop.dispatcher._gated._prefetching.count(ended, monotonic())


async def test_a_node_claims_as_many_runs_as_it_has_slots(
    workshop: Workshop, connection: Connection
) -> None:
    runs = await control.enqueue(connection, 10)

    await workshop.step()

    assert sorted(workshop.executor.executing) == runs[:SLOTS]
    assert workshop.runner.waiting == 0
    assert await claimed(connection) == SLOTS


async def test_a_node_whose_runs_are_short_claims_ahead_of_its_slots(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 100)
    pretend_a_burst(workshop, 80)

    await workshop.step()

    assert workshop.runner.waiting == 20
    assert await claimed(connection) == SLOTS + 20


async def test_runs_of_keys_are_claimed_less_far_ahead_as_they_keep_their_key_from_others(
    workshop: Workshop, connection: Connection
) -> None:
    await connection.execute("SELECT pgcron.set_concurrency('*', NULL)")
    await control.enqueue(connection, 100, concurrency_key="tenant")
    pretend_a_burst(workshop, 1000)

    await workshop.step()

    assert workshop.runner.waiting == 30
    assert await claimed(connection) == SLOTS + 30


async def test_what_is_claimed_ahead_has_a_bound(database: str, connection: Connection) -> None:
    workshop = Workshop(database, slots=SLOTS, prefetch=7)
    await workshop.join()
    await control.enqueue(connection, 100)
    pretend_a_burst(workshop, 10_000)

    await workshop.step()

    assert workshop.runner.waiting == 7
    await workshop.leave()


@pytest.mark.parametrize("state", ["57014", "53200"])
async def test_a_claim_that_fails_for_its_size_is_followed_by_a_smaller_one(
    workshop: Workshop, connection: Connection, state: str
) -> None:
    """It took too long, or more memory than the server has."""
    await connection.execute(
        "CREATE FUNCTION public.too_many() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN IF (SELECT count(*) FROM claimed) > {SLOTS}"
        f" THEN RAISE 'too many' USING ERRCODE = '{state}'; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER too_many AFTER UPDATE ON pgcron.run REFERENCING NEW TABLE AS claimed"
        " FOR EACH STATEMENT EXECUTE FUNCTION public.too_many()"
    )
    await control.enqueue(connection, 100)
    pretend_a_burst(workshop, 80)

    async def has_claimed() -> bool:
        with suppress(DatabaseUnavailable):
            await workshop.turn()
        return len(workshop.executor.executing) == SLOTS

    await until("it has claimed what it has slots for", has_claimed)
    assert workshop.runner.waiting == 0


async def test_runs_that_may_start_once_are_never_claimed_ahead(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 20, delivery="at_most_once")
    pretend_a_burst(workshop, 1000)

    await workshop.step()

    assert len(workshop.executor.executing) == SLOTS
    assert workshop.runner.waiting == 0
    assert await claimed(connection) == SLOTS


async def due_schedules(connection: Connection, count: int) -> list[int]:
    """So many schedules with overlap skip, each with a fire that is due."""
    runs: list[int] = []
    for number in range(count):
        schedule = await control.put_schedule(connection, f"job {number}")
        runs += await due_fires(connection, schedule, 1)
    return runs


async def test_schedules_are_claimed_ahead_of_the_slots_of_a_node_whose_runs_are_short(
    workshop: Workshop, connection: Connection
) -> None:
    runs = await due_schedules(connection, 10)
    pretend_a_burst(workshop, 1000)

    await workshop.step()

    assert sorted(workshop.executor.executing) == runs[:SLOTS]
    assert workshop.runner.waiting == 10 - SLOTS


async def test_runs_of_schedules_that_may_start_once_are_never_claimed_ahead(
    workshop: Workshop, connection: Connection
) -> None:
    runs = await due_schedules(connection, 10)
    await connection.execute("UPDATE pgcron.run SET delivery = 'at_most_once'")
    pretend_a_burst(workshop, 1000)
    begun: list[int] = []

    async def have_all_begun() -> bool:
        await workshop.turn()
        assert workshop.runner.waiting == 0
        assert len(workshop.executor.executing) <= SLOTS
        for run in list(workshop.executor.executing):
            begun.append(run)
            workshop.executor.end(run)
        return len(begun) == 10

    await until("all have begun", have_all_begun)

    assert sorted(begun) == runs


async def test_what_was_claimed_ahead_is_given_back_when_nothing_ends_any_more(
    workshop: Workshop, connection: Connection, events: list[Event]
) -> None:
    runs = await control.enqueue(connection, 10) + await due_schedules(connection, 10)
    pretend_a_burst(workshop, 1000)
    await workshop.step()
    assert workshop.runner.waiting == 20 - SLOTS
    executing = set(workshop.executor.executing)

    async def is_given_back() -> bool:
        await workshop.turn()
        return workshop.runner.waiting == 0

    await until("the others are given back", is_given_back)

    assert set(workshop.executor.executing) == executing
    assert len(workshop.runner.held()) == SLOTS
    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE state = 'ready' AND attempt = 0")
    assert {row["id"] for row in rows} == set(runs) - executing
    assert [event.runs for event in events if isinstance(event, RunsReleased)] == [20 - SLOTS]


async def test_what_is_given_back_but_was_cancelled_ends(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 10)
    pretend_a_burst(workshop, 1000)
    await workshop.step()
    [waiting] = await connection.fetch(
        "UPDATE pgcron.run SET cancel_at = now() WHERE id = (SELECT max(id) FROM pgcron.run)"
        " RETURNING id"
    )

    async def is_given_back() -> bool:
        await workshop.dispatcher.run_once()
        return workshop.runner.waiting == 0

    await until("the others are given back", is_given_back)
    await until("the cancelled one ends", lambda: len(workshop.ended) == 1)

    context, outcome, _ = workshop.ended[0]
    assert context.run_id == waiting["id"]
    assert isinstance(outcome, Interrupted)
    assert outcome.reason is StopReason.CANCELLED


async def test_runs_that_may_start_once_are_found_after_a_look_in_vain(
    workshop: Workshop, connection: Connection
) -> None:
    schedule = await control.put_schedule(connection)
    (fire,) = await due_fires(connection, schedule, 1)
    await workshop.step()
    workshop.executor.end(fire)
    once = await control.enqueue(connection, 2, delivery="at_most_once")

    for _ in range(4):
        await workshop.turn()

    assert set(workshop.executor.executing) == set(once)


async def test_both_kinds_get_their_turn(workshop: Workshop, connection: Connection) -> None:
    plain = await control.enqueue(connection, 20)
    once = await control.enqueue(connection, 20, delivery="at_most_once")
    pretend_a_burst(workshop, 1000)
    done: set[int] = set()

    for _ in range(60):
        await workshop.turn()
        for run in list(workshop.executor.executing):
            workshop.executor.end(run)
            done.add(run)

    assert done == {*plain, *once}


async def test_a_schedule_that_is_held_skips_its_next_fire(
    workshop: Workshop, connection: Connection
) -> None:
    schedule = await control.put_schedule(connection)
    first, second, third = await due_fires(connection, schedule, 3)

    await workshop.step()

    assert list(workshop.executor.executing) == [third]  # the newest of those that are late
    for run in (first, second):
        row = await control.history_row(connection, run)
        assert row is not None
        why = f"it was late, and a newer late fire runs in its place (run {third})"
        assert (row["outcome"], row["error"]) == ("skipped", why)


async def test_a_schedule_is_decided_without_a_free_slot_too(
    workshop: Workshop, connection: Connection
) -> None:
    schedule = await control.put_schedule(connection)
    (running,) = await due_fires(connection, schedule, 1)
    await workshop.step()
    await control.enqueue(connection, SLOTS)
    await workshop.step()
    assert workshop.runner.free_slots == 0
    await connection.execute("UPDATE pgcron.run SET scheduled_for = NULL, origin = 'manual'")
    (late,) = await due_fires(connection, schedule, 1)

    async def is_skipped() -> bool:
        await workshop.turn()
        return await control.history_row(connection, late) is not None

    await until("the fire is skipped", is_skipped)
    assert running in workshop.executor.executing


async def test_a_node_decides_about_fires_whose_handler_it_does_not_offer(
    workshop: Workshop, connection: Connection
) -> None:
    """Rule 6 of admission: a skip is decided by any node."""
    other = await control.join(connection, handlers=["py:else"])
    await control.put_schedule(connection, handler="py:else")
    await connection.execute("SELECT pgcron.run_now('job')")
    await workshop.turn()
    assert len(await control.claim(connection, other)) == 1
    late = await connection.fetchval("SELECT pgcron.run_now('job')")

    await workshop.turn()

    row = await control.history_row(connection, late)
    assert row is not None
    assert row["outcome"] == "skipped"


async def test_a_run_that_is_let_go_after_its_time_is_claimed_at_once(
    workshop: Workshop, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule 18 of admission: it lies below the bound of the claims, and no sweep has to come."""
    monkeypatch.setattr(search_order, "SWEEP_SECONDS", 3600.0)
    await control.enqueue(connection, 20)
    assert await workshop.dispatcher.run_once() is not None
    past = await control.database_now(connection) - timedelta(minutes=5)
    [late] = await control.enqueue(connection, due_at=past, state="blocked", gate="no_node")
    for run in list(workshop.executor.executing):
        workshop.executor.end(run)

    await workshop.turn()

    assert late in workshop.executor.executing


@pytest.mark.parametrize("gate", [{}, {"concurrency_key": "a"}, {"requires": ["gpu"]}])
async def test_a_run_nobody_can_execute_is_parked_and_told(
    workshop: Workshop, connection: Connection, events: list[Event], gate: dict[str, Any]
) -> None:
    nobodys = await control.enqueue(connection, 3, handler="py:unknown", **gate)
    await control.enqueue(connection, 1)

    await workshop.step()

    rows = await connection.fetch("SELECT id FROM pgcron.run WHERE gate = 'no_node' ORDER BY id")
    assert [row["id"] for row in rows] == nobodys
    assert [event.runs for event in events if isinstance(event, RunsBlocked)] == [3]
    assert len(workshop.executor.executing) == 1


async def test_a_run_that_another_node_can_execute_is_left_to_it(
    workshop: Workshop, connection: Connection
) -> None:
    await control.join(connection, handlers=["py:else"])
    await control.enqueue(connection, 1, handler="py:else")

    await workshop.step()

    assert await connection.fetchval("SELECT gate IS NULL FROM pgcron.run")
    assert workshop.executor.executing == {}


async def test_a_node_with_nothing_to_do_asks_to_be_woken_and_a_busy_one_does_not(
    workshop: Workshop, connection: Connection
) -> None:
    async def is_idle() -> bool:
        return bool(await connection.fetchval("SELECT is_idle FROM pgcron.node"))

    await workshop.step()
    assert await is_idle()

    await control.enqueue(connection, 200)
    for _ in range(5):
        await workshop.dispatcher.run_once()
        for run in list(workshop.executor.executing):
            workshop.executor.end(run)

    assert not await is_idle()


async def test_a_node_that_does_not_know_whether_it_is_woken_asks_for_it_again(
    make_link: MakeLink, proxy: Proxy, database: str, connection: Connection
) -> None:
    workshop = Workshop(database, make_link(proxy.dsn(database), answer_seconds=2.0), slots=SLOTS)
    await workshop.join()
    await workshop.step()
    full_claims = dispatcher.FULL_CLAIMS_OF_A_BUSY_NODE
    await control.enqueue(connection, SLOTS * full_claims)
    proxy.lose_answer_to("SET is_idle")
    for _ in range(full_claims):
        with suppress(Unanswered):
            await workshop.dispatcher.run_once()
        for run in list(workshop.executor.executing):
            workshop.executor.end(run)
    assert proxy.lost_answers == 1

    await workshop.step()

    assert await connection.fetchval("SELECT is_idle FROM pgcron.node")
    await workshop.leave()


async def test_an_idle_node_sleeps_until_the_next_run_is_due(
    workshop: Workshop, connection: Connection
) -> None:
    await workshop.step()
    await connection.execute(
        "INSERT INTO pgcron.run (handler, due_at) VALUES ('py:work', now() + interval '0.5 s')"
    )

    wait = await workshop.dispatcher.run_once()

    assert wait is not None
    assert 0 < wait <= 0.5


async def test_an_idle_node_that_hears_notifications_looks_less_often(workshop: Workshop) -> None:
    await workshop.step()
    assert await workshop.dispatcher.run_once() == pytest.approx(1.0)

    workshop.dispatcher.trust_notifications(True)
    assert await workshop.dispatcher.run_once() == pytest.approx(IDLE_LOOKS)

    workshop.dispatcher.trust_notifications(False)
    assert await workshop.dispatcher.run_once() == pytest.approx(1.0)


async def test_an_idle_node_looks_at_once_when_a_run_of_its_own_may_be_retried(
    workshop: Workshop, connection: Connection
) -> None:
    (run,) = await control.enqueue(connection, 1)
    await workshop.step()
    workshop.dispatcher.interval = 3600.0
    turning = asyncio.ensure_future(workshop.dispatcher.run())
    workshop.dispatcher.trust_notifications(True)
    await until("it is idle", lambda: workshop.runner.waiting == 0)

    workshop.executor.end(run, Failed("ValueError", "no"))
    await until("it has ended", lambda: len(workshop.ended) == 1)
    workshop.dispatcher.ended(workshop.ended)
    claims = await connection.fetch("SELECT id, token FROM pgcron.run WHERE id = $1", run)
    await control.fail(connection, claims, retry_after=0.0)
    workshop.dispatcher.settled()

    await until("it is tried again", lambda: run in workshop.executor.executing)
    workshop.dispatcher.stop()
    await turning


async def test_a_late_commit_before_the_bound_is_found(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 50)
    await workshop.step()
    (late,) = await control.enqueue(
        connection, 1, due_at=await control.database_now(connection) - timedelta(hours=1)
    )
    seen: set[int] = set()

    async def is_found() -> bool:
        await workshop.dispatcher.run_once()
        seen.update(workshop.executor.executing)
        for run in list(workshop.executor.executing):
            workshop.executor.end(run)
        return late in seen

    await until("the late run is claimed", is_found)


async def test_high_priorities_are_executed_first(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 10, priority=9)
    urgent = await control.enqueue(connection, 3, priority=0)

    await workshop.step()

    assert set(urgent) < set(workshop.executor.executing)


async def test_a_claim_of_a_node_that_drains_meanwhile_is_given_back(
    workshop: Workshop, connection: Connection
) -> None:
    await control.enqueue(connection, 3)
    async with connection.transaction():
        await connection.execute("LOCK TABLE pgcron.run")
        claiming = asyncio.ensure_future(workshop.dispatcher.run_once())
        await until("the claim waits", lambda: _somebody_waits(connection))
        assert workshop.dispatcher.claims.settled_at() < boottime()
        workshop.session.is_draining = True
    await claiming

    assert workshop.executor.executing == {}
    rows = await connection.fetch("SELECT state, attempt FROM pgcron.run")
    assert {tuple(row) for row in rows} == {("ready", 0)}


async def test_a_claim_of_an_earlier_incarnation_is_not_executed(
    workshop: Workshop, connection: Connection, gate: Gate
) -> None:
    """Its answer came after the node had been declared dead and joined anew."""
    await control.enqueue(connection, 3)
    role = await connection.fetchval("SELECT 'visitor_' || current_database()")
    await workshop.link.execute(f"SET ROLE {role}")
    workshop.dispatcher._due_index.looked_at = monotonic() + 60  # the claim is its first statement
    first = workshop.session.incarnation
    async with gate.closed():
        claiming = asyncio.ensure_future(workshop.dispatcher.run_once())
        await until("the claim stands at the gate", lambda: _somebody_waits(connection))
        await connection.execute(
            "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'test'"
        )
        workshop.session.beat_now()
        await until("the node joined anew", lambda: workshop.joined == 2)
    await claiming

    assert first != workshop.session.incarnation
    # They were given back, and the same pass has claimed them for the new incarnation.
    rows = await connection.fetch("SELECT id, token, owner FROM pgcron.run")
    assert {row["owner"] for row in rows} == {workshop.session.incarnation}
    assert {row["id"]: row["token"] for row in rows} == {
        run: context.token for run, context in workshop.executor.executing.items()
    }


async def test_a_claim_whose_answer_got_lost_is_settled_and_in_the_next_beat(
    make_link: MakeLink, proxy: Proxy, database: str, connection: Connection
) -> None:
    workshop = Workshop(database, make_link(proxy.dsn(database), answer_seconds=2.0), slots=SLOTS)
    await workshop.join()
    runs = await control.enqueue(connection, 3)
    proxy.lose_answer_to("pgcron.claim(")

    with pytest.raises(Unanswered):
        await workshop.step()

    assert workshop.executor.executing == {}
    answered_at = boottime()
    assert workshop.dispatcher.claims.settled_at() >= answered_at
    assert sorted((await workshop.beat()).runs) == runs
    await workshop.leave()


async def test_nothing_is_claimed_without_a_lease(database: str, connection: Connection) -> None:
    workshop = Workshop(database)
    await workshop.join()
    await workshop.leave()
    await control.enqueue(connection, 3)

    await workshop.dispatcher.run_once()

    assert await claimed(connection) == 0
    assert not workshop.link.is_open


async def _somebody_waits(connection: Connection) -> bool:
    return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))
