-- The SQL interface: functions with named, defaulted arguments. The others call the same
-- ones.

-- Returns the id of the new run, or of the run that a living idempotency key already named.
CREATE FUNCTION pgcron.enqueue(handler text, args jsonb DEFAULT '{}', queue text DEFAULT 'default',
    priority int DEFAULT 5, due_at timestamptz DEFAULT NULL, idempotency_key text DEFAULT NULL,
    key_lifetime interval DEFAULT '1 day', timeout interval DEFAULT '1 hour',
    max_attempts int DEFAULT NULL, delivery text DEFAULT 'at_least_once', retry jsonb DEFAULT NULL,
    actor text DEFAULT NULL, lane text DEFAULT NULL, requires text[] DEFAULT NULL,
    unique_key text DEFAULT NULL, unique_scope text DEFAULT NULL, unique_for interval DEFAULT NULL,
    on_conflict text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, start_within interval DEFAULT NULL,
    give_up_after interval DEFAULT NULL, silence_timeout interval DEFAULT NULL,
    weight int DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  new_id bigint;
  known_id bigint;
  expires timestamptz;
  limits jsonb;
BEGIN
  IF num_nonnulls(unique_key, unique_scope, unique_for, on_conflict, debounce,
                  debounce_max) > 0 THEN
    IF idempotency_key IS NOT NULL THEN
      PERFORM pgcron.refuse_unique('idempotency_key is given with unique_key',
                                   'Each says which run a second call gets: an idempotency key '
                                   'the run it named, whatever became of it; a unique key the '
                                   'one that has it now.');
    END IF;
    RETURN pgcron.enqueue_unique(handler, args, queue, priority, due_at, timeout, max_attempts,
                                 delivery, retry, actor, lane, requires, unique_key, unique_scope,
                                 unique_for, on_conflict, debounce, debounce_max, start_within,
                                 give_up_after, silence_timeout, weight);
  END IF;
  IF num_nonnulls(start_within, give_up_after, silence_timeout) > 0 THEN
    limits := pgcron.time_limits(give_up_after, silence_timeout, coalesce(due_at, now()));
    expires := pgcron.expire_at(start_within, limits, coalesce(due_at, now()));
  END IF;
  IF idempotency_key IS NOT NULL THEN
    IF key_lifetime <= '0' THEN
      PERFORM pgcron.refuse('PC001', format('key_lifetime %s is not positive', key_lifetime),
                            'It says how long an idempotency key is remembered.',
                            'Leave it out for ''1 day''.');
    END IF;
    new_id := nextval('pgcron.run_id_seq');
    INSERT INTO pgcron.idempotency AS known
    VALUES (idempotency_key, new_id, now() + coalesce(key_lifetime, '1 day'))
    ON CONFLICT (key) DO UPDATE SET run_id = EXCLUDED.run_id, expires_at = EXCLUDED.expires_at
        WHERE known.expires_at <= now()
    RETURNING known.run_id INTO known_id;
    -- a living key; only a new statement can see one that was inserted meanwhile
    IF known_id IS NULL THEN
      RETURN (SELECT i.run_id FROM pgcron.idempotency i WHERE i.key = idempotency_key);
    END IF;
    INSERT INTO pgcron.run (id, handler, args, queue, priority, due_at, timeout, max_attempts,
                            delivery, retry, created_by, lane, requires, expire_at, time_limits,
                            weight)
    VALUES (new_id, coalesce(handler, ''), coalesce(args, '{}'), coalesce(queue, 'default'),
            coalesce(priority, 5), coalesce(due_at, now()), coalesce(timeout, '1 hour'),
            max_attempts, coalesce(delivery, 'at_least_once'), retry, coalesce(actor, session_user),
            pgcron.lane_of(lane, weight), nullif(requires, '{}'), expires, limits,
            nullif(weight, 1));
  ELSE
    INSERT INTO pgcron.run (handler, args, queue, priority, due_at, timeout, max_attempts, delivery,
                            retry, created_by, lane, requires, expire_at, time_limits, weight)
    VALUES (coalesce(handler, ''), coalesce(args, '{}'), coalesce(queue, 'default'),
            coalesce(priority, 5), coalesce(due_at, now()), coalesce(timeout, '1 hour'),
            max_attempts, coalesce(delivery, 'at_least_once'), retry, coalesce(actor, session_user),
            pgcron.lane_of(lane, weight), nullif(requires, '{}'), expires, limits,
            nullif(weight, 1))
    RETURNING id INTO new_id;
  END IF;
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.enqueue(text, jsonb, text, int, timestamptz, text, interval, interval,
    int, text, jsonb, text, text, text[], text, text, interval, text, interval, interval, interval,
    interval, interval, int) IS
  'Enqueues one run in the caller''s transaction; returns its id. Of the runs of one lane no '
  'more execute at once than pgcron.set_lane says; only nodes with all labels that it requires '
  'take it; a run takes weight (1) of a node''s slots.';

-- The shape of what pgcron.enqueue_many is given; true when an element has an idempotency key or is
-- to be unique.
CREATE FUNCTION pgcron.judge_requests(runs jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  known_keys text[] :=
      '{handler,args,queue,priority,due_at,idempotency_key,key_lifetime,timeout,max_attempts,'
      'delivery,retry,lane,requires,unique_key,unique_scope,unique_for,on_conflict,debounce,'
      'debounce_max,start_within,give_up_after,silence_timeout,weight}';
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
                          format('runs has %s elements and %s bytes', jsonb_array_length(runs),
                                 pg_column_size(runs)),
                          'One call takes up to 10000 runs and 67108864 bytes (64 MiB).',
                          'Call it several times; in one transaction they exist together or not '
                          'at all.');
  END IF;
  SELECT coalesce(bool_or(options ?|
      '{idempotency_key,unique_key,unique_scope,unique_for,on_conflict,debounce,debounce_max}'),
                  false),
         min(position) FILTER (WHERE CASE jsonb_typeof(options)
                                          WHEN 'object' THEN options - known_keys <> '{}'
                                          ELSE true END)
    INTO has_keys, wrong FROM jsonb_array_elements(runs) WITH ORDINALITY element(options, position);
  IF jsonb_typeof(runs -> (wrong - 1)) = 'object' THEN
    PERFORM pgcron.refuse('PC001',
                          format('run %s of %s: %s is no argument of pgcron.enqueue', wrong,
                                 jsonb_array_length(runs),
                                 (SELECT quote_literal(left(min(key), 100))
                                  FROM jsonb_object_keys((runs -> (wrong - 1)) - known_keys) key)),
                          'The keys are ' || array_to_string(known_keys, ', ') || '.', example);
  ELSIF wrong IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001',
                          format('run %s of %s is a JSON %s', wrong, jsonb_array_length(runs),
                                 jsonb_typeof(runs -> (wrong - 1))),
                          'Each element is a JSON object.', example);
  END IF;
  RETURN has_keys;
