-- How a workflow begins, and goes on from its outbox: by any node, under the lock of its row.

-- running -> blocked, dead
-- The claims of workflows become their steps; the claim is over then, and takes no slot. What can't
-- begin ends dead. Returns the runs that are not the caller's any more, in either way.
CREATE FUNCTION pgcron.start_claimed_workflows(run_ids bigint[], tokens uuid[], node_name text)
  RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  root pgcron.run;
  own_name text;
  above pgcron.workflow_run;
  chosen pgcron.workflow_definition;
BEGIN
  FOR root IN SELECT r.* FROM pgcron.run r
      JOIN unnest(run_ids, tokens) given(id, token) ON r.id = given.id AND r.token = given.token
      WHERE r.id = ANY(run_ids) ORDER BY r.id FOR UPDATE OF r LOOP
    own_name := split_part(root.handler, ':', 2);
    -- the workflow that it is a step of, if it is one
    SELECT u.* INTO above FROM pgcron.workflow_run u
    WHERE root.origin = 'step' AND u.run = root.parent_run;
    SELECT d.* INTO chosen FROM pgcron.workflow_definition d
    WHERE d.id = coalesce((SELECT w.definition FROM pgcron.workflow_run w WHERE w.run = root.id),
            pgcron.newest_workflow(own_name));
    BEGIN
      IF own_name = ANY(above.names) OR cardinality(above.names) >= 10 THEN
        RAISE 'workflows are nested too deep: %', array_to_string(above.names || own_name, ' > ');
      ELSIF chosen.id IS NULL THEN
        RAISE 'workflow % does not exist', own_name;
      END IF;
      UPDATE pgcron.run r
      SET state = 'blocked', gate = 'workflow', owner = NULL, token = NULL, fence = NULL,
          claimed_at = NULL, started_at = NULL, expire_at = NULL, cancel_at = NULL, kill_at = NULL
      WHERE r.id = root.id;
      INSERT INTO pgcron.workflow_run AS w (run, definition, args, started_at, deadline, names,
            keys, above)
      VALUES (root.id, chosen.id, root.args, now(),
              least(now() + chosen.timeout, now() + root.timeout,
                pgcron.give_up_at(root.time_limits)),
              above.names || CASE WHEN own_name <> 'ad_hoc' THEN own_name END,
              array_remove(above.keys || CASE WHEN left(root.concurrency_key, 1) <> '*'
                THEN root.concurrency_key END, NULL), above.run)
      ON CONFLICT (run) DO UPDATE SET args = EXCLUDED.args, started_at = EXCLUDED.started_at,
        deadline = EXCLUDED.deadline, names = EXCLUDED.names, keys = EXCLUDED.keys,
        above = EXCLUDED.above;
      -- It was asked to stop while it was claimed.
      IF root.cancel_at IS NOT NULL THEN
        PERFORM pgcron.stop_workflow(root.id,
            CASE WHEN root.kill_at IS NULL THEN 'cancel' ELSE 'abort' END, root.cancel_reason);
      END IF;
      PERFORM pgcron.make_steps(root.id, 200);
    EXCEPTION WHEN others THEN
      IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
      PERFORM pgcron.end_attempts(ARRAY[ROW(root.id, 'failed', false, NULL, 'WorkflowRefused',
            SQLERRM, NULL, 'WorkflowRefused', NULL, node_name)::pgcron.attempt_end]);
    END;
    RETURN NEXT root.id;
  END LOOP;
END $$;

