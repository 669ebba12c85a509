-- Versions of schedules: restoring one, refusing an edit of an outdated one, and warning that a
-- schedule is managed elsewhere.

-- Locks the schedule until the transaction ends, if it has the version that the caller has read;
-- else the edit between them would be lost: raises PC014, which names who changed it and when. NULL
-- expects nothing, 0 that there is no such schedule.
CREATE FUNCTION pgcron.expect_version(name text, expected int) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  known pgcron.schedule;
  edit pgcron.schedule_version;
BEGIN
  IF expected IS NULL THEN RETURN; END IF;
  SELECT * INTO known FROM pgcron.schedule s WHERE s.name = expect_version.name FOR NO KEY UPDATE;
  IF known.id IS NULL AND expected <> 0 THEN
    PERFORM pgcron.refuse('PC014',
        format('schedule %L has no version %s any more', left(name, 200), expected),
        'It was deleted or renamed meanwhile.',
        '`pgcron-ha schedules versions` shows by whom; expect version 0 to create it.');
  ELSIF known.version <> expected THEN
    SELECT * INTO edit FROM pgcron.schedule_version v WHERE v.schedule_id = known.id
    ORDER BY v.version DESC LIMIT 1;
    PERFORM pgcron.refuse('PC014',
        CASE WHEN expected = 0 THEN format('schedule %L exists already', known.name)
             ELSE format('schedule %L has version %s, not %s', known.name, known.version,
                    expected) END,
        CASE WHEN pgcron.schedule_in_scope(known)
               THEN format('It was written by %s through %s at %s.', edit.actor, edit.interface,
                      to_char(edit.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
             ELSE 'No two schedules have the same name.' END,
        CASE WHEN expected = 0 THEN 'Choose another name, or edit that one.'
             ELSE format('Read it again, and edit version %s; `pgcron-ha schedules diff` shows '
                    'what was changed.', known.version) END);
  END IF;
END $$;

-- Reported with every edit through an interface that is not the schedule's.
CREATE FUNCTION pgcron.warn_of_owner(before pgcron.schedule, after pgcron.schedule) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  left_to_operators CONSTANT text[] :=
    '{version,updated_at,enabled,paused_note,paused_by,paused_until,calendars}';
  interface text := pgcron.interface();
BEGIN
  IF interface <> before.managed_by AND after.managed_by = before.managed_by
      AND to_jsonb(before) - left_to_operators IS DISTINCT FROM to_jsonb(after)
          - left_to_operators THEN
    RAISE NOTICE USING ERRCODE = '01PC1',
      MESSAGE = format('schedule %L is managed by %s, and was edited through %s', before.name,
          before.managed_by, interface),
      DETAIL = CASE WHEN after.name <> before.name AND before.managed_by IN ('code', 'file')
                      THEN format('What declares %L there makes it anew.', before.name)
                    ELSE pgcron.owner_puts_back(before.managed_by) END,
      HINT = format('Edit it there; or take it over: managed_by %L.', interface);
  END IF;
END $$;

CREATE FUNCTION pgcron.owner_puts_back(managed_by text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE managed_by
           WHEN 'code' THEN 'The next start of a node with that application puts it back as the '
               'code has it, but for a pause.'
           WHEN 'file' THEN 'The next `pgcron-ha schedules apply` of that file puts it back as the '
               'file has it.'
           ELSE 'The edit stays; the people who manage it there may not expect it.' END $$;

-- Inserts a schedule of these columns, or updates those columns of an existing one that differ, if
-- any.
CREATE FUNCTION pgcron.write_schedule(wanted jsonb, existing pgcron.schedule) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  columns text;
BEGIN
  IF existing.id IS NULL THEN
    SELECT string_agg(quote_ident(w.key), ', ') INTO columns FROM jsonb_each(wanted) w;
    EXECUTE format('INSERT INTO pgcron.schedule (%1$s) SELECT %1$s FROM '
        'jsonb_populate_record(NULL::pgcron.schedule, $1)',
        columns) USING wanted;
    RETURN;
  END IF;
  wanted := to_jsonb(jsonb_populate_record(existing, wanted));
  -- a day is 24 hours, however it is written
  SELECT string_agg(quote_ident(a.attname), ', ') INTO columns
  FROM pg_attribute a, to_jsonb(existing) e
  WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND wanted ? a.attname
    AND wanted -> a.attname IS DISTINCT FROM e -> a.attname
    AND NOT coalesce(CASE WHEN a.atttypid = 'interval'::regtype
                            THEN (wanted ->> a.attname)::interval = (e ->> a.attname)::interval END,
          false);
  IF columns IS NOT NULL THEN
    EXECUTE format('UPDATE pgcron.schedule SET (%1$s) = (SELECT %1$s FROM '
          'jsonb_populate_record(NULL::pgcron.schedule, $1)) WHERE id = $2',
          columns) USING wanted,
      existing.id;
  END IF;
END $$;

-- The schedule that has, or last had, the name.
CREATE FUNCTION pgcron.schedule_of_versions(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT s.id FROM pgcron.schedule s WHERE s.name = schedule_of_versions.name),
           (SELECT v.schedule_id FROM pgcron.schedule_version v
            WHERE v.operation = 'delete' AND v.content ->> 'name' = schedule_of_versions.name
            ORDER BY v.at DESC, v.schedule_id DESC LIMIT 1)) $$;

CREATE VIEW pgcron.schedule_versions AS
  SELECT v.schedule_id, v.content ->> 'name' AS schedule, v.version, v.operation, v.at, v.actor,
         v.interface, v.note, v.since,
         EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = v.schedule_id AND s.version = v.version)
           AS is_current,
         v.content
  FROM pgcron.schedule_version v;
COMMENT ON VIEW pgcron.schedule_versions IS
    'Every version of every schedule, deleted ones too, under the name that it had then: the '
    'newest 200 of each, and of a deleted one as long as its ledger is kept.';

-- The columns of a schedule that people write.
CREATE FUNCTION pgcron.written_columns() RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT array_agg(a.attname::text) FROM pg_catalog.pg_attribute a
  WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = ''
    AND a.attname <> ALL ('{id,uuid,version,created_at,updated_at,paused_by,calendars}') $$;

CREATE FUNCTION pgcron.refuse_value(name text, reported text) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC001',
           format('schedule %L: %s', left(refuse_value.name, 200), refuse_value.reported),
           'Each value has the type of its column, a duration as text (''90 s''); few columns may '
           'be null.',
           'Correct it, or leave it out to keep its value.') $$;

