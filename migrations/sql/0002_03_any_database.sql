-- A spec and a calendar are read the same in every database, whatever its locale takes for a letter, a digit and its other case: in a Turkish one
-- lower('FRI') is 'frı', and in most \d is also a digit of other scripts, which no number is made of. The collation of a line is what the functions
-- that judge it work with.

CREATE OR REPLACE FUNCTION pgcron.spec_is_fine(spec text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  line text COLLATE "C";
  kind text;
  kinds text[] := '{}';
BEGIN
  IF length(spec) > 4096 OR spec !~ '^[\x09\x0a\x0d\x20-\x7e]*$' THEN
    RETURN pgcron.refuse('PC002', format('the spec has %s characters or a character that is not ASCII', length(spec)),
      'A spec has up to 4096 ASCII characters, one line for each rule, exclusion or bound.', 'Write for example ''0 3 * * *''.');
  END IF;
  FOREACH line IN ARRAY string_to_array(spec, E'\n') LOOP
    line := btrim(line, E' \t\r');
    CONTINUE WHEN line = '';
    kind := coalesce((regexp_match(lower(line), '^(every|at|rrule|not|only|from|until)(?:\s|$)'))[1], 'cron');
    IF kind = 'every' AND line ~* '^every\s+\S+\s+of(\s|$)' THEN kind := 'nth'; END IF;
    IF kind = 'only' OR line ~* '^not\s+in(\s|$)' THEN kind := CASE WHEN line ~* 'move\s+next\s*$' THEN 'next' WHEN line ~* 'move\s+previous\s*$' THEN 'previous' ELSE 'calendar' END; END IF;
    kinds := kinds || kind;
    IF length(line) > 256 OR cardinality(kinds) > 32 THEN
      RETURN pgcron.refuse('PC002', format('line %s of the spec is too long, or there are too many lines', cardinality(kinds)),
        'A spec has up to 32 lines of up to 256 characters.', 'Split it into several schedules.');
    END IF;
    PERFORM CASE kind WHEN 'calendar' THEN pgcron.calendar_use_is_fine(line) WHEN 'next' THEN pgcron.calendar_use_is_fine(line) WHEN 'previous' THEN pgcron.calendar_use_is_fine(line)
                      WHEN 'nth' THEN pgcron.nth_line_is_fine(line) WHEN 'every' THEN pgcron.every_line_is_fine(line) WHEN 'rrule' THEN pgcron.rrule_line_is_fine(line)
                      WHEN 'not' THEN pgcron.not_line_is_fine(line) WHEN 'cron' THEN pgcron.spread_or_cron_line_is_fine(line)
                      ELSE pgcron.moment_line_is_fine(line) END;
  END LOOP;
  IF NOT kinds && '{every,nth,at,rrule,cron}' THEN
    RETURN pgcron.refuse('PC002', 'the spec has no line that fires', 'A spec has at least one line; `not`, `from` and `until` only take away.', 'Write for example ''0 3 * * *''.');
  ELSIF cardinality(array_positions(kinds, 'from')) > 1 OR cardinality(array_positions(kinds, 'until')) > 1 THEN
    RETURN pgcron.refuse('PC002', 'the spec begins or ends several times', 'It has at most one `from` line and one `until` line.', 'Write several schedules for several times.');
  END IF;
  IF kinds @> '{next,previous}' THEN
    RETURN pgcron.refuse('PC002', 'the spec moves to the next and to the previous day', 'All its lines that move do so in one direction.', 'Write `move next` in all of them, or `move previous`.');
  END IF;
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pgcron.calendar_is_fine(content text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  written text COLLATE "C";
  line text COLLATE "C";
  number int := 0;
  rules int := 0;
  names_days boolean := false;
  example CONSTANT text := 'Write for example ''2026-12-24..2027-01-01 # closed'', ''yearly 12-25'' or ''sat,sun''.';
BEGIN
  IF octet_length(content) > 65536 OR content ~ '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]' THEN
    RETURN pgcron.refuse('PC005', format('the calendar has %s bytes, or a control character', octet_length(content)),
      'A calendar is text of up to 65536 bytes, with a rule in each line.', 'Split a longer one, and name the parts with `calendar` lines.');
  END IF;
  FOREACH written IN ARRAY string_to_array(content, E'\n') LOOP
    number := number + 1;
    line := btrim(regexp_replace(regexp_replace(btrim(written, E' \t\r'), '(^|[ \t])#.*$', ''), '\s+', ' ', 'g'));
    CONTINUE WHEN line = '';
    rules := rules + 1;
    names_days := names_days OR line !~* '^not ';
    IF length(btrim(written, E' \t\r')) > 512 OR rules > 5000 OR NOT pgcron.calendar_line_is_fine(line) THEN
      RETURN pgcron.refuse('PC005', format('line %s of the calendar does not name days: %L', number, left(line, 100)),
        'A line is dates, yearly dates, days of the week, or `calendar` and a name; or `not` and these; up to 512 characters, 5000 lines.', example);
    END IF;
  END LOOP;
  IF rules > 0 AND NOT names_days THEN
    RETURN pgcron.refuse('PC005', 'the calendar has no line that names days', '`not` lines only take away.', example);
  END IF;
  RETURN true;
END $$;

CREATE OR REPLACE FUNCTION pgcron.calendars_named(spec text) RETURNS SETOF text
LANGUAGE sql IMMUTABLE ROWS 2 AS $$
  SELECT DISTINCT found[1] FROM regexp_matches(spec COLLATE "C", '^[ \t\r]*(?:not|only)[ \t]+in[ \t]+([A-Za-z0-9][A-Za-z0-9_.-]*)', 'gin') found $$;

CREATE OR REPLACE FUNCTION pgcron.judge_schedule() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  similar_names text;
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.timezone t WHERE t.name = NEW.timezone) THEN
    similar_names := pgcron.zones_like(NEW.timezone);
    PERFORM pgcron.refuse('PC003', format('time zone %L is not known', left(NEW.timezone, 100)),
      'A zone is a name of the IANA database, written exactly.', 'Similar names: ' || coalesce(similar_names, 'none; write for example Europe/Berlin') || '.');
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.version := 1;
    NEW.created_at := now();
    NEW.updated_at := now();
  ELSE
    NEW.id := OLD.id; NEW.uuid := OLD.uuid; NEW.created_at := OLD.created_at; NEW.version := OLD.version; NEW.updated_at := OLD.updated_at;
  END IF;
  IF NEW.spec COLLATE "C" ~* '\min\s' THEN
    NEW.calendars := pgcron.take_calendars(NEW.spec);
  ELSE
    NEW.calendars := NULL;
  END IF;
  IF NEW.managed_by <> 'file' THEN      -- who takes it over takes it from its files
    NEW.source := NULL;
  END IF;
  IF NEW.enabled THEN
    NEW.paused_note := NULL; NEW.paused_by := NULL;
    IF TG_OP = 'UPDATE' AND NEW.paused_until = OLD.paused_until THEN NEW.paused_until := NULL; END IF;
  ELSE
    NEW.paused_note := left(NEW.paused_note, 500);
    IF TG_OP = 'INSERT' OR OLD.enabled OR (NEW.paused_note, NEW.paused_until) IS DISTINCT FROM (OLD.paused_note, OLD.paused_until) THEN
      NEW.paused_by := pgcron.actor();
    END IF;
    IF NEW.paused_until <= clock_timestamp() AND (TG_OP = 'INSERT' OR NEW.paused_until IS DISTINCT FROM OLD.paused_until) THEN
      PERFORM pgcron.refuse('PC001', format('the pause would end at %s, which is over', NEW.paused_until), 'A pause ends by itself at an instant to come.',
                            'Name a later one, or leave it out to pause until somebody resumes the schedule.');
    END IF;
  END IF;
  IF TG_OP = 'UPDATE' AND to_jsonb(NEW) IS DISTINCT FROM to_jsonb(OLD) THEN      -- code puts its schedules again at each start
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
  END IF;
  RETURN NEW;
END $$;

-- Seconds are exact whatever extra_float_digits a database has: numbers of JSON are written by it.
CREATE OR REPLACE FUNCTION pgcron.time_limits(give_up_after interval, silence_timeout interval, due_at timestamptz) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT nullif(jsonb_strip_nulls(jsonb_build_object('give_up_after', trim_scale(extract(epoch FROM give_up_after)), 'give_up_at', due_at + give_up_after,
                                                     'silence_timeout', trim_scale(extract(epoch FROM silence_timeout)))), '{}')
   WHERE pgcron.time_limits_fit(give_up_after, silence_timeout) $$;
