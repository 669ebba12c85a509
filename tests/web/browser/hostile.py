"""Fills a believable cluster with what attackers and accidents put into every text there is."""

from __future__ import annotations

import json
import re
from typing import Final

import asyncpg

# Any of them that were executed would set `pwned`, ask for something, or open a dialog.
CORPUS: Final[dict[str, str]] = {
    "script": "<script>pwned=1</script>",
    "closing": "</title></textarea></pre></svg></table><script>pwned=1</script>",
    "double": '"><img src=x onerror=pwned=1>',
    "single": "' onmouseover='pwned=1' autofocus onfocus='pwned=1",
    "unquoted": "x onpointerenter=pwned=1 style=position:fixed",
    "address": "javascript:pwned=1//",
    "data": "data:text/html,<script>pwned=1</script>",
    "drawing": "<svg onload=pwned=1><a xlink:href='javascript:pwned=1'><text>x</text></a></svg>",
    "frame": "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    "form": "<form action=//evil.example method=post><button autofocus>Run now</button></form>",
    "base": "<base href=//evil.example/><meta http-equiv=refresh content=0;url=//evil.example>",
    "sheet": "<link rel=stylesheet href=//evil.example/x.css><style>*{display:none}</style>",
    "live": "<section id=list data-live><script>pwned=1</script></section>",
    "braces": "{{7*7}}{% raw %}${7*7}#{7*7}",
    "comment": "<!--<img src='--><img src=x onerror=pwned=1>",
    "entity": "&lt;script&gt;pwned=1&lt;/script&gt; &#106;avascript:",
    "folder": "../..",
    "escaped": "a%2Fb%2e%2e%00",
    "slashes": "/a//b/./c/../d?x=1&y=2#z",
    "mirrored": "invoice \u202egnp.exe\u2066\u200f דוח",
    "emoji": "🚀 👩\u200d🚀 50% off #1?",
    "terminal": "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07\x9b2J\x08\r",
    "spaces": "a\u00a0b\u2028c\u2029d\te\nf",
    "long": "L" * 200,
    "quotes": 'it\'s "quoted" `ticked` \\back\\slashed',
}


