"""Every verb by every kind of hand, its effect read back from the database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.product.web import ROUTES
from tests.waiting import until
from tests.web.browser.conftest import Cluster
from tests.web.browser.hands import BrowserHands, Hands, HttpHands
from tests.web.browser.watched import Windows
from tests.web.conftest import browsing

pytestmark = pytest.mark.asyncio(loop_scope="session")

ACTOR = "ui:local"
KINDS = [
    "with the script",
    pytest.param("without the script", marks=pytest.mark.long),
    "by plain HTTP",
]


@pytest_asyncio.fixture(params=KINDS, loop_scope="session")
async def hands(
    request: pytest.FixtureRequest, cluster: Cluster, windows: Windows
) -> AsyncIterator[Hands]:
    if request.param == "by plain HTTP":
        async with browsing(cluster.url) as client:
            yield HttpHands(cluster.url, client)
    else:
        async with windows.tab(cluster.url, script=request.param == KINDS[0]) as tab:
            yield BrowserHands(tab)


@pytest.fixture
def name() -> str:
    """One that no other test has."""
    return f"daily/{uuid.uuid4().hex[:8]} 100% “é”"


async def schedule(cluster: Cluster, name: str, handler: str = "py:quick") -> int:
    rows = await cluster.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler, queue) VALUES ($1, '0 0 1 1 *', $2, $3)"
        " RETURNING id",
        name,
        handler,
        "clicked",
    )
    found: int = rows[0]["id"]
    return found


async def one(cluster: Cluster, statement: str, *values: object) -> Any:
    """The first column of the only row, None without a row."""
    rows = await cluster.execute(statement, *values)
    assert len(rows) <= 1
    return rows[0][0] if rows else None


async def outcome(cluster: Cluster, run: int) -> str:
    """How a run ended; waits for it."""

    async def ended() -> Any:
        return await one(cluster, "SELECT outcome FROM pgcron.history WHERE id = $1", run)

    return str(await until(f"run {run} has ended", ended))


def run_of(path: str) -> int:
    assert path.startswith("/runs/"), path
    return int(path.rpartition("/")[2])


async def test_run_now_is_executed_by_a_node(hands: Hands, cluster: Cluster, name: str) -> None:
    await schedule(cluster, name)
    await hands.open("/schedules")
    first = run_of(await hands.press("Run now", row=name))
    # While it executes the next one would be skipped, as the schedule's overlap says.
    assert await outcome(cluster, first) == "succeeded"
    await hands.open(f"/schedules?text={name[6:14]}")
    run = run_of(await hands.press("Run now", row=name))

    assert await outcome(cluster, run) == "succeeded"
    row = (await cluster.execute("SELECT * FROM pgcron.history WHERE id = $1", run))[0]
    assert (row["origin"], row["schedule"], row["created_by"]) == ("manual", name, ACTOR)
    both = "SELECT count(*) FROM pgcron.runs WHERE schedule = $1"
    assert await one(cluster, both, name) == 2
    await until("its log is shown", lambda: says(hands, run, "{{7*7}}"))
    shown = await hands.text()
    assert "<script>pwned=1</script> red nul:" in shown
    assert "\x1b" not in shown
    assert "\0" not in shown


async def says(hands: Hands, run: int, words: str) -> bool:
    await hands.open(f"/runs/{run}")
    return words in await hands.text()


async def test_a_schedule_is_paused_with_a_reason_and_resumed(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    id_ = await schedule(cluster, name)
    state = "SELECT enabled, paused_note, paused_by FROM pgcron.schedule WHERE id = $1"
    await hands.open("/schedules")
    await hands.press("Pause", row=name)
    plain = tuple((await cluster.execute(state, id_))[0])
    await hands.press("Resume")
    resumed = tuple((await cluster.execute(state, id_))[0])
    await hands.press("Pause", note="the “old” one <b> is off")
    noted = tuple((await cluster.execute(state, id_))[0])
    said = await hands.text()
    await hands.open("/schedules?state=paused")
    await hands.press("Resume", row=name)
    again = tuple((await cluster.execute(state, id_))[0])
    interfaces = await cluster.execute(
        "SELECT actor, interface FROM pgcron.schedule_version"
        " WHERE schedule_id = $1 AND version > 1",
        id_,
    )

    assert plain == (False, None, ACTOR)
    assert resumed[0] is again[0] is True
    assert noted == (False, "the “old” one <b> is off", ACTOR)
    assert "Paused: no fires from now on." in said
    assert "the “old” one <b> is off" in said
    assert [tuple(row) for row in interfaces] == [(ACTOR, "ui")] * 4


@pytest.mark.long
async def test_a_pause_has_an_end_and_a_run_its_fire_time_and_a_schedule_another_name(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    id_ = await schedule(cluster, name)
    await hands.open(f"/schedules/{quote(name, safe='')}")
    await hands.press("Pause", note="a fair", until="2h")
    end = "SELECT paused_until BETWEEN now() + '119 min' AND now() + '2 h' FROM pgcron.schedule"
    assert await one(cluster, f"{end} WHERE id = $1", id_)
    assert f"Paused by {ACTOR} until 20" in await hands.text()
    await hands.press("Resume")
    run = run_of(await hands.press("Run for it", fire_time="2026-01-10 03:00"))
    fire = "SELECT nominal_for::text FROM pgcron.runs WHERE id = $1"
    assert await one(cluster, fire, run) == "2026-01-10 03:00:00+00"

    await hands.open(f"/schedules/{quote(name, safe='')}")
    await hands.press("Rename", name=f"{name} “new”")
    assert "what has begun keeps the old one" in await hands.text()
    assert await one(cluster, "SELECT name FROM pgcron.schedule WHERE id = $1", id_) == (
        f"{name} “new”"
    )


@pytest.mark.long
async def test_one_fire_is_skipped_moved_changed_and_restored(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    id_ = await schedule(cluster, name)
    page = f"/schedules/{quote(name, safe='')}"
    changes = "SELECT action, due_at::text, args, note, actor FROM pgcron.occurrence_override"

    async def changed() -> list[tuple[object, ...]]:
        rows = await cluster.execute(f"{changes} WHERE schedule_id = $1", id_)
        return [tuple(row) for row in rows]

    fire = {"fire_time": "2090-01-01 00:00"}
    await hands.open(page)
    await hands.press("Skip")
    assert [row[::4] for row in await changed()] == [("skip", ACTOR)]
    assert f"skipped by {ACTOR}" in await hands.text()
    await hands.press("Restore")
    assert await changed() == []
    await hands.press("Skip it", **fire, note="a <b>fair</b>")
    assert await changed() == [("skip", None, None, "a <b>fair</b>", ACTOR)]
    assert "a <b>fair</b>" in await hands.text()
    await hands.press("Restore")
    await hands.press("Move it", **fire, due_at="2090-01-03 09:00")
    await hands.press("Change args", **fire, args='{"day": 2}')
    [row] = await changed()
    assert row[:3] == ("move", "2090-01-03 09:00:00+00", '{"day": 2}')
    await hands.press("Restore")
    assert await changed() == []


@pytest.mark.long
async def test_a_backfill_is_asked_for_paused_resumed_and_stopped(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    await schedule(cluster, name)
    state = "SELECT state, note, created_by FROM pgcron.backfills WHERE id = $1"
    ended = {"since": "2020-01-01", "until": "2023-06-01", "parallelism": "1"}
    await hands.open(f"/schedules/{quote(name, safe='')}")
    page = await hands.press("Backfill", **ended)
    done = int(page.rpartition("/")[2])

    async def is_done() -> bool:
        return bool(
            await one(cluster, "SELECT state FROM pgcron.backfill WHERE id=$1", done) == "done"
        )

    await until("its four runs have ended", is_done)
    made = await cluster.execute("SELECT * FROM pgcron.backfills WHERE id = $1", done)
    assert (made[0]["planned"], made[0]["succeeded"], made[0]["created_by"]) == (4, 4, ACTOR)
    await cluster.execute("UPDATE pgcron.schedule SET queue = 'nobody' WHERE name = $1", name)
    await hands.open(f"/schedules/{quote(name, safe='')}")
    page = await hands.press("Backfill", since="2010-01-01", until="2015-01-01")
    waiting = int(page.rpartition("/")[2])
    await hands.press("Pause")
    assert (
        await one(cluster, "SELECT state FROM pgcron.backfill WHERE id = $1", waiting) == "paused"
    )
    await hands.press("Resume")
    assert await one(cluster, "SELECT state FROM pgcron.backfill WHERE id = $1", waiting) == "open"
    await hands.press("Stop", note="a <b>mistake</b>")
    assert tuple((await cluster.execute(state, waiting))[0]) == ("stopped", None, ACTOR)
    assert "stopped" in await hands.text()


async def test_a_schedule_is_made_from_nothing_and_runs(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    await hands.open("/new-schedule")
    said = {"spec": "0 0 1 1 *\nnot 2090-01-01", "handler": "py:quick", "queue": "clicked"}
    page = await hands.press("Create", name=name, **said)
    assert page == f"/schedules/{quote(name, safe='')}"
    assert "Created: nodes begin with its next fire." in await hands.text()
    kept = "SELECT spec, queue, enabled, managed_by FROM pgcron.schedule"
    row = tuple((await cluster.execute(f"{kept} WHERE name = $1", name))[0])
    assert row == (said["spec"], "clicked", True, "ui")
    run = run_of(await hands.press("Run now"))
    assert await outcome(cluster, run) == "succeeded"


@pytest.mark.long
async def test_a_calendar_is_written_changed_and_deleted(hands: Hands, cluster: Cluster) -> None:
    name = f"days-{uuid.uuid4().hex[:8]}"
    kept = "SELECT content, version, updated_by FROM pgcron.calendar WHERE name = $1"
    await hands.open("/calendars")
    page = await hands.press("Save", name=name, content="2099-12-24 # a <b>note</b>")
    assert page == f"/calendars/{name}"
    row = (await cluster.execute(kept, name))[0]
    assert tuple(row) == ("2099-12-24 # a <b>note</b>", 1, ACTOR)
    await hands.press("Save", content="sat\nsun")
    assert tuple((await cluster.execute(kept, name))[0]) == ("sat\nsun", 2, ACTOR)
    assert await hands.press("Delete") == "/calendars"
    assert await cluster.execute(kept, name) == []


async def test_a_running_run_is_stopped_and_runs_again(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    await schedule(cluster, name, "py:waits")
    await hands.open("/schedules")
    run = run_of(await hands.press("Run now", row=name))
    await until("it is seen to execute", lambda: says(hands, run, "executes on"))
    await hands.press("Cancel", note="a <b>mistake</b>")

    assert await outcome(cluster, run) == "cancelled"
    reason = "SELECT cancel_reason FROM pgcron.history WHERE id = $1"
    assert await one(cluster, reason, run) == f"cancelled by {ACTOR}: a <b>mistake</b>"

    await until("its end is seen", lambda: says(hands, run, "Cancelled"))
    again = run_of(await hands.press("Retry"))
    made = "SELECT origin, parent_run, created_by FROM pgcron.run WHERE id = $1"
    assert tuple((await cluster.execute(made, again))[0]) == ("rerun", run, ACTOR)
    await until("it is seen to execute", lambda: says(hands, again, "executes on"))
    await hands.press("Cancel")
    assert await outcome(cluster, again) == "cancelled"


@pytest.mark.long
async def test_a_run_that_does_not_stop_is_killed(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    await schedule(cluster, name, "py:stays")
    await hands.open("/schedules")
    run = run_of(await hands.press("Run now", row=name))
    await until("it is seen to execute", lambda: says(hands, run, "executes on"))
    await hands.press("Cancel")
    await until("it may be killed", lambda: says(hands, run, "Kill"))
    await hands.press("Kill")

    assert await outcome(cluster, run) == "cancelled"
    reason = "SELECT cancel_reason FROM pgcron.history WHERE id = $1"
    assert f"killed by {ACTOR}" in await one(cluster, reason, run)


@pytest.mark.long
async def test_a_node_is_cordoned_with_a_reason_and_uncordoned(
    hands: Hands, cluster: Cluster
) -> None:
    node = await one(cluster, "SELECT incarnation::text FROM pgcron.node WHERE state = 'alive'")
    state = "SELECT state FROM pgcron.node WHERE incarnation = $1::uuid"
    await hands.open(f"/nodes/{node}")
    await hands.press("Cordon", note="a <b>new</b> kernel")
    said = await hands.text()
    await _until_it_is(cluster, "cordoned", state, node)
    await hands.press("Uncordon")

    assert f"Cordoned by {ACTOR}: a <b>new</b> kernel" in said
    await _until_it_is(cluster, "alive", state, node)
    lifted = "SELECT actor FROM pgcron.audit WHERE verb = 'uncordon' ORDER BY id DESC LIMIT 1"
    assert await one(cluster, lifted) == ACTOR


async def _until_it_is(cluster: Cluster, wanted: str, state: str, node: Any) -> None:
    """A node's own row says so from its next beat on."""

    async def is_so() -> bool:
        return bool(await one(cluster, state, node) == wanted)

    await until(f"the node is {wanted}", is_so)


