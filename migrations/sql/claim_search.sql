-- What a claim returns, and where runs with a capacity gate are looked for.

-- What a claim returns: a run (verdict `claim`), or what happened to one that was not claimed.
CREATE TYPE pgcron.claim AS (verdict text, id bigint, uuid uuid, handler text, args jsonb,
  attempt int, max_attempts int, queue text, priority smallint, schedule text,
  fire_time timestamptz, token uuid, fence bigint, timeout float8, delivery text, due float8,
  origin text, concurrency_key text COLLATE "C", weight int, overlap_of bigint,
  lost_early smallint, results jsonb, largest_log int);

CREATE FUNCTION pgcron.claim_of(r pgcron.run) RETURNS pgcron.claim
LANGUAGE sql STABLE
RETURN ROW('claim', r.id, pgcron.run_uuid(r.uuid, r.id, r.created_at), r.handler, r.args, r.attempt,
         pgcron.attempts_allowed(r.max_attempts, r.delivery), r.queue, r.priority, r.schedule,
         coalesce(r.scheduled_for, r.nominal_for), r.token, r.fence,
         date_part('epoch', pgcron.time_allowed(r.timeout)), r.delivery,
         date_part('epoch', r.due_at), r.origin, r.concurrency_key,
         coalesce(r.weight, 1), CASE WHEN r.overlap IS NOT NULL THEN r.schedule_id END,
         r.lost_early,
         CASE WHEN r.origin = 'step' THEN pgcron.results_of_step(r.id, r.parent_run) END,
         CASE WHEN r.namespace IS NOT NULL THEN pgcron.largest_log_of(r.namespace)
           END)::pgcron.claim;

CREATE FUNCTION pgcron.no_claim(verdict text, id bigint DEFAULT NULL, queue text DEFAULT NULL,
    concurrency_key text DEFAULT NULL, fire_time timestamptz DEFAULT NULL,
    due float8 DEFAULT NULL, weight int DEFAULT NULL) RETURNS pgcron.claim
LANGUAGE sql IMMUTABLE
RETURN ROW(verdict, id, NULL, NULL, NULL, NULL, NULL, queue, NULL, NULL, fire_time, NULL, NULL,
         NULL, NULL, due, NULL, concurrency_key COLLATE "C", weight, NULL, NULL, NULL,
         NULL)::pgcron.claim;

-- A key and a priority of a queue with a due run, and how many of its runs seem to have room; of a
-- key that counts weight, `heaviest` are its slots: what weighs more, or more than each node has
-- that may execute it, stands in the way of no other.
CREATE TYPE pgcron.gated_pair AS (queue text, concurrency_key text COLLATE "C", priority smallint,
  room int, heaviest int);

-- Where runs with a capacity gate are looked for: in keys, in limited queues with their room, in
-- queues that are open without a limit, in queues where runs wait that require labels; kept_for:
-- only this run; new_keys: those of the keys that are new, and go first.
CREATE TYPE pgcron.gated_search AS (pairs pgcron.gated_pair[], limited text[], rooms int[],
  open_queues text[], placed_queues text[], kept_for bigint, new_keys text[]);

