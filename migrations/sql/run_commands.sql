-- What people do to a run.

-- The row of history of a run that is not alive; raises PC010 when there was none.
CREATE FUNCTION pgcron.ended_run(run bigint) RETURNS pgcron.history
LANGUAGE plpgsql STABLE AS $$
DECLARE
  ended pgcron.history;
BEGIN
  SELECT * INTO ended FROM pgcron.ended_runs h WHERE h.id = run LIMIT 1;
  IF ended.id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', run),
        'It was never enqueued, its transaction was rolled back, or retention removed it.',
        'SELECT id FROM pgcron.runs lists runs; so does `pgcron-ha runs list`.');
  END IF;
  RETURN ended;
END $$;

-- Asks those of these runs that execute to stop, by force or not, once each. A locked one is left
-- for the next call.
CREATE FUNCTION pgcron.ask_to_stop(run_ids bigint[], by_force boolean, reason text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE pgcron.run r
  SET cancel_at = coalesce(r.cancel_at, now()),
      kill_at = CASE WHEN by_force THEN coalesce(r.kill_at, now()) ELSE r.kill_at END,
      cancel_reason = concat_ws('; ', r.cancel_reason, reason)
  WHERE r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                         WHERE l.id = ANY(run_ids) AND l.state = 'running'
                           AND (l.cancel_at IS NULL OR by_force AND l.kill_at IS NULL)
                         ORDER BY l.id FOR UPDATE SKIP LOCKED));
  -- a hint: the owner's next beat is the truth
  IF FOUND THEN PERFORM pgcron.notify(pgcron.channel(), 'cancel'); END IF;
END $$;

