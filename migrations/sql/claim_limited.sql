-- ready -> running
-- ready -> skipped, superseded
-- blocked -> skipped, superseded
-- One round. As in claim_overlapping each statement in here sees a snapshot of its own, and what is
-- known of a limit is read after its lock was had: so no two nodes take the same slot, and a unique
-- index guards it. Nothing waits for a lock.
-- 1. The limited queues among those asked, as far as their advisory lock can be had, and how many
-- of their runs execute.
-- 2. A walk over the keys of all queues that are open, from where the last one ended, and over the
-- requirements that this node satisfies.
-- 3. The locks of those keys, and of schedules whose runs must not overlap: always queues, then
-- schedules, then keys, and try-locks only.
-- 4. The choice: in each key by priority and due time up to its free slots, of each schedule one,
-- of each queue as many as it may have.
-- Of one priority the key with the fewest running runs goes first, so that no backlog keeps the
-- others from a shared queue; those without a key count as one key.
-- Up to free + ahead of them; runs that may start only once or take several slots for free slots
-- only; those that found none are returned as `wait`.
-- `aged` takes what is due longest, whatever its priority and key. For a run heavier than what is
-- free the node may begin to keep slots free (see choose_awaited): it is returned as `await` with
-- the weight, and no other run is looked at until this or another node has claimed it.
-- 5. The claim. A locked row is skipped.
-- 6. What else is due of a schedule whose run is not over is skipped, or what its policy says.
-- 7. Where there was room for more, keys with a handler at their head that no node offers are
-- blocked; returned as one `blocked`, the count in `due`.
CREATE FUNCTION pgcron.claim_limited(incarnation uuid, queues text[], beyond text[],
    handlers text[], free int, ahead int, look int, aged boolean DEFAULT false)
  RETURNS SETOF pgcron.claim
LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  locked text[];
  limited text[] := '{}';
  rooms int[] := '{}';
  pair_queues text[] := '{}';
  pair_keys text[] := '{}';
  pair_priorities smallint[] := '{}';
  pair_rooms int[] := '{}';
  room int := claim_limited.free + claim_limited.ahead;
  asked record;
  walked record;
  schedules bigint[];
  keys text[];
  chosen bigint[];
  slots int[];
  left_waiting bigint[];
  granted_at timestamptz;
  skipped bigint[];
  labels text[] := (SELECT pgcron.label_words(n.labels) FROM pgcron.node n
                    WHERE n.incarnation = claim_limited.incarnation);
  placed_queues text[] := '{}';
  placed record;
  too_heavy bigint[];
  keeps_for bigint;
  kept record;
  open_queues text[] := claim_limited.queues;
  others bigint[];
  superseded bigint[];
  overlap_slots smallint[];
  blocked int;
