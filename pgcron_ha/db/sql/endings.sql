-- name: finish_runs
-- running -> succeeded
-- The token is the fence: what is not returned belongs to somebody else, or has ended. One
-- statement moves the row from the hot table to history, so a run that has ended can't be found
-- alive again. A row with a token is running (a constraint says so); asking for the state as well
-- would lead the planner to the index of running rows. Steps of workflows release what waits for
-- them.
WITH ended AS (
  DELETE FROM pgcron.run r
  USING unnest(:run_ids::bigint[], :tokens::uuid[]) given(id, token)
  WHERE r.id = ANY(:run_ids) AND r.id = given.id AND r.token = given.token
  RETURNING r.*),
finished AS (
  INSERT INTO pgcron.history
  SELECT h.*
  FROM ended e
  JOIN unnest(:run_ids, :tokens, :elapsed_seconds::float8[], :results::text[])
      given(id, token, elapsed, result) ON given.id = e.id AND given.token = e.token
  CROSS JOIN LATERAL pgcron.history_of(ROW(e.*)::pgcron.run, 'succeeded', NULL, :node,
      given.result::jsonb, now(), now() - given.elapsed * interval '1 second',
      e.id = ANY(:without_args::bigint[])) h
  RETURNING id, origin, result),
released AS (
  SELECT pgcron.release_succeeded(array_agg(f.id), array_agg(f.result::text)) FROM finished f
  WHERE f.origin = 'step' HAVING count(*) > 0)
SELECT f.id FROM finished f WHERE (SELECT count(*) FROM released) >= 0;

-- name: fail_runs
-- running -> ready
-- running -> dead
-- running -> lost
-- running -> cancelled

-- name: finish_late
-- ready -> succeeded
-- blocked -> succeeded
-- What finish_runs has refused, where the run waits since its node was cut off and nobody has begun
-- it.

-- name: locked_runs
-- Those of these claims whose rows are locked by others, after a completion had to wait for one.
-- The other rows are locked here for a moment only.
WITH mine AS MATERIALIZED (
  SELECT r.id FROM pgcron.run r
  JOIN unnest(:run_ids::bigint[], :tokens::uuid[]) given(id, token) ON r.id = given.id
      AND r.token = given.token
  WHERE r.id = ANY(:run_ids))
SELECT m.id FROM mine m WHERE m.id <> ALL(ARRAY(
  SELECT r.id FROM pgcron.run r WHERE r.id = ANY(ARRAY(SELECT n.id FROM mine n))
  FOR UPDATE SKIP LOCKED));

-- name: end_refused_run
-- running -> dead
-- ready -> dead
-- blocked -> dead
-- One run that the database refuses to write as usual, with the server's words; :token is NULL for
-- a run that waits.
SELECT pgcron.end_refused_run(:run_id, :token, :reason, :node);

-- name: release_runs
-- running -> ready
-- By the living owner: the handler never began, so the attempt is given back. A unique key that it
-- had while it waited may be another run's by now, and is not. :weights (NULL: as before) records
-- how many slots the handler takes there, which the row did not know: the run then waits with the
-- heavy runs.
UPDATE pgcron.run r
SET state = 'ready', owner = NULL, token = NULL, fence = NULL, claimed_at = NULL, started_at = NULL,
    attempt = r.attempt - 1, key_slot = NULL,
    unique_scope = CASE r.unique_scope WHEN 'waiting' THEN 'taken' ELSE r.unique_scope END,
    cancel_at = NULL,
    lost_early = CASE WHEN r.lost_early > 0 THEN 1 END, weight = coalesce(given.weight, r.weight),
    concurrency_key = pgcron.concurrency_key_of(r.concurrency_key, given.weight)
FROM unnest(:run_ids::bigint[], :tokens::uuid[], :weights::int[]) given(id, token, weight)
WHERE r.id = ANY(:run_ids) AND r.id = given.id AND r.token = given.token AND r.cancel_at IS NULL
RETURNING r.id;

-- name: prepare_runs
-- Called before a node prepares runs; returns those whose last node ended before their handlers
-- were seen to begin.
UPDATE pgcron.run r SET lost_early = 2
FROM unnest(:run_ids::bigint[], :tokens::uuid[]) given(id, token)
WHERE r.id = ANY(:run_ids) AND r.id = given.id AND r.token = given.token
  AND r.lost_early IS NOT NULL
RETURNING r.id;

-- name: mark_started
-- Only long runs are marked while they run; short ones record their start when they end.
-- A run that lasts also learns here which time limits it has beside its timeout: a claim does not
-- carry what few have. If the answer is lost, a second call returns the same. Nothing is written
-- twice: the handler's transaction of a transactional run must find its row unchanged.
WITH marked AS (
  UPDATE pgcron.run r SET started_at = now() - given.elapsed * interval '1 second'
  FROM unnest(:run_ids::bigint[], :tokens::uuid[], :elapsed_seconds::float8[]) given(id, token,
              elapsed)
  WHERE r.id = ANY(ARRAY(SELECT f.id FROM pgcron.run f
  WHERE f.id = ANY(:run_ids) AND f.started_at IS NULL FOR NO KEY UPDATE SKIP LOCKED))
    AND r.id = given.id AND r.token = given.token AND r.started_at IS NULL
  RETURNING r.id)
SELECT r.id, r.started_at IS NOT NULL
    OR EXISTS (SELECT FROM marked m WHERE m.id = r.id) AS is_marked,
        (r.time_limits ->> 'silence_timeout')::float8 AS silence_timeout,
       date_part('epoch', pgcron.give_up_at(r.time_limits) - clock_timestamp()) AS give_up_in
FROM pgcron.run r
JOIN unnest(:run_ids::bigint[], :tokens::uuid[]) given(id, token) ON r.id = given.id
    AND r.token = given.token
WHERE r.id = ANY(:run_ids);

-- name: ended_by_fence
-- After an answer that got lost: did this claim's completion arrive? The fence number names the
-- claim.
SELECT h.id FROM pgcron.history h
JOIN unnest(:run_ids::bigint[], :fences::bigint[]) given(id, fence) ON h.id = given.id
    AND h.fence = given.fence
WHERE h.id = ANY(:run_ids)
UNION ALL
SELECT a.run_id FROM pgcron.attempt a
JOIN unnest(:run_ids::bigint[], :fences::bigint[]) given(id, fence) ON a.run_id = given.id
    AND a.fence = given.fence
WHERE a.run_id = ANY(:run_ids);

-- name: finish_run
-- running -> succeeded
-- Inside the transaction that holds the handler's effects; raises PC012 when the claim is over.
-- `is_same`: no statement of the handler has ended the transaction that the node began, and begun
-- another. What the handler declares (assets, steps) comes with it: both are true, or neither.
SELECT CASE WHEN :declared::text IS NOT NULL
            THEN pgcron.keep_declared(:run_id::bigint, :declared::text::jsonb) END,
       pgcron.finish_run(:run_id, :token, :elapsed, :result, :node, :keep_args),
       coalesce(current_setting('pgcron_ha.transaction', true) = 'open', false) AS is_same;

-- name: previous_result
-- The last run that has ended of an earlier fire of this run's schedule.
SELECT p.run AS run_id, p.fire_time, p.outcome, p.finished_at, p.result::text AS result, p.error
FROM pgcron.run r
CROSS JOIN LATERAL pgcron.previous_run(r.schedule_id, coalesce(r.scheduled_for, r.nominal_for)) p
WHERE r.id = :run_id::bigint AND r.schedule_id IS NOT NULL AND p.run IS NOT NULL;