@pytest.mark.long
async def test_an_open_circuit_breaker_is_reset(hands: Hands, cluster: Cluster) -> None:
    async def is_shown() -> bool:
        await hands.open("/")
        return "py:flaky" in await hands.text()

    await cluster.execute("SELECT pgcron.set_breaker('py:flaky')")
    await cluster.execute(
        "UPDATE pgcron.breaker SET state = 'open', opened_at = now(), reason = '5 failures',"
        " open_until = now() + interval '1 hour' WHERE name = 'py:flaky'"
    )
    await until("the page shows it", is_shown)
    await hands.press("Reset")

    breaker = "SELECT state, reset_by FROM pgcron.breaker WHERE name = 'py:flaky'"
    assert tuple((await cluster.execute(breaker))[0]) == ("closed", ACTOR)


@pytest.mark.long
async def test_a_waiting_run_is_cancelled_or_due_now(hands: Hands, cluster: Cluster) -> None:
    later = "SELECT pgcron.enqueue('py:quick', due_at => now() + interval '1 hour')"
    first, second = [await one(cluster, later) for _ in range(2)]
    await hands.open(f"/runs/{first}")
    await hands.press("Cancel", note="no need")
    said = await hands.text()
    await hands.open(f"/runs/{second}")
    same = run_of(await hands.press("Run now"))

    assert await outcome(cluster, first) == "cancelled"
    assert "Cancelled: it had not begun and never will." in said
    assert same == second
    assert await outcome(cluster, second) == "succeeded"


