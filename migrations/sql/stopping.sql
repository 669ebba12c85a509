-- Giving up, and runs that last longer than expected.

-- ready -> dead
-- blocked -> dead
-- Ends runs that have failed, wait for another attempt, and whose give_up_after is over: they die
-- of their last error. Writes history and the dead letters in the same transaction. A run that
-- never began expires instead. Locked rows are left for the next call; a run that the database
-- refuses to end so ends as refused.
CREATE FUNCTION pgcron.give_up_runs(at_most int) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  waiting pgcron.run;
  last pgcron.attempt;
BEGIN
  FOR waiting IN SELECT r.* FROM pgcron.run r
      WHERE r.state <> 'running' AND r.expire_at IS NOT NULL AND r.expire_at <= now()
        AND r.attempt > 0 AND r.time_limits ? 'give_up_at'
      ORDER BY r.expire_at LIMIT at_most FOR UPDATE SKIP LOCKED LOOP
    SELECT * INTO last FROM pgcron.attempt a WHERE a.run_id = waiting.id
    ORDER BY a.attempt DESC, a.ended_at DESC LIMIT 1;
    BEGIN
      PERFORM pgcron.end_run(waiting, 'dead', coalesce(last.error_class, 'GivenUp'),
          concat_ws(' ', waiting.last_error,
            format('(not retried: %s)', pgcron.given_up(waiting.time_limits))),
          last.fingerprint, NULL);
    EXCEPTION WHEN others THEN
      IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
      PERFORM pgcron.end_refused_run(waiting.id, NULL, SQLERRM);
    END;
    RETURN NEXT waiting.id;
  END LOOP;
END $$;

-- Runs of schedules that execute for longer than their schedule's history lets expect.

-- Kept apart from the run: few runs have such a row, and the others pay nothing.
CREATE TABLE pgcron.overrun (
  run_id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  expected interval NOT NULL
);
COMMENT ON TABLE pgcron.overrun IS
    'Runs that execute, or executed a moment ago, for longer than expected; the row of a run that '
    'is over is removed within minutes.';
CREATE INDEX overrun_schedule ON pgcron.overrun (schedule_id);

-- How long a run of the schedule may take before it overruns: half as long again as 95 of 100 of
-- its last 50 that succeeded took (of the last 200 that ended), and 10 seconds at least. NULL while
-- fewer than 5 of them did.
CREATE FUNCTION pgcron.expected_duration(schedule_id bigint) RETURNS interval
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN count(*) >= 5 THEN greatest(1.5 * percentile_cont(0.95) WITHIN GROUP (ORDER BY
                        took.length),
                    interval '10 seconds') END
  FROM (SELECT last.finished_at - last.started_at AS length
        FROM (SELECT h.outcome, h.started_at, h.finished_at FROM pgcron.history h
              WHERE h.schedule_id = expected_duration.schedule_id ORDER BY h.finished_at DESC
              LIMIT 200) last
        WHERE last.outcome = 'succeeded' AND last.started_at IS NOT NULL LIMIT 50) took $$;
