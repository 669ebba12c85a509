-- name: claim
-- ready -> running
-- Runs without a capacity gate; their verdict is `claim`. The function explains each step. `due`
-- of a run is in seconds since 1970: a client makes an instant of it ten times as fast as of a
-- timestamp.
SELECT * FROM pgcron.claim(:incarnation, :handlers, :plain, :queues, :priorities, :onces,
                           :bound_dues, :bound_ids);

-- name: claim_gated
-- ready -> running
-- As `claim`, of runs with a capacity gate. Besides: `walked` for each queue with keys
-- (`concurrency_key` is where the search ended, NULL: it saw all of them; `due` the seconds until
-- the next of its runs; `fire_time` what `since` is next), `again` where other nodes took some at
-- the same moment, `await` for a heavy run that room is kept for, and `blocked` for each at the
-- head of a key that no node may take.
SELECT * FROM pgcron.claim_gated(:incarnation, :queues, :beyond, :handlers, :gated, :ahead, :look,
                                 :since, :aged, :probes);

-- name: next_due
-- The head of every path that has waiting runs, future ones included: where to claim, and how long
-- to sleep. A paused queue has none. is_limited: claimed with a look at its limits; runs with a
-- key, and those that require labels, are returned as one row for each queue, without a time. The
-- bounds are those of a claim, for the paths that have one: a busy node looks several times a
-- second, and would walk each time what a held xmin horizon keeps of the runs that are gone.
SELECT path.queue, level.priority::smallint, kind.is_once, q.is_plain IS FALSE AS is_limited,
       head.due_at, head.due_at <= now() AS is_due,
       date_part('epoch', head.due_at) - date_part('epoch', clock_timestamp()) AS seconds
FROM unnest(:queues::text[]) AS path(queue)
LEFT JOIN pgcron.queue q ON q.name = path.queue
CROSS JOIN generate_series(0, 9) AS level(priority)
CROSS JOIN (VALUES (false), (true)) AS kind(is_once)
LEFT JOIN unnest(:bound_queues::text[], :bound_priorities::smallint[], :bound_onces::boolean[],
                 :bound_dues::timestamptz[], :bound_ids::bigint[])
    AS bound(queue, priority, is_once, due, id)
  ON bound.queue = path.queue AND bound.priority = level.priority AND bound.is_once = kind.is_once
CROSS JOIN LATERAL (
  SELECT c.due_at FROM pgcron.run c
  WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
    AND c.queue = path.queue AND c.priority = level.priority::smallint
    AND (c.delivery <> 'at_least_once') = kind.is_once
    AND (c.due_at, c.id) >= (coalesce(bound.due, '-infinity'), coalesce(bound.id, 0))
  ORDER BY c.due_at, c.id LIMIT 1) head
WHERE q.paused_at IS NULL
UNION ALL
SELECT path.queue, NULL, false, true, NULL, NULL, NULL
FROM unnest(:queues::text[]) AS path(queue)
WHERE (EXISTS (SELECT FROM pgcron.run c
               WHERE c.state = 'ready' AND c.concurrency_key IS NOT NULL AND c.queue = path.queue)
       OR EXISTS (SELECT FROM pgcron.run c
                  WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NOT NULL
                    AND c.queue = path.queue))
  AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = path.queue AND q.paused_at IS NOT NULL)
ORDER BY priority, queue;

-- name: block_unserved
-- ready -> blocked
-- Due runs that no live node may take leave the claim indexes, so that they delay no others: of
-- each priority the first `look`, and of each key and requirement an equal part of `look`. Those
-- that need the same are judged together, once.
WITH alike AS MATERIALIZED (
  SELECT asked.queue, head.handler, head.requires, array_agg(head.id) AS runs
  FROM unnest(:queues::text[]) AS asked(queue)
  CROSS JOIN LATERAL pgcron.waiting_runs(asked.queue, '-infinity', now(), :look::int, true) head
  GROUP BY asked.queue, head.handler, head.requires)
SELECT block_ready AS id FROM pgcron.block_ready(ARRAY(
  SELECT unnest(a.runs) FROM alike a
  WHERE NOT pgcron.is_served(a.handler, a.queue, a.requires)), 'no_node');

-- name: unblock
-- ready -> blocked
-- blocked -> ready
-- The other way round, level-triggered: what some node may take by now, and no breaker keeps, does
-- not stay blocked. Of what still has to wait no run is read, only what such runs need.
SELECT set_gate AS id FROM pgcron.set_gate(ARRAY(
  SELECT free.id FROM pgcron.blocked_groups(10000) needs
  CROSS JOIN LATERAL (
    SELECT p.id FROM pgcron.run p
    WHERE p.gate IN ('breaker', 'no_node') AND p.handler = needs.handler
      AND p.queue = needs.queue AND coalesce(p.requires, '{}') = needs.requires
    LIMIT :at_most FOR UPDATE SKIP LOCKED) free
  WHERE pgcron.is_served(needs.handler, needs.queue, needs.requires)
    AND NOT pgcron.is_broken(needs.handler, needs.queue)
  LIMIT :at_most), NULL);

-- name: refused_runs
-- Due runs of these queues that no node can claim, with the server's reason: asked for after a
-- claim that was refused. Changes nothing.
SELECT run_id, error FROM pgcron.refused_runs(:incarnation::uuid, ARRAY(
  SELECT head.id FROM unnest(:queues::text[]) asked(queue)
  CROSS JOIN LATERAL (
    SELECT w.id, w.place
    FROM pgcron.waiting_runs(asked.queue, '-infinity', now(), :at_most::int, true) w
    UNION ALL
    (SELECT r.id, row_number() OVER () FROM pgcron.run r  -- of priorities that no claim takes
     WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NULL
       AND r.queue = asked.queue AND (r.priority < 0 OR r.priority > 9) LIMIT :at_most::int)) head
  ORDER BY head.place LIMIT :at_most));

-- name: broken_settings