-- Stops a run, by force or not. 'cancelled': it had not begun and never will; 'requested': its node
-- stops it, by force without any grace, as far as it can be ended so; 'finished': it had ended
-- already.
CREATE FUNCTION pgcron.stop_run(run bigint, by_force boolean, note text, actor text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  found_state text;
  found_gate text;
  why text;
BEGIN
  SELECT r.state, r.gate INTO found_state, found_gate FROM pgcron.run r WHERE r.id = run
  FOR UPDATE;
  IF found_state IS NULL THEN
    PERFORM pgcron.ended_run(run);
    RETURN 'finished';
  END IF;
  PERFORM pgcron.record_audit(CASE WHEN by_force THEN 'kill' ELSE 'cancel' END, 'run', run::text,
      actor, note, jsonb_build_object('state', found_state));
  why := pgcron.done_by(
      CASE WHEN by_force AND (found_state = 'running' OR found_gate = 'workflow') THEN 'killed'
        ELSE 'cancelled' END, actor, note);
  IF found_state <> 'running' THEN
    PERFORM pgcron.end_waiting_runs(ARRAY[run], 'cancelled', why, NULL, by_force);
    RETURN CASE found_gate WHEN 'workflow' THEN 'requested' ELSE 'cancelled' END;
  END IF;
  PERFORM pgcron.ask_to_stop(ARRAY[run], by_force, why);
  RETURN 'requested';
END $$;

CREATE FUNCTION pgcron.cancel_run(run_id bigint, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$ SELECT pgcron.stop_run(run_id, false, note, actor) $$;
COMMENT ON FUNCTION pgcron.cancel_run IS
    'Ends a run: cancelled (had not begun), requested (its node stops it) or finished.';

-- The second step after cancel_run, or the first at once.
CREATE FUNCTION pgcron.kill_run(run_id bigint, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$ SELECT pgcron.stop_run(run_id, true, note, actor) $$;
COMMENT ON FUNCTION pgcron.kill_run IS
    'Ends a run by force: cancelled, requested or finished. What can''t be killed (a thread) is '
    'only requested to stop.';

-- A new run of a workflow has the version of the one that it redrives, and what that has done (was
-- to keep, if it never began); of a definition without a name any new run has that one.
CREATE FUNCTION pgcron.follow_workflow(new_run bigint) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC011', format('run %s can''t be run again', r.parent_run),
           'Its definition, which has no name, was removed with its history.',
           'Start a workflow of the same steps: pgcron.start_workflow.')
  FROM pgcron.run r
  WHERE r.id = new_run AND r.handler = 'workflow:ad_hoc'
    AND NOT EXISTS (SELECT FROM pgcron.workflow_run w WHERE w.run = r.parent_run);
  INSERT INTO pgcron.workflow_run (run, definition, redrive_of)
  SELECT r.id, w.definition,
         CASE WHEN r.origin <> 'redrive' THEN NULL
              WHEN w.started_at IS NULL THEN w.redrive_of ELSE w.run END
  FROM pgcron.run r
  JOIN pgcron.workflow_run w ON w.run = r.parent_run
  WHERE r.id = new_run AND r.attempt = 0
    AND (r.origin = 'redrive' OR r.origin = 'rerun' AND r.handler = 'workflow:ad_hoc')
  ON CONFLICT DO NOTHING $$;

-- Makes a run of what ended before, with the same options. Where another run has its unique key:
-- NULL, or, with `failed`, the refusal that begins so.
CREATE FUNCTION pgcron.run_again(origin text, ended pgcron.history, due_at timestamptz, actor text,
    failed text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  again pgcron.run;
  new_id bigint;
BEGIN
  IF ended.args IS NULL THEN
    PERFORM pgcron.refuse('PC011', format('run %s can''t be run again', ended.id),
        'Its handler keeps no args of runs that succeeded (keep_args), so they are not known.',
        'Enqueue a new run with its args.');
  ELSIF ended.args ? '$erased' THEN
    PERFORM pgcron.refuse('PC011', format('run %s can''t be run again', ended.id),
        'Its args were erased (pgcron.erase).', 'Enqueue a new run with args.');
  ELSIF ended.origin = 'step' THEN
    PERFORM pgcron.refuse('PC011', format('run %s can''t be run again', ended.id),
        format('It is that of a step of workflow run %s.', ended.parent_run),
        'Clear the step (`pgcron-ha workflows clear`), or redrive the workflow.');
  END IF;
  SELECT r.* INTO again
  FROM pgcron.run_of_request(jsonb_populate_record(NULL::pgcron.run_request,
          to_jsonb(ended) || coalesce(ended.time_limits, '{}')),
      nextval('pgcron.run_id_seq'), run_again.due_at,
      CASE ended.unique_scope WHEN 'taken' THEN 'waiting' ELSE ended.unique_scope END,
      ended.namespace, coalesce(run_again.actor, session_user)) r;
  again.origin := run_again.origin; again.parent_run := ended.id;
  again.schedule_id := ended.schedule_id; again.schedule := ended.schedule;
  again.nominal_for := coalesce(ended.scheduled_for, ended.nominal_for);
  again.max_attempts := ended.max_attempts - coalesce(ended.snoozes, 0);
  INSERT INTO pgcron.run SELECT again.*
  ON CONFLICT (unique_key, handler, coalesce(namespace, ''))
  WHERE pgcron.has_key(unique_key, unique_scope, attempt) DO NOTHING RETURNING id INTO new_id;
  IF new_id IS NULL AND failed IS NOT NULL THEN
    PERFORM pgcron.refuse_met(failed,
        pgcron.run_with_key(ended.unique_key, ended.handler, ended.namespace), ended.unique_key);
  END IF;
  IF ended.handler LIKE 'workflow:%' AND new_id IS NOT NULL THEN
    PERFORM pgcron.follow_workflow(new_id);
  END IF;
  RETURN new_id;
END $$;

-- A waiting run becomes due now (same id); an ended one is run again as a new run that names it
-- (new id).
CREATE FUNCTION pgcron.retry_run(run_id bigint, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  found_state text;
  new_id bigint;
BEGIN
  SELECT CASE WHEN r.gate = 'workflow' THEN 'a workflow with open steps' ELSE r.state END
  INTO found_state FROM pgcron.run r WHERE r.id = run_id FOR UPDATE;
  IF found_state IN ('blocked', 'ready') THEN
    PERFORM pgcron.record_audit('retry', 'run', run_id::text, retry_run.actor, note,
        before => jsonb_build_object('due_at', r.due_at),
        after => jsonb_build_object('due_at', now()))
      FROM pgcron.run r WHERE r.id = run_id AND r.due_at > now();
    UPDATE pgcron.run r SET due_at = least(r.due_at, now()) WHERE r.id = run_id;
    PERFORM pgcron.wake_nodes('admit');
    RETURN run_id;
  ELSIF found_state IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('run %s is %s', run_id, found_state),
        'Only a waiting or an ended run can be retried.',
        'Cancel it first, or wait until it has ended; a step of a workflow can be cleared.');
  END IF;
  new_id := pgcron.run_again('rerun', pgcron.ended_run(run_id), now(), retry_run.actor,
      format('run %s can''t be run again', run_id));
  PERFORM pgcron.record_audit('retry', 'run', run_id::text, retry_run.actor, note,
      after => jsonb_build_object('run_id', new_id));
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.retry_run IS
    'A waiting run is due now (same id); an ended one runs again as a new run, whose id is '
    'returned.';
