-- What the demo shows and judges, and what its example jobs ask. All of it reads; the engine uses none of it.

-- name: has_database
SELECT EXISTS (SELECT FROM pg_catalog.pg_database d WHERE d.datname = :name::text) AS found;

-- name: demo_schedules
SELECT s.name, s.spec, s.enabled, s.status, s.next_fire, last.outcome, last.finished_at, last.node, last.seconds
FROM pgcron.schedules s
LEFT JOIN LATERAL (SELECT h.outcome, h.finished_at, h.node, extract(epoch FROM h.finished_at - h.started_at)::float8 AS seconds
                   FROM pgcron.history h WHERE h.schedule_id = s.id ORDER BY h.finished_at DESC LIMIT 1) last ON true
ORDER BY s.name LIMIT :limit::int;

-- name: demo_outcomes
SELECT h.schedule, h.outcome, count(*) AS runs, sum(greatest(h.attempt, 1) - 1)::int AS retries
FROM pgcron.history h WHERE h.finished_at > greatest(:since::timestamptz, now() - :longest::interval)
GROUP BY h.schedule, h.outcome;

-- name: demo_asked_for
SELECT r.id, r.handler, r.state, r.node, r.error, r.result::text AS result
FROM pgcron.runs r WHERE r.origin <> 'schedule' AND r.created_at > :since::timestamptz
ORDER BY r.id DESC LIMIT :limit::int;

-- name: demo_has_executed
SELECT EXISTS (SELECT FROM pgcron.history h WHERE h.finished_at > :since::timestamptz AND h.started_at IS NOT NULL) AS found;

-- name: demo_has_unsettled
SELECT EXISTS (SELECT FROM pgcron.run r WHERE r.scheduled_for <= :until::timestamptz AND r.hold IS NULL
                                          AND (r.state = 'running' OR r.attempt = 0)) AS found;

-- name: demo_definitions
-- What each schedule owes follows from these alone, and from the instant of its last edit.
SELECT s.id, s.uuid, s.name, s.spec, s.timezone, s.dst, s.calendars, s.enabled, c.since, c.status
FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id ORDER BY s.name LIMIT :limit::int;

-- name: demo_ledger
SELECT o.fire_at, o.decision, o.run_id, r.state, r.attempt,
       ARRAY(SELECT h.outcome FROM pgcron.history h WHERE h.id = o.run_id
             UNION ALL
             SELECT v.outcome FROM pgcron.history_overflow v WHERE v.id = o.run_id) AS outcomes,
       (SELECT max(h.attempt) FROM pgcron.history h WHERE h.id = o.run_id) AS attempts
FROM pgcron.occurrence o LEFT JOIN pgcron.run r ON r.id = o.run_id
WHERE o.schedule_id = :schedule_id::bigint AND o.fire_at > :since::timestamptz AND o.fire_at <= :until::timestamptz;

-- name: demo_missed
SELECT m.first_at, m.last_at FROM pgcron.missed m
WHERE m.schedule_id = :schedule_id::bigint AND m.last_at > :since::timestamptz AND m.first_at <= :until::timestamptz;

-- name: demo_delays
SELECT percentile_disc(ARRAY[0.5, 0.99]) WITHIN GROUP (ORDER BY d.delay) AS delays
FROM (SELECT extract(epoch FROM h.started_at - h.scheduled_for)::float8 AS delay FROM pgcron.history h
      WHERE h.schedule = :schedule::text AND h.scheduled_for > :since::timestamptz AND h.attempt = 1 AND h.started_at IS NOT NULL) d;

-- name: demo_database_bytes
SELECT pg_database_size(current_database()) AS bytes;

-- name: demo_tables
SELECT c.oid::regclass::text AS name FROM pg_catalog.pg_class c
WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'r' AND NOT c.relispartition ORDER BY 1;

-- name: demo_report
SELECT coalesce(h.schedule, h.handler) AS job, h.outcome, count(*) AS runs, sum(greatest(h.attempt, 1) - 1)::int AS retries,
       round(avg(extract(epoch FROM h.finished_at - h.started_at)) * 1000)::int AS milliseconds
FROM pgcron.history h WHERE h.finished_at > now() - interval '10 minutes'
GROUP BY 1, 2 ORDER BY 1, 2;
