-- What happens when people edit schedules by plain SQL.

CREATE FUNCTION pgcron.judge_schedule() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.timezone t WHERE t.name = NEW.timezone) THEN
    PERFORM pgcron.refuse('PC003', format('time zone %L is not known', left(NEW.timezone, 100)),
        'A zone is a name of the IANA database, written exactly.',
        'Similar names: ' || coalesce(string_agg(near.name, ', '),
            'none; write for example Europe/Berlin') || '.')
      FROM (SELECT t.name FROM pgcron.timezone t
            WHERE strpos(lower(t.name), lower(substring(NEW.timezone FROM '([^/]{3})[^/]*$'))) > 0
            ORDER BY NOT starts_with(t.name, split_part(NEW.timezone, '/', 1)), t.name
            LIMIT 3) near;
  END IF;
  IF TG_OP = 'UPDATE' THEN
    NEW.id := OLD.id; NEW.uuid := OLD.uuid; NEW.created_at := OLD.created_at;
    NEW.version := OLD.version; NEW.updated_at := OLD.updated_at;
  END IF;
  NEW.calendars := CASE WHEN NEW.spec COLLATE "C" ~* '\min\s'
                          THEN pgcron.take_calendars(NEW.spec, OLD.calendars) END;
  -- what another interface manages is detached from its files
  NEW.source := CASE NEW.managed_by WHEN 'file' THEN NEW.source END;
  IF NEW.enabled THEN
    NEW.paused_note := NULL; NEW.paused_by := NULL;
    NEW.paused_until := nullif(NEW.paused_until, OLD.paused_until);
  ELSE
    NEW.paused_note := left(NEW.paused_note, 500);
    IF (false, NEW.paused_note, NEW.paused_until)
        IS DISTINCT FROM (OLD.enabled, OLD.paused_note, OLD.paused_until) THEN
      NEW.paused_by := pgcron.actor();
    END IF;
    PERFORM pgcron.refuse('PC001',
        format('the pause would end at %s, which is over', NEW.paused_until),
        'A pause ends by itself at an instant to come.',
        'Name a later one, or leave it out to pause until the schedule is resumed.')
      WHERE NEW.paused_until <= clock_timestamp()
        AND NEW.paused_until IS DISTINCT FROM OLD.paused_until;
  END IF;
  -- code puts its schedules again at each start
  IF TG_OP = 'UPDATE' AND to_jsonb(NEW) IS DISTINCT FROM to_jsonb(OLD) THEN
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER judge_schedule BEFORE INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW
  EXECUTE FUNCTION pgcron.judge_schedule();

-- The newest 200 versions are kept.
CREATE FUNCTION pgcron.record_version(changed pgcron.schedule, operation text, since timestamptz)
  RETURNS void
LANGUAGE sql AS $$
  INSERT INTO pgcron.schedule_version (schedule_id, version, actor, interface, operation, content,
        since, note)
  VALUES (changed.id, changed.version, pgcron.actor(), pgcron.interface(), operation,
          to_jsonb(changed), since,
          left(nullif(current_setting('pgcron_ha.version_note', true), ''), 500))
  ON CONFLICT DO NOTHING;
  DELETE FROM pgcron.schedule_version v
  WHERE changed.version > 200 AND v.schedule_id = changed.id
    AND v.version <= changed.version - 200 $$;

CREATE FUNCTION pgcron.schedule_was_written() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  -- What an edit may change without an effect on the runs that are made already.
  untouched text[] := '{version,updated_at,catchup,catchup_window,paused_note,paused_by,'
    'paused_until,after_pause,pause_after_failures,probe_after,managed_by,source,owner,description,'
    'tags,links}';
  timing_changes boolean := (NEW.spec, NEW.timezone, NEW.dst, NEW.calendars)
      IS DISTINCT FROM (OLD.spec, OLD.timezone, OLD.dst, OLD.calendars);
  sees_new_rows boolean := current_setting('transaction_isolation') = 'read committed';