-- What could be claimed now in these places; `probes` are asked for by name. Of each no more than
-- there seems to be room for. Nothing here is locked. STABLE: it has the snapshot of the statement
-- that calls it.
CREATE FUNCTION pgcron.gated_candidates(places pgcron.gated_search, handlers text[], room int,
    labels text[], probes bigint[])
  RETURNS TABLE (id bigint, queue text, concurrency_key text, priority smallint, due_at timestamptz,
      weight int, is_once boolean)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
  SELECT w.*
  FROM unnest((gated_candidates.places).pairs) pair
  CROSS JOIN LATERAL (
      -- The first thousand of a key and no more, whatever their handlers are.
      SELECT h.id, pair.queue, pair.concurrency_key, pair.priority, h.due_at, h.weight, h.is_once
      FROM pgcron.key_candidates(pair.queue, pair.concurrency_key, pair.priority, 1000) h
      WHERE h.handler = ANY(gated_candidates.handlers)
        AND (h.expire_at IS NULL OR h.expire_at > now())
        AND (h.requires IS NULL OR h.requires <@ gated_candidates.labels)
        AND (pair.heaviest IS NULL
             OR h.weight <= least(pair.heaviest,
                              pgcron.largest_server(h.handler, pair.queue, h.requires)))
      LIMIT least(pair.room, gated_candidates.room)) w
  UNION ALL
  SELECT r.id, asked.queue, NULL::text, level::smallint, r.due_at, 1, r.is_once
  FROM unnest((gated_candidates.places).limited) asked(queue) CROSS JOIN generate_series(0, 9) level
  CROSS JOIN LATERAL pgcron.path_candidates(asked.queue, level::smallint, gated_candidates.room,
      gated_candidates.handlers) r
  UNION ALL
  SELECT w.* FROM unnest((gated_candidates.places).placed_queues) asked(queue)
  CROSS JOIN LATERAL pgcron.walk_requirements(asked.queue, gated_candidates.labels) place
  CROSS JOIN LATERAL (
      SELECT h.id, h.queue, NULL::text, h.priority, h.due_at, 1, h.delivery <> 'at_least_once'
      FROM (SELECT r.* FROM pgcron.run r
            WHERE r.state = 'ready' AND r.concurrency_key IS NULL AND r.requires IS NOT NULL
              AND r.queue = asked.queue AND r.requires = place.requires
              AND r.priority = place.priority AND r.due_at <= now()
            ORDER BY r.due_at, r.id LIMIT 1000) h
      WHERE h.handler = ANY(gated_candidates.handlers)
        AND (h.expire_at IS NULL OR h.expire_at > now())
      LIMIT gated_candidates.room) w
  WHERE place.due_at <= now()
  UNION  -- a probe may be found above, too
  SELECT p.id, p.queue, p.concurrency_key, p.priority, p.due_at, coalesce(p.weight, 1),
         p.delivery <> 'at_least_once'
  FROM pgcron.run p
  WHERE p.id = ANY(gated_candidates.probes) AND p.state = 'ready' AND p.due_at <= now()
    AND p.queue = ANY((gated_candidates.places).open_queues || (gated_candidates.places).limited)
    AND (p.expire_at IS NULL OR p.expire_at > now())
    AND (p.requires IS NULL OR p.requires <@ gated_candidates.labels);
END;

-- How many more runs of a key seem to have room now (no limit: the largest number); `heaviest` as
-- in gated_pair; `next_at`: when the next may start if its rate lets none.
CREATE FUNCTION pgcron.key_room(concurrency_key text)
  RETURNS TABLE (room int, heaviest int, next_at timestamptz)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT coalesce(least(limits.room,
             CASE WHEN rated.is_ahead THEN greatest(rated.room, 1) ELSE rated.room END),
           2147483647),
         CASE WHEN limits.by_weight THEN limits.slots END,
         CASE WHEN rated.room = 0 THEN rated.next_at END
  FROM pgcron.concurrency_slots(ARRAY[key_room.concurrency_key]) limits
  -- not called for keys without a rate: a mere filter would be judged after the call
  LEFT JOIN LATERAL (SELECT w.room, w.next_at, w.is_ahead
                     FROM unnest(array_remove(ARRAY[limits.rate], NULL)) asked(rate)
                     CROSS JOIN LATERAL pgcron.rate_room('key', key_room.concurrency_key,
                         asked.rate, limits.per, clock_timestamp()) w) rated ON true;
END;

-- Which keys of a queue have a due run and seem to have slots for it, and how many: a walk along
-- the index from key to key, never along their runs, until `most` are found; a longer walk than
-- 500 steps is taken in several statements, so that who waits for one does not wait long. Nothing
-- here is locked or decided. In PL/pgSQL, as that keeps the plan.
CREATE FUNCTION pgcron.walk_keys(queue text, beyond text, most int,
    OUT pairs pgcron.gated_pair[], OUT ended_at text, OUT next_due timestamptz)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  WITH RECURSIVE walk(concurrency_key, priority, room, heaviest, next_at, found, steps) AS (
    SELECT walk_keys.beyond COLLATE "C", 32767::smallint, 0, NULL::int, NULL::timestamptz, 0, 0
    UNION ALL
    SELECT next.concurrency_key, next.priority, seen.room, seen.heaviest, seen.next_at,
           walk.found + (seen.room > 0)::int, walk.steps + 1
    FROM walk
    CROSS JOIN LATERAL (SELECT r.concurrency_key, r.priority, r.due_at FROM pgcron.run r
                        WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
                          AND r.queue = walk_keys.queue
                          AND (r.concurrency_key, r.priority) > (walk.concurrency_key,
                              walk.priority)
                        ORDER BY r.concurrency_key, r.priority, r.due_at LIMIT 1) next
    CROSS JOIN LATERAL (
        SELECT k.* FROM pgcron.key_room(next.concurrency_key) k WHERE next.due_at <= now()
        UNION ALL
        SELECT 0, NULL, next.due_at WHERE next.due_at > now()) seen(room, heaviest, next_at)
    WHERE walk.found < walk_keys.most AND walk.steps < 500)
  SELECT coalesce(array_agg(ROW(walk_keys.queue, w.concurrency_key, w.priority,
             w.room, w.heaviest)::pgcron.gated_pair) FILTER (WHERE w.room > 0), '{}'),
         CASE WHEN max(w.found) >= walk_keys.most OR max(w.steps) >= 500
                THEN max(w.concurrency_key) END,
         min(w.next_at) FILTER (WHERE w.room <= 0)
  INTO pairs, ended_at, next_due FROM walk w WHERE w.steps > 0;
