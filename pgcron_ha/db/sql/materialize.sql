-- name: due_cursors
-- Schedules with something to decide: fires before the horizon, or a new generation. No lock: the decision is a compare-and-set.
-- Those of a zone with new rules only when these have been applied to them.
-- Two ends of one index, apart: an OR of them would walk every schedule. Both are in the order of that index, that of the new ones too, who are all
-- alike: where many are new, a planner that expects to find some soon would walk the table from its beginning in every pass.
-- The two take turns, so that a million new schedules don't delay those that are due, nor the other way round. Each schedule is looked up by itself
-- (LIMIT 1): a plan that doesn't know how small :at_most is would rather join the whole table, 200 ms a pass at a million schedules.
SELECT c.schedule_id, c.generation, c.watermark, c.status, s.uuid, s.spec, s.timezone, s.dst, s.calendars, s.catchup, extract(epoch FROM s.catchup_window)::float8 AS catchup_window,
       extract(epoch FROM s.jitter)::float8 AS jitter, extract(epoch FROM s.spread_window)::float8 AS spread_window, s.max_runs, c.runs_made,
       now() AS now
FROM (
  SELECT due.*, row_number() OVER (PARTITION BY due.next_fire IS NULL ORDER BY due.next_fire) AS turn
  FROM (
    (SELECT n.* FROM pgcron.cursor n
     WHERE n.status <> 'invalid' AND NOT n.is_paused AND n.next_fire IS NULL AND NOT n.edit_is_pending
     ORDER BY n.next_fire NULLS FIRST LIMIT :at_most)
    UNION ALL
    (SELECT d.* FROM pgcron.cursor d
     WHERE d.status <> 'invalid' AND NOT d.is_paused AND d.next_fire <= now() + make_interval(secs => :refill::float8) AND NOT d.edit_is_pending
     ORDER BY d.next_fire NULLS FIRST LIMIT :at_most)) due) c
CROSS JOIN LATERAL (
  SELECT k.* FROM pgcron.schedule k
  WHERE k.id = c.schedule_id AND k.enabled
    AND NOT EXISTS (SELECT FROM pgcron.zone_change z WHERE z.done_at IS NULL AND z.zone = k.timezone AND (k.id > z.swept_to OR k.id = ANY(z.postponed)))
  LIMIT 1) s
ORDER BY c.turn, c.next_fire NULLS FIRST LIMIT :at_most;

-- name: materialize
-- One statement for many schedules. A schedule whose generation or watermark has moved (an edit, another node) decides nothing
-- here; a row that somebody has locked is left to them; nor does a node whose zone data are no longer the cluster's. The ledger's primary key makes each fire one row for ever, and only
-- rows that are new there get a run. Runs of schedules with max_runs are counted with the watermark, so that no two nodes make one
-- too many; fires that are due later than they fire have their milliseconds in :delays, by schedule and second.
WITH planned AS (
  SELECT * FROM unnest(:schedule_ids::bigint[], :generations::bigint[], :watermarks::timestamptz[], :new_watermarks::timestamptz[], :next_fires::timestamptz[], :canonicals::text[], :max_runs::int[])
                p(schedule_id, generation, watermark, new_watermark, next_fire, canonical, max_runs)),
held AS MATERIALIZED (
  SELECT c.schedule_id FROM pgcron.cursor c JOIN planned p ON p.schedule_id = c.schedule_id
  WHERE c.schedule_id = ANY(:schedule_ids) AND c.generation = p.generation AND c.watermark = p.watermark AND NOT c.edit_is_pending
    AND (SELECT k.tzdata IS NULL OR k.tzdata = :tzdata::text FROM pgcron.cluster k)
  ORDER BY c.schedule_id FOR UPDATE OF c SKIP LOCKED),
counted AS (
  SELECT f.schedule_id, count(*)::int AS runs FROM unnest(:counted_ids::bigint[], :counted_fires::timestamptz[]) f(schedule_id, fire_at)
  WHERE NOT EXISTS (SELECT FROM pgcron.occurrence_override o WHERE o.schedule_id = f.schedule_id AND o.fire_at = f.fire_at AND o.action = 'skip')
    AND NOT EXISTS (SELECT FROM pgcron.occurrence e WHERE e.schedule_id = f.schedule_id AND e.fire_at = f.fire_at)
  GROUP BY f.schedule_id),
moved AS (
  UPDATE pgcron.cursor c SET watermark = p.new_watermark, runs_made = c.runs_made + coalesce((SELECT n.runs FROM counted n WHERE n.schedule_id = p.schedule_id), 0),
         next_fire = CASE WHEN c.runs_made + coalesce((SELECT n.runs FROM counted n WHERE n.schedule_id = p.schedule_id), 0) >= p.max_runs THEN 'infinity' ELSE p.next_fire END,
         status = 'valid', error = NULL, canonical = p.canonical
  FROM planned p
  WHERE c.schedule_id = ANY(:schedule_ids) AND p.schedule_id = c.schedule_id AND c.schedule_id IN (SELECT schedule_id FROM held)
    AND c.generation = p.generation AND c.watermark = p.watermark AND p.new_watermark >= p.watermark
  RETURNING c.schedule_id, c.generation),
