-- Where runs that have a limit could be claimed: nothing here is locked or decided.

-- Where runs that need a look could be claimed now: in keys (pairs of key and priority of a
-- queue), in limited queues, and where the required labels are this node's. Of each no more than
-- there seems to be room for. STABLE: it has the snapshot of the statement that calls it.
CREATE FUNCTION pgcron.limited_candidates(pair_queues text[], pair_keys text[],
    pair_priorities smallint[], pair_rooms int[], limited_queues text[], handlers text[], room int,
    labels text[], placed_queues text[])
  RETURNS TABLE (id bigint, queue text, concurrency_key text, priority smallint, due_at timestamptz,
      delivery text, schedule_id bigint, overlap_slot smallint, weight int, overlap text)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
  SELECT w.*
  FROM unnest(pair_queues, pair_keys, pair_priorities, pair_rooms)
    pair(queue, concurrency_key, priority, room)
  CROSS JOIN LATERAL (
      -- The first thousand of a key and no more, whatever their handlers are.
      SELECT h.id, h.queue, h.concurrency_key, h.priority, h.due_at, h.delivery,
             CASE WHEN h.overlap IS NOT NULL THEN h.schedule_id END, h.overlap_slot,
             coalesce(h.weight, 1), h.overlap
      FROM (SELECT r.* FROM pgcron.run r
            WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
              AND r.queue = pair.queue AND r.concurrency_key = pair.concurrency_key
              AND r.priority = pair.priority
              AND r.due_at <= now()
            ORDER BY r.due_at, r.id LIMIT 1000) h
      WHERE h.handler = ANY(limited_candidates.handlers)
        AND (h.expire_at IS NULL OR h.expire_at > now())
        AND (h.requires IS NULL OR h.requires <@ limited_candidates.labels)
      LIMIT least(pair.room, limited_candidates.room)) w
  UNION ALL
  SELECT r.id, asked.queue, NULL::text, level::smallint, r.due_at, r.delivery,
         CASE WHEN r.overlap IS NOT NULL THEN r.schedule_id END, r.overlap_slot, 1, r.overlap
  FROM unnest(limited_queues) asked(queue) CROSS JOIN generate_series(0, 9) level
  CROSS JOIN LATERAL pgcron.path_candidates(asked.queue, level::smallint, limited_candidates.room,
      limited_candidates.handlers) r
  UNION ALL
  SELECT w.* FROM unnest(placed_queues) asked(queue)
  CROSS JOIN LATERAL pgcron.walk_requirements(asked.queue, limited_candidates.labels) place
  CROSS JOIN LATERAL (
      SELECT h.id, h.queue, NULL::text, h.priority, h.due_at, h.delivery,
             CASE WHEN h.overlap IS NOT NULL THEN h.schedule_id END, h.overlap_slot, 1, h.overlap
      FROM (SELECT r.* FROM pgcron.run r
            WHERE r.state = 'ready' AND r.concurrency_key IS NULL
              AND r.requires IS NOT NULL
              AND r.queue = asked.queue AND r.requires = place.requires
              AND r.priority = place.priority AND r.due_at <= now()
            ORDER BY r.due_at, r.id LIMIT 1000) h
      WHERE h.handler = ANY(limited_candidates.handlers)
        AND (h.expire_at IS NULL OR h.expire_at > now())
      LIMIT limited_candidates.room) w
  WHERE place.due_at <= now();
END;

-- Which keys of a queue have a due run and seem to have slots for it, and how many: a walk along
-- the index from key to key, never along their runs. Nothing here is locked or decided.
CREATE FUNCTION pgcron.walk_keys(queue text, beyond text, most int, OUT keys text[],
    OUT priorities smallint[], OUT rooms int[], OUT ended_at text, OUT next_due timestamptz)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  pair record;
  steps int := 0;
BEGIN
  keys := '{}'; priorities := '{}'; rooms := '{}';
  FOR pair IN
      WITH RECURSIVE walk(concurrency_key, priority, due_at) AS (
        (SELECT r.concurrency_key, r.priority, r.due_at FROM pgcron.run r
         WHERE r.state = 'ready' AND r.concurrency_key IS NOT NULL
           AND r.queue = walk_keys.queue AND r.concurrency_key > walk_keys.beyond
         ORDER BY r.concurrency_key, r.priority, r.due_at LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk
        CROSS JOIN LATERAL (SELECT r.concurrency_key, r.priority, r.due_at FROM pgcron.run r
                            WHERE r.state = 'ready'
                              AND r.concurrency_key IS NOT NULL
                              AND r.queue = walk_keys.queue
                              AND (r.concurrency_key, r.priority) > (walk.concurrency_key,
                                  walk.priority)
                            ORDER BY r.concurrency_key, r.priority, r.due_at LIMIT 1) next)
      SELECT walk.concurrency_key, walk.priority, walk.due_at, walk.due_at <= now() AS is_due,
             coalesce(least(limits.slots - held.runs::int, rated.room), 2147483647) AS room,
             CASE WHEN rated.room = 0 THEN rated.next_at END AS next_at
      FROM walk
      LEFT JOIN LATERAL (SELECT l.slots, l.rate, l.per
        FROM pgcron.concurrency_slots(ARRAY[walk.concurrency_key]) l
                         WHERE walk.due_at <= now()) limits ON true
      LEFT JOIN LATERAL (SELECT count(*) AS runs FROM pgcron.run h
                         WHERE h.concurrency_key = walk.concurrency_key AND h.key_slot IS NOT NULL
                           AND walk.due_at <= now()) held ON true
      LEFT JOIN LATERAL (SELECT w.room, w.next_at
                         FROM pgcron.rate_room('key', walk.concurrency_key, limits.rate, limits.per,
                             clock_timestamp()) w
                         WHERE limits.rate IS NOT NULL) rated ON true LOOP
    IF NOT pair.is_due THEN
      next_due := least(next_due, pair.due_at);
    ELSIF pair.room > 0 THEN
      keys := keys || pair.concurrency_key; priorities := priorities || pair.priority;
      rooms := rooms || pair.room;
    ELSIF pair.next_at IS NOT NULL THEN
      next_due := least(next_due, pair.next_at);
    END IF;
    steps := steps + 1;
    -- a longer walk is taken in several statements
    IF cardinality(keys) >= most OR steps >= 2000 THEN
      ended_at := pair.concurrency_key;
      EXIT;
    END IF;
  END LOOP;
END $$;
