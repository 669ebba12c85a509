from __future__ import annotations

from tests.cli.conftest import Cli, Execute


def test_retention_is_set_listed_and_reset(cli: Cli, execute: Execute) -> None:
    said = cli("retention", "set", "2d", "--queue", "mail", "--outcome", "succeeded")
    assert said.out == "succeeded runs of queue 'mail' are kept for 2d\n"
    assert cli("retention", "set", "20d").out == "ended runs are kept for 20d\n"
    assert cli("retention", "set", "10d", "--queue", "mail").code == 0
    assert cli("retention", "set", "3d", "--table", "log").out == "log is kept for 3d\n"
    assert cli("retention", "set", "15d", "--table", "history").code == 0

    rows = cli("retention", "list", "--json").rows
    assert [row["relation"] for row in rows[:5]] == [
        *("attempt", "audit", "history", "log", "occurrence")
    ]
    assert [(row["queue"], row["outcome"]) for row in rows[5:]] == [
        ("mail", "succeeded"),
        ("mail", None),
        (None, None),
    ]
    listed = cli("retention", "list").out
    assert "20d, but history for 15d" in listed
    assert "succeeded runs of queue 'mail'" in listed

    gone = cli("retention", "delete", "--queue", "mail")
    assert gone.out == "there is no rule for ended runs of queue 'mail' any more\n"
    assert execute("SELECT count(*) FROM pgcron.retention_rule") == [(2,)]
    assert execute("SELECT DISTINCT set_by <> '' FROM pgcron.retention_rule") == [(True,)]


def test_what_makes_no_sense_is_refused_with_what_to_do(cli: Cli) -> None:
    assert "Keep at least '1 day'" in cli("retention", "set", "12h").err
    assert "longer than that of history" in cli("retention", "set", "31d").err
    assert "is not a queue name" in cli("retention", "set", "2d", "--queue", "a b").err
    assert "no retention rule for queue 'x'" in cli("retention", "delete", "--queue", "x").err
    assert cli("retention", "set", "2d", "--outcome", "failed").code == 2
    assert "--table is given" in cli("retention", "set", "2d", "--table", "log", "--queue", "x").err
