from __future__ import annotations

from typing import Any

import pytest

from tests.product.config import SqlProfile, SqlStatement, parse_script, read_tables


def parsed(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.text, each.parameters) for each in parse_script(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT :a, :b, :a;", [("SELECT $1, $2, $1", ("a", "b"))]),
        ("SELECT 1; ;\n-- no\nSELECT :x", [("SELECT 1", ()), ("-- no\nSELECT $1", ("x",))]),
        ("SELECT ':a;', \":b;\", 'it''s :c'", [("SELECT ':a;', \":b;\", 'it''s :c'", ())]),
        (r"SELECT E'\':a;'", [(r"SELECT E'\':a;'", ())]),
        ("SELECT $$ :a; $$, $q$ :b; $$ $q$", [("SELECT $$ :a; $$, $q$ :b; $$ $q$", ())]),
        ("SELECT 1 /* ; :a /* ; */ ; */ + :b", [("SELECT 1 /* ; :a /* ; */ ; */ + $1", ("b",))]),
        ("SELECT :a::int, x::text, y[1:2], z := 1", [
            ("SELECT $1::int, x::text, y[1:2], z := 1", ("a",)),
        ]),
        ("SELECT -- it's :a\n :b", [("SELECT -- it's :a\n $1", ("b",))]),
        ("SELECT a$1$, :b", [("SELECT a$1$, $1", ("b",))]),
    ],
)  # fmt: skip
def test_parameters_and_statements_are_found_only_in_code(text: str, found: Any) -> None:
    assert parsed(text) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected a statement"),
        (" ; -- no\n /* no */ ;", "expected a statement"),
        ("SELECT 'a", "quote that begins at character 8"),
        ("SELECT $x$ a $$", r"\$x\$ at character 8 has no end"),
        ("SELECT /* /* */", "comment at character 8"),
    ],
)
def test_what_is_no_script_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_script(text)


def test_a_profile_is_read() -> None:
    table = {
        "dsn": "env:WAREHOUSE_DSN",
        "statement": "DELETE FROM stale WHERE day < :day AND token <> :pgcron_token",
        "timeout": "5m",
        "rows": True,
        "connections": 3,
    }

    profiles, problems = read_tables("sql", {"clean": table}, SqlProfile)

    assert problems == []
    profile = profiles["clean"]
    assert str(profile.dsn) == "env:WAREHOUSE_DSN"
    assert profile.parameters == {"day"}
    assert (profile.timeout, profile.rows, profile.connections) == (300.0, True, 3)
    assert (profile.atomic, profile.transactional) == (True, False)
    assert profile.statements == (
        SqlStatement("DELETE FROM stale WHERE day < $1 AND token <> $2", ("day", "pgcron_token")),
    )


def test_the_password_of_a_dsn_is_not_shown() -> None:
    table = {"dsn": "postgresql://u:secret@h/d", "statement": "SELECT 1"}

    profiles, _ = read_tables("sql", {"x": table}, SqlProfile)

    assert "secret" not in repr(profiles)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        (
            {"statement": "SELECT 1"},
            "sql.x.dsn: expected postgresql://ROLE@HOST/DATABASE, env:NAME or file:/…; only a",
        ),
        ({"dsn": "mysql://h/d", "statement": "SELECT 1"}, "sql.x.dsn: expected env:NAME"),
        ({"dsn": "env:D"}, "sql.x.statement: expected SQL"),
        ({"dsn": "env:D", "statement": "SELECT 'a"}, "sql.x.statement: a quote"),
        ({"dsn": "env:D", "statement": "SELECT :pgcron_tokn"}, "there are pgcron_run_id"),
        ({"dsn": "env:D", "statement": "SELECT 1", "statment": 1}, "did you mean 'statement'"),
        ({"dsn": "env:D", "statement": "SELECT 1", "connections": 0}, "whole number from 1"),
        ({"dsn": "env:D", "statement": "SELECT 1", "rows": 1}, "sql.x.rows: '1': expected true"),
        ({"transactional": True, "atomic": False, "statement": "SELECT 1"}, "sql.x.atomic"),
        ({"dsn": "env:D", "statement": "SELECT 1", "password": "geheim"}, "sql.x.password"),
    ],
)
def test_what_is_wrong_in_a_profile_is_told(table: dict[str, object], sentence: str) -> None:
    profiles, problems = read_tables("sql", {"x": table}, SqlProfile)

    assert profiles == {}
    assert any(sentence in problem for problem in problems), problems
    assert not any("geheim" in problem for problem in problems)
