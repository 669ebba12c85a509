-- The claim: nothing else makes a run `running`. Two functions with one row type: `claim` for runs
-- without a capacity gate, which may be claimed ahead of the node's slots, and `claim_gated` for
-- runs that have one (a concurrency key, labels, a limited queue), which are claimed for free
-- slots, and a few ahead where runs are so short that those begin within milliseconds: none holds a
-- place for long that nobody uses.

-- Which of the candidates a node with so many free slots claims, and which place of their key they
-- take; those that are heavier than what is free, too. In each key by priority and due time up to
-- its slots (where it counts weight, none passes a heavier one that waits for them), of each queue
-- as many as it may have. Of one priority the key with the fewest running runs goes first, so that
-- no backlog keeps the others from a shared queue. Of keys with as few, new ones go first, and
-- chance decides among the rest: by due time they would wait for the oldest backlog to end. Runs
-- without a key count as one key. `aged` takes what is due longest, whatever its priority and key.
-- `ahead`: so many slots more, but for those that a rate counts or that may start only once.
CREATE FUNCTION pgcron.choose_gated(places pgcron.gated_search, keys text[], handlers text[],
    labels text[], probes bigint[], free int, ahead int, aged boolean, at timestamptz)
  RETURNS TABLE (id bigint, slot int, is_too_heavy boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  rated text[] := ARRAY(SELECT q.name FROM pgcron.queue q
                        WHERE q.name = ANY(places.limited) AND q.rate IS NOT NULL);
BEGIN
  RETURN QUERY
    WITH held AS MATERIALIZED (
      SELECT l.concurrency_key, l.slots, l.by_weight, h.runs,
             l.slots - CASE WHEN l.by_weight THEN h.weight ELSE h.runs END AS key_room,
             CASE WHEN l.rate IS NOT NULL THEN (
                 SELECT w.room
                 FROM pgcron.rate_room('key', l.concurrency_key, l.rate, l.per, at) w) END AS quota,
             CASE WHEN l.slots > 0 AND h.runs > 0 THEN ARRAY(
                        SELECT generate_series(1, least(l.slots, h.runs + free + ahead))
                        EXCEPT SELECT unnest(h.taken) ORDER BY 1) END AS open
      FROM pgcron.concurrency_slots(keys) l
      CROSS JOIN LATERAL (SELECT count(*)::int AS runs, array_agg(r.key_slot) AS taken,
                                 coalesce(sum(coalesce(r.weight, 1)), 0)::int AS weight
                          FROM pgcron.run r
                          WHERE r.concurrency_key = l.concurrency_key
                            AND r.key_slot IS NOT NULL) h),
    head AS MATERIALIZED (
      SELECT d.*, CASE WHEN aged THEN 0 ELSE d.priority END AS level, d.weight > free AS is_heavy,
             l.slots, l.key_room, l.by_weight, l.runs, l.quota, l.open,
             CASE WHEN d.is_once OR l.quota IS NOT NULL OR d.queue = ANY(rated)
                  THEN free ELSE free + ahead END AS room
      FROM pgcron.gated_candidates(places, handlers, free + ahead, labels, probes) d
      LEFT JOIN held l ON l.concurrency_key = d.concurrency_key
      WHERE (d.concurrency_key IS NULL OR l.concurrency_key IS NOT NULL)
        AND (l.by_weight AND d.weight > l.slots) IS NOT TRUE
        AND (places.kept_for IS NULL OR d.id = places.kept_for)),
    keyed AS (
      SELECT s.*, row_number() OVER (PARTITION BY s.concurrency_key,
                      CASE WHEN s.concurrency_key IS NULL THEN s.queue END, s.is_heavy
                      ORDER BY s.level, s.due_at, s.id) AS place,
             sum(CASE WHEN s.by_weight THEN s.weight END) OVER (PARTITION BY s.concurrency_key
               ORDER BY s.level, s.due_at, s.id) AS slots_upto
      FROM head s),
    fair AS (
      SELECT k.*, CASE WHEN aged THEN 0 ELSE coalesce(k.runs, 0) + k.place END AS turn,
             CASE WHEN aged OR k.concurrency_key = ANY(places.new_keys) THEN 0 ELSE random() END
               AS chance
      FROM keyed k
      WHERE k.concurrency_key IS NULL
        OR (k.place <= coalesce(least(k.key_room, k.quota), 2147483647)
            AND (k.slots_upto > k.key_room) IS NOT TRUE)),
    queued AS (
      SELECT f.*, row_number() OVER (PARTITION BY f.queue, f.is_heavy
                                     ORDER BY f.level, f.turn, f.chance, f.due_at, f.id)
               AS of_queue
      FROM fair f),
    ranked AS (
      SELECT q.*, sum(q.weight) OVER (ORDER BY q.is_heavy, q.level, q.turn, q.chance, q.due_at,
               q.id) AS upto
      FROM queued q
      LEFT JOIN unnest(places.limited, places.rooms) most(queue, runs) ON most.queue = q.queue
      WHERE most.queue IS NULL OR q.of_queue <= most.runs)
    SELECT r.id, CASE WHEN r.concurrency_key IS NULL THEN NULL
                      -- without a limit any number does that no other run has
                      WHEN r.slots IS NULL THEN (r.id % 2147483646 + 1)::int
                      WHEN r.open IS NULL THEN r.place
                      ELSE r.open[r.place] END::int,
           r.is_heavy
    FROM ranked r WHERE r.is_heavy OR r.upto <= r.room ORDER BY r.upto;
END $$;

-- ready -> running
-- Runs with a capacity gate of these queues, for so many `free` slots and `ahead` more; `look` keys
-- at most, from where the last walk over them ended (`beyond`), and the keys that are new since
-- `since` (NULL: none). What is known of a limit is read by a statement that begins after its row
-- was locked. The slots of keys are guarded by a unique index instead: the second of two nodes
-- looks again. Nothing waits for a lock of others. A run heavier than what is free may be kept room
-- for (see choose_awaited): it is returned as `await` with its weight, and nothing else is claimed
-- here until it has begun somewhere. Plans are kept: to make them anew for each claim costs as much
-- again.
CREATE FUNCTION pgcron.claim_gated(incarnation uuid, queues text[], beyond text[], handlers text[],
    free int, ahead int, look int, since timestamptz, aged boolean, probes bigint[])
  RETURNS SETOF pgcron.claim
LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
  me record;
  kept pgcron.run;
  search record;
  keys text[];
  chosen bigint[];
  slots int[];
  heavy bigint[];
  claimed pgcron.claim[] := '{}';
  at timestamptz := clock_timestamp();
BEGIN
  PERFORM pgcron.require_read_committed('limits');
  SELECT n.awaits, pgcron.label_words(n.labels) AS labels INTO me FROM pgcron.claiming_node c
  JOIN pgcron.node n ON n.incarnation = c.incarnation
  WHERE c.incarnation = claim_gated.incarnation AND claim_gated.free > 0;
  IF NOT FOUND THEN RETURN; END IF;
  probes := ARRAY(SELECT r.id FROM pgcron.run r
                  JOIN pgcron.offer o ON o.handler = r.handler
                    AND o.incarnation = claim_gated.incarnation
                  WHERE r.id = ANY(claim_gated.probes));
  IF me.awaits IS NOT NULL THEN
    SELECT r.* INTO kept FROM pgcron.run r
    WHERE r.id = me.awaits AND r.state = 'ready' AND r.weight > 1 AND r.due_at <= now()
      AND r.queue = ANY(queues);
    IF kept.weight > free THEN
      RETURN NEXT pgcron.no_claim('await', kept.id, weight => kept.weight);
      RETURN;
    END IF;
    UPDATE pgcron.node n SET awaits = NULL WHERE n.incarnation = claim_gated.incarnation;
  END IF;
  SELECT * INTO search FROM pgcron.search_gated(
      CASE WHEN kept.id IS NULL THEN queues ELSE ARRAY[kept.queue] END,
      CASE WHEN kept.id IS NULL THEN beyond ELSE ARRAY[''] END, look, since, me.labels, at);
  IF kept.id IS NOT NULL THEN
    IF kept.queue <> ALL ((search.places).open_queues || (search.places).limited) THEN
      RETURN;  -- it is paused, full or over its rate
    END IF;
    search.places := ROW(
        ARRAY[ROW(kept.queue, kept.concurrency_key, kept.priority, free, NULL)::pgcron.gated_pair],
        (search.places).limited, (search.places).rooms, '{}', '{}', kept.id,
        '{}')::pgcron.gated_search;
  END IF;
  IF kept.id IS NULL THEN RETURN QUERY SELECT w.* FROM unnest(search.walked) w; END IF;
  IF (search.places).pairs = '{}' AND (search.places).limited = '{}'
    AND (search.places).placed_queues = '{}' AND probes = '{}' THEN
    RETURN;
  END IF;
  keys := pgcron.lock_rates(ARRAY(
      SELECT pair.concurrency_key FROM unnest((search.places).pairs) pair
      UNION SELECT p.concurrency_key FROM pgcron.run p
      WHERE p.id = ANY(probes) AND p.concurrency_key IS NOT NULL), at);
  at := clock_timestamp();
  SELECT array_agg(c.id) FILTER (WHERE NOT c.is_too_heavy),
         array_agg(c.slot) FILTER (WHERE NOT c.is_too_heavy),
         array_agg(c.id) FILTER (WHERE c.is_too_heavy)
  INTO chosen, slots, heavy
  FROM pgcron.choose_gated(search.places, keys, handlers, me.labels, probes, free, ahead, aged,
      at) c;
  IF chosen IS NOT NULL THEN
    claimed := pgcron.take_chosen(incarnation, chosen, slots, me.labels, at);
    IF cardinality(claimed) < cardinality(chosen) THEN RETURN NEXT pgcron.no_claim('again'); END IF;
    RETURN QUERY SELECT c.* FROM unnest(claimed) c;
    PERFORM pgcron.count_claimed(claimed, (search.places).limited, at);
  END IF;
  IF cardinality(claimed) < free AND kept.id IS NULL AND (search.places).pairs <> '{}' THEN
    RETURN QUERY SELECT (pgcron.no_claim('blocked', b.id)).*
      FROM pgcron.block_keys((search.places).pairs, handlers) b(id);
  END IF;
  IF heavy IS NOT NULL AND kept.id IS NULL THEN
    RETURN QUERY SELECT a.* FROM pgcron.choose_awaited(incarnation, heavy) a;
  END IF;
END $$;

-- ready -> running
-- What was chosen, as far as it still waits. A run whose slot another node takes at the same moment
-- is left out: the next look knows of it. Nothing waits for the other node for long, as it may wait
-- for this one.
CREATE FUNCTION pgcron.take_chosen(incarnation uuid, chosen bigint[], slots int[], labels text[],
    at timestamptz) RETURNS pgcron.claim[]
LANGUAGE plpgsql VOLATILE SET lock_timeout = '10ms' AS $$
DECLARE
  claimed pgcron.claim[];
  half int := cardinality(chosen) / 2;
BEGIN
  WITH taken AS (
    UPDATE pgcron.run r
    SET state = 'running', owner = take_chosen.incarnation,
        token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid,
        fence = nextval('pgcron.fence'), attempt = r.attempt + 1, claimed_at = at,
        key_slot = given.slot
    FROM unnest(chosen, slots) WITH ORDINALITY given(id, slot, place)
    WHERE given.id = r.id
      AND r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                           WHERE l.id = ANY(chosen) AND l.state = 'ready' AND l.due_at <= now()
                             AND (l.expire_at IS NULL OR l.expire_at > now())
                             AND (l.requires IS NULL OR l.requires <@ labels)
                           ORDER BY l.id FOR UPDATE SKIP LOCKED))
    RETURNING pgcron.claim_of(r) AS claim, given.place)
  SELECT coalesce(array_agg(t.claim ORDER BY t.place), '{}') INTO claimed FROM taken t;
  RETURN claimed;
