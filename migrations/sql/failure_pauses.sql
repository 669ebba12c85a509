-- Schedules that pause themselves after a number of failures in a row.

CREATE TABLE pgcron.fire_failure (
  run_id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  fire_at timestamptz,
  failed_at timestamptz NOT NULL,
  is_judged boolean NOT NULL DEFAULT false,
  -- When failures paused the schedule, of which it was the latest: it stands for all before it.
  paused_at timestamptz,
  failures int NOT NULL DEFAULT 1,
  pauses int NOT NULL DEFAULT 0
);
COMMENT ON TABLE pgcron.fire_failure IS
    'Fires of schedules with pause_after_failures that ended dead or lost, since the last that '
    'succeeded. The end of a run only inserts, so that it waits for no lock.';
CREATE INDEX fire_failure_schedule ON pgcron.fire_failure (schedule_id, failed_at);
CREATE INDEX fire_failure_new ON pgcron.fire_failure (schedule_id) WHERE NOT is_judged;

-- When a fire of the schedule last succeeded, of those since an instant; manual runs, re-runs and
-- backfills do not count.
CREATE FUNCTION pgcron.last_success(of_schedule bigint, since timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
  SELECT max(h.finished_at) FROM pgcron.ended_runs h
  WHERE h.schedule_id = of_schedule AND h.finished_at >= since AND h.outcome = 'succeeded'
    AND h.origin = 'schedule' $$;

-- Pauses a schedule that has failed pause_after_failures times in a row; with probe_after for that
-- time. What the clock resumes has not succeeded since: the next failure is one more in a row, and
-- pauses it for twice as long; one of a fire before the pause only counts. Judges what has failed
-- since the last time: the schedule's row is locked, so that of several nodes one does, and edits
-- wait. Returns the note of a pause that it began and its end, or NULL. The note names the run and
-- not its error: it goes on into versions, records of missed fires and the audit, where no erasure
-- finds it.
CREATE FUNCTION pgcron.judge_failures(failing bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  definition pgcron.schedule;
  in_a_row int;
  earlier_pauses int;
  latest bigint;
  newest_fire timestamptz;
  last_pause timestamptz;
  verdict text;
BEGIN
  PERFORM pgcron.act_as('pgcron_ha', 'clock');
  SELECT * INTO definition FROM pgcron.schedule s WHERE s.id = failing FOR NO KEY UPDATE;
  IF definition.pause_after_failures IS NULL THEN      -- or it is gone
    DELETE FROM pgcron.fire_failure f WHERE f.schedule_id = failing;
    RETURN NULL;
  END IF;
  WITH judged AS (
    UPDATE pgcron.fire_failure f SET is_judged = true
    WHERE f.schedule_id = failing AND NOT f.is_judged RETURNING f.fire_at)
  SELECT max(j.fire_at) INTO newest_fire FROM judged j;
  IF newest_fire IS NULL OR NOT definition.enabled THEN RETURN NULL; END IF;
  DELETE FROM pgcron.fire_failure f
  WHERE f.schedule_id = failing
    AND f.failed_at <= pgcron.last_success(failing,
          (SELECT min(e.failed_at) FROM pgcron.fire_failure e WHERE e.schedule_id = failing));
  SELECT coalesce(sum(f.failures), 0), sum(f.pauses), max(f.paused_at),
         (array_agg(f.run_id ORDER BY f.failed_at DESC))[1]
  INTO in_a_row, earlier_pauses, last_pause, latest FROM pgcron.fire_failure f
  WHERE f.schedule_id = failing AND f.is_judged;
  IF in_a_row < definition.pause_after_failures OR newest_fire <= last_pause THEN
    RETURN NULL;
  END IF;
  UPDATE pgcron.fire_failure f
  SET paused_at = clock_timestamp(), failures = in_a_row, pauses = earlier_pauses + 1
  WHERE f.run_id = latest;
  DELETE FROM pgcron.fire_failure f
  WHERE f.schedule_id = failing AND f.is_judged AND f.run_id <> latest;
  UPDATE pgcron.schedule s
  SET enabled = false,
      paused_until = clock_timestamp() + CASE WHEN s.probe_after IS NOT NULL
          THEN least(s.probe_after * power(2, least(earlier_pauses, 20)), interval '1 day') END,
      paused_note = format('paused after %s in a row (last: run %s)',
          CASE in_a_row WHEN 1 THEN '1 failure' ELSE in_a_row || ' failures' END, latest)
  WHERE s.id = failing
  RETURNING concat_ws(' until ', s.paused_note, date_trunc('second', s.paused_until)) INTO verdict;
  RETURN verdict;
END $$;
