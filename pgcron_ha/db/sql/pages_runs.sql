-- name: page_runs_alive
-- Live runs by number, from :before downwards. At most :look rows are looked at, whatever the
-- filters let through: the columns looked, floor and floor_at of every row say how far (if nothing
-- matched, a single row without a run has them). :indexed selects what an index finds at once,
-- however many runs wait, but in no order: those that run, and those that are blocked. With a
-- :schedule_id all runs of that schedule are looked at. The scope costs most, so it is asked of
-- what the filters let through, in order, until the page is full: OFFSET 0 keeps it there. Viewers
-- may not read each column of runs.
WITH looked AS MATERIALIZED (
  SELECT e.id, e.handler, e.queue, e.schedule, e.owner, e.attempt, e.schedule_id, e.tags,
         CASE WHEN e.state = 'running' THEN coalesce(e.started_at, e.claimed_at)
              ELSE e.due_at END AS at,
         CASE WHEN e.state = 'ready' AND e.attempt > 0 THEN 'retrying'
              WHEN e.state <> 'running' AND e.attempt = 0 AND e.due_at > now() THEN 'scheduled'
              ELSE e.state END AS word,
         (:error::text IS NULL
          OR position(lower(:error::text) IN lower(coalesce(e.cancel_reason, e.last_error))) > 0)
           AND (:tags::text[] IS NULL OR e.tags @> :tags::text[]) AS fits
  FROM ((SELECT r.id, r.handler, r.queue, r.schedule, r.owner, r.state, r.attempt, r.due_at,
                r.claimed_at, r.started_at, r.tags, r.cancel_reason, r.last_error, r.schedule_id
         FROM pgcron.run r
         WHERE NOT :indexed::boolean AND :schedule_id::bigint IS NULL AND r.id < :before::bigint
         ORDER BY r.id DESC LIMIT :look::int)
        UNION ALL
        (SELECT r.id, r.handler, r.queue, r.schedule, r.owner, r.state, r.attempt, r.due_at,
                r.claimed_at, r.started_at, r.tags, r.cancel_reason, r.last_error, r.schedule_id
         FROM pgcron.run r
         WHERE r.schedule_id = :schedule_id::bigint LIMIT :look::int)
        UNION ALL
        (SELECT r.id, r.handler, r.queue, r.schedule, r.owner, r.state, r.attempt, r.due_at,
                r.claimed_at, r.started_at, r.tags, r.cancel_reason, r.last_error, r.schedule_id
         FROM pgcron.run r
         WHERE :indexed::boolean AND 'running' = ANY(:states::text[]) AND r.state = 'running'
           AND r.owner IS NOT NULL LIMIT :look::int)
        UNION ALL
        (SELECT r.id, r.handler, r.queue, r.schedule, r.owner, r.state, r.attempt, r.due_at,
                r.claimed_at, r.started_at, r.tags, r.cancel_reason, r.last_error, r.schedule_id
         FROM pgcron.run r
         WHERE :indexed::boolean AND 'blocked' = ANY(:states::text[]) AND r.state = 'blocked'
           AND r.gate IN ('previous', 'breaker', 'no_node', 'overlap') AND r.due_at <= now()
         LIMIT :look::int)) e),
matched AS MATERIALIZED (
  SELECT m.id, m.word, m.at, m.attempt
  FROM (SELECT l.* FROM looked l
        WHERE l.word = ANY(:states::text[]) AND l.id < :before::bigint
          AND (:queue::text IS NULL OR l.queue = :queue::text)
          AND (:handler::text IS NULL OR l.handler = :handler::text)
          AND (:schedule::text IS NULL OR l.schedule = :schedule::text)
          AND (:node::text IS NULL
               OR l.owner IN (SELECT n.incarnation FROM pgcron.node n WHERE n.name = :node::text))
          AND l.at >= :since::timestamptz AND l.at < :until::timestamptz
          AND l.fits
        ORDER BY l.id DESC OFFSET 0) m
  CROSS JOIN LATERAL pgcron.team_of(m.schedule_id, m.queue) t
  WHERE (:owner::text IS NULL OR t.team = :owner::text)
    AND pgcron.in_scope(m.schedule_id, m.queue, m.handler, m.schedule, m.tags, t.team)
  LIMIT :limit::int)
