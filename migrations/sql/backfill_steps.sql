-- How nodes go on with a backfill, a few runs at a time.

-- Counts the runs that have ended since the last call. A backfill that is to stop and has no open
-- run has stopped. Where a run needs the one before it, a failure pauses the backfill; resuming it
-- means to go on without that run's success. The caller has locked the backfill's row. Returns how
-- many runs are open.
CREATE FUNCTION pgcron.settle_backfill(backfill bigint) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  good int;
  bad int;
  still_open int;
  failed_run bigint;
BEGIN
  WITH ended AS MATERIALIZED (
    SELECT o.run_id, o.fire_at, coalesce(h.outcome, 'unknown') AS outcome
    FROM pgcron.backfill_run o
    -- Whatever the clocks did in between, a run did not end a day before it was made; partitions
    -- older than that are not looked into.
    LEFT JOIN LATERAL (SELECT e.outcome FROM pgcron.ended_runs e
                       WHERE e.id = o.run_id AND e.finished_at > o.made_at - interval '1 day'
                       LIMIT 1) h ON true
    WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL
      AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id)),
  forgotten AS (
    DELETE FROM pgcron.backfill_run o USING ended e
    WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id
      AND e.outcome = 'succeeded'),
  kept AS (
    UPDATE pgcron.backfill_run o SET outcome = e.outcome FROM ended e
    WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id
      AND e.outcome <> 'succeeded')
  SELECT count(*) FILTER (WHERE e.outcome = 'succeeded'),
         count(*) FILTER (WHERE e.outcome <> 'succeeded'),
         max(e.run_id) FILTER (WHERE pgcron.is_failure(e.outcome))
  INTO good, bad, failed_run FROM ended e;
  SELECT count(*) INTO still_open FROM pgcron.backfill_run o
  WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL;
  DELETE FROM pgcron.backfill_run o
  WHERE bad > 0 AND o.backfill_id = settle_backfill.backfill AND o.outcome IS NOT NULL
    AND o.run_id < (SELECT n.run_id FROM pgcron.backfill_run n
                    WHERE n.backfill_id = settle_backfill.backfill AND n.outcome IS NOT NULL
                    ORDER BY n.run_id DESC OFFSET 999 LIMIT 1);
  UPDATE pgcron.backfill b SET succeeded = b.succeeded + good, failed = b.failed + bad
  WHERE b.id = settle_backfill.backfill AND good + bad > 0;
  UPDATE pgcron.backfill b SET state = 'stopped', ended_at = now()
  WHERE b.id = settle_backfill.backfill AND b.state = 'stopping' AND still_open = 0;
  UPDATE pgcron.backfill b
  SET state = 'paused', changed_at = now(), changed_by = 'pgcron_ha',
      error = jsonb_build_object(
          'message', format('run %s, of %s, ended %s', o.run_id, o.fire_at, o.outcome),
          'detail', 'With depends_on_previous the instant after it needs its success.',
          'hint', format('Try it again (`pgcron-ha runs retry %s`), then resume; resumed at once, '
              'the backfill goes on without it.', o.run_id))
  FROM pgcron.backfill_run o
  WHERE b.id = settle_backfill.backfill AND o.backfill_id = b.id AND o.run_id = failed_run
    AND (b.definition ->> 'depends_on_previous')::boolean AND b.state IN ('open', 'paused')
    AND (b.planned > b.already + b.created) IS NOT FALSE;
  RETURN still_open;
END $$;

-- Which of these instants the backfill may make runs of: `claim` (nobody has decided them), `again`
-- (a new run of one that was decided, `parent` names its run), `leave`. What was decided, but whose
-- run retention has removed, counts as a success; what retention removed from the ledger counts as
-- undecided. A run that was made of a run (by a retry, a redrive, another backfill) counts for it.
CREATE TYPE pgcron.backfill_instant AS (place bigint, fire_at timestamptz, verdict text,
  parent bigint);