async def fill(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Puts the corpus into names, args, errors, notes, logs, queues and nodes of a cluster, and
    into all else that people and producers write.
    """
    async with connection.transaction():
        # Pages show safely also what the database would refuse.
        await connection.execute(_UNCHECKED)
        node = await _nodes(connection)
        for number, text in enumerate(CORPUS.values()):
            await _schedule(connection, text, 900_000 + 10 * number, node)
        await _pauses(connection)
        await _producers(connection)
        await connection.execute("SET LOCAL session_replication_role = 'replica'")
        for number, text in enumerate(CORPUS.values()):
            await _workflow(connection, text, 900_002 + 10 * number)
            await _breaker(connection, text, 900_003 + 10 * number)
            await _rights(connection, text)
        await connection.execute(
            "UPDATE pgcron.schedule SET tags = ARRAY[name] WHERE handler = 'py:hostile'"
        )


_UNCHECKED: Final = """
    DO $$ DECLARE c record; BEGIN
      FOR c IN SELECT k.conrelid::regclass AS of, k.conname FROM pg_constraint k
               WHERE k.contype = 'c' AND k.conrelid = ANY ('{pgcron.schedule, pgcron.run,
                 pgcron.workflow_definition, pgcron.breaker, pgcron.breaker_handler, pgcron.asset,
                 pgcron.role_grant, pgcron.owned, pgcron.history,
                 pgcron.dead_letter}'::regclass[]) LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', c.of, c.conname);
      END LOOP;
    END $$"""


async def _nodes(connection: asyncpg.Connection[asyncpg.Record]) -> str:
    for text in CORPUS.values():
        await connection.execute(
            """INSERT INTO pgcron.node (incarnation, name, host, process_id, version, state,
                 lease_until, lease_ttl, slots, slots_used, queues, ended_at, ended_because)
               SELECT gen_random_uuid(), $1, $1, 1, $1, state, now() + interval '1 hour', '15 s',
                 4, 1, ARRAY['default', $1], ended_at, CASE WHEN ended_at IS NOT NULL THEN $1 END
               FROM (VALUES ('alive', NULL), ('dead', now())) v(state, ended_at)""",
            text,
        )
    found: str = await connection.fetchval(
        "SELECT incarnation FROM pgcron.node WHERE state = 'alive' AND name = $1", CORPUS["double"]
    )
    return found


async def _schedule(
    connection: asyncpg.Connection[asyncpg.Record], text: str, run: int, node: str
) -> None:
    args = json.dumps({text: text, "nested": [{text: text}]})
    schedule = await connection.fetchval(
        """INSERT INTO pgcron.schedule (name, spec, handler, args, overlap, owner, description,
             links)
           VALUES ($1, '*/7 * * * *', 'py:hostile', $2, 'allow', $1, $1,
             jsonb_build_object($1::text, 'https://example.com/' || $3::text)) RETURNING id""",
        text,
        args,
        re.sub("[^!-~]", "", text),
    )
    await connection.execute(
        """UPDATE pgcron.cursor SET status = 'valid', next_fire = now() + interval '3 min'
           WHERE schedule_id = $1""",
        schedule,
    )
    if run % 4 == 0:
        await connection.execute("SELECT pgcron.pause_schedule($1, $1, $1, 'ui')", text)
    await _ended(connection, schedule, text, args, run)
    await _alive(connection, schedule, text, args, run + 1, node)
    await connection.execute(
        """INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason, note)
           VALUES ($1, now() - interval '2 days', now() - interval '1 day', 3, $2, $2)""",
        schedule,
        text,
    )
    await connection.execute(
        """SELECT pgcron.backfill($1, '2026-01-05', '2026-01-06', args => $2::jsonb, note => $1,
             actor => $1)""",
        text,
        args,
    )
    await connection.execute(
        """SELECT pgcron.put_calendar('hostile-' || $1::text, '2099-12-25 # ' ||
             left(regexp_replace($2, '[[:cntrl:]]', ' ', 'g'), 400), left($2, 100))""",
        str(run),
        text,
    )


async def _ended(
    connection: asyncpg.Connection[asyncpg.Record], schedule: int, text: str, args: str, run: int
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for,
             queue, priority, handler, args, delivery, outcome, attempt, due_at, created_at,
             created_by, claimed_at, started_at, finished_at, node, cancel_reason, error, result,
             tags)
           VALUES ($1, gen_random_uuid(), 'schedule', $2, $3, now() - interval '5 min', $3, 5,
             'py:hostile', $4, 'at_least_once', 'dead', 2, now() - interval '5 min', now() -
             interval '6 min', $3, now() - interval '5 min', now() - interval '5 min', now() -
             interval '4 min', $3, $3, $3, $4, ARRAY[$3])""",
        run,
        schedule,
        text,
        args,
    )
    await connection.execute(
        """INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, died_at, schedule_id, schedule,
             scheduled_for, queue, priority, handler, args, delivery, timeout, attempts,
             error_class, error)
           VALUES ($1, gen_random_uuid(), 'dead', now() - interval '4 min', $2, $3, now() -
             interval '5 min', $3, 5, 'py:hostile', $4, 'at_least_once', '1 h', 2, $3,
             $3)""",
        run,
        schedule,
        text,
        args,
    )
    await connection.execute(
        """INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence, claimed_at,
             started_at, ended_at, error_class, error, traceback)
           SELECT $1, n, 'failed', gen_random_uuid(), $2, n, now() - interval '5 min', now() -
             interval '5 min', now() - interval '4 min', $2, $2, $2 FROM generate_series(1, 2) n""",
        run,
        text,
    )
    await connection.execute(
        """INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
           VALUES ($1, now() - interval '5 min', 'run', NULL, $2),
                  ($1, now() - interval '12 min', 'skipped', $3, NULL)""",
        schedule,
        run,
        text,
    )
    await _log(connection, run, text)


async def _alive(
    connection: asyncpg.Connection[asyncpg.Record],
    schedule: int,
    text: str,
    args: str,
    run: int,
    node: str,
) -> None:
    await connection.execute(
        """INSERT INTO pgcron.run (id, origin, schedule_id, schedule, nominal_for, handler, args,
             state, attempt, owner, token, fence, claimed_at, started_at, cancel_at, cancel_reason,
             last_error, created_by)
           VALUES ($1, 'manual', $2, $3, now(), 'py:hostile', $4, 'running', 1, $5,
             gen_random_uuid(), nextval('pgcron.fence'), now(), now(), now(), $3, $3, $3)""",
        run,
        schedule,
        text,
        args,
        node,
    )
    await _log(connection, run, text)


