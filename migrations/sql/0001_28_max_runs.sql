-- Fires that were counted as runs of a schedule with max_runs and never ran: skipped and superseded ones don't count.

CREATE TABLE pgcron.given_back (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL,
  runs int NOT NULL
);
COMMENT ON TABLE pgcron.given_back IS 'Taken by the next materializer, who holds the cursor when it counts: whoever ends runs may not lock it any more.';

-- Called where runs that wait end as skipped or superseded; nothing for schedules that don't count.
CREATE FUNCTION pgcron.give_back_runs(run_ids bigint[]) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  INSERT INTO pgcron.given_back (schedule_id, runs)
  SELECT s.id, count(*) FROM pgcron.run r JOIN pgcron.schedule s ON s.id = r.schedule_id
   WHERE r.id = ANY(run_ids) AND r.origin = 'schedule' AND r.attempt = 0 AND s.max_runs IS NOT NULL GROUP BY s.id $$;

-- A schedule that had ended goes on with what it is given back.
CREATE FUNCTION pgcron.take_given_back(at_most int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  changed int;
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.given_back) THEN RETURN 0; END IF;
  WITH taken AS (
    DELETE FROM pgcron.given_back g WHERE g.id = ANY(ARRAY(SELECT b.id FROM pgcron.given_back b ORDER BY b.id LIMIT at_most FOR UPDATE SKIP LOCKED))
    RETURNING g.schedule_id, g.runs),
  totals AS (SELECT t.schedule_id, sum(t.runs)::int AS runs FROM taken t GROUP BY 1),
  held AS MATERIALIZED (
    SELECT c.schedule_id FROM pgcron.cursor c WHERE c.schedule_id IN (SELECT schedule_id FROM totals) ORDER BY c.schedule_id FOR UPDATE)
  UPDATE pgcron.cursor c SET runs_made = greatest(c.runs_made - t.runs, 0), next_fire = nullif(c.next_fire, 'infinity')
    FROM totals t JOIN held h USING (schedule_id) WHERE c.schedule_id = t.schedule_id;
  GET DIAGNOSTICS changed = ROW_COUNT;
  RETURN changed;
END $$;

REVOKE ALL ON FUNCTION pgcron.give_back_runs(bigint[]), pgcron.take_given_back(int) FROM PUBLIC;
