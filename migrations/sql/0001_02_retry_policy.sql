-- What a retry policy says. A run without one (NULL) is retried with exponential back-off and full jitter between its retry_base
-- and retry_cap, up to its max_attempts; a policy is a JSON object that changes some of this:
--
--   backoff     "exponential", "linear", "fixed", or a list of delays, one for each retry; the last one is repeated
--   base, cap   in place of retry_base and retry_cap; a list is not capped
--   jitter      true: anything from nothing up to the delay; false: the delay itself. The default is true for exponential and
--               linear, false for fixed and for a list
--   retry_for   no retry begins later than this after the first attempt began
--   retry_on    only these causes are retried; a node that died is always retried
--   discard_on  these causes are not retried
--   snooze_on   {"cause": delay}: comes back after the delay without having used up an attempt
--   snoozes     how often a run may be snoozed, 1000 by default
--
-- A cause is the name of an error's class or of a class that it is derived from, with or without its module; exit:75, signal:9,
-- http:503 or http:5xx, an SQLSTATE; or how the attempt ended: failed, timed_out, lease_lost. A delay is a number of seconds or an
-- interval as text. What a handler asks for by an exception of its own (Retry, Snooze, Discard, Cancel) goes before the lists.

-- A duration as policies write it; NULL when it is none, or longer than 366 days.
CREATE FUNCTION pgcron.policy_interval(written jsonb) RETURNS interval
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  found interval;
BEGIN
  IF jsonb_typeof(written) = 'number' AND (written #>> '{}')::numeric BETWEEN 0 AND 31622400 THEN
    found := make_interval(secs => (written #>> '{}')::float8);
  ELSIF jsonb_typeof(written) = 'string' THEN
    found := (written #>> '{}')::interval;
  END IF;
  RETURN CASE WHEN found BETWEEN '0' AND '366 days' THEN found END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.refuse_retry(fact text, rule text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', 'retry: ' || fact, rule,
    'Write for example ''{"backoff": "linear", "base": "10 seconds", "retry_for": "2 hours", "discard_on": ["ValueError"]}'', or leave it out.') $$;

-- Whether a list of causes is one: 1 to 50 texts.
CREATE FUNCTION pgcron.causes_are_fine(causes jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(causes) = 'array' THEN jsonb_array_length(causes) BETWEEN 1 AND 50
    AND NOT EXISTS (SELECT FROM jsonb_array_elements(causes) cause WHERE jsonb_typeof(cause) <> 'string' OR (cause #>> '{}') !~ '^[A-Za-z0-9_][A-Za-z0-9_.:]{0,199}$')
    ELSE false END $$;

CREATE FUNCTION pgcron.retry_policy_is_fine(policy jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  known_keys text[] := '{backoff,base,cap,jitter,retry_for,retry_on,discard_on,snooze_on,snoozes}';
  a_cause text := 'A cause is the name of an error''s class, exit:N, signal:N, http:N, an SQLSTATE, failed, timed_out or lease_lost; there may be 50.';
  key text;
  given jsonb;
BEGIN
  IF jsonb_typeof(policy) <> 'object' THEN
    RETURN pgcron.refuse_retry('it is a JSON ' || jsonb_typeof(policy), 'A retry policy is a JSON object.');
  ELSIF octet_length(policy::text) > 8192 THEN
    RETURN pgcron.refuse('PC004', format('retry has %s bytes', octet_length(policy::text)), 'A retry policy may have 8192 bytes as JSON text.', 'Name fewer causes.');
  END IF;
  FOR key, given IN SELECT each.key, each.value FROM jsonb_each(policy) each LOOP
    CASE
      WHEN key <> ALL (known_keys) THEN
        RETURN pgcron.refuse_retry(format('%L is no key of a policy', left(key, 100)), 'The keys are ' || array_to_string(known_keys, ', ') || '.');
      WHEN key = 'backoff' AND (given IN ('"exponential"', '"linear"', '"fixed"') OR CASE WHEN jsonb_typeof(given) = 'array' THEN
             jsonb_array_length(given) BETWEEN 1 AND 100 AND NOT EXISTS (SELECT FROM jsonb_array_elements(given) delay WHERE pgcron.policy_interval(delay) IS NULL) END) IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('backoff %s is not known', left(given::text, 100)),
          'It is "exponential", "linear", "fixed" or a list of 1 to 100 delays: seconds or intervals of up to 366 days.');
      WHEN key = 'base' AND (pgcron.policy_interval(given) > '0' AND pgcron.policy_interval(given) <= '1 day') IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('base %s is out of range', left(given::text, 100)), 'The first retry waits up to this long: more than nothing, at most a day.');
      WHEN key = 'cap' AND (pgcron.policy_interval(given) > '0' AND pgcron.policy_interval(given) <= '30 days') IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('cap %s is out of range', left(given::text, 100)), 'No retry waits longer than this: more than nothing, at most 30 days.');
      WHEN key = 'jitter' AND jsonb_typeof(given) <> 'boolean' THEN
        RETURN pgcron.refuse_retry(format('jitter is a JSON %s', jsonb_typeof(given)), 'It is true or false.');
      WHEN key = 'retry_for' AND (pgcron.policy_interval(given) > '0') IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('retry_for %s is out of range', left(given::text, 100)), 'No retry begins later than this after the first attempt: more than nothing, at most 366 days.');
      WHEN key IN ('retry_on', 'discard_on') AND NOT pgcron.causes_are_fine(given) THEN
        RETURN pgcron.refuse_retry(format('%s %s is no list of causes', key, left(given::text, 100)), a_cause);
      WHEN key = 'snooze_on' AND (CASE WHEN jsonb_typeof(given) = 'object' THEN
             pgcron.causes_are_fine((SELECT coalesce(jsonb_agg(pair.key), '[]') FROM jsonb_each(given) pair))
             AND NOT EXISTS (SELECT FROM jsonb_each(given) pair WHERE (pgcron.policy_interval(pair.value) > '0') IS NOT TRUE) END) IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('snooze_on %s does not name causes and delays', left(given::text, 100)), 'It is an object of causes and delays. ' || a_cause);
      WHEN key = 'snoozes' AND (CASE WHEN jsonb_typeof(given) = 'number' THEN given::text ~ '^\d{1,4}$' AND (given #>> '{}')::numeric <= 1000 END) IS NOT TRUE THEN
        RETURN pgcron.refuse_retry(format('snoozes %s is out of range', left(given::text, 100)), 'A run may be snoozed 0 to 1000 times.');
      ELSE
    END CASE;
  END LOOP;
  RETURN true;
END $$;
COMMENT ON FUNCTION pgcron.retry_policy_is_fine(jsonb) IS
  'True for a retry policy; raises PC001 or PC004 with message, detail and hint otherwise.';

-- Exponential with full jitter: anything from nothing up to base * 2^(attempt - 1), at most cap. The exponent is bounded so that
-- the interval can't overflow.
CREATE FUNCTION pgcron.retry_delay(attempt int, base interval, cap interval) RETURNS interval
LANGUAGE sql VOLATILE AS $$ SELECT random() * least(cap, base * power(2, least(attempt, 20) - 1)) $$;

-- The same by a policy. `attempt` counts those that used up one.
CREATE FUNCTION pgcron.policy_delay(policy jsonb, attempt int, base interval, cap interval) RETURNS interval
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  backoff text := CASE WHEN jsonb_typeof(policy -> 'backoff') = 'array' THEN 'list' ELSE coalesce(policy ->> 'backoff', 'exponential') END;
  longest interval;
BEGIN
  base := coalesce(pgcron.policy_interval(policy -> 'base'), base);
  cap := coalesce(pgcron.policy_interval(policy -> 'cap'), cap);
  longest := CASE backoff WHEN 'exponential' THEN least(cap, base * power(2, least(attempt, 20) - 1))
                          WHEN 'linear' THEN least(cap, base * attempt)
                          WHEN 'fixed' THEN least(cap, base)
                          ELSE pgcron.policy_interval(policy -> 'backoff' -> (least(attempt, jsonb_array_length(policy -> 'backoff')) - 1)) END;
  RETURN longest * CASE WHEN coalesce((policy ->> 'jitter')::boolean, backoff IN ('exponential', 'linear')) THEN random() ELSE 1 END;
END $$;
