"""Fills a migrated database with a believable cluster: every health, state, outcome and oddity.

``python -m tests.web.seed DSN`` for looking at pages; tests call `seed`. All instants are relative
to the server's clock, and the same seed gives the same rows.
"""

from __future__ import annotations

import asyncio
import random
import sys
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg

from tests.db.control import Node
from tests.db.workflows import Stage
from tests.sessions import own_session

# What a page must show without being harmed by it.
HOSTILE_NAME = "x\"'><script>alert(1)</script> /../é"
RIGHT_TO_LEFT_NAME = "דוח/لیلة \u202egnp.exe"
EMOJI_NAME = "🚀 launch / 50% off #1?"
LONG_NAME = "long-" + "n" * 195
SCRIPT = "<img src=x onerror=alert(1)><script>alert('xss')</script>{{7*7}}"
ANSI = (
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07"
    " \x1b[2Jcleared \u202eoverride"
)

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Example:
    """One schedule: `seconds` is what a run usually takes, `fails` the newest failures in a row."""

    name: str
    spec: str
    handler: str
    every: timedelta
    seconds: float
    fails: int = 0
    flaky: float = 0.0
    timezone: str = "UTC"
    queue: str = "default"
    enabled: bool = True
    runs: int = 40
    error: str = ""
    slow: bool = False
    skipped: int = 0


EXAMPLES = (
    Example("billing/invoices", "0 * * * *", "py:billing.invoices", HOUR, 42),
    Example(
        "billing/reminders",
        "*/30 * * * *",
        "py:billing.reminders",
        30 * MINUTE,
        8,
        fails=4,
        error="SMTPServerDisconnected: Connection unexpectedly closed\n  at line 2",
    ),
    Example(
        "etl/orders", "*/15 * * * *", "py:etl.orders", 15 * MINUTE, 310, queue="etl", skipped=3
    ),
    Example(
        "etl/customers",
        "20 * * * *",
        "py:etl.customers",
        HOUR,
        95,
        fails=2,
        queue="etl",
        error="OperationalError: could not connect to server: Connection refused",
    ),
    Example(
        "etl/products",
        "40 * * * *",
        "py:etl.products",
        HOUR,
        70,
        fails=3,
        queue="etl",
        error="OperationalError: could not connect to server: Connection refused",
    ),
    Example(
        "nightly-backup",
        "30 2 * * *",
        "shell:backup",
        DAY,
        1840,
        timezone="Europe/Berlin",
        queue="ops",
        runs=12,
    ),
    Example(
        "weekly-report",
        "0 9 * * mon",
        "py:report",
        7 * DAY,
        65,
        runs=3,
        timezone="America/New_York",
    ),
    Example("cache-warmer", "*/5 * * * *", "py:cache.warm", 5 * MINUTE, 2.2, flaky=0.25),
    Example("healthcheck", "every 1m", "shell:fetch-ready", MINUTE, 0.08, runs=60),
    Example("search-reindex", "10 */2 * * *", "py:search.reindex", 2 * HOUR, 130, slow=True),
    Example("legacy-import", "0 4 * * *", "py:legacy", DAY, 12, enabled=False, runs=5),
    Example("brand-new", "15 3 * * *", "py:brand.new", DAY, 1, runs=0),
    Example(HOSTILE_NAME, "*/20 * * * *", "py:hostile", 20 * MINUTE, 3, fails=1, error=SCRIPT),
    Example(RIGHT_TO_LEFT_NAME, "5 * * * *", "py:rtl", HOUR, 4),
    Example(EMOJI_NAME, "25 * * * *", "py:launch", HOUR, 4),
    Example(LONG_NAME, "35 * * * *", "py:long", HOUR, 4),
)

NODES = (("berlin-1", "alive", 16, 3), ("berlin-2", "alive", 16, 2), ("paris-1", "draining", 8, 1))


async def seed(dsn: str) -> None:
    """Fills an empty, migrated database."""
    connection = await own_session(dsn)
    try:
        async with connection.transaction():
            await _Seeder(connection, await connection.fetchval("SELECT now()")).fill()
        await _workflow(connection)
    finally:
        await connection.close()


