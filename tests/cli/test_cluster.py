from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute, dsn_of
from tests.product.db import NEWEST
from tests.servers import ThrowAwayServer
from tests.waiting import COMMAND_SECONDS


def insert_node(execute: Execute, name: str, handler: str, lease: str = "1 minute") -> None:
    execute(
        "WITH n AS (INSERT INTO pgcron.node (incarnation, name, host, process_id, version, "
        "lease_until, lease_ttl, slots, slots_used, queues) VALUES (gen_random_uuid(), %s, 'h', 7, "
        "'0.1', now() + %s::interval, '15 s', 8, 2, '{default}') RETURNING incarnation) "
        "INSERT INTO pgcron.offer SELECT incarnation, %s FROM n",
        name,
        lease,
        handler,
    )


def test_status_says_which_runs_are_blocked_and_why(cli: Cli, execute: Execute) -> None:
    insert_node(execute, "n1", "py:known")
    insert_node(execute, "silent", "py:gone", "-1 second")
    for handler in ("py:known", "py:gone", "py:nobody", "py:nobody"):
        cli("enqueue", handler)
    cli("enqueue", "py:later", "--due-at", "2090-01-01T00:00Z")
    execute("UPDATE pgcron.run SET state = 'blocked', gate = 'no_node' WHERE handler = 'py:nobody'")

    text = cli("status").out
    assert "nodes      1 alive, 2 of 8 slots used, 1 silent" in text
    assert "0 running, 2 due (oldest 2" in text
    assert "1 later, 2 blocked" in text
    offers = "no live node offers '{}' for queue 'default'.".format
    assert f"blocked    py:nobody: 2 runs wait: {offers('py:nobody')}" in text
    assert f"blocked    py:gone: 1 run waits: {offers('py:gone')}" in text
    assert "py:known" not in text
    assert "py:later" not in text

    (status,) = cli("status", "--json").rows
    blocked = [p["what"] for p in status["attention"] if p["state"] == "blocked"]
    assert sorted(blocked) == ["py:gone", "py:nobody"]
    assert status["counts"]["blocked"] == 2
    (queue,) = cli("queues", "list", "--json").rows
    assert [queue[count] for count in ("waiting", "due", "blocked")] == [5, 2, 2]
    assert re.search(r"default +5 +2 +0 +- +- +- +2 ", cli("queues", "list").out)
    assert [node["name"] for node in status["nodes"]] == ["n1", "silent"]


def test_status_of_an_empty_cluster_and_of_a_paused_one(cli: Cli, execute: Execute) -> None:
    assert cli("status").out.splitlines() == [
        "nodes      0 alive, 0 of 0 slots used",
        "runs       0 running, 0 due, 0 later, 0 blocked",
        "schedules  0, 0 paused, 0 invalid",
        "dead       0 dead letters",
        "last hour  no run ended",
        "none       No node is alive: Nothing fires and nothing runs.",
        "           Start one: pgcron-ha node",
    ]
    assert cli("cluster", "pause", "--note", "move").out == "the cluster is paused\n"
    cli("queues", "pause", "slow")
    text = cli("status").out
    assert f"paused     Everything is paused: {getpass.getuser()}: move" in text
    assert cli("cluster", "resume").out == "the cluster is resumed\n"
    assert "move" not in cli("status").out
    assert f"paused     Queue slow: Paused by {getpass.getuser()}; nothing waits." in text


def test_status_counts_every_node(cli: Cli, execute: Execute) -> None:
    execute(
        "INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_until, "
        "lease_ttl, slots, slots_used, queues) SELECT gen_random_uuid(), 'n' || n, 'h', 7, '0.1', "
        "now() + interval '1 minute', '15 s', 8, 2, '{default}' FROM generate_series(1, 51) n"
    )

    assert "nodes      51 alive, 102 of 408 slots used\n" in cli("status").out


