"""`status` names services that fail, and what others go on without."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.product.db import NodeHealth, Trouble, written

NODE = """
    INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_ttl, lease_until,
                             slots, queues, health)
    VALUES (gen_random_uuid(), %s, 'h', 1, '0', '1 min', now() + interval '1 min', 4,
            '{default}', %s)
    """


def test_failing_services_and_what_is_set_aside_are_told(cli: Cli, database: str) -> None:
    health = NodeHealth(
        (
            Trouble("dispatcher", "canceling statement due to lock timeout", 41.0),
            Trouble("completer", "the row is locked", 3.0, "run 7", 4),
        )
    )
    with psycopg.connect(database, autocommit=True) as connection:
        for name in ("n1", "n2"):
            connection.execute(NODE, (name, written(health)))

    answer = cli("status")
    status = answer.out
    assert answer.code == 1
    assert "failing    Dispatcher of nodes n1, n2: No pass has succeeded for 4" in status
    assert "It claims no runs." in status
    assert "set aside  run 7: On nodes n1, n2 the completer goes on without it, tried 4" in status


def test_a_node_that_is_well_says_nothing(cli: Cli, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(NODE, ("n1", None))

    status = cli("status")
    assert status.code == 0
    assert "failing" not in status.out
    assert "set aside" not in status.out


@pytest.mark.parametrize(("seconds", "code"), [(3.0, 0), (90.0, 1)])
def test_what_is_set_aside_for_long_is_a_failure(
    cli: Cli, database: str, seconds: float, code: int
) -> None:
    health = NodeHealth((Trouble("completer", "the row is locked", seconds, "run 7", 4),))
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(NODE, ("n1", written(health)))

    status = cli("status")

    assert "set aside  run 7: On node n1 the completer goes on without it" in status.out
    assert status.code == code


@pytest.mark.parametrize(
    "health",
    [
        "5",
        "[]",
        '{"failing": 5, "without": [], "more": 0}',
        '{"failing": [{"service": "dispatcher"}], "without": [], "more": 0}',
    ],
)
def test_what_a_node_reports_in_another_form_hides_nothing_else(
    cli: Cli, database: str, health: str
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(NODE, ("n1", health))
        connection.execute(NODE, ("n2", written(NodeHealth((Trouble("reaper", "a lock", 41.0),)))))

    status = cli("status")
    assert status.code == 1
    assert "failing    Reaper of node n2" in status.out
    assert status.out.count("can't be read") == (health != "[]")


def test_what_a_node_of_a_newer_version_reports_besides_is_left_out(
    cli: Cli, database: str
) -> None:
    health = json.loads(written(NodeHealth((Trouble("reaper", "a lock", 41.0),))) or "")
    health["failing"][0]["severity"] = health["other"] = "high"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(NODE, ("n1", json.dumps(health)))

    assert "failing    Reaper of node n1: No pass has succeeded" in cli("status").out


def test_a_node_whose_row_breaks_its_rules_hides_no_other(cli: Cli, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "ALTER TABLE pgcron.node DROP CONSTRAINT a_lease_lives_1_second_to_5_minutes,"
            " DROP CONSTRAINT node_labels_are_words"
        )
        connection.execute(NODE, ("n1", written(NodeHealth((Trouble("reaper", "a lock", 41.0),)))))
        connection.execute(
            "UPDATE pgcron.node SET lease_ttl = '178000000 years', labels = '[]',"
            " started_at = '0044-03-15 BC'"
        )
        connection.execute(NODE, ("n2", None))

    status = cli("status")
    assert status.code == 1
    assert "failing    Reaper of node n1: No pass has succeeded" in status.out
    assert [row["name"] for row in cli("nodes", "list", "--json").rows] == ["n1", "n2"]


def test_an_invalid_schedule_whose_reason_has_another_form_is_named(
    cli: Cli, database: str
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '* * * * *', 'py:a')"
        )
        connection.execute("UPDATE pgcron.cursor SET status = 'invalid', error = '5'")

    status = cli("status")
    assert "invalid    s: It never fires: 5" in status.out
    assert status.code == 1
