from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.cli.conftest import Answer, Cli, Execute, dsn_of
from tests.cli.test_runs import insert_ended

As = Callable[..., Answer]


@pytest.fixture
def granted(cli: Cli, execute: Execute, database: str, role: str) -> Callable[[str], As]:
    """Gives the role a part, as a DBA would; the command line as that role."""

    def grant(part: str) -> As:
        printed = cli("grants", part, role, *(["--everything"] if part == "producer" else []))
        assert printed.code == 0, printed.err
        execute(printed.out)
        return lambda *words: cli("--dsn", dsn_of(role, database), *words)

    return grant


def refused(answer: Answer) -> bool:
    return answer.code == 1 and "permission denied" in answer.err and "grants" in answer.err


def test_grants_only_prints(cli: Cli, execute: Execute) -> None:
    answer = cli("--schema", "jobs", "grants", "operator", "web-app")

    assert answer.code == 0
    assert all(line.endswith(' "web-app";') for line in answer.out.splitlines())
    assert "pgcron." not in answer.out
    assert execute("SELECT count(*) FROM pg_roles WHERE rolname = 'web-app'") == [(0,)]
    assert cli("grants", "king", "x").code == 2
    assert cli("grants", "viewer", "").code == 1
    for word in ("end", "current_user", "public", "somebody"):
        assert f' TO "{word}";' in cli("grants", "viewer", word).out
    assert ' TO "a""; DROP";' in cli("grants", "viewer", 'a"; DROP').out


@pytest.mark.parametrize(
    "words",
    [
        ("--queue", "mail", "--handler", ""),
        ("--queue", "mail", "--handler", "mail"),
        ("--queue", "ma*il", "--handler", "*"),
        ("--queue", "a b", "--handler", "*"),
        ("--queue", "mail", "--handler", "*x"),
        ("--everything", "--largest-weight", "1001"),
        ("--everything", "--highest-priority", "-1"),
        ("--everything", "--largest-args", "1"),
        ("--everything", "--backlog", "0"),
        ("--everything", "--largest-log", "0"),
    ],
)
def test_a_wrong_rule_is_refused_and_nothing_is_granted(
    cli: Cli, role: str, words: tuple[str, ...]
) -> None:
    refused = cli("grants", "producer", role, *words)

    assert (refused.code, refused.out) == (2, "")


def test_a_producer_has_no_right_before_it_is_confined(
    cli: Cli, execute: Execute, database: str, role: str
) -> None:
    printed = cli("grants", "producer", role, "--queue", "mail", "--handler", "py:*").out

    assert printed.startswith("BEGIN;\nSELECT pgcron.confine_producer(")
    assert printed.endswith(";\nCOMMIT;\n")
    execute(printed)
    limits = "rules, concurrency_keys, largest_weight, highest_priority, backlog"
    confined = (["py:% into mail"], [f"{role}/*"], 1, 5, None)
    assert execute(f"SELECT {limits} FROM pgcron.producer") == [confined]
    beyond = cli("--dsn", dsn_of(role, database), "enqueue", "sql:x", "--queue", "mail")
    assert beyond.err.startswith(f'error: role "{role}" may not enqueue'), beyond.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("producer", "or --everything"),
        ("producer --queue mail", "or --everything"),
        ("producer --handler py:mail", "or --everything"),
        ("producer --backlog 7", "or --everything"),
        ("producer --everything --queue mail", "--everything leaves no queue"),
        ("operator --everything", "only a producer"),
        ("viewer --backlog 7", "only a producer"),
    ],
)
def test_who_does_not_say_what_gets_nothing(cli: Cli, words: str, says: str) -> None:
    part, *options = words.split()
    answer = cli("grants", part, "somebody", *options)

    assert (answer.code, answer.out) == (2, "")
    assert says in answer.err


def test_everything_is_limited_by_what_is_said_beside_it(
    cli: Cli, execute: Execute, role: str
) -> None:
    words = "--everything --largest-weight 4 --concurrency-key a --backlog 9 --largest-log 7"
    execute(cli("grants", "producer", role, *words.split()).out)

    limits = (
        "concurrency_keys, largest_weight, highest_priority, largest_args, backlog, largest_log"
    )
    assert execute(f"SELECT {limits} FROM pgcron.producer") == [(["a"], 4, 0, 262144, 9, 7)]