@pytest.mark.long
async def test_dead_letters_are_redriven_from_each_place(hands: Hands, cluster: Cluster) -> None:
    await cluster.execute("DELETE FROM pgcron.dead_letter")
    runs = []
    for _ in range(3):
        runs.append(await one(cluster, "SELECT pgcron.enqueue('py:quick', queue => 'nobody')"))
    await cluster.execute(
        """INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args,
             delivery, timeout, attempts, error_class, error)
           SELECT id, gen_random_uuid(), 'dead', 'clicked', 5, handler, args, delivery, timeout, 5,
             'ValueError', 'it did not work'
           FROM pgcron.run WHERE id = ANY($1)""",
        runs,
    )
    await cluster.execute("DELETE FROM pgcron.run WHERE id = ANY($1)", runs)
    again = []
    await hands.open("/dead")
    again.append(run_of(await hands.press("Redrive one", row="ValueError")))
    (left,) = await cluster.execute(
        "SELECT array_agg(run_id ORDER BY run_id) FROM pgcron.dead_letter WHERE closed_at IS NULL"
    )
    await hands.open("/dead")
    again.append(run_of(await hands.press("Redrive", row=str(left[0][0]))))
    await hands.open(f"/runs/{left[0][1]}")
    again.append(run_of(await hands.press("Redrive")))

    letters = await cluster.execute("SELECT redriven_as, closed_by FROM pgcron.dead_letter")
    assert {row["redriven_as"] for row in letters} == set(again)
    assert {row["closed_by"] for row in letters} == {ACTOR}
    assert [await outcome(cluster, run) for run in again] == ["succeeded"] * 3


