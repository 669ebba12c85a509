-- Steps that are executed for each item of a list.

-- The next items of a list after those that are known; what is not begun at once is `ready`.
-- Returns those that the runs which this one redrives have done.
CREATE FUNCTION pgcron.make_items(step pgcron.step, list jsonb, known int, most int)
  RETURNS pgcron.step_end[]
LANGUAGE sql AS $$
  WITH RECURSIVE made AS (
    INSERT INTO pgcron.step AS i (workflow, number, item, definition, run, state, waits, args)
    SELECT step.workflow, step.number, new.item, step.definition, nextval('pgcron.run_id_seq'),
           'ready', 0, list -> new.item
    FROM generate_series(known, least(known + most, jsonb_array_length(list)) - 1) new(item)
    RETURNING i.item, i.args),
  -- Not only the last one, which may have ended before it came to its items; but none before a list
  -- that was to be run again, or had succeeded and was undone.
  redriven(run, turns) AS (
    SELECT step.workflow, step.turns
    UNION ALL
    SELECT s.workflow, s.turns FROM redriven e
    JOIN pgcron.workflow_run w ON w.run = e.run
    JOIN pgcron.step s ON s.workflow = w.redrive_of AND s.number = step.number AND s.item = -1
    WHERE e.turns IS NULL AND s.state <> 'succeeded')
  SELECT array_agg(ROW(step.workflow, step.number, k.item, 'succeeded', k.result,
               'kept from run ' || k.workflow)::pgcron.step_end)
  FROM (SELECT DISTINCT ON (s.item) s.item, s.result, s.workflow
        FROM made m JOIN pgcron.step s
          ON s.workflow = ANY(ARRAY(SELECT e.run FROM redriven e WHERE e.run <> step.workflow))
          AND s.number = step.number AND s.item = m.item AND s.args = m.args
          AND s.state = 'succeeded'
        ORDER BY s.item, s.workflow DESC) k $$;

-- The lists of a workflow: their next items are made and begun, and the rest is given up when more
-- of them failed than may; it is over when its items are. So many items in all; true when there may
-- be more to do at once. One that is being cleared begins anew later, maybe with another list.
CREATE FUNCTION pgcron.advance_lists(w pgcron.workflow_run, most int) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  one record;
  own pgcron.workflow_run;
  counted record;
  is_given_up boolean;
  made int;
  room int;
  next int[];
  remaining int := most;
BEGIN
  FOR one IN SELECT s AS step, d AS definition FROM pgcron.workflow_step d
      CROSS JOIN LATERAL pgcron.step_of(w.run, d.number) s
      WHERE d.definition = w.definition AND d.kind = 'map' AND s.state = 'running'
        AND s.items IS NOT NULL AND d.number <> ALL (coalesce(w.clearing, '{}'))
      ORDER BY d.number LOOP
    EXIT WHEN remaining <= 0;
    counted := pgcron.count_items(one.step);
    own := w;
    -- it runs although the others have stopped
    IF (one.definition).phase > 0 AND w.stopping <> 'abort' THEN
      own.stopping := NULL;
      own.stop_reason := NULL;
    END IF;
    is_given_up := counted.failed + counted.cancelled > (one.definition).tolerate
      OR own.stopping IS NOT NULL;
    IF counted.ended = (CASE WHEN is_given_up THEN counted.known ELSE (one.step).items END) THEN
      PERFORM pgcron.release_steps(ARRAY[pgcron.end_of_list(own, (one.step).number,
              counted.failed, counted.cancelled + (one.step).items - counted.known,
              (one.definition).tolerate)]);
    ELSIF is_given_up THEN
      remaining := remaining - pgcron.give_up_list(own, one.step, remaining);
    ELSE
      made := least(remaining, (one.step).items - counted.known);
      IF made > 0 THEN
        PERFORM pgcron.release_steps(pgcron.make_items(one.step, jsonb_path_query_first(
                pgcron.step_document(one.step, w.args), (one.definition).for_each, silent => true),
            counted.known, made));
      END IF;
      room := greatest(0, least(remaining, coalesce((one.definition).max_parallel, 10000)
              - counted.running, pgcron.room_of(w, one.definition)));
      next := ARRAY(
          SELECT i.item FROM pgcron.step i
          WHERE i.workflow = w.run AND i.number = (one.step).number AND i.item >= 0
            AND i.state = 'ready' ORDER BY i.item LIMIT room FOR UPDATE SKIP LOCKED);
      PERFORM pgcron.release_steps(pgcron.begin_steps(w.run, ARRAY[(one.step).number], next));
      remaining := remaining - greatest(made, cardinality(next));
    END IF;
  END LOOP;
  RETURN remaining <= 0;
