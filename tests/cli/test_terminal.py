"""No command hands to a terminal what names, errors and output of handlers hold."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute
from tests.cli.test_runs import insert_ended
from tests.house.checkout import ROOT

EVIL = "\x1b]0;mine\x07\x1b[2J\x9b31m\u202egnp\x7f"


@pytest.fixture
def evil(execute: Execute) -> None:
    """A cluster whose texts are not harmless, written by plain SQL."""
    insert_ended(execute, 7)
    for table in ("history", "dead_letter"):
        execute(f"UPDATE pgcron.{table} SET error = %s", f"it broke {EVIL}\nsecond line")
    execute("UPDATE pgcron.history SET created_by = %s", EVIL)
    execute("INSERT INTO pgcron.run (handler, priority, args) VALUES ('py:x', 5, %s)",
            json.dumps({"a": EVIL}))  # fmt: skip
    execute("INSERT INTO pgcron.schedule (name, spec, handler, paused_note, enabled) "
            "VALUES ('s', '@daily', 'py:x', %s, false)", EVIL)  # fmt: skip
    execute("SELECT pgcron.pause_queue('default', %s)", EVIL)
    # Also what constraints refuse.
    for table, name in execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'c'"
        " AND conrelid::regclass::text = ANY (%s)",
        [f"pgcron.{name}" for name in (*WRITTEN, "schedule")],
    ):
        execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    execute(
        "SELECT pgcron.put_workflow('w', %s)",
        '{"steps": [{"name": "a", "wait_for": "approval"}, {"name": "b", "wait_for": "signal"}]}',
    )
    for statement in (*(f"INSERT INTO pgcron.{each} {row}" for each, row in WRITTEN.items()), *SET):
        made = statement.replace("{evil}", f"'{EVIL}'")
        execute(made.replace("{json}", f"'{json.dumps({EVIL: EVIL})}'"))


# Rows of what people, programs and producers write: an approval with its reason, the payload of a
# signal, and so on.
WRITTEN = {
    "breaker": """(name, set_by, state, opened_at, open_until, reason, last_error, reset_by)
        VALUES ({evil}, {evil}, 'open', now(), now(), {evil}, {evil}, {evil})""",
    "breaker_handler": "VALUES ({evil}, {evil})",
    "role_grant": """(subject_kind, subject, role, scope_kind, scope, granted_by)
        VALUES ('group', {evil}, 'viewer', 'team', {evil}, {evil})""",
    "owned": "(kind, name, team, set_by) VALUES ('queue', {evil}, {evil}, {evil})",
    "asset": """(name, updates, updated_at, updated_by, metadata)
        VALUES ({evil}, 1, now(), {evil}, {json})""",
    "audit": """(actor, interface, address, verb, kind, name, note, before, after)
        VALUES ({evil}, {evil}, {evil}, {evil}, {evil}, {evil}, {evil}, {json},
          {json})""",
    "concurrency_limit": "(concurrency_key, slots, set_by) VALUES ({evil}, 1, {evil})",
    "calendar": """(name, content, updated_by, source)
        VALUES ('days', 'sat # ' || {evil}, {evil}, {evil})""",
    "web_user": """(name, shown, groups, created_by)
        VALUES ({evil}, {evil}, ARRAY[{evil}], {evil})""",
    "web_session": """(id, user_name, method, address, agent, idle, expires_at)
        VALUES (sha256('x'), {evil}, 'oidc', {evil}, {evil}, '1 h', now() + interval '1 h')""",
    "api_token": """(id, secret_hash, name, owner, created_by, expires_at)
        VALUES ('abcdefgh', sha256('x'), {evil}, {evil}, {evil}, now() + interval '1 h')""",
    "run": """(id, origin, handler, args, state, gate, created_by)
        VALUES (8, 'manual', 'workflow:w', {json}, 'blocked', 'workflow', {evil})""",
    "workflow_run": """(run, definition, made, args, started_at, paused_at, paused_by, paused_note)
        SELECT 8, d.id, 2, {json}::jsonb, now(), now(), {evil}, {evil}
        FROM pgcron.workflow_definition d""",
    "step": """(workflow, number, definition, run, state, waits, started_at, ended_at, result,
          reason)
        SELECT 8, s.number, s.definition, 80 + s.number, x.state, 0, now(), now(), {json}::jsonb,
          {evil}
        FROM pgcron.workflow_step s JOIN (VALUES (1, 'succeeded'), (2, 'running')) x(number, state)
          USING (number)""",
    "step_signal": "VALUES (8, {evil}, {json}, {evil})",
}
# They show none of these texts, at least not to people.
WITHOUT = ("doctor", "nodes list", "schedules versions s", "workflows graph w", "workflows why 8")
SET = (
    """UPDATE pgcron.schedule SET owner = {evil}, description = {evil}, tags = ARRAY[{evil}],
         links = jsonb_build_object({evil}::text, 'https://example.com')""",
    """UPDATE pgcron.workflow_definition SET source = {evil}, created_by = {evil},
         definition = definition || jsonb_build_object('description', {evil}::text)""",
)


LISTINGS = (
    "runs list",
    "runs show 7",
    "dead list",
    "dead groups",
    "schedules list",
    "schedules show s",
    "schedules versions s",
    "queues list",
    "status",
    "doctor",
    "nodes list",
    "workflows list",
    "workflows show w",
    "workflows show 8",
    "workflows graph w",
    "workflows why 8",
    "breakers list",
    "assets list",
    "roles list",
    "roles teams",
    "audit list",
    "audit export",
    "concurrency list",
    "calendars list",
    "calendars show days",
    "users list",
    "users sessions",
    "tokens list",
)


@pytest.mark.usefixtures("evil")
def test_a_listing_moves_no_cursor_and_hides_nothing(cli: Cli) -> None:
    for command, options in itertools.product(LISTINGS, ([], ["--json"])):
        answer = cli(*command.split(), *options)
        assert answer.code == 0 or command in ("doctor", "status"), (command, answer.err)
        assert "mine" in answer.out or command in WITHOUT, command
        for line in (answer.out + answer.err).splitlines():
            assert line.isprintable(), (command, line)


@pytest.mark.usefixtures("evil")
def test_what_is_shown_says_what_is_there_and_json_is_exact(cli: Cli) -> None:
    assert r"it broke \x1b]0;mine\x07\x1b[2J\x9b31m\u202egnp\x7f" in cli("runs", "show", "7").out
    assert cli("runs", "show", "7", "--json").rows[0]["error"] == f"it broke {EVIL}\nsecond line"


@pytest.mark.parametrize(
    "words",
    [
        ["enqueue", "py:x", "--idempotency-key", "a\x1b[2Jb"],
        ["enqueue", "py:x", "--concurrency-key", "a\u202eb"],
        ["schedules", "put", "a\nb", "@daily", "py:x"],
    ],
)
def test_a_name_has_no_controls(cli: Cli, words: list[str]) -> None:
    answer = cli(*words)

    assert answer.code == 1
    assert "none of them a control or format character" in answer.err


def test_commands_print_by_the_functions_that_make_text_harmless() -> None:
    own = re.compile(r"click\.(echo|secho)\(|(?<![\w.])print\(")
    folder = Path(ROOT) / "pgcron_ha" / "cli"
    found = [
        path.name
        for path in folder.glob("*.py")
        if own.search(path.read_text()) and path.name != "output.py"
    ]
    assert found == []


def test_a_reader_that_has_gone_is_no_error_of_the_database(database: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)

    ended = subprocess.run(
        [sys.executable, "-m", "pgcron_ha", "status"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PGCRON_HA_DSN": database},
        check=False,
        timeout=300,
    )

    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


@pytest.mark.parametrize(("no_color", "state"), [("", "\x1b[31mdead"), ("1", "dead")])
def test_states_have_colours_on_a_terminal_unless_nobody_wants_them(
    database: str, execute: Execute, no_color: str, state: str
) -> None:
    insert_ended(execute, 7)
    leader, terminal = pty.openpty()

    subprocess.run(
        [sys.executable, "-m", "pgcron_ha", "runs", "list"],
        stdout=terminal,
        cwd=ROOT,
        env={**os.environ, "PGCRON_HA_DSN": database, "TERM": "xterm", "NO_COLOR": no_color},
        check=True,
        timeout=300,
    )

    os.close(terminal)
    _, line = os.read(leader, 10_000).decode().splitlines()
    assert line.split()[3] == state
