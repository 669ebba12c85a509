-- How a step ends, and what that leads to.

-- Counts ends for the steps that wait for them; a row that somebody has locked is left to the
-- outbox. Returns the steps that end at once. Rows are found by their key, one by one, and written
-- by their place: PostgreSQL need not know how many there are.
CREATE FUNCTION pgcron.count_ends(counts pgcron.step_count[]) RETURNS pgcron.step_end[]
LANGUAGE plpgsql AS $$
DECLARE
  places tid[];
  one record;
  ended pgcron.step_end[] := '{}';
BEGIN
  IF counts = '{}' THEN RETURN '{}'; END IF;
  counts := ARRAY(
      SELECT ROW(c.workflow, c.number, sum(c.ends), sum(c.good), sum(c.skipped))
               ::pgcron.step_count
      FROM unnest(counts) c GROUP BY c.workflow, c.number ORDER BY c.workflow, c.number);
  places := ARRAY(
      SELECT (ARRAY(SELECT x.ctid FROM pgcron.step x
                    WHERE x.workflow = g.workflow AND x.number = g.number AND x.item = -1
                    LIMIT 1 FOR UPDATE SKIP LOCKED))[1]
      FROM unnest(counts) g);
  IF array_position(places, NULL) IS NOT NULL THEN
    INSERT INTO pgcron.step_outbox (workflow, child, ends, good, skipped)
    SELECT g.workflow, g.number, g.ends, g.good, g.skipped
    FROM unnest(counts) WITH ORDINALITY g WHERE places[g.ordinality] IS NULL;
  END IF;
  FOR one IN
      WITH moved AS (
        UPDATE pgcron.step s SET waits = s.waits - t.ends, good = s.good + t.good,
          skipped = s.skipped + t.skipped, bad = s.bad + t.ends - t.good - t.skipped
        FROM unnest(counts) WITH ORDINALITY t
        WHERE s.ctid = places[t.ordinality] AND s.state = 'waiting'
        RETURNING s.*)
      SELECT j.workflow, j.verdict, array_agg(j.number ORDER BY j.number) AS numbers
      FROM (SELECT m.workflow, m.number,
                   pgcron.judge_step(d.rule, m.waits, m.good, m.bad, m.skipped) AS verdict
            FROM moved m
            CROSS JOIN LATERAL pgcron.definition_of(m.definition, m.number) d) j
      WHERE j.verdict <> 'wait' GROUP BY 1, 2 ORDER BY 1, 2 LOOP
    IF one.verdict = 'go' THEN
      ended := ended || pgcron.begin_steps(one.workflow, one.numbers);
    ELSE
      ended := ended || ARRAY(
          SELECT ROW(one.workflow, n, -1, one.verdict, NULL, CASE one.verdict
              WHEN 'skipped' THEN 'no step before it allows it to run'
              ELSE 'a step before it has failed' END)::pgcron.step_end
          FROM unnest(one.numbers) n);
    END IF;
  END LOOP;
  RETURN ended;
END $$;

-- The next steps by number that wait for one, and how its end counts for them.
CREATE FUNCTION pgcron.counts_of(workflow bigint, definition bigint, parent int, outcome text,
    is_optional boolean, after int, most int) RETURNS SETOF pgcron.step_count
LANGUAGE sql STABLE ROWS 3
BEGIN ATOMIC
  SELECT counts_of.workflow, e.child, 1, (k.kind = 'good')::int, (k.kind = 'skipped')::int
  FROM (SELECT pgcron.counts_as(counts_of.outcome, counts_of.is_optional) AS kind) k
  CROSS JOIN LATERAL (SELECT x.child FROM pgcron.workflow_edge x
                      WHERE x.definition = counts_of.definition AND x.parent = counts_of.parent
                        AND x.child > counts_of.after
                      ORDER BY x.child LIMIT counts_of.most) e;
END;