def test_a_producer_enqueues_and_nothing_else(
    granted: Callable[[str], As], database: str, role: str, tmp_path: Path
) -> None:
    producer = granted("producer")
    file = tmp_path / "runs.ndjson"
    file.write_text('{"handler": "py:x", "idempotency_key": "k"}\n{"handler": "py:y"}\n')

    assert producer("enqueue", "py:x", "--idempotency-key", "k").code == 0
    assert producer("enqueue", "py:x", "--idempotency-key", "k").code == 0
    assert producer("enqueue", "py:x", "--priority", "1").code == 0
    assert len(producer("enqueue", "--file", file).out.split()) == 2
    ways = ("", "unique_for => '1 hour'", "on_conflict => 'replace'", "debounce => '1 s'")
    with psycopg.connect(dsn_of(role, database), autocommit=True) as connection:
        for way in ways:
            words = ", ".join(filter(None, ("'py:x'", "unique_key => %s", way)))
            asked = [
                connection.execute(f"SELECT pgcron.enqueue({words})".encode(), (f"k{way}",))
                for _ in range(2)
            ]
            assert asked[0].fetchone() == asked[1].fetchone()
    assert refused(producer("runs", "list"))
    assert refused(producer("schedules", "put", "s", "@daily", "py:x"))
    assert refused(producer("runs", "cancel", 1))
    assert refused(producer("queues", "pause", "default"))


