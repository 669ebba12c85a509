-- name: due_cursors
-- Schedules with something to decide: fires before the horizon, or a new generation. No lock: the
-- decision is a compare-and-set. Those in :aside are left out. Two ends of one index, apart: an OR
-- of them would walk every schedule. Both are in the order of that index. New ones
-- are all equal in that order, but need it, too: where many are new, a planner that expects to find
-- some soon would walk the table from its beginning in every pass. Four groups take turns: new
-- ones, those most behind, those least behind, and retries of those that the database refused. So
-- no group, however large, delays the others. Each schedule is looked up by itself (LIMIT 1): a
-- plan that does not know that :at_most is small would join the whole table, 200 ms a pass at a
-- million schedules.
WITH open AS NOT MATERIALIZED (
  SELECT u.* FROM pgcron.cursor u
  WHERE NOT u.is_paused AND NOT u.edit_is_pending AND u.schedule_id <> ALL(:aside::bigint[]))
SELECT c.schedule_id, c.generation, c.watermark, c.status, s.name, s.uuid, s.spec, s.timezone,
       s.dst, s.calendars, s.catchup, s.catchup_window, s.jitter, s.max_runs, c.runs_made,
       now() AS now
FROM (
  SELECT DISTINCT ON (due.schedule_id) due.*
  FROM (
    (SELECT n.*, row_number() OVER () AS turn FROM (
      SELECT u.* FROM open u WHERE u.status <> 'invalid' AND u.next_fire IS NULL
      ORDER BY u.next_fire NULLS FIRST LIMIT :at_most) n)
    UNION ALL
    (SELECT d.*, row_number() OVER (ORDER BY d.next_fire) FROM (
      SELECT u.* FROM open u
      WHERE u.status <> 'invalid' AND u.next_fire <= now() + make_interval(secs => :refill::float8)
      ORDER BY u.next_fire NULLS FIRST LIMIT :at_most) d)
    UNION ALL
    (SELECT d.*, row_number() OVER (ORDER BY d.next_fire DESC) FROM (
      SELECT u.* FROM open u
      WHERE u.status <> 'invalid' AND u.next_fire <= now() + make_interval(secs => :refill::float8)
      ORDER BY u.next_fire DESC NULLS LAST LIMIT :at_most) d)
    UNION ALL
    (SELECT r.*, row_number() OVER (ORDER BY r.retry_at) FROM (
      SELECT u.* FROM open u WHERE u.retry_at <= now() ORDER BY u.retry_at LIMIT :at_most) r)) due
  ORDER BY due.schedule_id, due.turn) c
CROSS JOIN LATERAL (
  SELECT k.* FROM pgcron.schedule k WHERE k.id = c.schedule_id AND k.enabled LIMIT 1) s
ORDER BY c.turn, c.next_fire NULLS FIRST LIMIT :at_most;

-- name: materialize
-- One statement for many schedules. A schedule whose generation or watermark has moved (an edit,
-- another node) decides nothing here. A locked row is skipped. A node whose tzdata is not the
-- cluster's decides nothing. The ledger's primary key makes each fire one row for ever, and only
-- rows that are new there get a run. Runs of schedules with max_runs are counted with the
-- watermark, so that no two nodes make one too many. :delays is the time between each schedule's
-- fire and its due time. :uses_updates: these fires are for the updates of assets so far, and no
-- other one is. In arrays, but for what is rare: JSON costs the node twice as much for each fire,
-- and an array of rows the server a seventh more.
WITH planned AS (
  SELECT *
  FROM unnest(:schedule_ids::bigint[], :generations::bigint[], :watermarks::timestamptz[],
              :new_watermarks::timestamptz[], :next_fires::timestamptz[], :canonicals::text[],
              :max_runs::int[], :delays::interval[])
                p(schedule_id, generation, watermark, new_watermark, next_fire, canonical, max_runs,
                  delay)),
fire AS (
  SELECT * FROM unnest(:fire_ids::bigint[], :fires::timestamptz[]) f(schedule_id, fire_at)),
held AS MATERIALIZED (
  SELECT c.schedule_id FROM pgcron.cursor c JOIN planned p ON p.schedule_id = c.schedule_id
  WHERE c.schedule_id = ANY(:schedule_ids) AND c.generation = p.generation
    AND c.watermark = p.watermark AND NOT c.edit_is_pending
    AND (SELECT k.tzdata IS NULL OR k.tzdata = :tzdata::text FROM pgcron.cluster k)
  ORDER BY c.schedule_id FOR UPDATE OF c SKIP LOCKED),
counted AS (
  SELECT f.schedule_id, count(*)::int AS runs
  FROM planned p JOIN fire f ON f.schedule_id = p.schedule_id
  WHERE p.max_runs IS NOT NULL
    AND NOT EXISTS (SELECT FROM pgcron.occurrence_override o
                    WHERE o.schedule_id = f.schedule_id AND o.fire_at = f.fire_at
                      AND o.action = 'skip')
    AND NOT EXISTS (SELECT FROM pgcron.occurrence e
                    WHERE e.schedule_id = f.schedule_id AND e.fire_at = f.fire_at)
  GROUP BY f.schedule_id),
moved AS (
  UPDATE pgcron.cursor c
  SET watermark = p.new_watermark, runs_made = c.runs_made + p.runs,
      next_fire = CASE WHEN c.runs_made + p.runs >= p.max_runs THEN 'infinity'
                       ELSE p.next_fire END,
      status = 'valid', error = NULL, retry_at = NULL, canonical = p.canonical
  FROM (SELECT e.*, coalesce(n.runs, 0) AS runs
        FROM planned e LEFT JOIN counted n ON n.schedule_id = e.schedule_id) p
  WHERE c.schedule_id = ANY(:schedule_ids) AND p.schedule_id = c.schedule_id
    AND c.schedule_id IN (SELECT schedule_id FROM held)
    AND c.generation = p.generation AND c.watermark = p.watermark AND p.new_watermark >= p.watermark
  RETURNING c.schedule_id, c.generation),
