-- What a fire knows of the one before it: its result, and with depends_on_previous whether it may
-- run at all.

-- How the last run before a fire time of a schedule ended, and with what result; manual runs and
-- skipped fires do not count. All NULL: there was none, or it is not kept any more.
CREATE FUNCTION pgcron.previous_run(schedule_id bigint, before timestamptz, OUT run bigint,
    OUT fire_time timestamptz, OUT outcome text, OUT finished_at timestamptz, OUT result jsonb,
    OUT error text)
LANGUAGE sql STABLE AS $$
  SELECT o.run_id, o.fire_at, h.outcome, h.finished_at, h.result, h.error FROM pgcron.occurrence o
  CROSS JOIN LATERAL (SELECT e.* FROM pgcron.ended_runs e
                      WHERE e.id = o.run_id AND e.finished_at >= o.decided_at - interval '1 day'
                      LIMIT 1) h
  WHERE o.schedule_id = previous_run.schedule_id AND o.fire_at < previous_run.before
    AND o.decision NOT IN ('skipped', 'superseded')
  ORDER BY o.fire_at DESC LIMIT 1 $$;

-- Whether a fire may run after the one before it. `open`: that one is not over; `failed`: it did
-- not succeed, and since then no other run of the schedule (tried again, redriven, by hand, a
-- backfill's) has; `fine` otherwise, also when it is not kept any more.
CREATE FUNCTION pgcron.judge_previous(schedule_id bigint, fire timestamptz, OUT verdict text,
    OUT reason text, OUT has_begun boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  last pgcron.occurrence;
  ended pgcron.history;
BEGIN
  SELECT * INTO last FROM pgcron.occurrence o
  WHERE o.schedule_id = judge_previous.schedule_id AND o.fire_at < fire
    AND o.decision NOT IN ('skipped', 'superseded')
  ORDER BY o.fire_at DESC LIMIT 1;
  SELECT r.state = 'running' OR r.attempt > 0, 'open' INTO has_begun, verdict FROM pgcron.run r
  WHERE r.id = last.run_id;
  IF FOUND THEN RETURN; END IF;
  SELECT * INTO ended FROM pgcron.ended_runs h
  WHERE h.id = last.run_id AND h.finished_at >= last.decided_at - interval '1 day' LIMIT 1;
  verdict := 'fine';
  IF pgcron.is_failure(ended.outcome)
      AND NOT EXISTS (SELECT FROM pgcron.history h
                      WHERE h.schedule_id = judge_previous.schedule_id
                        AND h.finished_at >= ended.finished_at AND h.outcome = 'succeeded') THEN
    verdict := 'failed';
    reason := CASE ended.outcome
        WHEN 'upstream_failed' THEN last.reason
        ELSE format('run %s of the fire before ended %s', ended.id, ended.outcome) END;
  END IF;
END $$;

-- blocked -> ready, skipped, upstream_failed
-- ready -> blocked
-- Opens the gate of runs that wait for the fire before theirs, or ends them where it failed. Runs
-- of schedules with depends_on_previous wait (gate `previous`) from their beginning, so that no
-- claim has to check: they go on shortly before they are due, or end. Of each schedule the earliest
-- is judged. Returns what was decided; `is_open`: it may go on.
CREATE FUNCTION pgcron.admit_previous(schedules bigint[], ahead interval DEFAULT '5 seconds')
  RETURNS TABLE (schedule_id bigint, is_open boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  dependent record;
BEGIN
  PERFORM pgcron.require_read_committed('dependent runs');
  FOR dependent IN
      WITH held AS MATERIALIZED (
        SELECT r.id, r.schedule_id, r.scheduled_for, r.due_at, r.overlap FROM pgcron.run r
        WHERE r.id = ANY(ARRAY(
              SELECT head.id FROM unnest(schedules) one(id)
              CROSS JOIN LATERAL (SELECT w.id FROM pgcron.run w
                                  WHERE w.schedule_id = one.id AND w.state = 'blocked'
                                    AND w.gate = 'previous' AND w.due_at <= now() + ahead
                                  ORDER BY w.scheduled_for LIMIT 1) head))
          AND r.gate = 'previous' ORDER BY r.id FOR UPDATE SKIP LOCKED)
      SELECT h.id, h.schedule_id, h.overlap, h.due_at <= now() AS is_due, judged.* FROM held h
      CROSS JOIN LATERAL pgcron.judge_previous(h.schedule_id, h.scheduled_for) judged LOOP
    schedule_id := dependent.schedule_id;
    is_open := dependent.verdict = 'fine';
    IF is_open THEN
      PERFORM pgcron.set_gate(ARRAY[dependent.id], NULL);
    ELSIF dependent.is_due AND dependent.verdict = 'failed' THEN
      PERFORM pgcron.end_waiting_runs(ARRAY[dependent.id], 'upstream_failed', dependent.reason);
    ELSIF dependent.is_due AND dependent.has_begun AND dependent.overlap = 'skip' THEN
      PERFORM pgcron.end_waiting_runs(ARRAY[dependent.id], 'skipped', 'the last run is not over');
    ELSE
      CONTINUE;
    END IF;
    RETURN NEXT;
  END LOOP;
END $$;
