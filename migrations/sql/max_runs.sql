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

-- A schedule that had ended goes on with what it is given back. Returns the schedules that are done with: one that somebody has locked is left out.
CREATE FUNCTION pgcron.take_given_back(schedules bigint[]) RETURNS SETOF bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT c.schedule_id FROM pgcron.cursor c WHERE c.schedule_id = ANY(schedules) ORDER BY c.schedule_id FOR UPDATE SKIP LOCKED),
  taken AS (
    DELETE FROM pgcron.given_back g
     WHERE g.schedule_id = ANY(schedules)
       AND (g.schedule_id IN (SELECT h.schedule_id FROM held h) OR NOT EXISTS (SELECT FROM pgcron.cursor c WHERE c.schedule_id = g.schedule_id))
    RETURNING g.schedule_id, g.runs),
  totals AS (SELECT t.schedule_id, sum(t.runs)::int AS runs FROM taken t GROUP BY 1),
  counted AS (
    UPDATE pgcron.cursor c SET runs_made = greatest(c.runs_made - t.runs, 0), next_fire = nullif(c.next_fire, 'infinity')
      FROM totals t JOIN held h USING (schedule_id) WHERE c.schedule_id = t.schedule_id)
  SELECT t.schedule_id FROM totals t $$;

REVOKE ALL ON FUNCTION pgcron.give_back_runs(bigint[]), pgcron.take_given_back(bigint[]) FROM PUBLIC;