async def test_all_that_died_of_one_cause_are_redriven_at_once(
    hands: Hands, cluster: Cluster
) -> None:
    async def shows_them() -> bool:
        await hands.open("/dead")  # a read may be shared for a second
        return "Redrive 2" in await hands.text()

    await cluster.execute("DELETE FROM pgcron.dead_letter")
    for fingerprint in ("one", "another", "0123456789abcdef", "0123456789abcdef"):
        await cluster.execute(
            """INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler,
                 args, delivery, timeout, attempts, error_class, error,
                 fingerprint)
               VALUES (nextval('pgcron.run_id_seq'), gen_random_uuid(), 'dead', 'clicked', 5,
                 'py:quick', '{}', 'at_least_once', '1 h', 5, 'OSError', 'no', $1)""",
            fingerprint,
        )
    await until("the page shows them", shows_them)
    assert await hands.press("Redrive 2") == "/dead"

    letters = await cluster.execute(
        "SELECT redriven_as, closed_by FROM pgcron.dead_letter ORDER BY run_id"
    )
    assert [row["closed_by"] for row in letters] == [None, None, ACTOR, ACTOR]
    assert [await outcome(cluster, row["redriven_as"]) for row in letters[2:]] == ["succeeded"] * 2

    await hands.open("/dead")
    assert await hands.press("Archive 1", note="not needed") == "/dead"
    left = await one(cluster, "SELECT run_id FROM pgcron.dead_letter WHERE closed_at IS NULL")
    await hands.open("/dead")
    assert await hands.press("Archive", row=str(left)) == "/dead"
    archived = await cluster.execute(
        "SELECT closed_by, note FROM pgcron.dead_letter WHERE redriven_as IS NULL ORDER BY note"
    )
    assert [tuple(row) for row in archived] == [(ACTOR, "not needed"), (ACTOR, None)]


