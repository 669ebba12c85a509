-- name: runs_of_ids
-- Runs from any table: alive, ended, ended while there was no partition, or a dead letter whose
-- history retention removed. :since and :until are bounds of the ends, which choose partitions; in
-- a generic plan they would choose none through every_run, so ended runs are not read from it. At
-- most :most characters of args and result, laid out if they have no more bytes; with 0 they are
-- not read. What runs wait for is asked once for those that ask for the same: it takes longer than
-- all else.
WITH waits AS MATERIALIZED (
  SELECT alike.ids, w.waits_for, w.waits_detail, w.waits_on
  FROM (SELECT array_agg(r.id) AS ids FROM pgcron.run r
        WHERE r.id = ANY(:run_ids::bigint[]) AND r.state <> 'running'
        GROUP BY r.state, r.gate, r.due_at > now(), r.queue, r.handler, r.requires, r.weight,
            CASE WHEN r.concurrency_key IS NOT NULL OR r.gate IN ('overlap', 'previous', 'workflow')
                   OR r.id IN (SELECT b.probe_run FROM pgcron.breaker b) THEN r.id END) alike
  JOIN pgcron.waiting w ON w.id = alike.ids[1])
SELECT f.place, f.id, pgcron.run_uuid(f.uuid, f.id, f.created_at) AS uuid, f.origin,
       f.schedule_id, f.schedule, s.name AS schedule_now, f.scheduled_for, f.nominal_for,
       coalesce(f.scheduled_for, f.nominal_for) AS fire_time, f.parent_run, f.queue, f.priority,
       f.handler, octet_length(long.args) AS args_bytes,
       left(CASE WHEN octet_length(long.args) <= :most::int THEN jsonb_pretty(f.args)
              ELSE long.args END, :most::int) AS args,
       f.delivery, f.outcome AS state, w.waits_for, w.waits_detail, w.waits_on, f.due_at,
       f.expire_at, f.attempt,
       pgcron.attempts_allowed(f.max_attempts, f.delivery) AS max_attempts,
       date_part('epoch', pgcron.time_allowed(f.timeout)) AS timeout, f.claimed_at, f.started_at,
       f.ended_at AS finished_at, f.cancel_at, f.kill_at, f.cancel_reason, f.error,
       octet_length(long.result) AS result_bytes,
       left(CASE WHEN octet_length(long.result) <= :most::int THEN jsonb_pretty(f.result)
              ELSE long.result END, :most::int) AS result,
       extract(epoch FROM f.started_at - greatest(f.due_at, f.created_at))::float8 AS delay,
       coalesce(f.ended_at, CASE WHEN f.outcome = 'running' THEN now() END)
         - f.started_at AS duration,
       f.created_at, f.created_by, f.created_login, f.node, f.has_lease, f.concurrency_key,
       f.requires, f.tags, f.retry::text AS retry, f.snoozes, f.unique_key, f.unique_scope,
       (f.time_limits ->> 'give_up_after')::float8 AS give_up_after,
       (f.time_limits ->> 'silence_timeout')::float8 AS silence_timeout,
       (SELECT o.expected FROM pgcron.overrun o
        WHERE o.run_id = f.id AND f.outcome = 'running') AS expected,
       p.at AS progress_at, p.done, p.total, p.note
FROM unnest(:run_ids::bigint[]) asked(id)
CROSS JOIN LATERAL (SELECT e.* FROM (
      (SELECT 1 AS place, r.* FROM pgcron.every_run r WHERE r.id = asked.id AND r.ended_at IS NULL)
      UNION ALL
      (SELECT 2, h.*, h.finished_at, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
       FROM pgcron.ended_runs h
       WHERE h.id = asked.id AND h.finished_at >= coalesce(:since::timestamptz, '-infinity')
         AND h.finished_at <= coalesce(:until::timestamptz, 'infinity'))
      UNION ALL
      (SELECT 3, h.*, d.died_at, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
       FROM pgcron.dead_letter d
       CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.history, to_jsonb(d)
         || jsonb_build_object('id', d.run_id, 'attempt', d.attempts,
              'origin', CASE WHEN d.scheduled_for IS NULL THEN 'enqueued' ELSE 'schedule' END)) h
       WHERE d.run_id = asked.id)) e ORDER BY e.place LIMIT 1) f
CROSS JOIN LATERAL (SELECT CASE WHEN :most::int > 0 THEN f.args::text END AS args,
                           CASE WHEN :most::int > 0 THEN f.result::text END AS result) long
LEFT JOIN waits w ON f.id = ANY(w.ids)
LEFT JOIN pgcron.schedule s ON s.id = f.schedule_id
LEFT JOIN pgcron.progress p ON p.run_id = f.id AND p.attempt = f.attempt AND f.outcome = 'running'
ORDER BY f.id DESC;

-- name: waits_of_runs
-- What keeps runs that are due from being claimed; no row for one that executes.
SELECT w.id, w.state, w.waits_for, w.waits_detail, w.waits_on FROM pgcron.waiting w
WHERE w.id = ANY(:run_ids::bigint[]);

-- name: page_run_letter
SELECT d.redriven_as, d.closed_at, d.closed_by, d.note, d.fingerprint
FROM pgcron.dead_letter d WHERE d.run_id = :run_id::bigint;

-- name: page_run_children
-- Runs made from this one, the newest first, by the indexes on the parent; not sorted inside, or
-- the index on the number might be walked.
SELECT found.id, found.origin, found.outcome AS state,
       coalesce(found.ended_at, found.created_at) AS at, found.created_by
FROM (SELECT e.* FROM pgcron.every_run e WHERE e.parent_run = :run_id::bigint LIMIT :look::int)
  found
WHERE pgcron.run_in_scope(found.id)
ORDER BY found.id DESC LIMIT :limit::int;

-- name: list_attempts
-- Attempts that did not succeed, the newest first; texts are cut at :most characters.
SELECT a.attempt, a.outcome, a.node, a.claimed_at, a.started_at, a.ended_at, a.error_class,
       left(a.error, :most::int) AS error, left(a.traceback, :most::int) AS traceback
FROM pgcron.attempt a WHERE a.run_id = :run_id::bigint ORDER BY a.attempt DESC, a.ended_at DESC
LIMIT :limit::int;

-- name: page_last_lines
-- The last lines of a run, the last first.
SELECT l.attempt, l.sequence, l.at, l.stream, left(l.line, :most::int) AS line,
       length(l.line) > :most::int AS is_cut
FROM pgcron.log l WHERE l.run_id = :run_id::bigint
ORDER BY l.attempt DESC, l.sequence DESC LIMIT :limit::int;