END $$;

-- The ids of the runs that are asked for: the new ones, but where an idempotency key names a run
-- already, or where a unique one was made or met. Keys are taken in one order, so that two callers
-- with the same ones can't wait for each other in a ring.
CREATE FUNCTION pgcron.claim_keys(runs jsonb, new_ids bigint[], actor text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  ids bigint[];
  single record;
BEGIN
  IF EXISTS (SELECT
      FROM jsonb_to_recordset(runs) AS options(idempotency_key text, key_lifetime interval)
      WHERE options.idempotency_key IS NOT NULL AND options.key_lifetime <= '0') THEN
    PERFORM pgcron.refuse_request(runs);
  END IF;
  INSERT INTO pgcron.idempotency AS known (key, run_id, expires_at)
  SELECT DISTINCT
      ON (options.key) options.key, options.new_id, now() + coalesce(options.lifetime, '1 day')
    FROM ROWS
    FROM (jsonb_to_recordset(runs) AS (idempotency_key text, key_lifetime interval),
          unnest(new_ids)) options(key, lifetime, new_id)
   WHERE options.key IS NOT NULL ORDER BY options.key, options.new_id
  ON CONFLICT (key) DO UPDATE SET run_id = EXCLUDED.run_id, expires_at = EXCLUDED.expires_at
      WHERE known.expires_at <= now();
  -- Only a new statement can see a key that was inserted meanwhile.
  ids := ARRAY(SELECT coalesce(known.run_id, options.new_id)
                 FROM ROWS
                 FROM (jsonb_to_recordset(runs) AS (idempotency_key text),
                       unnest(new_ids)) WITH ORDINALITY options(key, new_id, position)
                 LEFT JOIN pgcron.idempotency known ON known.key = options.key
                 ORDER BY options.position);
  FOR single IN
    SELECT element.options, element.position
    FROM jsonb_array_elements(runs) WITH ORDINALITY element(options, position)
     WHERE num_nonnulls(options ->> 'unique_key', options ->> 'unique_scope',
                        options ->> 'unique_for',
                        options ->> 'on_conflict', options ->> 'debounce',
                        options ->> 'debounce_max') > 0
     ORDER BY options ->> 'unique_key' COLLATE "C", options ->> 'handler' COLLATE "C", position LOOP
    ids[single.position] := pgcron.enqueue_request(single.options, claim_keys.actor);
  END LOOP;
  RETURN ids;
END $$;

-- One element of what pgcron.enqueue_many is given, by itself.
CREATE FUNCTION pgcron.enqueue_request(options jsonb, actor text) RETURNS bigint
LANGUAGE sql AS $$
  SELECT pgcron.enqueue(options ->> 'handler', nullif(options -> 'args', 'null'),
                        options ->> 'queue',
                        (options ->> 'priority')::int, (options ->> 'due_at')::timestamptz,
                        options ->> 'idempotency_key', (options ->> 'key_lifetime')::interval,
                        (options ->> 'timeout')::interval, (options ->> 'max_attempts')::int,
                        options ->> 'delivery', nullif(options -> 'retry', 'null'),
                        lane => options ->> 'lane',
                        requires => ARRAY(SELECT jsonb_array_elements_text(nullif(options
                            -> 'requires',
                            'null'))),
                        weight => (options ->> 'weight')::int, actor => enqueue_request.actor,
                        unique_key => options ->> 'unique_key',
                        unique_scope => options ->> 'unique_scope',
                        unique_for => (options ->> 'unique_for')::interval,
                        on_conflict => options ->> 'on_conflict',
                        debounce => (options ->> 'debounce')::interval,
                        debounce_max => (options ->> 'debounce_max')::interval,
                        start_within => (options ->> 'start_within')::interval,
                        give_up_after => (options ->> 'give_up_after')::interval,
                        silence_timeout => (options ->> 'silence_timeout')::interval) $$;

-- Says which element is refused: asks for one after the other until it happens.
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
                                 'A key takes what the argument of pgcron.enqueue of that name '
                                 'takes.'),
                        coalesce(nullif(remedy, ''),
                                 'Instants are texts such as "2026-12-24T18:00:00Z", durations '
                                 'such as "90 s", numbers stand without quotes.'));