END $$;

-- New keys of a queue: their first due run became due after `since`, and none of their runs
-- executes. Where many keys wait, a walk comes to them late. Only the hundred runs that became due
-- last are looked at. The walk finds the others, and what a long transaction has inserted.
CREATE FUNCTION pgcron.find_new_keys(queue text, since timestamptz) RETURNS pgcron.gated_pair[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  -- A row is seen only after its commit. A key that waits for five seconds is not new any more.
  since := greatest(since, now() - interval '5 seconds') - interval '50 milliseconds';
  RETURN ARRAY(
      SELECT ROW(find_new_keys.queue, new.concurrency_key, new.priority, seen.room,
                 seen.heaviest)::pgcron.gated_pair
      FROM (SELECT DISTINCT newest.concurrency_key, newest.priority
            FROM (SELECT r.concurrency_key, r.priority FROM pgcron.run r
                  WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
                    AND r.queue = find_new_keys.queue AND r.due_at > since AND r.due_at <= now()
                  ORDER BY r.due_at DESC LIMIT 100) newest) new
      CROSS JOIN LATERAL pgcron.key_room(new.concurrency_key) seen
      WHERE seen.room > 0
        AND NOT EXISTS (SELECT FROM pgcron.run r
                        WHERE r.concurrency_key = new.concurrency_key AND r.key_slot IS NOT NULL)
        AND NOT EXISTS (SELECT FROM pgcron.run r
                        WHERE r.state = 'ready' AND r.queue = find_new_keys.queue
                          AND r.concurrency_key = new.concurrency_key
                          AND r.priority = new.priority AND r.due_at <= since));
END $$;

-- The limited queues among these that are open, as far as nobody else has their rows locked: a
-- node that claims from one has it for that moment. `room` runs may start now, and if none may for
-- its rate, the next may at `next_at`.
CREATE FUNCTION pgcron.lock_queues(queues text[], at timestamptz)
  RETURNS TABLE (queue text, room int, next_at timestamptz)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  locked text[] := ARRAY(SELECT q.name FROM pgcron.queue q
                         WHERE q.name = ANY(queues) AND NOT q.is_plain AND q.paused_at IS NULL
                         ORDER BY q.name FOR NO KEY UPDATE SKIP LOCKED);
BEGIN
  IF locked = '{}' THEN RETURN; END IF;
  at := clock_timestamp();  -- who had the lock before may have counted later than this began
  PERFORM pgcron.settle_window('queue', q.name, q.per, at) FROM pgcron.queue q
    WHERE q.name = ANY(locked) AND q.rate IS NOT NULL;
  RETURN QUERY SELECT q.name,
           least(coalesce(CASE WHEN q.max_running < 0 THEN 0 ELSE q.max_running END - running.runs,
               2147483647), rated.room),
           CASE WHEN rated.room = 0 THEN rated.next_at END
    FROM pgcron.queue q
    LEFT JOIN LATERAL (SELECT w.* FROM pgcron.rate_room('queue', q.name, q.rate, q.per, at) w
                       WHERE q.rate IS NOT NULL) rated ON true
    CROSS JOIN LATERAL (SELECT count(*)::int AS runs FROM pgcron.run r
                        WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.queue = q.name)
      running
    WHERE q.name = ANY(locked);
END $$;

-- Of these keys those that may be claimed from: where starts or weight count only if nobody else
-- claims from the key at this moment.
CREATE FUNCTION pgcron.lock_rates(keys text[], at timestamptz) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rated text[];
  locked text[];
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.concurrency_limit l
                 WHERE l.rate IS NOT NULL OR l.by_weight) THEN
    RETURN keys;
  END IF;
  rated := ARRAY(SELECT l.concurrency_key FROM pgcron.concurrency_slots(keys) l
                 WHERE l.rate IS NOT NULL OR l.by_weight);
  IF rated = '{}' THEN RETURN keys; END IF;
  INSERT INTO pgcron.rate_window (kind, name, per, slices, starts)
  SELECT 'key', k, '1 second', '{}', '{}' FROM unnest(rated) k
  WHERE NOT EXISTS (SELECT FROM pgcron.rate_window w WHERE w.kind = 'key' AND w.name = k)
  ORDER BY k ON CONFLICT DO NOTHING;
  locked := ARRAY(SELECT w.name FROM pgcron.rate_window w
                  WHERE w.kind = 'key' AND w.name = ANY(rated) ORDER BY w.name
                  FOR UPDATE SKIP LOCKED);
  at := clock_timestamp();  -- see lock_queues
  PERFORM pgcron.settle_window('key', l.concurrency_key, l.per, at)
    FROM pgcron.concurrency_slots(locked) l WHERE l.rate IS NOT NULL;
  RETURN ARRAY(SELECT k FROM unnest(keys) k WHERE k <> ALL (rated) OR k = ANY(locked));
