"""Instants and intervals at the ends of what PostgreSQL can write stop nobody else's work."""

from __future__ import annotations

from tests.e2e.ledger import Connection
from tests.e2e.nodes import Cluster
from tests.waiting import until

DUE = ("'infinity'", "'-infinity'", "'4000-01-01 BC'", "'200000-01-01'", "'294276-12-30'")
EXPIRES = ("'infinity'", "'-infinity'", "'200000-01-01'")
LONG = ("catchup_window", "start_deadline")


async def test_values_at_the_end_of_the_calendar_stop_no_other_work(
    cluster: Cluster, connection: Connection
) -> None:
    # As a database may have them that was not migrated when they were written.
    await connection.execute("ALTER TABLE pgcron.run DROP CONSTRAINT a_run_keeps_its_rules")
    for bound in ("catchup_window", "start_deadline"):
        await connection.execute(
            f"ALTER TABLE pgcron.schedule DROP CONSTRAINT a_{bound}_is_at_most_a_century"
        )
    for due in DUE:
        await connection.execute(
            "INSERT INTO pgcron.run (handler, due_at, concurrency_key)"
            f" VALUES ('py:work', {due}, NULL), ('py:work', {due}, 'one by one')"
        )
    for expires in EXPIRES:
        await connection.execute(
            f"INSERT INTO pgcron.run (handler, expire_at) VALUES ('py:work', {expires})"
        )
    for column in LONG:
        for length in ("290000 years", "178000000 years"):
            await connection.execute(
                f"INSERT INTO pgcron.schedule (name, spec, handler, {column})"
                f" VALUES ('{column} {length}', '* * * * * *', 'py:work', '{length}')"
            )
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler)"
        " VALUES ('other', '* * * * * *', 'py:work')"
    )
    node = cluster.start("a")

    fires = "SELECT count(*) > 2 FROM pgcron.history WHERE schedule = 'other'"
    await until("the other schedule fires", lambda: connection.fetchval(fires))
    past = "SELECT count(*) = 7 FROM pgcron.history WHERE schedule IS NULL"
    await until("what is due has run or expired", lambda: connection.fetchval(past))
    answer = cluster.command("runs", "list", "--json")
    assert answer.returncode == 0, answer.stderr
    assert cluster.command("status").returncode == 0
    assert not node.has_ended()
