"""A cluster that has worked for a month: what the pages are measured on.

Thousands of schedules of which few have most of the runs, runs that nobody scheduled, every
outcome, attempts, log lines, dead letters that were redriven and some that were not, runs that
wait, run, and are blocked. The same sizes give about the same rows.
"""

from __future__ import annotations

from typing import Final

import asyncpg

_TABLES: Final = "schedule, cursor, run, history, occurrence, missed, attempt, dead_letter, log"

# What a month of janitors leaves: a partition for each day, and for each month of the ledger.
_PARTITIONS: Final = """
DROP TABLE pgcron.history_before, pgcron.attempt_before, pgcron.log_before,
           pgcron.occurrence_before;
SELECT pgcron.add_partition(relation, '-infinity', date_trunc(period, now() - age, 'UTC'))
FROM (VALUES ('history', 'day', interval '31 days'), ('attempt', 'day', '31 days'),
             ('log', 'day', '8 days'), ('occurrence', 'month', '31 days'))
     kept(relation, period, age);
SELECT pgcron.add_partition(relation, low, low + step)
FROM (VALUES ('history', 'day', interval '31 days', interval '1 day'),
             ('attempt', 'day', '31 days', '1 day'), ('log', 'day', '8 days', '1 day'),
             ('occurrence', 'month', '31 days', '1 month')) kept(relation, period, age, step),
     LATERAL generate_series(date_trunc(period, now() - age, 'UTC'),
                             date_trunc(period, now(), 'UTC') - interval '1 second', step) low
"""

_NODES: Final = """
INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_until, lease_ttl,
                         slots, slots_used, queues)
SELECT gen_random_uuid(), 'node-' || n, 'host-' || n || '.example.net', 4000 + n, '0.1.0',
       now() + interval '6 hours', '15 s', 32, 8, '{{q0,q1,q2,q3,q4,q5,q6,q7,default}}'
FROM generate_series(0, 5) n;
INSERT INTO pgcron.offer SELECT incarnation, 'py:job_' || h
FROM pgcron.node, generate_series(0, 399) h;
INSERT INTO pgcron.offer SELECT incarnation, 'py:task_' || h
FROM pgcron.node, generate_series(0, 6) h
"""

# By number: 1 is the busiest. One in twenty is paused, one in five hundred can't be read.
_SCHEDULES: Final = """
SET session_replication_role = replica;
INSERT INTO pgcron.schedule (name, owner, spec, handler, queue, timezone, enabled, paused_by, args)
SELECT format('team-%s/job-%s', n % 40, n), 'team-' || n % 40,
       CASE n % 3 WHEN 0 THEN format('*/%s * * * *', 1 + n % 30) WHEN 1 THEN 'every 90m'
                  ELSE format('%s %s * * *', n % 60, n % 24) END,
       'py:job_' || n % 400, 'q' || n % 8, CASE n % 4 WHEN 0 THEN 'Europe/Berlin' ELSE 'UTC' END,
       n % 20 <> 7, CASE n % 20 WHEN 7 THEN 'ana' END, jsonb_build_object('region', n % 5)
FROM generate_series(1, {schedules}) n ORDER BY n;
INSERT INTO pgcron.cursor (schedule_id, since, watermark, next_fire, status, error, is_paused)
SELECT s.id, now() - interval '40 days', now() + interval '1 minute',
       -- Not before the measurement is over: nobody executes them.
       now() + interval '1 hour' + s.id % 3600 * interval '1 s',
       CASE WHEN s.id % 500 = 3 THEN 'invalid' ELSE 'valid' END,
       CASE WHEN s.id % 500 = 3
            THEN '{{"message": "this tzdata does not know the zone"}}'::jsonb END,
       NOT s.enabled
FROM pgcron.schedule s;
RESET session_replication_role
"""