BEGIN
  PERFORM pgcron.depend_on_assets(NEW)
    WHERE NEW.spec IS DISTINCT FROM OLD.spec
      AND (NEW.spec ~* '^\s*on\s' OR OLD.spec ~* '^\s*on\s');
  PERFORM pgcron.judge_runs_of(NEW)
    WHERE TG_OP = 'INSERT' OR to_jsonb(NEW) - untouched - 'enabled'::text
                              IS DISTINCT FROM to_jsonb(OLD) - untouched - 'enabled'::text;
  IF TG_OP = 'INSERT' THEN
    INSERT INTO pgcron.cursor (schedule_id, since, watermark, is_paused, pause_note, paused_until)
    SELECT NEW.id, begin, begin, NOT NEW.enabled,
           CASE WHEN NOT NEW.enabled THEN concat_ws(': ', NEW.paused_by, NEW.paused_note) END,
           NEW.paused_until
    FROM clock_timestamp() AS begin;
    PERFORM pgcron.record_version(NEW, 'create',
        (SELECT c.since FROM pgcron.cursor c WHERE c.schedule_id = NEW.id));
  ELSIF NEW.version <> OLD.version THEN
    IF (NEW.enabled, NEW.paused_by, NEW.paused_note, NEW.paused_until)
        IS DISTINCT FROM (OLD.enabled, OLD.paused_by, OLD.paused_note, OLD.paused_until) THEN
      UPDATE pgcron.cursor
      SET pause_note = concat_ws(': ', NEW.paused_by, NEW.paused_note),
          paused_until = NEW.paused_until
      WHERE schedule_id = NEW.id AND NOT NEW.enabled AND NOT OLD.enabled;
      -- after a person resumed or paused it, the failures before that no longer count
      DELETE FROM pgcron.fire_failure f
      WHERE f.schedule_id = NEW.id AND pgcron.interface() <> 'clock';
    END IF;
    -- What waits follows the name; what runs or has ended keeps that of its time. The generation
    -- refuses what a materializer has read before: it would make runs of the old name.
    IF NEW.name <> OLD.name AND sees_new_rows THEN
      UPDATE pgcron.cursor SET generation = generation + 1 WHERE schedule_id = NEW.id;
      PERFORM FROM pgcron.run r WHERE r.schedule_id = NEW.id AND r.state <> 'running' ORDER BY r.id
        FOR UPDATE;
      UPDATE pgcron.run r SET schedule = NEW.name
      WHERE r.schedule_id = NEW.id AND r.state <> 'running';
      untouched := untouched || 'name'::text;
    END IF;
    IF to_jsonb(NEW) - untouched IS DISTINCT FROM to_jsonb(OLD) - untouched THEN
      IF sees_new_rows THEN
        PERFORM pgcron.apply_edit(NEW.id, timing_changes);
      -- this transaction's snapshot may not show rows made meanwhile: a node finishes the edit
      ELSE
        UPDATE pgcron.cursor
        SET generation = generation + 1, edit_is_pending = true,
            timing_is_new = timing_is_new OR timing_changes
        WHERE schedule_id = NEW.id;
      END IF;
    END IF;
    PERFORM pgcron.record_version(NEW, 'edit',
        (SELECT CASE WHEN c.edit_is_pending THEN NULL ELSE greatest(c.since, now()) END
         FROM pgcron.cursor c WHERE c.schedule_id = NEW.id));
    PERFORM pgcron.warn_of_owner(OLD, NEW);
  END IF;
  PERFORM pgcron.wake_nodes('schedule');
  RETURN NULL;
END $$;
CREATE TRIGGER schedule_was_written AFTER INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW
  EXECUTE FUNCTION pgcron.schedule_was_written();

-- Deleting: what has not started ends (a fire that is due is cancelled with a reason), what runs
-- finishes into history, backfills stop.
CREATE FUNCTION pgcron.schedule_is_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  cursor_before pgcron.cursor;
  deletion_time timestamptz;
BEGIN
  UPDATE pgcron.backfill b
  SET state = 'stopping', changed_at = now(), changed_by = pgcron.actor(),
      error = '{"message": "the schedule was deleted", "detail": null, "hint": null}'
  WHERE b.schedule_id = OLD.id AND b.state IN ('open', 'paused');
  SELECT * INTO cursor_before FROM pgcron.cursor WHERE schedule_id = OLD.id FOR UPDATE;
  PERFORM FROM pgcron.run WHERE schedule_id = OLD.id AND state <> 'running' AND attempt = 0
    ORDER BY id FOR UPDATE;
  deletion_time := clock_timestamp();
  WITH gone AS (
    DELETE FROM pgcron.run
    WHERE schedule_id = OLD.id AND state <> 'running' AND attempt = 0
      AND scheduled_for > deletion_time AND due_at > deletion_time
    RETURNING scheduled_for)
  DELETE FROM pgcron.occurrence o USING gone
  WHERE o.schedule_id = OLD.id AND o.fire_at = gone.scheduled_for;
  PERFORM pgcron.end_waiting_runs((
        SELECT array_agg(r.id) FROM pgcron.run r
        WHERE r.schedule_id = OLD.id AND r.state <> 'running' AND r.attempt = 0),
      'cancelled', 'schedule was deleted');
  PERFORM pgcron.record_missed(cursor_before, deletion_time,
      CASE reason WHEN 'edited' THEN 'deleted' ELSE reason END)
    FROM pgcron.unrecorded(cursor_before, deletion_time) reason;
  OLD.version := OLD.version + 1;
  PERFORM pgcron.record_version(OLD, 'delete', deletion_time);
  RETURN OLD;
END $$;
CREATE TRIGGER schedule_is_deleted BEFORE DELETE ON pgcron.schedule FOR EACH ROW
  EXECUTE FUNCTION pgcron.schedule_is_deleted();
