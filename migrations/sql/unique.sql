-- Unique runs: of the runs of a handler that have the same unique key one has the key, and a
-- request for another one meets it. A run has its key until it ends (scope open), or until a node
-- takes it (waiting): between attempts it is open, and waits no more. With a time (period) the key
-- is kept here instead, until the time is over, whatever happens to the run.

-- Whether a live run keeps others with its unique key from being made.
CREATE FUNCTION pgcron.has_key(unique_key text, unique_scope text, attempt int) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN unique_key IS NOT NULL
  AND (coalesce(unique_scope, 'open') = 'open' OR (unique_scope = 'waiting' AND attempt = 0));

-- The net under all that follows, and under an INSERT by hand. Nothing that happens to a run gives
-- it a key that it had lost.
CREATE UNIQUE INDEX run_unique_key ON pgcron.run (unique_key, handler, coalesce(namespace, ''))
  WHERE pgcron.has_key(unique_key, unique_scope, attempt);

CREATE TABLE pgcron.unique_period (
  key text COLLATE "C" NOT NULL,
  handler text NOT NULL,
  run_id bigint NOT NULL,
  until timestamptz NOT NULL,
  namespace text COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (namespace, key, handler)
);
COMMENT ON TABLE pgcron.unique_period IS
    'Unique keys with a time: which run was the last with it, and until when there is no other. '
    'The janitor removes what is over.';
CREATE INDEX unique_period_until ON pgcron.unique_period (until);