_ENDED: Final = """
INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for, parent_run,
  queue, priority, handler, args, delivery, outcome, attempt, due_at, created_at, created_by,
  claimed_at, started_at, finished_at, owner, node, fence, error)
SELECT n, gen_random_uuid(), CASE WHEN job IS NOT NULL THEN 'schedule' WHEN n % 100 = 9 THEN 'rerun'
         ELSE 'enqueued' END,
       job, format('team-%s/job-%s', job % 40, job), CASE WHEN job IS NOT NULL THEN due_at END,
       CASE WHEN job IS NULL AND n % 100 = 9 THEN greatest(n - 500, 1) END,
       coalesce('q' || job % 8, 'default'), 5,
       coalesce('py:job_' || job % 400, 'py:task_' || n % 7),
       jsonb_build_object('order', n, 'region', 'eu-' || n % 5), 'at_least_once', outcome,
       CASE outcome WHEN 'dead' THEN 5 ELSE was_run::int END, due_at, due_at - interval '1 minute',
       CASE WHEN job IS NULL THEN 'shop' ELSE 'materializer' END,
       CASE WHEN was_run THEN started_at END, CASE WHEN was_run THEN started_at END, finished_at,
       CASE WHEN was_run THEN '00000000-0000-0000-0000-000000000000'::uuid END,
       CASE WHEN was_run THEN 'node-' || n % 6 END, CASE WHEN was_run THEN n END,
       CASE WHEN outcome IN ('dead', 'lost') THEN format('Error%s: could not reach 10.0.0.%s: %s',
              n % 12, n % 250, repeat('connection refused, ', 12))
            WHEN outcome = 'skipped' THEN 'the last run is not over' END
FROM (SELECT n, finished_at, job, finished_at - took * interval '20 s' AS started_at,
             finished_at - took * interval '20 s' - luck * interval '200 ms' AS due_at,
             CASE WHEN luck < 0.96 THEN 'succeeded' WHEN luck < 0.975 THEN 'dead'
                  WHEN luck < 0.976 THEN 'lost' WHEN luck > 0.995 OR job IS NULL THEN 'cancelled'
                  WHEN luck < 0.985 THEN 'skipped' WHEN luck < 0.99 THEN 'superseded'
                  ELSE 'expired' END AS outcome, luck < 0.976 AS was_run
      FROM (SELECT n, random() AS luck, random() AS took,
                   now() - ({rows} - n) * (interval '30 days' / {rows}) AS finished_at,
                   CASE WHEN n % 10 < 7
                        THEN 1 + floor({schedules} * power(random(), 4))::bigint END AS job
            FROM generate_series(1, {rows}) n) drawn) ended
"""

_WHAT_ENDED_LEFT: Final = """
INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id, decided_at)
SELECT schedule_id, scheduled_for,
       CASE WHEN outcome IN ('skipped', 'superseded', 'expired') THEN outcome ELSE 'run' END,
       CASE WHEN outcome IN ('skipped', 'superseded', 'expired') THEN 'overlap_skipped' END, id,
       scheduled_for - interval '1 minute'
FROM pgcron.history WHERE scheduled_for IS NOT NULL;
INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason)
SELECT s.id, now() - d * interval '1 day', now() - d * interval '1 day' + interval '1 hour', 12,
       'catchup_window' FROM pgcron.schedule s, generate_series(1, 20, 4) d;
INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence, claimed_at, started_at,
                            ended_at, error_class, error, traceback)
SELECT h.id, a, 'failed', h.owner, h.node, h.fence, h.started_at, h.started_at, h.finished_at,
       split_part(h.error, ':', 1), h.error,
       repeat('File "jobs.py", line 42, in work' || chr(10), 20)
FROM pgcron.history h, generate_series(1, 5) a WHERE h.outcome = 'dead';
INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, died_at, schedule_id, schedule,
  scheduled_for, queue, priority, handler, args, delivery, timeout,
  attempts, error_class, error, redriven_as, closed_at, closed_by)
SELECT h.id, h.uuid, h.outcome, h.finished_at, h.schedule_id, h.schedule, h.scheduled_for, h.queue,
       5, h.handler, h.args, h.delivery, '1 h', h.attempt,
       split_part(h.error, ':', 1), h.error, CASE WHEN is_old THEN h.id + 1 END,
       CASE WHEN is_old THEN h.finished_at END, CASE WHEN is_old THEN 'ana' END
FROM (SELECT *, finished_at < now() - interval '10 days' AS is_old FROM pgcron.history) h
WHERE h.outcome IN ('dead', 'lost');
INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line)
SELECT h.id, h.attempt, l, h.finished_at, 'stdout',
       format('step %s of 10 done for order %s', l, h.id)
FROM pgcron.history h, generate_series(1, 10) l
WHERE h.finished_at > now() - interval '7 days' AND h.id % 20 = 0 AND h.started_at IS NOT NULL
"""

