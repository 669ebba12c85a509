-- What people and programs do to workflows. None of it holds a lock that another step waits for.

-- Raises PC013, PC010. With the owner's rights: who starts a workflow sees no others, and finds out
-- nothing of those that it may not start.
CREATE FUNCTION pgcron.judge_start(workflow text, queue text, priority int) RETURNS void
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT pgcron.admit_caller(NULL, 'workflow:' || workflow, queue, priority);
  SELECT pgcron.refuse_workflow(workflow) WHERE pgcron.newest_workflow(workflow) IS NULL $$;

-- Its options are those of pgcron.enqueue but for what only an attempt has: a step has its own.
CREATE FUNCTION pgcron.start_workflow(workflow text, args jsonb DEFAULT '{}',
    queue text DEFAULT NULL, priority int DEFAULT NULL, due_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL, key_lifetime interval DEFAULT NULL,
    timeout interval DEFAULT NULL, concurrency_key text DEFAULT NULL, unique_key text DEFAULT NULL,
    unique_scope text DEFAULT NULL, unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, start_within interval DEFAULT NULL,
    give_up_after interval DEFAULT NULL, tags text[] DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.judge_start(workflow, queue, priority);
  RETURN pgcron.enqueue('workflow:' || workflow, args, queue, priority, due_at, idempotency_key,
      key_lifetime, timeout, concurrency_key => concurrency_key, unique_key => unique_key,
      unique_scope => unique_scope, unique_for => unique_for, on_conflict => on_conflict,
      debounce => debounce, debounce_max => debounce_max, start_within => start_within,
      give_up_after => give_up_after, tags => tags, actor => actor);
END $$;
COMMENT ON FUNCTION pgcron.start_workflow(text, jsonb, text, int, timestamptz, text, interval,
    interval, text, text, text, interval, text, interval, interval, interval, interval, text[],
    text) IS
    'Enqueues a run of a workflow, as enqueue with handler workflow:NAME does; returns its id.';

-- Gives a run of workflow:ad_hoc that has not begun its definition, in place of an earlier one if
-- the request replaces what that said; the same one is stored once.
CREATE FUNCTION pgcron.define_run(run_id bigint, definition jsonb, actor text,
    replaces boolean DEFAULT false) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO pgcron.workflow_run (run, definition)
  SELECT r.id, pgcron.store_workflow('ad_hoc', define_run.definition, 'sql', NULL, actor)
  FROM pgcron.run r WHERE r.id = run_id AND r.handler = 'workflow:ad_hoc' AND r.attempt = 0
  ON CONFLICT (run) DO UPDATE SET definition = EXCLUDED.definition, redrive_of = NULL
  WHERE replaces $$;

CREATE FUNCTION pgcron.start_workflow(definition jsonb, args jsonb DEFAULT '{}',
    queue text DEFAULT NULL, priority int DEFAULT NULL, due_at timestamptz DEFAULT NULL,
    idempotency_key text DEFAULT NULL, key_lifetime interval DEFAULT NULL,
    timeout interval DEFAULT NULL, concurrency_key text DEFAULT NULL, unique_key text DEFAULT NULL,
    unique_scope text DEFAULT NULL, unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, start_within interval DEFAULT NULL,
    give_up_after interval DEFAULT NULL, tags text[] DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  new_id bigint := pgcron.enqueue('workflow:ad_hoc', args, queue, priority, due_at,
      idempotency_key, key_lifetime, timeout, concurrency_key => concurrency_key,
      unique_key => unique_key, unique_scope => unique_scope, unique_for => unique_for,
      on_conflict => on_conflict, debounce => debounce, debounce_max => debounce_max,
      start_within => start_within, give_up_after => give_up_after, tags => tags, actor => actor);
BEGIN
  PERFORM pgcron.define_run(new_id, definition, actor,
      on_conflict = 'replace' OR debounce IS NOT NULL);
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.start_workflow(jsonb, jsonb, text, int, timestamptz, text, interval,
    interval, text, text, text, interval, text, interval, interval, interval, interval, text[],
    text) IS
    'Enqueues a run of a workflow that is defined in the call; returns its id.';

-- running -> ready
-- A run of a step has succeeded, and adds steps to its workflow: they are a workflow within, whose
-- run takes its place in the step. So they are begun once, and the step is over when they are; when
-- it is over by then, as a person has ended it, or its list, none begins.
CREATE FUNCTION pgcron.add_steps(run_id bigint, steps jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  root pgcron.run;
  within pgcron.workflow_step;
  new_id bigint := nextval('pgcron.run_id_seq');
BEGIN
  UPDATE pgcron.step s SET run = new_id
  WHERE s.run = run_id AND NOT pgcron.has_ended(s.state)
    AND NOT pgcron.has_ended(pgcron.step_state(s.workflow, s.number));
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM pgcron.step s WHERE s.run = run_id) THEN RETURN;
    ELSIF NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = run_id) THEN
      PERFORM pgcron.refuse_claim(run_id);
    END IF;
    PERFORM pgcron.refuse('PC011', format('run %s can''t add steps', run_id),
        'Only a run that is a step of a workflow adds steps.', 'Start a workflow of them.');
  END IF;
  SELECT r.* INTO root FROM pgcron.run e JOIN pgcron.run r ON r.id = e.parent_run
  WHERE e.id = run_id;
  within.handler := 'workflow:ad_hoc'; within.options := '{}';
  within.args := (SELECT w.args FROM pgcron.workflow_run w WHERE w.run = root.id);
  INSERT INTO pgcron.run SELECT r.* FROM pgcron.run_of_step(within, new_id, '{}', root) r;
  PERFORM pgcron.define_run(new_id, jsonb_build_object('steps', steps), root.created_by);
END $$;

-- A step of a workflow that is not over; s is NULL when it is not written yet. Raises PC010, PC011.
CREATE FUNCTION pgcron.open_step(run_id bigint, step text, must_be_written boolean DEFAULT false,
    OUT s pgcron.step, OUT d pgcron.workflow_step)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  w pgcron.workflow_run;
BEGIN
  SELECT f.* INTO w FROM pgcron.workflow_run f WHERE f.run = run_id;
  IF w.run IS NULL THEN
    PERFORM pgcron.ended_run(run_id)      -- PC010 if there never was one
      WHERE NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = run_id);
    PERFORM pgcron.refuse('PC011', format('run %s is no workflow, or has not begun', run_id),
        'Only a workflow that has begun has steps.', '`pgcron-ha runs show` shows what it is.');
  ELSIF w.ended_at IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('workflow run %s is over', run_id),
        format('It ended %s.', w.outcome),
        CASE WHEN w.outcome IN ('dead', 'lost')
               THEN 'Redrive it: a new run keeps what has succeeded, and does the rest.'
             ELSE format('`pgcron-ha runs retry %s` does all of it anew.', run_id) END);
  END IF;
  SELECT x.* INTO d FROM pgcron.workflow_step x
  WHERE x.definition = w.definition AND x.name = open_step.step AND x.kind <> 'barrier';
  PERFORM pgcron.refuse('PC010',
      format('workflow run %s has no step %L', run_id, left(open_step.step, 200)),
      'Steps are named as in the definition.',
      format('`pgcron-ha workflows show %s` lists them.', run_id))
    WHERE d.number IS NULL;
  SELECT x.* INTO s FROM pgcron.step_of(w.run, d.number) x;
  PERFORM pgcron.refuse('PC011', format('step %L is not written yet', step),
      'The steps of a large workflow are written in the first seconds.', 'Try again.')
    WHERE s.number IS NULL AND must_be_written;
