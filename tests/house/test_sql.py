"""SQL stands in named statements of ``pgcron_ha/db/sql``, each of which a test prepares."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.checkout import files, name

# How a statement begins; docstrings and messages begin with the same words, but not like this.
_OBJECT = (
    r"(or\s+replace\s+|unlogged\s+|unique\s+|temp(orary)?\s+|materialized\s+)?"
    r"(aggregate|database|domain|extension|function|index|policy|procedure|publication|role"
    r"|schema|sequence|subscription|system|table|trigger|type|user|view)\b"
)
_STATEMENT = re.compile(
    rf"""\s*(--[^\n]*\s+|\(\s*)*(
      select\b(?=.*\b(from|where)\b|\s+[\w.*'$…]+(\(|\s*$|,|\s+as\b))
    | insert\s+into\b | update\s+(only\s+)?\S+(\s+(as\s+)?\w+)?\s+set\b | delete\s+from\b
    | merge\s+into\b | with\s+(recursive\s+)?\w+(\s*\([^)]*\))?\s+as\b | values\s*\(
    | (create|alter|drop)\s+{_OBJECT} | truncate\s+\w | (grant|revoke)\s.*\bon\b
    | set\s+(session\s+|local\s+)?[\w.]+\s*(=|\bto\b)\s*('[^']*'|[\w…]+)\s*(;|$)
    | reset\s+\w+\s*(;|$) | show\s+\w+\s*(;|$)
    | (begin|commit|rollback|start\s+transaction)\b(\s+isolation\b|\s+transaction\b|\s*;|\s*$)
    | (listen|unlisten|notify|savepoint|analyze|vacuum|reindex|explain)\s+[\w…"*(]
    | lock\s+table\b | copy\s+\S+(\s*\([^)]*\))?\s+(from|to)\b | call\s+[\w.]+\([^)]+\) | do\s+\$\$
    )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)

# file, how the text begins, why it is no named statement.
ALLOWED = (
    ("pgcron_ha/db/driver/pooling.py", "BEGIN", "asyncpg's; can't be prepared"),
    ("pgcron_ha/db/driver/hosts.py", "BEGIN ", "asked before anything is prepared"),
    ("pgcron_ha/db/driver/hosts.py", "ROLLBACK", "asked before anything is prepared"),
    ("pgcron_ha/db/driver/pooling.py", "ROLLBACK", "asked before anything is prepared"),
    ("pgcron_ha/db/driver/link.py", "SET LOCAL ", "settings of a transaction; can't be prepared"),
    ("pgcron_ha/db/driver/statements.py", "SELECT …pgcron.", "a named statement of a function"),
    ("pgcron_ha/db/driver/statements.py", "DELETE FROM ", "around named statements that forget"),
    ("pgcron_ha/db/driver/transactions.py", "SET ", "a setting of the session; can't be prepared"),
    (
        "pgcron_ha/db/queries/foreign_schedulers.py",
        "SELECT to_jsonb(j)",
        "pg_cron's table, not ours",
    ),
    (
        "pgcron_ha/db/schema/uninstall.py",
        "SET LOCAL ",
        "settings of a transaction; can't be prepared",
    ),
    ("pgcron_ha/db/schema/steps.py", "DO $$ ", "alembic's; there is nothing before it"),
    ("pgcron_ha/db/schema/steps.py", "CREATE TABLE ", "alembic's; there is nothing before it"),
    ("pgcron_ha/db/schema/steps.py", "SELECT ", "alembic's connection, of any driver"),
    ("pgcron_ha/db/schema/steps.py", "DELETE FROM ", "alembic's connection, of any driver"),
    ("pgcron_ha/db/schema/steps.py", "INSERT INTO ", "also printed by migrate --sql"),
    ("pgcron_ha/engine/maintain/janitor.py", "VACUUM ", "names a partition; can't be prepared"),
    ("pgcron_ha/cli/grants.py", "GRANT ", "printed for a DBA, never executed"),
    ("pgcron_ha/cli/grants.py", "SELECT …", "printed for a DBA, never executed"),
    ("pgcron_ha/cli/grants.py", "BEGIN;", "printed for a DBA, never executed"),
    ("pgcron_ha/cli/grants.py", "COMMIT;", "printed for a DBA, never executed"),
    ("pgcron_ha/cli/doctor_checks.py", "ALTER SYSTEM", "a hint for people, never executed"),
    ("pgcron_ha/cli/doctor_checks.py", "SELECT pg_reload", "a hint for people, never executed"),
    ("pgcron_ha/cli/doctor_checks.py", "ALTER ", "a hint for people, never executed"),
    ("pgcron_ha/cli/doctor_checks.py", "SELECT pg_term", "a hint for people, never executed"),
)

SOURCES = files(".py", under=("pgcron_ha",))


def test_sql_stands_in_named_statements() -> None:
    assert [
        (name(path), line, text[:80])
        for path in SOURCES
        for line, text in _statements(ast.parse(path.read_text()))
        if not _reasons(path, text)
    ] == []


def test_each_exception_is_still_needed() -> None:
    used = {
        reason
        for path in SOURCES
        for _, text in _statements(ast.parse(path.read_text()))
        for reason in _reasons(path, text)
    }

    assert set(ALLOWED) - used == set()


@pytest.mark.parametrize(
    "code",
    [
        "rows('''\n  SELECT r.id\n  FROM pgcron.run r''')",
        "rows('select pg_database_size(current_database())')",
        "rows('SELECT 1')",
        "rows('SELECT clock_timestamp() AS now')",
        "rows('-- why\\nUPDATE pgcron.run SET state = 1')",
        "rows(f'UPDATE {schema}.run r SET state = 1')",
        "rows(f'DELETE FROM {schema}.run')",
        "rows('WITH due AS (TABLE x) ' 'TABLE due')",
        "rows(f'{verb}'); rows(f'ALTER TABLE {name} ADD x int')",
        "rows('CREATE UNIQUE INDEX x ON y (z)')",
        "rows('TRUNCATE pgcron.log')",
        "rows(f'LISTEN {channel}')",
        "rows('set jit = off')",
        "rows('begin')",
    ],
)
def test_the_rule_sees_a_statement(code: str) -> None:
    assert len(list(_statements(ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    'SELECT x FROM y is what this sends.'",
        "say('Select a queue.')",
        "say('Set HOME or XDG_STATE_HOME to a folder you may write.')",
        "say('Start a node that offers it.', 'Create the database, or name another one.')",
        "say('delete', 'show', 'start', 'do', 'lock', 'Update it.', 'with at_most_once')",
        "say(f'Drop {name} from node.apps.')",
    ],
)
def test_the_rule_takes_no_words_for_a_statement(code: str) -> None:
    assert list(_statements(ast.parse(code))) == []


def _statements(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of every string that begins as SQL does; ``…`` stands for what is put in."""
    apart = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            apart |= {id(piece) for piece in node.values}
    for node in ast.walk(tree):
        text = _text(node)
        if text is not None and id(node) not in apart and _STATEMENT.match(text):
            yield getattr(node, "lineno", 0), text.strip()


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(piece) or "…" for piece in node.values)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return None


def _reasons(path: Path, text: str) -> list[tuple[str, str, str]]:
    return [one for one in ALLOWED if one[0] == name(path) and text.startswith(one[1])]
