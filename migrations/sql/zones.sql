-- Time zones: which schedules have fires ahead that another version of tzdata decided than the one
-- that decides now.

CREATE TABLE pgcron.outdated_plan (
  schedule_id bigint PRIMARY KEY
);
COMMENT ON TABLE pgcron.outdated_plan IS
    'Schedules with fires ahead that another tzdata than cluster.tzdata decided: a node decides '
    'them again.';

-- What is not due yet is removed and decided anew, as after an edit. A schedule that is paused has
-- nothing ahead but its preview and its probe.
CREATE FUNCTION pgcron.replan(outdated bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = outdated FOR UPDATE;
  DELETE FROM pgcron.outdated_plan p WHERE p.schedule_id = outdated;
  IF NOT FOUND THEN RETURN; END IF;      -- another node was faster
  UPDATE pgcron.failure_pause p SET probe_fire = NULL, look_at = p.probe_at
  WHERE p.schedule_id = outdated AND p.probe_run IS NULL AND p.probe_fire > now();
  PERFORM pgcron.apply_edit(c.schedule_id) FROM pgcron.cursor c
    WHERE c.schedule_id = outdated AND NOT c.is_paused;
  UPDATE pgcron.cursor c SET generation = c.generation + 1, rules_since = clock_timestamp()
  WHERE c.schedule_id = outdated;
END $$;