async def _workflow(connection: asyncpg.Connection[asyncpg.Record], text: str, run: int) -> None:
    """One that is paused, with an approval that was given, a signal that came before its step, and
    a step that waits.
    """
    values = json.dumps({text: text})
    steps = (
        (1, "a" + text, "approval", None, "succeeded"),
        (2, text, "run", text, "waiting"),
        (3, "s" + text, "signal", None, "running"),
    )
    definition = await connection.fetchval(
        """INSERT INTO pgcron.workflow_definition (name, version, definition, hash, on_failure,
             steps, managed_by, source, created_by)
           VALUES ($1, 1, $2, $1, 'stop', 3, 'file', $1, $1) RETURNING id""",
        text,
        json.dumps(
            {"description": text, "steps": [{"name": each[1], "x": text} for each in steps]}
        ),
    )
    await connection.execute(
        """INSERT INTO pgcron.run (id, origin, handler, args, state, gate, created_by)
           VALUES ($1, 'manual', 'workflow:' || $2::text, $3, 'blocked', 'workflow', $2)""",
        *(run, text, values),
    )
    await connection.execute(
        """INSERT INTO pgcron.workflow_run (run, definition, made, args, started_at, paused_at,
             paused_by, paused_note) VALUES ($1, $2, 3, $4, now(), now(), $3, $3)""",
        *(run, definition, text, values),
    )
    for number, name, kind, handler, state in steps:
        await connection.execute(
            """INSERT INTO pgcron.workflow_step (definition, number, name, kind, phase, handler,
                 args, options, rule, is_optional, tolerate, parents, children)
               VALUES ($1, $2, $3, $4, 0, $5, $6, '{}', 'all_succeeded', false, 0, 0, 0)""",
            *(definition, number, name, kind, handler, values),
        )
        await connection.execute(
            """INSERT INTO pgcron.step (workflow, number, definition, run, state, waits, started_at,
                 ended_at, args, result, reason)
               VALUES ($1::bigint, $2::int, $3, $1::bigint * 10 + $2::int, $4::text, 0, now(),
                 CASE WHEN $4::text = 'succeeded' THEN now() END, $5, $5, $6)""",
            *(run, number, definition, state, values, text),
        )
    await connection.execute(
        "INSERT INTO pgcron.workflow_edge VALUES ($1, 1, 2), ($1, 1, 3)", definition
    )
    await connection.execute(
        "INSERT INTO pgcron.step_signal VALUES ($1, $2, $3, $2)", run, text, values
    )


async def _breaker(connection: asyncpg.Connection[asyncpg.Record], text: str, run: int) -> None:
    await connection.execute(
        """INSERT INTO pgcron.breaker (name, fallback_handler, set_by, state, opened_at, open_until,
             reason, last_error, reset_by)
           VALUES ($1, $1, $1, 'open', now(), now() + interval '1 hour', $1, $1, $1)""",
        text,
    )
    await connection.execute("INSERT INTO pgcron.breaker_handler VALUES ($1, $1)", text)
    await connection.execute(
        """INSERT INTO pgcron.run (id, origin, handler, queue, state, gate, due_at, tags)
           VALUES ($1, 'manual', $2, $2, 'blocked', 'breaker', now(), ARRAY[$2])""",
        *(run, text),
    )


async def _rights(connection: asyncpg.Connection[asyncpg.Record], text: str) -> None:
    """Who may what, what belongs to whom, and what was done and why."""
    values = json.dumps({text: text})
    await connection.execute(
        """INSERT INTO pgcron.role_grant (subject_kind, subject, role, scope_kind, scope,
             granted_by) VALUES ('group', $1, 'viewer', 'team', $1, $1)""",
        text,
    )
    await connection.execute(
        "INSERT INTO pgcron.owned (kind, name, team, set_by) VALUES ('queue', $1, $1, $1)", text
    )
    await connection.execute(
        """INSERT INTO pgcron.asset (name, updates, updated_at, updated_by, metadata)
           VALUES ($1, 1, now(), $1, $2)""",
        *(text, values),
    )
    await connection.execute(
        """INSERT INTO pgcron.audit (actor, interface, address, verb, kind, name, note, before,
             after) VALUES ($1, $1, $1, $1, $1, $1, $1, $2, $2)""",
        *(text, values),
    )


async def _producers(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Roles of the server; of each producer twenty rules are shown."""
    for number in (0, 1):
        role = f"pg_{('monitor', 'read_all_stats')[number]}"
        await connection.execute("SELECT pgcron.confine_producer($1)", role)
        for text in tuple(CORPUS.values())[number::2]:
            await connection.execute(
                "UPDATE pgcron.producer SET rules = rules || ARRAY[$2 || ' into ' || $2]"
                " WHERE role = $1::text::regrole",
                *(role, text),
            )


async def _log(connection: asyncpg.Connection[asyncpg.Record], run: int, text: str) -> None:
    await connection.execute(
        """INSERT INTO pgcron.log (run_id, attempt, sequence, stream, line)
           SELECT $1, 1, n, (ARRAY['stdout', 'stderr', 'log'])[n], $2
           FROM generate_series(1, 3) n""",
        run,
        text,
    )


async def _pauses(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    text = CORPUS["double"] + CORPUS["mirrored"]
    await connection.execute(
        "UPDATE pgcron.cluster SET paused_at = now(), paused_by = $1, paused_note = $1", text
    )
    await connection.execute("SELECT pgcron.pause_queue('etl', $1, $1)", text)
    await connection.execute(
        """UPDATE pgcron.cursor SET status = 'invalid',
             error = jsonb_build_object('message', $1::text, 'hint', $1::text)
           WHERE schedule_id = (SELECT id FROM pgcron.schedule WHERE name = $2)""",
        text,
        CORPUS["closing"],
    )
    await connection.execute(
        "INSERT INTO pgcron.idempotency VALUES ($1, 900000, now() + interval '1 day')", text
    )
