-- Limits: concurrency keys, and limited queues, of each of which a number of runs may execute
-- at once; and labels, which some nodes have. What has none of these is claimed by other statements
-- and pays nothing.

-- A rate holds in every span of its time, wherever it begins. Starts are counted by slices of a
-- 256th of that time, and a start counts until its whole slice is older than the time: never one
-- too many, and less than half a hundredth too few. A rate is read and counted for the few runs of
-- one claim, so these functions keep their plans and look at a slice once.

-- The slice that an instant is in. It is STABLE, as its body is, so that PostgreSQL inlines it.
CREATE FUNCTION pgcron.rate_slice(at timestamptz, per interval) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT (extract(epoch FROM at) * 1000000)::bigint * 256 / (extract(epoch FROM per)
           * 1000000)::bigint $$;

-- How many more may start now, and when the next may if none (room 0). What lies in the future, as
-- the clock was set back, counts as now (is_ahead: some does, which a claim corrects). A rate that
-- breaks its rules has no room: its queue or key waits, and holds up no other
-- (pgcron.broken_settings names it).
CREATE FUNCTION pgcron.rate_room(kind text, name text, rate int, per interval, at timestamptz,
    OUT room int, OUT next_at timestamptz, OUT is_ahead boolean)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  now_slice bigint;
  counted record;
BEGIN
  IF pgcron.rate_is_fine(rate, per) THEN now_slice := pgcron.rate_slice(at, per); END IF;
  SELECT w.starts[old.slices + 1:] AS starts, w.slices[old.slices + 1] AS first,
         w.slices[cardinality(w.slices)] AS last
  INTO counted
  FROM pgcron.rate_window w CROSS JOIN LATERAL width_bucket(now_slice - 257, w.slices) old(slices)
  WHERE w.kind = rate_room.kind AND w.name = rate_room.name AND w.per = rate_room.per;
  room := CASE WHEN now_slice IS NULL THEN 0
               ELSE greatest(0, least(rate, rate - coalesce((SELECT sum(s)
                                                             FROM unnest(counted.starts) s), 0)))
          END;
  next_at := 'epoch'::timestamptz + ((least(counted.first, now_slice) + 257)
                                     * (extract(epoch FROM per) * 1000000)::bigint + 255)
               / 256 * interval '1 microsecond';
  is_ahead := coalesce(counted.last > now_slice, false);
END $$;

-- Slices are in their order; those that are too old are dropped. The caller has settled the window
-- (see below): if its time was changed since, what starts now is not counted.
CREATE FUNCTION pgcron.count_starts(kind text, name text, per interval, at timestamptz, starts int)
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO pgcron.rate_window AS w (kind, name, per, slices, starts)
  VALUES (count_starts.kind, count_starts.name, count_starts.per,
          ARRAY[pgcron.rate_slice(count_starts.at, count_starts.per)], ARRAY[count_starts.starts])
  ON CONFLICT ON CONSTRAINT rate_window_pkey DO UPDATE SET (slices, starts) = (
      SELECT w.slices[kept.first:kept.last]
               || greatest(w.slices[kept.last + 1], EXCLUDED.slices[1]),
             w.starts[kept.first:kept.last]
               || least(EXCLUDED.starts[1]::bigint + coalesce(w.starts[kept.last + 1], 0),
                    2147483647)::int
      FROM (SELECT width_bucket(EXCLUDED.slices[1] - 257, w.slices) + 1 AS first,
                   n.most - (coalesce(w.slices[n.most], 0) >= EXCLUDED.slices[1])::int AS last
            FROM (SELECT cardinality(w.slices)) n(most)) kept)
  WHERE w.per = EXCLUDED.per;
END $$;

-- Forgets what was counted under another time, and lets what lies in the future, as the clock was
-- set back, count from now on: nothing closes a rate for longer than its time. The caller counts
-- starts of it.
CREATE FUNCTION pgcron.settle_window(kind text, name text, per interval, at timestamptz)
  RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  now_slice CONSTANT bigint := CASE WHEN pgcron.rate_is_fine(1, per)
                                      THEN pgcron.rate_slice(at, per) END;
BEGIN
  UPDATE pgcron.rate_window w
  SET per = settle_window.per,
      slices = ARRAY(SELECT least(s, now_slice) FROM unnest(w.slices) s
                     WHERE w.per = settle_window.per),
      starts = CASE WHEN w.per = settle_window.per THEN w.starts ELSE '{}' END
  WHERE w.kind = settle_window.kind AND w.name = settle_window.name AND now_slice IS NOT NULL
    AND (w.per <> settle_window.per OR now_slice < w.slices[cardinality(w.slices)]);
END $$;

-- How many slots a concurrency key has and how many of them are free (`room`), and how many of its
-- runs may start in a time; NULL is no limit. A key of a weight has none, whatever was set for
-- others.
CREATE FUNCTION pgcron.concurrency_slots(keys text[])
  RETURNS TABLE (concurrency_key text, slots int, rate int, per interval, by_weight boolean,
      room int)