END $$;

-- How many items of a list there are, and in which states; what is shown of the list is brought up
-- to that, unless somebody has locked its row.
CREATE FUNCTION pgcron.count_items(step pgcron.step, OUT known int, OUT running int, OUT ended int,
    OUT failed int, OUT cancelled int)
LANGUAGE plpgsql AS $$
BEGIN
  SELECT count(*), count(*) FILTER (WHERE i.state = 'running'),
         count(*) FILTER (WHERE pgcron.has_ended(i.state)),
         count(*) FILTER (WHERE i.state <> 'cancelled' AND pgcron.is_failure(i.state)),
         count(*) FILTER (WHERE i.state = 'cancelled') INTO known, running, ended, failed, cancelled
  FROM pgcron.step i
  WHERE i.workflow = step.workflow AND i.number = step.number AND i.item >= 0;
  UPDATE pgcron.step s SET items_ended = ended, items_failed = failed
  WHERE s.ctid = ANY(ARRAY(
      SELECT l.ctid FROM pgcron.step l
      WHERE l.workflow = step.workflow AND l.number = step.number AND l.item = -1
        AND (l.items_ended, l.items_failed) IS DISTINCT FROM (ended, failed)
      FOR UPDATE SKIP LOCKED));
END $$;

-- What is left of a list is not begun; what executes is ended. Returns how many were not begun.
CREATE FUNCTION pgcron.give_up_list(w pgcron.workflow_run, step pgcron.step, most int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  because text := coalesce(w.stop_reason, 'too many items of its list failed');
  waiting pgcron.step_end[];
BEGIN
  IF w.stopping IS DISTINCT FROM 'stop' AND pgcron.stop_step_runs(ARRAY(
        SELECT i.run FROM pgcron.step i
        WHERE i.workflow = w.run AND i.number = step.number AND i.item >= 0
          AND i.state = 'running'), w.stopping IS NOT DISTINCT FROM 'abort', because) > 0 THEN
    -- one may have been locked
    UPDATE pgcron.workflow_run f SET look_at = now() + interval '1 second' WHERE f.run = w.run;
  END IF;
  waiting := ARRAY(SELECT ROW(w.run, i.number, i.item, 'cancelled', NULL, because)::pgcron.step_end
                   FROM pgcron.step i
                   WHERE i.workflow = w.run AND i.number = step.number AND i.item >= 0
                     AND i.state = 'ready' LIMIT most);
  PERFORM pgcron.release_steps(waiting);
  RETURN cardinality(waiting);
END $$;

-- All items of a list are over: its result is theirs, in order. One whose workflow has stopped
-- before all of them were executed has not succeeded, whatever it tolerates.
CREATE FUNCTION pgcron.end_of_list(w pgcron.workflow_run, number int, failed int, cancelled int,
    tolerate int, OUT ending pgcron.step_end)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  ending := ROW(w.run, number, -1, 'dead', NULL, NULL);
  IF failed + cancelled > tolerate OR (w.stopping IS NOT NULL AND cancelled > (
        SELECT count(*) FROM pgcron.step s      -- by persons or their handlers
        WHERE s.workflow = w.run AND s.number = end_of_list.number AND s.item >= 0
          AND s.state = 'cancelled' AND w.stopping IN ('stop', 'kill')
          AND s.started_at IS NOT NULL AND s.reason IS DISTINCT FROM w.stop_reason)) THEN
    ending.outcome := CASE WHEN w.stop_reason IS NULL THEN 'dead' ELSE 'cancelled' END;
    ending.reason := coalesce(w.stop_reason, concat_ws(', ', failed || ' of its items failed',
        nullif(cancelled, 0) || ' cancelled'));
  ELSIF pgcron.results_exceed(1048576, w.run, ARRAY[number], 0, 10000) THEN
    ending.reason := 'the results of its items have more than the 1048576 bytes (1 MiB) that they '
      'may have';
  ELSE
    ending.outcome := 'succeeded';
    ending.result := (SELECT coalesce(jsonb_agg(s.result ORDER BY s.item), '[]') FROM pgcron.step s
                      WHERE s.workflow = w.run AND s.number = end_of_list.number AND s.item >= 0);
  END IF;
END $$;