-- Writes the next steps of a workflow. When all are there, those end that a redrive keeps, 500 at
-- once: until that is done the last step counts as not written. Then those begin that wait for
-- nothing: 500 at once, the others as any that are ready.
CREATE FUNCTION pgcron.make_steps(workflow bigint, most int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  w pgcron.workflow_run;
  last int;
  kept pgcron.step_end[];
BEGIN
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = make_steps.workflow
  FOR NO KEY UPDATE;
  INSERT INTO pgcron.step (workflow, number, definition, run, state, waits)
  SELECT w.run, d.number, d.definition, nextval('pgcron.run_id_seq'),
         CASE d.parents WHEN 0 THEN 'ready' ELSE 'waiting' END, d.parents
  FROM pgcron.workflow_step d
  WHERE d.definition = w.definition AND d.number > w.made AND d.number <= w.made + most
  ORDER BY d.number ON CONFLICT DO NOTHING;
  IF w.redrive_of IS NOT NULL THEN PERFORM pgcron.mark_done_again(w, w.made + most); END IF;
  SELECT max(d.number) INTO last FROM pgcron.workflow_step d WHERE d.definition = w.definition;
  IF w.made + most >= last AND w.redrive_of IS NOT NULL THEN
    kept := pgcron.kept_successes(w, 500);
    PERFORM pgcron.release_steps(kept);
    IF cardinality(kept) = 500 THEN last := last - 1; END IF;
  END IF;
  UPDATE pgcron.workflow_run f SET made = least(w.made + most, last) WHERE f.run = w.run;
  IF w.made + most < last OR cardinality(kept) = 500 THEN
    INSERT INTO pgcron.step_outbox (workflow) VALUES (w.run);
    RETURN;
  END IF;
  PERFORM pgcron.release_steps(pgcron.begin_steps(w.run, ARRAY(
          SELECT s.number FROM pgcron.step s
          WHERE s.workflow = w.run AND s.item = -1 AND s.state = 'ready'
          ORDER BY s.number LIMIT 500 FOR UPDATE SKIP LOCKED)));
  INSERT INTO pgcron.step_outbox (workflow)
  SELECT w.run WHERE EXISTS (SELECT FROM pgcron.step s
                             WHERE s.workflow = w.run AND s.state = 'ready');
END $$;

-- The compensations of a run that have succeeded, and the steps that they have undone.
CREATE FUNCTION pgcron.undone_steps(definition bigint, run bigint)
  RETURNS TABLE (compensation int, step int)
LANGUAGE sql STABLE AS $$
  SELECT d.number, d.compensates FROM pgcron.workflow_step d
  WHERE d.definition = undone_steps.definition AND d.compensates IS NOT NULL
    AND pgcron.step_state(undone_steps.run, d.number) = 'succeeded' $$;

-- Of the steps up to this number that were just written, `turns` marks those that come after one
-- which a redrive does again: nothing of them is kept. A rule skips again what it has skipped; a
-- condition may not, with other args. Parents were marked before, or are here; each row is looked
-- up by its key.
CREATE FUNCTION pgcron.mark_done_again(w pgcron.workflow_run, up_to int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  undone int[] := ARRAY(SELECT u.step FROM pgcron.undone_steps(w.definition, w.redrive_of) u);
  same_args boolean := w.args = (SELECT f.args FROM pgcron.workflow_run f
                                 WHERE f.run = w.redrive_of);
BEGIN
  WITH RECURSIVE below(number) AS (
    SELECT d.number FROM pgcron.workflow_step d
    WHERE d.definition = w.definition AND d.number > w.made AND d.number <= up_to
      AND d.phase = 0 AND d.kind <> 'barrier'
      AND EXISTS (
          SELECT FROM pgcron.workflow_edge e
          WHERE e.definition = d.definition AND e.child = d.number
            AND (e.parent = ANY(undone)
              OR (SELECT own.turns FROM pgcron.step_of(w.run, e.parent) own) = 1
              OR (SELECT s.state = 'succeeded' OR s.state = 'skipped'
                           AND (s.reason ~ '^no step before it '
                             OR same_args AND s.reason ~ '^its condition ')
                  FROM pgcron.step_of(w.redrive_of, e.parent) s) IS NOT TRUE)
          OFFSET 0)
    UNION
    SELECT d.number FROM below
    JOIN pgcron.workflow_edge e ON e.definition = w.definition AND e.parent = below.number
    CROSS JOIN LATERAL pgcron.definition_of(e.definition, e.child) d
    WHERE e.child <= up_to AND d.phase = 0 AND d.kind <> 'barrier')
  UPDATE pgcron.step own SET turns = 1 FROM below
  WHERE own.workflow = w.run AND own.number = below.number AND own.item = -1;
END $$;

-- What an earlier run of the same version has done: a redrive does not do it again, unless it was
-- undone, or comes after what is done again. So many of it that are open yet, those first that come
-- after others: none begins.
CREATE FUNCTION pgcron.kept_successes(w pgcron.workflow_run, most int) RETURNS pgcron.step_end[]
LANGUAGE sql STABLE
RETURN ARRAY(
  SELECT ROW(w.run, s.number, -1, 'succeeded', s.result, 'kept from run ' || w.redrive_of)
           ::pgcron.step_end
  FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
  WHERE s.workflow = w.redrive_of AND s.item = -1 AND s.state = 'succeeded' AND d.phase = 0
    AND d.kind <> 'barrier' AND s.number <> ALL (ARRAY(
        SELECT u.step FROM pgcron.undone_steps(w.definition, w.redrive_of) u))
    AND (SELECT own.turns IS NULL AND NOT pgcron.has_ended(own.state)
         FROM pgcron.step_of(w.run, s.number) own)
  ORDER BY s.number DESC LIMIT most);

-- Which workflows have something to be done, by number, those after one; in how many seconds others
-- have; and a number that is another one when a workflow was defined: those of two definitions may
-- be committed in any order.
CREATE FUNCTION pgcron.workflows_to_advance(most int, aside bigint[], after bigint DEFAULT 0,
    OUT workflows bigint[], OUT seconds float8, OUT newest bigint)
LANGUAGE sql STABLE AS $$
  SELECT ARRAY(
           SELECT DISTINCT found.workflow
           FROM ((WITH RECURSIVE found(workflow) AS (
                    -- each once, however much of one is left over
                    SELECT workflows_to_advance.after
                    UNION ALL
                    SELECT (SELECT min(o.workflow) FROM pgcron.step_outbox o
                            WHERE o.workflow > f.workflow)
                    FROM found f WHERE f.workflow IS NOT NULL)
                  SELECT f.workflow FROM found f
                  WHERE f.workflow > workflows_to_advance.after AND f.workflow <> ALL (aside)
                    AND NOT pgcron.waits_for_clear(f.workflow) LIMIT most)
                 UNION ALL
                 (SELECT w.run FROM pgcron.workflow_run w
                  WHERE w.look_at <= now() AND w.run > workflows_to_advance.after
                    AND w.run <> ALL (aside)
                  ORDER BY w.look_at LIMIT most)
                 UNION ALL
                 (SELECT w.run FROM pgcron.workflow_run w
                  WHERE w.deadline <= now() AND w.ended_at IS NULL
                    AND w.run > workflows_to_advance.after
                    AND coalesce(w.stopping, 'stop') = 'stop' AND w.run <> ALL (aside)
                  ORDER BY w.deadline LIMIT most)
                 UNION ALL
                 (SELECT s.workflow FROM pgcron.step s
                  WHERE s.due <= now() AND s.state = 'running'
                    AND s.workflow > workflows_to_advance.after AND s.workflow <> ALL (aside)
                  ORDER BY s.due LIMIT most)) found ORDER BY 1 LIMIT most),
         extract(epoch FROM least(
             (SELECT min(s.due) FROM pgcron.step s
              WHERE s.due > now() AND s.state = 'running'),
             (SELECT min(w.look_at) FROM pgcron.workflow_run w WHERE w.look_at > now()),
             (SELECT min(w.deadline) FROM pgcron.workflow_run w
              WHERE w.deadline > now() AND w.ended_at IS NULL
                AND coalesce(w.stopping, 'stop') = 'stop'))
           - now())::float8,
         coalesce((SELECT sum(d.id)::bigint FROM pgcron.workflow_definition d
                   WHERE d.name <> 'ad_hoc'), 0) $$;

-- Goes on with one workflow: at most so many ends, items and steps. True when there is more to do
-- at once. Two that do it at the same time: the second does nothing.
CREATE FUNCTION pgcron.advance_workflow(workflow bigint, most int DEFAULT 500) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  w pgcron.workflow_run;
  ready int[];
  is_full boolean;
BEGIN
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = advance_workflow.workflow
  FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    DELETE FROM pgcron.step_outbox o WHERE o.workflow = advance_workflow.workflow
      AND NOT EXISTS (SELECT FROM pgcron.workflow_run f WHERE f.run = advance_workflow.workflow);
    RETURN false;
  END IF;
  is_full := pgcron.settle_outbox(w, most);
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = w.run;
  IF w.ended_at IS NOT NULL OR w.started_at IS NULL THEN
    UPDATE pgcron.workflow_run f SET look_at = NULL WHERE f.run = w.run AND f.look_at IS NOT NULL;
    RETURN is_full;
  ELSIF EXISTS (SELECT FROM pgcron.definition_of(w.definition, w.made + 1)) THEN
    PERFORM pgcron.make_steps(w.run, 10 * most);
    RETURN true;
  END IF;
  PERFORM pgcron.stop_workflow(w.run, 'kill', 'its timeout is over') WHERE w.deadline <= now();
  PERFORM pgcron.stop_workflow(w.run, 'abort', 'its run is gone')
    WHERE NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = w.run);
  UPDATE pgcron.workflow_run f SET look_at = NULL WHERE f.run = w.run AND f.look_at <= now();
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = w.run;
  is_full := pgcron.stop_steps(w) OR is_full;
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = w.run;
  is_full := pgcron.clear_steps(w) OR is_full;
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = w.run;
  PERFORM pgcron.release_steps(ARRAY(SELECT e FROM pgcron.overdue_steps(w, most) e));
  ready := ARRAY(SELECT s.number FROM pgcron.step s
                 WHERE s.workflow = w.run AND s.state = 'ready' AND s.item = -1
                 ORDER BY s.number LIMIT most FOR UPDATE SKIP LOCKED);
  PERFORM pgcron.release_steps(pgcron.begin_steps(w.run, ready));
  -- when the last of so many could begin, so may others
  is_full := is_full OR coalesce(pgcron.step_state(w.run, ready[most]) <> 'ready', false);
  is_full := pgcron.advance_lists(w, most) OR is_full;
  -- the last step that was written is the end
  IF pgcron.step_state(w.run, w.made) = 'succeeded' THEN PERFORM pgcron.end_workflow(w.run); END IF;
  IF is_full THEN INSERT INTO pgcron.step_outbox (workflow) VALUES (w.run); END IF;
  -- What is still ready may have nobody who wakes it: a pause above can end before this is
  -- committed, and the lock of a step without a change. After a long pause it is looked at seldom.
  UPDATE pgcron.workflow_run f SET look_at = coalesce(f.look_at, now() + least(greatest(
      now() - (SELECT greatest(h.paused_at, w.started_at) FROM pgcron.held_by(w) h
               WHERE h.paused_at IS NOT NULL), interval '30 seconds'), interval '10 minutes'))
  WHERE f.run = w.run AND f.ended_at IS NULL AND w.paused_at IS NULL
    AND EXISTS (SELECT FROM pgcron.step s
                WHERE s.workflow = w.run AND s.state = 'ready'
                  AND (w.above IS NOT NULL
                    OR s.item = -1 AND ready[most] IS NULL AND s.number <> ALL (ready)));
  RETURN is_full;
END $$;

-- Whether an entry of the outbox can be done now: the step that it is about is not locked, nor the
-- run that a person ends.
CREATE FUNCTION pgcron.is_free(entry pgcron.step_outbox) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  own bigint;
BEGIN
  IF entry.child IS NOT NULL THEN
    SELECT s.run INTO own FROM pgcron.step s
    WHERE s.workflow = entry.workflow AND s.number = entry.child AND s.item = -1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND OR NOT entry.is_command THEN RETURN FOUND; END IF;
    PERFORM FROM pgcron.run r WHERE r.id = own FOR UPDATE SKIP LOCKED;
    RETURN FOUND OR NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = own);
  ELSIF entry.run IS NULL THEN
    RETURN true;
  END IF;
  PERFORM FROM pgcron.step s WHERE s.run = entry.run FOR UPDATE SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM pgcron.step s WHERE s.run = entry.run);
