-- How many slots the work of a queue could use: for what starts and stops nodes.

-- The slots that due runs of a queue could use now, by weight, and how many rows were looked at,
-- which are at most `most`. What its keys, its limits and the overlap policy of schedules do not
-- let begin now is left out.
CREATE FUNCTION pgcron.due_demand(queue text, most int, OUT slots bigint, OUT looked int)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  due record;
  limits record;
BEGIN
  SELECT q.paused_at, least(q.max_running - running.runs, rated.room) AS room INTO limits
  FROM pgcron.queue q
  LEFT JOIN LATERAL (SELECT count(*)::int AS runs
                     FROM (SELECT FROM pgcron.run r
                           WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.queue = q.name
                           LIMIT q.max_running) r
                     WHERE q.max_running IS NOT NULL) running ON true
  LEFT JOIN LATERAL (SELECT w.room
                     FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w
                     WHERE q.rate IS NOT NULL) rated ON true
  WHERE q.name = due_demand.queue;
  slots := 0; looked := 0;
  IF limits.paused_at IS NOT NULL OR limits.room <= 0 THEN RETURN; END IF;
  -- What has no key has no room of its own.
  SELECT count(*)::int AS looked, count(*) FILTER (WHERE of_key.may_begin) AS runs,
         coalesce(sum(of_key.weight) FILTER (WHERE of_key.may_begin), 0) AS slots
  INTO due
  FROM (SELECT d.weight,
               d.is_alive AND (sum(d.units) FILTER (WHERE d.is_alive) OVER (
                   PARTITION BY d.concurrency_key ORDER BY d.priority, d.due_at, d.id)
                 > d.room) IS NOT TRUE AS may_begin
        FROM (SELECT NULL AS concurrency_key, NULL::int AS room, 1 AS weight,
                     1 AS units, level AS priority, path.due_at, path.id,
                     coalesce(path.expire_at > now(), true) AS is_alive
              FROM generate_series(0, 9) level
              CROSS JOIN LATERAL pgcron.path_candidates(due_demand.queue, level::smallint,
                  due_demand.most) path
              UNION ALL
              SELECT NULL, NULL, 1, 1, place.priority, placed.due_at, placed.id,
                     coalesce(placed.expire_at > now(), true)
              FROM pgcron.walk_requirements(due_demand.queue, NULL) place
              CROSS JOIN LATERAL (SELECT r.id, r.due_at, r.expire_at FROM pgcron.run r
                                  WHERE r.state = 'ready' AND r.concurrency_key IS NULL
                                    AND r.requires IS NOT NULL AND r.queue = due_demand.queue
                                    AND r.requires = place.requires AND r.priority = place.priority
                                    AND r.due_at <= now()
                                  ORDER BY r.due_at, r.id LIMIT due_demand.most) placed
              UNION ALL
              SELECT pair.concurrency_key, pair.room, found.weight,
                     CASE WHEN pair.heaviest IS NULL THEN 1 ELSE found.weight END, pair.priority,
                     found.due_at, found.id,
                     coalesce(found.expire_at > now(), true)
              FROM pgcron.walk_keys(due_demand.queue, '', due_demand.most) walked
              CROSS JOIN LATERAL unnest(walked.pairs) pair
              CROSS JOIN LATERAL (
                  SELECT h.* FROM pgcron.key_candidates(due_demand.queue, pair.concurrency_key,
                      pair.priority, due_demand.most) h
                  WHERE pair.heaviest IS NULL
                    OR h.weight <= least(pair.heaviest, pgcron.largest_server(h.handler,
                                     due_demand.queue, h.requires))
                  LIMIT least(pair.room, due_demand.most)) found
              LIMIT due_demand.most) d) of_key;
  looked := due.looked;
  slots := ceil(due.slots * least(1, coalesce(limits.room::numeric / nullif(due.runs, 0), 1)));
END $$;

-- The first queues in which something is ready, due or not: a walk from one to the next.
CREATE FUNCTION pgcron.waiting_queues(most int) RETURNS TABLE (queue text)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  WITH RECURSIVE walk(queue) AS (
    SELECT ''
    UNION ALL
    SELECT least((SELECT min(r.queue) FROM pgcron.run r
                  WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NULL
                    AND r.queue > walk.queue),
             (SELECT min(r.queue) FROM pgcron.run r
              WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NOT NULL
                AND r.queue > walk.queue),
             (SELECT min(r.queue) FROM pgcron.run r
              WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL AND r.queue > walk.queue))
    FROM walk WHERE walk.queue IS NOT NULL)
  SELECT w.queue FROM walk w WHERE w.queue <> '' LIMIT most;
END;

-- What is put aside, as no node offers it, is one slot altogether: enough to start a node that may
-- offer it, and then it counts as any other. Not looked at: which nodes offer a handler, have the
-- labels or are large enough. A key that waits in several queues counts in each. Bounded: at most
-- `cap` rows of what executes are counted and at most `cap` of what is due; beside them a look is a
-- step for each key and each requirement (2,000 and 1,000 a queue), for each queue (1,000), and
-- for each group of blocked runs (1,000). Of more than that the answer is too low, and large.
CREATE FUNCTION pgcron.scale_demand(queue text DEFAULT NULL, at_most int DEFAULT 5000)
  RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  most CONSTANT int := greatest(1, least(coalesce(scale_demand.at_most, 5000), 100000));
  rows_left int := most;
  demand bigint;
  queue_now text;
  due record;
BEGIN
  SELECT coalesce(sum(coalesce(r.weight, 1)), 0) INTO demand
  FROM (SELECT w.weight FROM pgcron.run w
        WHERE w.state = 'running' AND w.owner IS NOT NULL
          AND (scale_demand.queue IS NULL OR w.queue = scale_demand.queue)
        LIMIT most) r;
  IF EXISTS (SELECT FROM pgcron.cluster c WHERE c.paused_at IS NOT NULL) THEN RETURN demand; END IF;
  FOR queue_now IN SELECT scale_demand.queue WHERE scale_demand.queue IS NOT NULL
                   UNION ALL
                   SELECT w.queue FROM pgcron.waiting_queues(1000) w
                   WHERE scale_demand.queue IS NULL LOOP
    EXIT WHEN rows_left <= 0;
    SELECT d.slots, d.looked INTO due FROM pgcron.due_demand(queue_now, rows_left) d;
    demand := demand + due.slots;
    rows_left := rows_left - due.looked;
  END LOOP;
  RETURN demand + EXISTS (
      SELECT FROM pgcron.blocked_groups(1000) blocked
      JOIN pgcron.run r ON r.handler = blocked.handler AND r.queue = blocked.queue
        AND coalesce(r.requires, '{}') = blocked.requires AND r.gate = 'no_node'
      WHERE blocked.queue = coalesce(scale_demand.queue, blocked.queue)
        AND NOT EXISTS (SELECT FROM pgcron.queue q
                        WHERE q.name = blocked.queue AND q.paused_at IS NOT NULL))::int;
END $$;
COMMENT ON FUNCTION pgcron.scale_demand IS
    'How many slots a queue (NULL: all) could use now on all nodes together: of what executes and '
    'what is due and may begin, by weight. For autoscalers; bounded, never NULL.';
