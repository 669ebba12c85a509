-- name: page_queue_settings
SELECT q.name, q.paused_at, q.paused_by, q.paused_note, q.max_running, q.rate,
       extract(epoch FROM q.per)::float8 AS per, q.set_by, q.set_at,
       (SELECT w.next_at FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w
        WHERE q.rate IS NOT NULL AND w.room = 0) AS next_at
FROM pgcron.queue q ORDER BY q.paused_at IS NULL, q.name LIMIT :limit::int;

-- name: page_queue_depths
-- What waits in each queue, along the five ways of the claim, the oldest first (of runs with a key
-- one key after the other, of those that require labels one requirement): one index descent for
-- each queue and priority, and of each no more rows than its share of :budget, so that millions of
-- waiting runs cost no more than thousands.
WITH RECURSIVE plain(queue, priority) AS (
  (SELECT r.queue, r.priority FROM pgcron.run r
   WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
     AND r.overlap IS NULL AND r.delivery = 'at_least_once'
   ORDER BY r.queue, r.priority LIMIT 1)
  UNION ALL
  SELECT next.queue, next.priority FROM plain CROSS JOIN LATERAL (
    SELECT r.queue, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NULL AND r.delivery = 'at_least_once'
      AND (r.queue, r.priority) > (plain.queue, plain.priority) ORDER BY r.queue, r.priority
          LIMIT 1) next),
overlapping(queue, priority) AS (
  (SELECT r.queue, r.priority FROM pgcron.run r
   WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
     AND r.overlap IS NOT NULL
   ORDER BY r.queue, r.priority LIMIT 1)
  UNION ALL
  SELECT next.queue, next.priority FROM overlapping CROSS JOIN LATERAL (
    SELECT r.queue, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NOT NULL
      AND (r.queue, r.priority) > (overlapping.queue, overlapping.priority) ORDER BY r.queue,
      r.priority
          LIMIT 1) next),
once(queue, priority) AS (
  (SELECT r.queue, r.priority FROM pgcron.run r
   WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
     AND r.overlap IS NULL AND r.delivery <> 'at_least_once'
   ORDER BY r.queue, r.priority LIMIT 1)
  UNION ALL
  SELECT next.queue, next.priority FROM once CROSS JOIN LATERAL (
    SELECT r.queue, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NULL AND r.delivery <> 'at_least_once'
      AND (r.queue, r.priority) > (once.queue, once.priority) ORDER BY r.queue, r.priority
          LIMIT 1) next),
keyed(queue) AS (
  (SELECT r.queue FROM pgcron.run r
   WHERE r.state = 'ready' AND r.hold IS NULL
     AND r.concurrency_key IS NOT NULL ORDER BY r.queue LIMIT 1)
  UNION ALL
  SELECT next.queue FROM keyed CROSS JOIN LATERAL (
    SELECT r.queue FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NOT NULL
      AND r.queue > keyed.queue
    ORDER BY r.queue LIMIT 1) next),
placed(queue) AS (
  (SELECT r.queue FROM pgcron.run r
   WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL
     AND r.requires IS NOT NULL
   ORDER BY r.queue LIMIT 1)
  UNION ALL
  SELECT next.queue FROM placed CROSS JOIN LATERAL (
    SELECT r.queue FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL
      AND r.requires IS NOT NULL
      AND r.queue > placed.queue
    ORDER BY r.queue LIMIT 1) next),
path AS MATERIALIZED (
  (SELECT 'plain' AS way, p.* FROM plain p LIMIT :paths::int)
   UNION ALL (SELECT 'overlapping', p.* FROM overlapping p LIMIT :paths::int)
  UNION ALL (SELECT 'once', p.* FROM once p LIMIT :paths::int)
  UNION ALL (SELECT 'keyed', p.queue, NULL FROM keyed p LIMIT :paths::int)
  UNION ALL (SELECT 'placed', p.queue, NULL FROM placed p LIMIT :paths::int)),
share AS MATERIALIZED (SELECT least(:most::int, :budget::int / greatest(count(*), 1)) AS rows
    FROM path),
