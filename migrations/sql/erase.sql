-- Erasure: what is personal in runs that are over is removed; their rows, with outcomes and times,
-- stay, so the ledger is as it was.

-- What stands in place of args that were erased.
CREATE FUNCTION pgcron.erased_args() RETURNS jsonb
LANGUAGE sql IMMUTABLE
RETURN '{"$erased": true}'::jsonb;

-- Which runs are meant: those that all criteria fit that are not NULL.
CREATE TYPE pgcron.erasure AS (run_ids bigint[], concurrency_key text, unique_key text, tag text,
  args jsonb);

-- Runs that criteria fit, and what belongs to them: the workflows that they are steps of, those
-- workflows' steps, runs tried again. `place` is the order in which they are erased, those that
-- criteria fit last, as the others are found by them. `is_alive`: it is not over, or its workflow
-- is not, which reads its result. Not those that were erased.
CREATE FUNCTION pgcron.meant_runs(wanted pgcron.erasure)
  RETURNS TABLE (run_id bigint, place int, is_alive boolean)
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE meant AS MATERIALIZED (
    SELECT DISTINCT a.id
    FROM (SELECT h.id, h.concurrency_key, h.unique_key, h.tags, h.args FROM pgcron.ended_runs h
          WHERE wanted.run_ids IS NULL
          UNION ALL  -- by the index
          SELECT h.id, h.concurrency_key, h.unique_key, h.tags, h.args
          FROM unnest(wanted.run_ids) w(id) JOIN pgcron.ended_runs h ON h.id = w.id
          UNION ALL
          SELECT d.run_id, d.concurrency_key, d.unique_key, d.tags, d.args FROM pgcron.dead_letter d
          UNION ALL
          SELECT r.id, r.concurrency_key, r.unique_key, r.tags, r.args FROM pgcron.run r) a
    WHERE a.args IS DISTINCT FROM pgcron.erased_args()
      AND (wanted.run_ids IS NULL OR a.id = ANY(wanted.run_ids))
      AND (wanted.concurrency_key IS NULL OR a.concurrency_key = wanted.concurrency_key)
      AND (wanted.unique_key IS NULL OR a.unique_key = wanted.unique_key)
      AND (wanted.tag IS NULL OR wanted.tag = ANY(a.tags))
      AND (wanted.args IS NULL OR a.args @> wanted.args)),
  -- the run, and the workflows that it is a step of; the topmost has the lowest id
  above AS (
    SELECT m.id AS below, m.id FROM meant m
    UNION
    SELECT a.below, p.parent_run FROM above a
    CROSS JOIN LATERAL (SELECT h.parent_run FROM pgcron.ended_runs h
                        WHERE h.id = a.id AND h.origin = 'step'
                        UNION ALL
                        SELECT r.parent_run FROM pgcron.run r
                        WHERE r.id = a.id AND r.origin = 'step') p),
  whole AS MATERIALIZED (SELECT DISTINCT min(a.id) AS id FROM above a GROUP BY a.below),
  related AS (
    SELECT w.id, w.id AS top, 0 AS depth FROM whole w
    UNION
    SELECT c.id, r.top, r.depth + 1 FROM related r
    CROSS JOIN LATERAL (SELECT x.id FROM pgcron.run x WHERE x.parent_run = r.id
                        UNION ALL
                        SELECT h.id FROM pgcron.ended_runs h WHERE h.parent_run = r.id) c)
  SELECT g.id, CASE WHEN EXISTS (SELECT FROM meant m WHERE m.id = g.id) THEN 1 ELSE -g.depth END,
         EXISTS (SELECT FROM pgcron.run r WHERE r.id = g.id OR r.id = g.top)
         OR EXISTS (SELECT FROM pgcron.step s JOIN pgcron.workflow_run w ON w.run = s.workflow
                    WHERE s.run = g.id AND w.ended_at IS NULL)
  FROM (SELECT r.id, min(r.top) AS top, max(r.depth) AS depth FROM related r GROUP BY r.id) g
  WHERE NOT EXISTS (SELECT FROM pgcron.ended_runs h
                    WHERE h.id = g.id AND h.args = pgcron.erased_args()) $$;