BEGIN
  PERFORM pgcron.require_read_committed('limits');
  SELECT n.awaits INTO keeps_for FROM pgcron.node n WHERE n.incarnation = claim_limited.incarnation;
  IF keeps_for IS NOT NULL THEN
    SELECT r.queue, r.concurrency_key, r.priority, r.weight INTO kept FROM pgcron.run r
    WHERE r.id = keeps_for AND r.state = 'ready' AND r.weight > 1
      AND r.due_at <= now() AND r.queue = ANY(claim_limited.queues);
    UPDATE pgcron.node n SET awaits = NULL
    WHERE n.incarnation = claim_limited.incarnation
      AND (kept.weight IS NULL OR kept.weight <= claim_limited.free);
    IF kept.weight > claim_limited.free THEN
      RETURN NEXT pgcron.no_claim('await', keeps_for, weight => kept.weight);
      RETURN;
    ELSIF kept.weight IS NULL THEN
      keeps_for := NULL;
    ELSE
      open_queues := ARRAY[kept.queue];
    END IF;
  END IF;
  locked := ARRAY(SELECT q.name FROM pgcron.queue q
                  WHERE q.name = ANY(open_queues) AND NOT q.is_plain AND q.paused_at IS NULL
                  ORDER BY q.name);
  locked := ARRAY(SELECT name FROM unnest(locked) name
                  WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int,
                      hashtext('queue ' || name)));
  FOR asked IN
      SELECT q.name, rated.next_at,
             least(coalesce(CASE WHEN q.max_running < 0 THEN 0 ELSE q.max_running END
                       - running.runs,
                     2147483647),
               rated.room) AS room,
             rated.room = 0 AS is_at_its_rate
      FROM pgcron.queue q
      LEFT JOIN LATERAL (SELECT w.room, w.next_at
                         FROM pgcron.rate_room('queue', q.name, q.rate, q.per,
                             clock_timestamp()) w
                         WHERE q.rate IS NOT NULL) rated ON true
      CROSS JOIN LATERAL (SELECT count(*)::int AS runs FROM pgcron.run r
                          WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.queue = q.name)
        running
      WHERE q.name = ANY(locked) ORDER BY q.name LOOP
    IF asked.room > 0 THEN
      limited := limited || asked.name; rooms := rooms || asked.room;
    ELSIF asked.is_at_its_rate THEN
      RETURN NEXT pgcron.no_claim('walked', queue => asked.name,
          due => date_part('epoch', asked.next_at - clock_timestamp()));
    END IF;
  END LOOP;

  FOR asked IN SELECT a.queue, a.beyond
      FROM unnest(claim_limited.queues, claim_limited.beyond) a(queue, beyond)
      WHERE a.queue = ANY(open_queues)
        AND (a.queue = ANY(limited)
             OR NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = a.queue AND NOT q.is_plain))
            LOOP
    IF keeps_for IS NOT NULL THEN
      pair_queues := ARRAY[kept.queue]; pair_keys := ARRAY[kept.concurrency_key];
      pair_priorities := ARRAY[kept.priority]; pair_rooms := ARRAY[room];
      CONTINUE;
    END IF;
    SELECT * INTO walked FROM pgcron.walk_keys(asked.queue, asked.beyond, claim_limited.look);
    SELECT coalesce(bool_or(w.due_at <= now()), false) AS is_due,
           min(w.due_at) FILTER (WHERE w.due_at > now()) AS next_due
    INTO placed FROM pgcron.walk_requirements(asked.queue, labels) w;
    IF placed.is_due THEN placed_queues := placed_queues || asked.queue; END IF;
    walked.next_due := least(walked.next_due, placed.next_due);
    IF walked.ended_at IS NOT NULL OR walked.keys <> '{}' OR walked.next_due IS NOT NULL THEN
      pair_queues := pair_queues || array_fill(asked.queue, ARRAY[cardinality(walked.keys)]);
      pair_keys := pair_keys || walked.keys;
      pair_priorities := pair_priorities || walked.priorities;
      pair_rooms := pair_rooms || walked.rooms;
      RETURN NEXT pgcron.no_claim('walked', queue => asked.queue,
          concurrency_key => walked.ended_at,
          due => CASE WHEN walked.next_due IS NOT NULL
                        THEN date_part('epoch',
                               least(walked.next_due, to_timestamp(253370764800)) - now()) END);
    END IF;
  END LOOP;
  IF pair_keys = '{}' AND limited = '{}' AND placed_queues = '{}' THEN RETURN; END IF;

  schedules := ARRAY(
      SELECT s.schedule_id
      FROM (SELECT DISTINCT h.schedule_id
            FROM pgcron.limited_candidates(pair_queues, pair_keys, pair_priorities, pair_rooms,
                limited, claim_limited.handlers, greatest(room, 1), labels, placed_queues) h
            WHERE h.schedule_id IS NOT NULL) s
      WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashint8(s.schedule_id)));
  keys := ARRAY(SELECT l.concurrency_key
    FROM (SELECT DISTINCT p.concurrency_key FROM unnest(pair_keys) p(concurrency_key)) l
                 WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int,
                     hashtext('key ' || l.concurrency_key)));

  IF schedules <> '{}' THEN      -- those among them with another policy than skip, see overlap
    others := ARRAY(SELECT s.id FROM unnest(schedules) s(id)
                    WHERE EXISTS (SELECT FROM pgcron.run o
                                  WHERE o.schedule_id = s.id AND o.state = 'ready'
                                    AND o.overlap <> 'skip' AND o.due_at <= now()));
    IF others <> '{}' THEN
      superseded := ARRAY(SELECT pgcron.replace_older(others, claim_limited.handlers));
      RETURN QUERY SELECT (pgcron.no_claim(s.verdict, s.id)).* FROM pgcron.settle_queues(others) s
        WHERE s.verdict <> 'go';
    END IF;
  END IF;
  granted_at := clock_timestamp();
  IF room > 0 THEN
    SELECT array_agg(picked.id) FILTER (WHERE picked.is_chosen),
           array_agg(picked.slot) FILTER (WHERE picked.is_chosen),
           array_agg(picked.own_slot) FILTER (WHERE picked.is_chosen),
           array_agg(picked.id) FILTER (WHERE NOT picked.is_chosen AND NOT picked.is_too_heavy
               AND picked.position <= room),
           array_agg(picked.id) FILTER (WHERE picked.is_too_heavy)
    INTO chosen, slots, overlap_slots, left_waiting, too_heavy
    FROM (WITH held AS MATERIALIZED (
            SELECT l.concurrency_key, l.slots, h.runs, quota.starts AS quota,
                   CASE WHEN h.runs > 0 THEN ARRAY(
                              SELECT generate_series(1, h.runs + least(l.slots, room))
                              EXCEPT
                              SELECT unnest(h.taken) ORDER BY 1) END AS open
            FROM pgcron.concurrency_slots(keys) l
            CROSS JOIN LATERAL (SELECT count(*)::int AS runs, array_agg(r.key_slot) AS taken
                                FROM pgcron.run r WHERE r.concurrency_key = l.concurrency_key
                                AND r.key_slot IS NOT NULL)
              h
            LEFT JOIN LATERAL (SELECT w.room AS starts
                               FROM pgcron.rate_room('key', l.concurrency_key, l.rate, l.per,
                                   granted_at) w
                               WHERE l.rate IS NOT NULL) quota ON true),
          head AS MATERIALIZED (
            SELECT d.*, CASE WHEN claim_limited.aged THEN 0 ELSE d.priority END AS level,
                   d.weight > greatest(claim_limited.free, 1) AS is_too_heavy, l.slots, l.runs,
                   l.quota, l.open
            FROM pgcron.limited_candidates(pair_queues, pair_keys, pair_priorities, pair_rooms,
                limited, claim_limited.handlers, room, labels, placed_queues) d
            LEFT JOIN held l ON l.concurrency_key = d.concurrency_key
            WHERE (d.concurrency_key IS NULL OR l.concurrency_key IS NOT NULL)
              AND (keeps_for IS NULL OR d.id = keeps_for)
              AND (d.schedule_id IS NULL
                   OR (d.schedule_id = ANY(schedules)
                       AND (d.overlap_slot IS NOT NULL OR d.overlap <> 'skip'
                            OR (SELECT o.id FROM pgcron.run o
                                WHERE o.schedule_id = d.schedule_id AND o.overlap_slot IS NOT NULL
                                LIMIT 1) IS NULL)))
              AND EXISTS (SELECT FROM pgcron.claiming_node n
                          WHERE n.incarnation = claim_limited.incarnation)),
          single AS (
            SELECT h.*,
                   row_number() OVER (PARTITION BY h.schedule_id,
                       h.overlap_slot IS NULL ORDER BY h.level, h.due_at, h.id) AS of_schedule
            FROM head h),
          kind AS MATERIALIZED (
            SELECT k.schedule_id, k.overlap, o.open
            FROM (SELECT DISTINCT h.schedule_id, h.overlap FROM head h WHERE h.overlap <> 'skip') k
            CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, room) o),
          keyed AS (
            SELECT s.*,
                   CASE WHEN s.schedule_id IS NOT NULL
                          THEN coalesce(s.overlap_slot,
                                 CASE s.overlap
                                   WHEN 'skip' THEN 1
                                   ELSE kind.open[s.of_schedule] END) END::smallint AS own_slot,
                   row_number() OVER (PARTITION BY s.concurrency_key,
                       CASE WHEN s.concurrency_key IS NULL THEN s.queue END,
                       s.is_too_heavy ORDER BY s.level,
                       s.due_at, s.id) AS place
            FROM single s
            LEFT JOIN kind ON kind.schedule_id = s.schedule_id AND kind.overlap = s.overlap
            WHERE s.schedule_id IS NULL OR s.overlap_slot IS NOT NULL
              OR CASE s.overlap
                   WHEN 'skip' THEN s.of_schedule = 1
                   ELSE kind.open[s.of_schedule] IS NOT NULL END),
          fair AS (
            SELECT l.*,
                   CASE WHEN claim_limited.aged THEN 0 ELSE coalesce(l.runs, 0) + l.place END AS
                     turn
            FROM keyed l
            WHERE l.concurrency_key IS NULL
              OR l.place <= coalesce(least(l.slots - l.runs, l.quota), 2147483647)),
          queued AS (
            SELECT f.*,
                   row_number() OVER (PARTITION BY f.queue, f.is_too_heavy ORDER BY f.level, f.turn,
                       f.due_at, f.id) AS of_queue
            FROM fair f),
          ranked AS (
            SELECT q.id, q.delivery, q.weight, q.is_too_heavy, q.own_slot,
                   sum(q.weight) OVER (ORDER BY q.is_too_heavy, q.level, q.turn, q.due_at, q.id) AS
                     position,
                   CASE WHEN q.concurrency_key IS NULL THEN NULL
                        WHEN q.open IS NULL THEN q.place
                        ELSE q.open[q.place] END::int AS slot
            FROM queued q LEFT JOIN unnest(limited, rooms) most(queue, runs) ON most.queue = q.queue
            WHERE most.queue IS NULL OR q.of_queue <= most.runs)
          SELECT r.*, NOT r.is_too_heavy
                   AND (r.position <= claim_limited.free
                        OR (r.delivery = 'at_least_once' AND r.weight = 1 AND r.position <= room))
                   AS is_chosen
          FROM ranked r ORDER BY r.position) picked;
    RETURN QUERY UPDATE pgcron.run r
      SET state = 'running', owner = claim_limited.incarnation,
          token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid,
          fence = nextval('pgcron.fence'), attempt = r.attempt + 1, claimed_at = granted_at,
          overlap_slot = given.own_slot, key_slot = given.slot
      FROM unnest(chosen, slots, overlap_slots) given(id, slot, own_slot)
      WHERE given.id = r.id
        AND r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                             WHERE l.id = ANY(chosen) AND l.state = 'ready'
                               AND l.due_at <= now() AND l.handler = ANY(claim_limited.handlers)
                               AND (l.expire_at IS NULL OR l.expire_at > now())
                               AND (l.requires IS NULL OR l.requires <@ labels)
                             ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING (pgcron.claim_of(r)).*;
    FOR asked IN SELECT 'key' AS kind, l.concurrency_key AS name, l.per, count(*)::int AS starts
        FROM pgcron.concurrency_slots(keys) l
        JOIN pgcron.run r ON r.concurrency_key = l.concurrency_key AND r.id = ANY(chosen)
          AND r.claimed_at = granted_at
          AND r.owner = claim_limited.incarnation
        WHERE l.rate IS NOT NULL GROUP BY l.concurrency_key, l.per
        UNION ALL
        SELECT 'queue', q.name, q.per, count(*)::int FROM pgcron.queue q
        JOIN pgcron.run r ON r.queue = q.name AND r.id = ANY(chosen) AND r.claimed_at = granted_at
          AND r.owner = claim_limited.incarnation
        WHERE q.name = ANY(limited) AND q.rate IS NOT NULL GROUP BY q.name, q.per LOOP
      PERFORM pgcron.count_starts(asked.kind, asked.name, asked.per, granted_at, asked.starts);
    END LOOP;
  END IF;

  IF schedules <> '{}' THEN
    skipped := ARRAY(SELECT w.id FROM unnest(schedules) AS one(schedule_id)
                     JOIN pgcron.run w ON w.schedule_id = one.schedule_id
                     WHERE w.state = 'ready' AND w.overlap = 'skip'
                       AND w.due_at <= now() AND w.overlap_slot IS NULL
                       AND (SELECT h.id FROM pgcron.run h
                            WHERE h.schedule_id = w.schedule_id AND h.overlap_slot IS NOT NULL
                            LIMIT 1) IS NOT NULL
                     ORDER BY w.id LIMIT 1000 FOR UPDATE OF w SKIP LOCKED);
    IF skipped <> '{}' THEN
      PERFORM pgcron.end_waiting_runs(skipped, 'skipped', 'the last run is not over');
    END IF;
    RETURN QUERY SELECT (pgcron.no_claim(reported.verdict, reported.id)).*
      FROM (SELECT 'skip', s.id FROM unnest(skipped) s(id)
            UNION ALL SELECT 'supersede', s.id FROM unnest(superseded) s(id)
            UNION ALL SELECT 'skip', s FROM pgcron.skip_beyond(others) s
            UNION ALL
            SELECT 'mine', r.id FROM pgcron.run r
            WHERE r.id = ANY(chosen) AND r.owner = claim_limited.incarnation
              AND r.schedule_id = ANY(others)) reported(verdict, id);
  END IF;
  RETURN QUERY SELECT (pgcron.no_claim('wait', s.id)).* FROM unnest(left_waiting) s(id);
  IF too_heavy <> '{}' AND keeps_for IS NULL THEN
    SELECT a.id, a.weight INTO kept
    FROM pgcron.choose_awaited(claim_limited.incarnation, too_heavy) a;
    IF kept.id IS NOT NULL THEN
      RETURN NEXT pgcron.no_claim('await', kept.id, weight => kept.weight);
    END IF;
  END IF;
  IF room > coalesce(cardinality(chosen), 0) AND pair_keys <> '{}' AND keeps_for IS NULL THEN
    blocked := pgcron.park_keys(pair_queues, pair_keys, pair_priorities, claim_limited.handlers);
    IF blocked > 0 THEN RETURN NEXT pgcron.no_claim('blocked', due => blocked); END IF;
  END IF;
END $$;
COMMENT ON FUNCTION pgcron.claim_limited IS
    'Claims up to free + ahead due runs that have a concurrency key, wait in a limited queue or '
    'require labels that the node has: never more than the key has slots, or the queue may run.';