def test_queues_are_listed_paused_and_resumed(cli: Cli, execute: Execute) -> None:
    assert cli("queues", "list").out == "no queues\n"
    cli("enqueue", "py:x", "--queue", "slow")

    assert cli("queues", "pause", "slow", "--note", "disk").out == "queue 'slow' is paused\n"
    (row,) = cli("queues", "list", "--json").rows
    assert (row["name"], row["due"], row["paused_note"]) == ("slow", 1, "disk")
    assert row["paused_at"].endswith("Z")
    assert "disk" in cli("queues", "list").out
    assert cli("queues", "resume", "slow", "--json").rows == [{"queue": "slow", "is_paused": False}]
    assert execute("SELECT paused_at FROM pgcron.queue") == [(None,)]
    for command in ("demand", "pause", "resume", "set"):
        refused = cli("queues", command, "two words")
        assert refused.code == 1
        assert refused.err.startswith("error: queue 'two words' is not"), command


def test_a_queue_that_nobody_knows_is_noted_with_the_nearest(cli: Cli, execute: Execute) -> None:
    assert cli("queues", "pause", "elsewhere").err == ""  # there are no nodes yet
    insert_node(execute, "n1", "py:known")

    misspelt = cli("queues", "pause", "defualt")
    assert (misspelt.code, misspelt.out) == (0, "queue 'defualt' is paused\n")
    assert misspelt.err == (
        "note: no living node takes from queue 'defualt', and it has no runs;"
        " did you mean 'default'?\n"
    )
    assert cli("queues", "pause", "default").err == ""
    assert cli("queues", "set", "defualt", "--max-running", 2).err == ""  # it has a setting
    assert "no living node" in cli("queues", "set", "other", "--max-running", 2).err
    assert "default" in [row["name"] for row in cli("queues", "list", "--json").rows]


def test_an_unknown_name_comes_with_the_one_that_is_alike(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "nightly", "@daily", "py:x")
    insert_node(execute, "worker-1", "py:known")

    for words, name in (
        (["schedules", "pause", "nighly"], "nightly"),
        (["schedules", "show", "nighly"], "nightly"),
        (["nodes", "drain", "worker-l"], "worker-1"),
    ):
        refused = cli(*words)
        assert refused.code == 1
        assert refused.err.splitlines()[0].endswith(f"; did you mean '{name}'?")


def test_nodes_are_listed_with_their_leases(cli: Cli, execute: Execute) -> None:
    assert cli("nodes").out == "no nodes\n"
    insert_node(execute, "n1", "py:known")
    insert_node(execute, "silent", "py:gone", "-1 second")
    insert_node(execute, "dead", "py:gone")
    execute(
        "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'stopped' "
        "WHERE name = 'dead'"
    )

    execute("UPDATE pgcron.node SET labels = '{\"gpu\": \"a100\"}' WHERE name = 'n1'")

    header, *lines = cli("nodes").out.splitlines()
    columns = ["NODE", "STATE", "HOST", "PID", "SLOTS", "QUEUES", "HANDLERS", "LABELS"]
    assert header.split() == columns
    assert lines[0].split() == ["n1", "alive", "h", "7", "2/8", "default", "py:known", "gpu=a100"]
    assert "alive, silent" in lines[1]
    rows = cli("nodes", "--all", "--json").rows
    assert [(row["name"], row["has_lease"]) for row in rows] == [
        ("n1", True),
        ("silent", False),
        ("dead", False),
    ]
    assert (rows[0]["lease_ttl"], rows[0]["handlers"]) == (15, ["py:known"])


def test_runs_that_go_on_though_told_to_stop_are_told_of_their_node(
    cli: Cli, execute: Execute
) -> None:
    insert_node(execute, "n1", "py:unresponsive")
    for _ in range(3):
        cli("enqueue", "py:unresponsive")
    execute(
        "UPDATE pgcron.run SET state = 'running', due_at = now(), claimed_at = now(), attempt = 1,"
        " owner = (SELECT incarnation FROM pgcron.node), token = gen_random_uuid(), fence = 1,"
        " cancel_at = now() - interval '4 min'"
    )
    assert "unresponsive" not in cli("status").out
    assert cli("nodes", "--json").rows[0]["unresponsive_runs"] == []

    execute("UPDATE pgcron.run SET kill_at = now() - interval '1 s' WHERE id = 1")
    assert cli("nodes", "--json").rows[0]["unresponsive_runs"] == []

    execute("UPDATE pgcron.run SET kill_at = now() - interval '11 s' WHERE id = 1")
    said = "node 'n1': run 1 goes on though asked to stop, and holds its slot"
    assert cli("nodes").out.splitlines()[-1] == said
    assert f"unresponsive Node n1: {said.partition(': ')[2].capitalize()}." in cli("status").out

    execute("UPDATE pgcron.run SET cancel_at = now() - interval '6 min' WHERE id = 3")
    assert cli("nodes", "--json").rows[0]["unresponsive_runs"] == [1, 3]
    said = "node 'n1': runs 1, 3 go on though asked to stop, and hold their slots"
    assert cli("nodes").out.splitlines()[-1] == said

    execute("UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'died'")
    assert cli("nodes", "--all", "--json").rows[0]["unresponsive_runs"] == []


