-- name: page_run
-- One run from any table: alive, ended, ended while there was no partition, or a dead letter whose
-- history retention removed.
SELECT f.*, s.name AS schedule_now,
       (SELECT extract(epoch FROM o.expected)::float8 FROM pgcron.overrun o
        WHERE o.run_id = f.id AND f.state = 'running') AS expected
FROM ((SELECT 1 AS place, r.id, pgcron.run_uuid(r.uuid, r.id, r.created_at) AS uuid, r.origin,
              r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run,
              r.queue, r.priority, r.handler,
              left(r.args::text, :most::int) AS args, octet_length(r.args::text) AS args_bytes,
              r.delivery, r.state, r.gate, r.due_at, r.expire_at, r.attempt,
              pgcron.attempts_allowed(r.max_attempts, r.delivery) AS max_attempts,
              date_part('epoch', pgcron.time_allowed(r.timeout)) AS timeout,
              r.overlap, r.overlap_slot, r.claimed_at, r.started_at,
              NULL::timestamptz AS finished_at, r.cancel_at, r.cancel_reason, r.last_error AS error,
              NULL::text AS result, NULL::int AS result_bytes, r.created_at, r.created_by,
              n.name AS node, r.fence,
              coalesce(n.state <> 'dead' AND n.lease_until > now(), false) AS has_lease,
              r.concurrency_key, r.retry::text AS retry, r.snoozes, r.requires,
              r.kill_at, (r.time_limits ->> 'give_up_after')::float8 AS give_up_after,
              (r.time_limits ->> 'silence_timeout')::float8 AS silence_timeout, r.unique_key,
              r.unique_scope
       FROM pgcron.run r LEFT JOIN pgcron.node n ON n.incarnation = r.owner
       WHERE r.id = :run_id::bigint)
      UNION ALL
      (SELECT 2, h.id, pgcron.run_uuid(h.uuid, h.id, h.created_at), h.origin, h.schedule_id,
              h.schedule, h.scheduled_for,
              h.nominal_for, h.parent_run, h.queue, h.priority, h.handler,
              left(h.args::text, :most::int), octet_length(h.args::text), h.delivery, h.outcome,
              NULL, h.due_at, NULL, h.attempt,
              pgcron.attempts_allowed(h.max_attempts, h.delivery),
              date_part('epoch', pgcron.time_allowed(h.timeout)), NULL, NULL, h.claimed_at,
              h.started_at, h.finished_at, NULL,
              h.cancel_reason, h.error, left(h.result::text, :most::int),
              octet_length(h.result::text), h.created_at, h.created_by, h.node, h.fence, false,
              h.concurrency_key, h.retry::text, h.snoozes, h.requires, NULL,
              (h.time_limits ->> 'give_up_after')::float8,
              (h.time_limits ->> 'silence_timeout')::float8, h.unique_key, h.unique_scope
       FROM pgcron.ended_runs h WHERE h.id = :run_id::bigint LIMIT 1)
      UNION ALL
      (SELECT 3, d.run_id, d.uuid,
              CASE WHEN d.scheduled_for IS NULL THEN 'enqueued' ELSE 'schedule' END, d.schedule_id,
              d.schedule, d.scheduled_for, NULL, NULL,
              d.queue, d.priority, d.handler, left(d.args::text, :most::int),
              octet_length(d.args::text), d.delivery, d.outcome, NULL, NULL, NULL, d.attempts,
              pgcron.attempts_allowed(d.max_attempts, d.delivery),
              date_part('epoch', pgcron.time_allowed(d.timeout)), NULL, NULL, NULL, NULL, d.died_at,
              NULL, NULL, d.error, NULL, NULL, NULL, NULL, NULL, NULL, false, d.concurrency_key,
              d.retry::text,
              NULL, d.requires, NULL, (d.time_limits ->> 'give_up_after')::float8,
              (d.time_limits ->> 'silence_timeout')::float8, d.unique_key, d.unique_scope
       FROM pgcron.dead_letter d WHERE d.run_id = :run_id::bigint)) f
LEFT JOIN pgcron.schedule s ON s.id = f.schedule_id
ORDER BY f.place LIMIT 1;

