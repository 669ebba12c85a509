"""`status` and `doctor` name services that fail, and what others go on without."""

from __future__ import annotations

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.product.db import Failing, NodeHealth, Without, written

NODE = """
    INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_ttl, lease_until,
                             slots, queues, health)
    VALUES (gen_random_uuid(), %s, 'h', 1, '0', '1 min', now() + interval '1 min', 4,
            '{default}', %s)
    """


@pytest.mark.parametrize(("seconds", "level"), [(3.0, "advice"), (90.0, "problem")])
def test_failing_services_and_what_is_set_aside_are_told(
    cli: Cli, database: str, seconds: float, level: str
) -> None:
    health = NodeHealth(
        (Failing("dispatcher", "canceling statement due to lock timeout", 41.0),),
        (Without("completer", "run 7", "the row is locked", seconds, 4),),
    )
    with psycopg.connect(database, autocommit=True) as connection:
        for name in ("n1", "n2"):
            connection.execute(NODE, (name, written(health)))

    status = cli("status").out
    assert "failing    dispatcher of node 'n1': no pass has succeeded for 4" in status
    assert "set aside  run 7: on node 'n2' the completer goes on without it, tried 4" in status
    answer = cli("doctor", "--json")
    [failing] = [row for row in answer.rows if row["check"] == "services"]
    assert (answer.code, failing["level"]) == (1, "problem")
    assert failing["message"].startswith("dispatcher of nodes n1, n2: no pass has succeeded for 4")
    assert "It claims no runs." in failing["hint"]
    [aside] = [row for row in answer.rows if row["check"] == "set aside"]
    assert aside["level"] == level
    assert aside["message"].startswith("run 7: on nodes n1, n2 the completer goes on without it")


def test_a_node_that_is_well_says_nothing(cli: Cli, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(NODE, ("n1", None))

    assert "failing" not in cli("status").out
    answer = cli("doctor", "--json")
    assert not {"services", "set aside"} & {row["check"] for row in answer.rows}
