-- name: control_duties
-- Which of the statements below, and of those of pending edits and runs given back, have anything
-- to do: a node with nothing to do sends one statement instead of six. Each reads one index of rows
-- that exist for that duty only; naming too many does no harm.
SELECT array_remove(ARRAY[
  CASE WHEN EXISTS (SELECT FROM pgcron.cursor c WHERE c.edit_is_pending) THEN 'pending_edits' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.schedule s WHERE s.paused_until <= now())
       THEN 'overdue_pauses' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.fire_failure f WHERE NOT f.is_judged)
       THEN 'failing_schedules' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.occurrence_override o
                    WHERE o.action = 'move' AND o.due_at < o.fire_at AND o.fire_at > now()
                      AND o.due_at <= now() + make_interval(secs => :horizon::float8)
                      AND NOT EXISTS (SELECT FROM pgcron.occurrence e
                                      WHERE e.schedule_id = o.schedule_id
                                        AND e.fire_at = o.fire_at))
       THEN 'early_fires' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.given_back) THEN 'given_back' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.asset_update)
         OR EXISTS (SELECT FROM pgcron.schedule_asset d WHERE d.updated_at IS NOT NULL)
       THEN 'updated_assets' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.cluster c WHERE c.tzdata IS DISTINCT FROM :tzdata::text)
       THEN 'tzdata' END,
  CASE WHEN EXISTS (SELECT FROM pgcron.outdated_plan)
         OR EXISTS (SELECT FROM pgcron.cluster c WHERE c.replan_after IS NOT NULL)
       THEN 'outdated_plans' END], NULL) AS duties;

-- name: take_tzdata
-- The newest of the living nodes decides; a node that stops gives way at once. What it decided
-- before is decided anew.
UPDATE pgcron.cluster c
SET tzdata = :tzdata::text,
    replan_after = CASE WHEN before.tzdata IS NOT NULL
                        OR EXISTS (SELECT FROM pgcron.cursor u WHERE u.status = 'valid') THEN 0 END
FROM (SELECT k.tzdata FROM pgcron.cluster k) before
WHERE c.tzdata IS DISTINCT FROM :tzdata::text
  AND :tzdata::text = (SELECT max(n.tzdata) FROM pgcron.node n
      WHERE n.state IN ('alive', 'cordoned'))
RETURNING before.tzdata AS before;

-- name: note_outdated_plans
-- The next schedules by id, without those in UTC, whose rules never change. No cursor is locked: an
-- edit of a schedule delays only that one.
WITH held AS MATERIALIZED (SELECT c.replan_after FROM pgcron.cluster c
WHERE c.replan_after IS NOT NULL FOR UPDATE),
part AS MATERIALIZED (
  SELECT p.id, p.timezone FROM held h
  CROSS JOIN LATERAL (SELECT s.id, s.timezone FROM pgcron.schedule s WHERE s.id > h.replan_after
  ORDER BY s.id LIMIT :at_most) p),
noted AS (
  INSERT INTO pgcron.outdated_plan (schedule_id) SELECT p.id FROM part p WHERE p.timezone <> 'UTC'
  ON CONFLICT DO NOTHING)
UPDATE pgcron.cluster c SET replan_after = (SELECT max(p.id) FROM part p) FROM held
RETURNING c.replan_after;

-- name: outdated_plans
SELECT p.schedule_id, coalesce(s.name, p.schedule_id::text) AS name FROM pgcron.outdated_plan p
LEFT JOIN pgcron.schedule s ON s.id = p.schedule_id
WHERE p.schedule_id <> ALL(:aside::bigint[]) ORDER BY p.schedule_id LIMIT :at_most;

-- name: replan
SELECT pgcron.replan(:schedule_id::bigint);

-- name: overdue_pauses
-- Pauses with an end that has passed; found by an index of the pauses that have an end.
SELECT s.id AS schedule_id, s.name FROM pgcron.schedule s
WHERE s.paused_until <= now() AND s.id <> ALL(:aside::bigint[]) ORDER BY s.paused_until
LIMIT :at_most;

-- name: resume_overdue
-- Of a schedule whose pause is over by the database's clock; fires from its end on are owed. Of
-- several nodes one does it.
UPDATE pgcron.schedule s SET enabled = true FROM pgcron.act_as('pgcron_ha', 'clock')
WHERE s.id = :schedule_id AND NOT s.enabled AND s.paused_until <= clock_timestamp()
RETURNING s.id;

