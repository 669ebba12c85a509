-- Runs that people and programs request: named, defaulted arguments. Every interface calls these.

-- What a run is requested with: the arguments of pgcron.enqueue, but for who acts.
CREATE TYPE pgcron.run_request AS (handler text, args jsonb, queue text, priority int,
  due_at timestamptz, idempotency_key text, key_lifetime interval, timeout interval,
  max_attempts int, delivery text, retry jsonb, concurrency_key text, requires text[],
  unique_key text, unique_scope text, unique_for interval, on_conflict text, debounce interval,
  debounce_max interval, start_within interval, give_up_after interval, silence_timeout interval,
  weight int, tags text[]);

-- The row of a run that is requested. What is as for most is NULL, so that rows are narrow.
-- created_by: the claimed actor, or the login. Raises PC001 for time limits.
CREATE FUNCTION pgcron.run_of_request(asked pgcron.run_request, id bigint, due_at timestamptz,
    unique_scope text, namespace text, created_by text) RETURNS SETOF pgcron.run
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT run_of_request.id, run_of_request.due_at, now(), 0, coalesce(asked.priority, 5)::smallint,
         NULL::uuid, 'enqueued', NULL::bigint, NULL::text, NULL::timestamptz, NULL::timestamptz,
         NULL::bigint, coalesce(asked.queue, 'default'), coalesce(asked.handler, ''),
         coalesce(asked.args, '{}'), coalesce(asked.delivery, 'at_least_once'), 'ready', NULL::text,
         CASE WHEN num_nonnulls(asked.start_within, asked.give_up_after) > 0
                THEN pgcron.expire_at(asked.start_within, asked.give_up_after,
                       run_of_request.due_at) END,
         asked.max_attempts,
         -- a workflow has no timeout but what is given
         CASE WHEN asked.timeout <> '1 hour' OR asked.handler LIKE 'workflow:%'
              THEN asked.timeout END,
         asked.retry, NULL::text, NULL::smallint, NULL::smallint,
         pgcron.concurrency_key_of(asked.concurrency_key, asked.weight), NULL::int,
         asked.unique_key, run_of_request.unique_scope, run_of_request.namespace,
         nullif(asked.requires, '{}'), nullif(asked.weight, 1), nullif(asked.tags, '{}'),
         NULL::uuid, NULL::uuid, NULL::bigint, NULL::timestamptz, NULL::timestamptz,
         NULL::timestamptz, NULL::text, NULL::timestamptz,
         CASE WHEN num_nonnulls(asked.give_up_after, asked.silence_timeout) > 0
                THEN pgcron.time_limits(asked.give_up_after, asked.silence_timeout,
                       run_of_request.due_at) END,
         NULL::text, NULL::smallint, run_of_request.created_by,
         nullif(session_user, run_of_request.created_by), NULL::boolean;
END;

CREATE FUNCTION pgcron.judge_lifetime(key_lifetime interval) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN coalesce(key_lifetime > '0' AND key_lifetime <= '366 days', true)
  OR pgcron.refuse('PC001', format('key_lifetime %s is out of range', key_lifetime),
       'It says how long an idempotency key is remembered: at most 366 days.',
       'Leave it out for ''1 day''.');

