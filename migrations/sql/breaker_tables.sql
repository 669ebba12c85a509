-- Circuit breakers: a handler that keeps failing gets no runs for a while, then one at a time as a
-- probe. A breaker is for one handler, or for several that fail together: the http destinations of
-- one service. Its row is written when an attempt has failed, and by what follows from that; a
-- handler that works, and one without a breaker, cost nothing.

CREATE TABLE pgcron.breaker (
  name text PRIMARY KEY CONSTRAINT a_breaker_is_named_as_a_handler CHECK (pgcron.is_handler(name)),
  failures int NOT NULL DEFAULT 5,
  within interval NOT NULL DEFAULT '1 minute',
  open_for interval NOT NULL DEFAULT '30 seconds',
  open_for_at_most interval NOT NULL DEFAULT '10 minutes',
  fallback_handler text CHECK (pgcron.is_handler(fallback_handler)),
  fallback_queue text CHECK (pgcron.is_queue(fallback_queue)),
  set_by text CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz NOT NULL DEFAULT now(),
  state text NOT NULL DEFAULT 'closed' CONSTRAINT a_breaker_is_closed_open_or_half_open
    CHECK (state IN ('closed', 'open', 'half_open')),
  -- The latest failures, no more than open it.
  failed_at timestamptz[] NOT NULL DEFAULT '{}',
  opened_at timestamptz,
  -- While it is half open: until when its probe may begin.
  open_until timestamptz,
  -- How often in a row it opened: after a probe that failed it stays open twice as long as before,
  -- up to open_for_at_most.
  openings int NOT NULL DEFAULT 0,
  reason text,
  last_error text,
  -- The one run that may begin while it is half open, and with which attempt: when that is over, so
  -- is the probe.
  probe_run bigint,
  probe_attempt int,
  reset_by text CHECK (pgcron.is_short('reset_by', reset_by, 300)),
  reset_at timestamptz,
  CONSTRAINT a_fallback_is_a_handler_or_a_queue
    CHECK (fallback_handler IS NULL OR fallback_queue IS NULL
      OR pgcron.refuse('PC001', format('breaker %L has two fallbacks', name),
        'What waits is executed by another handler, or moved to another queue, or waits.',
        'Name one of them.')),
  CONSTRAINT a_fallback_is_another_handler
    CHECK (fallback_handler IS NULL OR fallback_handler <> name
      OR pgcron.refuse('PC001', format('the fallback of breaker %L is its own handler', name),
        'While a breaker is open none of its handlers is executed.',
        'Name another handler, or a queue, or leave it out.')),
  CONSTRAINT an_open_breaker_says_until_when_and_why
    CHECK (state = 'closed'
      OR (open_until IS NOT NULL AND opened_at IS NOT NULL AND reason IS NOT NULL)),
  CONSTRAINT a_probe_belongs_to_a_half_open_breaker
    CHECK ((state = 'half_open') = (probe_run IS NOT NULL)
      AND (probe_run IS NULL) = (probe_attempt IS NULL))
);
COMMENT ON TABLE pgcron.breaker IS
    'Circuit breakers. set_by NULL: declared by the nodes that offer the handler; else a '
    'person''s setting, which the nodes leave alone.';

-- A breaker whose numbers break the rules, as a row may that was written past its constraints, is
-- out of use: it counts and holds back nothing (pgcron.broken_settings names it).
CREATE FUNCTION pgcron.breaker_is_fine(b pgcron.breaker) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (b.failures BETWEEN 1 AND 100 AND b.within BETWEEN '1 second' AND '1 day'
          AND b.open_for BETWEEN '1 second' AND '1 day'
          AND b.open_for_at_most BETWEEN b.open_for AND '7 days' AND b.openings >= 0
          AND (b.state = 'closed' OR b.open_until IS NOT NULL)) IS TRUE $$;

ALTER TABLE pgcron.breaker ADD CONSTRAINT the_numbers_of_a_breaker_are_in_range
  CHECK (pgcron.breaker_is_fine(breaker)
    OR pgcron.refuse('PC001',
      format('breaker %L is out of range: failures %s, within %s, open_for %s, open_for_at_most %s',
        name, failures, within, open_for, open_for_at_most),
      'It opens after 1 to 100 failures, each of which counts for 1 second to 1 day (within), for '
      '1 second to 1 day at first (open_for); each probe that fails doubles that, up to '
      'open_for_at_most, which is at least open_for and at most 7 days.',
      'Leave out what need not differ from 5, ''1 minute'', ''30 seconds'' and ''10 minutes''.'));

CREATE INDEX breaker_open ON pgcron.breaker (name) WHERE state <> 'closed';

CREATE TABLE pgcron.breaker_handler (
  handler text PRIMARY KEY CONSTRAINT a_breaker_guards_a_handler CHECK (pgcron.is_handler(handler)),
  breaker text NOT NULL REFERENCES pgcron.breaker ON DELETE CASCADE
);
COMMENT ON TABLE pgcron.breaker_handler IS
    'Which handlers a breaker is for; a handler has one breaker at most.';
CREATE INDEX breaker_handler_breaker ON pgcron.breaker_handler (breaker);

CREATE TABLE pgcron.fallback_run (
  run_id bigint PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT now(),
  breaker text NOT NULL,
  handler text NOT NULL,
  queue text NOT NULL,
  reason text NOT NULL
);
COMMENT ON TABLE pgcron.fallback_run IS
    'Runs that an open breaker''s fallback took: the handler and queue of the request. Kept '
    'as long as history.';
CREATE INDEX fallback_run_at ON pgcron.fallback_run (at);

-- Waits for its breaker: the handler's is open, or a probe is under way. In the fallback queue
-- other nodes do its work, so there it goes on.
CREATE FUNCTION pgcron.is_broken(handler text, queue text) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM pgcron.breaker_handler m JOIN pgcron.breaker b ON b.name = m.breaker
                 WHERE m.handler = is_broken.handler AND b.state <> 'closed'
                   AND pgcron.breaker_is_fine(b)
                   AND b.fallback_queue IS DISTINCT FROM is_broken.queue) $$;
