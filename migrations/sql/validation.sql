-- What plain SQL can judge about a row, and how a refusal is worded.
--
-- A CHECK constraint is written `CHECK (fine OR pgcron.refuse(…))`, so that a raw INSERT, too, is answered
-- with a message (the fact), a detail (the rule), a hint (what now) and an SQLSTATE of class PC.

-- Volatile on purpose: a call with constant arguments in a CHECK must not be evaluated when the statement is planned.
CREATE FUNCTION pgcron.refuse(code text, message text, detail text, hint text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
END $$;
COMMENT ON FUNCTION pgcron.refuse(text, text, text, text) IS
  'Raises an error with SQLSTATE, message, detail and hint; boolean so that a CHECK can call it.';

CREATE FUNCTION pgcron.handler_is_fine(handler text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$' AND length(handler) <= 206;
END;

CREATE FUNCTION pgcron.refuse_handler(handler text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('handler %L is not a handler name', left(handler, 200)),
    'A handler is written kind:name; the kinds are py, shell, http, sql and those of other executors, the name has letters, digits, "_", "." and "-".',
    'Write for example ''py:report'' or ''shell:backup''; `pgcron-ha nodes` lists what live nodes offer.') $$;

CREATE FUNCTION pgcron.refuse_args(args jsonb) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN jsonb_typeof(args) <> 'object' THEN
    pgcron.refuse('PC001', format('args is a JSON %s', jsonb_typeof(args)), 'args must be a JSON object: names and values.',
                  'Write for example ''{"day": 1}''.')
  WHEN octet_length(args::text) <= 262144 THEN
    pgcron.refuse('PC004', 'args is nested more than 100 levels deep',
                  'Objects and lists of args may stand in each other 100 levels deep.',
                  'Write it flatter, or pass the nested value as one text.')
  ELSE
    pgcron.refuse('PC004', format('args has %s bytes', octet_length(args::text)), 'args may have 262144 bytes (256 KiB) as JSON text.',
                  'Store the payload in a table or file of yours and pass its key.') END $$;

-- What may stand in a lane's name: anything that is not blank, but no star, which stands at the end of a lane_limit for many lanes.
CREATE FUNCTION pgcron.lane_is_fine(lane text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT length(lane) BETWEEN 1 AND 200 AND btrim(lane) <> '' AND lane !~ '[*\x01-\x1f\x7f-\x9f]';
END;

-- Where a run waits: in its own lane, or, if it takes more than one slot of a node and has none, in the one of its weight, which has no limit.
CREATE FUNCTION pgcron.lane_of(lane text, weight int) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT CASE WHEN lane IS NULL AND weight > 1 THEN '*weight ' || weight ELSE lane END;
END;

CREATE FUNCTION pgcron.refuse_weight(weight int) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('weight %s is out of range', weight), 'A run takes 1 to 1000 of the slots of the node that executes it.', 'Leave it out for 1.') $$;

CREATE FUNCTION pgcron.refuse_lane(lane text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('lane %L is not the name of a lane', left(lane, 200)),
    'A lane has 1 to 200 characters that can be shown, is not blank and has no "*".', 'Write for example ''customer-7''; pgcron.set_lane says how many of its runs execute at once.') $$;

CREATE FUNCTION pgcron.rate_is_fine(rate int, per interval) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT CASE WHEN rate IS NULL AND per IS NULL THEN true
              ELSE rate IS NOT NULL AND per IS NOT NULL AND rate BETWEEN 1 AND 1000000 AND per BETWEEN '100 milliseconds' AND '31 days' END;
END;

CREATE FUNCTION pgcron.refuse_rate(rate int, per interval) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('a rate of %s per %s is out of range', coalesce(rate::text, 'NULL'), coalesce(per::text, 'NULL')),
    'A rate is 1 to 1000000 starts in 100 milliseconds to 31 days; both are given, or neither.', 'Write for example rate => 10, per => ''1 minute''.') $$;

-- One item of a cron field as (low, high, step), names replaced by numbers; NULL when it is not a plain item.
CREATE FUNCTION pgcron.cron_item(item text, low int, high int) RETURNS int[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  part text[];
  first_value int;
  last_value int;
BEGIN
  part := regexp_match(item, '^(\*|\d{1,2})(?:-(\d{1,2}))?(?:/(\d{1,4}))?$');
  IF part IS NULL OR (part[1] = '*' AND part[2] IS NOT NULL) THEN RETURN NULL; END IF;
  first_value := CASE WHEN part[1] = '*' THEN low ELSE part[1]::int END;
  last_value := CASE WHEN part[2] IS NOT NULL THEN part[2]::int
                     WHEN part[1] = '*' OR part[3] IS NOT NULL THEN high ELSE first_value END;
  IF high = 7 AND part[2] IS NOT NULL AND last_value = 0 THEN last_value := 7; END IF;
  IF first_value < low OR last_value > high OR first_value > last_value OR coalesce(part[3]::int, 1) < 1 THEN RETURN NULL; END IF;
  RETURN ARRAY[first_value, last_value, coalesce(part[3]::int, 1)];
END $$;

CREATE FUNCTION pgcron.cron_numbers(field text, kind text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  names text[] := CASE kind WHEN 'month' THEN string_to_array('jan feb mar apr may jun jul aug sep oct nov dec', ' ')
                            WHEN 'weekday' THEN string_to_array('sun mon tue wed thu fri sat', ' ') ELSE '{}' END;
  result text := lower(field);
BEGIN
  FOR position IN 1 .. cardinality(names) LOOP
    result := regexp_replace(result, '(?<![a-z0-9])' || names[position] || '(?![a-km-z0-9])',
                             (position - CASE kind WHEN 'weekday' THEN 1 ELSE 0 END)::text, 'g');
  END LOOP;
  RETURN result;
END $$;

CREATE FUNCTION pgcron.cron_field_error(field text, kind text, low int, high int) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  item text;
  written text := pgcron.cron_numbers(field, kind);
BEGIN
  IF kind IN ('day', 'weekday') AND written = '?' THEN RETURN NULL; END IF;
  IF cardinality(string_to_array(written, ',')) > 64 THEN RETURN 'more than 64 items'; END IF;
  FOREACH item IN ARRAY string_to_array(written, ',') LOOP
    CONTINUE WHEN pgcron.cron_item(item, low, high) IS NOT NULL;
    CONTINUE WHEN kind = 'day' AND (item IN ('l', 'lw') OR item ~ '^l-(0?[1-9]|[12]\d|30)$' OR item ~ '^0?([1-9]|[12]\d|3[01])w$');
    CONTINUE WHEN kind = 'weekday' AND (item ~ '^[0-7](#[1-5]|l)$' OR item ~ '^l[0-7]$');
    RETURN format('%s', quote_literal(item));
  END LOOP;
  RETURN NULL;
END $$;

-- Months (bit per month) and days that a plain day field needs: true when no month of the list is long enough.
CREATE FUNCTION pgcron.cron_never_fires(day_field text, month_field text, weekday_field text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  item text;
  bounds int[];
  earliest int := 99;
  longest int := 0;
BEGIN
  IF weekday_field !~ '^(\*|\?)' OR day_field ~* '[lw?]' THEN RETURN false; END IF;
  FOREACH item IN ARRAY string_to_array(day_field, ',') LOOP
    bounds := pgcron.cron_item(item, 1, 31);
    earliest := least(earliest, bounds[1]);
  END LOOP;
  FOREACH item IN ARRAY string_to_array(pgcron.cron_numbers(month_field, 'month'), ',') LOOP
    bounds := pgcron.cron_item(item, 1, 12);
    SELECT greatest(longest, max(CASE WHEN month = 2 THEN 29 WHEN month IN (4, 6, 9, 11) THEN 30 ELSE 31 END))
      INTO longest FROM generate_series(bounds[1], bounds[2], bounds[3]) month;
  END LOOP;
  RETURN earliest > longest;
END $$;

CREATE FUNCTION pgcron.cron_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  field text[] := regexp_split_to_array(btrim(line, E' \t'), '[ \t]+');
  kind text[] := ARRAY['minute', 'hour', 'day', 'month', 'weekday'];
  low int[] := ARRAY[0, 0, 1, 1, 0];
  high int[] := ARRAY[59, 23, 31, 12, 7];
  problem text;
BEGIN
  IF lower(btrim(line, E' \t')) IN ('@yearly', '@annually', '@monthly', '@weekly', '@daily', '@midnight', '@hourly') THEN RETURN true; END IF;
  IF cardinality(field) = 6 THEN
    kind := 'second'::text || kind; low := 0 || low; high := 59 || high;
  ELSIF cardinality(field) <> 5 THEN
    RETURN pgcron.refuse('PC002', format('cron expression %L has %s fields', left(line, 256), cardinality(field)),
      'A cron expression has five fields (minute hour day month weekday), or six with seconds first, or is a macro such as @daily.',
      'Write for example ''0 3 * * *''; `pgcron-ha next ''0 3 * * *''` shows when it fires.');
  END IF;
  FOR position IN 1 .. cardinality(field) LOOP
    problem := pgcron.cron_field_error(field[position], kind[position], low[position], high[position]);
    IF problem IS NOT NULL THEN
      RETURN pgcron.refuse('PC002', format('%s is not valid in the %s field of %L', problem, kind[position], left(line, 256)),
        format('The %s field takes numbers from %s to %s, ranges a-b, steps /n, lists with commas%s.', kind[position], low[position], high[position],
               CASE kind[position] WHEN 'day' THEN ', L, LW, L-n and nW' WHEN 'month' THEN ' and names such as jan'
                                   WHEN 'weekday' THEN ', names such as mon, mon#2 and 5L' ELSE '' END),
        'Try the expression with `pgcron-ha next`, which also shows the instants.');
    END IF;
  END LOOP;
  IF pgcron.cron_never_fires(field[cardinality(field) - 2], field[cardinality(field) - 1], field[cardinality(field)]) THEN
    RETURN pgcron.refuse('PC002', format('%L never fires', left(line, 256)), 'No month of the month field has such a day.',
                         'Choose a day that exists, or L for the last day of the month.');
  END IF;
  RETURN true;
END $$;

-- `every 2nd of 0 9 * * mon [from INSTANT]`, or one of the macros whose minute is the schedule's own.
CREATE FUNCTION pgcron.nth_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  part text[] := regexp_match(line, '^every\s+(\d{1,6})(?:st|nd|rd|th)\s+of\s+(\S.*)$', 'i');
  counted text[] := regexp_match(part[2], '^(.*\S)\s+from\s+(\S+)$', 'i');
BEGIN
  IF part IS NULL OR part[1]::int NOT BETWEEN 2 AND 10000 OR (counted IS NOT NULL AND NOT pgcron.moment_is_fine(upper(counted[2]))) THEN
    RETURN pgcron.refuse('PC002', format('%L does not say which ones', left(line, 256)),
      'It is written `every NTH of CRON [from INSTANT]`, from every 2nd to every 10000th.', 'Write for example ''every 2nd of 0 9 * * mon from 2026-01-05T09:00''.');
  END IF;
  RETURN pgcron.spread_or_cron_line_is_fine(coalesce(counted[1], part[2]));
END $$;

CREATE FUNCTION pgcron.spread_or_cron_line_is_fine(line text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN line ~* '^@(hourly|daily|weekly|monthly|yearly)~$' THEN true ELSE pgcron.cron_line_is_fine(line) END $$;

CREATE FUNCTION pgcron.every_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text[] := regexp_split_to_array(line, '\s+');
  part text[] := regexp_match(lower(word[2]), '^(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?$');
  seconds bigint := coalesce(part[1]::bigint, 0) * 86400 + coalesce(part[2]::bigint, 0) * 3600 + coalesce(part[3]::bigint, 0) * 60 + coalesce(part[4]::bigint, 0);
BEGIN
  IF part IS NOT NULL AND seconds BETWEEN 1 AND 36525 * 86400::bigint
     AND (cardinality(word) = 2 OR (cardinality(word) = 4 AND lower(word[3]) = 'from' AND pgcron.instant_is_fine(upper(word[4])))) THEN RETURN true; END IF;
  RETURN pgcron.refuse('PC002', format('%L is not an interval', left(line, 256)),
    'An interval is written `every DURATION [from INSTANT]`; the duration is 1s to 36525d: numbers with d, h, m and s in this order; the instant is ISO 8601 with its offset.',
    'Write for example ''every 90m'' or ''every 1h30m from 2026-01-01T00:10Z''.');
END $$;

-- An instant as Python reads it: PostgreSQL's own reading would take more, and depend on the session.
CREATE FUNCTION pgcron.instant_is_fine(written text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  part text[] := regexp_match(written, '^(\d{4})-(\d\d)-(\d\d)T([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?(?:Z|([+-])([01]\d|2[0-3]):([0-5]\d))$');
  ahead interval := coalesce((part[7] || part[8] || ':' || part[9])::interval, '0');
BEGIN
  RETURN part IS NOT NULL AND
    make_timestamp(part[1]::int, part[2]::int, part[3]::int, part[4]::int, part[5]::int, coalesce(part[6]::int, 0)) - ahead BETWEEN '1900-01-01' AND '9998-12-31';
EXCEPTION WHEN datetime_field_overflow THEN      -- a 13th month, a 30th of February
  RETURN false;
END $$;

-- The same, or the wall time of a zone that is not known here: at the ends of the calendar the nodes judge.
CREATE FUNCTION pgcron.moment_is_fine(written text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN written ~ '(Z|[+-]\d\d:\d\d)$' THEN pgcron.instant_is_fine(written)
              ELSE pgcron.instant_is_fine(written || 'Z') OR pgcron.instant_is_fine(written || '+14:00') OR pgcron.instant_is_fine(written || '-14:00') END $$;

CREATE FUNCTION pgcron.moment_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text[] := regexp_split_to_array(line, '\s+');
BEGIN
  IF cardinality(word) = 2 AND pgcron.moment_is_fine(upper(word[2])) THEN RETURN true; END IF;
  RETURN pgcron.refuse('PC002', format('%L is not an instant', left(line, 256)),
    format('The line is written `%s INSTANT`; the instant is ISO 8601, with its offset or as wall time of the schedule''s zone.', lower(word[1])),
    format('Write for example ''%s 2026-12-24T18:00''.', lower(word[1])));
END $$;

CREATE FUNCTION pgcron.date_is_fine(written text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  part text[] := regexp_match(written, '^(\d{4})-(\d\d)-(\d\d)$');
BEGIN
  RETURN part IS NOT NULL AND make_date(part[1]::int, part[2]::int, part[3]::int) BETWEEN '1900-01-01' AND '9998-12-30';
EXCEPTION WHEN datetime_field_overflow THEN
  RETURN false;
END $$;

-- Dates and ranges, a cron expression, or `at` and an instant.
CREATE FUNCTION pgcron.not_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text[] := regexp_split_to_array(line, '\s+');
  item text;
  day text[];
BEGIN
  IF cardinality(word) = 3 AND lower(word[2]) = 'at' AND pgcron.moment_is_fine(upper(word[3])) THEN RETURN true; END IF;
  IF cardinality(word) = 2 AND word[2] !~ '^@' THEN
    FOREACH item IN ARRAY string_to_array(word[2], ',') LOOP
      day := regexp_match(item, '^([^.]*)(?:\.\.([^.]*))?$');
      IF day IS NULL OR NOT pgcron.date_is_fine(day[1]) OR NOT pgcron.date_is_fine(coalesce(day[2], day[1])) OR day[2] < day[1] THEN
        RETURN pgcron.refuse('PC002', format('%L does not say which days are left out', left(line, 256)),
          'Days are written year-month-day, ranges first..last, with commas between them.', 'Write for example ''not 2026-12-24..2027-01-01''.');
      END IF;
    END LOOP;
    RETURN true;
  END IF;
  IF cardinality(word) = 1 OR lower(word[2]) IN ('at', 'every', 'rrule', 'not', 'from', 'until') THEN
    RETURN pgcron.refuse('PC002', format('%L is not an exclusion', left(line, 256)),
      'What is left out are dates, what a cron expression names, or `at` an instant.', 'Write for example ''not 2026-12-24..2027-01-01'' or ''not * * * * sat,sun''.');
  END IF;
  RETURN pgcron.cron_line_is_fine(regexp_replace(line, '^\S+\s+', ''));
END $$;

-- One part of a recurrence rule: NULL when it is fine, else its rule.
CREATE FUNCTION pgcron.rrule_part_error(name text, value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  until text[];
BEGIN
  IF name = 'FREQ' AND value ~ '^(YEARLY|MONTHLY|WEEKLY|DAILY|HOURLY)$' OR name = 'WKST' AND value ~ '^(MO|TU|WE|TH|FR|SA|SU)$'
     OR name IN ('INTERVAL', 'COUNT') AND value ~ '^\d+$' AND left(value, 9)::int BETWEEN 1 AND 1000
     OR name = 'BYDAY' AND value ~ '^([+-]?([1-9]|[1-4]\d|5[0-3]))?(MO|TU|WE|TH|FR|SA|SU)(,([+-]?([1-9]|[1-4]\d|5[0-3]))?(MO|TU|WE|TH|FR|SA|SU))*$' THEN
    RETURN NULL;
  ELSIF name = 'UNTIL' THEN
    until := regexp_match(value, '^(\d{4})(\d\d)(\d\d)(?:T([01]\d|2[0-3])([0-5]\d)([0-5]\d)Z?)?$');
    IF until IS NOT NULL AND until[1]::int BETWEEN 1900 AND 9998 THEN
      PERFORM make_date(until[1]::int, until[2]::int, until[3]::int);
      RETURN NULL;
    END IF;
  ELSIF name IN ('BYMONTH', 'BYHOUR', 'BYMINUTE', 'BYSECOND') THEN
    IF value ~ '^\d{1,3}(,\d{1,3})*$' AND (SELECT bool_and(number::int BETWEEN CASE name WHEN 'BYMONTH' THEN 1 ELSE 0 END
         AND CASE name WHEN 'BYMONTH' THEN 12 WHEN 'BYHOUR' THEN 23 ELSE 59 END) FROM unnest(string_to_array(value, ',')) number) THEN RETURN NULL; END IF;
  ELSIF name IN ('BYMONTHDAY', 'BYYEARDAY', 'BYWEEKNO', 'BYSETPOS') THEN
    IF value ~ '^[+-]?\d{1,3}(,[+-]?\d{1,3})*$' AND (SELECT bool_and(abs(number::int) BETWEEN 1
         AND CASE name WHEN 'BYMONTHDAY' THEN 31 WHEN 'BYWEEKNO' THEN 53 ELSE 366 END) FROM unnest(string_to_array(value, ',')) number) THEN RETURN NULL; END IF;
  END IF;
  RETURN format('%s=%s', name, value);
EXCEPTION WHEN datetime_field_overflow THEN      -- UNTIL=20261301
  RETURN format('%s=%s', name, value);
END $$;

CREATE FUNCTION pgcron.rrule_line_is_fine(line text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text[] := regexp_split_to_array(line, '\s+');
  part text;
  pair text[];
  given jsonb := '{}';
  problem text := CASE WHEN cardinality(word) NOT IN (2, 4) OR (cardinality(word) = 4 AND (lower(word[3]) <> 'from' OR NOT pgcron.moment_is_fine(upper(word[4])))) THEN line END;
BEGIN
  FOREACH part IN ARRAY CASE WHEN problem IS NULL THEN string_to_array(upper(word[2]), ';') ELSE '{}' END LOOP
    pair := regexp_match(part, '^([A-Z]+)=([A-Z0-9,+-]+)$');
    problem := coalesce(problem, CASE WHEN pair IS NULL OR given ? pair[1] THEN part ELSE pgcron.rrule_part_error(pair[1], pair[2]) END);
    EXIT WHEN problem IS NOT NULL;
    given := given || jsonb_build_object(pair[1], pair[2]);
  END LOOP;
  problem := coalesce(problem, CASE
    WHEN NOT given ? 'FREQ' THEN 'FREQ='
    WHEN given ? 'COUNT' AND (given ? 'UNTIL' OR cardinality(word) = 2) THEN 'COUNT with UNTIL, or without an instant to count from'
    WHEN given->>'BYDAY' ~ '\d' AND (given->>'FREQ' NOT IN ('MONTHLY', 'YEARLY') OR given ? 'BYWEEKNO' OR given->>'BYDAY' ~ '(^|,)[A-Z]') THEN 'BYDAY=' || (given->>'BYDAY')
    WHEN given ? 'BYWEEKNO' AND given->>'FREQ' <> 'YEARLY' THEN 'BYWEEKNO'
    WHEN given ? 'BYYEARDAY' AND given->>'FREQ' IN ('DAILY', 'WEEKLY', 'MONTHLY') THEN 'BYYEARDAY'
    WHEN given ? 'BYMONTHDAY' AND given->>'FREQ' = 'WEEKLY' THEN 'BYMONTHDAY'
    WHEN given ? 'BYSETPOS' AND NOT given ?| ARRAY['BYMONTH', 'BYWEEKNO', 'BYYEARDAY', 'BYMONTHDAY', 'BYDAY', 'BYHOUR', 'BYMINUTE', 'BYSECOND'] THEN 'BYSETPOS' END);
  IF problem IS NULL THEN RETURN true; END IF;
  RETURN pgcron.refuse('PC002', format('%L is not valid in %L', left(problem, 100), left(line, 256)),
    'A recurrence rule is written `rrule PARTS [from INSTANT]`, with the parts of RFC 5545: FREQ (YEARLY to HOURLY), INTERVAL, COUNT or UNTIL, BYMONTH, BYWEEKNO, BYYEARDAY, BYMONTHDAY, BYDAY, BYHOUR, BYMINUTE, BYSECOND, BYSETPOS, WKST.',
    'Write for example ''rrule FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9''; `pgcron-ha next` says what is wrong with it.');
END $$;

CREATE FUNCTION pgcron.spec_is_fine(spec text) RETURNS boolean
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
COMMENT ON FUNCTION pgcron.spec_is_fine(text) IS
  'Judges the grammar of a schedule''s spec; raises PC002 with message, detail and hint. The nodes judge the rest.';

CREATE FUNCTION pgcron.refuse_overlap(overlap text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT pgcron.refuse('PC001', format('overlap policy %L is not known', left(overlap, 100)),
    'The policies are skip (do not start while the last run is not over), allow, queue (wait for it), replace (stop it, then start) and terminate (as replace, by force).', 'Leave it out for skip.') $$;

CREATE FUNCTION pgcron.refuse_replacing(overlap text, max_running int) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT pgcron.refuse('PC001', format('overlap %s with max_running %s', overlap, max_running), 'A run that takes the place of the last one runs alone.',
    'Leave max_running out (0 takes it back), or use overlap ''queue''.') $$;

-- Of a run, by pgcron.judge_run.
CREATE FUNCTION pgcron.refuse_instants(due_at timestamptz, expire_at timestamptz) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM pgcron.refuse('PC001', format('due_at %s or expire_at %s is outside of the calendar', due_at, coalesce(expire_at::text, 'NULL')),
    'A run is due, and expires, in the years 1900 to 9998, or at infinity.', 'Leave due_at out for now.');
  RETURN NULL;
END $$;
