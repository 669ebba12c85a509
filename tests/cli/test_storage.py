from __future__ import annotations

from itertools import pairwise

from tests.cli.conftest import Cli, Execute


def test_tables_are_listed_with_their_sizes(cli: Cli, execute: Execute) -> None:
    rows = {row["table"]: row for row in cli("storage", "--json").rows}

    [(run,)] = execute("SELECT pg_total_relation_size('pgcron.run')")
    assert rows["run"]["total"] == run
    assert rows["run"]["heap"] + rows["run"]["indexes"] + rows["run"]["toast"] == run
    assert (rows["run"]["partitions"], rows["run"]["kept"]) == (None, None)
    assert rows["history"]["kept"] == 30 * 86400
    assert rows["history"]["partitions"] > 7
    table = cli("storage").out
    assert table.startswith("TABLE ")
    assert " in all, " in table
    assert " KiB" in table


def test_partitions_are_listed_with_their_ranges(cli: Cli, execute: Execute) -> None:
    rows = cli("storage", "log", "--json").rows

    known = execute("SELECT count(*) FROM pg_inherits WHERE inhparent = 'pgcron.log'::regclass")
    assert known == [(len(rows),)]
    assert rows[0]["partition"] == "log_before"
    assert (rows[0]["from"], rows[0]["dropped_at"]) == (None, None)
    assert all(earlier["before"] == later["from"] for earlier, later in pairwise(rows))
    [(dropped,)] = execute(
        "SELECT to_char((%s::timestamptz + interval '7 days') AT TIME ZONE 'UTC',"
        ' \'YYYY-MM-DD"T"HH24:MI:SS"Z"\')',
        rows[1]["before"],
    )
    assert rows[1]["dropped_at"] == dropped
    assert "DROPPED" in cli("storage", "log").out


def test_a_table_that_is_none_is_refused(cli: Cli) -> None:
    answer = cli("storage", "histroy")

    assert answer.code == 1
    assert "table 'histroy' does not exist" in answer.err
    assert "; did you mean 'history'?" in answer.err