EXCEPTION WHEN unique_violation OR lock_not_available THEN
  IF half = 0 THEN RETURN '{}'; END IF;
  RETURN pgcron.take_chosen(incarnation, chosen[:half], slots[:half], labels, at)
    || pgcron.take_chosen(incarnation, chosen[half + 1:], slots[half + 1:], labels, at);
END $$;

-- Counts the starts of these claims for the rates of their keys and of limited queues.
CREATE FUNCTION pgcron.count_claimed(claimed pgcron.claim[], limited text[], at timestamptz)
  RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF limited <> '{}' THEN
    PERFORM pgcron.count_starts('queue', q.name, q.per, at, count(*)::int) FROM pgcron.queue q
      JOIN unnest(claimed) c ON c.queue = q.name
      WHERE q.name = ANY(limited) AND q.rate IS NOT NULL GROUP BY q.name, q.per;
  END IF;
  IF EXISTS (SELECT FROM pgcron.concurrency_limit l WHERE l.rate IS NOT NULL) THEN
    PERFORM pgcron.count_starts('key', l.concurrency_key, l.per, at, c.runs)
      FROM (SELECT c.concurrency_key, count(*)::int AS runs FROM unnest(claimed) c
            WHERE c.concurrency_key IS NOT NULL GROUP BY 1) c
      CROSS JOIN LATERAL pgcron.concurrency_slots(ARRAY[c.concurrency_key]) l
      WHERE l.rate IS NOT NULL;
  END IF;
