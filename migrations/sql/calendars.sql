-- Calendars: days that several schedules share. A spec names them (`not in holidays`, `only in
-- business-days, move next`); each schedule carries what they contained when it was last written,
-- so that a spec, its versions and its backfills can be read by themselves.

-- The calendars that it names, each once. Line by line: an expression over the whole of a long text
-- costs tens of milliseconds.
CREATE FUNCTION pgcron.parts_of_calendar(content text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(DISTINCT found[1] ORDER BY found[1]), '{}')
  FROM unnest(string_to_array(content, E'\n')) line
  CROSS JOIN LATERAL regexp_match(line,
      '^[ \t\r]*(?:not[ \t]+)?calendar[ \t]+([A-Za-z0-9][A-Za-z0-9_.-]*)', 'i') found
  WHERE line ILIKE '%calendar%' AND found IS NOT NULL $$;

CREATE TABLE pgcron.calendar (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$'
      OR pgcron.refuse('PC005', format('%L is not a name of a calendar', left(name, 200)),
        'A name has 1 to 100 letters, digits, "_", "." and "-", and begins with a letter or a '
        'digit.',
        'Write for example ''holidays''.')),
  content text NOT NULL CONSTRAINT a_calendar_is_readable
    CHECK ((octet_length(content) <= 65536 AND content !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]'
            AND pgcron.lines_fit(regexp_replace(content, '^[ \t\r]*#.*$', '', 'gn'), 5000, 512))
      OR pgcron.refuse('PC005',
        format('the calendar is too long (%s bytes), or has a control character',
          octet_length(content)),
        'A calendar has up to 65536 bytes, in up to 5000 lines of up to 512 characters.',
        'Split a longer one, and name the parts with `calendar` lines.')),
  version int NOT NULL DEFAULT 1,
  updated_at timestamptz NOT NULL DEFAULT now(),
  updated_by text NOT NULL CHECK (pgcron.is_short('updated_by', updated_by, 300)),
  parts text[] NOT NULL GENERATED ALWAYS AS (pgcron.parts_of_calendar(content)) STORED,
  source text CHECK (pgcron.is_label('name of the source', source,
        'Give the file or folder of schedules a short name, for example ''billing''.'))
);
COMMENT ON TABLE pgcron.calendar IS
    'Named days that schedules share. Written by put_calendar and delete_calendar, which see to '
    'the schedules that use them.';
CREATE TRIGGER keep_calendar_in_scope BEFORE INSERT OR UPDATE OR DELETE ON pgcron.calendar
  FOR EACH ROW WHEN (nullif(current_setting('pgcron_ha.scopes', true), '') IS NOT NULL)
  EXECUTE FUNCTION pgcron.keep_calendar_in_scope();
CREATE TRIGGER forget_owner AFTER DELETE ON pgcron.calendar FOR EACH ROW
  EXECUTE FUNCTION pgcron.forget_owner();
CREATE INDEX schedule_with_calendars ON pgcron.schedule (id) WHERE calendars IS NOT NULL;