def test_the_doctor_finds_a_fresh_schema_well(cli: Cli) -> None:
    answer = cli("doctor")

    assert answer.code == 0, answer.out
    assert "ok       server         PostgreSQL" in answer.out
    assert "problem" not in answer.out
    assert {row["level"] for row in cli("doctor", "--json").rows} <= {"ok", "advice"}


def test_schedules_whose_handler_no_node_offers_are_named_before_they_fire(
    cli: Cli, execute: Execute
) -> None:
    for name, handler in (("typo", "py:reprot"), ("twin", "py:reprot"), ("fine", "py:report")):
        cli("schedules", "put", name, "0 3 1 1 *", handler)
    execute("UPDATE pgcron.cursor SET status = 'valid'")

    assert "no node" not in cli("schedules", "list").out
    assert "handlers" not in cli("doctor").out
    insert_node(execute, "n1", "py:report")

    listed = {row["name"]: row["is_served"] for row in cli("schedules", "list", "--json").rows}
    assert listed == {"fine": True, "twin": False, "typo": False}
    assert cli("schedules", "list").out.count("no node") == 2
    [found] = [row for row in cli("doctor", "--json").rows if row["check"] == "handlers"]
    assert (found["level"], found["message"]) == (
        "advice",
        "schedule 'twin' and 1 other: no live node offers 'py:reprot' for queue 'default'",
    )


def test_the_doctor_finds_what_would_hurt(cli: Cli, execute: Execute) -> None:
    cli("schedules", "put", "once", "@daily", "py:x", "--delivery", "at_most_once")
    insert_node(execute, "n1", "py:x")
    execute("UPDATE pgcron.node SET lease_ttl = '2 seconds'")
    execute(
        "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, run_id) "
        "SELECT id, now() - interval '1 minute', 'run', 4711 FROM pgcron.schedule"
    )
    execute(
        "INSERT INTO pgcron.history_overflow (id, uuid, origin, queue, priority, handler, args, "
        "delivery, outcome, attempt, due_at, created_at, created_by) VALUES (1, gen_random_uuid(), "
        "'enqueued', 'q', 5, 'py:x', '{}', 'at_least_once', 'succeeded', 1, now(), now(), 'me')"
    )

    answer = cli("doctor", "--json")
    assert answer.code == 1
    found = {row["check"]: row for row in answer.rows if row["level"] != "ok"}
    problems = {check for check, row in found.items() if row["level"] == "problem"}
    assert problems == {"partitions", "ledger"}
    assert found["ledger"]["message"].startswith("a run is gone: schedule 'once' at ")
    assert "2 s" in found["lease"]["message"]
    assert "2.5 times the failover time" in found["lease"]["hint"]
    assert "at_most_once" in found["delivery"]["message"]
    assert all(row["hint"] for row in found.values())


def test_nodes_with_older_time_zones_are_named(cli: Cli, execute: Execute) -> None:
    insert_node(execute, "n1", "py:x")
    insert_node(execute, "n2", "py:x")
    execute("UPDATE pgcron.cluster SET tzdata = '2099b'")
    execute("UPDATE pgcron.node SET tzdata = CASE name WHEN 'n1' THEN '2099a' ELSE '2099b' END")

    assert "node 'n1' has tzdata 2099a, the cluster 2099b: it materializes no" in cli("nodes").out
    assert "node 'n2'" not in cli("nodes").out


