-- What stops a workflow, and which of its steps run again.

-- Ends the runs of these steps, as far as they are not locked: what executes is asked to stop.
-- Returns how many are alive yet.
CREATE FUNCTION pgcron.stop_step_runs(run_ids bigint[], by_force boolean, reason text) RETURNS int
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.end_each_waiting_run(ARRAY(
      SELECT r.id FROM pgcron.run r
      WHERE r.id = ANY(run_ids) AND r.state <> 'running'
        AND NOT EXISTS (      -- a workflow that was asked before
            SELECT FROM pgcron.workflow_run w
            WHERE w.run = r.id AND r.gate = 'workflow'
              AND (w.stopping = 'abort' OR w.stopping = 'cancel' AND NOT by_force))
      LIMIT 1000), 'cancelled', reason, NULL, by_force);
  PERFORM pgcron.ask_to_stop(run_ids, by_force, reason);
  RETURN (SELECT count(*) FROM pgcron.run r WHERE r.id = ANY(run_ids));
END $$;

-- A step that failed stops others where the workflow says so; a workflow that stops ends what waits
-- for a signal or a time, and, unless it is to go on, what executes. True when there is more.
CREATE FUNCTION pgcron.stop_steps(w pgcron.workflow_run) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  open record;
BEGIN
  IF w.stopping IS NULL THEN
    PERFORM pgcron.stop_workflow(w.run, f.on_failure,
        format('step %s ended %s (on_failure: %s)', s.name, s.state, f.on_failure))
      FROM pgcron.workflow_definition f
      JOIN pgcron.failed_steps(w.run) s ON s.phase = 0 AND s.state <> 'upstream_failed'
        AND s.number NOT IN (SELECT unnest(w.clearing))
      WHERE f.id = w.definition AND f.on_failure <> 'continue' LIMIT 1;
    RETURN FOUND;
  END IF;
  SELECT array_agg(s.run) FILTER (WHERE d.kind IN ('run', 'map') AND w.stopping <> 'stop') AS runs,
         array_agg(ROW(w.run, s.number, -1,
             CASE w.stopping WHEN 'stop' THEN 'upstream_failed' ELSE 'cancelled' END, NULL,
             w.stop_reason)::pgcron.step_end)
           FILTER (WHERE d.kind NOT IN ('run', 'map') AND s.item = -1) AS waiting
  INTO open
  FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
  WHERE s.workflow = w.run AND s.state = 'running' AND (d.phase = 0 OR w.stopping = 'abort');
  -- Again later: a step that began at this moment is not to be seen yet.
  UPDATE pgcron.workflow_run f SET look_at = now() + CASE
      WHEN pgcron.stop_step_runs(open.runs, w.stopping = 'abort', w.stop_reason) > 0
        THEN interval '1 second' ELSE interval '5 seconds' END
  WHERE f.run = w.run;
  PERFORM pgcron.release_steps(coalesce(open.waiting, '{}'));
  RETURN false;
END $$;

-- A workflow whose pause is over, or that is ended, goes on now, and so do those within it; those
-- that are not to be seen yet look for themselves. No row of theirs is locked for it.
CREATE FUNCTION pgcron.look_within(run_id bigint) RETURNS void
LANGUAGE sql AS $$
  WITH RECURSIVE within(run) AS (
    SELECT run_id
    UNION ALL
    SELECT w.run FROM within JOIN pgcron.step s ON s.workflow = within.run AND s.state = 'running'
    JOIN pgcron.workflow_run w ON w.run = s.run AND w.ended_at IS NULL)
  INSERT INTO pgcron.step_outbox (workflow) SELECT i.run FROM within i $$;

