-- One fire to come, skipped, moved or given other args: a row of occurrence_override, which
-- outlives edits of the schedule and is read when the fire becomes a run. One that is a run
-- already, and is not due yet, is made anew as after an edit.

-- Fires that were moved ahead of their time: they become runs before the cursor comes to them.
CREATE INDEX occurrence_override_early ON pgcron.occurrence_override (due_at)
  WHERE action = 'move' AND due_at < fire_at;

-- Why a run or a decision is not what the schedule says, for the ledger.
CREATE FUNCTION pgcron.override_words(action text, due_at timestamptz, actor text, note text)
  RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT concat_ws(': ',
           CASE action
             WHEN 'skip' THEN 'skipped by ' || actor
             WHEN 'edit' THEN 'other args by ' || actor
             ELSE format('moved to %s by %s',
                    to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), actor) END,
           note) $$;

-- Locks what decides a fire, in the order of an edit: schedule, cursor, run. Raises PC010 (no such
-- schedule), PC011 (it is due or over) or PC001 (the schedule does not fire then, as far as rows
-- show).
CREATE FUNCTION pgcron.lock_occurrence(name text, instant timestamptz, OUT schedule bigint,
    OUT is_decided boolean)
LANGUAGE plpgsql AS $$
DECLARE
  fires pgcron.cursor;
  decided pgcron.occurrence;
  waiting pgcron.run;
  is_over boolean;
BEGIN
  PERFORM pgcron.require_read_committed('changes of one fire');
  PERFORM pgcron.refuse('PC001', 'the fire is NULL', 'A fire is named by its time.',
      '`pgcron-ha schedules show` lists the next ones.')
    WHERE instant IS NULL;
  SELECT s.id INTO schedule FROM pgcron.hold_schedule(name) s;
  SELECT * INTO fires FROM pgcron.cursor c WHERE c.schedule_id = schedule FOR UPDATE;
  SELECT * INTO decided FROM pgcron.occurrence o
  WHERE o.schedule_id = schedule AND o.fire_at = instant;
  SELECT * INTO waiting FROM pgcron.run r WHERE r.id = decided.run_id FOR UPDATE;
  is_decided := decided.schedule_id IS NOT NULL;
  is_over := least(instant, waiting.due_at) <= clock_timestamp();
  IF is_decided AND (is_over OR waiting.state = 'running' OR waiting.attempt > 0
                     OR (waiting.id IS NULL AND decided.run_id IS NOT NULL)) THEN
    PERFORM pgcron.refuse('PC011',
        format('the fire of schedule %L at %s %s', left(name, 200), instant,
          CASE WHEN waiting.state = 'running' THEN format('is executed as run %s', waiting.id)
               WHEN waiting.attempt > 0 THEN format('has begun as run %s', waiting.id)
               WHEN waiting.id IS NOT NULL THEN format('is due as run %s', waiting.id)
               WHEN decided.decision = 'run' THEN format('has ended as run %s', decided.run_id)
               ELSE 'was decided: ' || decided.decision END),
        'Only a fire that is not due yet can be changed.',
        'Cancel its run, or run the schedule again: pgcron.run_now.');
  ELSIF is_over THEN
    PERFORM pgcron.refuse('PC011', format('%s is over', instant),
        'Only a fire to come can be changed.',
        'pgcron.run_now runs the schedule for any fire time.');
  ELSIF instant <= fires.watermark AND NOT is_decided THEN
    PERFORM pgcron.refuse('PC001',
        format('schedule %L does not fire at %s', left(name, 200), instant),
        format('Its fires are decided up to %s, and this is none of them.', fires.watermark),
        '`pgcron-ha schedules show` lists the next ones.');
  END IF;
END $$;