END $$;

-- Who did what to a step of a run.
CREATE FUNCTION pgcron.audit_step(verb text, run_id bigint, step text, actor text, note text,
    before jsonb, after jsonb) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.record_audit(verb, 'step', run_id::text, actor, note,
           jsonb_strip_nulls(jsonb_build_object('step', step) || before),
           jsonb_strip_nulls(jsonb_build_object('step', step) || after)) $$;

-- Who did what and why, as the reason of a step.
CREATE FUNCTION pgcron.done_by(what text, actor text, note text) RETURNS text
LANGUAGE sql STABLE
RETURN concat_ws(': ', what || ' by ' || left(coalesce(actor, session_user), 300), left(note, 500));

-- verb: which command sends it.
CREATE FUNCTION pgcron.send_signal(run_id bigint, step text, payload jsonb, actor text, verb text,
    note text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  open record := pgcron.open_step(run_id, step);
  wanted text := CASE verb WHEN 'signal' THEN 'signal' ELSE 'approval' END;
BEGIN
  PERFORM pgcron.refuse('PC011', format('step %L waits for no %s', step, wanted),
      'A step with "wait_for": "signal" ends by a signal, one with "approval" is approved or '
      'rejected.',
      CASE (open.d).kind WHEN 'approval' THEN 'Approve or reject it.'
                         WHEN 'signal' THEN 'Send it a signal.' ELSE 'Name such a step.' END)
    WHERE (open.d).kind <> wanted;
  PERFORM pgcron.refuse('PC011', format('step %L is over', step),
      format('It ended %s: %s.', (open.s).state, coalesce((open.s).reason, 'no reason')),
      '`pgcron-ha workflows clear` lets it begin again.')
    WHERE pgcron.has_ended((open.s).state);
  PERFORM pgcron.refuse_size('the payload', payload);
  INSERT INTO pgcron.step_signal AS g (workflow, name, payload, reason)
  VALUES (run_id, step, payload, pgcron.done_by(
          CASE verb WHEN 'approve' THEN 'approved' WHEN 'reject' THEN 'rejected' ELSE verb END,
          actor, note))
  ON CONFLICT (workflow, name) DO UPDATE SET payload = EXCLUDED.payload, reason = EXCLUDED.reason;
  INSERT INTO pgcron.step_outbox (workflow) VALUES (run_id);
  PERFORM pgcron.audit_step(verb, run_id, step, actor, note,
      jsonb_build_object('state', (open.s).state), jsonb_build_object('payload', payload));
  RETURN CASE (open.s).state WHEN 'running' THEN 'ended' ELSE 'kept' END;
END $$;

CREATE FUNCTION pgcron.signal(run_id bigint, step text, payload jsonb DEFAULT NULL,
    note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.send_signal(run_id, step, payload, actor, 'signal', note) $$;
COMMENT ON FUNCTION pgcron.signal IS
    'Ends a step that waits for a signal, with the payload as its result; one that comes before '
    'its step is kept, the last one counts.';

CREATE FUNCTION pgcron.approve_step(run_id bigint, step text, approved boolean DEFAULT true,
    note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.send_signal(run_id, step,
           jsonb_strip_nulls(jsonb_build_object('approved', coalesce(approved, true), 'note',
               left(note, 500))),
           actor, CASE WHEN approved IS FALSE THEN 'reject' ELSE 'approve' END, note) $$;
COMMENT ON FUNCTION pgcron.approve_step IS
    'Approves or rejects a step that waits for an approval. Rejected, it ends dead.';

-- How a person ends a step, or (without an outcome) lets it run again. One that had ended otherwise
-- is corrected, and what is below it begins again.
CREATE FUNCTION pgcron.end_step(run_id bigint, step text, outcome text, result jsonb, what text,
    note text, actor text, verb text) RETURNS pgcron.workflow_step
LANGUAGE plpgsql AS $$
DECLARE
  open record := pgcron.open_step(run_id, step, true);
BEGIN
  PERFORM pgcron.refuse_size('the result', result);
  INSERT INTO pgcron.step_outbox (workflow, child, outcome, result, reason, is_command)
  VALUES (run_id, (open.d).number, outcome, result, pgcron.done_by(what, actor, note), true);
  PERFORM pgcron.audit_step(verb, run_id, step, actor, note,
      jsonb_build_object('state', (open.s).state),
      jsonb_build_object('state', outcome, 'result', result));
  RETURN open.d;
END $$;

CREATE FUNCTION pgcron.skip_step(run_id bigint, step text, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.end_step(run_id, step, 'skipped', NULL, 'skipped', note, actor, 'skip') $$;
COMMENT ON FUNCTION pgcron.skip_step IS
    'A step of a workflow is not run, and ends skipped; what executes is stopped.';

CREATE FUNCTION pgcron.succeed_step(run_id bigint, step text, result jsonb DEFAULT NULL,
    note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.end_step(run_id, step, 'succeeded', result,
           'marked as succeeded', note, actor, 'succeed') $$;
COMMENT ON FUNCTION pgcron.succeed_step IS
    'A step of a workflow counts as succeeded, with this result; what executes is stopped.';

CREATE FUNCTION pgcron.clear_step(run_id bigint, step text, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  d pgcron.workflow_step := pgcron.end_step(run_id, step, NULL, NULL, NULL, note, actor, 'clear');
BEGIN
  RETURN (SELECT count(*) FROM pgcron.workflow_run w
          CROSS JOIN LATERAL unnest(pgcron.steps_to_clear(w, ARRAY[d.number])) n
          CROSS JOIN LATERAL pgcron.definition_of(w.definition, n) x
          WHERE w.run = run_id AND x.kind <> 'barrier');
END $$;
COMMENT ON FUNCTION pgcron.clear_step IS
    'A step and all that depend on it run again; what executes of them is stopped first. Returns '
    'how many they are.';

CREATE FUNCTION pgcron.set_step_args(run_id bigint, step text, args jsonb, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  open record := pgcron.open_step(run_id, step);
BEGIN
  PERFORM pgcron.refuse_args(coalesce(args, 'null')) WHERE pgcron.args_are_fine(args) IS NOT TRUE;
  UPDATE pgcron.step x
  SET args = set_step_args.args, reason = pgcron.done_by('args changed', actor, note)
  WHERE x.workflow = run_id AND x.number = (open.d).number AND x.item = -1
    AND x.state IN ('waiting', 'ready') AND (open.d).kind = 'run';
  PERFORM pgcron.refuse('PC011', format('step %L does not wait', step),
      'Only a step with a handler that has not begun can get other args.',
      'Clear it first, or cancel its run.')
    WHERE NOT FOUND;
  INSERT INTO pgcron.step_outbox (workflow) VALUES (run_id);
  PERFORM pgcron.audit_step('set_args', run_id, step, actor, note,
      jsonb_build_object('args', (open.s).args), jsonb_build_object('args', args));
END $$;
COMMENT ON FUNCTION pgcron.set_step_args IS
    'Args that a step which has not begun gets besides those of its definition.';

CREATE FUNCTION pgcron.pause_workflow(run_id bigint, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE pgcron.workflow_run w SET paused_at = coalesce(w.paused_at, now()),
    paused_by = left(coalesce(actor, session_user), 300), paused_note = left(note, 500)
  WHERE w.run = run_id AND w.ended_at IS NULL;
  IF NOT FOUND THEN PERFORM pgcron.open_step(run_id, ''); END IF;
  PERFORM pgcron.record_audit('pause', 'run', run_id::text, actor, note);
END $$;
COMMENT ON FUNCTION pgcron.pause_workflow IS
    'No further step of a running workflow, or of those within it, begins until it is resumed.';

CREATE FUNCTION pgcron.resume_workflow(run_id bigint, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  UPDATE pgcron.workflow_run w SET paused_at = NULL, paused_by = NULL, paused_note = NULL
  WHERE w.run = run_id AND w.ended_at IS NULL;
  IF NOT FOUND THEN PERFORM pgcron.open_step(run_id, ''); END IF;
  PERFORM pgcron.look_within(run_id);
  PERFORM pgcron.record_audit('resume', 'run', run_id::text, actor, note);
END $$;
COMMENT ON FUNCTION pgcron.resume_workflow IS 'The steps of a paused workflow begin again.';

CREATE FUNCTION pgcron.results_of(run_id bigint, token uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT pgcron.refuse_claim(run_id)
  WHERE NOT EXISTS (SELECT FROM pgcron.run r
                    WHERE r.id = results_of.run_id AND r.token = results_of.token);
  SELECT pgcron.results_of_step(run_id,
      (SELECT s.workflow FROM pgcron.step s WHERE s.run = run_id)) $$;
COMMENT ON FUNCTION pgcron.results_of IS
    'The results of the steps that a step comes directly after, by their names, for a service or '
    'a statement that works for its run and has its token. Raises PC012 if that does not hold it.';
