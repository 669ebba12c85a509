-- What a retry policy says. A run without one (NULL) is retried with exponential back-off and full
-- jitter, up to its max_attempts; a policy is a JSON object that changes some of this:
--
--   backoff     "exponential", "linear", "fixed", or a list of delays, one for each retry; the last
--               one is repeated
--   base, cap   the longest wait before the first retry (2 seconds) and before any (1 hour); a list
--               is not capped
--   jitter      true: anything from nothing up to the delay; false: the delay itself. The default
--               is true for exponential and linear, false for fixed and for a list
--   retry_for   no retry begins later than this after the first attempt began
--   retry_on    only these causes are retried; a node that died is always retried
--   discard_on  these causes are not retried
--   snooze_on   {"cause": delay}: comes back after the delay without having used up an attempt
--   snoozes     how often a run may be snoozed, 1000 by default
--
-- A cause is the name of an error's class or of a class that it is derived from, with or without
-- its module; exit:75, signal:9, http:503 or http:5xx, an SQLSTATE; or how the attempt ended:
-- failed, timed_out, lease_lost. A delay is a number of seconds or an interval as text. What a
-- handler asks for by an exception of its own (Retry, Snooze, Discard, Cancel) goes before the
-- lists.

-- Apart, because a block that catches errors costs more than all else of a policy.
CREATE FUNCTION pgcron.interval_or_null(written text) RETURNS interval
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN CASE WHEN written::interval BETWEEN '0' AND '366 days' THEN written::interval END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