SELECT scan.looked, scan.floor, scan.floor_at, m.id, m.at,
       CASE WHEN m.word = 'retrying'
            AND EXISTS (SELECT FROM pgcron.attempt a
                WHERE a.run_id = m.id AND a.attempt = m.attempt
                  AND a.outcome = 'snoozed') THEN 'snoozed'
            ELSE m.word END AS word
FROM (SELECT count(*) AS looked, min(l.id) AS floor, min(l.at) AS floor_at FROM looked l) scan
LEFT JOIN matched m ON true
ORDER BY m.id DESC;

-- name: page_runs_ended
-- Ended runs by number, as page_runs_alive; with a :schedule_id those of that schedule by their
-- end, from (:end_at, :before) downwards: the index on it leads there, however many runs others
-- have. With :of_letters those that ended dead or lost (and :is_open: were not redriven): few among
-- many, so they are read from a table of their own.
-- :low and :high are bounds of partitions around :since and :until, so that they choose partitions
-- and filter no row: rows that are filtered inside a LIMIT are not counted, and a page could read a
-- day of them.
WITH looked AS MATERIALIZED (
  SELECT h.id, h.outcome, h.handler, h.queue, h.schedule, h.node, h.finished_at, h.schedule_id,
         h.tags,
         CASE WHEN :schedule_id::bigint IS NOT NULL THEN h.finished_at END AS rank,
         (:error::text IS NULL OR position(lower(:error::text) IN lower(h.error)) > 0)
           AND (:tags::text[] IS NULL OR h.tags @> :tags::text[]) AS fits
  FROM ((SELECT e.id, e.outcome, e.handler, e.queue, e.schedule, e.node, e.finished_at, e.error,
                e.tags, e.schedule_id
         FROM pgcron.ended_runs e
         WHERE NOT :of_letters::boolean AND :schedule_id::bigint IS NULL AND e.id < :before::bigint
           AND e.finished_at >= :low::timestamptz AND e.finished_at < :high::timestamptz
         ORDER BY e.id DESC LIMIT :look::int)
        UNION ALL
        (SELECT e.id, e.outcome, e.handler, e.queue, e.schedule, e.node, e.finished_at, e.error,
                e.tags, e.schedule_id
         FROM pgcron.ended_runs e
         WHERE e.schedule_id = :schedule_id::bigint AND e.finished_at <= :end_at::timestamptz
           AND (e.finished_at, e.id) < (:end_at::timestamptz, :before::bigint)
           AND e.finished_at >= :since::timestamptz AND e.finished_at < :until::timestamptz
         ORDER BY e.finished_at DESC, e.id DESC LIMIT :look::int)
        UNION ALL
        (SELECT d.run_id, CASE WHEN d.closed_at IS NULL OR NOT :is_open::boolean THEN d.outcome END,
                d.handler, d.queue, d.schedule, NULL, d.died_at, d.error, d.tags, d.schedule_id
         FROM pgcron.dead_letter d
         WHERE :of_letters::boolean AND d.run_id < :before::bigint
         ORDER BY d.run_id DESC LIMIT :look::int)) h),
matched AS MATERIALIZED (
  SELECT m.id, m.finished_at, m.rank, m.outcome
  FROM (SELECT l.* FROM looked l
        WHERE l.outcome = ANY(:states::text[]) AND (:queue::text IS NULL OR l.queue = :queue::text)
          AND (:handler::text IS NULL OR l.handler = :handler::text)
          AND (:schedule::text IS NULL OR l.schedule = :schedule::text)
          AND (:node::text IS NULL OR l.node = :node::text)
          AND l.finished_at >= :since::timestamptz AND l.finished_at < :until::timestamptz
          AND l.fits
        ORDER BY l.rank DESC, l.id DESC OFFSET 0) m
  CROSS JOIN LATERAL pgcron.team_of(m.schedule_id, m.queue) t
  WHERE (:owner::text IS NULL OR t.team = :owner::text)
    AND pgcron.in_scope(m.schedule_id, m.queue, m.handler, m.schedule, m.tags, t.team)
  LIMIT :limit::int)
SELECT scan.looked, scan.floor, scan.floor_at, m.id, m.finished_at AS at, m.outcome AS word
FROM (SELECT count(*) AS looked, (array_agg(l.id ORDER BY l.rank, l.id))[1] AS floor,
             min(l.finished_at) AS floor_at FROM looked l) scan