@pytest.mark.long
async def test_a_queue_is_paused_noted_and_resumed(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    state = "SELECT paused_at IS NOT NULL, paused_by, paused_note FROM pgcron.queue WHERE name = $1"
    queue = f"q-{name[6:14]}"
    await cluster.execute("SELECT pgcron.enqueue('py:quick', queue => $1)", queue)
    found = []
    await hands.open("/queues")
    for label, row, fields in (
        ("Pause", queue, {}),
        ("Change the note", None, {"note": "moving <b>disks</b>"}),
        ("Resume", None, {}),
        ("Pause", None, {"note": "again"}),
    ):
        assert await hands.press(label, row=row, **fields) == f"/queues/{queue}"
        found.append(tuple((await cluster.execute(state, queue))[0]))
    await hands.open("/")
    await hands.press("Resume", row=f"Queue {queue}")
    found.append(tuple((await cluster.execute(state, queue))[0]))
    await hands.open("/queues")
    await hands.press("Pause", row=queue)
    await hands.open("/queues")
    await hands.press("Resume", row=queue)
    found.append(tuple((await cluster.execute(state, queue))[0]))

    assert found == [
        (True, ACTOR, None),
        (True, ACTOR, "moving <b>disks</b>"),
        (False, None, None),
        (True, ACTOR, "again"),
        (False, None, None),
        (False, None, None),
    ]


@pytest.mark.long
async def test_a_schedule_is_edited_and_a_version_restored(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    id_ = await schedule(cluster, name)
    path = f"/schedules/{quote(name, safe='')}"
    await hands.open(f"{path}/edit")
    said = {"spec": "0 5 * * *\nnot 2026-12-24", "args": '{"a": "“é” <b>"}', "note": "a <b> note"}
    assert await hands.press("Save", **said) == path
    state = "SELECT spec, args ->> 'a', queue, version FROM pgcron.schedule WHERE id = $1"
    edited = tuple((await cluster.execute(state, id_))[0])
    await hands.open(f"{path}/versions")
    shown = await hands.text()
    assert await hands.press("Restore 1") == f"{path}/versions"
    restored = tuple((await cluster.execute(state, id_))[0])
    again = await hands.text()
    notes = await cluster.execute(
        "SELECT note, actor, interface FROM pgcron.schedule_version WHERE schedule_id = $1"
        " AND version > 1 ORDER BY version",
        id_,
    )

    assert edited == ("0 5 * * *\nnot 2026-12-24", "“é” <b>", "clicked", 2)
    assert "a <b> note" in shown
    assert restored == ("0 0 1 1 *", None, "clicked", 3)
    assert "restored from version 1" in again
    assert [tuple(row) for row in notes] == [
        ("a <b> note", ACTOR, "ui"),
        ("restored from version 1", ACTOR, "ui"),
    ]


async def test_a_schedule_is_deleted_and_its_history_stays(
    hands: Hands, cluster: Cluster, name: str
) -> None:
    identity = await schedule(cluster, name)
    await hands.open(f"/schedules/{quote(name, safe='')}")
    assert await hands.press("Delete", sure="yes") == "/schedules"
    assert "Deleted: what waited is cancelled" in await hands.text()
    assert await one(cluster, "SELECT id FROM pgcron.schedule WHERE name = $1", name) is None
    gone = (
        "SELECT actor FROM pgcron.schedule_version WHERE schedule_id = $1 AND operation = 'delete'"
    )
    assert await one(cluster, gone, identity) == ACTOR


async def test_no_verb_is_left_out() -> None:
    verbs = {route.name for route in ROUTES if route.method == "POST"}

    assert verbs == {
        *("run_schedule", "pause_schedule", "resume_schedule", "rename_schedule"),
        *("create_schedule", "edit_schedule", "restore_schedule", "delete_schedule"),
        *("skip_occurrence", "move_occurrence", "edit_occurrence", "restore_occurrence"),
        *("cancel_run", "kill_run", "retry_run", "redrive_run", "redrive_runs"),
        *("archive_run", "archive_runs", "edit_calendar", "delete_calendar"),
        *("start_backfill", "pause_backfill", "resume_backfill", "stop_backfill"),
        *("pause_queue", "resume_queue", "cordon_node", "uncordon_node", "reset_breaker"),
        # Those of `test_workflow_verbs`.
        *("start_workflow", "pause_run", "resume_run"),
        *("signal_step", "approve_step", "reject_step", "skip_step", "succeed_step"),
        *("clear_step", "set_args_step"),
        # Those of `test_logging_in`.
        *("log_in", "log_out", "add_token", "revoke_token", "set_password"),
        *("end_session", "end_sessions"),
    }
