-- Schedules that pause themselves after a number of failures in a row, and then let one fire
-- through at a time as a probe.

CREATE TABLE pgcron.fire_failure (
  run_id bigint PRIMARY KEY,
  schedule_id bigint NOT NULL,
  failed_at timestamptz NOT NULL,
  is_judged boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE pgcron.fire_failure IS
    'Fires of schedules with pause_after_failures that ended dead or lost, since the last that '
    'succeeded. The end of a run only inserts, so that it waits for no lock.';
CREATE INDEX fire_failure_schedule ON pgcron.fire_failure (schedule_id, failed_at);
CREATE INDEX fire_failure_new ON pgcron.fire_failure (schedule_id) WHERE NOT is_judged;

CREATE TABLE pgcron.failure_pause (
  schedule_id bigint PRIMARY KEY REFERENCES pgcron.schedule ON DELETE CASCADE,
  failures int NOT NULL,
  pauses int NOT NULL DEFAULT 1,
  since timestamptz NOT NULL,
  probe_at timestamptz,
  -- When a node looks for that fire (again): it may lie far ahead.
  look_at timestamptz,
  probe_fire timestamptz,
  probe_run bigint
);
COMMENT ON TABLE pgcron.failure_pause IS
    'Schedules that failures have paused: the first fire after probe_at is let through; its '
    'success resumes the schedule, its failure pauses it for twice as long.';
CREATE INDEX failure_pause_due ON pgcron.failure_pause (look_at) WHERE probe_run IS NULL;
CREATE INDEX failure_pause_probing ON pgcron.failure_pause (probe_run) WHERE probe_run IS NOT NULL;

-- When a fire of the schedule last succeeded, of those since an instant; manual runs, re-runs and
-- backfills do not count.
CREATE FUNCTION pgcron.last_success(of_schedule bigint, since timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
  SELECT max(h.finished_at) FROM pgcron.ended_runs h
  WHERE h.schedule_id = of_schedule AND h.finished_at >= since AND h.outcome = 'succeeded'
    AND h.origin = 'schedule' $$;

-- Pauses a schedule that has failed pause_after_failures times in a row; settles the probe of one
-- that is paused so. Judges what has failed since the last time: the schedule's row is locked, so
-- that of several nodes one does, and edits wait. Returns the note of a pause that it began or went
-- on with, 'resumed', or NULL.
CREATE FUNCTION pgcron.judge_failures(failing bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  definition pgcron.schedule;
  held pgcron.failure_pause;
  failures int;
  latest bigint;
BEGIN
  PERFORM pgcron.act_as('pgcron_ha', 'clock');
  SELECT * INTO definition FROM pgcron.schedule s WHERE s.id = failing FOR NO KEY UPDATE;
  IF definition.id IS NULL OR definition.pause_after_failures IS NULL THEN
    PERFORM pgcron.forget_failures(failing);
    RETURN NULL;
  END IF;
  UPDATE pgcron.fire_failure f SET is_judged = true
  WHERE f.schedule_id = failing AND NOT f.is_judged;
  SELECT * INTO held FROM pgcron.failure_pause p WHERE p.schedule_id = failing;
  IF held.schedule_id IS NOT NULL THEN
    RETURN pgcron.judge_probe(definition, held);
  ELSIF NOT definition.enabled THEN
    RETURN NULL;
  END IF;
  DELETE FROM pgcron.fire_failure f
  WHERE f.schedule_id = failing
    AND f.failed_at <= pgcron.last_success(failing,
          (SELECT min(e.failed_at) FROM pgcron.fire_failure e WHERE e.schedule_id = failing));
  SELECT count(*) INTO failures FROM pgcron.fire_failure f WHERE f.schedule_id = failing;
  IF failures < definition.pause_after_failures THEN RETURN NULL; END IF;
  SELECT f.run_id INTO latest FROM pgcron.fire_failure f WHERE f.schedule_id = failing
  ORDER BY f.failed_at DESC LIMIT 1;
  INSERT INTO pgcron.failure_pause (schedule_id, failures, since, probe_at, look_at)
  VALUES (failing, failures, clock_timestamp(), clock_timestamp() + definition.probe_after,
          clock_timestamp() + definition.probe_after);
  RETURN pgcron.pause_for_failures(failing, failures, format('run %s', latest));
END $$;

-- The note names the run and not its error: it goes on into versions, records of missed fires and
-- the audit, where no erasure finds it.
CREATE FUNCTION pgcron.pause_for_failures(failing bigint, failures int, latest text) RETURNS text
LANGUAGE sql AS $$
  UPDATE pgcron.schedule s
  SET enabled = false, paused_until = NULL,
      paused_note = format('paused after %s in a row (last: %s)',
          CASE failures WHEN 1 THEN '1 failure' ELSE failures || ' failures' END, latest)
  WHERE s.id = failing RETURNING s.paused_note $$;

-- The probe that is over: success resumes, failure pauses for twice as long, at most a day; what
-- did not come to an end of its own (it was cancelled, skipped, or an edit took it away) leaves the
-- next fire to probe.
CREATE FUNCTION pgcron.judge_probe(definition pgcron.schedule, held pgcron.failure_pause)
  RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  outcome text;
  wait interval := least(definition.probe_after * power(2, least(held.pauses, 20)),
      interval '1 day');
BEGIN
  IF held.probe_run IS NULL OR EXISTS (SELECT FROM pgcron.run r WHERE r.id = held.probe_run) THEN
    RETURN NULL;
  END IF;
  SELECT h.outcome INTO outcome FROM pgcron.ended_runs h WHERE h.id = held.probe_run LIMIT 1;
  IF outcome = 'succeeded' THEN
    -- which forgets its failures, too
    UPDATE pgcron.schedule s SET enabled = true WHERE s.id = definition.id;
    RETURN 'resumed';
  ELSIF outcome IN ('dead', 'lost') THEN
    UPDATE pgcron.failure_pause p
    SET failures = p.failures + 1, pauses = p.pauses + 1, probe_run = NULL, probe_fire = NULL,
        probe_at = clock_timestamp() + wait, look_at = clock_timestamp() + wait
    WHERE p.schedule_id = definition.id;
    RETURN pgcron.pause_for_failures(definition.id, held.failures + 1,
        format('run %s, the probe', held.probe_run));
  END IF;
  UPDATE pgcron.failure_pause p
  SET probe_run = NULL, probe_fire = NULL,
      probe_at = CASE WHEN outcome IS NULL THEN p.probe_at
                      ELSE greatest(p.probe_at, p.probe_fire) END,
      look_at = clock_timestamp()
  WHERE p.schedule_id = definition.id;
  RETURN NULL;
END $$;

-- After a person resumed or paused it: the failures before that no longer count.
CREATE FUNCTION pgcron.forget_failures(of_schedule bigint) RETURNS void
LANGUAGE sql AS $$
  DELETE FROM pgcron.failure_pause p WHERE p.schedule_id = of_schedule;
  DELETE FROM pgcron.fire_failure f WHERE f.schedule_id = of_schedule $$;
