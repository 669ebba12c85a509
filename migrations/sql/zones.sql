-- Time zones: which version of tzdata decides, and which schedules have fires ahead that another one decided.

CREATE TABLE pgcron.outdated_plan (schedule_id bigint PRIMARY KEY);
COMMENT ON TABLE pgcron.outdated_plan IS 'Schedules with fires ahead that another tzdata than cluster.tzdata decided: a node decides them again.';

-- The newest tzdata of the living nodes decides; a node that stops gives way at once. Schedules in UTC have no rules that could change.
-- No cursor is locked here: whoever edits a schedule holds up that one alone.
CREATE FUNCTION pgcron.take_tzdata(tzdata text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  before text := (SELECT c.tzdata FROM pgcron.cluster c);
BEGIN
  UPDATE pgcron.cluster c SET tzdata = take_tzdata.tzdata
   WHERE c.tzdata IS NOT DISTINCT FROM before AND before IS DISTINCT FROM take_tzdata.tzdata
     AND take_tzdata.tzdata = (SELECT max(n.tzdata) FROM pgcron.node n WHERE n.state IN ('alive', 'cordoned'));
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO pgcron.outdated_plan (schedule_id)
  SELECT s.id FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id WHERE s.timezone <> 'UTC' AND (before IS NOT NULL OR c.status = 'valid')
  ON CONFLICT DO NOTHING;
  RETURN true;
END $$;

-- What is not due yet is removed and decided anew, as after an edit. A schedule that is paused has nothing ahead but its preview and its probe.
CREATE FUNCTION pgcron.replan(outdated bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = outdated FOR UPDATE;
  DELETE FROM pgcron.outdated_plan p WHERE p.schedule_id = outdated;
  IF NOT FOUND THEN RETURN; END IF;      -- another node was faster
  UPDATE pgcron.failure_pause p SET probe_fire = NULL, look_at = p.probe_at WHERE p.schedule_id = outdated AND p.probe_run IS NULL AND p.probe_fire > now();
  PERFORM pgcron.apply_edit(c.schedule_id) FROM pgcron.cursor c WHERE c.schedule_id = outdated AND NOT c.is_paused;
  UPDATE pgcron.cursor c SET generation = c.generation + 1, rules_since = clock_timestamp() WHERE c.schedule_id = outdated;
END $$;

REVOKE ALL ON FUNCTION pgcron.take_tzdata(text), pgcron.replan(bigint) FROM PUBLIC;