found AS (
  SELECT p.queue, w.* FROM path p CROSS JOIN LATERAL (
    SELECT r.due_at FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NULL AND r.delivery = 'at_least_once' AND r.queue = p.queue
      AND r.priority = p.priority
    ORDER BY r.due_at LIMIT (SELECT s.rows FROM share s)) w WHERE p.way = 'plain'
  UNION ALL
  SELECT p.queue, w.* FROM path p CROSS JOIN LATERAL (
    SELECT r.due_at FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NOT NULL AND r.queue = p.queue AND r.priority = p.priority
    ORDER BY r.due_at LIMIT (SELECT s.rows FROM share s)) w WHERE p.way = 'overlapping'
  UNION ALL
  SELECT p.queue, w.* FROM path p CROSS JOIN LATERAL (
    SELECT r.due_at FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL AND r.requires IS NULL
      AND r.overlap IS NULL AND r.delivery <> 'at_least_once' AND r.queue = p.queue
      AND r.priority = p.priority
    ORDER BY r.due_at LIMIT (SELECT s.rows FROM share s)) w WHERE p.way = 'once'
  UNION ALL
  SELECT p.queue, w.* FROM path p CROSS JOIN LATERAL (
    SELECT r.due_at FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NOT NULL
      AND r.queue = p.queue
    ORDER BY r.concurrency_key, r.priority, r.due_at LIMIT (SELECT s.rows FROM share s)) w
    WHERE p.way = 'keyed'
  UNION ALL
  SELECT p.queue, w.* FROM path p CROSS JOIN LATERAL (
    SELECT r.due_at FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.concurrency_key IS NULL
      AND r.requires IS NOT NULL
      AND r.queue = p.queue
    ORDER BY r.requires, r.priority, r.due_at LIMIT (SELECT s.rows FROM share s)) w
    WHERE p.way = 'placed')
SELECT f.queue, count(*) FILTER (WHERE f.due_at <= now()) AS due,
       count(*) FILTER (WHERE f.due_at > now()) AS later,
       min(f.due_at) AS first_due, count(*) >= min(s.rows) AS is_cut
FROM found f CROSS JOIN share s GROUP BY f.queue ORDER BY f.queue LIMIT :limit::int;

-- name: page_queue_running
SELECT r.queue, count(*) AS runs
FROM (SELECT e.queue FROM pgcron.run e WHERE e.state = 'running' AND e.owner IS NOT NULL
LIMIT :look::int) r
GROUP BY r.queue ORDER BY r.queue LIMIT :limit::int;

-- name: page_queue_servers
-- Which queues the living nodes take from, and with how many slots (a slot serves all queues of its
-- node).
SELECT q.queue, count(*) AS nodes, sum(n.slots) AS slots,
       sum(greatest(n.slots - n.slots_used, 0)) AS free
FROM pgcron.node n CROSS JOIN LATERAL unnest(n.queues) q(queue)
WHERE n.state = 'alive' AND n.lease_until > now()
GROUP BY q.queue ORDER BY q.queue LIMIT :limit::int;

-- name: page_queue_dead
-- Of the newest :look open dead letters.
SELECT d.queue, count(*) AS letters
FROM (SELECT e.queue FROM pgcron.dead_letter e WHERE e.requeued_as IS NULL ORDER BY e.died_at DESC
LIMIT :look::int) d
GROUP BY d.queue ORDER BY d.queue LIMIT :limit::int;

-- name: page_queue_head
-- The next runs of one queue in the order of the claim, and what blocks them: no node offers the
-- handler, or the schedule's last run is not over, or its key has no free slot or has used up its
-- rate. :due selects due or future runs.
SELECT r.id, r.handler, r.schedule, r.priority, r.due_at, r.attempt,
       pgcron.attempts_allowed(r.max_attempts, r.delivery) AS max_attempts,
       left(r.last_error, 300) AS error,
       r.snoozes > 0
           AND EXISTS (SELECT FROM pgcron.attempt a
               WHERE a.run_id = r.id AND a.attempt = r.attempt
                 AND a.outcome = 'snoozed') AS is_snoozed,
       EXISTS (SELECT FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
               WHERE o.handler = r.handler AND n.state = 'alive' AND n.lease_until > now()
                 AND r.queue = ANY(n.queues)
                 AND (r.requires IS NULL
                      OR r.requires <@ pgcron.label_words(n.labels))) AS is_offered,
       CASE WHEN r.weight > 1
            AND r.weight > pgcron.largest_server(r.handler, r.queue,
                r.requires) THEN r.weight END AS too_heavy,
       CASE WHEN r.overlap IS NOT NULL THEN
         (SELECT b.id FROM pgcron.run b
          WHERE b.schedule_id = r.schedule_id AND b.overlap_slot IS NOT NULL AND b.id <> r.id
          LIMIT 1) END AS waits_for,
       r.requires, r.concurrency_key, CASE WHEN r.concurrency_key IS NOT NULL THEN
         (SELECT s.slots <= (SELECT count(*) FROM pgcron.run b
          WHERE b.concurrency_key = r.concurrency_key AND b.key_slot IS NOT NULL)
          FROM pgcron.concurrency_slots(ARRAY[r.concurrency_key]) s) END AS is_key_full,
       CASE WHEN r.concurrency_key IS NOT NULL THEN
         (SELECT w.next_at FROM pgcron.concurrency_slots(ARRAY[r.concurrency_key]) s
          CROSS JOIN LATERAL pgcron.rate_room('key', r.concurrency_key, s.rate, s.per,
              clock_timestamp()) w
          WHERE s.rate IS NOT NULL AND w.room = 0) END AS key_next_at