-- Returns the id of the new run, or of the run that a living idempotency key already named. With
-- the owner's rights, so that who enqueues needs none on tables: what it may make is judged here. A
-- second caller with a key waits for the end of the first one's transaction, and no longer than 10
-- seconds when it has no lock_timeout of its own; keys are the producer's, so nobody waits for
-- another one.
CREATE FUNCTION pgcron.enqueue(handler text, args jsonb DEFAULT '{}', queue text DEFAULT 'default',
    priority int DEFAULT 5, due_at timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL,
    key_lifetime interval DEFAULT '1 day', timeout interval DEFAULT NULL,
    max_attempts int DEFAULT NULL, delivery text DEFAULT 'at_least_once', retry jsonb DEFAULT NULL,
    actor text DEFAULT NULL, concurrency_key text DEFAULT NULL, requires text[] DEFAULT NULL,
    unique_key text DEFAULT NULL, unique_scope text DEFAULT NULL, unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, start_within interval DEFAULT NULL,
    give_up_after interval DEFAULT NULL, silence_timeout interval DEFAULT NULL,
    weight int DEFAULT NULL, tags text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  p pgcron.producer;
  waits_for_ever boolean;
  new_id bigint;
  known_id bigint;
  asked pgcron.run_request := ROW(handler, args, queue, priority, due_at, NULL, NULL, timeout,
      max_attempts, delivery, retry, concurrency_key, requires, unique_key, unique_scope,
      unique_for, on_conflict, debounce, debounce_max, start_within, give_up_after,
      silence_timeout, weight, tags);
BEGIN
  IF NOT has_table_privilege(pgcron.caller(), 'pgcron.run'::regclass, 'TRUNCATE') THEN
    p := pgcron.admit_caller(actor, coalesce(handler, ''), queue, priority, weight,
        concurrency_key, args);
  END IF;
  IF num_nonnulls(unique_key, unique_scope, unique_for, on_conflict, debounce, debounce_max)
      > 0 THEN
    IF idempotency_key IS NOT NULL THEN
      PERFORM pgcron.refuse_unique('idempotency_key is given with unique_key',
          'Each says which run a second call gets: an idempotency key the run it named, also after '
          'its end; a unique key the one that has it now.');
    END IF;
    RETURN pgcron.enqueue_unique(asked, actor, p);
  END IF;
  IF num_nonnulls(start_within, give_up_after, silence_timeout) > 0 THEN      -- before its key
    PERFORM pgcron.time_limits(give_up_after, silence_timeout, now()),
            pgcron.expire_at(start_within, give_up_after, now());
  END IF;
  new_id := nextval('pgcron.run_id_seq');
  IF idempotency_key IS NOT NULL THEN
    waits_for_ever := pgcron.judge_lifetime(key_lifetime) AND current_setting('lock_timeout') = '0';
    IF waits_for_ever THEN PERFORM set_config('lock_timeout', '10s', true); END IF;
    INSERT INTO pgcron.idempotency AS known
    VALUES (idempotency_key, new_id, now() + coalesce(key_lifetime, '1 day'),
            coalesce(p.namespace, ''))
    ON CONFLICT ON CONSTRAINT idempotency_pkey DO UPDATE SET run_id = EXCLUDED.run_id,
      expires_at = EXCLUDED.expires_at
    WHERE known.expires_at <= now() RETURNING known.run_id INTO known_id;
    IF waits_for_ever THEN PERFORM set_config('lock_timeout', '0', true); END IF;
    -- a living key; only a new statement can see one that was inserted meanwhile
    IF known_id IS NULL THEN
      RETURN (SELECT i.run_id FROM pgcron.idempotency i
              WHERE i.namespace = coalesce(p.namespace, '') AND i.key = idempotency_key);
    END IF;
  END IF;
  -- It is true or raises. As a condition it needs no query of its own, as PERFORM would.
  IF p.backlog IS NULL OR pgcron.judge_backlog(p, 1) THEN
    INSERT INTO pgcron.run
    SELECT r.*
    FROM pgcron.run_of_request(asked, new_id, coalesce(due_at, now()), NULL,
        pgcron.namespace_of(p), coalesce(actor, session_user)) r;
  END IF;
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.enqueue IS
    'Enqueues one run in the caller''s transaction; returns its id. No more runs of one '
    'concurrency key execute at once than pgcron.set_concurrency allows; only nodes with all '
    'labels that it requires take it; a run takes weight (1) of a node''s slots. Without a timeout '
    'an attempt has an hour, and a workflow any time.';

-- The shape of what pgcron.enqueue_many is given; true when an element has an idempotency key or is
-- to be unique.
CREATE FUNCTION pgcron.judge_requests(runs jsonb) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known_keys text[] := ARRAY(SELECT a.attname::text FROM pg_attribute a
                             WHERE a.attrelid = 'pgcron.run_request'::regclass ORDER BY a.attnum);
  has_keys boolean;
  wrong int;
  example text := 'Write for example ''[{"handler": "py:report", "args": {"day": 1}}]''.';
BEGIN
  IF jsonb_typeof(runs) IS DISTINCT FROM 'array' THEN
    PERFORM pgcron.refuse('PC001',
        format('runs is %s', coalesce('a JSON ' || jsonb_typeof(runs), 'NULL')),
        'runs is a JSON array of objects, one for each run.', example);
  ELSIF jsonb_array_length(runs) > 10000 OR pg_column_size(runs) > 67108864 THEN
    PERFORM pgcron.refuse('PC004',
        format('runs has %s elements and %s bytes', jsonb_array_length(runs), pg_column_size(runs)),
        'One call takes up to 10000 runs and 67108864 bytes (64 MiB).',
        'Call it several times; in one transaction they exist together or not at all.');
  END IF;
  SELECT coalesce(bool_or(options ?|
                          '{idempotency_key,unique_key,unique_scope,unique_for,on_conflict,'
                          'debounce,debounce_max}'),
           false),
         min(position) FILTER (WHERE CASE jsonb_typeof(options)
                                 WHEN 'object' THEN options - known_keys <> '{}'
                                 ELSE true END)
  INTO has_keys, wrong FROM jsonb_array_elements(runs) WITH ORDINALITY element(options, position);
  IF wrong IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001',
        format('run %s of %s: %s', wrong, jsonb_array_length(runs),
          CASE jsonb_typeof(runs -> (wrong - 1))
            WHEN 'object' THEN format('enqueue has no argument %L',
                   left((SELECT min(key)
                         FROM jsonb_object_keys((runs -> (wrong - 1)) - known_keys) key), 100))
            ELSE 'it is a JSON ' || jsonb_typeof(runs -> (wrong - 1)) END),
        'Each element is a JSON object; its keys are ' || array_to_string(known_keys, ', ') || '.',
        example);
  END IF;
  RETURN has_keys;
