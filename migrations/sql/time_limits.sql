-- Time limits that few runs have: how long a run may take in all, and how long it may be silent.
-- They are in one column that is NULL for all others; the time to start is run.expire_at, that of
-- one attempt run.timeout.

-- {"give_up_after": s, "give_up_at": instant, "silence_timeout": s}; NULL without limits. Raises
-- PC001. give_up_after is judged in seconds, as runs keep it: a year of an interval has 360 days
-- when it is compared, and 365.25 as seconds.
CREATE FUNCTION pgcron.time_limits(give_up_after interval, silence_timeout interval,
    due_at timestamptz) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF extract(epoch FROM give_up_after) <= 0 OR extract(epoch FROM give_up_after) > 31622400 THEN
    PERFORM pgcron.refuse('PC001', format('give_up_after %s is out of range', give_up_after),
        'A run is given up so long after it was due, whatever it is doing: more than nothing, at '
        'most 366 days.',
        'Leave it out to wait for its last attempt.');
  END IF;
  PERFORM pgcron.is_within('silence_timeout', silence_timeout, '1 second', '30 days',
      'A run that gives no sign for so long is stopped: 1 second to 30 days.',
      'Write for example ''5 minutes'', or leave it out.');
  RETURN nullif(jsonb_strip_nulls(jsonb_build_object('give_up_after',
              trim_scale(extract(epoch FROM give_up_after)), 'give_up_at', due_at + give_up_after,
              'silence_timeout', trim_scale(extract(epoch FROM silence_timeout)))),
          '{}');
END $$;

CREATE FUNCTION pgcron.give_up_at(limits jsonb) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN (limits ->> 'give_up_at')::timestamptz;

-- Why a run with these limits is not tried again, after `give_up_at`.
CREATE FUNCTION pgcron.given_up(limits jsonb) RETURNS text
LANGUAGE sql STABLE
RETURN format('it is given up %s after it was due',
         make_interval(secs => (limits ->> 'give_up_after')::float8));

-- Until when a run may wait for its first attempt. Raises PC001.
CREATE FUNCTION pgcron.expire_at(start_within interval, give_up_after interval,
    due_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN CASE WHEN pgcron.is_within('start_within', start_within, '1 microsecond', '366 days',
                   'A run that has not started so long after it was due expires: more than '
                   'nothing, at most 366 days.',
                   'Leave it out to wait for ever.')
              THEN least(due_at + start_within, pgcron.give_up_at(pgcron.time_limits(
                     give_up_after, NULL, due_at))) END;

-- What a producer wrote by itself is read here as it will be when the run ends: a value that passes
-- can't raise there.
CREATE FUNCTION pgcron.time_limits_are_fine(limits jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN limits - '{give_up_after,give_up_at,silence_timeout}'::text[] = '{}'
    AND jsonb_typeof(coalesce(limits -> 'give_up_after', '1')) = 'number'
    AND jsonb_typeof(coalesce(limits -> 'silence_timeout', '1')) = 'number'
    AND (limits ? 'give_up_after') = (limits ? 'give_up_at')
    AND coalesce(limits ->> 'give_up_at', '2000-01-01T00:00')
        ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d[0-9:.+-]*$'
    AND coalesce((limits ->> 'give_up_after')::float8, 1) BETWEEN 1e-6 AND 31622400
    AND coalesce((limits ->> 'silence_timeout')::float8, 1) BETWEEN 1 AND 2592000
    AND coalesce(isfinite(pgcron.give_up_at(limits)), true);
EXCEPTION WHEN data_exception THEN      -- it is no object, or a value is out of range
  RETURN false;
END $$;