-- These steps have ended so; what waited for them goes on, level by level. The one function that
-- releases: every way in which a run can end leads here, at once or by the outbox, to which it
-- leaves what is more than 100 levels below, or 1,000 ends.
CREATE FUNCTION pgcron.release_steps(ends pgcron.step_end[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  ending pgcron.step_end[] := ends;
  recorded record;
  levels int := 0;
  seen bigint[] := '{}';
  to_look_at bigint[] := '{}';
BEGIN
  IF cardinality(ends) > 0 IS NOT TRUE THEN RETURN; END IF;
  WHILE cardinality(ending) > 0 LOOP
    IF levels > 100 THEN
      PERFORM pgcron.step_ended(s.run, e.outcome, e.result, e.reason)
        FROM unnest(ending) e JOIN pgcron.step s USING (workflow, number, item);
      EXIT;
    END IF;
    levels := levels + 1 + cardinality(ending) / 20;      -- 20 ends count as one level more
    recorded := pgcron.record_ends(ending);
    PERFORM pgcron.end_workflow(o.workflow) FROM unnest(recorded.complete) o(workflow);
    ending := pgcron.count_ends(recorded.counts);
    seen := seen || recorded.seen;
    to_look_at := to_look_at || recorded.to_look_at;
  END LOOP;
  INSERT INTO pgcron.step_outbox (workflow)
  SELECT w.run FROM pgcron.workflow_run w
  WHERE w.run = ANY(seen)
    AND (w.look_at IS NOT NULL OR w.run = ANY(to_look_at)
      OR EXISTS (SELECT FROM pgcron.step s WHERE s.workflow = w.run AND s.state = 'ready'));
END $$;

-- Writes how steps ended (of one that is named twice the first counts), as far as their rows are
-- not locked (the outbox has those), are not over, and are not repeated. Returns what is to be
-- counted for others, but for what waits for a step with more than 500 such, or is beyond 1,000 in
-- all: the outbox has it; the workflows, those to be looked at for a failure or the end of an item,
-- and those whose last step it was.
CREATE FUNCTION pgcron.record_ends(ends pgcron.step_end[], OUT counts pgcron.step_count[],
    OUT seen bigint[], OUT to_look_at bigint[], OUT complete bigint[])
LANGUAGE plpgsql AS $$
DECLARE
  places tid[];
BEGIN
  ends := ARRAY(
      SELECT DISTINCT ON (e.workflow, e.number, e.item) ends[e.ordinality]
      FROM unnest(ends) WITH ORDINALITY e ORDER BY e.workflow, e.number, e.item, e.ordinality);
  places := ARRAY(
      SELECT (ARRAY(SELECT x.ctid FROM pgcron.step x
                    WHERE x.workflow = e.workflow AND x.number = e.number AND x.item = e.item
                    LIMIT 1 FOR UPDATE SKIP LOCKED))[1]
      FROM unnest(ends) e);
  IF array_position(places, NULL) IS NOT NULL THEN
    PERFORM pgcron.step_ended(s.run, e.outcome, e.result, e.reason)
      FROM unnest(ends) WITH ORDINALITY e
      CROSS JOIN LATERAL pgcron.step_of(e.workflow, e.number, e.item) s
      WHERE places[e.ordinality] IS NULL;
  END IF;
  ends := pgcron.repeat_steps(ends, places);
  WITH ended AS (
    UPDATE pgcron.step s
    SET state = e.outcome, result = e.result, reason = left(e.reason, 1000), due = NULL,
        ended_at = clock_timestamp()
    FROM unnest(ends) WITH ORDINALITY e
    WHERE s.ctid = places[e.ordinality] AND e.outcome IS NOT NULL AND NOT pgcron.has_ended(s.state)
    RETURNING s.workflow, s.number, s.item, s.definition, s.state AS outcome),
  known AS MATERIALIZED (
    SELECT e.*, d.name, d.is_optional,
           d.children > 500 OR d.children > 0 AND
             sum(d.children) FILTER (WHERE e.item < 0 AND d.children <= 500)
               OVER (ORDER BY e.workflow, e.number) > 1000 AS is_wide
    FROM ended e CROSS JOIN LATERAL pgcron.definition_of(e.definition, e.number) d),
  wide AS (
    INSERT INTO pgcron.step_outbox (workflow, parent, outcome, after)
    SELECT k.workflow, k.number, k.outcome, 0 FROM known k
    WHERE k.item = -1 AND k.is_wide)
  SELECT ARRAY(
           SELECT c FROM known k
           CROSS JOIN LATERAL pgcron.counts_of(k.workflow, k.definition, k.number, k.outcome,
                                  k.is_optional, 0, 500) c
           WHERE k.item = -1 AND NOT k.is_wide),
         ARRAY(SELECT DISTINCT k.workflow FROM known k),
         ARRAY(SELECT DISTINCT k.workflow FROM known k
               WHERE k.item >= 0 OR pgcron.is_failure(k.outcome)),
         ARRAY(SELECT k.workflow FROM known k WHERE k.item = -1 AND k.name = '.end')
  INTO counts, seen, to_look_at, complete;
END $$;

-- Those of these ends, but of a step that is repeated while a path in its result is true: it has no
-- outcome, and its next turn begins as any step that is `ready`.
CREATE FUNCTION pgcron.repeat_steps(ends pgcron.step_end[], places tid[]) RETURNS pgcron.step_end[]
LANGUAGE plpgsql AS $$
DECLARE
  one record;
BEGIN
  FOR one IN SELECT s.ctid AS place, coalesce(s.turns, 1) AS turns, d.repeat_while,
                    d.repeat_at_most, e.workflow, e.result, e.ordinality AS nth
      FROM unnest(ends) WITH ORDINALITY e
      JOIN pgcron.step s ON s.ctid = places[e.ordinality] AND s.state = 'running'
      CROSS JOIN LATERAL pgcron.definition_of(s.definition, e.number) d
      -- a success with a reason is a person's
      WHERE e.outcome = 'succeeded' AND e.reason IS NULL AND d.repeat_while IS NOT NULL LOOP
    BEGIN
      CONTINUE WHEN jsonb_path_match(one.result, one.repeat_while, silent => true) IS NOT TRUE;
      IF one.turns < one.repeat_at_most THEN
        UPDATE pgcron.step s
        SET run = nextval('pgcron.run_id_seq'), turns = one.turns + 1, state = 'ready'
        WHERE s.ctid = one.place;
        INSERT INTO pgcron.step_outbox (workflow) VALUES (one.workflow);
        ends[one.nth] := NULL;
      ELSE
        ends[one.nth].outcome := 'dead';
        ends[one.nth].reason := format('it was repeated %s times, as often as it may',
            one.repeat_at_most);
      END IF;
    EXCEPTION WHEN others THEN
      IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
      ends[one.nth].outcome := 'dead';
      ends[one.nth].reason := format('whether to repeat it can''t be judged: %s', SQLERRM);
    END;
  END LOOP;
  RETURN ends;
END $$;

-- What the end of runs of steps leads to, in the transaction that ends them. What can't be done
-- with one workflow keeps no run from ending: it is left to the service.
CREATE FUNCTION pgcron.release_succeeded(run_ids bigint[], results text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.release_steps(array_agg(ROW(s.workflow, s.number, s.item, 'succeeded',
               given.result::jsonb, NULL)::pgcron.step_end))
  FROM unnest(run_ids, results) given(run, result)
  JOIN pgcron.step s ON s.run = given.run;
EXCEPTION WHEN others THEN
  IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
  PERFORM pgcron.step_ended(given.run, 'succeeded', given.result::jsonb, NULL)
  FROM unnest(run_ids, results) given(run, result);
END $$;

-- blocked -> succeeded, dead, cancelled
-- All steps are over: so is the workflow, with the result of its last step, or an object with those
-- of its last steps.
CREATE FUNCTION pgcron.end_workflow(workflow bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  w pgcron.workflow_run;
  root pgcron.run;
  failed record;
  verdict text;
  last int[];
  result jsonb;
BEGIN
  SELECT * INTO w FROM pgcron.workflow_run f WHERE f.run = end_workflow.workflow
  FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    INSERT INTO pgcron.step_outbox (workflow) VALUES (end_workflow.workflow);
    RETURN;
  ELSIF w.ended_at IS NOT NULL OR w.clearing IS NOT NULL
      OR EXISTS (SELECT FROM pgcron.step_outbox o
                 WHERE o.workflow = end_workflow.workflow AND o.is_command) THEN
    RETURN;
  END IF;
  SELECT * INTO root FROM pgcron.run r WHERE r.id = end_workflow.workflow AND r.gate = 'workflow'
  FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM pgcron.run r WHERE r.id = w.run) THEN
      UPDATE pgcron.workflow_run f SET look_at = now() + interval '1 second' WHERE f.run = w.run;
    ELSE
      UPDATE pgcron.workflow_run f SET ended_at = clock_timestamp(), outcome = 'cancelled'
      WHERE f.run = w.run;
    END IF;
    RETURN;
  END IF;
  SELECT s.*, count(*) OVER () AS steps INTO failed FROM pgcron.failed_steps(w.run) s
  ORDER BY s.state = 'upstream_failed', s.state = 'cancelled', s.ended_at LIMIT 1;
  verdict := CASE WHEN w.stopping IN ('cancel', 'abort') THEN 'cancelled'
                  WHEN failed.name IS NOT NULL OR w.stopping IS NOT NULL THEN 'dead'
                  ELSE 'succeeded' END;
  last := ARRAY(
      SELECT e.parent FROM pgcron.workflow_step b
      JOIN pgcron.workflow_edge e ON e.definition = b.definition AND e.child = b.number
      WHERE b.definition = w.definition AND b.phase = 0 AND b.kind = 'barrier');
  SELECT CASE count(*) WHEN 1 THEN (array_agg(s.result))[1]
              ELSE jsonb_object_agg(d.name, s.result) END
  INTO result FROM pgcron.step s
  CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
  WHERE NOT pgcron.results_exceed(262144, w.run, last) AND s.workflow = w.run
    AND s.number IN (SELECT unnest(last)) AND s.item = -1 AND s.state = 'succeeded'
    AND s.result IS NOT NULL;
  UPDATE pgcron.workflow_run f
  SET ended_at = clock_timestamp(), outcome = verdict, look_at = NULL WHERE f.run = w.run;
  root.started_at := w.started_at;
  PERFORM pgcron.end_run(root, verdict, CASE verdict WHEN 'dead' THEN 'StepFailed' END,
      CASE WHEN verdict <> 'succeeded'
             THEN concat_ws('; ',
                    CASE WHEN starts_with(w.stop_reason, 'step ' || failed.name || ' ') IS NOT TRUE
                           THEN w.stop_reason END,
                    'step ' || failed.name || ' ' || failed.state
                    || coalesce(': ' || failed.reason, '')
                    || coalesce(' (and ' || nullif(failed.steps - 1, 0) || ' more)', ''),
                    (SELECT left('compensated: ' || string_agg(d.name, ', ' ORDER BY u.step), 300)
                     FROM pgcron.undone_steps(w.definition, w.run) u
                     CROSS JOIN LATERAL pgcron.definition_of(w.definition, u.step) d)) END,
      left(md5(concat_ws(' ', root.handler, failed.name)), 16), NULL,
      CASE WHEN octet_length(result::text) <= 262144 THEN result END);
END $$;

-- Whether a workflow has nothing left to do now: all that waits counts only after its clear.
CREATE FUNCTION pgcron.waits_for_clear(workflow bigint) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
  SELECT FROM pgcron.workflow_run w
  WHERE w.run = waits_for_clear.workflow AND w.clearing IS NOT NULL AND w.look_at > now()
    AND NOT EXISTS (SELECT FROM pgcron.step_outbox o
                    WHERE o.workflow = w.run
                      AND (o.is_command AND o.outcome IS NOT NULL
                           AND o.child = ANY(w.clearing)) IS NOT TRUE));
