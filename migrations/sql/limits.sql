-- Limits: concurrency keys, and limited queues, of each of which a number of runs may execute
-- at once; and labels, which some nodes have. What has none of these is claimed by other statements
-- and pays nothing.

-- A rate holds in every span of its time, wherever it begins. Starts are counted by slices of a
-- 256th of that time, and a start counts until its whole slice is older than the time: never one
-- too many, and less than half a hundredth too few.

-- When a run that started at the instant is counted in, and how long a slice is.
CREATE FUNCTION pgcron.rate_slice(at timestamptz, per interval) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM at) * 1000000)::bigint * 256 / (extract(epoch FROM per)
           * 1000000)::bigint $$;

-- How many more may start now, and when the next may if none (room 0). What lies in the future, as
-- the clock was set back, counts as now (is_ahead: some does, which a claim corrects). A rate that
-- breaks its rules has no room: its queue or key waits, and holds up no other
-- (pgcron.broken_settings names it).
CREATE FUNCTION pgcron.rate_room(kind text, name text, rate int, per interval, at timestamptz,
    OUT room int, OUT next_at timestamptz, OUT is_ahead boolean)
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN now_slice.number IS NULL THEN 0
              ELSE greatest(0,
                     least(rate_room.rate,
                       rate_room.rate - coalesce(sum(counted.starts), 0)))::int END,
         'epoch'::timestamptz + ((least(min(counted.slice), now_slice.number) + 257)
                                 * (extract(epoch FROM rate_room.per) * 1000000)::bigint + 255)
           / 256 * interval '1 microsecond',
         coalesce(max(counted.slice) > now_slice.number, false)
  FROM (SELECT CASE WHEN pgcron.rate_is_fine(rate_room.rate, rate_room.per)
                      THEN pgcron.rate_slice(rate_room.at, rate_room.per) END AS number) now_slice
  LEFT JOIN LATERAL (SELECT s.slice, s.starts FROM pgcron.rate_window w
                     CROSS JOIN LATERAL unnest(w.slices, w.starts) s(slice, starts)
                     WHERE w.kind = rate_room.kind AND w.name = rate_room.name
                       AND w.per = rate_room.per
                       AND s.slice >= now_slice.number - 256) counted ON true
  GROUP BY now_slice.number $$;

CREATE FUNCTION pgcron.count_starts(kind text, name text, per interval, at timestamptz, starts int)
  RETURNS void
LANGUAGE sql AS $$
  INSERT INTO pgcron.rate_window AS w (kind, name, per, slices, starts)
  VALUES (count_starts.kind, count_starts.name, count_starts.per,
          ARRAY[pgcron.rate_slice(count_starts.at, count_starts.per)], ARRAY[count_starts.starts])
  ON CONFLICT ON CONSTRAINT rate_window_pkey DO UPDATE SET (per, slices, starts) = (
      SELECT EXCLUDED.per, array_agg(kept.slice ORDER BY kept.slice),
             array_agg(kept.starts ORDER BY kept.slice)
      FROM (SELECT least(s.slice, EXCLUDED.slices[1]) AS slice,
                   least(sum(s.starts), 2147483647)::int AS starts
            FROM (SELECT * FROM unnest(EXCLUDED.slices, EXCLUDED.starts)
                  UNION ALL
                  SELECT * FROM unnest(w.slices, w.starts) WHERE w.per = EXCLUDED.per)
              s(slice, starts)
            WHERE s.slice >= EXCLUDED.slices[1] - 256 GROUP BY 1) kept) $$;

-- Forgets what was counted under another time, and lets what lies in the future, as the clock was
-- set back, count from now on: nothing closes a rate for longer than its time. The caller counts
-- starts of it.
CREATE FUNCTION pgcron.settle_window(kind text, name text, per interval, at timestamptz)
  RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.rate_window w
  SET per = settle_window.per,
      slices = CASE WHEN w.per = settle_window.per
                      THEN ARRAY(SELECT least(s, now_slice.number) FROM unnest(w.slices) s)
                    ELSE '{}' END,
      starts = CASE WHEN w.per = settle_window.per THEN w.starts ELSE '{}' END
  FROM (SELECT pgcron.rate_slice(settle_window.at, settle_window.per) AS number) now_slice
  WHERE w.kind = settle_window.kind AND w.name = settle_window.name
    AND (w.per <> settle_window.per OR now_slice.number < ANY(w.slices)) $$;

-- How many runs of one concurrency key may execute at once, and start in a time; NULL is no limit.
-- A key of a weight has none, whatever was set for others.
CREATE FUNCTION pgcron.concurrency_slots(keys text[])
  RETURNS TABLE (concurrency_key text, slots int, rate int, per interval)
LANGUAGE sql STABLE ROWS 50
BEGIN ATOMIC
  SELECT asked.concurrency_key,
         CASE WHEN known.concurrency_key IS NULL AND left(asked.concurrency_key, 1) <> '*' THEN 1
              ELSE CASE WHEN known.slots < 0 THEN 0 ELSE known.slots END END,
         known.rate, known.per
  FROM unnest(keys) asked(concurrency_key)
  LEFT JOIN LATERAL (
      SELECT l.concurrency_key, l.slots, l.rate, l.per
      FROM ((SELECT own.concurrency_key, own.slots, own.rate, own.per, true AS is_own
             FROM pgcron.concurrency_limit own WHERE own.concurrency_key = asked.concurrency_key)
            UNION ALL
            (SELECT many.concurrency_key, many.slots, many.rate, many.per, false
              FROM pgcron.concurrency_limit many
             WHERE right(many.concurrency_key, 1) = '*'
               AND starts_with(asked.concurrency_key, left(many.concurrency_key, -1))
             ORDER BY length(many.concurrency_key) DESC LIMIT 1)) l
      ORDER BY l.is_own DESC LIMIT 1) known ON left(asked.concurrency_key, 1) <> '*';
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

-- At most `slots` runs of the key execute at once (NULL: no limit). A name with a star at its end
-- is for all keys that begin so and have no setting of their own; '*' is for all the others.
-- Without any setting a key has one slot.
CREATE FUNCTION pgcron.set_concurrency(concurrency_key text, slots int DEFAULT 1,
    rate int DEFAULT NULL, per interval DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.concurrency_limit AS l (concurrency_key, slots, rate, per, set_by)
  VALUES (set_concurrency.concurrency_key, set_concurrency.slots, set_concurrency.rate,
          set_concurrency.per, coalesce(set_concurrency.actor, session_user))
  ON CONFLICT (concurrency_key) DO UPDATE SET slots = EXCLUDED.slots, rate = EXCLUDED.rate,
    per = EXCLUDED.per, set_by = EXCLUDED.set_by, set_at = now();
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.set_concurrency IS
    'Sets how many runs of one concurrency key (customer-7), of each key with a prefix '
    '(customer-*) or of any other key (*) execute at once, and how many start in any span of time.';

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
