-- Edits of transactions that can't see new rows (REPEATABLE READ, SERIALIZABLE) wait for a node. A pause that began and ended before one came was a pause
-- all the same: what it held back is told, and not run as if nobody had said a word.

CREATE FUNCTION pgcron.with_pending_pause(cursor_before pgcron.cursor) RETURNS pgcron.cursor
LANGUAGE plpgsql STABLE AS $$
DECLARE
  paused jsonb;
BEGIN
  IF cursor_before.edit_is_pending AND NOT cursor_before.is_paused THEN
    SELECT v.content INTO paused FROM pgcron.schedule_version v
     WHERE v.schedule_id = cursor_before.schedule_id AND v.since IS NULL AND NOT (v.content ->> 'enabled')::boolean ORDER BY v.version DESC LIMIT 1;
    IF FOUND THEN
      cursor_before.is_paused := true;
      cursor_before.pause_note := concat_ws(': ', paused ->> 'paused_by', paused ->> 'paused_note');
      cursor_before.paused_until := (paused ->> 'paused_until')::timestamptz;
    END IF;
  END IF;
  RETURN cursor_before;
END $$;
REVOKE ALL ON FUNCTION pgcron.with_pending_pause(pgcron.cursor) FROM PUBLIC;

DO $do$
DECLARE
  known text := pg_get_functiondef('pgcron.apply_edit(bigint, boolean)'::regprocedure);
  beginning text := 'IF cursor_before IS NULL OR schedule_now IS NULL THEN RETURN; END IF;';
BEGIN
  IF position(beginning IN known) = 0 THEN RAISE EXCEPTION 'pgcron.apply_edit is not the one of revision pgcron_0001'; END IF;
  EXECUTE replace(known, beginning, beginning || '
  IF schedule_now.enabled THEN cursor_before := pgcron.with_pending_pause(cursor_before); END IF;');
END $do$;