def test_migrate_brings_prints_and_checks_the_schema(
    cli: Cli, empty_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_DSN", empty_database)
    pending = cli("migrate", "--check")
    assert pending.code == 1
    assert pending.err.startswith("error: the schema 'pgcron' is not in this database\n")
    assert "hint: Run `pgcron-ha migrate`" in pending.err

    done = f"schema 'pgcron' is at revision {NEWEST}\n"
    assert cli("migrate").out == done
    assert cli("migrate").out == done
    assert cli("migrate", "--check").out == done
    assert cli("--schema", "jobs", "migrate", "--check").code == 1
    assert cli("migrate", "--check", "--sql").code == 2


def test_migrate_prints_sql_without_a_database(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCRON_HA_DSN")

    script = cli("--schema", "jobs", "migrate", "--sql")

    assert script.code == 0
    assert "CREATE TABLE jobs.run (" in script.out
    assert cli("migrate").err.startswith("error: no database is given\n")


def test_migrate_prints_all_where_the_database_can_not_be_reached(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_DSN", "postgresql://u@127.0.0.1:1/db?connect_timeout=1")

    script = cli("migrate", "--sql")

    assert script.code == 0
    assert "CREATE TABLE pgcron.run (" in script.out
    assert script.err.startswith("note: ")
    assert script.err.endswith("; --from says where to begin, else this is all of it\n")


def test_migrate_prints_what_the_database_lacks(cli: Cli) -> None:
    assert cli("migrate", "--sql").out == (
        f"-- schema 'pgcron' is at revision {NEWEST}: nothing is missing\n"
    )
    assert "CREATE TABLE pgcron.run (" in cli("migrate", "--sql", "--from", "base").out
    assert "unheard_of" in cli("migrate", "--sql", "--from", "unheard_of").err
    for wrong in ("--from base", "--sql --check", "--check --yes", "--sql --force"):
        assert cli("migrate", *wrong.split()).code == 2


def test_a_schema_that_other_scripts_made_is_refused(cli: Cli, execute: Execute) -> None:
    execute("COMMENT ON TABLE pgcron.alembic_version IS 'the checksum of another state'")

    for command in ("migrate", "migrate --check", "migrate --sql", "status", "node"):
        refused = cli(*command.split())
        assert refused.code == 1, command
        assert "the schema 'pgcron' was made by other scripts" in refused.err, command
        assert "`pgcron-ha migrate --uninstall --yes`" in refused.err, command
    doctor = cli("doctor")
    assert (doctor.code, "was made by other scripts" in doctor.out) == (1, True)

    assert cli("migrate", "--uninstall", "--yes").code == 0
    assert cli("migrate").code == 0
    assert cli("migrate", "--check").code == 0


READERS = ("status", "doctor", "nodes", "queues list", "runs list", "dead list", "schedules list")


@pytest.mark.parametrize("command", READERS)
def test_a_database_without_the_schema_is_one_clear_line(
    command: str, cli: Cli, empty_database: str
) -> None:
    answer = cli(*command.split(), dsn=empty_database)

    assert answer.code == 1
    said = answer.out if command == "doctor" else answer.err
    assert "the schema 'pgcron' is not in this database" in said
    assert "pgcron-ha migrate" in said
    assert "Traceback" not in answer.err


def test_a_role_without_rights_is_told_where_rights_come_from(
    cli: Cli, database: str, role: str
) -> None:
    for command in (["status"], ["enqueue", "py:x"], ["migrate"]):
        answer = cli("--dsn", dsn_of(role, database), *command)

        assert answer.code == 1
        assert answer.err.startswith("error: ")
        assert "pgcron-ha grants" in answer.err or "GRANT" in answer.err
        assert "Traceback" not in answer.err

    (finding,) = cli("--dsn", dsn_of(role, database), "doctor", "--json").rows
    assert (finding["check"], finding["level"]) == ("schema", "problem")
    assert "pgcron-ha grants" in finding["hint"]


def test_a_wrong_dsn_and_a_wrong_password_are_one_clear_line(tmp_path: Path) -> None:
    with ThrowAwayServer(tcp=True) as server:
        wrong_password = server.tcp_dsn(password="guess")
        cases = {
            "postgresql://127.0.0.1:1/x": "host and port",
            "mysql://127.0.0.1/x": "postgresql://",
            server.tcp_dsn("nowhere"): "Create the database",
            wrong_password: "password",
        }
        for dsn, word in cases.items():
            command = [sys.executable, "-m", "pgcron_ha", "status", "--json"]
            environment = os.environ | {"PGCRON_HA_DSN": dsn}
            run = subprocess.run(
                command, capture_output=True, text=True, timeout=COMMAND_SECONDS, env=environment
            )
            assert (run.returncode, run.stdout) == (1, "")
            (line,) = run.stderr.splitlines()
            assert word in line
            assert "guess" not in line
            assert set(json.loads(line)["error"]) == {"message", "detail", "hint"}


def test_a_command_is_a_process_with_an_exit_code(database: str) -> None:
    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pgcron_ha", *words]
        environment = os.environ | {"PGCRON_HA_DSN": database}
        return subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, env=environment
        )

    put = call("schedules", "put", "nightly", "0 3 * * *", "shell:backup")
    assert (put.returncode, put.stderr) == (0, "")
    assert json.loads(call("schedules", "list", "--json").stdout)["name"] == "nightly"
    refused = call("schedules", "put", "nightly", "0 25 * * *", "shell:backup", "--json")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert json.loads(refused.stderr)["error"]["hint"]
    assert call("schedules", "put", "nightly").returncode == 2


def test_queues_are_limited_and_keys_are_set(cli: Cli, execute: Execute) -> None:
    cli("enqueue", "py:x", "--queue", "slow", "--concurrency-key", "customer-7")
    assert execute("SELECT concurrency_key FROM pgcron.run") == [("customer-7",)]

    said = cli("queues", "set", "slow", "--max-running", "5").out
    assert said == "queue 'slow' executes at most 5 runs at once\n"
    assert cli("queues", "list", "--json").rows[0]["max_running"] == 5
    assert cli("queues", "set", "slow", "--max-running", "none", "--json").rows == [
        {"queue": "slow", "max_running": None, "rate": None, "per": None}
    ]
    assert cli("concurrency", "list").out == "no concurrency keys\n"
    assert (
        cli("concurrency", "set", "customer-*", "3").out
        == "concurrency key 'customer-*' has 3 slots\n"
    )
    said = cli("concurrency", "set", "bulk", "none", "--rate", "10/1m").out
    assert (
        said == "concurrency key 'bulk' has any number of slots, and at most 10 start in any 1m\n"
    )
    rows = cli("concurrency", "list", "--json").rows
    assert [(row["concurrency_key"], row["slots"], row["rate"], row["per"]) for row in rows] == [
        ("bulk", None, 10, 60.0),
        ("customer-*", 3, None, None),
    ]
    assert cli("queues", "set", "slow", "--rate", "5/2s").out == (
        "queue 'slow' executes as many runs as there are slots at once, "
        "and at most 5 start in any 2s\n"
    )
    (row,) = cli("queues", "list", "--json").rows
    assert (row["max_running"], row["rate"], row["per"]) == (None, 5, 2.0)
    assert execute("SELECT rate, per::text FROM pgcron.queue") == [(5, "00:00:02")]
    assert cli("queues", "set", "slow", "--rate", "5/2s", "--json").rows == [
        {"queue": "slow", "max_running": None, "rate": 5, "per": 2.0}
    ]
    assert cli("concurrency", "set", "bulk", "none", "--rate", "10/1m", "--json").rows == [
        {"concurrency_key": "bulk", "slots": None, "by_weight": False, "rate": 10, "per": 60.0}
    ]
    assert re.search(r"\nbulk +- +no +10 +1m +0 ", cli("concurrency", "list").out)
    assert "COUNT/DURATION" in cli("concurrency", "set", "bulk", "1", "--rate", "10").err
    assert cli("concurrency", "set", "gpu", "8", "--by-weight").out == (
        "concurrency key 'gpu' has 8 slots, taken by weight\n"
    )
    assert re.search(r"\ngpu +8 +yes ", cli("concurrency", "list").out)
    cli("concurrency", "delete", "gpu")
    cli("concurrency", "delete", "bulk")
    assert execute("SELECT concurrency_key FROM pgcron.concurrency_limit") == [("customer-*",)]
    assert cli("concurrency", "set", "a*b", "1").err.startswith(
        "error: 'a*b' is not a concurrency key"
    )
    assert "'many'" in cli("queues", "set", "slow", "--max-running", "many").err
    assert cli("enqueue", "py:x", "--concurrency-key", "*").err.startswith("error: '*' is not")


def test_a_node_is_cordoned_drained_and_uncordoned(cli: Cli, execute: Execute) -> None:
    insert_node(execute, "n1", "py:known")
    cli("enqueue", "py:known")
    execute(
        "UPDATE pgcron.run SET state = 'running', attempt = 1, token = gen_random_uuid(), "
        "fence = 1, claimed_at = now(), owner = (SELECT incarnation FROM pgcron.node)"
    )

    said = cli("nodes", "cordon", "n1", "--note", "a new disk").out
    assert said == "node 'n1' takes nothing new and holds 1 run (1 living process)\n"
    [row] = cli("nodes", "--json").rows
    assert (row["state"], row["cordon_note"]) == ("cordoned", "a new disk")
    text = cli("status").out
    assert "cordoned   Node n1: It takes nothing new, by word of " in text
    assert ": a new disk.\n" in text
    late = cli("nodes", "drain", "n1", "--wait", "--timeout", "50ms")
    assert (late.code, "still holds 1 run" in late.err) == (1, True)
    execute("DELETE FROM pgcron.run")
    assert cli("nodes", "drain", "n1", "--wait", "--json").rows == [
        {"node": "n1", "is_cordoned": True, "living": 1, "runs": 0}
    ]
    said = cli("nodes", "uncordon", "n1").out
    assert said == "node 'n1' takes runs again (1 living process)\n"
    missing = cli("nodes", "cordon", "n2")
    assert (missing.code, "node 'n2' does not exist" in missing.err) == (1, True)


def test_a_run_that_needs_more_slots_than_any_node_has_says_so(cli: Cli, execute: Execute) -> None:
    insert_node(execute, "n1", "py:heavy")
    insert_node(execute, "large-and-silent", "py:heavy", "-1 second")
    execute("UPDATE pgcron.node SET slots = 64 WHERE name = 'large-and-silent'")
    fits, *_, heavy = [
        cli("enqueue", "py:heavy", "--weight", weight).out.strip() for weight in (8, 9, 9, 12)
    ]
    cli("enqueue", "py:nobody", "--weight", 9)
    cli("enqueue", "py:nobody")
    execute(
        "INSERT INTO pgcron.run (handler, state, gate) VALUES ('py:nobody', 'blocked', 'no_node')"
    )

    (status,) = cli("status", "--json").rows
    has = "no live node that offers 'py:heavy' for queue 'default' has so many"
    assert sorted(p["why"] for p in status["attention"] if p["state"] == "blocked") == [
        f"1 run waits: needs 12 slots: {has}.",
        f"2 runs wait: needs 9 slots: {has}.",
        "3 runs wait: no live node offers 'py:nobody' for queue 'default'.",
    ]
    waiting = f"py:heavy: 2 runs wait: needs 9 slots: {has}."
    assert f"blocked    {waiting}" in cli("status").out
    watched = cli("runs", "watch", heavy, "--timeout", "50ms").err
    assert f"run {heavy} ready: needs 12 slots: {has}" in watched
    assert f"run {fits} ready\n" in cli("runs", "watch", fits, "--timeout", "50ms").err


def test_a_run_and_a_schedule_may_require_labels(cli: Cli, execute: Execute) -> None:
    cli("enqueue", "py:x", "--requires", "gpu=a100", "--requires", "ssd")
    assert execute("SELECT requires FROM pgcron.run") == [(["gpu=a100", "ssd"],)]
    put = ("schedules", "put", "job", "0 3 * * *", "py:x")
    for given, kept in (
        (["--requires", "gpu"], ["gpu"]),
        ([], ["gpu"]),
        (["--requires", ""], None),
    ):
        assert cli(*put, *given).code == 0
        assert execute("SELECT requires FROM pgcron.schedule") == [(kept,)]
    assert "is not a list of labels" in cli("enqueue", "py:x", "--requires", "gpu=").err
    needs = "needs gpu=a100, ssd: no live node that offers 'py:x' for queue 'default' announces it."
    assert f"blocked    py:x: 1 run waits: {needs}" in cli("status").out