END $$;

-- ready -> running
-- At most `plain` runs without a capacity gate. One index descent for each path (queue, priority,
-- `onces`: runs that may start only once), from a lower bound that the node moves, so that neither
-- future rows of a high priority nor dead index entries are walked. The sub-select is an ARRAY(…)
-- so that its LIMIT holds with every plan. The check of node and cluster is inside it so that
-- nothing is locked for a session that is not alive. Each token is one claim's and reveals nothing
-- of another's: a secret of the statement and the run's id, hashed (a random number for each row
-- costs five times as much). The paths have an ORDER BY of their own: a join with queue may shuffle
-- them.
CREATE FUNCTION pgcron.claim(incarnation uuid, handlers text[], plain int, queues text[],
    priorities smallint[], onces boolean[], bound_dues timestamptz[], bound_ids bigint[])
  RETURNS SETOF pgcron.claim
LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY UPDATE pgcron.run r
    SET state = 'running', owner = claim.incarnation,
        token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid,
        fence = nextval('pgcron.fence'), attempt = r.attempt + 1, claimed_at = now()
    WHERE r.id = ANY(ARRAY(
          SELECT due.id
          FROM (SELECT open_path.*
                FROM unnest(claim.queues, claim.priorities, claim.onces, claim.bound_dues,
                    claim.bound_ids) WITH ORDINALITY
                  AS open_path(queue, priority, is_once, bound_due, bound_id, position)
                WHERE EXISTS (SELECT FROM pgcron.claiming_node n
                              WHERE n.incarnation = claim.incarnation)
                  AND NOT EXISTS (SELECT FROM pgcron.queue q
                                  WHERE q.name = open_path.queue AND NOT q.is_plain)
                ORDER BY open_path.position) path
          CROSS JOIN LATERAL (
              SELECT c.id FROM pgcron.run c
              WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
                AND c.queue = path.queue AND c.priority = path.priority
                AND (c.delivery <> 'at_least_once') = path.is_once AND c.due_at <= now()
                AND (c.due_at, c.id) >= (path.bound_due, path.bound_id)
                AND c.handler = ANY(claim.handlers)
                AND (c.expire_at IS NULL OR c.expire_at > now())
              ORDER BY c.due_at, c.id LIMIT claim.plain FOR UPDATE SKIP LOCKED) due
          LIMIT claim.plain))
    RETURNING (pgcron.claim_of(r)).*;
END $$;
