-- name: page_queue_settings
SELECT q.name, q.paused_at, q.paused_by, q.paused_note, q.max_running, q.rate, q.per, q.set_by,
       q.set_at,
       (SELECT w.next_at FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w
        WHERE q.rate IS NOT NULL AND w.room = 0) AS next_at
FROM pgcron.queue q WHERE pgcron.in_scope(NULL, q.name, NULL, NULL, NULL)
ORDER BY q.paused_at IS NULL, q.name LIMIT :limit::int;

-- name: page_queue_depths
-- What waits in each queue: no more rows are read of those that are due, and of those that are due
-- later, than the queue's share of :budget, so that millions of waiting runs cost no more than
-- thousands. What is due longest is among the first of each way to the claim.
WITH share AS MATERIALIZED (
  SELECT q.queue, least(:most::int, greatest(:budget::int / count(*) OVER (), 100))::int AS rows
  FROM pgcron.waiting_queues(:limit::int) q
  WHERE pgcron.in_scope(NULL, q.queue, NULL, NULL, NULL))
SELECT s.queue, due.runs AS due, later.runs AS later,
       (SELECT min(head.due_at)
        FROM pgcron.waiting_runs(s.queue, '-infinity', 'infinity', 1) head) AS first_due,
       greatest(due.runs, later.runs) >= s.rows AS is_cut
FROM share s
CROSS JOIN LATERAL (SELECT count(*) AS runs FROM (
    SELECT FROM pgcron.waiting_runs(s.queue, '-infinity', now(), s.rows) LIMIT s.rows) w) due
CROSS JOIN LATERAL (SELECT count(*) AS runs FROM (
    SELECT FROM pgcron.waiting_runs(s.queue, now() + interval '1 us', 'infinity', s.rows)
    LIMIT s.rows) w) later
WHERE due.runs + later.runs > 0 ORDER BY s.queue;

-- name: page_queue_running
SELECT r.queue, count(*) AS runs
FROM (SELECT e.queue FROM pgcron.run e WHERE e.state = 'running' AND e.owner IS NOT NULL
LIMIT :look::int) r
WHERE pgcron.in_scope(NULL, r.queue, NULL, NULL, NULL)
GROUP BY r.queue ORDER BY r.queue LIMIT :limit::int;

-- name: page_queue_servers
-- Which queues the living nodes take from, and with how many slots (a slot serves all queues of its
-- node).
SELECT q.queue, count(*) AS nodes, sum(n.slots) AS slots,
       sum(greatest(n.slots - n.slots_used, 0)) AS free
FROM pgcron.node n CROSS JOIN LATERAL unnest(n.queues) q(queue)
WHERE n.state = 'alive' AND n.lease_until > now()
  AND pgcron.in_scope(NULL, q.queue, NULL, NULL, NULL)
GROUP BY q.queue ORDER BY q.queue LIMIT :limit::int;

-- name: page_queues_within
-- Of these queues those that are in the person's scope, and not only some of their runs.
SELECT q.name FROM unnest(:queues::text[]) q(name)
WHERE pgcron.in_scope(NULL, q.name, NULL, NULL, NULL) LIMIT :limit::int;

-- name: page_producers
-- Those of a team with all that they may enqueue, of others only what is in the person's scope.
SELECT pg_get_userbyid(p.role) AS name, of_it.rules[:21] AS rules, p.backlog, p.largest_weight,
       p.highest_priority, p.largest_args, p.largest_log
FROM pgcron.producer p
LEFT JOIN pgcron.owned o ON o.kind = 'producer' AND o.name = pg_get_userbyid(p.role)
CROSS JOIN LATERAL (
  SELECT array_agg(r.handler || ' into ' || r.queue ORDER BY r.queue, r.handler) AS rules
  FROM unnest(p.rules) said(rule)
  CROSS JOIN LATERAL (SELECT translate(said.rule, '%\', '*')) words(rule)
  CROSS JOIN LATERAL (SELECT split_part(words.rule, ' into ', 1) AS handler,
                             split_part(words.rule, ' into ', 2) AS queue) r
  WHERE (pgcron.in_scope(NULL, r.queue, r.handler, NULL, NULL)
         OR pgcron.in_scope(NULL, NULL, NULL, NULL, NULL, o.team))) of_it
WHERE of_it.rules IS NOT NULL ORDER BY 1 LIMIT :limit::int;

-- name: page_queue_dead
-- Of the newest :look open dead letters.
SELECT d.queue, count(*) AS letters
FROM (SELECT e.queue FROM pgcron.dead_letter e WHERE e.closed_at IS NULL ORDER BY e.died_at DESC
LIMIT :look::int) d
WHERE pgcron.in_scope(NULL, d.queue, NULL, NULL, NULL)
GROUP BY d.queue ORDER BY d.queue LIMIT :limit::int;

-- name: page_queue_head
-- The due runs of one queue that come next in the order of the claim. Of those that wait for a run
-- of their schedule the first thousand of all queues are looked at.
WITH next AS (
  SELECT w.id, w.priority, w.due_at
  FROM pgcron.waiting_runs(:queue::text, '-infinity', now(), :limit::int) w
  UNION ALL
  SELECT b.id, b.priority, b.due_at
  FROM (VALUES ('overlap'), ('previous')) waits_for(gate)
  CROSS JOIN LATERAL (SELECT w.id, w.queue, w.priority, w.due_at FROM pgcron.run w
                      WHERE w.state = 'blocked' AND w.gate = waits_for.gate AND w.due_at <= now()
                      ORDER BY w.due_at, w.id LIMIT 1000) b
  WHERE b.queue = :queue::text)
SELECT r.id, r.handler, r.schedule, r.priority, r.due_at, r.attempt, r.concurrency_key,
       pgcron.attempts_allowed(r.max_attempts, r.delivery) AS max_attempts,
       left(r.last_error, 300) AS error, waiting.waits_for, waiting.waits_detail, waiting.waits_on
FROM (SELECT w.id FROM next w ORDER BY w.priority, w.due_at, w.id LIMIT :limit::int) first
JOIN pgcron.run r ON r.id = first.id JOIN pgcron.waiting ON waiting.id = first.id
WHERE pgcron.in_scope(r.schedule_id, r.queue, r.handler, r.schedule, r.tags)
ORDER BY r.priority, r.due_at, r.id;
