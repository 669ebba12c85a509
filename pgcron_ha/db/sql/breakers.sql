-- name: declare_breakers
SELECT pgcron.put_breakers(:declared::jsonb);

-- name: look_at_breakers
-- Those that are not closed, after probes that are over were settled, and new ones chosen. Nothing
-- in it waits.

-- name: block_broken
-- ready -> blocked
-- Due runs of handlers whose breaker is not closed leave the claim indexes, so that they delay no
-- others: of each priority the first `look`, and of each key and requirement an equal part of
-- `look`, whatever their handlers.
SELECT block_ready AS id FROM pgcron.block_ready(ARRAY(
  SELECT head.id FROM unnest(:queues::text[]) AS asked(queue)
  CROSS JOIN LATERAL pgcron.waiting_runs(asked.queue, '-infinity', now(), :look::int, true) head
  WHERE pgcron.is_broken(head.handler, asked.queue)
    AND NOT EXISTS (SELECT FROM pgcron.breaker b WHERE b.probe_run = head.id)), 'breaker');

-- name: use_fallbacks

-- name: forget_fallback_runs
-- forgets: pgcron.fallback_run
-- As old as history may get.
o.at < (SELECT pgcron.kept_since('history')) ORDER BY o.at;

-- name: set_breaker

-- name: reset_breaker

-- name: delete_breaker

-- name: list_breakers
-- The open ones first.
SELECT b.name, b.state, b.failures, extract(epoch FROM b.within)::float8 AS within,
       extract(epoch FROM b.open_for)::float8 AS open_for,
       extract(epoch FROM b.open_for_at_most)::float8 AS open_for_at_most, b.fallback_handler,
       b.fallback_queue, b.set_by, b.set_at, b.opened_at, b.open_until,
       b.openings, b.reason, b.last_error, b.probe_run, b.reset_by, b.reset_at,
       (SELECT count(*) FROM unnest(b.failed_at) f(at)
        WHERE f.at > now() - b.within) AS recent_failures,
       ARRAY(SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = b.name
             ORDER BY m.handler) AS handlers, waiting.runs AS waiting
FROM pgcron.breaker b
CROSS JOIN LATERAL (
  SELECT count(*) AS runs FROM (
    SELECT FROM pgcron.run r
    WHERE r.gate = 'breaker'
      AND r.handler IN (SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = b.name)
    LIMIT 10000) held) waiting
ORDER BY (b.state = 'closed'), b.opened_at DESC, b.name LIMIT :limit::int;

-- name: fallback_of_run
-- What it asked for, and why the fallback took it.
SELECT d.breaker, d.reason, d.handler AS asked_handler, d.queue AS asked_queue
FROM pgcron.fallback_run d WHERE d.run_id = :run_id::bigint;

-- name: page_breakers
-- Those that are not closed.
SELECT b.name, b.state, b.opened_at, pgcron.circuit_words(b) AS words, b.fallback_handler,
       b.fallback_queue
FROM pgcron.breaker b
WHERE b.state <> 'closed'
  AND NOT EXISTS (SELECT FROM pgcron.breaker_handler m
                  WHERE m.breaker = b.name
                    AND NOT pgcron.in_scope(NULL, NULL, m.handler, NULL, NULL))
ORDER BY b.opened_at, b.name LIMIT :limit::int;

-- name: page_broken
-- Runs that wait for a breaker, by queue and handler.
SELECT held.queue, held.handler, b.name, pgcron.circuit_words(b) AS words, count(*) AS runs,
       min(held.due_at) AS oldest_due
FROM (SELECT r.schedule_id, r.queue, r.handler, r.schedule, r.tags, r.due_at FROM pgcron.run r
      WHERE r.gate = 'breaker' LIMIT :look::int) held
JOIN pgcron.breaker_handler m ON m.handler = held.handler
JOIN pgcron.breaker b ON b.name = m.breaker
LEFT JOIN pgcron.schedule s ON s.id = held.schedule_id
WHERE b.state <> 'closed'
  AND pgcron.in_scope(held.schedule_id, held.queue, held.handler, held.schedule, held.tags, s.owner)
GROUP BY held.queue, held.handler, b.name
ORDER BY min(held.due_at) LIMIT :limit::int;