dropped AS (
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason)
  SELECT d.schedule_id, d.first, d.last, d.count, d.reason
  FROM jsonb_to_recordset(:missed::text::jsonb)
       d(schedule_id bigint, first timestamptz, last timestamptz, count int, reason text)
  JOIN moved ON moved.schedule_id = d.schedule_id
  ON CONFLICT (schedule_id, first_at) DO UPDATE
      SET last_at = greatest(missed.last_at, EXCLUDED.last_at)
  RETURNING fires),
ledger AS (
  INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
  SELECT f.schedule_id, f.fire_at, CASE WHEN o.action = 'skip' THEN 'skipped' ELSE 'run' END,
         CASE WHEN o.action IS NOT NULL
              THEN pgcron.override_words(o.action, o.due_at, o.actor, o.note) END,
         CASE WHEN o.action IS DISTINCT FROM 'skip'
              THEN nextval(pg_get_serial_sequence('pgcron.run', 'id')) END
  FROM fire f
  JOIN moved ON moved.schedule_id = f.schedule_id
  LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = f.schedule_id AND o.fire_at = f.fire_at
  ON CONFLICT (schedule_id, fire_at) DO NOTHING
  RETURNING schedule_id, fire_at, run_id),
used AS (
  UPDATE pgcron.schedule_asset d SET updated_at = NULL FROM ledger l
  WHERE :uses_updates::boolean AND d.schedule_id = l.schedule_id),
fresh AS (
  INSERT INTO pgcron.run
  SELECT r.*
  FROM ledger l JOIN pgcron.schedule s ON s.id = l.schedule_id
  JOIN planned p ON p.schedule_id = l.schedule_id
  LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = l.schedule_id AND o.fire_at = l.fire_at
  CROSS JOIN LATERAL (SELECT coalesce(o.due_at, l.fire_at + p.delay) AS at) due
  CROSS JOIN LATERAL pgcron.run_of_schedule(s, l.run_id, 'schedule', l.fire_at, o.args,
      pgcron.run_overlap(s.overlap, s.max_running), greatest(due.at, now()),
      due.at + CASE WHEN s.start_deadline <= '36525 days' THEN s.start_deadline END, NULL,
      'schedule') r
  WHERE l.run_id IS NOT NULL
  ON CONFLICT (schedule_id, scheduled_for) WHERE scheduled_for IS NOT NULL DO NOTHING
  RETURNING id, schedule_id, overlap)
SELECT ARRAY(SELECT m.schedule_id FROM moved m) AS moved,
       ARRAY(SELECT DISTINCT f.schedule_id FROM fresh f WHERE f.overlap IS NOT NULL) AS blocked,
       (SELECT count(*) FROM moved) AS schedules,
       (SELECT count(*) FROM fresh) AS runs,
       (SELECT count(*) FROM ledger WHERE run_id IS NULL) AS skipped,
       (SELECT coalesce(sum(coalesce(fires, 1000)), 0) FROM dropped)::bigint AS missed;

-- name: given_back
SELECT g.schedule_id, coalesce(s.name, g.schedule_id::text) AS name FROM (
  SELECT DISTINCT b.schedule_id FROM pgcron.given_back b
  WHERE b.schedule_id <> ALL(:aside::bigint[]) LIMIT :at_most) g
LEFT JOIN pgcron.schedule s ON s.id = g.schedule_id;

-- name: take_given_back
-- A schedule that had ended continues with the runs that are given back.
WITH taken AS (
  DELETE FROM pgcron.given_back g WHERE g.schedule_id = :schedule_id::bigint RETURNING g.runs)
UPDATE pgcron.cursor c
SET runs_made = greatest(c.runs_made - t.runs, 0), next_fire = nullif(c.next_fire, 'infinity')
FROM (SELECT sum(taken.runs)::int AS runs FROM taken) t
WHERE c.schedule_id = :schedule_id AND t.runs IS NOT NULL;

-- name: reopen_ledger
-- Makes the ledger partition of fires for which it is gone or does not exist yet.

-- name: mark_invalid
-- A schedule that this node can't read (another version wrote it, a zone vanished), or whose runs
-- the database refuses, is marked and shown; it stops no other. A refused one is tried again after
-- :retry_after seconds: the database may have changed without notice.
UPDATE pgcron.cursor
SET status = 'invalid', error = :error::jsonb,
    retry_at = now() + make_interval(secs => :retry_after::float8)
WHERE schedule_id = :schedule_id AND generation = :generation
  AND (status <> 'invalid' OR retry_at <= now())
RETURNING schedule_id;

-- name: recheck_invalid
-- Another version may read what was not readable; the same would only find the same again.
UPDATE pgcron.cursor SET status = 'unchecked', error = NULL, next_fire = NULL
WHERE schedule_id = ANY(ARRAY(
  SELECT c.schedule_id FROM pgcron.cursor c
  WHERE c.status = 'invalid' AND c.retry_at IS NULL
    AND c.error ->> 'judge' IS DISTINCT FROM :judge::text
  LIMIT :at_most FOR UPDATE SKIP LOCKED))
RETURNING schedule_id;

-- name: pending_edits
SELECT c.schedule_id, s.name FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE c.edit_is_pending AND c.schedule_id <> ALL(:aside::bigint[]) ORDER BY c.schedule_id
LIMIT :at_most;

-- name: apply_edit
SELECT pgcron.apply_edit(c.schedule_id) FROM pgcron.cursor c
WHERE c.schedule_id = :schedule_id AND c.edit_is_pending;