CREATE FUNCTION pgcron.calendars_named(spec text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE ROWS 2 AS $$
  SELECT DISTINCT found[1]
  FROM regexp_matches(spec COLLATE "C",
      '^[ \t\r]*(?:not|only)[ \t]+in[ \t]+([A-Za-z0-9][A-Za-z0-9_.-]*)', 'gin') found $$;

-- What the calendars that a spec names contain, and those that they name; NULL when it names none.
-- known: those that the schedule has, which it keeps, whosever they are.
CREATE FUNCTION pgcron.calendars_of(spec text, known jsonb DEFAULT NULL) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  WITH RECURSIVE used(name) AS (
    SELECT named FROM pgcron.calendars_named(calendars_of.spec) named
    WHERE pgcron.calendar_in_scope(named) OR calendars_of.known ? named
    UNION SELECT unnest(c.parts) FROM used JOIN pgcron.calendar c ON c.name = used.name)
  SELECT jsonb_object_agg(c.name, c.content ORDER BY c.name) FROM used
  JOIN pgcron.calendar c ON c.name = used.name $$;

-- For the trigger of a schedule that is written. A calendar that is being changed is waited for:
-- its writer sees this schedule, or this schedule sees it.
CREATE FUNCTION pgcron.take_calendars(spec text, known jsonb) RETURNS jsonb
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT FROM pgcron.calendar c
  WHERE c.name IN (SELECT jsonb_object_keys(
      pgcron.calendars_of(take_calendars.spec, take_calendars.known)))
  ORDER BY c.id FOR SHARE;
  SELECT pgcron.refuse('PC002', format('calendar %L is not known', unknown),
           'A spec names calendars that exist, spelled exactly.',
           'There are: ' || coalesce((
                 SELECT string_agg(known.name, ', ')
                 FROM (SELECT c.name FROM pgcron.calendar c
                       WHERE pgcron.calendar_in_scope(c.name)
                       ORDER BY lower(c.name) <> lower(unknown), c.name LIMIT 5) known),
               'none') || '. `pgcron-ha calendars put` makes one.')
  FROM pgcron.calendars_named(take_calendars.spec) unknown
  WHERE NOT EXISTS (SELECT FROM pgcron.calendar c WHERE c.name = unknown)
    OR (NOT pgcron.calendar_in_scope(unknown) AND (take_calendars.known ? unknown) IS NOT TRUE)
  ORDER BY unknown LIMIT 1;
  SELECT pgcron.calendars_of(take_calendars.spec, take_calendars.known) $$;

-- Refuses calendars that name an unknown one, or themselves by way of others.
CREATE FUNCTION pgcron.judge_parts(names text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  name text;
  met text[];
  ways text[];      -- from the name to each calendar that was not met before, as 'a > b > c'
BEGIN
  PERFORM pgcron.refuse('PC005',
      format('calendar %L names calendar %L, which is not known', c.name, part),
      'A calendar names others that exist, spelled exactly.', 'Make the other one first.')
  FROM pgcron.calendar c CROSS JOIN LATERAL unnest(c.parts) part
  WHERE c.name = ANY(names)
    AND NOT (EXISTS (SELECT FROM pgcron.calendar o WHERE o.name = part)
             AND pgcron.calendar_in_scope(part))
  ORDER BY c.name, part LIMIT 1;
  FOREACH name IN ARRAY names LOOP
    ways := ARRAY[name]; met := '{}';
    WHILE ways <> '{}' LOOP
      SELECT coalesce(array_agg(DISTINCT w.way), '{}'), met || array_agg(w.part) INTO ways, met
      FROM (SELECT DISTINCT ON (part) way || ' > ' || part AS way, part FROM unnest(ways) way
            JOIN pgcron.calendar c ON c.name = substring(way FROM '[^ ]+$')
            CROSS JOIN LATERAL unnest(c.parts) part WHERE part <> ALL(met) ORDER BY part, way) w;
      PERFORM pgcron.refuse('PC005', format('calendar %L contains itself: %s', name, way),
          'A calendar may name others, but not in a circle.',
          'Remove one of the `calendar` lines.')
      FROM unnest(ways) way WHERE substring(way FROM '[^ ]+$') = name;
    END LOOP;
  END LOOP;
END $$;

-- One transaction at a time writes calendars.
CREATE FUNCTION pgcron.lock_calendars() RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.require_read_committed('calendars');
  SELECT pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashtext('calendars')) $$;

-- Makes calendars what they are to contain, by name, all at once (so they may name one another),
-- and the schedules that use them: their future runs are made again, as after an edit of theirs.
-- Schedules are locked before calendars, as by those who write schedules. Without a source
-- calendars keep theirs.
CREATE FUNCTION pgcron.write_calendars(contents jsonb, actor text, source text DEFAULT NULL)
  RETURNS text[]
LANGUAGE plpgsql AS $$
DECLARE
  changed text[] := ARRAY(SELECT w.key FROM jsonb_each_text(write_calendars.contents) w
                          LEFT JOIN pgcron.calendar c ON c.name = w.key
                          -- blank lines at the end do not count: files have them, or not
                          WHERE rtrim(c.content, E' \t\r\n')
                              IS DISTINCT FROM rtrim(w.value, E' \t\r\n')
                          ORDER BY w.key);
  scopes CONSTANT text := coalesce(current_setting('pgcron_ha.scopes', true), '');
BEGIN
  PERFORM FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ?| changed
    ORDER BY s.id FOR NO KEY UPDATE;
  INSERT INTO pgcron.calendar AS c (name, content, updated_by, source)
  SELECT w.key, w.value, coalesce(write_calendars.actor, session_user), write_calendars.source
  FROM jsonb_each_text(write_calendars.contents) w ORDER BY w.key
  ON CONFLICT (name) DO UPDATE SET content
      = CASE WHEN c.name = ANY(changed) THEN EXCLUDED.content ELSE c.content END,
    version = c.version + 1, updated_at = now(), updated_by = EXCLUDED.updated_by,
    source = coalesce(EXCLUDED.source, c.source)
  WHERE c.name = ANY(changed) OR c.source IS DISTINCT FROM coalesce(EXCLUDED.source, c.source);
  PERFORM pgcron.judge_parts(changed);
  PERFORM set_config('pgcron_ha.version_note',
      format(CASE WHEN cardinality(changed) > 1 THEN 'calendars %s were changed'
                  ELSE 'calendar %s was changed' END, array_to_string(changed, ', ')),
      true);
  -- Including those that were being written while this transaction waited for the lock. The trigger
  -- takes what they contain now, whosever they are: the calendars were judged above.
  PERFORM set_config('pgcron_ha.scopes', '', true);
  UPDATE pgcron.schedule s SET calendars = NULL
  WHERE s.id = ANY(ARRAY(SELECT u.id FROM pgcron.schedule u
                         WHERE u.calendars IS NOT NULL AND u.calendars ?| changed ORDER BY u.id
                         FOR NO KEY UPDATE));
  PERFORM set_config('pgcron_ha.scopes', scopes, true);
  PERFORM set_config('pgcron_ha.version_note', '', true);
  RETURN changed;
END $$;

-- Makes or changes a calendar, and the schedules that use it.
CREATE FUNCTION pgcron.put_calendar(calendar text, content text, actor text DEFAULT NULL,
    interface text DEFAULT NULL, take_over boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  changed text[];
  owner text;
  known bigint;
BEGIN
  PERFORM pgcron.refuse('PC005', format('the %s of the calendar is NULL', missing.what),
      'A calendar has a name and a text.',
      'Write for example pgcron.put_calendar(''holidays'', ''yearly 12-25'').')
    FROM (VALUES ('name', put_calendar.calendar), ('content', put_calendar.content))
      missing(what, given) WHERE missing.given IS NULL;
  PERFORM pgcron.lock_calendars();
  PERFORM pgcron.act_as(put_calendar.actor, put_calendar.interface);
  changed := pgcron.write_calendars(jsonb_build_object(put_calendar.calendar, put_calendar.content),
      put_calendar.actor);
  SELECT c.id, c.source INTO known, owner FROM pgcron.calendar c
  WHERE c.name = put_calendar.calendar;
  IF owner IS NOT NULL AND take_over THEN
    UPDATE pgcron.calendar c
    SET source = NULL, version = c.version + (cardinality(changed) = 0)::int WHERE c.id = known;
  ELSIF owner IS NOT NULL AND cardinality(changed) > 0 THEN
    RAISE NOTICE USING ERRCODE = '01PC1',
      MESSAGE = format('calendar %L is defined by the files of %L, and was edited through %s',
          put_calendar.calendar, owner, pgcron.interface()),
      DETAIL = pgcron.owner_puts_back('file'),
      HINT = 'Edit it there, or detach it from files: take_over (`calendars put --take-over`).';
  END IF;
  RETURN known;
END $$;
COMMENT ON FUNCTION pgcron.put_calendar IS
    'Makes or changes a calendar; returns its id. The future runs of the schedules that use it '
    'are made again. Refuses a calendar that contains itself; with take_over no file owns it any '
    'more.';

-- Schedules and calendars, the first few; those that go with it don't count. NULL when there are
-- none.
CREATE FUNCTION pgcron.users_of_calendar(name text, going text[] DEFAULT '{}') RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT string_agg(u.name, ', ')
  FROM ((SELECT 'schedule ' || CASE WHEN pgcron.schedule_in_scope(s) THEN s.name
                                      ELSE 'of another team' END AS name
         FROM pgcron.schedule s
         WHERE s.calendars IS NOT NULL AND s.calendars ? users_of_calendar.name ORDER BY s.name
         LIMIT 5)
        UNION ALL
        (SELECT 'calendar ' || CASE WHEN pgcron.calendar_in_scope(c.name) THEN c.name
                                      ELSE 'of another team' END
         FROM pgcron.calendar c
         WHERE c.name <> ALL(going) AND users_of_calendar.name = ANY(c.parts) ORDER BY c.name
         LIMIT 5)) u $$;

CREATE FUNCTION pgcron.delete_calendar(calendar text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  SELECT pgcron.lock_calendars();
  WITH gone AS (
    DELETE FROM pgcron.calendar c WHERE c.name = delete_calendar.calendar RETURNING 1)
  SELECT pgcron.refuse('PC010',
           format('calendar %L does not exist', left(delete_calendar.calendar, 200)),
           'A calendar is named exactly as it was made.', '`pgcron-ha calendars list` lists them.')
  WHERE NOT EXISTS (SELECT FROM gone);
  SELECT pgcron.refuse('PC011', format('calendar %L is used', delete_calendar.calendar),
           'By ' || users || '.', 'Take it out of their specs first.')
  FROM pgcron.users_of_calendar(delete_calendar.calendar) users WHERE users IS NOT NULL $$;
COMMENT ON FUNCTION pgcron.delete_calendar IS 'Deletes a calendar that nobody uses.';

CREATE VIEW pgcron.calendars AS
  SELECT c.id, c.name, c.content, c.version, c.updated_at, c.updated_by,
         (SELECT count(*) FROM pgcron.schedule s
          WHERE s.calendars IS NOT NULL AND s.calendars ? c.name
            AND (pgcron.scopes() IS NULL OR pgcron.schedule_in_scope(s))) AS schedules,
         c.source
  FROM pgcron.calendar c;
COMMENT ON VIEW pgcron.calendars IS
    'Calendars, and how many schedules use each, directly or within another.';
