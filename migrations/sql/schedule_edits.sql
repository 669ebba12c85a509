-- What an edit of a schedule, or another version of tzdata, does to fires that are owed or made
-- already.

-- Why fires between the watermark and an instant may be owed and undecided; NULL when there are
-- none: none was ahead when a pause began, or is now.
CREATE FUNCTION pgcron.unrecorded(cursor_before pgcron.cursor, instant timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN cursor_before.watermark >= instant THEN NULL
            WHEN cursor_before.is_paused AND cursor_before.next_fire > instant THEN NULL
            WHEN cursor_before.is_paused THEN 'paused'
            WHEN cursor_before.canonical LIKE 'on asset %' THEN NULL
            WHEN cursor_before.status = 'valid' AND cursor_before.next_fire = 'infinity'
                 AND cursor_before.runs_made > 0 THEN 'completed'
            WHEN cursor_before.status = 'valid' AND cursor_before.next_fire > instant THEN NULL
            ELSE 'edited' END;

-- Nothing where there is no reason.
CREATE FUNCTION pgcron.record_missed(cursor_before pgcron.cursor, instant timestamptz, reason text)
  RETURNS void
LANGUAGE sql AS $$
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason, note)
  SELECT cursor_before.schedule_id, cursor_before.watermark + interval '1 microsecond', instant,
         record_missed.reason, cursor_before.pause_note
  WHERE record_missed.reason IS NOT NULL AND instant > cursor_before.watermark
  ON CONFLICT (schedule_id, first_at) DO NOTHING $$;

-- Whether a run that is due after its fire is so by the schedule's jitter alone: such a fire is
-- decided again after an edit, but not one that an earlier timing owed, as far as versions show.
CREATE FUNCTION pgcron.is_delayed(of pgcron.schedule, fire_at timestamptz, due_at timestamptz)
  RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT due_at > fire_at AND due_at < fire_at + of.jitter
         AND fire_at > (
             SELECT min(v.since) FROM pgcron.schedule_version v
             WHERE v.schedule_id = of.id AND v.version > coalesce((
                     SELECT max(e.version) FROM pgcron.schedule_version e
                     WHERE e.schedule_id = of.id
                       AND (e.content ->> 'spec', e.content ->> 'timezone', e.content ->> 'dst',
                             nullif(e.content -> 'calendars', 'null'))
                           IS DISTINCT FROM (of.spec, of.timezone, of.dst, of.calendars)), 0))
         AND NOT EXISTS (SELECT FROM pgcron.occurrence_override o
                         WHERE o.schedule_id = of.id AND o.fire_at = is_delayed.fire_at
                           AND o.action = 'move')
         -- no spec names it: it would not be made again
         AND NOT EXISTS (SELECT FROM pgcron.schedule_asset d WHERE d.schedule_id = of.id) $$;