END $$;

-- Enqueues a JSON array of objects whose keys are arguments of pgcron.enqueue, and does what a call
-- of it for each would do: all of them, or none when one is refused. The ids are in the array's
-- order.
CREATE FUNCTION pgcron.enqueue_many(runs jsonb, actor text DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
  has_keys boolean := pgcron.judge_requests(runs);
  new_ids bigint[];
  ids bigint[];
BEGIN
  new_ids := ARRAY(SELECT nextval('pgcron.run_id_seq')
      FROM generate_series(1, jsonb_array_length(runs)));
  ids := CASE WHEN has_keys THEN pgcron.claim_keys(runs, new_ids, enqueue_many.actor)
              ELSE new_ids END;
  INSERT INTO pgcron.run (id, handler, args, queue, priority, due_at, timeout, max_attempts,
                          delivery, retry, created_by, lane, requires, expire_at, time_limits,
                          weight)
  SELECT options.new_id, coalesce(options.handler, ''), coalesce(options.args, '{}'),
         coalesce(options.queue, 'default'), coalesce(options.priority, 5),
         coalesce(options.due_at, now()), coalesce(options.timeout, '1 hour'), options.max_attempts,
         coalesce(options.delivery, 'at_least_once'),
         nullif(options.retry, 'null'), coalesce(enqueue_many.actor, session_user),
         pgcron.lane_of(options.lane, options.weight), nullif(options.requires, '{}'),
         CASE WHEN num_nonnulls(options.start_within, options.give_up_after) > 0 THEN
           pgcron.expire_at(options.start_within,
                            pgcron.time_limits(options.give_up_after, NULL,
                                               coalesce(options.due_at, now())),
                            coalesce(options.due_at, now())) END,
         CASE WHEN num_nonnulls(options.give_up_after,
                                options.silence_timeout)
                                    > 0 THEN pgcron.time_limits(options.give_up_after,
                                options.silence_timeout, coalesce(options.due_at, now())) END,
         nullif(options.weight, 1)
    FROM ROWS
    FROM (jsonb_to_recordset(runs) AS (handler text, args jsonb, queue text, priority int,
        due_at timestamptz, timeout interval, max_attempts int,
                                                 delivery text, retry jsonb, lane text,
                                                     requires text[], start_within interval,
                                                     give_up_after interval,
                                                     silence_timeout interval, weight int),
                                                     unnest(new_ids), unnest(ids))
         options(handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry,
                 lane,
              requires, start_within, give_up_after, silence_timeout, weight, new_id, id)
   WHERE options.new_id = options.id;
  RETURN ids;
EXCEPTION WHEN OTHERS THEN
  IF SQLSTATE ~ '^(PC|22)' AND SQLERRM !~ '^run \d+ of \d+: ' THEN
    PERFORM pgcron.refuse_request(runs);
  END IF;
  RAISE;
END $$;
COMMENT ON FUNCTION pgcron.enqueue_many(jsonb, text) IS
  'Enqueues up to 10000 runs, an array of objects with the arguments of enqueue, in the '
  'caller''s transaction; returns their ids in order.';

CREATE FUNCTION pgcron.schedule_id(name text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found_id bigint := (SELECT s.id FROM pgcron.schedule s WHERE s.name = schedule_id.name);
BEGIN
  IF found_id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('schedule %L does not exist', left(name, 200)),
                          'A schedule is named exactly as it was created.',
                          'SELECT name FROM pgcron.schedules lists them; so does `pgcron-ha '
                          'schedules list`.');
  END IF;
  RETURN found_id;
END $$;

-- Creates or changes the schedule of that name; what is NULL stays as it is, or takes the default.
-- An empty lane is none, and so are empty requirements, a max_running or max_queued of 0 and an
-- empty queue_drops, no jitter and 0 runs. A schedule that is new is managed by the interface that
-- made it, unless said.
CREATE FUNCTION pgcron.put_schedule(schedule text, spec text, handler text, args jsonb DEFAULT NULL,
    timezone text DEFAULT NULL, dst text DEFAULT NULL, queue text DEFAULT NULL,
    priority int DEFAULT NULL, enabled boolean DEFAULT NULL, overlap text DEFAULT NULL,
    catchup text DEFAULT NULL, catchup_window interval DEFAULT NULL,
    start_deadline interval DEFAULT NULL, timeout interval DEFAULT NULL,
    max_attempts int DEFAULT NULL, retry_base interval DEFAULT NULL,
    retry_cap interval DEFAULT NULL, retry jsonb DEFAULT NULL, delivery text DEFAULT NULL,
    managed_by text DEFAULT NULL, actor text DEFAULT NULL, interface text DEFAULT NULL,
    lane text DEFAULT NULL, requires text[] DEFAULT NULL, give_up_after interval DEFAULT NULL,
    silence_timeout interval DEFAULT NULL, weight int DEFAULT NULL,
    expected_version int DEFAULT NULL, max_running int DEFAULT NULL, max_queued int DEFAULT NULL,
    queue_drops text DEFAULT NULL, after_pause text DEFAULT NULL, jitter interval DEFAULT NULL,
    max_runs int DEFAULT NULL, pause_after_failures int DEFAULT NULL,
    probe_after interval DEFAULT NULL, depends_on_previous boolean DEFAULT NULL)
  RETURNS bigint
LANGUAGE sql AS $$
  SELECT pgcron.act_as(put_schedule.actor, put_schedule.interface);
  SELECT pgcron.expect_version(put_schedule.schedule, put_schedule.expected_version);
  INSERT INTO pgcron.schedule AS existing (name, spec, handler, args, timezone, dst, queue,
      priority, enabled, overlap, catchup, catchup_window, start_deadline, timeout, max_attempts,
      retry_base, retry_cap, retry, delivery, managed_by, lane, requires, give_up_after,
      silence_timeout, weight, max_running, max_queued, queue_drops, after_pause, jitter, max_runs,
      pause_after_failures, probe_after, depends_on_previous)
  VALUES (put_schedule.schedule, put_schedule.spec, put_schedule.handler,
          coalesce(put_schedule.args, '{}'), coalesce(put_schedule.timezone, 'UTC'),
          coalesce(put_schedule.dst, 'vixie'), coalesce(put_schedule.queue, 'default'),
          coalesce(put_schedule.priority, 5), coalesce(put_schedule.enabled, true),
          coalesce(put_schedule.overlap, 'skip'), coalesce(put_schedule.catchup, 'latest'),
          coalesce(put_schedule.catchup_window, '1 hour'), put_schedule.start_deadline,
          coalesce(put_schedule.timeout, '1 hour'), put_schedule.max_attempts,
          coalesce(put_schedule.retry_base, '2 seconds'),
          coalesce(put_schedule.retry_cap, '1 hour'), nullif(put_schedule.retry, '{}'),
          coalesce(put_schedule.delivery, 'at_least_once'),
          coalesce(put_schedule.managed_by, pgcron.owner_of(pgcron.interface())),
          nullif(put_schedule.lane, ''), nullif(put_schedule.requires, '{}'),
          put_schedule.give_up_after, put_schedule.silence_timeout,
          coalesce(put_schedule.weight, 1), nullif(put_schedule.max_running, 0),
          nullif(put_schedule.max_queued, 0), nullif(put_schedule.queue_drops, ''),
          coalesce(put_schedule.after_pause, 'drop'), nullif(put_schedule.jitter, '0'),
          nullif(put_schedule.max_runs, 0), nullif(put_schedule.pause_after_failures, 0),
          nullif(put_schedule.probe_after, '0'), coalesce(put_schedule.depends_on_previous, false))
  ON CONFLICT (name) DO UPDATE SET
    -- created meanwhile
    name = CASE WHEN put_schedule.expected_version = 0 THEN pgcron.refuse_version(existing, 0)
                ELSE existing.name END,
    spec = put_schedule.spec, handler = put_schedule.handler,
    args = coalesce(put_schedule.args, existing.args),
    timezone = coalesce(put_schedule.timezone, existing.timezone),
    dst = coalesce(put_schedule.dst, existing.dst),
    queue = coalesce(put_schedule.queue, existing.queue),
    priority = coalesce(put_schedule.priority, existing.priority),
    enabled = coalesce(put_schedule.enabled, existing.enabled),
    overlap = coalesce(put_schedule.overlap, existing.overlap),
    catchup = coalesce(put_schedule.catchup, existing.catchup),
    catchup_window = coalesce(put_schedule.catchup_window, existing.catchup_window),
    start_deadline = coalesce(put_schedule.start_deadline, existing.start_deadline),
    timeout = coalesce(put_schedule.timeout, existing.timeout),
    max_attempts = coalesce(put_schedule.max_attempts, existing.max_attempts),
    retry_base = coalesce(put_schedule.retry_base, existing.retry_base),
    retry_cap = coalesce(put_schedule.retry_cap, existing.retry_cap),
    retry = nullif(coalesce(put_schedule.retry, existing.retry), '{}'),
    delivery = coalesce(put_schedule.delivery, existing.delivery),
    managed_by = coalesce(put_schedule.managed_by, existing.managed_by),
    lane = CASE WHEN put_schedule.lane IS NULL THEN existing.lane
                ELSE nullif(put_schedule.lane, '') END,
    requires = CASE WHEN put_schedule.requires IS NULL THEN existing.requires
                    ELSE nullif(put_schedule.requires, '{}') END,
    give_up_after = coalesce(put_schedule.give_up_after, existing.give_up_after),
    silence_timeout = coalesce(put_schedule.silence_timeout, existing.silence_timeout),
    weight = coalesce(put_schedule.weight, existing.weight),
    max_running = nullif(coalesce(put_schedule.max_running, existing.max_running), 0),
    max_queued = nullif(coalesce(put_schedule.max_queued, existing.max_queued), 0),
    queue_drops = nullif(coalesce(put_schedule.queue_drops, existing.queue_drops), ''),
    after_pause = coalesce(put_schedule.after_pause, existing.after_pause),
    jitter = nullif(coalesce(put_schedule.jitter, existing.jitter), '0'),
    max_runs = nullif(coalesce(put_schedule.max_runs, existing.max_runs), 0),
    pause_after_failures = nullif(coalesce(put_schedule.pause_after_failures,
        existing.pause_after_failures),
                                  0),
    probe_after = CASE WHEN put_schedule.pause_after_failures = 0
                       AND put_schedule.probe_after IS NULL THEN NULL
                       ELSE nullif(coalesce(put_schedule.probe_after, existing.probe_after),
                                   '0') END,
    depends_on_previous = coalesce(put_schedule.depends_on_previous, existing.depends_on_previous)
  RETURNING id $$;
COMMENT ON FUNCTION pgcron.put_schedule IS
    'Creates or changes the schedule of that name; what is NULL stays as it is, or takes the '
    'default. Returns its id.';

-- Until somebody resumes it, or until an instant: then a node resumes it.
CREATE FUNCTION pgcron.pause_schedule(schedule text, note text DEFAULT NULL,
    actor text DEFAULT NULL, interface text DEFAULT NULL, until timestamptz DEFAULT NULL)
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as(pause_schedule.actor, pause_schedule.interface);
  UPDATE pgcron.schedule SET enabled = false, paused_note = note, paused_until = until
  WHERE id = pgcron.schedule_id(pause_schedule.schedule);
END $$;
COMMENT ON FUNCTION pgcron.pause_schedule IS
    'No fires from now on; those that pass meanwhile are one missed range with the note.';

CREATE FUNCTION pgcron.resume_schedule(schedule text, actor text DEFAULT NULL,
    interface text DEFAULT NULL)
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as(resume_schedule.actor, resume_schedule.interface);
  UPDATE pgcron.schedule SET enabled = true WHERE id = pgcron.schedule_id(resume_schedule.schedule);
END $$;
COMMENT ON FUNCTION pgcron.resume_schedule IS 'Fires again from now on.';

CREATE FUNCTION pgcron.delete_schedule(schedule text, actor text DEFAULT NULL,
    interface text DEFAULT NULL)
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as(delete_schedule.actor, delete_schedule.interface);
  DELETE FROM pgcron.schedule WHERE id = pgcron.schedule_id(delete_schedule.schedule);
END $$;
COMMENT ON FUNCTION pgcron.delete_schedule IS
    'Ends what has not started and removes the schedule; its history stays, and its name can be '
    'used again.';

-- A run of the schedule beside its fires, under the same overlap policy; returns its id. fire_time:
-- for which instant it is, whenever it runs. A deletion under way is waited for: it would not see
-- this run, which would be executed after it. overlap: another policy than the schedule's, for this
-- run alone.
CREATE FUNCTION pgcron.run_now(schedule text, args jsonb DEFAULT NULL, actor text DEFAULT NULL,
    overlap text DEFAULT NULL, fire_time timestamptz DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  new_id bigint;
BEGIN
  IF run_now.fire_time NOT BETWEEN '1900-01-01 00:00Z' AND '9998-12-31 00:00Z' THEN
    PERFORM pgcron.refuse('PC001',
                          format('fire time %s is outside of the calendar', run_now.fire_time),
                          'Schedules fire in the years 1900 to 9998.', 'Leave it out for now.');
  END IF;
  INSERT INTO pgcron.run AS made (origin, schedule_id, schedule, nominal_for, queue, priority,
      handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry, overlap, lane,
      requires, expire_at, time_limits, weight, created_by)
  SELECT 'manual', s.id, s.name, coalesce(run_now.fire_time, now()), s.queue, s.priority, s.handler,
         coalesce(run_now.args, s.args), s.delivery, s.max_attempts, s.timeout,
         s.retry_base, s.retry_cap, s.retry, pgcron.run_overlap(run_now.overlap, s),
         pgcron.lane_of(s.lane, s.weight), s.requires,
         now() + s.give_up_after, pgcron.time_limits(s.give_up_after, s.silence_timeout, now()),
         nullif(s.weight, 1), coalesce(run_now.actor, session_user)
    FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(run_now.schedule) FOR KEY SHARE OF s
  RETURNING made.id INTO new_id;
  IF new_id IS NULL THEN      -- deleted meanwhile: refused, unless it was made anew
    RETURN pgcron.run_now(run_now.schedule, run_now.args, run_now.actor, run_now.overlap,
                          run_now.fire_time);
  END IF;
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.run_now IS
    'A run beside the schedule''s fires; args NULL means the schedule''s. Returns the id of the '
    'run.';

-- What is known of a run that is not alive: raises PC010 when there was none.
CREATE FUNCTION pgcron.ended_run(run bigint) RETURNS pgcron.history
LANGUAGE plpgsql STABLE AS $$
DECLARE
  ended pgcron.history;
BEGIN
  SELECT * INTO ended FROM pgcron.history h WHERE h.id = run LIMIT 1;
  IF ended.id IS NULL THEN
    SELECT * INTO ended FROM pgcron.history_overflow h WHERE h.id = run LIMIT 1;
  END IF;
  IF ended.id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', run),
                          'It was never enqueued, its transaction was rolled back, or retention '
                          'removed it.',
                          'SELECT id FROM pgcron.runs lists runs; so does `pgcron-ha runs list`.');
  END IF;
  RETURN ended;
END $$;

-- 'cancelled': it had not begun and never will; 'requested': its node was asked to stop it;
-- 'finished': it had ended already.
CREATE FUNCTION pgcron.cancel_run(run_id bigint, reason text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  found_state text;
  why text := concat_ws(': ', 'cancelled by ' || left(coalesce(actor, session_user), 300),
                        left(reason, 500));
BEGIN
  SELECT r.state INTO found_state FROM pgcron.run r WHERE r.id = run_id FOR UPDATE;
  IF found_state IS NULL THEN
    PERFORM pgcron.ended_run(run_id);
    RETURN 'finished';
  ELSIF found_state = 'running' THEN
    UPDATE pgcron.run r
    SET cancel_at = coalesce(r.cancel_at, now()), cancel_reason = coalesce(r.cancel_reason, why)
    WHERE r.id = run_id;
    -- a hint: the owner's next beat is the truth
    PERFORM pgcron.notify(pgcron.channel(), 'cancel');
    RETURN 'requested';
  END IF;
  PERFORM pgcron.end_waiting_runs(ARRAY[run_id], 'cancelled', why);
  RETURN 'cancelled';
END $$;
COMMENT ON FUNCTION pgcron.cancel_run IS
    'Ends a run: cancelled (had not begun), requested (its node stops it) or finished.';

-- A waiting run becomes due now (same id); an ended one is run again as a new run that names it
-- (new id).
CREATE FUNCTION pgcron.retry_run(run_id bigint, actor text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  found_state text;
  ended pgcron.history;
  new_id bigint;
BEGIN
  SELECT r.state INTO found_state FROM pgcron.run r WHERE r.id = run_id FOR UPDATE;
  IF found_state = 'ready' THEN
    UPDATE pgcron.run r SET due_at = least(r.due_at, now()) WHERE r.id = run_id;
    RETURN run_id;
  ELSIF found_state IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('run %s is %s', run_id, found_state),
                          'Only a waiting or an ended run can be retried.',
                          'Cancel it first, or wait until it has ended.');
  END IF;
  ended := pgcron.ended_run(run_id);
  INSERT INTO pgcron.run (origin, schedule_id, schedule, nominal_for, parent_run, queue, priority,
                          handler, args, delivery, max_attempts, timeout, retry_base, retry_cap,
                          retry, lane, requires, expire_at, time_limits, weight, created_by,
                          unique_key, unique_scope)
  VALUES ('rerun', ended.schedule_id, ended.schedule,
          coalesce(ended.scheduled_for, ended.nominal_for), ended.id, ended.queue, ended.priority,
          ended.handler, ended.args, ended.delivery,
          ended.max_attempts - coalesce(ended.snoozes, 0), coalesce(ended.timeout, '1 hour'),
          coalesce(ended.retry_base, '2 seconds'), coalesce(ended.retry_cap, '1 hour'), ended.retry,
          ended.lane, ended.requires,
          pgcron.give_up_at(pgcron.time_limits_from(ended.time_limits, now())),
          pgcron.time_limits_from(ended.time_limits, now()), ended.weight,
          coalesce(actor, session_user), ended.unique_key,
          CASE ended.unique_scope WHEN 'taken' THEN 'waiting' ELSE ended.unique_scope END)
  ON CONFLICT (unique_key, handler) WHERE pgcron.has_key(unique_key, unique_scope, attempt)
      DO NOTHING RETURNING id INTO new_id;
  IF new_id IS NULL THEN
    PERFORM pgcron.refuse_met(format('run %s can''t be run again', run_id),
                              pgcron.run_with_key(ended.unique_key, ended.handler),
                              ended.unique_key);
  END IF;
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.retry_run IS
    'A waiting run is due now (same id); an ended one runs again as a new run, whose id is '
    'returned.';

CREATE FUNCTION pgcron.pause_queue(queue text, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql AS $$
  INSERT INTO pgcron.queue AS q (name, paused_at, paused_by, paused_note)
  VALUES (pause_queue.queue, now(), coalesce(pause_queue.actor, session_user), pause_queue.note)
  ON CONFLICT (name) DO UPDATE
      SET paused_at = coalesce(q.paused_at, EXCLUDED.paused_at), paused_by = EXCLUDED.paused_by,
          paused_note = EXCLUDED.paused_note $$;
COMMENT ON FUNCTION pgcron.pause_queue IS
    'Nobody claims from the queue until it is resumed; what runs goes on.';

CREATE FUNCTION pgcron.resume_queue(queue text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.queue q SET paused_at = NULL, paused_by = NULL, paused_note = NULL
  WHERE q.name = resume_queue.queue;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.resume_queue IS 'The queue is claimed from again.';