CREATE FUNCTION pgcron.unique_key_is_fine(unique_key text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN unique_key IS NOT NULL AND length(unique_key) BETWEEN 1 AND 500 AND btrim(unique_key) <> '';

CREATE FUNCTION pgcron.refuse_unique_key(unique_key text, unique_scope text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN pgcron.unique_key_is_fine(unique_key)
                THEN pgcron.refuse('PC001',
                       format('unique_scope %L is not known', left(unique_scope, 100)),
                       'A run has its unique key while it is open (it waits or executes) or while '
                       'it is waiting.',
                       'Write ''open'' or ''waiting''; unique_for says a time.')
              WHEN unique_key IS NULL THEN pgcron.refuse('PC001',
                    'unique_scope is given without unique_key',
                    'It says how long a run has its key.',
                    'Give the key, for example unique_key => ''customer-7''.')
              ELSE pgcron.refuse('PC001',
                     format('the unique key has %s characters', length(unique_key)),
                     'A unique key has 1 to 500 characters and is not blank.',
                     'Use a hash of a longer one.') END $$;

CREATE FUNCTION pgcron.refuse_unique(fact text, rule text,
    remedy text DEFAULT 'Leave one of them out.') RETURNS boolean
LANGUAGE sql VOLATILE AS $$ SELECT pgcron.refuse('PC001', fact, rule, remedy) $$;

-- Which options of uniqueness go together.
CREATE FUNCTION pgcron.judge_unique(asked pgcron.run_request) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF asked.unique_key IS NULL THEN
    PERFORM pgcron.refuse_unique(format('%s is given without unique_key',
          (SELECT min(option) FROM jsonb_object_keys(jsonb_strip_nulls(to_jsonb(asked))) option
           WHERE option ~ '^(debounce|on_conflict|unique_)')),
        'It says what happens to a second run with the same unique key.',
        'Give the key, for example unique_key => ''customer-7''.');
  ELSIF NOT pgcron.unique_key_is_fine(asked.unique_key)
      OR asked.unique_scope NOT IN ('open', 'waiting') THEN
    PERFORM pgcron.refuse_unique_key(asked.unique_key, asked.unique_scope);
  ELSIF asked.on_conflict NOT IN ('return', 'replace', 'refuse') THEN
    PERFORM pgcron.refuse_unique(
        format('on_conflict %L is not known', left(asked.on_conflict, 100)),
        'A request that meets a run with the same unique key returns its id, replaces its args, or '
        'is refused.',
        'Write ''return'', ''replace'' or ''refuse''.');
  ELSIF asked.unique_for <= '0' OR asked.unique_for > '366 days' THEN
    PERFORM pgcron.refuse_unique(format('unique_for %s is out of range', asked.unique_for),
        'It must be positive and at most 366 days.', 'Write for example ''10 minutes''.');
  ELSIF asked.debounce <= '0' OR asked.debounce > '30 days' THEN
    PERFORM pgcron.refuse_unique(format('debounce %s is out of range', asked.debounce),
        'It must be positive and at most 30 days.', 'Write for example ''5 seconds''.');
  ELSIF asked.unique_for IS NOT NULL AND asked.unique_scope IS NOT NULL THEN
    PERFORM pgcron.refuse_unique('unique_for is given with unique_scope',
        'A unique key has a time, or it has the run for as long as that is open or waiting.');
  ELSIF asked.debounce_max IS NOT NULL AND asked.debounce IS NULL THEN
    PERFORM pgcron.refuse_unique('debounce_max is given without debounce',
        'It says how far a run is pushed on at most.', 'Give debounce, or leave debounce_max out.');
  ELSIF asked.debounce_max < asked.debounce OR asked.debounce_max > '366 days' THEN
    PERFORM pgcron.refuse_unique(format('debounce_max %s is out of range', asked.debounce_max),
        'It is at least debounce and at most 366 days, from the first call on.',
        'Write for example ''1 minute''.');
  ELSIF asked.debounce IS NOT NULL
      AND num_nonnulls(asked.unique_scope, asked.unique_for, asked.on_conflict) > 0 THEN
    PERFORM pgcron.refuse_unique(format('debounce is given with %s',
          (SELECT min(option) FROM jsonb_object_keys(jsonb_strip_nulls(to_jsonb(asked))) option
           WHERE option ~ '^(on_conflict|unique_scope|unique_for)')),
        'A debounced run is pushed on, with the newest args, for as long as it waits: that is '
        'all it can be.');
  ELSIF asked.due_at IS NOT NULL
      AND (asked.debounce IS NOT NULL
           OR (asked.unique_for IS NOT NULL AND asked.on_conflict = 'replace')) THEN
    PERFORM pgcron.refuse_unique(format('due_at is given with %s',
          CASE WHEN asked.debounce IS NOT NULL THEN 'debounce'
               ELSE 'unique_for and on_conflict replace' END),
        'They say when the run is due.');
  END IF;
END $$;

-- Refuses a request for another run with a key, and names the run that has it.
CREATE FUNCTION pgcron.refuse_met(fact text, met bigint, unique_key text,
    until timestamptz DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC011',
           format('%s: run %s has the unique key %L', fact, met, left(unique_key, 200)),
           CASE WHEN until IS NULL THEN 'Of the runs of a handler with one unique key only one may '
                    'be there at a time.'
                ELSE format('No other run may have it before %s.', until) END,
           CASE WHEN until IS NULL THEN format('Wait until run %s has ended, or cancel it.', met)
                ELSE 'Call it again after that.' END) $$;

-- The run of the handler that has the unique key now; NULL when none has it.
CREATE FUNCTION pgcron.run_with_key(unique_key text, handler text, namespace text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT r.id FROM pgcron.run r
  WHERE r.unique_key = run_with_key.unique_key AND r.handler = run_with_key.handler
    AND coalesce(r.namespace, '') = coalesce(run_with_key.namespace, '')
    AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt) $$;

-- Gives a run that no node has taken yet what a later request says; false when there is none any
-- more. It is due at due_at, but not later than `most` after it was made; without due_at as it was,
-- but not later than `latest`. Its deadlines count from its due time, and move with it.
CREATE FUNCTION pgcron.replace_run(run bigint, unique_key text, handler text, args jsonb,
    priority int, due_at timestamptz, most interval, latest timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  met pgcron.run;
  due timestamptz;
  moved interval := '0';
BEGIN
  SELECT r.* INTO met FROM pgcron.run r
  WHERE r.id = run AND r.unique_key = replace_run.unique_key AND r.handler = replace_run.handler
    AND r.state <> 'running' AND r.attempt = 0 FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  due := CASE WHEN replace_run.due_at IS NOT NULL
                THEN least(replace_run.due_at, met.created_at + most)
              ELSE least(met.due_at, latest) END;
  IF isfinite(due) AND isfinite(met.due_at) THEN
    -- in seconds: a day of an interval may have another length in the caller's time zone
    moved := make_interval(secs => extract(epoch FROM due - met.due_at)::float8);
  END IF;
  UPDATE pgcron.run r
  SET args = replace_run.args, priority = replace_run.priority, due_at = due,
      expire_at = r.expire_at + moved,
      time_limits = jsonb_strip_nulls(r.time_limits || jsonb_build_object('give_up_at',
                pgcron.give_up_at(r.time_limits) + moved))
  WHERE r.id = run;
  RETURN true;
END $$;

-- As pgcron.enqueue, for a request with options of uniqueness, of a producer (NULL: of another
-- role). The unique index decides between requests at the same moment: the second waits until the
-- first one's transaction is over, and no longer than 10 seconds when the caller has no
-- lock_timeout of its own.
CREATE FUNCTION pgcron.enqueue_unique(asked pgcron.run_request, actor text, p pgcron.producer)
  RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  manner text := CASE WHEN asked.debounce IS NOT NULL THEN 'replace'
                      ELSE coalesce(asked.on_conflict, 'return') END;
  scope text := CASE WHEN asked.unique_for IS NOT NULL THEN 'period'
                     ELSE coalesce(asked.unique_scope,
                            CASE manner WHEN 'replace' THEN 'waiting' ELSE 'open' END) END;
  asked_handler text := coalesce(asked.handler, '');
  space text := coalesce(p.namespace, '');
  wanted timestamptz := coalesce(now() + asked.debounce, asked.due_at);
  waits_for_ever boolean := current_setting('lock_timeout') = '0';
  met bigint;
  met_until timestamptz;
  made bigint;
BEGIN
  PERFORM pgcron.is_handler(asked_handler);
  PERFORM pgcron.judge_unique(asked);
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '10s', true); END IF;
  -- Each round that ends without an answer saw another client's run come or go meanwhile.
  FOR round IN 1..1000 LOOP
    IF scope = 'period' THEN
      SELECT u.run_id, u.until INTO met, met_until FROM pgcron.unique_period u
      WHERE u.namespace = space AND u.key = asked.unique_key AND u.handler = asked_handler
        AND u.until > now();
    ELSE
      met := pgcron.run_with_key(asked.unique_key, asked_handler, space);
    END IF;
    IF met IS NOT NULL THEN
      IF manner = 'refuse' THEN
        PERFORM pgcron.refuse_met('the run was not made', met, asked.unique_key, met_until);
      ELSIF manner = 'return'
          OR pgcron.replace_run(met, asked.unique_key, asked_handler,
                coalesce(asked.args, '{}'), coalesce(asked.priority, 5), wanted,
                asked.debounce_max, CASE scope WHEN 'period' THEN 'infinity' ELSE now() END)
          -- One that a node has taken and that has its key all the same is left as it is.
          OR (scope <> 'period'
              AND EXISTS (SELECT FROM pgcron.run r
                          WHERE r.id = met AND r.attempt > 0
                            AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt))) THEN
        made := met;
        EXIT;
      END IF;
      CONTINUE WHEN scope <> 'period';
    END IF;
    IF scope = 'period' THEN
      -- The first run of a time, or the next one after the one that was met. The key keeps other
      -- requests waiting until this transaction is over.
      INSERT INTO pgcron.unique_period AS u (namespace, key, handler, run_id, until)
      VALUES (space, asked.unique_key, asked_handler, nextval('pgcron.run_id_seq'),
              greatest(now(), coalesce(met_until, wanted)) + asked.unique_for)
      ON CONFLICT ON CONSTRAINT unique_period_pkey DO UPDATE SET run_id = EXCLUDED.run_id,
        until = EXCLUDED.until
      WHERE u.run_id = met OR u.until <= now() RETURNING u.run_id INTO made;
      CONTINUE WHEN made IS NULL;
      wanted := coalesce(met_until, wanted);
    END IF;
    IF p.backlog IS NOT NULL THEN PERFORM pgcron.judge_backlog(p, 1); END IF;
    made := coalesce(made, nextval('pgcron.run_id_seq'));
    INSERT INTO pgcron.run
    SELECT r.*
    FROM pgcron.run_of_request(asked, made, coalesce(wanted, now()), scope, p.namespace,
        coalesce(actor, session_user)) r
    ON CONFLICT (unique_key, handler, coalesce(namespace, ''))
    WHERE pgcron.has_key(unique_key, unique_scope, attempt) DO NOTHING RETURNING id INTO made;
    EXIT WHEN made IS NOT NULL;
  END LOOP;
  IF made IS NULL THEN
    PERFORM pgcron.refuse('PC011',
        format('unique key %L changes hands all the time', left(asked.unique_key, 200)),
        'Another run had it at each of 1000 tries.', 'Call it again.');
  END IF;
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '0', true); END IF;
  RETURN made;
END $$;