-- Removes the outdated future runs of an edited schedule and starts a new generation. Needs READ
-- COMMITTED. Makes an edit true for what is already materialized. The order is the proof: (1) the
-- cursor row, where an edit and a materializer's compare-and-set meet; (2) the rows nobody has
-- started; (3) only now the clock: what was claimed before is due before it; (4) a new statement
-- deletes what lies after. Reading the clock earlier runs a fire twice. The new timing begins at
-- the edit: an instant before it is never decided by it. What the old timing owed and nobody has
-- decided (all nodes were away, or the last edit was a moment ago) is recorded as missed. A pause
-- that had an end was over then, whenever it is resumed: what lies after it is owed, unless an edit
-- came in between. What it held back is recorded, or left to the catch-up policy; not to a timing
-- that did not name it.
CREATE FUNCTION pgcron.apply_edit(edited bigint, timing_changes boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  cursor_before pgcron.cursor;
  schedule_now pgcron.schedule;
  edit_time timestamptz;
  unrecorded text;
  recorded_until timestamptz;
  taken_back int;
  first_delayed timestamptz;
  first_taken_back timestamptz;
  is_other_timing boolean;
BEGIN
  SELECT * INTO cursor_before FROM pgcron.cursor WHERE schedule_id = edited FOR UPDATE;
  SELECT * INTO schedule_now FROM pgcron.schedule WHERE id = edited;
  IF cursor_before IS NULL OR schedule_now IS NULL THEN RETURN; END IF;
  PERFORM FROM pgcron.run
    WHERE schedule_id = edited AND origin = 'schedule' AND state <> 'running' AND attempt = 0
    ORDER BY id FOR UPDATE;
  edit_time := clock_timestamp();
  is_other_timing := timing_changes OR cursor_before.timing_is_new;
  WITH gone AS (
    DELETE FROM pgcron.run
    WHERE schedule_id = edited AND origin = 'schedule' AND state <> 'running' AND attempt = 0
      AND due_at > edit_time
      AND (scheduled_for > edit_time
           OR (NOT is_other_timing
               AND pgcron.is_delayed(schedule_now, scheduled_for, due_at)))
    RETURNING scheduled_for),
  forgotten AS (
    DELETE FROM pgcron.occurrence o
    WHERE o.schedule_id = edited
      AND (o.fire_at IN (SELECT scheduled_for FROM gone)
           OR (o.fire_at > edit_time AND o.run_id IS NULL))
    RETURNING o.fire_at)
  SELECT count(*), min(scheduled_for) FILTER (WHERE scheduled_for <= edit_time),
         (SELECT min(f.fire_at) FROM forgotten f)
  INTO taken_back, first_delayed, first_taken_back FROM gone;
  -- What waits under no limit waits under the new policy.
  UPDATE pgcron.run
  SET overlap = pgcron.run_overlap(schedule_now.overlap, schedule_now.max_running),
      state = 'blocked', gate = coalesce(gate, 'overlap')
  WHERE schedule_id = edited AND origin = 'schedule' AND state <> 'running' AND attempt = 0
    AND overlap IS NULL
    AND pgcron.run_overlap(schedule_now.overlap, schedule_now.max_running) IS NOT NULL;
  PERFORM pgcron.drop_updates(edited, cursor_before.paused_until)
    WHERE cursor_before.is_paused AND schedule_now.enabled AND schedule_now.after_pause = 'drop';
  unrecorded := pgcron.unrecorded(cursor_before, edit_time);
  recorded_until := edit_time;
  IF NOT is_other_timing THEN
    IF unrecorded = 'edited' OR (NOT schedule_now.enabled AND unrecorded <> 'completed') THEN
      -- decided late, as the timing is the same; or recorded when the pause is over
      unrecorded := NULL;
    ELSIF unrecorded = 'paused' THEN
      recorded_until := CASE schedule_now.after_pause
          WHEN 'catchup' THEN cursor_before.watermark
          ELSE greatest(least(cursor_before.paused_until, edit_time), cursor_before.watermark,
                 cursor_before.since) END;
      unrecorded := pgcron.unrecorded(cursor_before, recorded_until);
    END IF;
  ELSIF NOT schedule_now.enabled AND unrecorded <> 'completed'
      AND NOT (unrecorded = 'paused' AND schedule_now.after_pause = 'catchup') THEN
    unrecorded := NULL;
  END IF;
  PERFORM pgcron.record_missed(cursor_before, recorded_until, unrecorded);
  UPDATE pgcron.cursor
  SET generation = generation + 1, since = edit_time, status = 'unchecked',
      -- of a pause: the first that it holds back; NULL where that is not known
      next_fire = CASE WHEN NOT schedule_now.enabled AND NOT is_other_timing
                            AND (is_paused OR status = 'valid') AND next_fire IS NOT NULL
                         THEN nullif(least(next_fire, first_taken_back), 'infinity') END,
      error = NULL, retry_at = NULL, canonical = NULL, is_paused = NOT schedule_now.enabled,
      edit_is_pending = false, timing_is_new = false,
      pause_note = CASE WHEN NOT schedule_now.enabled
                          THEN concat_ws(': ', schedule_now.paused_by,
                                 schedule_now.paused_note) END,
      paused_until = schedule_now.paused_until,
      runs_made = CASE WHEN schedule_now.max_runs IS NULL THEN 0
                       ELSE greatest(runs_made - taken_back, 0) END,
      watermark = least(first_delayed - interval '1 microsecond',
          CASE WHEN unrecorded IS NOT NULL THEN recorded_until
               WHEN (status = 'valid' OR is_paused) AND next_fire > edit_time THEN edit_time
               ELSE least(watermark, edit_time) END)
  WHERE schedule_id = edited;
  UPDATE pgcron.schedule_version SET since = edit_time WHERE schedule_id = edited AND since IS NULL;
END $$;

CREATE TABLE pgcron.outdated_plan (
  schedule_id bigint PRIMARY KEY
);
COMMENT ON TABLE pgcron.outdated_plan IS
    'Schedules with fires ahead that another tzdata than cluster.tzdata decided: a node decides '
    'them again.';

-- What is not due yet is removed and decided anew, as after an edit. A schedule that is paused has
-- nothing ahead but its preview.
CREATE FUNCTION pgcron.replan(outdated bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = outdated FOR UPDATE;
  DELETE FROM pgcron.outdated_plan p WHERE p.schedule_id = outdated;
  IF NOT FOUND THEN RETURN; END IF;      -- another node was faster
  PERFORM pgcron.apply_edit(c.schedule_id) FROM pgcron.cursor c
    WHERE c.schedule_id = outdated AND NOT c.is_paused;
  UPDATE pgcron.cursor c
  SET generation = c.generation + 1, rules_since = clock_timestamp(), next_fire = NULL
  WHERE c.schedule_id = outdated;
END $$;