LANGUAGE sql STABLE ROWS 50
BEGIN ATOMIC
  SELECT of_key.*,
         CASE WHEN of_key.slots IS NOT NULL THEN of_key.slots - coalesce((
             SELECT sum(CASE WHEN of_key.by_weight THEN coalesce(r.weight, 1) ELSE 1 END)
             FROM pgcron.run r
             WHERE r.concurrency_key = of_key.concurrency_key AND r.key_slot IS NOT NULL), 0)::int
         END
  FROM (SELECT asked.concurrency_key,
               CASE WHEN known.slots < 0 THEN 0
                    WHEN known.concurrency_key IS NOT NULL
                      OR left(asked.concurrency_key, 1) = '*' THEN known.slots
                    ELSE 1 END AS slots,
               known.rate, known.per, coalesce(known.by_weight, false) AS by_weight
        FROM unnest(keys) asked(concurrency_key)
        LEFT JOIN LATERAL (
            SELECT l.* FROM pgcron.concurrency_limit l
            WHERE l.concurrency_key = asked.concurrency_key
              OR (right(l.concurrency_key, 1) = '*'
                AND starts_with(asked.concurrency_key, left(l.concurrency_key, -1)))
            ORDER BY l.concurrency_key = asked.concurrency_key DESC,
              length(l.concurrency_key) DESC LIMIT 1) known
          ON left(asked.concurrency_key, 1) <> '*') of_key;
END;

-- At most max_running runs of the queue execute at once, on all nodes together (NULL: no limit).
-- Running ones go on, and count; a claim that was under way may still end as it began.
CREATE FUNCTION pgcron.set_queue(queue text, max_running int DEFAULT NULL, rate int DEFAULT NULL,
    per interval DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.queue AS q (name, max_running, rate, per, set_by, set_at)
  VALUES (set_queue.queue, set_queue.max_running, set_queue.rate, set_queue.per,
          coalesce(set_queue.actor, session_user), now())
  ON CONFLICT (name) DO UPDATE SET max_running = EXCLUDED.max_running, rate = EXCLUDED.rate,
    per = EXCLUDED.per, set_by = EXCLUDED.set_by, set_at = EXCLUDED.set_at;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.set_queue IS
    'Limits how many runs of a queue execute at once (max_running), and how many start in any '
    'span of time (rate, per), on all nodes together; what is left out is no limit.';

-- At most `slots` runs of the key execute at once (NULL: no limit); with by_weight the weights of
-- those that execute are together at most so many. A name with a star at its end is for all keys
-- that begin so and have no setting of their own; '*' is for all the others. Without any setting a
-- key has one slot.
CREATE FUNCTION pgcron.set_concurrency(concurrency_key text, slots int DEFAULT 1,
    rate int DEFAULT NULL, per interval DEFAULT NULL, by_weight boolean DEFAULT false,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.concurrency_limit AS l (concurrency_key, slots, rate, per, by_weight, set_by)
  VALUES (set_concurrency.concurrency_key, set_concurrency.slots, set_concurrency.rate,
          set_concurrency.per, coalesce(set_concurrency.by_weight, false),
          coalesce(set_concurrency.actor, session_user))
  ON CONFLICT (concurrency_key) DO UPDATE SET slots = EXCLUDED.slots, rate = EXCLUDED.rate,
    per = EXCLUDED.per, by_weight = EXCLUDED.by_weight, set_by = EXCLUDED.set_by, set_at = now();
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.set_concurrency IS
    'Sets how many runs of one concurrency key (customer-7), of each key with a prefix '
    '(customer-*) or of any other key (*) execute at once, and how many start in any span of time. '
    'With by_weight a run takes as many of the slots as its weight.';

CREATE FUNCTION pgcron.delete_concurrency(concurrency_key text, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  DELETE FROM pgcron.concurrency_limit l
  WHERE l.concurrency_key = delete_concurrency.concurrency_key;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.delete_concurrency IS
    'Removes the limits that set_concurrency gave a concurrency key; it has one slot again, or '
    'what a pattern says.';

CREATE FUNCTION pgcron.pause_queue(queue text, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.queue AS q (name, paused_at, paused_by, paused_note)
  VALUES (pause_queue.queue, now(), coalesce(pause_queue.actor, session_user), pause_queue.note)
  ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(q.paused_at, EXCLUDED.paused_at),
    paused_by = EXCLUDED.paused_by, paused_note = EXCLUDED.paused_note $$;
COMMENT ON FUNCTION pgcron.pause_queue IS
    'No node claims from the queue until it is resumed; what runs goes on.';

CREATE FUNCTION pgcron.resume_queue(queue text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  UPDATE pgcron.queue q SET paused_at = NULL, paused_by = NULL, paused_note = NULL
  WHERE q.name = resume_queue.queue;
  SELECT pgcron.notify(pgcron.channel(), 'admit');
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.resume_queue IS 'The queue is claimed from again.';