-- A duration as policies write it; NULL when it is none, or longer than 366 days.
CREATE FUNCTION pgcron.policy_interval(written jsonb) RETURNS interval
LANGUAGE sql IMMUTABLE
RETURN CASE jsonb_typeof(written)
         WHEN 'number' THEN CASE WHEN written::numeric BETWEEN 0 AND 31622400
                                   THEN make_interval(secs => written::float8) END
         WHEN 'string' THEN pgcron.interval_or_null(written #>> '{}') END;

CREATE FUNCTION pgcron.refuse_retry(fact text, rule text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', 'retry: ' || fact, rule,
           'Write for example ''{"backoff": "linear", "base": "10 seconds", "retry_for": "2 '
           'hours", "discard_on": ["ValueError"]}'', or leave it out.') $$;

CREATE FUNCTION pgcron.refuse_retry_key(policy jsonb, key text, rule text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse_retry(format('%s %s is not valid', key, left((policy -> key)::text, 100)),
           rule) $$;

-- Whether a list of causes is one: 1 to 50 words.
CREATE FUNCTION pgcron.causes_are_fine(causes jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(causes) = 'array' THEN jsonb_array_length(causes) BETWEEN 1 AND 50
                  AND causes::text
                      ~ '^\["[A-Za-z0-9_][A-Za-z0-9_.:]*"(, "[A-Za-z0-9_][A-Za-z0-9_.:]*")*\]$'
              ELSE false END $$;

-- Whether a list of delays is one: 1 to 100.
CREATE FUNCTION pgcron.delays_are_fine(delays jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN jsonb_typeof(delays) = 'array' AND jsonb_array_length(delays) BETWEEN 1 AND 100
    AND NOT EXISTS (SELECT FROM jsonb_array_elements(delays) delay
                    WHERE pgcron.policy_interval(delay) IS NULL);
END $$;

-- Whether an object of causes and delays is one: 1 to 50, none of nothing.
CREATE FUNCTION pgcron.snoozes_are_fine(naps jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(naps) <> 'object' THEN RETURN false; END IF;
  RETURN pgcron.causes_are_fine((
          SELECT coalesce(jsonb_agg(pair.key), '[]') FROM jsonb_each(naps) pair))
    AND NOT EXISTS (SELECT FROM jsonb_each(naps) pair
                    WHERE (pgcron.policy_interval(pair.value) > '0') IS NOT TRUE);
END $$;

-- True for a retry policy; raises PC001 or PC004 with message, detail and hint otherwise. Each
-- condition is one that plpgsql evaluates without a query of its own: a run with a policy is judged
-- when it comes.
CREATE FUNCTION pgcron.retry_policy_is_fine(policy jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  known_keys text[] := '{backoff,base,cap,jitter,retry_for,retry_on,discard_on,snooze_on,snoozes}';
  a_cause text := 'A cause is the name of an error''s class, exit:N, signal:N, http:N, an '
    'SQLSTATE, failed, timed_out or lease_lost; there may be 50.';
BEGIN
  IF jsonb_typeof(policy) <> 'object' THEN
    RETURN pgcron.refuse_retry('it is a JSON ' || jsonb_typeof(policy),
        'A retry policy is a JSON object.');
  ELSIF octet_length(policy::text) > 8192 THEN
    RETURN pgcron.refuse('PC004', format('retry has %s bytes', octet_length(policy::text)),
        'A retry policy may have 8192 bytes as JSON text.', 'Name fewer causes.');
  ELSIF policy - known_keys <> '{}' THEN
    RETURN pgcron.refuse_retry(format('a policy has no key %L',
          left((SELECT min(key) FROM jsonb_object_keys(policy - known_keys) key), 100)),
        'The keys are ' || array_to_string(known_keys, ', ') || '.');
  END IF;
  RETURN (NOT policy ? 'backoff'
      OR policy -> 'backoff' IN ('"exponential"', '"linear"', '"fixed"')
      OR pgcron.delays_are_fine(policy -> 'backoff')
      OR pgcron.refuse_retry_key(policy, 'backoff', 'It is "exponential", "linear", "fixed" or a '
        'list of 1 to 100 delays: seconds or intervals of up to 366 days.'))
    AND (NOT policy ? 'base'
      OR pgcron.policy_interval(policy -> 'base') BETWEEN '1 microsecond' AND '1 day'
      OR pgcron.refuse_retry_key(policy, 'base',
        'The first retry waits up to this long: more than nothing, at most a day.'))
    AND (NOT policy ? 'cap'
      OR pgcron.policy_interval(policy -> 'cap') BETWEEN '1 microsecond' AND '30 days'
      OR pgcron.refuse_retry_key(policy, 'cap',
        'No retry waits longer than this: more than nothing, at most 30 days.'))
    AND (NOT policy ? 'jitter' OR jsonb_typeof(policy -> 'jitter') = 'boolean'
      OR pgcron.refuse_retry_key(policy, 'jitter', 'It is true or false.'))
    AND (NOT policy ? 'retry_for' OR pgcron.policy_interval(policy -> 'retry_for') > '0'
      OR pgcron.refuse_retry_key(policy, 'retry_for', 'No retry begins later than this after the '
        'first attempt: more than nothing, at most 366 days.'))
    AND (NOT policy ? 'retry_on' OR pgcron.causes_are_fine(policy -> 'retry_on')
      OR pgcron.refuse_retry_key(policy, 'retry_on', a_cause))
    AND (NOT policy ? 'discard_on' OR pgcron.causes_are_fine(policy -> 'discard_on')
      OR pgcron.refuse_retry_key(policy, 'discard_on', a_cause))
    AND (NOT policy ? 'snooze_on' OR pgcron.snoozes_are_fine(policy -> 'snooze_on')
      OR pgcron.refuse_retry_key(policy, 'snooze_on',
        'It is an object of causes and delays. ' || a_cause))
    AND (NOT policy ? 'snoozes'
      OR (jsonb_typeof(policy -> 'snoozes') = 'number' AND policy ->> 'snoozes' ~ '^\d{1,4}$'
        AND (policy -> 'snoozes')::numeric <= 1000)
      OR pgcron.refuse_retry_key(policy, 'snoozes', 'A run may be snoozed 0 to 1000 times.'));
END $$;

-- How long a retry waits: by default exponential with full jitter, which is anything from nothing
-- up to base * 2^(attempt - 1), at most cap. The exponent is bounded so that the interval can't
-- overflow. `attempt` counts those that used up one.
CREATE FUNCTION pgcron.policy_delay(policy jsonb, attempt int) RETURNS interval
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  backoff text := CASE WHEN jsonb_typeof(policy -> 'backoff') = 'array' THEN 'list'
                       ELSE coalesce(policy ->> 'backoff', 'exponential') END;
  base interval := coalesce(pgcron.policy_interval(policy -> 'base'), '2 seconds');
  cap interval := coalesce(pgcron.policy_interval(policy -> 'cap'), '1 hour');
  has_jitter boolean := coalesce((policy ->> 'jitter')::boolean,
      backoff IN ('exponential', 'linear'));
BEGIN
  RETURN CASE WHEN has_jitter THEN random() ELSE 1 END * CASE backoff
      WHEN 'exponential' THEN least(cap, base * power(2, least(attempt, 20) - 1))
      WHEN 'linear' THEN least(cap, base * attempt)
      WHEN 'fixed' THEN least(cap, base)
      ELSE pgcron.policy_interval(policy -> 'backoff' -> (least(attempt,
                                      jsonb_array_length(policy -> 'backoff')) - 1)) END;
END $$;