CREATE FUNCTION pgcron.judge_backfill(b pgcron.backfill, instants timestamptz[])
  RETURNS SETOF pgcron.backfill_instant
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
  WITH RECURSIVE given AS MATERIALIZED (
    SELECT g.place, g.fire_at, o.schedule_id IS NOT NULL AS is_decided, o.decision, o.run_id,
           v.action = 'skip' AS is_to_skip,
           EXISTS (SELECT FROM pgcron.run r
                   WHERE r.schedule_id = (judge_backfill.b).schedule_id
                     AND r.scheduled_for = g.fire_at AND r.scheduled_for IS NOT NULL) AS is_live
    FROM unnest(judge_backfill.instants) WITH ORDINALITY g(fire_at, place)
    LEFT JOIN pgcron.occurrence o ON o.schedule_id = (judge_backfill.b).schedule_id
      AND o.fire_at = g.fire_at
    LEFT JOIN pgcron.occurrence_override v ON v.schedule_id = (judge_backfill.b).schedule_id
      AND v.fire_at = g.fire_at),
  family(root, id) AS (
    SELECT g.run_id, g.run_id FROM given g
    WHERE g.run_id IS NOT NULL AND (judge_backfill.b).if_ran <> 'skip'
    UNION
    SELECT f.root, child.id FROM family f
    CROSS JOIN LATERAL (SELECT r.id FROM pgcron.run r WHERE r.parent_run = f.id
                        UNION ALL SELECT h.id FROM pgcron.ended_runs h WHERE h.parent_run = f.id)
      child),
  reported AS MATERIALIZED (
    SELECT f.root, bool_or(r.id IS NOT NULL) AS is_alive,
           bool_or(ended.outcome IS NOT DISTINCT FROM 'succeeded') AS has_succeeded,
           bool_or(ended.outcome <> 'succeeded' OR d.run_id IS NOT NULL) AS has_failed
    FROM family f LEFT JOIN pgcron.run r ON r.id = f.id
    LEFT JOIN LATERAL (SELECT h.outcome FROM pgcron.ended_runs h WHERE h.id = f.id LIMIT 1) ended
      ON true
    LEFT JOIN pgcron.dead_letter d ON d.run_id = f.id GROUP BY f.root)
  SELECT g.place, g.fire_at,
         CASE WHEN NOT g.is_decided
                THEN CASE WHEN g.is_live OR g.is_to_skip THEN 'leave' ELSE 'claim' END
              WHEN (judge_backfill.b).if_ran = 'skip' OR g.is_live OR t.is_alive THEN 'leave'
              WHEN (judge_backfill.b).if_ran = 'all' THEN 'again'
              WHEN g.run_id IS NOT NULL AND NOT t.has_succeeded
                   AND (t.has_failed OR g.decision <> 'run') THEN 'again'
              ELSE 'leave' END,
         g.run_id
  FROM given g LEFT JOIN reported t ON t.root = g.run_id;
END;

-- Takes the next instants of a backfill, in its direction: `instants` follow `reached`, and with
-- `is_last` there are no others. Of two nodes that do it at once one does nothing (the row is
-- locked, or has moved). In the order of locks: the schedule, which a deletion holds; the backfill;
-- then occurrences, by time whatever the direction is, as the materializer takes them. The ledger's
-- primary key makes each fire one row for ever: a fire that another session decides at the same
-- moment is left alone here. Returns nothing when another node is at it; else the state, how many
-- instants were taken, how many runs were made, and what is wrong.
CREATE FUNCTION pgcron.step_backfill(backfill bigint, reached timestamptz, instants timestamptz[],
    is_last boolean) RETURNS TABLE (state text, taken int, made int, problem text)