END $$;

-- The ids of the requested runs: new ones, except where an idempotency key names a run already, or
-- where a unique one was made or met. Keys are taken in one order, so that two callers with the
-- same ones can't wait for each other in a ring.
CREATE FUNCTION pgcron.claim_keys(runs jsonb, new_ids bigint[], actor text, namespace text)
  RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  single record;
  waits_for_ever boolean := current_setting('lock_timeout') = '0';
BEGIN
  PERFORM pgcron.judge_lifetime(o.key_lifetime)
    FROM jsonb_populate_recordset(NULL::pgcron.run_request, runs) o
    WHERE o.idempotency_key IS NOT NULL;
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '10s', true); END IF;
  INSERT INTO pgcron.idempotency AS known
  SELECT DISTINCT ON (options.idempotency_key) options.idempotency_key,
         new_ids[options.ordinality], now() + coalesce(options.key_lifetime, '1 day'),
         claim_keys.namespace
  FROM jsonb_populate_recordset(NULL::pgcron.run_request, runs) WITH ORDINALITY options
  WHERE options.idempotency_key IS NOT NULL ORDER BY options.idempotency_key, options.ordinality
  ON CONFLICT ON CONSTRAINT idempotency_pkey DO UPDATE SET run_id = EXCLUDED.run_id,
    expires_at = EXCLUDED.expires_at
  WHERE known.expires_at <= now();
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '0', true); END IF;
  -- Only a new statement can see a key that was inserted meanwhile.
  ids := ARRAY(SELECT coalesce(known.run_id, new_ids[options.position])
               FROM jsonb_array_elements(runs) WITH ORDINALITY options(given, position)
               LEFT JOIN pgcron.idempotency known ON known.namespace = claim_keys.namespace
                 AND known.key = given ->> 'idempotency_key'
               ORDER BY options.position);
  FOR single IN SELECT element.options, element.position
      FROM jsonb_array_elements(runs) WITH ORDINALITY element(options, position)
      WHERE jsonb_strip_nulls(options)
            ?| '{unique_key,unique_scope,unique_for,on_conflict,debounce,debounce_max}'
      ORDER BY options ->> 'unique_key' COLLATE "C", options ->> 'handler' COLLATE "C",
          position LOOP
    ids[single.position] := pgcron.enqueue_request(single.options, claim_keys.actor);
  END LOOP;
  RETURN ids;
END $$;