@pytest.mark.parametrize("column", ["state", "owner", "token", "attempt", "origin", "gate"])
def test_a_producer_forges_no_state(
    column: str, granted: Callable[[str], As], database: str, role: str
) -> None:
    granted("producer")

    with (
        psycopg.connect(dsn_of(role, database)) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute(f"INSERT INTO pgcron.run (handler, {column}) VALUES ('py:x', NULL)")


def test_a_scheduler_defines_schedules(granted: Callable[[str], As], tmp_path: Path) -> None:
    scheduler = granted("scheduler")
    days = tmp_path / "days"
    days.write_text("sat,sun\n")

    assert scheduler("calendars", "put", "days", days).code == 0
    assert scheduler("schedules", "put", "c", "0 9 * * *\nnot in days", "py:x").code == 0
    assert "\nsat,sun\n" in scheduler("calendars", "show", "days").out
    assert scheduler("schedules", "delete", "c").code == 0
    assert scheduler("calendars", "delete", "days").code == 0
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(
        "calendars: {days: sun}\nschedules: {f: {spec: '@daily', handler: 'workflow:w'}}\n"
        "workflows: {w: {steps: [{name: a, handler: 'py:x'}]}}\n"
    )
    assert scheduler("schedules", "apply", jobs).code == 0
    exported = scheduler("schedules", "export").out
    assert "calendars:" in exported
    assert "workflows:" in exported
    jobs.write_text("schedules: {g: {spec: '@daily', handler: 'py:x'}}\n")
    pruned = scheduler("schedules", "apply", jobs, "--prune").out
    assert pruned.endswith("calendars: 1 pruned\nworkflows: 1 pruned\n1 added, 1 pruned\n")

    assert scheduler("schedules", "put", "s", "@daily", "py:x").code == 0
    assert scheduler("schedules", "put", "s", "@hourly", "py:x", "--paused").code == 0
    assert scheduler("schedules", "list").code == 0
    assert scheduler("schedules", "resume", "s").code == 0
    assert scheduler("schedules", "delete", "s").code == 0
    assert refused(scheduler("enqueue", "py:x"))


def test_an_operator_pauses_runs_cancels_and_redrives(
    granted: Callable[[str], As], cli: Cli, execute: Execute
) -> None:
    execute("SELECT pgcron.put_calendar('days', '2099-12-25')")
    cli("schedules", "put", "s", "0 0 * * *\nnot in days", "py:x")
    insert_ended(execute, 900)
    operator = granted("operator")

    assert operator("schedules", "pause", "s", "--note", "n").code == 0
    assert operator("schedules", "resume", "s").code == 0
    assert operator("schedules", "skip", "s", "2090-01-01T00:00Z").code == 0
    assert operator("schedules", "restore-occurrence", "s", "2090-01-01T00:00Z").code == 0
    run_id = int(operator("schedules", "run-now", "s").out)
    assert operator("runs", "retry", run_id).out == f"{run_id}\n"
    assert operator("runs", "cancel", run_id).out == f"run {run_id} is cancelled\n"
    assert operator("runs", "retry", run_id).code == 0
    assert operator("dead", "redrive", 900).code == 0
    assert operator("queues", "pause", "default").code == 0
    assert operator("queues", "resume", "default").code == 0
    assert operator("status").err == ""
    assert refused(operator("schedules", "put", "other", "@daily", "py:x"))
    assert refused(operator("schedules", "delete", "s"))
    assert refused(operator("calendars", "delete", "days"))


def test_a_viewer_only_looks(
    granted: Callable[[str], As], cli: Cli, execute: Execute, database: str, role: str
) -> None:
    cli("schedules", "put", "s", "@daily", "py:x")
    run_id = cli("enqueue", "py:x").out.strip()
    viewer = granted("viewer")

    status = viewer("status")
    assert (status.code, status.err) == (1, "")  # it says that no node is alive
    for words in (
        ["doctor"],
        ["storage"],
        ["nodes"],
        ["queues", "list"],
        ["queues", "demand"],
        ["runs", "list"],
        ["runs", "show", run_id],
        ["runs", "logs", run_id],
        ["dead", "list"],
        ["schedules", "list"],
        ["schedules", "show", "s"],
        ["schedules", "why", "s", "2026-01-01T00:00Z"],
    ):
        assert viewer(*words).code == 0, words
    with psycopg.connect(dsn_of(role, database)) as connection:
        connection.execute("SELECT FROM pgcron.preview('s')")  # asks nodes for what it lacks
    asked = execute("SELECT count(asked_at) FROM pgcron.schedule_preview")
    assert asked == [(1,)]
    assert refused(viewer("enqueue", "py:x"))
    assert refused(viewer("runs", "cancel", run_id))
    assert refused(viewer("schedules", "pause", "s"))


def test_a_service_shows_a_claims_token_and_nothing_else(
    granted: Callable[[str], As], database: str, role: str
) -> None:
    service = granted("service")

    with (
        psycopg.connect(dsn_of(role, database)) as connection,
        pytest.raises(psycopg.Error) as refusal,
    ):
        connection.execute("SELECT pgcron.assert_token(1, gen_random_uuid())")
    assert refusal.value.sqlstate == "PC012"
    assert refused(service("enqueue", "py:x"))
    assert refused(service("runs", "list"))


def test_what_takes_callbacks_answers_and_nothing_else(
    granted: Callable[[str], As], database: str, role: str
) -> None:
    taker = granted("callbacks")

    with psycopg.connect(dsn_of(role, database)) as connection:
        row = connection.execute(
            "SELECT pgcron.answer_callback(1, 1, sha256('x'), 'succeeded')"
        ).fetchone()
        assert row == ("unknown",)
        for forbidden in (
            "SELECT FROM pgcron.callback",
            "SELECT pgcron.assert_token(1, gen_random_uuid())",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(forbidden.encode())
    assert refused(taker("enqueue", "py:x"))
    assert refused(taker("runs", "list"))


def test_an_autoscaler_learns_one_number_and_nothing_else(
    granted: Callable[[str], As], cli: Cli, database: str, role: str
) -> None:
    assert refused(cli("--dsn", dsn_of(role, database), "queues", "demand"))
    cli("enqueue", "py:x", "--weight", 3)
    cli("enqueue", "py:x", "--queue", "etl")
    asker = granted("autoscaler")

    assert [asker("queues", "demand", *name).out for name in ((), ("etl",), ("no",))] == [
        "4\n",
        "1\n",
        "0\n",
    ]
    assert asker("queues", "demand", "etl", "--json").rows == [{"queue": "etl", "slots": 1}]
    assert asker("queues", "demand", "--limit", 0).code == 2
    for other in ("queues list", "runs list", "status", "enqueue py:x"):
        assert refused(asker(*other.split())), other


def test_who_may_not_read_what_nodes_offer_enqueues_all_the_same(
    granted: Callable[[str], As], execute: Execute, role: str
) -> None:
    as_role = granted("producer")
    execute(f'GRANT SELECT ON pgcron.history TO "{role}"')

    answer = as_role("enqueue", "py:report")

    assert (answer.code, answer.err) == (0, "")
    assert execute("SELECT handler FROM pgcron.run") == [("py:report",)]
