-- Placement: runs that require labels are claimed only by nodes that announce all of them. Those
-- without a key wait in an index of their own, by what they require, and are claimed by
-- pgcron.claim_gated; what requires nothing pays nothing.

-- What a node with these labels satisfies: it may run whatever requires nothing else.
CREATE FUNCTION pgcron.label_words(labels jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(word), '{}') FROM jsonb_each_text(labels) label
  CROSS JOIN LATERAL (VALUES (label.key), (label.key || '=' || label.value)) satisfied(word) $$;

-- The first runs of a queue's priority that need no key and no label, due from `since` up to
-- `until`: `look` of each of the two kinds that are claimed apart; with handlers only those that
-- these could execute now. The columns are named, as readers may not see the token. A body of this
-- kind becomes a part of the query, which reads no more than it needs.
CREATE FUNCTION pgcron.path_candidates(queue text, priority smallint, look int,
    handlers text[] DEFAULT NULL, since timestamptz DEFAULT '-infinity',
    until timestamptz DEFAULT now())
  RETURNS TABLE (id bigint, handler text, schedule_id bigint, due_at timestamptz,
                 expire_at timestamptz, weight int, is_once boolean)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  SELECT w.*
  FROM (VALUES (false), (true)) kind(is_once)
  CROSS JOIN LATERAL (
      SELECT c.id, c.handler, c.schedule_id, c.due_at, c.expire_at, c.weight, kind.is_once
      FROM pgcron.run c
      WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
        AND c.queue = path_candidates.queue AND c.priority = path_candidates.priority
        AND (c.delivery <> 'at_least_once') = kind.is_once
        AND c.due_at BETWEEN path_candidates.since AND path_candidates.until
        AND (path_candidates.handlers IS NULL
             OR (c.handler = ANY(path_candidates.handlers)
                 AND (c.expire_at IS NULL OR c.expire_at > now())))
      ORDER BY c.due_at, c.id LIMIT path_candidates.look) w;
END;

-- The same of a concurrency key: its first due runs of a priority, whatever their handlers are.
CREATE FUNCTION pgcron.key_candidates(queue text, concurrency_key text, priority smallint, look int)
  RETURNS TABLE (id bigint, handler text, requires text[], due_at timestamptz,
                 expire_at timestamptz, weight int, is_once boolean)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  SELECT r.id, r.handler, r.requires, r.due_at, r.expire_at, coalesce(r.weight, 1),
         r.delivery <> 'at_least_once'
  FROM pgcron.run r
  WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL AND r.queue = key_candidates.queue
    AND r.concurrency_key = key_candidates.concurrency_key
    AND r.priority = key_candidates.priority AND r.due_at <= now()
  ORDER BY r.due_at, r.id LIMIT key_candidates.look;
END;

-- Which requirements wait in a queue, and since when (or from when on) for each priority: a walk
-- along the index from one to the next, never along their runs. If these labels satisfy a
-- requirement, its first label is one of them: so the walk begins at each label, and a requirement
-- after it that they do not satisfy is a step, too. labels NULL satisfy everything. At most a
-- thousand steps from each beginning: what no node satisfies is blocked, so that it does not stay
-- in front for ever.
CREATE FUNCTION pgcron.walk_requirements(queue text, labels text[])
  RETURNS TABLE (requires text[], priority smallint, due_at timestamptz)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  WITH RECURSIVE walk(first, requires, priority, due_at, is_satisfied, steps) AS (
    SELECT label, ARRAY[label] COLLATE "C", (-32768)::smallint, NULL::timestamptz, true, 0
    FROM unnest(coalesce(walk_requirements.labels, '{""}')) label
    UNION ALL
    SELECT walk.first, next.requires, next.priority, next.due_at,
           coalesce(next.requires <@ walk_requirements.labels, true), walk.steps + 1
    FROM walk
    CROSS JOIN LATERAL (SELECT r.requires, r.priority, r.due_at FROM pgcron.run r
                        WHERE r.state = 'ready' AND r.concurrency_key IS NULL
                          AND r.requires IS NOT NULL AND r.queue = walk_requirements.queue
                          AND (r.requires, r.priority) > (walk.requires,
                                CASE WHEN walk.is_satisfied THEN walk.priority ELSE 9 END)
                        ORDER BY r.requires, r.priority, r.due_at LIMIT 1) next
    WHERE walk.steps < 1000 AND walk.first IN ('', next.requires[1]))
  SELECT walk.requires, walk.priority, walk.due_at FROM walk
  WHERE walk.is_satisfied AND walk.steps > 0;
END;