-- Erases these runs. Returns how many lines of their logs.
CREATE FUNCTION pgcron.erase_runs(run_ids bigint[]) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  handlers text[];
  lines bigint;
  place regclass;
BEGIN
  -- a fallback may have taken a run from the handler that it failed with
  SELECT array_agg(f.handler) INTO handlers
  FROM (SELECT h.handler FROM pgcron.ended_runs h WHERE h.id = ANY(run_ids)
        UNION
        SELECT d.handler FROM pgcron.fallback_run d WHERE d.run_id = ANY(run_ids)
        UNION
        SELECT l.handler FROM pgcron.dead_letter l WHERE l.run_id = ANY(run_ids)) f;
  DELETE FROM pgcron.log l WHERE l.run_id = ANY(run_ids);
  GET DIAGNOSTICS lines = ROW_COUNT;
  DELETE FROM pgcron.progress p WHERE p.run_id = ANY(run_ids);
  DELETE FROM pgcron.callback c WHERE c.run_id = ANY(run_ids);
  DELETE FROM pgcron.idempotency i WHERE i.run_id = ANY(run_ids);
  DELETE FROM pgcron.unique_period u WHERE u.run_id = ANY(run_ids);
  DELETE FROM pgcron.step_signal s WHERE s.workflow = ANY(run_ids);
  UPDATE pgcron.attempt a
  SET error = CASE WHEN a.error IS NOT NULL THEN 'erased' END, traceback = NULL
  WHERE a.run_id = ANY(run_ids);
  UPDATE pgcron.dead_letter d
  SET args = pgcron.erased_args(), error = CASE WHEN d.error IS NOT NULL THEN 'erased' END,
      concurrency_key = NULL, unique_key = NULL, unique_scope = NULL, tags = NULL, note = NULL,
      closed_at = coalesce(d.closed_at, now()), closed_by = coalesce(d.closed_by, pgcron.actor())
  WHERE d.run_id = ANY(run_ids);
  UPDATE pgcron.step s SET args = NULL, result = NULL, reason = NULL
  WHERE s.run = ANY(run_ids) OR s.workflow = ANY(run_ids);
  UPDATE pgcron.step_outbox o SET result = NULL, reason = NULL
  WHERE o.workflow = ANY(run_ids) OR o.run = ANY(run_ids);
  UPDATE pgcron.workflow_run w
  SET args = pgcron.erased_args(), paused_note = NULL, stop_reason = NULL
  WHERE w.run = ANY(run_ids);
  -- A definition without a name has the args of the run that it came with. Those who came with the
  -- same one share it, while they need it; none does from now on.
  WITH unused AS (
    UPDATE pgcron.workflow_definition d
    SET hash = 'erased',
        definition = d.definition || jsonb_build_object('steps',
            (SELECT jsonb_agg(s - 'args') FROM jsonb_array_elements(d.definition -> 'steps') s))
    WHERE d.id IN (SELECT w.definition FROM pgcron.workflow_run w WHERE w.run = ANY(run_ids))
      AND d.name = 'ad_hoc' AND d.hash <> 'erased'
      AND NOT EXISTS (SELECT FROM pgcron.workflow_run w
                      WHERE w.definition = d.id AND w.ended_at IS NULL)
    RETURNING d.id)
  UPDATE pgcron.workflow_step s SET args = NULL FROM unused u WHERE s.definition = u.id;
  -- the last failure of a breaker may be one of theirs
  UPDATE pgcron.breaker b SET last_error = NULL
  WHERE b.last_error IS NOT NULL
    AND (b.name = ANY(handlers)
         OR EXISTS (SELECT FROM pgcron.breaker_handler u
                    WHERE u.breaker = b.name AND u.handler = ANY(handlers)));
  UPDATE pgcron.occurrence o SET reason = split_part(o.reason, ': ', 1)
  FROM pgcron.ended_runs h
  WHERE h.id = ANY(run_ids) AND o.schedule_id = h.schedule_id AND o.fire_at = h.scheduled_for
    AND o.reason LIKE '%: %';
  FOREACH place IN ARRAY ARRAY['pgcron.history', 'pgcron.history_overflow']::regclass[] LOOP
    EXECUTE format($sql$
      UPDATE %s h
      SET args = pgcron.erased_args(), result = NULL,
          error = CASE WHEN h.error IS NOT NULL THEN 'erased' END,
          cancel_reason = CASE WHEN h.cancel_reason IS NOT NULL THEN 'erased' END,
          concurrency_key = NULL, unique_key = NULL, unique_scope = NULL, tags = NULL
      WHERE h.id = ANY($1)$sql$, place) USING run_ids;
  END LOOP;
  RETURN lines;