async def _workflow(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """A workflow that has run, and runs, of which an approval is waited for."""
    # On a busy machine this takes longer than the node's lease.
    lease = (
        "UPDATE pgcron.node SET lease_until = now() + $1::interval WHERE name = 'berlin-1'"
        " RETURNING incarnation"
    )
    node = await connection.fetchval(lease, timedelta(minutes=5))
    stage = Stage(connection, Node(node, ["workflow:nightly", "py:etl.orders"], ["default"]))
    steps = [
        {"name": "extract", "handler": "py:etl.orders"},
        {"name": "each", "handler": "py:etl.orders", "for_each": "$.args.days", "after": "extract"},
        {"name": "quality", "wait_for": "approval", "after": "each"},
        {"name": "load", "handler": "py:etl.orders", "after": "quality"},
    ]
    await stage.put("nightly", *steps, description="Loads what the shops sold")
    for is_approved in (True, False):
        run = await stage.start("nightly", {"days": [1, 2]})
        await stage.work()
        if is_approved:
            approve = "SELECT pgcron.approve_step($1, 'quality', actor => 'ana')"
            await connection.execute(approve, run)
            await stage.advance()
            await stage.work()
    await connection.execute(lease, timedelta(seconds=12))


class _Seeder:
    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], now: datetime) -> None:
        self.connection = connection
        self.now = now
        self.random = random.Random(7)
        self.nodes: dict[str, UUID] = {}
        self.next_run = 10_000

    async def fill(self) -> None:
        for name, state, slots, used in NODES:
            self.nodes[name] = await self._node(name, state, slots, used)
        await self._dead_node()
        for example in EXAMPLES:
            await self._schedule(example)
        await self._live_runs()
        await self._pauses()
        await self._enqueued()
        await self.connection.execute(
            "SELECT setval(pg_get_serial_sequence('pgcron.run', 'id'), $1)", self.next_run
        )

    async def _node(self, name: str, state: str, slots: int, used: int) -> UUID:
        handlers = [e.handler for e in EXAMPLES] + ["py:mail.send", "py:image.resize"]
        # A lease that a page shown for a day would still find alive.
        found: UUID = await self.connection.fetchval(
            """INSERT INTO pgcron.node (incarnation, name, host, process_id, version, state,
               lease_until,
                 lease_ttl, slots, slots_used, queues, started_at)
               VALUES (gen_random_uuid(), $1::text, $1::text || '.example.net', 4242, '0.1.0', $2,
                 now() + interval '12 s',
                 interval '15 s', $3, $4, '{default,etl,ops,mail}', now() - interval '9 hours')
               RETURNING incarnation""",
            name,
            state,
            slots,
            used,
        )
        await self.connection.execute(
            "INSERT INTO pgcron.offer SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING",
            found,
            handlers,
        )
        return found

    async def _dead_node(self) -> None:
        await self.connection.execute(
            """INSERT INTO pgcron.node (incarnation, name, host, process_id, version, state,
               lease_until,
                 lease_ttl, slots, queues, started_at, ended_at, ended_because)
               VALUES (gen_random_uuid(), 'paris-2', 'paris-2.example.net', 99, '0.1.0', 'dead',
                 now() - interval '20 min', interval '15 s', 8, '{default}', now() - interval
                   '2 days',
                 now() - interval '19 min', 'its lease ran out')"""
        )

    async def _schedule(self, example: Example) -> None:
        schedule = await self.connection.fetchval(
            """INSERT INTO pgcron.schedule (name, spec, handler, timezone, queue, args)
               VALUES ($1, $2, $3, $4, $5, '{"region": "eu", "<b>": "</script>"}') RETURNING id""",
            example.name,
            example.spec,
            example.handler,
            example.timezone,
            example.queue,
        )
        await self.connection.execute(
            """UPDATE pgcron.cursor SET status = 'valid', since = now() - interval '20 days',
                 watermark = now() + interval '1 minute', next_fire = now() + $2::interval
               WHERE schedule_id = $1""",
            schedule,
            example.every * self.random.uniform(0.1, 0.9),
        )
        start = self.now - self._last_age(example)
        for age in range(example.runs):
            await self._ended(example, schedule, start - example.every * age, age)
        if not example.enabled:
            await self.connection.execute(
                "SELECT pgcron.pause_schedule($1, 'the old system is switched off', 'ana', 'cli')",
                example.name,
            )

    def _last_age(self, example: Example) -> timedelta:
        return min(example.every * self.random.uniform(0.2, 0.8), 20 * HOUR)

    async def _ended(self, example: Example, schedule: int, fire: datetime, age: int) -> None:
        outcome = "succeeded"
        if age < example.fails or self.random.random() < example.flaky:
            outcome = "dead"
        elif example.fails <= age < example.fails + example.skipped:
            outcome = "skipped"
        seconds = example.seconds * self.random.uniform(0.8, 1.25)
        if example.slow and age == 0:
            seconds *= 6
        error = (example.error or "ValueError: it did not work") if outcome == "dead" else None
        self.next_run += 1
        started = fire + timedelta(seconds=self.random.uniform(0.004, 0.4))
        finished = min(started + timedelta(seconds=seconds), self.now)
        was_run = outcome != "skipped"
        await self.connection.execute(
            """INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for,
               queue, priority,
                 handler, args, delivery, outcome, attempt, due_at, created_at, created_by,
                   claimed_at, started_at,
                 finished_at, node, error)
               VALUES ($1, gen_random_uuid(), 'schedule', $2, $3, $4::timestamptz, $5, 5, $6,
                 '{"region": "eu"}',
                 'at_least_once', $7, $8, $4, $4::timestamptz - interval '1 min', 'materializer',
                   $9::timestamptz, $9, $10, $11, $12)""",
            self.next_run,
            schedule,
            example.name,
            fire,
            example.queue,
            example.handler,
            outcome,
            5 if outcome == "dead" else int(was_run),
            started if was_run else None,
            finished if was_run else started,
            self.random.choice(list(self.nodes)) if was_run else None,
            error or (None if was_run else "the last run is not over"),
        )
        await self.connection.execute(
            """INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id,
               decided_at)
               VALUES ($1, $2::timestamptz, $3, $4, $5, $2::timestamptz - interval '1 minute') ON
                 CONFLICT DO NOTHING""",
            schedule,
            fire,
            "run" if was_run else "skipped",
            None if was_run else "overlap_skipped",
            self.next_run,
        )
        if outcome == "dead":
            await self._dead_letter(example, schedule, fire, finished, error or "")
            await self._attempts(self.next_run, started, error or "")

    async def _dead_letter(
        self, example: Example, schedule: int | None, fire: datetime, died: datetime, error: str
    ) -> None:
        await self.connection.execute(
            """INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, died_at, schedule_id,
               schedule, scheduled_for,
                 queue, priority, handler, args, delivery, timeout,
                   attempts, error_class, error)
               VALUES ($1, gen_random_uuid(), 'dead', $2, $3, $4, $5, $6, 5, $7,
                 '{"region": "eu"}', 'at_least_once',
                 '1 hour', 5, $8, $9)""",
            self.next_run,
            died,
            schedule,
            example.name if schedule else None,
            fire if schedule else None,
            example.queue,
            example.handler,
            error.partition(":")[0][:60],
            error,
        )

    async def _attempts(self, run: int, started: datetime, error: str) -> None:
        trace = f'Traceback (most recent call last):\n  File "jobs.py", line 42, in work\n{error}'
        await self.connection.executemany(
            """INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence,
               claimed_at, started_at,
                 ended_at, error_class, error, traceback)
               VALUES ($1, $2::int, $3, gen_random_uuid(), 'berlin-1', $2::int, $4::timestamptz,
                 $4, $4::timestamptz + interval '2 s', $5, $6, $7)""",
            [
                (
                    run,
                    attempt,
                    "timed_out" if attempt == 2 else "failed",
                    started + timedelta(seconds=4 * attempt),
                    error.partition(":")[0][:60],
                    error,
                    trace,
                )
                for attempt in range(1, 6)
            ],
        )

    async def _live_runs(self) -> None:
        for name, minutes, node, attempt in (
            ("etl/orders", 4, "berlin-1", 1),
            ("nightly-backup", 25, "berlin-2", 2),
        ):
            await self._running(name, minutes, node, attempt)
        await self.connection.execute(
            """INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler,
               queue, due_at)
               SELECT 'schedule', id, name, now() - interval '14 min', handler, queue, now() -
                 interval '14 min'
               FROM pgcron.schedule WHERE name = 'billing/invoices'"""
        )
        await self.connection.execute(
            """INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler,
               queue, due_at, attempt, last_error)
               SELECT 'schedule', id, name, now() - interval '3 min', handler, queue, now() +
                 interval '40 s', 2,
                 'TimeoutError: no answer in 30 s' FROM pgcron.schedule WHERE name =
                   'cache-warmer'"""
        )
        await self.connection.execute(
            """INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason, note)
               SELECT id, now() - interval '3 days', now() - interval '2 days 20 hours', 16,
                 'catchup_window', NULL
               FROM pgcron.schedule WHERE name = 'etl/orders'"""
        )
        await self.connection.execute(
            """SELECT pgcron.backfill('etl/orders', '2026-01-05', '2026-01-06', if_ran => 'failed',
                 note => 'the disk was full', actor => 'ada', planned => 96);
               SELECT pgcron.pause_backfill(1, 'ada');
               UPDATE pgcron.backfill SET already = 40, created = 12, succeeded = 9, failed = 2,
                 reached = '2026-01-05 13:00';
               INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at, outcome)
               SELECT 1, max(id), '2026-01-05 12:45', 'dead' FROM pgcron.history"""
        )
        await self.connection.execute(
            """SELECT pgcron.put_calendar('closed', '2099-12-24..2100-01-01 # the shops', 'ada')"""
        )
        await self.connection.execute(
            """INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('misread', '0 0 1 1 *',
               'py:misread');
               UPDATE pgcron.cursor SET status = 'invalid', error =
                 '{"message": "this tzdata does not know the zone", "hint": "update tzdata"}'
               WHERE schedule_id = (SELECT id FROM pgcron.schedule WHERE name = 'misread')"""
        )

    async def _running(self, name: str, minutes: int, node: str, attempt: int) -> None:
        run = await self.connection.fetchval(
            """INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler,
               queue, due_at, state, attempt,
                 overlap, overlap_slot, owner, token, fence, claimed_at, started_at, timeout)
               SELECT 'schedule', id, name, now() - $2::interval, handler, queue, now() -
                 $2::interval, 'running', $3,
                 'skip', 1, $4, gen_random_uuid(), nextval('pgcron.fence'), now() - $2::interval,
                   now() - $2::interval, '20 minutes'
               FROM pgcron.schedule WHERE name = $1 RETURNING id""",
            name,
            minutes * MINUTE,
            attempt,
            self.nodes[node],
        )
        lines = ["starting", ANSI, SCRIPT, "50 % done", "ünïcode ✓", "  indented"]
        await self.connection.executemany(
            "INSERT INTO pgcron.log (run_id, attempt, sequence, stream, line)"
            " VALUES ($1, $2, $3, $4, $5)",
            [
                (run, attempt, at, ("stdout", "stderr", "log")[at % 3], line)
                for at, line in enumerate(lines * 5)
            ],
        )

    async def _pauses(self) -> None:
        await self.connection.execute(
            "SELECT pgcron.pause_queue('mail', 'provider maintenance until 18:00', 'ana')"
        )

    async def _enqueued(self) -> None:
        await self.connection.execute(
            """INSERT INTO pgcron.run (handler, queue, args, due_at)
               SELECT 'py:mail.send', 'mail', jsonb_build_object('to', n), now() - n * interval
                 '1 s'
               FROM generate_series(1, 120) n;
               INSERT INTO pgcron.run (handler, due_at, state, gate)
               VALUES ('py:nobody.offers', now() - interval '50 min', 'blocked', 'no_node');
               INSERT INTO pgcron.run (handler, due_at) SELECT 'py:image.resize', now() + n *
                 interval '1 min'
               FROM generate_series(1, 30) n"""
        )
        resize = Example("", "", "py:image.resize", HOUR, 1)
        for age in range(4):
            self.next_run += 1
            died = self.now - age * 25 * MINUTE
            await self._dead_letter(
                resize, None, died, died, "UnidentifiedImageError: cannot identify image file"
            )
            await self._attempts(
                self.next_run, died - MINUTE, "UnidentifiedImageError: cannot identify image file"
            )


if __name__ == "__main__":
    asyncio.run(seed(sys.argv[1]))