# A day of waiting work, the next fire of every schedule, and some runs of each live state.
_LIVE: Final = """
SELECT setval(pg_get_serial_sequence('pgcron.run', 'id'), {rows});
INSERT INTO pgcron.run (handler, queue, priority, args, due_at)
SELECT 'py:task_' || n % 7, CASE WHEN n % 3 = 0 THEN 'default' ELSE 'q' || n % 8 END, n % 10,
       jsonb_build_object('order', n), now() + n * (interval '1 day' / {waiting}) + interval '1 h'
FROM generate_series(1, {waiting}) n;
INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, queue, due_at,
  overlap)
SELECT 'schedule', s.id, s.name, c.next_fire, s.handler, s.queue, c.next_fire, 'skip'
FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id
WHERE s.enabled AND c.status = 'valid';
INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, queue, due_at, state,
  attempt, overlap, overlap_slot, owner, token, fence, claimed_at, started_at)
SELECT 'schedule', s.id, s.name, now() - s.id * interval '3 s', s.handler, s.queue,
       now() - s.id * interval '3 s', 'running', 1, 'skip', 1,
       (SELECT incarnation FROM pgcron.node ORDER BY name OFFSET s.id % 6 LIMIT 1),
       gen_random_uuid(), nextval('pgcron.fence'), now() - s.id * interval '3 s',
       now() - s.id * interval '3 s'
FROM pgcron.schedule s WHERE s.enabled AND s.id <= 48;
INSERT INTO pgcron.run (origin, schedule_id, schedule, scheduled_for, handler, queue, due_at,
  attempt, last_error)
SELECT 'schedule', s.id, s.name, now() - interval '2 min' - s.id * interval '1 s', s.handler,
       s.queue, now() + s.id * interval '1 s', 2, 'TimeoutError: no answer in 30 s'
FROM pgcron.schedule s WHERE s.enabled AND s.id BETWEEN 50 AND 90;
INSERT INTO pgcron.run (handler, queue, due_at)
SELECT 'py:task_' || n % 7, 'q' || n % 8, now() - n * interval '20 ms'
FROM generate_series(1, 400) n;
INSERT INTO pgcron.run (handler, due_at, state, gate)
SELECT 'py:nobody.offers', now() - n * interval '1 s', 'blocked', 'no_node'
FROM generate_series(1, 50) n;
INSERT INTO pgcron.log (run_id, attempt, sequence, stream, line)
SELECT r.id, 1, l, 'stdout', format('line %s of a run that lasts', l)
FROM (SELECT id FROM pgcron.run WHERE state = 'running' ORDER BY id LIMIT 1) r,
     generate_series(1, 5000) l
"""


async def fill(connection: asyncpg.Connection, rows: int, schedules: int, waiting: int) -> None:
    """Fills a migrated, empty database, vacuums and analyzes it."""
    await connection.execute("SELECT setseed(0.5)")
    for text in (_PARTITIONS, _NODES, _SCHEDULES, _ENDED, _WHAT_ENDED_LEFT, _LIVE):
        await connection.execute(text.format(rows=rows, schedules=schedules, waiting=waiting))
    tables = ", ".join(f"pgcron.{name}" for name in _TABLES.split(", "))
    await connection.execute(f"VACUUM ANALYZE {tables}")
    await connection.execute("CHECKPOINT")