-- What waits in a queue and is due from `since` up to `until`: the first runs of each of the ways
-- that they are claimed by, at most `look` of each priority. Runs with a key, and those that
-- require labels, are read key by key and requirement by requirement, at most 500 of either (or
-- `look`, if that is more); with is_fair an equal part of `look` of each, so that none hides
-- another. The keys are walked as the requirements are, a thousand steps at most. `place` numbers
-- the runs of a way.
CREATE FUNCTION pgcron.waiting_runs(queue text, since timestamptz, until timestamptz, look int,
    is_fair boolean DEFAULT false)
  RETURNS TABLE (id bigint, priority smallint, handler text, schedule_id bigint,
                 due_at timestamptz, requires text[], weight int, place bigint)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
  SELECT c.id, level::smallint, c.handler, c.schedule_id, c.due_at, NULL::text[], c.weight,
         row_number() OVER (PARTITION BY level, c.is_once ORDER BY c.due_at, c.id)
  FROM generate_series(0, 9) level
  CROSS JOIN LATERAL pgcron.path_candidates(waiting_runs.queue, level::smallint,
      waiting_runs.look, NULL, waiting_runs.since, waiting_runs.until) c
  UNION ALL
  (WITH RECURSIVE walk(concurrency_key, priority, due_at, steps) AS (
     SELECT '' COLLATE "C", (-32768)::smallint, NULL::timestamptz, 0
     UNION ALL
     SELECT next.*, walk.steps + 1
     FROM walk
     CROSS JOIN LATERAL (SELECT r.concurrency_key, r.priority, r.due_at FROM pgcron.run r
                         WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
                           AND r.queue = waiting_runs.queue
                           AND (r.concurrency_key, r.priority) > (walk.concurrency_key,
                               walk.priority)
                         ORDER BY r.concurrency_key, r.priority, r.due_at LIMIT 1) next
     WHERE walk.steps < 1000),
   pair AS MATERIALIZED (
     SELECT w.* FROM walk w WHERE w.steps > 0 AND w.due_at <= waiting_runs.until)
   SELECT keyed.* FROM pair
   CROSS JOIN LATERAL (
       SELECT r.id, r.priority, r.handler, r.schedule_id, r.due_at, r.requires, r.weight,
              row_number() OVER (ORDER BY r.due_at, r.id)
       FROM pgcron.run r
       WHERE r.state = 'ready' AND r.concurrency_key = pair.concurrency_key
         AND r.queue = waiting_runs.queue AND r.priority = pair.priority
         AND r.due_at BETWEEN waiting_runs.since AND waiting_runs.until
       ORDER BY r.due_at, r.id
       LIMIT CASE WHEN waiting_runs.is_fair
                    THEN greatest(waiting_runs.look / (SELECT count(*) FROM pair), 1)
                  ELSE waiting_runs.look END) keyed
   LIMIT CASE WHEN NOT waiting_runs.is_fair THEN greatest(waiting_runs.look, 500) END)
  UNION ALL
  (WITH place AS MATERIALIZED (
     SELECT p.* FROM pgcron.walk_requirements(waiting_runs.queue, NULL) p
     WHERE p.due_at <= waiting_runs.until)
   SELECT placed.* FROM place
   CROSS JOIN LATERAL (
       SELECT r.id, r.priority, r.handler, r.schedule_id, r.due_at, r.requires, r.weight,
              row_number() OVER (ORDER BY r.due_at, r.id)
       FROM pgcron.run r
       WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires = place.requires
         AND r.queue = waiting_runs.queue AND r.priority = place.priority
         AND r.due_at BETWEEN waiting_runs.since AND waiting_runs.until
       ORDER BY r.due_at, r.id
       LIMIT CASE WHEN waiting_runs.is_fair
                    THEN greatest(waiting_runs.look / (SELECT count(*) FROM place), 1)
                  ELSE waiting_runs.look END) placed
   LIMIT CASE WHEN NOT waiting_runs.is_fair THEN greatest(waiting_runs.look, 500) END);
END;

-- Whether some node that claims offers the handler for the queue and has the labels.
CREATE FUNCTION pgcron.is_served(handler text, queue text, requires text[]) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
               WHERE o.handler = is_served.handler AND n.state = 'alive'
                 AND is_served.queue = ANY(n.queues)
                 AND (is_served.requires IS NULL
                      OR is_served.requires <@ pgcron.label_words(n.labels)));

-- How many slots the largest node has that lives, offers the handler for the queue and has the
-- labels; NULL when none does. Not a text that would be read with the collation of its arguments,
-- for which there is no index.
CREATE FUNCTION pgcron.largest_server(handler text, queue text, requires text[]) RETURNS int
LANGUAGE sql STABLE
RETURN (
  SELECT max(n.slots) FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
  WHERE o.handler = largest_server.handler AND n.state = 'alive' AND n.lease_until > now()
    AND largest_server.queue = ANY(n.queues)
    AND (largest_server.requires IS NULL
         OR largest_server.requires <@ pgcron.label_words(n.labels)));

-- What runs that are blocked need, one row for each combination: a walk from one to the next, never
-- along their runs, of `most` steps.
CREATE FUNCTION pgcron.blocked_groups(most int)
  RETURNS TABLE (handler text, queue text, requires text[])
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
  WITH RECURSIVE blocked(handler, queue, requires, steps) AS (
    SELECT '', '', '{}'::text[] COLLATE "C", 0
    UNION ALL
    SELECT next.*, blocked.steps + 1 FROM blocked
    CROSS JOIN LATERAL (SELECT r.handler, r.queue, coalesce(r.requires, '{}') AS requires
                        FROM pgcron.run r
                        WHERE r.gate IN ('breaker', 'no_node')
                          AND (r.handler, r.queue, coalesce(r.requires, '{}'))
                              > (blocked.handler, blocked.queue, blocked.requires)
                        ORDER BY r.handler, r.queue, coalesce(r.requires, '{}') LIMIT 1) next
    WHERE blocked.steps < blocked_groups.most)
  SELECT blocked.handler, blocked.queue, blocked.requires FROM blocked WHERE blocked.steps > 0;
END;