-- Asks a workflow to stop; the strongest request counts. Any node goes on with it.
CREATE FUNCTION pgcron.stop_workflow(workflow bigint, how text, reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE pgcron.workflow_run w
  SET stopping = how, stop_reason = left(reason, 500), look_at = now()
  WHERE w.run = stop_workflow.workflow AND w.ended_at IS NULL
    AND coalesce(array_position('{stop,kill,cancel,abort}', w.stopping), 0)
      < array_position('{stop,kill,cancel,abort}', how);
  IF NOT FOUND THEN RETURN; END IF;
  PERFORM pgcron.look_within(w.run) FROM pgcron.workflow_run w
    WHERE w.run = stop_workflow.workflow AND w.paused_at IS NOT NULL;
  PERFORM pgcron.wake_nodes('workflow');
END $$;

-- These steps, and all that depend on them. With one that comes before the compensations also what
-- was undone: it is done again. Else compensations that have succeeded do not run again.
CREATE FUNCTION pgcron.steps_to_repeat(w pgcron.workflow_run, numbers int[]) RETURNS int[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE undone AS MATERIALIZED (
    SELECT u.compensation, u.step, d.phase = 0 AS is_repeated
    FROM pgcron.undone_steps(w.definition, w.run) u
    CROSS JOIN pgcron.definition_of(w.definition, (SELECT min(n) FROM unnest(numbers) n)) d),
  below(number) AS (
    (SELECT unnest(numbers)
     UNION
     SELECT u.step FROM undone u WHERE u.is_repeated)
    UNION
    SELECT e.child FROM below JOIN pgcron.workflow_edge e
      ON e.definition = w.definition AND e.parent = below.number)
  SELECT array_agg(b.number ORDER BY b.number) FROM below b
  WHERE b.number NOT IN (SELECT u.compensation FROM undone u
                         WHERE NOT u.is_repeated AND u.compensation <> ALL (numbers)) $$;

-- Whether a workflow that has stopped for a failure goes on when these steps are run again: no
-- other one has failed, and its time is not over.
CREATE FUNCTION pgcron.goes_on_without(w pgcron.workflow_run, below int[]) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT w.stopping IN ('stop', 'kill') AND (w.deadline <= now()) IS NOT TRUE
    AND NOT EXISTS (SELECT FROM pgcron.failed_steps(w.run) s
                    -- hashed, as an array that is a parameter is not
                    WHERE s.phase = 0 AND s.number NOT IN (SELECT unnest(below))
                      AND s.state <> 'upstream_failed' AND s.reason IS DISTINCT FROM w.stop_reason
                      AND (s.state <> 'cancelled' OR w.stopping = 'stop')) $$;

-- All steps that run again when those to be cleared do, including those that their failure has
-- ended or kept from beginning.
CREATE FUNCTION pgcron.steps_to_clear(w pgcron.workflow_run, numbers int[]) RETURNS int[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  below int[] := pgcron.steps_to_repeat(w, numbers);
BEGIN
  IF pgcron.goes_on_without(w, below) IS NOT TRUE THEN RETURN below; END IF;
  RETURN pgcron.steps_to_repeat(w, below || ARRAY(
      SELECT s.number FROM pgcron.step s
      CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
      WHERE s.workflow = w.run AND s.item = -1 AND d.phase = 0
        AND (s.state IN ('upstream_failed', 'cancelled') AND s.reason = w.stop_reason
             OR s.state IN ('running', 'cancelled') AND w.stopping = 'kill')));
END $$;

-- These steps wait as at the beginning. The dependencies of theirs that have ended are written to
-- the outbox once more: so they are judged as any others, and do not begin all at once.
CREATE FUNCTION pgcron.reset_steps(w pgcron.workflow_run, below int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  -- One statement, as it counts the ends that the outbox holds of no step, and forgets the others.
  WITH forgotten AS (
    DELETE FROM pgcron.step_outbox o
    WHERE o.workflow = w.run
      AND (o.child = ANY(below) AND NOT o.is_command OR o.parent = ANY(below)
           OR o.run IN (SELECT s.run FROM pgcron.step s
                        WHERE s.workflow = w.run AND s.number = ANY(below)))),
  reset AS (
    UPDATE pgcron.step s
    SET state = n.state, run = nextval('pgcron.run_id_seq'), waits = n.parents, good = 0, bad = 0,
        skipped = 0, items = NULL, items_ended = NULL, items_failed = NULL, turns = 1, due = NULL,
        started_at = NULL, ended_at = NULL, result = NULL, reason = NULL
    FROM (SELECT d.parents, l.ctid AS place,
                 CASE WHEN d.parents > 0 OR EXISTS (      -- a person may have ended it meanwhile
                          SELECT FROM pgcron.step_outbox o
                          WHERE o.workflow = w.run AND o.is_command AND o.child = d.number)
                   THEN 'waiting' ELSE 'ready' END AS state
          FROM pgcron.workflow_step d
          CROSS JOIN LATERAL (SELECT x.ctid FROM pgcron.step x
                              WHERE x.workflow = w.run AND x.number = d.number AND x.item = -1
                              LIMIT 1) l
          WHERE d.definition = w.definition AND d.number = ANY(below)) n
    WHERE s.ctid = n.place)
  INSERT INTO pgcron.step_outbox (workflow, child, ends, good, skipped)
  SELECT w.run, e.child, count(*), count(*) FILTER (WHERE k.kind = 'good'),
         count(*) FILTER (WHERE k.kind = 'skipped')
  FROM unnest(below) n
  JOIN pgcron.workflow_edge e ON e.definition = w.definition AND e.child = n
  CROSS JOIN LATERAL pgcron.step_of(w.run, e.parent) u
  CROSS JOIN LATERAL pgcron.definition_of(e.definition, e.parent) d
  CROSS JOIN LATERAL pgcron.counts_as(u.state, d.is_optional) k(kind)
  WHERE pgcron.has_ended(u.state) AND e.parent NOT IN (SELECT unnest(below))
    AND NOT EXISTS (SELECT FROM pgcron.step_outbox o
                    WHERE o.workflow = w.run AND o.parent = e.parent AND o.after < e.child)
  GROUP BY e.child;
END $$;

-- Steps that are to be run again, and what is below them: what executes is ended first. Then they
-- wait as at the beginning; an end of a former run of them counts no more. True when that has
-- happened.
CREATE FUNCTION pgcron.clear_steps(w pgcron.workflow_run) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  below int[];
  runs bigint[];
  locked int;
  goes_on boolean;
BEGIN
  IF w.clearing IS NULL THEN RETURN false; END IF;
  below := pgcron.steps_to_clear(w, w.clearing);
  goes_on := coalesce(pgcron.goes_on_without(w, below), true);
  -- First the locks: nothing of them begins or ends until this is over. What a run leads to is
  -- committed with its end, and so nothing is owed of what is not alive.
  SELECT count(*) INTO locked FROM (
      SELECT FROM pgcron.step s WHERE s.workflow = w.run AND s.number = ANY(below)
      ORDER BY s.number, s.item FOR UPDATE SKIP LOCKED) l;
  runs := ARRAY(SELECT s.run FROM pgcron.step s
                WHERE s.workflow = w.run AND s.number = ANY(below));
  IF pgcron.stop_step_runs(runs, false, 'its step is to be run again') > 0
      OR locked < cardinality(runs)
      -- a compensation has succeeded meanwhile
      OR below <> pgcron.steps_to_clear(w, w.clearing) THEN
    UPDATE pgcron.workflow_run f SET look_at = now() + interval '1 second', clearing = below
    WHERE f.run = w.run;
    RETURN false;
  END IF;
  DELETE FROM pgcron.step_signal g
  WHERE g.workflow = w.run AND EXISTS (
      SELECT FROM pgcron.workflow_step d CROSS JOIN LATERAL pgcron.step_of(w.run, d.number) s
      WHERE d.definition = w.definition AND d.name = g.name AND d.number = ANY(below)
        AND s.started_at IS NOT NULL OFFSET 0);
  DELETE FROM pgcron.step s WHERE s.workflow = w.run AND s.number = ANY(below) AND s.item >= 0;
  PERFORM pgcron.reset_steps(w, below);
  UPDATE pgcron.workflow_run f
  SET clearing = NULL, stopping = CASE WHEN NOT goes_on THEN f.stopping END,
      stop_reason = CASE WHEN NOT goes_on THEN f.stop_reason END
  WHERE f.run = w.run;
  RETURN true;
END $$;