LANGUAGE plpgsql AS $$
DECLARE
  b pgcron.backfill;
  plan pgcron.schedule;
  room int;
  may_wait int;
  still_open int;
  judged pgcron.backfill_instant[];
  fires timestamptz[];
  policy text;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  SELECT s.* INTO plan FROM pgcron.schedule s
  WHERE s.id = (SELECT f.schedule_id FROM pgcron.backfill f WHERE f.id = step_backfill.backfill)
  FOR KEY SHARE;
  SELECT f.* INTO b FROM pgcron.backfill f
  WHERE f.id = step_backfill.backfill AND f.state IN ('open', 'paused', 'stopping')
  FOR UPDATE SKIP LOCKED;
  IF b.id IS NULL THEN RETURN; END IF;
  still_open := pgcron.settle_backfill(b.id);
  SELECT f.state, f.error ->> 'message' INTO b.state, problem FROM pgcron.backfill f
  WHERE f.id = b.id;
  taken := 0;
  made := 0;
  IF b.state = 'open' AND plan.id IS NOT NULL
      AND b.reached IS NOT DISTINCT FROM step_backfill.reached THEN
    -- the service that drops what is too much reads the schedule as it is now
    may_wait := coalesce(plan.max_queued, 1000);
    -- as runs that wait do, those that are made follow a new name
    plan := jsonb_populate_record(plan, b.definition - 'name');
    room := b.parallelism - still_open;
    policy := pgcron.run_overlap(b.overlap, plan);
    -- What would be dropped, or would stop what runs, is not made before there is a slot for it, or
    -- a place in the queue.
    IF coalesce(b.overlap, plan.overlap) <> 'allow' THEN
      room := least(room,
          pgcron.overlap_open(b.schedule_id, policy)
            + CASE coalesce(b.overlap, plan.overlap) WHEN 'queue' THEN may_wait ELSE 0 END
            - (SELECT count(*) FROM pgcron.due_without_slot d
               WHERE d.schedule_id = b.schedule_id));
    END IF;
    judged := ARRAY(SELECT j FROM pgcron.judge_backfill(b, step_backfill.instants) j);
    IF plan.depends_on_previous AND room > 0
        AND (SELECT p.verdict FROM pgcron.judge_previous(b.schedule_id, (
                 SELECT j.fire_at FROM unnest(judged) j WHERE j.verdict <> 'leave'
                 ORDER BY j.place LIMIT 1)) p) = 'open' THEN
      room := 0;
    END IF;
    SELECT count(*), array_agg(j.fire_at) FILTER (WHERE j.verdict <> 'leave') INTO taken, fires
    FROM (SELECT i.*, count(*) FILTER (WHERE i.verdict <> 'leave') OVER (ORDER BY i.place) AS used
          FROM unnest(judged) i) j
    WHERE j.used <= room;
    IF fires IS NOT NULL THEN
      PERFORM pgcron.reopen_ledger(fires);
      WITH numbered AS MATERIALIZED (
        SELECT f.*, nextval(pg_get_serial_sequence('pgcron.run', 'id')) AS run_id
        FROM (SELECT j.fire_at, j.verdict = 'claim' AS is_claim, j.parent FROM unnest(judged) j
              WHERE j.verdict <> 'leave' AND j.fire_at = ANY(fires) ORDER BY j.place) f),
      ledger AS (
        INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
        SELECT b.schedule_id, n.fire_at, 'run', format('backfill %s', b.id), n.run_id
        FROM numbered n WHERE n.is_claim ORDER BY n.fire_at
        ON CONFLICT (schedule_id, fire_at) DO NOTHING RETURNING run_id),
      fresh AS (
        INSERT INTO pgcron.run
        SELECT r.*
        FROM numbered n
        LEFT JOIN pgcron.occurrence_override o ON n.is_claim AND o.schedule_id = b.schedule_id
          AND o.fire_at = n.fire_at
        CROSS JOIN LATERAL pgcron.run_of_schedule(plan, n.run_id,
            CASE WHEN n.is_claim THEN 'backfill' ELSE 'rerun' END, n.fire_at,
            coalesce(b.args, o.args), policy, now(), NULL, n.parent,
            format('backfill %s by %s', b.id, b.created_by)) r
        WHERE NOT n.is_claim OR n.run_id IN (SELECT l.run_id FROM ledger l)
        RETURNING id, coalesce(scheduled_for, nominal_for) AS fire_at),
      noted AS (
        INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at)
        SELECT b.id, f.id, f.fire_at FROM fresh f RETURNING run_id)
      SELECT count(*) INTO made FROM noted;
    END IF;
    IF step_backfill.is_last AND taken = cardinality(step_backfill.instants)
        AND still_open + made = 0 THEN
      b.state := 'done'; b.ended_at := now();
    END IF;
    UPDATE pgcron.backfill f
    SET reached = coalesce(step_backfill.instants[taken], f.reached),
        already = f.already + taken - made, created = f.created + made, state = b.state,
        ended_at = b.ended_at
    WHERE f.id = b.id AND (taken > 0 OR b.state = 'done');
  END IF;
  state := b.state;
  RETURN NEXT;
END $$;