-- One element of what pgcron.enqueue_many is given, by itself.
CREATE FUNCTION pgcron.enqueue_request(options jsonb, actor text) RETURNS bigint
LANGUAGE sql AS $$
  SELECT pgcron.enqueue(o.handler, o.args, o.queue, o.priority, o.due_at, o.idempotency_key,
           o.key_lifetime, o.timeout, o.max_attempts, o.delivery, o.retry, actor, o.concurrency_key,
           o.requires, o.unique_key, o.unique_scope, o.unique_for, o.on_conflict, o.debounce,
           o.debounce_max, o.start_within, o.give_up_after, o.silence_timeout, o.weight, o.tags)
  FROM jsonb_populate_record(NULL::pgcron.run_request, options) o $$;

-- Raises the error of the first element that is refused: enqueues one after the other until then.
CREATE FUNCTION pgcron.refuse_request(runs jsonb) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  options jsonb;
  position int := 0;
  code text;
  fact text;
  rule text;
  remedy text;
BEGIN
  FOR options IN SELECT jsonb_array_elements(runs) LOOP
    position := position + 1;
    PERFORM pgcron.enqueue_request(options, NULL);
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, fact = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL,
    remedy = PG_EXCEPTION_HINT;
  PERFORM pgcron.refuse(CASE WHEN code LIKE 'PC%' THEN code ELSE 'PC001' END,
      format('run %s of %s: %s', position, jsonb_array_length(runs), fact),
      coalesce(nullif(rule, ''),
        'A key takes what the argument of pgcron.enqueue of that name takes.'),
      coalesce(nullif(remedy, ''),
        'Instants are texts such as "2026-12-24T18:00:00Z", durations such as "90 s", numbers '
        'are written without quotes.'));
END $$;

-- Enqueues a JSON array of objects whose keys are arguments of pgcron.enqueue, and does what a call
-- of it for each would do: all of them, or none when one is refused. The ids are in the array's
-- order.
CREATE FUNCTION pgcron.enqueue_many(runs jsonb, actor text DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  has_keys boolean := pgcron.judge_requests(runs);
  p pgcron.producer := pgcron.admit_caller(enqueue_many.actor);
  maker text := coalesce(enqueue_many.actor, session_user);
  owner_of_keys text := pgcron.namespace_of(p);
  new_ids bigint[];
  ids bigint[];
BEGIN
  PERFORM pgcron.admit_caller(NULL, coalesce(o.handler, ''), o.queue, o.priority, o.weight,
      o.concurrency_key, o.args)
    FROM jsonb_populate_recordset(NULL::pgcron.run_request, runs) o WHERE p.role IS NOT NULL;
  new_ids := ARRAY(SELECT nextval('pgcron.run_id_seq')
                   FROM generate_series(1, jsonb_array_length(runs)));
  ids := CASE WHEN has_keys THEN pgcron.claim_keys(runs, new_ids, enqueue_many.actor,
                                  coalesce(p.namespace, ''))
              ELSE new_ids END;
  IF p.backlog IS NOT NULL THEN
    PERFORM pgcron.judge_backlog(p, count(*)::int) FROM unnest(new_ids, ids) i(made, given)
      WHERE i.made = i.given;
  END IF;
  INSERT INTO pgcron.run
  SELECT r.*
  FROM jsonb_populate_recordset(NULL::pgcron.run_request, runs) WITH ORDINALITY o
  CROSS JOIN LATERAL pgcron.run_of_request(ROW(o.handler, o.args, o.queue, o.priority, o.due_at,
      NULL, NULL, o.timeout, o.max_attempts, o.delivery, o.retry, o.concurrency_key, o.requires,
      NULL, NULL, NULL, NULL, NULL, NULL, o.start_within, o.give_up_after, o.silence_timeout,
      o.weight, o.tags)::pgcron.run_request, new_ids[o.ordinality], coalesce(o.due_at, now()), NULL,
      owner_of_keys, maker) r
  WHERE new_ids[o.ordinality] = ids[o.ordinality];
  RETURN ids;
EXCEPTION WHEN OTHERS THEN
  IF SQLSTATE ~ '^(PC|22)' AND SQLERRM !~ '^(run \d+ of \d+: |producer )' THEN
    PERFORM pgcron.refuse_request(runs);
  END IF;
  RAISE;
END $$;
COMMENT ON FUNCTION pgcron.enqueue_many IS
    'Enqueues up to 10000 runs, an array of objects with the arguments of enqueue, in the '
    'caller''s transaction; returns their ids in order.';