FROM (SELECT w.* FROM (
      SELECT p.* FROM generate_series(0, 9) level CROSS JOIN LATERAL (
        (SELECT e.id, e.handler, e.schedule, e.schedule_id, e.queue, e.priority, e.due_at,
                e.attempt, e.max_attempts, e.delivery, e.last_error, e.snoozes, e.requires,
                e.weight, e.overlap, e.concurrency_key
         FROM pgcron.run e
         WHERE e.state = 'ready' AND e.hold IS NULL AND e.concurrency_key IS NULL
           AND e.requires IS NULL
           AND e.overlap IS NULL AND e.delivery = 'at_least_once' AND e.queue = :queue::text
           AND e.priority = level
           AND (:due::boolean OR e.due_at > now()) AND (NOT :due::boolean OR e.due_at <= now())
               ORDER BY e.due_at, e.id LIMIT :limit::int)
        UNION ALL
        (SELECT e.id, e.handler, e.schedule, e.schedule_id, e.queue, e.priority, e.due_at,
                e.attempt, e.max_attempts, e.delivery, e.last_error, e.snoozes, e.requires,
                e.weight, e.overlap, e.concurrency_key
         FROM pgcron.run e
         WHERE e.state = 'ready' AND e.hold IS NULL AND e.concurrency_key IS NULL
           AND e.requires IS NULL
           AND e.overlap IS NOT NULL AND e.queue = :queue::text AND e.priority = level
           AND (:due::boolean OR e.due_at > now()) AND (NOT :due::boolean OR e.due_at <= now())
               ORDER BY e.due_at, e.id LIMIT :limit::int)
        UNION ALL
        (SELECT e.id, e.handler, e.schedule, e.schedule_id, e.queue, e.priority, e.due_at,
                e.attempt, e.max_attempts, e.delivery, e.last_error, e.snoozes, e.requires,
                e.weight, e.overlap, e.concurrency_key
         FROM pgcron.run e
         WHERE e.state = 'ready' AND e.hold IS NULL AND e.concurrency_key IS NULL
           AND e.requires IS NULL
           AND e.overlap IS NULL AND e.delivery <> 'at_least_once' AND e.queue = :queue::text
           AND e.priority = level
           AND (:due::boolean OR e.due_at > now()) AND (NOT :due::boolean OR e.due_at <= now())
               ORDER BY e.due_at, e.id LIMIT :limit::int)) p
      UNION ALL
      -- Of runs with a key those of the first keys.
      (SELECT k.*
       FROM (SELECT e.id, e.handler, e.schedule, e.schedule_id, e.queue, e.priority, e.due_at,
             e.attempt, e.max_attempts, e.delivery, e.last_error, e.snoozes, e.requires, e.weight,
             e.overlap, e.concurrency_key
       FROM pgcron.run e
                        WHERE e.state = 'ready' AND e.hold IS NULL AND e.concurrency_key IS NOT NULL
                          AND e.queue = :queue::text
                        ORDER BY e.concurrency_key, e.priority, e.due_at LIMIT 500) k
       WHERE (:due::boolean OR k.due_at > now()) AND (NOT :due::boolean OR k.due_at <= now()))
      UNION ALL
      -- Of those that require labels the first of each requirement.
      (SELECT k.* FROM pgcron.walk_requirements(:queue::text, NULL) place CROSS JOIN LATERAL (
         SELECT e.id, e.handler, e.schedule, e.schedule_id, e.queue, e.priority, e.due_at,
                e.attempt, e.max_attempts, e.delivery, e.last_error, e.snoozes, e.requires,
                e.weight, e.overlap, e.concurrency_key
         FROM pgcron.run e
         WHERE e.state = 'ready' AND e.hold IS NULL AND e.concurrency_key IS NULL
           AND e.requires IS NOT NULL
           AND e.queue = :queue::text AND e.requires = place.requires
           AND e.priority = place.priority AND (:due::boolean OR e.due_at > now())
           AND (NOT :due::boolean OR e.due_at <= now())
         ORDER BY e.due_at, e.id LIMIT :limit::int) k)) w
      ORDER BY CASE WHEN :due::boolean THEN w.priority END, w.due_at, w.id LIMIT :limit::int) r
ORDER BY CASE WHEN :due::boolean THEN r.priority END, r.due_at, r.id;