END $$;

-- What people ask for: steps that are to be run again, or that end as they say. What executes of
-- these is asked to stop; below one that had ended otherwise all is run again. An end of a
-- step that is to run again counts after its clear, unless it is cleared once more.
CREATE FUNCTION pgcron.obey(w pgcron.workflow_run, commands pgcron.step_outbox[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  one pgcron.step_outbox;
  below int[];
  again int[];
BEGIN
  -- So it does not end before all of them are obeyed: one lets a step run again, another ends the
  -- last that is open.
  UPDATE pgcron.workflow_run f SET clearing = coalesce(f.clearing, '{}')
  WHERE f.run = w.run AND f.ended_at IS NULL
    AND EXISTS (SELECT FROM unnest(commands) c WHERE c.is_command);
  IF NOT FOUND THEN RETURN; END IF;
  FOR one IN SELECT c.* FROM unnest(commands) c WHERE c.is_command ORDER BY c.id LOOP
    IF one.outcome IS NULL THEN
      below := pgcron.steps_to_repeat(w, ARRAY[one.child]);
      again := again || below;
      DELETE FROM pgcron.step_outbox o
      WHERE o.workflow = w.run AND o.is_command AND o.id < one.id AND o.child = ANY(below);
      CONTINUE;
    ELSIF one.child = ANY(again) THEN
      INSERT INTO pgcron.step_outbox OVERRIDING SYSTEM VALUE VALUES (one.*);
      CONTINUE;
    ELSIF pgcron.has_ended(pgcron.step_state(w.run, one.child)) THEN
      UPDATE pgcron.step s SET state = one.outcome, result = one.result, reason = one.reason
      WHERE s.workflow = w.run AND s.number = one.child AND s.item = -1;
      again := again || array_remove(pgcron.steps_to_repeat(w, ARRAY[one.child]), one.child);
    ELSE
      PERFORM pgcron.release_steps(ARRAY[ROW(w.run, one.child, -1, one.outcome, one.result,
            one.reason)::pgcron.step_end]);
    END IF;
    PERFORM pgcron.stop_step_runs(ARRAY(
        SELECT i.run FROM pgcron.step i WHERE i.workflow = w.run AND i.number = one.child),
        false, one.reason);
    UPDATE pgcron.step i SET state = 'cancelled', reason = one.reason, ended_at = clock_timestamp()
    WHERE i.workflow = w.run AND i.number = one.child AND i.item >= 0 AND i.state = 'ready';
  END LOOP;
  UPDATE pgcron.workflow_run f
  SET look_at = now(), clearing = pgcron.steps_to_repeat(f, f.clearing || again)
  WHERE f.run = w.run;
END $$;

-- What the outbox holds of a workflow: so many entries, and of the ends that they count at most
-- four times as many. True when there may be more.
CREATE FUNCTION pgcron.settle_outbox(w pgcron.workflow_run, most int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  -- in their order, so that no more are asked for their locks than are taken
  free bigint[] := ARRAY(SELECT (l.entry).id
                         FROM (SELECT o AS entry FROM pgcron.step_outbox o
                               WHERE o.workflow = w.run ORDER BY o.id FOR UPDATE SKIP LOCKED) l
                         WHERE pgcron.is_free(l.entry)
                           AND ((l.entry).outcome IS NULL
                             OR (l.entry).child <> ALL (w.clearing)) IS NOT FALSE
                         LIMIT most);
  taken pgcron.step_outbox[];
BEGIN
  WITH counted AS (
    SELECT o.id, sum(least(coalesce(d.children, 0), most)) OVER (ORDER BY o.id) AS ends
    FROM pgcron.step_outbox o
    LEFT JOIN LATERAL pgcron.definition_of(w.definition, o.parent) d ON true
    WHERE o.id = ANY(free)),
  gone AS (
    DELETE FROM pgcron.step_outbox o USING counted c
    WHERE o.id = c.id AND c.ends <= 4 * most RETURNING o.*)
  SELECT coalesce(array_agg(g::pgcron.step_outbox ORDER BY g.id), '{}') INTO taken FROM gone g;
  PERFORM pgcron.obey(w, taken);
  PERFORM pgcron.release_steps(ARRAY(
      SELECT ROW(s.workflow, s.number, s.item, t.outcome, t.result, t.reason)::pgcron.step_end
      FROM unnest(taken) t JOIN pgcron.step s ON s.run = t.run ORDER BY t.id));
  INSERT INTO pgcron.step_outbox (workflow, parent, outcome, after)
  SELECT w.run, t.parent, t.outcome, e.child FROM unnest(taken) t
  CROSS JOIN LATERAL (SELECT x.child FROM pgcron.workflow_edge x
                      WHERE x.definition = w.definition AND x.parent = t.parent
                        AND x.child > t.after
                      ORDER BY x.child OFFSET most - 1 LIMIT 1) e;
  PERFORM pgcron.release_steps(pgcron.count_ends(ARRAY(
          SELECT ROW(w.run, t.child, t.ends, t.good, t.skipped)::pgcron.step_count
          FROM unnest(taken) t WHERE t.child IS NOT NULL AND NOT t.is_command
          UNION ALL
          SELECT c FROM unnest(taken) t
          CROSS JOIN LATERAL pgcron.definition_of(w.definition, t.parent) d
          CROSS JOIN LATERAL pgcron.counts_of(w.run, d.definition, d.number, t.outcome,
                                 d.is_optional, t.after, most) c)));
  RETURN cardinality(free) >= most OR cardinality(taken) < cardinality(free);
END $$;

-- Steps whose signal came, or whose time is over; where both are true the signal counts. An
-- approval has {"approved": true} or false.
CREATE FUNCTION pgcron.overdue_steps(w pgcron.workflow_run, most int) RETURNS SETOF pgcron.step_end
LANGUAGE sql STABLE AS $$
  SELECT w.run, d.number, -1,
         CASE WHEN d.kind = 'approval' AND g.payload -> 'approved' = 'false' THEN 'dead'
              ELSE 'succeeded' END,
         g.payload, g.reason
  FROM pgcron.step_signal g
  -- one by one: PostgreSQL does not know that there are few
  CROSS JOIN LATERAL (SELECT x.number, x.kind FROM pgcron.workflow_step x
                      WHERE x.definition = w.definition AND x.name = g.name
                        AND x.kind IN ('signal', 'approval') LIMIT 1) d
  WHERE g.workflow = w.run AND pgcron.step_state(w.run, d.number) = 'running'
  UNION ALL
  (SELECT w.run, s.number, -1,
          CASE d.at_deadline WHEN 'fail' THEN 'dead' WHEN 'skip' THEN 'skipped'
            ELSE 'succeeded' END,
          NULL,
          CASE WHEN d.kind <> 'timer' THEN format('nobody answered within %s', d.deadline) END
   FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
   WHERE s.workflow = w.run AND s.due <= now() AND s.state = 'running'
   ORDER BY s.due LIMIT most) $$;
