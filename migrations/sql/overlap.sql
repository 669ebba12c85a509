-- Overlap policies beyond skip: how many runs of a schedule execute at once, and what happens to
-- the others: they wait (queue, or allow with a limit), or the newest takes the place of what runs
-- (replace, terminate). Runs of schedules with plain skip are decided in schedules.sql. What waits
-- for a slot of its schedule is blocked (gate `overlap`), so that it blocks no other run; it is
-- released when a run ends, and by every node's service.

-- What a run carries of its schedule's policy: NULL is no limit. `skip` alone means one slot; the
-- others read the number of their schedule.
CREATE FUNCTION pgcron.run_overlap(overlap text, max_running int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN overlap = 'allow' AND max_running IS NULL THEN NULL
            WHEN overlap = 'skip' AND max_running > 1 THEN 'skip many'
            ELSE overlap END;

-- The same for one run that is to have another policy than its schedule; raises PC001.
CREATE FUNCTION pgcron.run_overlap(overlap text, schedule pgcron.schedule) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF overlap IS NULL THEN
    RETURN pgcron.run_overlap(schedule.overlap, schedule.max_running);
  ELSIF overlap = 'allow' THEN      -- for this one, whatever runs
    RETURN NULL;
  ELSIF overlap NOT IN ('skip', 'queue', 'replace', 'terminate') THEN
    PERFORM pgcron.refuse_overlap(overlap);
  ELSIF overlap IN ('replace', 'terminate') AND schedule.max_running > 1 THEN
    PERFORM pgcron.refuse_replacing(overlap, schedule.max_running);
  ELSIF overlap = 'skip' AND schedule.overlap = 'allow' THEN
    RETURN 'skip many';      -- plain skip does not see what holds no slot
  END IF;
  RETURN pgcron.run_overlap(overlap, schedule.max_running);
END $$;

-- How many more runs with the policy may start now, and the free slots, `most` of them at most. The
-- runs of a schedule without any limit hold no slots; one of them that is to have a policy counts
-- those that execute.
CREATE FUNCTION pgcron.overlap_room(schedule_id bigint, overlap text, most int, OUT room int,
    OUT open smallint[])
LANGUAGE sql STABLE AS $$
  SELECT r.room,
         CASE WHEN r.room > 0 THEN ARRAY(
                    SELECT slot::smallint
                    FROM generate_series(1,
                        least(held.runs + least(r.room, overlap_room.most), 32767)) slot
                    WHERE held.taken IS NULL OR slot <> ALL (held.taken) ORDER BY slot) END
  FROM (SELECT count(*)::int AS runs,
               array_agg(h.overlap_slot) FILTER (WHERE h.overlap_slot IS NOT NULL) AS taken
        FROM (SELECT o.overlap_slot FROM pgcron.run o
              WHERE o.schedule_id = overlap_room.schedule_id AND o.overlap_slot IS NOT NULL
              UNION ALL
              SELECT NULL FROM pgcron.run o JOIN pgcron.schedule s ON s.id = o.schedule_id
              WHERE o.schedule_id = overlap_room.schedule_id AND o.state = 'running'
                AND o.overlap IS NULL AND s.overlap = 'allow' AND s.max_running IS NULL) h) held
  LEFT JOIN pgcron.schedule s ON s.id = overlap_room.schedule_id
  CROSS JOIN LATERAL (SELECT CASE WHEN overlap_room.overlap IN ('skip', 'replace', 'terminate')
                                    THEN (held.runs = 0)::int
                                  WHEN overlap_room.overlap = 'allow'
                                    THEN coalesce(s.max_running, 32767) - held.runs
                                  ELSE coalesce(s.max_running, 1) - held.runs END AS room) r $$;

-- ready -> superseded
-- blocked -> superseded
-- Replacement: of each schedule the newest due run that replaces. What waits and is older ends,
-- between two attempts too; what executes is asked to stop, or killed, once, and keeps its slot
-- until it is really over. Nothing that can't begin itself stops anything: while the cluster or the
-- queue is paused, and unless `handlers` (NULL: any) has the newcomer's. The caller has the
-- schedules' advisory locks. A locked row is left for the next call. Returns what ended.
CREATE FUNCTION pgcron.replace_older(schedules bigint[], handlers text[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest record;
  older bigint[];
  stopping boolean := false;
BEGIN
  FOR newest IN SELECT DISTINCT ON (w.schedule_id) w.id, w.schedule_id, w.overlap, w.due_at
      FROM unnest(schedules) AS one(schedule_id)
      CROSS JOIN LATERAL (SELECT n.* FROM pgcron.run n
                          WHERE n.schedule_id = one.schedule_id AND n.state = 'ready'
                            AND n.due_at <= now()
                            AND n.overlap IN ('replace', 'terminate')
                          UNION ALL
                          SELECT h.* FROM pgcron.run h
                          WHERE h.schedule_id = one.schedule_id AND h.gate = 'overlap'
                            AND h.overlap IN ('replace', 'terminate') AND h.due_at <= now()) w
      WHERE w.overlap_slot IS NULL AND (w.expire_at IS NULL OR w.expire_at > now())
        AND (handlers IS NULL OR w.handler = ANY(handlers))
        AND NOT EXISTS (SELECT FROM pgcron.queue q
                        WHERE q.name = w.queue AND q.paused_at IS NOT NULL)
        AND EXISTS (SELECT FROM pgcron.cluster c
                    WHERE c.quarantine_until <= now() AND c.paused_at IS NULL)
      ORDER BY w.schedule_id, w.due_at DESC, w.id DESC LOOP
    older := ARRAY(
        SELECT w.id FROM pgcron.run w
        WHERE w.schedule_id = newest.schedule_id AND w.state <> 'running' AND w.overlap IS NOT NULL
          AND (w.overlap_slot IS NOT NULL OR (w.due_at, w.id) < (newest.due_at, newest.id))
          AND w.id <> newest.id
        ORDER BY w.id LIMIT 1000 FOR UPDATE SKIP LOCKED);
    IF older <> '{}' THEN
      RETURN QUERY SELECT pgcron.end_waiting_runs(older, 'superseded',
                 format('run %s came later (overlap %s)', newest.id, newest.overlap));
    END IF;
    UPDATE pgcron.run r
    SET cancel_at = coalesce(r.cancel_at, now()),
        kill_at = CASE WHEN newest.overlap = 'terminate' THEN coalesce(r.kill_at, now())
                       ELSE r.kill_at END,
        cancel_reason = coalesce(r.cancel_reason,
            format('replaced by run %s (overlap %s)', newest.id, newest.overlap))
    WHERE r.id = ANY(ARRAY(
          SELECT h.id FROM pgcron.run h
          WHERE h.schedule_id = newest.schedule_id AND h.state = 'running' AND h.id <> newest.id
            AND (h.overlap_slot IS NOT NULL
                 OR (h.overlap IS NULL
                     AND EXISTS (SELECT FROM pgcron.schedule s
                                 WHERE s.id = h.schedule_id AND s.overlap = 'allow'
                                   AND s.max_running IS NULL)))
            AND (h.cancel_at IS NULL OR (newest.overlap = 'terminate' AND h.kill_at IS NULL))
          ORDER BY h.id FOR UPDATE SKIP LOCKED));
    stopping := stopping OR FOUND;
  END LOOP;
  IF stopping THEN PERFORM pgcron.notify(pgcron.channel(), 'cancel'); END IF;
END $$;

-- Of all that wait for slots of these schedules as many as there are free slots are claimable, the
-- first ones; the others are held, a thousand at a time. The caller has the schedules' advisory
-- locks.
CREATE FUNCTION pgcron.line_up(schedules bigint[]) RETURNS TABLE (id bigint, is_held boolean)
LANGUAGE sql VOLATILE AS $$
  UPDATE pgcron.run r
  SET state = CASE WHEN r.gate IS NULL THEN 'blocked' ELSE 'ready' END,
      gate = CASE WHEN r.gate IS NULL THEN 'overlap' END
  WHERE r.id = ANY(ARRAY(
        SELECT l.id FROM pgcron.run l
        WHERE (l.state = 'ready' OR l.gate = 'overlap')
          AND l.overlap_slot IS NULL
          AND l.id = ANY(ARRAY(
                  WITH fresh AS MATERIALIZED (
                    SELECT n.id, n.schedule_id, n.overlap, n.gate, n.priority, n.due_at
                    FROM unnest(schedules) AS one(schedule_id)
                    JOIN pgcron.run n ON n.schedule_id = one.schedule_id
                    WHERE n.state = 'ready'
                      AND n.overlap NOT IN ('skip', 'skip many') AND n.due_at <= now()
                      AND n.overlap_slot IS NULL),
                  aside AS MATERIALIZED (
                    SELECT one.schedule_id, word.overlap FROM unnest(schedules) AS one(schedule_id)
                    CROSS JOIN LATERAL (SELECT FROM pgcron.run h
                                        WHERE h.schedule_id = one.schedule_id AND h.gate = 'overlap'
                                        ORDER BY h.overlap, h.priority, h.due_at, h.id LIMIT 1)
                      has_some
                    CROSS JOIN unnest('{allow,queue,replace,terminate}'::text[]) AS word(overlap)
                    CROSS JOIN LATERAL (SELECT FROM pgcron.run h
                                        WHERE h.schedule_id = one.schedule_id AND h.gate = 'overlap'
                                          AND h.overlap = word.overlap
                                        ORDER BY h.priority, h.due_at, h.id LIMIT 1) has_such),
                  kind AS MATERIALIZED (
                    SELECT k.schedule_id, k.overlap, greatest(o.room, 0) AS room
                    FROM (SELECT f.schedule_id, f.overlap FROM fresh f
                          UNION SELECT a.* FROM aside a) k
                    CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, 1) o),
                  -- Of what is held only as many can be among the first as there are slots:
                  -- a long backlog is not read.
                  waiting AS MATERIALIZED (
                    SELECT w.id, w.schedule_id, w.overlap, w.gate,
                           row_number() OVER (PARTITION BY w.schedule_id ORDER BY w.priority,
                               w.due_at, w.id) AS place
                    FROM (SELECT f.* FROM fresh f
                          UNION ALL
                          SELECT h.* FROM aside a
                          JOIN (SELECT k.schedule_id, max(k.room) AS room FROM kind k GROUP BY 1)
                            most ON most.schedule_id = a.schedule_id
                          CROSS JOIN LATERAL (SELECT r.id, r.schedule_id, r.overlap, r.gate,
                                                     r.priority, r.due_at
                                              FROM pgcron.run r
                                              WHERE r.schedule_id = a.schedule_id
                                                AND r.gate = 'overlap' AND r.overlap = a.overlap
                                                AND r.due_at <= now() AND r.overlap_slot IS NULL
                                              ORDER BY r.priority, r.due_at, r.id LIMIT most.room)
                            h) w)
                  SELECT w.id FROM waiting w
                  JOIN kind ON kind.schedule_id = w.schedule_id AND kind.overlap = w.overlap
                  WHERE (w.gate IS NULL) = (w.place > kind.room) LIMIT 1000))
        ORDER BY l.id FOR UPDATE SKIP LOCKED))
  RETURNING r.id, r.gate IS NOT NULL $$;

-- ready -> skipped, superseded
-- blocked -> skipped, superseded
-- Before a choice: what is too much for a queue ends, and the rest lines up (`hold`: is held from
-- now on, `go`: is released). The caller has the schedules' advisory locks.
CREATE FUNCTION pgcron.settle_queues(schedules bigint[]) RETURNS TABLE (verdict text, id bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  ending record;
BEGIN
  FOR ending IN
      WITH waiting AS MATERIALIZED (
        SELECT d.id, d.schedule_id,
               row_number() OVER (PARTITION BY d.schedule_id ORDER BY d.due_at, d.id) AS place,
               count(*) OVER (PARTITION BY d.schedule_id) AS runs
        FROM unnest(schedules) AS one(schedule_id)
        CROSS JOIN LATERAL (SELECT n.* FROM pgcron.run n
                            WHERE n.schedule_id = one.schedule_id AND n.state = 'ready'
                              AND n.due_at <= now() AND n.overlap = 'queue'
                            UNION ALL
                            SELECT h.* FROM pgcron.run h
                            WHERE h.schedule_id = one.schedule_id AND h.gate = 'overlap'
                              AND h.overlap = 'queue' AND h.due_at <= now()) d
        WHERE d.overlap_slot IS NULL),
      bound AS MATERIALIZED (
        SELECT k.schedule_id, coalesce(s.max_queued, 1000) AS most, greatest(o.room, 0) AS room,
               coalesce(s.queue_drops, 'newest') AS drops
        FROM (SELECT DISTINCT w.schedule_id FROM waiting w) k
        CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, 'queue', 1) o
        LEFT JOIN pgcron.schedule s ON s.id = k.schedule_id)
      SELECT CASE b.drops WHEN 'newest' THEN 'skipped' ELSE 'superseded' END AS outcome,
             format('%s %s %s (max_queued)', b.most,
                 CASE b.drops WHEN 'newest' THEN 'older' ELSE 'newer' END,
                 CASE b.most WHEN 1 THEN 'run waits' ELSE 'runs wait' END) AS reason,
             array_agg(w.id ORDER BY w.id) AS runs
      FROM waiting w JOIN bound b ON b.schedule_id = w.schedule_id
      WHERE w.place > b.room
        AND CASE b.drops WHEN 'newest' THEN w.place - b.room ELSE w.runs - w.place + 1 END > b.most
      GROUP BY 1, 2 LOOP
    RETURN QUERY SELECT CASE ending.outcome WHEN 'skipped' THEN 'skip' ELSE 'supersede' END, e
      FROM pgcron.end_each_waiting_run(ending.runs[:1000], ending.outcome, ending.reason) e;
  END LOOP;
  RETURN QUERY SELECT CASE WHEN l.is_held THEN 'hold' ELSE 'go' END, l.id
    FROM pgcron.line_up(schedules) l;
END $$;

-- ready -> skipped
-- blocked -> skipped
-- After a choice: what does not wait, and finds no free slot. The caller has the schedules'
-- advisory locks.
CREATE FUNCTION pgcron.skip_beyond(schedules bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ending record;
BEGIN
  FOR ending IN
      WITH waiting AS MATERIALIZED (
        SELECT d.id, d.schedule_id, d.overlap FROM unnest(schedules) AS one(schedule_id)
        JOIN pgcron.run d ON d.schedule_id = one.schedule_id
        WHERE d.state = 'ready' AND d.overlap IN ('skip', 'skip many')
          AND d.due_at <= now() AND d.overlap_slot IS NULL)
      SELECT CASE WHEN w.overlap = 'skip many' AND s.max_running > 1
                    THEN format('%s runs are not over (max_running)', s.max_running)
                  ELSE 'the last run is not over' END AS reason,
             array_agg(w.id ORDER BY w.id) AS runs
      FROM (SELECT DISTINCT w.schedule_id, w.overlap FROM waiting w) k
      CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, 1) o
      JOIN waiting w ON w.schedule_id = k.schedule_id AND w.overlap = k.overlap
      LEFT JOIN pgcron.schedule s ON s.id = w.schedule_id WHERE o.room <= 0 GROUP BY 1 LOOP
    RETURN QUERY
      SELECT pgcron.end_each_waiting_run(ending.runs[:1000], 'skipped', ending.reason);
  END LOOP;
END $$;
