"""What commands do is recorded; it is listed with filters, and exported without a gap."""

from __future__ import annotations

import getpass
import json
import socket

import psycopg

from tests.cli.conftest import Cli, Execute

# Command and what is recorded of it, in an order in which they can be done.
COMMANDS = {
    "schedules put job @daily py:x": "create schedule job",
    "schedules put job @hourly py:x": "edit schedule job",
    "schedules pause job --note slow": "pause schedule job",
    "schedules resume job": "resume schedule job",
    "schedules run-now job": "run schedule job",
    "schedules rename job work": "rename schedule job",
    "schedules restore work 1": "edit schedule work",
    "schedules delete work": "delete schedule work",
    "queues set mail --max-running 3": "set queue mail",
    "queues pause mail --note slow": "pause queue mail",
    "queues resume mail": "resume queue mail",
    "concurrency set key 2": "set concurrency key",
    "concurrency delete key": "delete concurrency key",
    "breakers set py:x --failures 3": "set breaker py:x",
    "breakers delete py:x": "delete breaker py:x",
    "retention set 2d --queue mail": "set retention mail",
    "retention delete --queue mail": "delete retention mail",
    "retention set 500d --table audit": "set table_retention audit",
    "cluster pause --note slow": "pause cluster ",
    "cluster resume": "resume cluster ",
    "calendars delete days": "delete calendar days",
    "runs cancel {run} --note slow": "cancel run {run}",
    "runs retry {run}": "retry run {run}",
}


def test_each_command_is_recorded_with_who_and_from_where(cli: Cli, execute: Execute) -> None:
    [[run, _]] = execute("SELECT pgcron.enqueue('py:x'), pgcron.put_calendar('days', 'sat')")
    [[last]] = execute("SELECT max(id) FROM pgcron.audit")

    for words in COMMANDS:
        answer = cli(*words.format(run=run).split())
        assert answer.code == 0, (words, answer.err)

    rows = execute(
        "SELECT concat(verb, ' ', kind, ' ', name), note FROM pgcron.audit WHERE id > %s"
        " ORDER BY id",
        last,
    )
    assert [what for what, _ in rows] == [what.format(run=run) for what in COMMANDS.values()]
    assert [note for _, note in rows] == [
        "slow" if "slow" in words else "restored from version 1" if "restore" in words else None
        for words in COMMANDS
    ]
    who = execute("SELECT DISTINCT actor, interface, address FROM pgcron.audit WHERE id > %s", last)
    assert who == [(getpass.getuser(), "cli", socket.gethostname())]


def test_the_list_is_filtered_and_bounded(cli: Cli, execute: Execute) -> None:
    execute("SELECT pgcron.set_queue('mail', 3, actor => 'anna')")
    execute("SELECT pgcron.set_queue('slow', 3, actor => 'bert')")
    execute("SELECT pgcron.pause_queue('mail', 'full', actor => 'bert')")
    execute("SELECT pgcron.record_audit('pause', 'cluster', NULL, 'eve', outcome => 'refused')")

    def found(*options: str) -> list[str]:
        rows = cli("audit", "list", "--json", *options).rows
        return [f"{row['verb']} {row['name']}" for row in rows]

    everything = ["pause None", "pause mail", "set slow", "set mail"]
    assert found() == everything
    assert found("--actor", "bert") == everything[1:3]
    assert found("--name", "mail", "--verb", "set") == ["set mail"]
    assert found("--outcome", "refused") == ["pause None"]
    assert found("--kind", "queue", "--interface", "sql", "--limit", "1") == ["pause mail"]
    assert found("--since", "1h", "--login", "nobody") == []
    assert found("--until", "1h") == []
    refused = cli("audit", "list", "--kind", "queues")
    assert (refused.code, "'queue', 'retention'" in refused.err) == (2, True)
    shown = cli("audit").out
    assert "max_running: - > 3" in shown
    assert "full" in shown


def test_an_export_goes_on_where_the_last_one_ended(cli: Cli, execute: Execute) -> None:
    execute(
        "SELECT pgcron.record_audit('look', 'test', n::text, note => 'ä\"\\'"
        " || chr(10), before => '{\"n\": [1]}') FROM generate_series(1, 1200) n"
    )

    first = cli("audit", "export").rows
    execute("SELECT pgcron.set_queue('mail', 3)")
    second = cli("audit", "export", "--after", str(first[-1]["id"])).rows

    assert [row["name"] for row in first] == [str(n) for n in range(1, 1201)]
    assert first[0]["note"] == 'ä"\\\n'
    assert first[0]["before"] == {"n": [1]}
    assert [row["verb"] for row in second] == ["set"]
    [[whole]] = execute("SELECT jsonb_agg(a.id ORDER BY a.id) FROM pgcron.audit a")
    assert [row["id"] for row in first + second] == whole
    assert json.dumps(first[0])


def test_an_export_leaves_no_row_of_an_open_transaction_behind(
    cli: Cli, execute: Execute, database: str
) -> None:
    with psycopg.connect(database) as slow:
        slow.execute("SELECT pgcron.set_queue('slow', 3)")
        execute("SELECT pgcron.set_queue('fast', 3)")

        assert cli("audit", "export").rows == []
        slow.commit()

    assert [row["name"] for row in cli("audit", "export").rows] == ["slow", "fast"]