-- name: page_run_waits_for
-- What may keep a waiting run from being claimed.
SELECT largest.slots IS NOT NULL AS is_served,
       CASE WHEN largest.slots < r.weight THEN r.weight END AS too_heavy,
       q.paused_at, q.paused_by, q.paused_note, c.paused_at AS cluster_paused_at,
       c.paused_by AS cluster_paused_by, c.paused_note AS cluster_paused_note,
       CASE WHEN c.quarantine_until > now() THEN c.quarantine_until END AS quarantine_until,
       (SELECT o.id FROM pgcron.run o
        WHERE r.overlap IS NOT NULL AND o.schedule_id = r.schedule_id AND o.overlap_slot IS NOT NULL
          AND o.id <> r.id
        LIMIT 1) AS slot_holder,
       r.concurrency_key, l.slots AS concurrency_slots,
       l.slots <= (SELECT count(*) FROM pgcron.run b
           WHERE b.concurrency_key = r.concurrency_key AND b.key_slot IS NOT NULL) AS is_key_full,
       (SELECT w.next_at
         FROM pgcron.rate_room('key', r.concurrency_key, l.rate, l.per, clock_timestamp()) w
        WHERE l.rate IS NOT NULL AND w.room = 0) AS key_next_at,
       q.max_running, CASE WHEN q.max_running IS NOT NULL THEN
         q.max_running <= (SELECT count(*) FROM pgcron.run b
             WHERE b.state = 'running' AND b.owner IS NOT NULL
               AND b.queue = r.queue) END AS is_queue_full,
       (SELECT w.next_at FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w
        WHERE q.rate IS NOT NULL AND w.room = 0) AS queue_next_at,
       pgcron.limit_trouble(r.queue, r.concurrency_key) AS limit_trouble,
       pgcron.claim_trouble(r.queue) AS claim_trouble
FROM pgcron.run r CROSS JOIN pgcron.cluster c LEFT JOIN pgcron.queue q ON q.name = r.queue
CROSS JOIN LATERAL (SELECT pgcron.largest_server(r.handler, r.queue, r.requires) AS slots) largest
LEFT JOIN LATERAL (SELECT s.* FROM pgcron.concurrency_slots(ARRAY[r.concurrency_key]) s
  WHERE r.concurrency_key IS NOT NULL) l
    ON true
WHERE r.id = :run_id::bigint;

-- name: page_run_progress
-- The last progress report of the attempt under way.
SELECT p.at, p.done, p.total, p.note
FROM pgcron.run r JOIN pgcron.progress p ON p.run_id = r.id AND p.attempt = r.attempt
WHERE r.id = :run_id::bigint AND r.state = 'running';

-- name: page_run_letter
SELECT d.died_at, d.redriven_as, d.closed_at, d.closed_by, d.note,
       date_part('epoch', pgcron.time_allowed(d.timeout)) AS timeout, d.fingerprint
FROM pgcron.dead_letter d WHERE d.run_id = :run_id::bigint;

-- name: page_run_children
-- Runs made from this one, the newest first, by the indexes on the parent; not sorted inside, or
-- the index on the number might be walked.
SELECT found.id, found.origin, found.state, found.at, found.created_by
FROM ((SELECT r.id, r.origin, r.state, r.created_at AS at, r.created_by FROM pgcron.run r
       WHERE r.parent_run = :run_id::bigint LIMIT :look::int)
      UNION ALL
      (SELECT h.id, h.origin, h.outcome, h.finished_at, h.created_by FROM pgcron.history h
       WHERE h.parent_run = :run_id::bigint LIMIT :look::int)) found
ORDER BY found.id DESC LIMIT :limit::int;

-- name: page_run_attempts
-- Attempts that did not succeed, the newest first; texts are cut at :most characters.
SELECT a.attempt, a.outcome, a.node, a.fence, a.claimed_at, a.started_at, a.ended_at, a.error_class,
       left(a.error, :most::int) AS error,
       left(a.traceback, :most::int) AS traceback
FROM pgcron.attempt a WHERE a.run_id = :run_id::bigint ORDER BY a.attempt DESC, a.ended_at DESC
LIMIT :limit::int;

-- name: page_lines_before
-- The lines of a run before one of them (attempt, sequence), the last first.
SELECT l.attempt, l.sequence, l.at, l.stream, left(l.line, :most::int) AS line,
       length(l.line) > :most::int AS is_cut
FROM pgcron.log l
WHERE l.run_id = :run_id::bigint AND (l.attempt, l.sequence) < (:attempt::int, :sequence::int)
ORDER BY l.attempt DESC, l.sequence DESC LIMIT :limit::int;

-- name: page_lines_after
-- The lines of a run after one of them (attempt, sequence), in order.
SELECT l.attempt, l.sequence, l.at, l.stream, left(l.line, :most::int) AS line,
       length(l.line) > :most::int AS is_cut
FROM pgcron.log l
WHERE l.run_id = :run_id::bigint AND (l.attempt, l.sequence) > (:attempt::int, :sequence::int)
ORDER BY l.attempt, l.sequence LIMIT :limit::int;