END $$;

-- Where to look in queues that are open: their keys from where the last walk ended (`beyond`), the
-- requirements that these labels satisfy, and the room of those that are limited. Also the keys
-- that are new since `since` (NULL: none). `walked`: for each queue with keys where the walk ended
-- (NULL: it saw all), the seconds until the next of its runs, and as fire_time the next `since`.
CREATE FUNCTION pgcron.search_gated(queues text[], beyond text[], look int, since timestamptz,
    labels text[], at timestamptz, OUT places pgcron.gated_search, OUT walked pgcron.claim[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  asked record;
  keyed record;
  placed record;
  new pgcron.gated_pair[] := '{}';
BEGIN
  places := ROW('{}', '{}', '{}', '{}', '{}', NULL, '{}')::pgcron.gated_search;
  walked := '{}';
  places.open_queues := ARRAY(SELECT a FROM unnest(queues) a
                             WHERE NOT EXISTS (SELECT FROM pgcron.queue q
                                               WHERE q.name = a AND NOT q.is_plain));
  IF cardinality(places.open_queues) < cardinality(queues) THEN
    FOR asked IN SELECT l.* FROM pgcron.lock_queues(queues, at) l LOOP
      IF asked.room > 0 THEN
        places.limited := places.limited || asked.queue; places.rooms := places.rooms || asked.room;
      ELSIF asked.next_at IS NOT NULL THEN
        walked := walked || pgcron.no_claim('walked', queue => asked.queue,
              due => date_part('epoch', asked.next_at - at));
      END IF;
    END LOOP;
  END IF;
  FOR asked IN SELECT a.* FROM unnest(queues, beyond) a(queue, beyond)
      WHERE a.queue = ANY(places.open_queues || places.limited) LOOP
    SELECT * INTO keyed FROM pgcron.walk_keys(asked.queue, asked.beyond, look);
    IF since IS NOT NULL THEN
      new := pgcron.find_new_keys(asked.queue, since);
      places.new_keys := places.new_keys || ARRAY(SELECT n.concurrency_key FROM unnest(new) n);
      keyed.pairs := new || ARRAY(SELECT k FROM unnest(keyed.pairs) k WHERE k <> ALL (new));
    END IF;
    SELECT coalesce(bool_or(w.due_at <= now()), false) AS is_due,
           min(w.due_at) FILTER (WHERE w.due_at > now()) AS next_due
    INTO placed FROM pgcron.walk_requirements(asked.queue, labels) w;
    IF placed.is_due THEN places.placed_queues := places.placed_queues || asked.queue; END IF;
    keyed.next_due := least(keyed.next_due, placed.next_due);
    CONTINUE WHEN keyed.ended_at IS NULL AND keyed.pairs = '{}' AND keyed.next_due IS NULL;
    places.pairs := places.pairs || keyed.pairs;
    walked := walked || pgcron.no_claim('walked', queue => asked.queue,
          concurrency_key => keyed.ended_at,
          fire_time => CASE WHEN new = '{}' THEN now() ELSE since END,
          due => date_part('epoch', least(keyed.next_due, to_timestamp(253370764800)) - now()));
  END LOOP;
END $$;