dropped AS (
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason)
  SELECT d.schedule_id, d.first_at, d.last_at, d.fires, d.reason
  FROM unnest(:dropped_ids::bigint[], :dropped_firsts::timestamptz[], :dropped_lasts::timestamptz[], :dropped_counts::int[], :dropped_reasons::text[])
       d(schedule_id, first_at, last_at, fires, reason)
  JOIN moved ON moved.schedule_id = d.schedule_id
  ON CONFLICT (schedule_id, first_at) DO UPDATE SET last_at = greatest(missed.last_at, EXCLUDED.last_at)
  RETURNING fires),
ledger AS (
  INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
  SELECT f.schedule_id, f.fire_at, CASE WHEN o.action = 'skip' THEN 'skipped' ELSE 'run' END,
         CASE WHEN o.action IS NOT NULL THEN pgcron.override_words(o.action, o.due_at, o.actor, o.note) END,
         CASE WHEN o.action IS DISTINCT FROM 'skip' THEN nextval(pg_get_serial_sequence('pgcron.run', 'id')) END
  FROM unnest(:fire_ids::bigint[], :fires::timestamptz[]) f(schedule_id, fire_at)
  JOIN moved ON moved.schedule_id = f.schedule_id
  LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = f.schedule_id AND o.fire_at = f.fire_at
  ON CONFLICT (schedule_id, fire_at) DO NOTHING
  RETURNING schedule_id, fire_at, run_id),
fresh AS (
  INSERT INTO pgcron.run (id, uuid, origin, schedule_id, schedule, scheduled_for, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry,
                          overlap, lane, requires, weight, hold, due_at, expire_at, time_limits, created_by)
  SELECT l.run_id, md5(s.uuid::text || '/' || extract(epoch FROM l.fire_at)::text)::uuid, 'schedule', s.id, s.name, l.fire_at, s.queue, s.priority, s.handler,
         coalesce(o.args, s.args), s.delivery, s.max_attempts, s.timeout, s.retry_base, s.retry_cap, s.retry, pgcron.run_overlap(s.overlap, s.max_running), pgcron.lane_of(s.lane, s.weight), s.requires, nullif(s.weight, 1), CASE WHEN s.depends_on_previous THEN 'previous' END,
         greatest(due.at, now()), least(due.at + CASE WHEN s.start_deadline <= '36525 days' THEN s.start_deadline END, greatest(due.at, now()) + s.give_up_after),
         CASE WHEN num_nonnulls(s.give_up_after, s.silence_timeout) > 0 THEN pgcron.time_limits(s.give_up_after, s.silence_timeout, greatest(due.at, now())) END,
         'schedule'
  FROM ledger l JOIN pgcron.schedule s ON s.id = l.schedule_id
  LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = l.schedule_id AND o.fire_at = l.fire_at
  CROSS JOIN LATERAL (SELECT coalesce(o.due_at, CASE WHEN coalesce(s.jitter, s.spread_window) IS NULL THEN l.fire_at
    ELSE l.fire_at + coalesce((:delays::jsonb ->> (s.id || '/' || extract(epoch FROM l.fire_at)::bigint))::int, 0) * interval '1 millisecond' END) AS at) due
  WHERE l.run_id IS NOT NULL
  ON CONFLICT (schedule_id, scheduled_for) WHERE scheduled_for IS NOT NULL DO NOTHING
  RETURNING id)
SELECT (SELECT count(*) FROM moved) AS schedules, (SELECT count(*) FROM fresh) AS runs, (SELECT count(*) FROM ledger WHERE run_id IS NULL) AS skipped,
       (SELECT coalesce(sum(coalesce(fires, 1000)), 0) FROM dropped)::bigint AS missed;

-- name: take_given_back
SELECT pgcron.take_given_back(:at_most::int) AS schedules;

-- name: mark_invalid
-- A schedule that this node can't read (another version wrote it, a zone vanished) is marked and shown; it stops no other.
UPDATE pgcron.cursor SET status = 'invalid', error = :error::jsonb
WHERE schedule_id = :schedule_id AND generation = :generation AND status <> 'invalid'
RETURNING schedule_id;

-- name: recheck_invalid
-- Another version, or newer zones, may read what this one could not: an invalid schedule is looked at again.
UPDATE pgcron.cursor SET status = 'unchecked', error = NULL, next_fire = NULL WHERE status = 'invalid' RETURNING schedule_id;

-- name: pending_edits
SELECT schedule_id FROM pgcron.cursor WHERE edit_is_pending ORDER BY schedule_id LIMIT :at_most;

-- name: apply_edit
SELECT pgcron.apply_edit(c.schedule_id) FROM pgcron.cursor c WHERE c.schedule_id = :schedule_id AND c.edit_is_pending;