LEFT JOIN matched m ON true
ORDER BY m.rank DESC, m.id DESC;

-- name: page_history_start
-- The highest number of a run that was made before :until, by halving: runs get their numbers as
-- they are made, and what ended before an instant was made before it. Each step is one descent of
-- an index; sixty steps halve every number there can be.
WITH RECURSIVE step(low_id, high_id, steps) AS (
  SELECT (SELECT h.id FROM pgcron.ended_runs h ORDER BY h.id LIMIT 1),
         (SELECT h.id FROM pgcron.ended_runs h ORDER BY h.id DESC LIMIT 1), 0
  UNION ALL
  SELECT CASE WHEN p.created_at < :until::timestamptz THEN p.id ELSE s.low_id END,
         CASE WHEN p.created_at < :until::timestamptz THEN s.high_id
              ELSE s.low_id + (s.high_id - s.low_id + 1) / 2 - 1 END,
         s.steps + 1
  FROM step s CROSS JOIN LATERAL (
    SELECT h.id, h.created_at FROM pgcron.ended_runs h
    WHERE h.id >= s.low_id + (s.high_id - s.low_id + 1) / 2 ORDER BY h.id LIMIT 1) p
  WHERE s.high_id > s.low_id AND s.steps < 64)
SELECT coalesce(max(s.low_id), 0) AS id FROM step s;

-- name: page_run_choices
-- What the filters suggest: names that nodes and schedules use.
WITH seen AS MATERIALIZED (
  SELECT s.name, s.queue, s.handler
  FROM (SELECT v.* FROM pgcron.schedule v ORDER BY v.name LIMIT :look::int) s
  WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner))
SELECT ARRAY(SELECT u.name
             FROM (SELECT e.name FROM pgcron.queue e
                   UNION SELECT unnest(n.queues) FROM pgcron.node n WHERE n.state <> 'dead') u
             WHERE pgcron.in_scope(NULL, u.name, NULL, NULL, NULL)
             UNION SELECT s.queue FROM seen s ORDER BY 1 LIMIT :limit::int) AS queues,
       ARRAY(SELECT o.handler FROM pgcron.offer o
             WHERE pgcron.in_scope(NULL, NULL, o.handler, NULL, NULL)
             UNION SELECT s.handler FROM seen s ORDER BY 1 LIMIT :limit::int) AS handlers,
       ARRAY(SELECT DISTINCT n.name FROM pgcron.node n
             WHERE pgcron.in_scope(NULL, NULL, NULL, NULL, NULL)
             ORDER BY 1 LIMIT :limit::int) AS nodes,
       ARRAY(SELECT s.name FROM seen s ORDER BY 1 LIMIT :limit::int) AS schedules;

-- name: page_schedule_id
SELECT s.id FROM pgcron.schedule s
WHERE s.name = :name::text AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner);

-- name: page_key_run
-- The run that an idempotency key names while it lives, or that has the unique key now. Keys are
-- indexed within namespaces: each producer has one, and all other roles share the empty one. The
-- namespaces are read from these indexes, a probe each: keys outlive their producer.
WITH RECURSIVE spaces(namespace) AS (
  SELECT '' COLLATE "C"
  UNION ALL
  SELECT least(
      (SELECT min(i.namespace) FROM pgcron.idempotency i WHERE i.namespace > s.namespace),
      (SELECT min(u.namespace) FROM pgcron.unique_period u WHERE u.namespace > s.namespace))
  FROM spaces s WHERE s.namespace IS NOT NULL
)
SELECT f.run_id
FROM (SELECT i.run_id FROM pgcron.idempotency i
      WHERE i.namespace = ANY(ARRAY(SELECT s.namespace FROM spaces s))
        AND i.key = :key::text AND i.expires_at > now()
      UNION ALL SELECT r.id FROM pgcron.run r
      WHERE r.unique_key = :key AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt)
      UNION ALL SELECT u.run_id FROM pgcron.unique_period u
      WHERE u.namespace = ANY(ARRAY(SELECT s.namespace FROM spaces s))
        AND u.key = :key AND u.until > now()) f
WHERE pgcron.run_in_scope(f.run_id) LIMIT 1;
