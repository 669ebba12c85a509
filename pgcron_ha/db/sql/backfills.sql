-- name: backfill

-- name: pause_backfill

-- name: resume_backfill

-- name: stop_backfill
-- ready -> cancelled
-- blocked -> cancelled

-- name: decided_between
-- How many instants of the range have a row of their own in the ledger.
SELECT count(*)::int AS instants FROM pgcron.occurrence o
WHERE o.schedule_id = :schedule_id::bigint AND o.fire_at >= :since::timestamptz
  AND o.fire_at < :until::timestamptz;

-- name: list_backfills
SELECT b.* FROM pgcron.backfills b LEFT JOIN pgcron.schedule s ON s.id = b.schedule_id
CROSS JOIN LATERAL pgcron.team_of(s.id, s.queue) t
WHERE (:schedule_id::bigint IS NULL OR b.schedule_id = :schedule_id)
  AND (:state::text IS NULL OR b.state = :state)
  AND (:owner::text IS NULL OR t.team = :owner::text)
  AND (:tags::text[] IS NULL OR s.tags @> :tags::text[])
  AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY b.id DESC LIMIT :limit;

-- name: one_backfill
SELECT b.* FROM pgcron.backfills b WHERE b.id = :backfill::bigint;

-- name: runs_of_backfill
-- Those that are open, then the last ones that did not succeed.
SELECT o.run_id AS id, o.fire_at, o.made_at, coalesce(o.outcome, r.state) AS state,
       w.waits_for, w.waits_detail, r.attempt, r.due_at, r.started_at, n.name AS node,
       CASE WHEN o.outcome IS NULL THEN r.last_error
            ELSE (SELECT h.error FROM pgcron.history h WHERE h.id = o.run_id
                    AND h.finished_at > o.made_at - interval '1 day' LIMIT 1) END AS error
FROM (SELECT b.* FROM pgcron.backfill_run b WHERE b.backfill_id = :backfill::bigint
      ORDER BY b.outcome IS NOT NULL, b.run_id DESC LIMIT :limit) o
LEFT JOIN pgcron.run r ON r.id = o.run_id
LEFT JOIN pgcron.node n ON n.incarnation = r.owner
LEFT JOIN LATERAL (SELECT v.* FROM pgcron.waiting v WHERE v.id = o.run_id LIMIT 1) w ON true
ORDER BY o.outcome IS NOT NULL, o.run_id DESC;

-- name: open_backfills
-- Those under way behind :after, by id; has_work: there is room for more runs, or runs have ended;
-- false for a node whose tzdata is not the cluster's.
SELECT b.id, b.schedule_id, b.schedule, b.state, b.since, b.until, b.direction, b.if_ran,
       b.reached, b.planned, b.definition ->> 'uuid' AS uuid, b.definition ->> 'spec' AS spec,
       b.definition ->> 'timezone' AS timezone, b.definition -> 'calendars' AS calendars,
       b.definition ->> 'dst' AS dst, b.parallelism - held.open AS room,
       ((b.state = 'open' AND held.open < b.parallelism) OR held.ended > 0
        OR (b.state = 'stopping' AND held.open = held.ended))
       AND (SELECT k.tzdata IS NULL OR k.tzdata = :tzdata::text FROM pgcron.cluster k) AS has_work
FROM (SELECT u.* FROM pgcron.backfill u
WHERE u.state IN ('open', 'paused', 'stopping') AND u.id > :after::bigint
  AND u.id <> ALL(:aside::bigint[])
ORDER BY u.id LIMIT :at_most) b
CROSS JOIN LATERAL (
  SELECT count(*)::int AS open,
         count(*) FILTER (WHERE NOT EXISTS (SELECT FROM pgcron.run r
             WHERE r.id = o.run_id))::int AS ended
  FROM pgcron.backfill_run o WHERE o.backfill_id = b.id AND o.outcome IS NULL) held
ORDER BY b.id;

-- name: step_backfill

-- name: plan_backfill
-- How many instants it has, once for all.
UPDATE pgcron.backfill b SET planned = :planned WHERE b.id = :backfill::bigint AND b.planned IS NULL
RETURNING b.id;

-- name: give_up_backfill
-- It can't go on: its spec can't be read any more, or has too many instants. Runs that it has made
-- are not changed.
UPDATE pgcron.backfill b SET state = 'stopping', changed_at = now(), error = :error::jsonb
WHERE b.id = :backfill::bigint AND b.state IN ('open', 'paused') RETURNING b.id;

-- name: forget_backfills
-- forgets: pgcron.backfill
-- Over for as long as the ledger is kept.
o.ended_at < (SELECT pgcron.kept_since('occurrence'));