-- Changes some columns of a schedule, named as in pgcron.schedule; null is the column's default.
-- Needs the rights on these columns and no other.
CREATE FUNCTION pgcron.edit_schedule(schedule text, changes jsonb,
    expected_version int DEFAULT NULL, note text DEFAULT NULL, actor text DEFAULT NULL,
    interface text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  known pgcron.schedule;
BEGIN
  PERFORM pgcron.refuse('PC001',
      format('a schedule has no column %L that can be edited', left(unknown, 100)),
      'What can be is what INSERT INTO pgcron.schedule takes; pgcron.rename_schedule changes a '
      'name.',
      'Correct its spelling, or leave it out.')
    FROM jsonb_object_keys(changes) unknown
    WHERE unknown = 'name' OR unknown <> ALL (pgcron.written_columns()) ORDER BY unknown LIMIT 1;
  PERFORM pgcron.expect_version(edit_schedule.schedule, expected_version);
  PERFORM pgcron.act_as(edit_schedule.actor, edit_schedule.interface);
  SELECT s.* INTO known FROM pgcron.schedule s
  WHERE s.id = pgcron.schedule_id(edit_schedule.schedule) FOR NO KEY UPDATE;
  SELECT changes || coalesce(jsonb_object_agg(d.key, d.value), '{}') INTO changes
  FROM jsonb_each(pgcron.schedule_defaults()) d WHERE changes -> d.key = 'null';
  PERFORM set_config('pgcron_ha.version_note', coalesce(edit_schedule.note, ''), true);
  PERFORM pgcron.write_schedule(changes, known);
  PERFORM set_config('pgcron_ha.version_note', '', true);
  RETURN (SELECT s.version FROM pgcron.schedule s WHERE s.id = known.id);
EXCEPTION WHEN data_exception OR not_null_violation THEN
  PERFORM pgcron.refuse_value(edit_schedule.schedule, SQLERRM);
END $$;
COMMENT ON FUNCTION pgcron.edit_schedule IS
    'Changes some columns of a schedule, null to their defaults, if it has the version that is '
    'expected (PC014); returns its version. The note is kept with the version.';

-- What the version said about when, what and how becomes true again, as a new version that says so.
-- Name, what manages it, and whether it is paused stay as they are. A deleted schedule is created
-- anew, with another id: the fires of the time between are not made up for.
CREATE FUNCTION pgcron.restore_schedule(schedule text, version int, actor text DEFAULT NULL,
    interface text DEFAULT NULL, expected_version int DEFAULT NULL, OUT schedule_id bigint,
    OUT new_version int, OUT note text)
LANGUAGE plpgsql AS $$
DECLARE
  known bigint := pgcron.schedule_of_versions(restore_schedule.schedule);
  old jsonb := (SELECT v.content FROM pgcron.schedule_version v
                WHERE v.schedule_id = known AND v.version = restore_schedule.version LIMIT 1);
  is_gone boolean := NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = known);
  existing pgcron.schedule;
BEGIN
  PERFORM pgcron.refuse('PC010',
      format('schedule %L has no version %s', left(schedule, 200), version),
      'The newest 200 versions of a schedule are kept, and those of a deleted one as long as its '
      'ledger.',
      format('`pgcron-ha schedules versions %s` lists them.', left(schedule, 200)))
    WHERE old IS NULL;
  PERFORM pgcron.expect_version(restore_schedule.schedule, expected_version);
  PERFORM pgcron.act_as(restore_schedule.actor, restore_schedule.interface);
  -- its pause is over by now
  IF is_gone AND (old ->> 'paused_until')::timestamptz <= clock_timestamp() THEN
    old := old || '{"enabled": true, "paused_note": null, "paused_until": null}';
  END IF;
  note := format('restored from version %s', restore_schedule.version)
    || CASE WHEN is_gone THEN format(' of deleted schedule %s', known) ELSE '' END;
  PERFORM set_config('pgcron_ha.version_note', note, true);
  SELECT jsonb_object_agg(c, old -> c) INTO old FROM unnest(pgcron.written_columns()) c
  WHERE old ? c AND (is_gone OR c !~ '^(name|enabled|managed_by|source|paused_.*)$');
  IF is_gone THEN old := old || jsonb_build_object('name', restore_schedule.schedule); END IF;
  SELECT s.* INTO existing FROM pgcron.schedule s WHERE s.id = known;
  PERFORM pgcron.write_schedule(old, existing);
  SELECT s.id, s.version INTO schedule_id, new_version FROM pgcron.schedule s
  WHERE s.name = restore_schedule.schedule;
  PERFORM set_config('pgcron_ha.version_note', '', true);
END $$;
COMMENT ON FUNCTION pgcron.restore_schedule IS
    'Makes an earlier version of a schedule, living or deleted, its next one; returns its id, the '
    'new version and what it is called.';