END $$;

-- Erases these args in what schedules were: versions, edited fires and backfills that are over.
-- Returns how many, and the names of schedules that have them still.
CREATE FUNCTION pgcron.erase_definitions(args jsonb, dry_run boolean, at_most int,
    OUT erased bigint, OUT schedules text[])
LANGUAGE sql AS $$
  WITH versions AS MATERIALIZED (
    SELECT v.schedule_id, v.version, v.operation FROM pgcron.schedule_version v
    WHERE v.content -> 'args' @> erase_definitions.args
      AND NOT EXISTS (SELECT FROM pgcron.schedule s
                      WHERE s.id = v.schedule_id AND s.version = v.version)
    LIMIT at_most),
  fires AS MATERIALIZED (
    SELECT o.schedule_id, o.fire_at FROM pgcron.occurrence_override o
    WHERE o.fire_at < now() AND o.args @> erase_definitions.args LIMIT at_most),
  backfills AS MATERIALIZED (
    SELECT b.id FROM pgcron.backfill b
    WHERE b.ended_at IS NOT NULL
      AND erase_definitions.args <@ ANY(ARRAY[b.args, b.definition -> 'args']) LIMIT at_most),
  written_versions AS (
    UPDATE pgcron.schedule_version v
    SET content = v.content || jsonb_build_object('args', pgcron.erased_args())
    FROM versions o
    WHERE NOT dry_run
      AND (v.schedule_id, v.version, v.operation) = (o.schedule_id, o.version, o.operation)),
  written_fires AS (
    UPDATE pgcron.occurrence_override o SET args = '{}', note = NULL FROM fires f
    WHERE NOT dry_run AND (o.schedule_id, o.fire_at) = (f.schedule_id, f.fire_at)),
  written_backfills AS (
    UPDATE pgcron.backfill b
    SET args = NULL, note = NULL,
        definition = b.definition || jsonb_build_object('args', pgcron.erased_args())
    FROM backfills o WHERE NOT dry_run AND b.id = o.id)
  SELECT (SELECT count(*) FROM versions) + (SELECT count(*) FROM fires)
         + (SELECT count(*) FROM backfills),
         (SELECT array_agg(s.name ORDER BY s.name) FROM pgcron.schedule s
          WHERE s.args @> erase_definitions.args
            OR EXISTS (SELECT FROM pgcron.occurrence_override o WHERE o.schedule_id = s.id
                         AND o.fire_at >= now() AND o.args @> erase_definitions.args)
            OR EXISTS (SELECT FROM pgcron.backfill b WHERE b.schedule_id = s.id
                         AND b.ended_at IS NULL
                         AND erase_definitions.args <@ ANY(ARRAY[b.args, b.definition -> 'args'])))
  $$;