-- Writes the override (without an action: removes it) and applies it to a run that exists already.
CREATE FUNCTION pgcron.override_occurrence(name text, instant timestamptz, action text,
    due_at timestamptz, args jsonb, note text, actor text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  held record := pgcron.lock_occurrence(name, instant);
  given CONSTANT text := action;
  known pgcron.occurrence_override;
  earliest timestamptz := instant - (
      SELECT r.ahead - interval '1 day' FROM pgcron.retention r WHERE r.relation = 'occurrence');
BEGIN
  actor := coalesce(actor, session_user);
  SELECT * INTO known FROM pgcron.occurrence_override o
  WHERE o.schedule_id = held.schedule AND o.fire_at = instant FOR UPDATE;
  IF action IS NULL THEN
    DELETE FROM pgcron.occurrence_override o
    WHERE o.schedule_id = held.schedule AND o.fire_at = instant;
    PERFORM pgcron.refuse('PC010',
        format('nobody has changed the fire of schedule %L at %s', left(name, 200), instant),
        'Only a fire that was skipped, moved or given other args is restored.',
        'SELECT * FROM pgcron.occurrence_override lists them.')
      WHERE NOT FOUND;
  ELSE
    IF known.action = 'skip' AND action <> 'skip' THEN
      PERFORM pgcron.refuse('PC011',
          format('the fire of schedule %L at %s is skipped', left(name, 200), instant),
          format('%s skipped it.', known.actor),
          'Restore it first: `pgcron-ha schedules restore-occurrence`, or '
          'pgcron.restore_occurrence in SQL.');
    ELSIF action = 'edit' AND known.action = 'move' THEN
      action := 'move'; due_at := known.due_at;
    ELSIF action = 'move' THEN
      args := known.args;
    END IF;
    -- it would become a run before the ledger has a partition for it
    PERFORM pgcron.refuse('PC001',
        format('the fire of schedule %L at %s can''t run as early as %s', left(name, 200), instant,
          due_at),
        format('The ledger is kept so far ahead that it can run from %s on (ahead of occurrence in '
          'pgcron.retention).', earliest),
        'Skip it, and run the schedule for it then: pgcron.run_now(schedule, fire_time => …).')
      WHERE due_at < earliest;
    INSERT INTO pgcron.occurrence_override AS o (schedule_id, fire_at, action, due_at, args, note,
          actor)
    VALUES (held.schedule, instant, action, due_at, args, left(note, 500), actor)
    ON CONFLICT (schedule_id, fire_at) DO UPDATE SET action = EXCLUDED.action,
      due_at = EXCLUDED.due_at, args = EXCLUDED.args, note = EXCLUDED.note, actor = EXCLUDED.actor,
      at = now();
  END IF;
  PERFORM pgcron.record_audit(coalesce(given, 'restore'), 'occurrence', name, actor, note,
      jsonb_strip_nulls(jsonb_build_object('fire_time', instant, 'action', known.action,
          'due_at', known.due_at, 'args', known.args)),
      jsonb_strip_nulls(jsonb_build_object('fire_time', instant, 'action', action,
          'due_at', due_at, 'args', args)));
  IF held.is_decided THEN      -- it becomes a run, or none, as every fire after an edit
    PERFORM pgcron.apply_edit(held.schedule);
    PERFORM pgcron.notify(pgcron.channel(), 'schedule');
  ELSE
    -- The generation refuses what a materializer has read before. The preview stays valid: it is
    -- joined with the overrides when it is read.
    UPDATE pgcron.cursor c SET generation = c.generation + 1 WHERE c.schedule_id = held.schedule;
    UPDATE pgcron.schedule_preview p SET generation = p.generation + 1
    WHERE p.schedule_id = held.schedule;
  END IF;
END $$;

CREATE FUNCTION pgcron.skip_occurrence(schedule text, fire_time timestamptz, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.override_occurrence(schedule, fire_time, 'skip', NULL, NULL, note, actor) $$;
COMMENT ON FUNCTION pgcron.skip_occurrence IS
    'One fire to come does not run. Only a node knows beyond the horizon whether an instant is '
    'one: the other interfaces ask first.';

-- due_at may be before or after its fire time; the run is still that of its fire time.
CREATE FUNCTION pgcron.move_occurrence(schedule text, fire_time timestamptz, due_at timestamptz,
    note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC001',
           format('a fire can''t be moved from %s to %s', fire_time,
             coalesce(due_at::text, 'NULL')),
           'It is moved to another instant to come.',
           'Skip it, and run the schedule for it now: pgcron.run_now(schedule, fire_time => …).')
  WHERE (due_at > clock_timestamp() AND due_at <= '9998-12-31 00:00Z' AND due_at <> fire_time)
    IS NOT TRUE;
  SELECT pgcron.override_occurrence(schedule, fire_time, 'move', due_at, NULL, note, actor) $$;
COMMENT ON FUNCTION pgcron.move_occurrence IS
    'One fire to come is due at another instant; it stays the fire of its own.';

CREATE FUNCTION pgcron.edit_occurrence(schedule text, fire_time timestamptz, args jsonb,
    note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse_args('null') WHERE args IS NULL;
  SELECT pgcron.override_occurrence(schedule, fire_time, 'edit', NULL, args, note, actor) $$;
COMMENT ON FUNCTION pgcron.edit_occurrence IS 'One fire to come gets other args.';

CREATE FUNCTION pgcron.restore_occurrence(schedule text, fire_time timestamptz,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.override_occurrence(schedule, fire_time, NULL, NULL, NULL, NULL, actor) $$;
COMMENT ON FUNCTION pgcron.restore_occurrence IS
    'A fire to come that was skipped, moved or given other args is as the schedule says again.';

-- After a time in which no node lived: what became due meanwhile is late, also where it was a run
-- already. A node calls this before it claims, so that the catch-up policy decides first.

-- ready -> skipped
-- blocked -> skipped
-- Late is what became due after the last beat of any node and more than `grace` ago. Of those the
-- policy keeps the newest; none where a newer late fire has no run yet, as the materializer decides
-- about that one. A run that was moved or edited by a person stays. Returns how many were skipped,
-- at most `most`; does nothing while some node has its lease.
CREATE FUNCTION pgcron.end_late_fires(grace interval, most int) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  silent_since timestamptz := (
      SELECT coalesce(max(n.lease_until - n.lease_ttl), '-infinity') FROM pgcron.node n
      WHERE n.lease_ttl <= '1 day');
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT judged.reason, array_agg(judged.id ORDER BY judged.id) AS runs
      FROM (SELECT r.id,
                   CASE WHEN s.catchup = 'none'
                          THEN 'it was late, and its schedule does not catch up'
                        WHEN now() - r.due_at > s.catchup_window
                          THEN 'it was late, and older than the catch-up window'
                        WHEN row_number() OVER (PARTITION BY s.id ORDER BY r.scheduled_for DESC)
                             > CASE WHEN s.catchup = 'latest' THEN 1
                                    ELSE substring(s.catchup FROM '^latest (\d{1,6})$')::int END
                               - (c.next_fire <= now() - grace AND NOT c.is_paused)::int
                          THEN 'it was late, and a newer late fire runs in its place' END AS reason
            FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id
            CROSS JOIN LATERAL (SELECT w.* FROM pgcron.run w
                                WHERE w.schedule_id = s.id AND w.state <> 'running'
                                  AND w.origin = 'schedule' AND w.attempt = 0
                                  AND w.due_at > silent_since AND w.due_at <= now() - grace) r
            WHERE s.catchup <> 'all'
              AND NOT EXISTS (SELECT FROM pgcron.node n
                              WHERE n.state <> 'dead' AND n.lease_until > now())
              AND NOT EXISTS (SELECT FROM pgcron.occurrence_override o
                              WHERE o.schedule_id = s.id AND o.fire_at = r.scheduled_for)) judged
      WHERE judged.reason IS NOT NULL GROUP BY judged.reason) late
    CROSS JOIN LATERAL pgcron.end_each_waiting_run(late.runs[:most], 'skipped', late.reason));
END $$;
