"""Something that each command that controls can be about."""

from __future__ import annotations

from typing import Final

from tests.db.control import Connection, claim, enqueue, fail, finish, join, put_schedule
from tests.db.workflows import Stage

FIRE: Final = "'2031-05-01 12:00Z'"


async def make_world(connection: Connection) -> dict[str, int]:
    """Schedules, runs, workflows and settings; the numbers of runs."""
    [ended, *dead] = await enqueue(connection, 5, max_attempts=1)
    node = await join(connection, name="n1", handlers=["py:work", "workflow:w"])
    await join(connection, name="n2", handlers=[])
    runs = await claim(connection, node, 5)
    await finish(connection, [row for row in runs if row["id"] == ended])
    for number, row in enumerate(row for row in runs if row["id"] != ended):
        await fail(connection, [row], fingerprint=f"cause {number}")
    stage = Stage(connection, node)
    flow = await stage.run(
        {"name": "paid", "wait_for": "signal"},
        {"name": "boss", "wait_for": "approval"},
        {"name": "last", "handler": "py:work", "after": ["paid"]},
    )
    await stage.work()
    [waiting] = await enqueue(connection)
    for name in ("job", "held", "filed"):
        await put_schedule(connection, name, spec="@daily")
    await connection.execute(f"""
        SELECT pgcron.edit_schedule('held', '{{"priority": 3, "enabled": false}}');
        UPDATE pgcron.schedule SET source = 'files', managed_by = 'file' WHERE name = 'filed';
        SELECT pgcron.skip_occurrence('held', {FIRE});
        SELECT pgcron.backfill('held', '2026-01-01 00:00Z', '2026-01-02 00:00Z');
        SELECT pgcron.put_calendar('days', 'sat'), pgcron.put_calendar('spare', 'mon');
        SELECT pgcron.apply_calendars('{{"filed": "wed"}}', 'files');
        SELECT pgcron.put_schedule('of days', 'in days at 09:00', 'py:work');
        SELECT pgcron.apply_workflows(
          '{{"filed": {{"steps": [{{"name": "only", "handler": "py:x"}}]}}}}', 'files');
        SELECT pgcron.pause_queue('slow', 'why');
        SELECT pgcron.set_concurrency('limited', 2), pgcron.set_breaker('py:b');
        SELECT pgcron.open_breaker('py:b', 'failed', 'a test');
        SELECT pgcron.cordon_node('n2'), pgcron.set_retention('3 days', 'slow', 'dead')""")
    return {"ended": ended, "dead": dead[0], "last": dead[1], "flow": flow, "waiting": waiting}