-- Erases args, results, log lines, errors and keys of runs that all criteria fit, and of what
-- belongs to them, at most `at_most` in a call: call it until `runs` and `definitions` are 0. What
-- is alive is left, and its ids are returned (at most 100); with `cancel` it is cancelled first.
-- With dry_run nothing is changed. The audit has the kinds of the criteria and the counts, and no
-- value.
CREATE FUNCTION pgcron.erase(run_ids bigint[] DEFAULT NULL, concurrency_key text DEFAULT NULL,
    unique_key text DEFAULT NULL, idempotency_key text DEFAULT NULL, tag text DEFAULT NULL,
    args_contain jsonb DEFAULT NULL, cancel boolean DEFAULT false, dry_run boolean DEFAULT false,
    at_most int DEFAULT 1000, actor text DEFAULT NULL, OUT runs bigint, OUT log_lines bigint,
    OUT definitions bigint, OUT alive bigint[], OUT schedules text[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  wanted pgcron.erasure;
  targets bigint[];
  kinds text := concat_ws(', ', 'run' || left(run_ids::text, 0), 'key' || left(concurrency_key, 0),
    'unique key' || left(unique_key, 0), 'idempotency key' || left(idempotency_key, 0),
    'tag' || left(tag, 0), 'args' || left(args_contain::text, 0));
BEGIN
  PERFORM pgcron.refuse('PC001', 'nothing says what is to be erased',
      'Runs are chosen by ids, a key, a tag, or some of their args (a JSON object).',
      'Name them, for example by args that they contain: {"customer": 7}.')
    WHERE kinds = '' OR args_contain = '{}' OR jsonb_typeof(args_contain) <> 'object';
  PERFORM pgcron.refuse('PC001', 'too much is to be erased at once',
      'One call erases 1 to 10000 runs.', 'Call it until it erases nothing.')
    WHERE (at_most BETWEEN 1 AND 10000) IS NOT TRUE OR cardinality(run_ids) > 10000;
  PERFORM pgcron.refuse('PC010', 'none of these runs exists',
      'Of a run that retention has removed nothing is left to erase.', 'Correct the ids.')
    WHERE run_ids <> '{}'
      AND NOT EXISTS (SELECT FROM pgcron.runs v WHERE v.id = ANY(run_ids))
      AND NOT EXISTS (SELECT FROM pgcron.dead_letter d WHERE d.run_id = ANY(run_ids));
  IF idempotency_key IS NOT NULL THEN
    run_ids := ARRAY(SELECT i.run_id FROM pgcron.idempotency i WHERE i.key = idempotency_key
                       AND (erase.run_ids IS NULL OR i.run_id = ANY(erase.run_ids)));
  END IF;
  wanted := ROW(run_ids, concurrency_key, unique_key, tag, args_contain);
  PERFORM pgcron.act_as(actor, pgcron.interface());
  PERFORM pgcron.stop_run(m.run_id, false, NULL, actor)
    FROM (SELECT m.run_id FROM pgcron.meant_runs(wanted) m JOIN pgcron.run r ON r.id = m.run_id
          WHERE cancel AND NOT dry_run AND r.cancel_at IS NULL ORDER BY m.run_id LIMIT at_most) m;
  SELECT coalesce(array_agg(m.run_id ORDER BY m.place) FILTER (WHERE NOT m.is_alive), '{}'),
         (array_agg(m.run_id ORDER BY m.run_id) FILTER (WHERE m.is_alive))[1:100]
  INTO targets, alive FROM pgcron.meant_runs(wanted) m;
  runs := least(cardinality(targets), CASE WHEN dry_run THEN NULL ELSE at_most END);
  log_lines := CASE WHEN NOT dry_run THEN pgcron.erase_runs(targets[1:at_most]) ELSE 0 END;
  SELECT d.erased, d.schedules INTO definitions, schedules
  FROM pgcron.erase_definitions(args_contain, dry_run, at_most) d;
  PERFORM pgcron.record_audit('erase', 'run', NULL, actor, 'by ' || kinds, NULL,
      jsonb_build_object('runs', runs, 'log_lines', log_lines, 'definitions', definitions))
    WHERE NOT dry_run AND runs + definitions > 0;
END $$;
COMMENT ON FUNCTION pgcron.erase IS
    'Erases args, results, log lines, errors and keys of runs that are over; the ledger stays.';
