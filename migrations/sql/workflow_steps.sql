-- How a step of a workflow begins: whether its dependencies allow it, and with which args.

-- What becomes of a step with so many dependencies open, and ended: go, wait, or its end: skipped
-- (only skips, or successes that it was not made for, are why it can't run) or upstream_failed.
CREATE FUNCTION pgcron.judge_step(rule text, waits int, good int, bad int, skipped int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE
         WHEN rule = 'one_succeeded' AND good > 0 OR rule = 'one_failed' AND bad > 0 THEN 'go'
         WHEN waits > 0 THEN 'wait'
         WHEN rule = 'all_ended' OR rule = 'none_failed' AND bad = 0
              OR rule = 'all_succeeded' AND bad = 0 AND skipped = 0 THEN 'go'
         WHEN rule = 'one_failed' OR bad = 0 THEN 'skipped'
         ELSE 'upstream_failed' END;

-- The results of the steps that a step comes directly after.
CREATE FUNCTION pgcron.results_before(workflow bigint, definition bigint, number int)
  RETURNS TABLE (name text, result jsonb)
LANGUAGE sql STABLE ROWS 3
BEGIN ATOMIC
  SELECT d.name, p.result FROM pgcron.workflow_edge e
  CROSS JOIN LATERAL (SELECT s.result FROM pgcron.step s
                      WHERE s.workflow = results_before.workflow AND s.number = e.parent
                        AND s.item = -1 AND s.result IS NOT NULL LIMIT 1) p
  CROSS JOIN LATERAL pgcron.definition_of(e.definition, e.parent) d
  WHERE e.definition = results_before.definition AND e.child = results_before.number
    AND d.kind <> 'barrier'
    -- of most workflows there is none, and not each of many parents has to be looked at
    AND EXISTS (SELECT FROM pgcron.step s
                WHERE s.workflow = results_before.workflow AND s.item = -1
                  AND s.number < results_before.number AND s.result IS NOT NULL);
END;

-- Whether a path reads an item, and nothing else of what a step may read.
CREATE FUNCTION pgcron.reads_item(path jsonpath) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN replace(path::text, '$."item"', '') NOT LIKE '%$%';

-- The results that the handler of a step gets with its claim, and its paths read.
CREATE FUNCTION pgcron.results_of_step(run bigint, workflow bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
  -- of most workflows none, which is seen with a third of the work
  IF NOT EXISTS (SELECT FROM pgcron.step s
                 WHERE s.workflow = results_of_step.workflow AND s.item = -1
                   AND s.result IS NOT NULL) THEN
    RETURN '{}';
  END IF;
  RETURN (SELECT coalesce(jsonb_object_agg(p.name, p.result), '{}') FROM pgcron.step s
          CROSS JOIN LATERAL pgcron.results_before(s.workflow, s.definition, s.number) p
          WHERE s.run = results_of_step.run);
END $$;

-- What paths of a step read: the workflow's args, the item, and the results of the steps that it
-- comes directly after. For paths of an item that read nothing else only that: the rest would be
-- copied for each.
CREATE FUNCTION pgcron.step_document(step pgcron.step, args jsonb, paths jsonb DEFAULT NULL)
  RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN step.item < 0
                OR EXISTS (SELECT FROM jsonb_each_text(paths) p
                           WHERE NOT pgcron.reads_item(p.value::jsonpath))
                THEN pgcron.results_of_step(step.run, step.workflow)
                     || jsonb_build_object('args', step_document.args) ELSE '{}' END
         || CASE WHEN step.item >= 0 THEN jsonb_build_object('item', step.args) ELSE '{}' END $$;

-- The row of a step's run. root NULL: only to be judged. What its step leaves out is as its
-- workflow has it (queue, priority), or the default.
CREATE FUNCTION pgcron.run_of_step(step pgcron.workflow_step, id bigint, args jsonb,
    root pgcron.run, turns int DEFAULT NULL) RETURNS pgcron.run
LANGUAGE plpgsql STABLE AS $$
DECLARE
  made pgcron.run;
  wanted pgcron.run_request;
  due timestamptz := now() + CASE WHEN turns > 1 THEN step.repeat_every ELSE '0' END;
BEGIN
  IF step.options <> '{}' THEN
    wanted := jsonb_populate_record(NULL::pgcron.run_request, step.options);
  END IF;
  made.id := id; made.handler := step.handler; made.args := step.args || args;
  made.due_at := due; made.created_at := now(); made.attempt := 0; made.state := 'ready';
  made.origin := 'step'; made.parent_run := root.id;
  made.nominal_for := coalesce(root.scheduled_for, root.nominal_for);
  made.queue := coalesce(wanted.queue, root.queue, 'default');
  made.priority := coalesce(wanted.priority, root.priority, 5);
  made.delivery := coalesce(wanted.delivery, 'at_least_once');
  made.tags := coalesce(nullif(wanted.tags, '{}'), root.tags);
  made.created_by := coalesce(root.created_by, session_user);
  made.created_login := root.created_login; made.namespace := root.namespace;
  IF step.options = '{}' THEN RETURN made; END IF;
  made.max_attempts := wanted.max_attempts;
  -- the default of a run, which a workflow does not have
  made.timeout := CASE WHEN made.handler LIKE 'workflow:%' THEN wanted.timeout
                       ELSE nullif(wanted.timeout, '1 hour') END;
  made.retry := wanted.retry; made.weight := nullif(wanted.weight, 1);
  made.concurrency_key := pgcron.concurrency_key_of(wanted.concurrency_key, wanted.weight);
  made.requires := nullif(wanted.requires, '{}');
  IF num_nonnulls(wanted.start_within, wanted.give_up_after, wanted.silence_timeout) > 0 THEN
    made.expire_at := pgcron.expire_at(wanted.start_within, wanted.give_up_after, due);
    made.time_limits := pgcron.time_limits(wanted.give_up_after, wanted.silence_timeout, due);
  END IF;
  RETURN made;
END $$;

-- How a step ended, and a number of ends that are counted for another one.
CREATE TYPE pgcron.step_end AS (workflow bigint, number int, item int, outcome text, result jsonb,
  reason text);

CREATE TYPE pgcron.step_count AS (workflow bigint, number int, ends int, good int, skipped int);

-- waiting, ready -> running
-- The run of one step or item, with args that its paths give. Returns why it can't be made: then
-- the step fails.
CREATE FUNCTION pgcron.make_step_run(step pgcron.step, definition pgcron.workflow_step,
    root pgcron.run, w pgcron.workflow_run, document jsonb) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  args jsonb := CASE WHEN step.item < 0 THEN coalesce(step.args, '{}')
                     WHEN definition.args_from IS NULL THEN jsonb_build_object('item', step.args)
                     ELSE '{}' END;
  arg record;
  made pgcron.run;
BEGIN
  FOR arg IN SELECT p.key, p.value AS path, jsonb_path_query_first(document, p.value::jsonpath)
                      AS value
      FROM jsonb_each_text(definition.args_from) p
      WHERE NOT args ? p.key LOOP      -- what a person gave is not looked for
    IF arg.value IS NULL THEN
      RETURN format('its arg %s finds nothing at %s', arg.key, arg.path);
    END IF;
    args := args || jsonb_build_object(arg.key, arg.value);
  END LOOP;
  made := pgcron.run_of_step(definition, step.run, args, root, step.turns);
  IF NOT pgcron.args_are_fine(made.args) THEN
    RETURN format('its args have %s bytes or are nested more than 100 levels deep; a run has at '
             'most 262144 bytes (256 KiB)', octet_length(made.args::text));
  ELSIF made.concurrency_key = ANY(w.keys) THEN
    RETURN format('its workflow holds the concurrency key %s, so that it would wait for itself',
             made.concurrency_key);
  END IF;
  INSERT INTO pgcron.run VALUES (made.*);
  RETURN NULL;
END $$;

-- Whether a step may begin when its dependencies allow it: NULL, or how it ends at once. The
-- document is NULL when it would be too large.
CREATE FUNCTION pgcron.judge_begin(definition pgcron.workflow_step, w pgcron.workflow_run,
    document jsonb, OUT outcome text, OUT reason text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF definition.kind = 'barrier' THEN
    outcome := 'succeeded';
  ELSIF w.stopping = 'abort' OR (w.stopping IS NOT NULL AND definition.phase = 0) THEN
    outcome := CASE WHEN w.stopping IN ('stop', 'kill') THEN 'upstream_failed' ELSE 'cancelled' END;
    reason := w.stop_reason;
  ELSIF definition.phase = 1
      AND NOT (pgcron.step_state(w.run, definition.compensates) = 'succeeded'
        AND (w.stopping IS NOT NULL OR EXISTS (SELECT FROM pgcron.failed_steps(w.run)))) THEN
    outcome := 'skipped';
    reason := 'there is nothing to undo';
  ELSIF document IS NULL THEN
    outcome := 'dead';
    reason := 'the results that it comes after have more than the 1048576 bytes (1 MiB) that they '
      'may have';
  ELSIF definition.condition IS NOT NULL
      AND jsonb_path_match(document, definition.condition, silent => true) IS NOT TRUE THEN
    outcome := 'skipped';
    reason := (SELECT format('its condition %s: %s', CASE
                   WHEN t IN ('boolean', 'null') THEN 'does not hold'
                   ELSE format('is %s, and neither true nor false',
                          coalesce('a JSON ' || t, 'nothing')) END,
                 left(definition.condition::text, 200))
               FROM jsonb_typeof(jsonb_path_query_first(document, definition.condition,
                                     silent => true)) t);
  END IF;
END $$;

-- The steps that have failed so far, but for those that may.
CREATE FUNCTION pgcron.failed_steps(workflow bigint)
  RETURNS TABLE (number int, name text, phase smallint, state text, reason text,
      ended_at timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT s.number, d.name, d.phase, s.state, s.reason, s.ended_at
  FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
  WHERE s.workflow = failed_steps.workflow AND s.item = -1 AND NOT d.is_optional
    AND pgcron.is_failure(s.state);
END;

-- The workflow whose pause keeps the steps of this one from beginning: itself, or one above it. One
-- that is ended goes on to its end, and so does what is within it.
CREATE FUNCTION pgcron.held_by(w pgcron.workflow_run) RETURNS pgcron.workflow_run
LANGUAGE plpgsql STABLE AS $$
BEGIN
  WHILE coalesce(w.stopping, 'stop') = 'stop' LOOP
    IF w.paused_at IS NOT NULL AND w.ended_at IS NULL THEN RETURN w; END IF;
    IF w.above IS NULL THEN EXIT; END IF;
    SELECT * INTO w FROM pgcron.workflow_run u WHERE u.run = w.above;
  END LOOP;
  RETURN NULL;
END $$;

-- Whether no step of a workflow begins as it is paused, or one above it.
CREATE FUNCTION pgcron.is_held(w pgcron.workflow_run) RETURNS boolean
LANGUAGE sql STABLE
RETURN num_nonnulls(w.paused_at, w.above) > 0 AND (pgcron.held_by(w)).run IS NOT NULL;

-- How many more steps of a workflow may execute now: none while it is paused, or while the step is
-- to be run again and what executes of it is ended.
CREATE FUNCTION pgcron.room_of(w pgcron.workflow_run, definition pgcron.workflow_step) RETURNS int
LANGUAGE sql STABLE
RETURN CASE WHEN pgcron.is_held(w) OR definition.number = ANY(w.clearing) THEN 0
            ELSE (SELECT CASE WHEN f.parallelism IS NULL THEN 100000
                              ELSE f.parallelism - (
                                   SELECT count(*)::int FROM pgcron.step s
                                   JOIN pgcron.run r ON r.id = s.run
                                   WHERE s.workflow = w.run AND s.state = 'running') END
                  FROM pgcron.workflow_definition f WHERE f.id = w.definition) END;

-- Whether a step of a phase before this one is open; of a barrier or a compensation, also one of
-- its own phase. A step that was ended by hand, or kept by a redrive, did not wait for those before
-- it: so what depends on it has to.
CREATE FUNCTION pgcron.comes_too_early(step pgcron.step, definition pgcron.workflow_step)
  RETURNS boolean
LANGUAGE sql STABLE
RETURN (definition.phase > 0 OR definition.kind = 'barrier')
  AND EXISTS (SELECT FROM pgcron.step s
              CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
              WHERE s.workflow = step.workflow AND s.number < step.number AND s.item = -1
                AND NOT pgcron.has_ended(s.state)
                AND (d.phase < definition.phase OR definition.phase = 1
                  OR definition.kind = 'barrier'));

-- The args of an item whose paths read nothing else; NULL: they do, or one finds nothing.
CREATE FUNCTION pgcron.args_of_item(item jsonb, paths jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN bool_and(f.value IS NOT NULL) THEN jsonb_object_agg(f.key, f.value) END
  FROM (SELECT p.key,
               CASE WHEN pgcron.reads_item(p.value::jsonpath)
                      THEN jsonb_path_query_first(jsonb_build_object('item', item),
                             p.value::jsonpath) END AS value
        FROM jsonb_each_text(paths) p) f $$;

-- waiting, ready -> running
-- Begins those of these steps, or items of one, at once that nothing has to be judged of, in one
-- statement. When one of them can't be written, none is begun: each is by itself.
CREATE FUNCTION pgcron.begin_plain_steps(root pgcron.run, numbers int[], item_numbers int[])
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  WITH begun AS (
    UPDATE pgcron.step u
    SET state = 'running', started_at = coalesce(u.started_at, clock_timestamp())
    FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
    CROSS JOIN LATERAL (
        SELECT CASE WHEN d.args_from IS NULL AND s.item < 0 THEN '{}'
                    WHEN d.args_from IS NULL THEN jsonb_build_object('item', s.args)
                    WHEN s.item >= 0 THEN pgcron.args_of_item(s.args, d.args_from) END AS args
        OFFSET 0) a
    WHERE s.workflow = root.id AND s.number = ANY(numbers) AND s.item = ANY(item_numbers)
      AND s.state IN ('waiting', 'ready') AND a.args IS NOT NULL AND u.ctid = s.ctid
      AND (s.item >= 0
        OR d.kind = 'run' AND d.phase = 0 AND num_nonnulls(d.condition, s.args) = 0
           AND (d.parents <= 3 OR NOT EXISTS (
                SELECT FROM pgcron.results_before(s.workflow, s.definition, s.number))))
    RETURNING d, s.run, a.args, s.turns)
  INSERT INTO pgcron.run
  SELECT r.* FROM begun b
  CROSS JOIN LATERAL pgcron.run_of_step(b.d, b.run, b.args, root, b.turns) r;
EXCEPTION WHEN others THEN
  IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
END $$;

-- Begins one step, or item of one: NULL; or how it ends at once; `ready` when it may not begin yet.
CREATE FUNCTION pgcron.begin_step(step pgcron.step, definition pgcron.workflow_step,
    w pgcron.workflow_run, root pgcron.run, may_begin boolean, OUT outcome text, OUT reason text)
LANGUAGE plpgsql AS $$
DECLARE
  kind text := CASE WHEN step.item < 0 THEN definition.kind ELSE 'run' END;
  document jsonb;
  list jsonb;
BEGIN
  IF kind <> 'barrier' AND NOT (step.item < 0 AND definition.parents > 3
        AND EXISTS (SELECT FROM pgcron.step s
                    WHERE s.workflow = w.run AND s.item = -1 AND s.result IS NOT NULL)
        AND pgcron.results_exceed(1048576, w.run, ARRAY(
            SELECT e.parent FROM pgcron.workflow_edge e
            WHERE e.definition = step.definition AND e.child = step.number))) THEN
    document := pgcron.step_document(step, w.args, definition.args_from);
  END IF;
  IF step.item < 0 THEN
    SELECT j.* INTO outcome, reason FROM pgcron.judge_begin(definition, w, document) j;
    IF pgcron.comes_too_early(step, definition)
        OR outcome IS NULL AND (kind IN ('run', 'map') OR pgcron.is_held(w))
        AND NOT (may_begin AND pgcron.room_of(w, definition) > 0) THEN
      outcome := 'ready';
    END IF;
  END IF;
  IF outcome IS NOT NULL THEN RETURN; END IF;
  IF kind = 'run' THEN
    reason := pgcron.make_step_run(step, definition, root, w, document);
  ELSIF kind = 'map' THEN
    list := jsonb_path_query_first(document, definition.for_each, silent => true);
    reason := CASE
        WHEN jsonb_typeof(list) IS DISTINCT FROM 'array'
          THEN format('%s is %s, and not a list', definition.for_each,
                 coalesce('a JSON ' || jsonb_typeof(list), 'nothing'))
        WHEN jsonb_array_length(list) > 10000
          THEN format('%s has %s items; a list has at most 10000', definition.for_each,
                 jsonb_array_length(list)) END;
    IF reason IS NULL THEN      -- a service makes the items, and ends the list
      UPDATE pgcron.step s SET items = jsonb_array_length(list), items_ended = 0, items_failed = 0
      WHERE s.workflow = w.run AND s.number = step.number AND s.item = -1;
    END IF;
  END IF;
  outcome := CASE WHEN reason IS NOT NULL THEN 'dead' END;
EXCEPTION WHEN others THEN
  IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
  outcome := 'dead';
  reason := format('it can''t begin: %s', SQLERRM);
END $$;

-- waiting, ready -> running, or an outcome
-- These steps of a workflow, or items of one, have what they waited for. Those that end at once are
-- returned; those that may not begin yet are `ready`.
CREATE FUNCTION pgcron.begin_steps(workflow bigint, numbers int[],
    item_numbers int[] DEFAULT '{-1}') RETURNS pgcron.step_end[]
LANGUAGE plpgsql AS $$
DECLARE
  w pgcron.workflow_run;
  root pgcron.run;
  one record;
  began record;
  is_limited boolean;
  may_begin boolean := true;
  ended pgcron.step_end[] := '{}';
BEGIN
  IF '{}' IN (numbers, item_numbers) THEN RETURN ended; END IF;
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = begin_steps.workflow;
  SELECT * INTO root FROM pgcron.run r WHERE r.id = begin_steps.workflow;
  SELECT f.parallelism IS NOT NULL INTO is_limited FROM pgcron.workflow_definition f
  WHERE f.id = w.definition;
  IF is_limited THEN
    -- two that begin steps at once would count neither's
    PERFORM FROM pgcron.workflow_run f WHERE f.run = w.run FOR NO KEY UPDATE SKIP LOCKED;
    may_begin := FOUND;
  END IF;
  IF w.stopping IS NULL AND w.clearing IS NULL AND w.keys = '{}' AND NOT is_limited
      AND NOT pgcron.is_held(w) THEN
    PERFORM pgcron.begin_plain_steps(root, numbers, item_numbers);
  END IF;
  FOR one IN SELECT s AS step, d AS definition
      FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
      WHERE s.workflow = begin_steps.workflow AND s.number = ANY(numbers)
        AND s.item = ANY(item_numbers) AND s.state IN ('waiting', 'ready')
      ORDER BY s.number, s.item LOOP
    began := pgcron.begin_step(one.step, one.definition, w, root, may_begin);
    IF began.outcome = 'ready' THEN
      UPDATE pgcron.step s SET state = 'ready', waits = 0
      WHERE s.workflow = w.run AND s.number = (one.step).number AND s.item = -1
        AND s.state = 'waiting';
      CONTINUE;
    END IF;
    UPDATE pgcron.step s
    SET state = 'running', started_at = coalesce(s.started_at, clock_timestamp()),
      due = now() + (one.definition).deadline
    WHERE s.workflow = w.run AND s.number = (one.step).number AND s.item = (one.step).item;
    IF began.outcome IS NOT NULL THEN
      ended := ended || ROW(w.run, (one.step).number, (one.step).item, began.outcome, NULL,
            began.reason)::pgcron.step_end;
    ELSIF (one.definition).kind <> 'run' AND (one.step).item < 0 THEN
      -- What was sent before, or is sent meanwhile, is looked for when this is committed; and nodes
      -- learn when it is due, and make the items of lists.
      INSERT INTO pgcron.step_outbox (workflow) VALUES (w.run);
    END IF;
  END LOOP;
  RETURN ended;
END $$;