-- name: early_fires
-- Fires that were moved to before their time and are due within :horizon: they are decided ahead of
-- the cursor, which comes to them later.
SELECT o.schedule_id, o.fire_at, c.generation, c.watermark, c.next_fire, s.name, s.uuid, s.spec,
       s.timezone, s.dst, s.calendars, s.jitter, s.max_runs
FROM pgcron.occurrence_override o JOIN pgcron.cursor c ON c.schedule_id = o.schedule_id
JOIN pgcron.schedule s ON s.id = o.schedule_id
WHERE o.action = 'move' AND o.due_at < o.fire_at
  AND o.due_at <= now() + make_interval(secs => :horizon::float8)
  AND o.fire_at > greatest(c.watermark, now())
  AND s.enabled AND c.status = 'valid' AND NOT c.edit_is_pending
  AND (s.max_runs IS NULL OR c.runs_made < s.max_runs)
  AND NOT EXISTS (SELECT FROM pgcron.occurrence e
      WHERE e.schedule_id = o.schedule_id AND e.fire_at = o.fire_at)
  AND o.schedule_id <> ALL(:aside::bigint[])
ORDER BY o.due_at LIMIT :at_most;

-- name: settle_assets

-- name: updated_assets
-- Schedules whose assets were all updated since their last run, which fire now: by the second, as
-- all fires. Updates that come before a run has begun are for that run, and with overlap skip those
-- that come before it is over are for the next one.
SELECT s.id AS schedule_id, fire.at AS fire_at, c.generation, c.watermark, c.next_fire, s.name,
       s.uuid, s.spec, s.timezone, s.dst, s.calendars, s.jitter, s.max_runs
FROM (SELECT DISTINCT d.schedule_id FROM pgcron.schedule_asset d WHERE d.updated_at IS NOT NULL) u
JOIN pgcron.schedule s ON s.id = u.schedule_id JOIN pgcron.cursor c ON c.schedule_id = s.id
CROSS JOIN date_trunc('second', now()) fire(at)
WHERE s.enabled AND c.status = 'valid' AND NOT c.edit_is_pending
  AND (s.max_runs IS NULL OR c.runs_made < s.max_runs)
  AND NOT EXISTS (SELECT FROM pgcron.schedule_asset d
                  WHERE d.schedule_id = s.id AND d.updated_at IS NULL)
  AND NOT EXISTS (SELECT FROM pgcron.run r
                  WHERE r.schedule_id = s.id AND r.origin = 'schedule' AND r.attempt = 0)
  AND (s.overlap <> 'skip'
       OR pgcron.overlap_open(s.id, pgcron.run_overlap(s.overlap, s.max_running)) > 0)
  AND s.id <> ALL(:aside::bigint[])
ORDER BY s.id LIMIT :at_most;

-- name: skip_occurrence

-- name: move_occurrence

-- name: edit_occurrence

-- name: restore_occurrence

-- name: changed_occurrences
-- Those of a schedule that lie ahead, by their time.
SELECT o.fire_at, o.action, o.due_at, o.args::text AS args, o.note, o.actor, o.at
FROM pgcron.occurrence_override o
WHERE o.schedule_id = :schedule_id::bigint
  AND o.fire_at < '10000-01-01'  -- later ones break the table's rules, and have no date in Python
  AND greatest(o.fire_at, o.due_at) > now()
ORDER BY o.fire_at LIMIT :at_most::int;

-- name: forget_overrides
-- forgets: pgcron.occurrence_override
-- Of fires that are decided and so old that the ledger forgets them.
greatest(o.fire_at, o.due_at) < (SELECT pgcron.kept_since('occurrence'));

-- name: failing_schedules
-- Schedules with failures that are not evaluated yet.
SELECT DISTINCT f.schedule_id, coalesce(s.name, f.schedule_id::text) AS name
FROM pgcron.fire_failure f LEFT JOIN pgcron.schedule s ON s.id = f.schedule_id
WHERE NOT f.is_judged AND f.schedule_id <> ALL(:aside::bigint[]) LIMIT :at_most;

-- name: judge_failures
SELECT pgcron.judge_failures(:schedule_id) AS verdict;

-- name: forget_fire_failures
-- forgets: pgcron.fire_failure
-- Before a success, while history still knows of it; or of a schedule that doesn't count them any
-- more.
o.failed_at <= pgcron.last_success(o.schedule_id, o.failed_at)
  OR NOT EXISTS (SELECT FROM pgcron.schedule s
                 WHERE s.id = o.schedule_id AND s.pause_after_failures IS NOT NULL);
