-- How many slots the work of a queue could use: for what starts and stops nodes.

-- The slots that due runs of a queue could use now, by weight; of its runs at most `most` are
-- counted. What its keys, its limits and the overlap policy of schedules do
-- not let begin now is left out.
CREATE FUNCTION pgcron.due_demand(queue text, most int) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  may_begin int;
  light bigint;
  keyed record;
BEGIN
  SELECT CASE WHEN q.paused_at IS NULL THEN limited.room ELSE 0 END INTO may_begin
  FROM pgcron.queue q CROSS JOIN LATERAL pgcron.queue_room(q, now()) limited
  WHERE q.name = due_demand.queue;
  IF may_begin <= 0 THEN RETURN 0; END IF;
  SELECT count(*) FILTER (WHERE coalesce(due.expire_at > now(), true)) INTO light
  FROM (SELECT u.expire_at
        FROM pgcron.unkeyed_runs(due_demand.queue, '-infinity', now(), due_demand.most) u
        LIMIT due_demand.most) due;
  SELECT coalesce(sum(of_keys.runs), 0) AS runs, coalesce(sum(of_keys.slots), 0) AS slots
  INTO keyed
  FROM (SELECT least(count(*), max(due.room)) AS runs,
               ceil(sum(due.weight) * least(1, max(due.room)::numeric / count(*))) AS slots
        FROM (SELECT pair.concurrency_key, pair.room, found.weight
              FROM pgcron.walk_keys(due_demand.queue, '', due_demand.most) walked
              CROSS JOIN LATERAL unnest(walked.keys, walked.priorities, walked.rooms)
                pair(concurrency_key, priority, room)
              CROSS JOIN LATERAL pgcron.key_candidates(due_demand.queue, pair.concurrency_key,
                  pair.priority, least(pair.room, due_demand.most)) found
              WHERE coalesce(found.expire_at > now(), true) LIMIT due_demand.most - light) due
        GROUP BY due.concurrency_key) of_keys;
  RETURN ceil((light + keyed.slots) * least(1, coalesce(
          may_begin::numeric / nullif(light + keyed.runs, 0), 1)));
END $$;

-- The first queues in which something is ready, due or not: a walk from one to the next.
CREATE FUNCTION pgcron.waiting_queues(most int) RETURNS TABLE (queue text)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  WITH RECURSIVE walk(queue) AS (
    SELECT ''
    UNION ALL
    SELECT (SELECT min(next.queue)
            FROM ((SELECT r.queue FROM pgcron.run r
                   WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NULL
                     AND r.queue > walk.queue ORDER BY r.queue LIMIT 1)
                  UNION ALL
                  (SELECT r.queue FROM pgcron.run r
                   WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NOT NULL
                     AND r.queue > walk.queue ORDER BY r.queue LIMIT 1)
                  UNION ALL
                  (SELECT r.queue FROM pgcron.run r
                   WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
                     AND r.queue > walk.queue ORDER BY r.queue LIMIT 1)) next)
    FROM walk WHERE walk.queue IS NOT NULL)
  SELECT w.queue FROM walk w WHERE w.queue <> '' LIMIT most;
END;

-- What is put aside, as no node offers it, is one slot altogether: enough to start a node that may
-- offer it, and then it counts as any other. Not looked at: which nodes offer a handler, have the
-- labels or are large enough. A key that waits in several queues counts in each. Bounded: at most
-- `at_most` rows of what executes are counted, and no more queues are looked at when the demand is
-- as large; beside that a look is a step for each key and each requirement (2,000 and 1,000 a
-- queue), for each queue (1,000), and for each group of blocked runs (1,000). Of more than that the
-- answer is too low, and large.
CREATE FUNCTION pgcron.scale_demand(queue text DEFAULT NULL, at_most int DEFAULT 5000)
  RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  most CONSTANT int := greatest(1, least(coalesce(scale_demand.at_most, 5000), 100000));
  demand bigint;
  due bigint := 0;
  queue_now text;
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
    due := due + pgcron.due_demand(queue_now, (most - due)::int);
    EXIT WHEN due >= most;
  END LOOP;
  RETURN demand + due + EXISTS (
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
