-- Overlap: how many runs of a schedule execute at once. A run of such a schedule is born blocked
-- (gate `overlap`); the service that admits runs gives it a slot of its schedule, where one is
-- free also before it is due, and then it is ready as any other. What is due and finds no slot is
-- skipped, waits, or takes the place of what runs, as its policy says.

-- ready -> blocked
-- Every new run with a policy, also by a plain INSERT. One that a person asks for wakes the nodes.
CREATE FUNCTION pgcron.block_new_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  NEW.state := 'blocked';
  NEW.gate := coalesce(NEW.gate, 'overlap');
  IF NEW.origin NOT IN ('schedule', 'backfill') THEN PERFORM pgcron.wake_nodes('admit'); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER block_new_run BEFORE INSERT ON pgcron.run FOR EACH ROW
  WHEN (NEW.overlap IS NOT NULL AND NEW.overlap_slot IS NULL AND NEW.state = 'ready')
  EXECUTE FUNCTION pgcron.block_new_run();

-- What is due and waits for a slot.
CREATE VIEW pgcron.due_without_slot AS
  SELECT r.* FROM pgcron.run r
  WHERE r.state = 'blocked' AND r.gate = 'overlap' AND r.due_at <= now();

-- Which overlap slots of a schedule are taken, and how many of its runs count: those that hold a
-- slot, and all that execute, as some began before an edit or without a limit of their own. Of them
-- `ahead` are fires that have a slot ahead of their time: it is free for one that is due.
CREATE FUNCTION pgcron.overlap_taken(schedule_id bigint, OUT runs int, OUT ahead int,
    OUT slots smallint[])
LANGUAGE sql STABLE AS $$
  SELECT count(*)::int, count(*) FILTER (WHERE h.is_ahead)::int,
         array_agg(h.overlap_slot) FILTER (WHERE h.overlap_slot IS NOT NULL)
  FROM (SELECT o.overlap_slot, o.state = 'ready' AND o.attempt = 0 AND o.due_at > now() AS is_ahead
        FROM pgcron.run o
        WHERE o.schedule_id = overlap_taken.schedule_id AND o.overlap_slot IS NOT NULL
        UNION ALL
        SELECT NULL, false FROM pgcron.run o
        WHERE o.schedule_id = overlap_taken.schedule_id AND o.state = 'running'
          AND o.overlap_slot IS NULL) h $$;

-- How many more runs with the policy may have a slot beside so many others.
CREATE FUNCTION pgcron.overlap_room(overlap text, max_running int, runs int) RETURNS int
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN overlap IN ('skip', 'replace', 'terminate') THEN (runs = 0)::int
            WHEN overlap = 'allow' THEN coalesce(max_running, 32767) - runs
            ELSE coalesce(max_running, 1) - runs END;

-- How many runs of a schedule with the policy could begin now.
CREATE FUNCTION pgcron.overlap_open(schedule_id bigint, overlap text) RETURNS int
LANGUAGE sql STABLE AS $$
  SELECT pgcron.overlap_room(overlap_open.overlap, s.max_running, taken.runs - taken.ahead)
  FROM pgcron.overlap_taken(overlap_open.schedule_id) taken
  LEFT JOIN pgcron.schedule s ON s.id = overlap_open.schedule_id $$;

-- What decides whether a run can start, as one text.
CREATE FUNCTION pgcron.kind_of(handler text, queue text, requires text[]) RETURNS text
LANGUAGE sql STABLE
RETURN handler || ' ' || queue || ' ' || coalesce(requires::text, '');

-- The kinds of runs that could begin but for their overlap slot, of those that are due or have one:
-- nothing is decided about a run that nobody could start. Judged once for a decision, as it takes
-- longer than all else.
CREATE FUNCTION pgcron.startable_kinds(schedules bigint[]) RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(pgcron.kind_of(k.handler, k.queue, k.requires)), '{}')
  FROM (SELECT DISTINCT w.handler, w.queue, w.requires
        FROM unnest(schedules) one(id)
        CROSS JOIN LATERAL (
            (SELECT d.handler, d.queue, d.requires FROM pgcron.due_without_slot d
             WHERE d.schedule_id = one.id ORDER BY d.due_at, d.id LIMIT 1000)
            UNION ALL
            (SELECT d.handler, d.queue, d.requires FROM pgcron.due_without_slot d
             WHERE d.schedule_id = one.id ORDER BY d.due_at DESC, d.id DESC LIMIT 1)
            UNION ALL
            (SELECT r.handler, r.queue, r.requires FROM pgcron.run r
             WHERE r.schedule_id = one.id AND r.overlap_slot IS NOT NULL
               AND r.state = 'ready')) w) k
  WHERE EXISTS (SELECT FROM pgcron.cluster c
                WHERE c.quarantine_until <= now() AND c.paused_at IS NULL)
    AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = k.queue AND q.paused_at IS NOT NULL)
    AND pgcron.largest_server(k.handler, k.queue, k.requires) > 0
    AND NOT pgcron.is_broken(k.handler, k.queue) $$;

-- ready -> blocked
-- A slot that was given ahead is taken back from a run that is not due yet, or that nobody could
-- start, when another one is due.
CREATE FUNCTION pgcron.take_slots_back(schedules bigint[], startable text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE pgcron.run r SET state = 'blocked', gate = 'overlap', overlap_slot = NULL
  WHERE r.id = ANY(ARRAY(
        SELECT h.id FROM unnest(schedules) one(schedule_id)
        JOIN pgcron.run h ON h.schedule_id = one.schedule_id
        WHERE h.overlap_slot IS NOT NULL AND h.state = 'ready' AND h.attempt = 0
          AND (h.due_at > now()
               OR pgcron.kind_of(h.handler, h.queue, h.requires) <> ALL (startable))
        ORDER BY h.id FOR UPDATE OF h SKIP LOCKED)) $$;

-- ready -> superseded
-- blocked -> superseded
-- Replacement: of each schedule the newest due run that replaces and could begin. What waits and is
-- older ends, between two attempts too; what executes is asked to stop, or killed, once, and keeps
-- its slot until it is really over. A locked row is left for the next call. Returns what ended.
CREATE FUNCTION pgcron.replace_older(schedules bigint[], startable text[])
  RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest record;
  older bigint[];
BEGIN
  FOR newest IN SELECT head.* FROM unnest(schedules) AS one(schedule_id)
      CROSS JOIN LATERAL (SELECT w.id, w.schedule_id, w.overlap, w.due_at
                          FROM (SELECT n.* FROM pgcron.due_without_slot n
                                WHERE n.schedule_id = one.schedule_id
                                ORDER BY n.due_at DESC, n.id DESC LIMIT 1000) w
                          WHERE w.overlap IN ('replace', 'terminate')
                            AND (w.expire_at IS NULL OR w.expire_at > now())
                            AND pgcron.kind_of(w.handler, w.queue, w.requires) = ANY(startable)
                          ORDER BY w.due_at DESC, w.id DESC LIMIT 1) head LOOP
    older := ARRAY(
        SELECT w.id FROM pgcron.run w
        WHERE w.schedule_id = newest.schedule_id AND w.state IN ('blocked', 'ready')
          AND w.overlap IS NOT NULL
          AND (w.overlap_slot IS NOT NULL OR (w.due_at, w.id) < (newest.due_at, newest.id))
          AND w.id <> newest.id
        ORDER BY w.id LIMIT 1000 FOR UPDATE SKIP LOCKED);
    RETURN QUERY SELECT pgcron.end_each_waiting_run(older, 'superseded',
               format('run %s came later (overlap %s)', newest.id, newest.overlap), NULL,
               newest.overlap = 'terminate');
    PERFORM pgcron.ask_to_stop(ARRAY(
        SELECT h.id FROM pgcron.run h
        WHERE h.schedule_id = newest.schedule_id AND h.state = 'running' AND h.id <> newest.id),
        newest.overlap = 'terminate',
        format('replaced by run %s (overlap %s)', newest.id, newest.overlap));
  END LOOP;
END $$;

-- blocked -> ready
-- Gives the free slots of these schedules to the first of their runs: to what is due, and else to
-- the next fire. Of fires that came due while nobody could start them the newest goes first where
-- the schedule catches up with the latest. The caller has the schedules' rows locked.
CREATE FUNCTION pgcron.give_slots(schedules bigint[], startable text[]) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given int;
BEGIN
  WITH place AS MATERIALIZED (
    SELECT one.schedule_id, s.max_running, coalesce(s.catchup, 'all') LIKE 'latest%' AS is_latest,
           taken.runs, taken.slots,
           CASE WHEN s.overlap = 'allow' THEN coalesce(s.max_running, 1000) - taken.runs
                ELSE greatest(coalesce(s.max_running, 1) - taken.runs, (taken.runs = 0)::int) END
             AS most
    FROM unnest(schedules) one(schedule_id)
    LEFT JOIN pgcron.schedule s ON s.id = one.schedule_id
    CROSS JOIN LATERAL pgcron.overlap_taken(one.schedule_id) taken),
  head AS MATERIALIZED (
    SELECT p.*, w.id, w.overlap,
           row_number() OVER (PARTITION BY p.schedule_id
               ORDER BY w.is_due DESC, w.priority, w.lateness, w.due_at, w.id) AS place
    FROM place p
    CROSS JOIN LATERAL (
        (SELECT f.id, f.overlap, true AS is_due, f.priority, f.due_at, f.lateness
         FROM (SELECT d.*,
                      CASE WHEN p.is_latest AND d.origin = 'schedule' AND d.overlap LIKE 'skip%'
                             THEN floor(extract(epoch FROM now() - d.due_at) / 2)
                           ELSE 0 END AS lateness
               FROM (SELECT DISTINCT ON (u.id) u.*
                     FROM ((SELECT b.* FROM pgcron.due_without_slot b
                            WHERE b.schedule_id = p.schedule_id
                              AND (b.expire_at IS NULL OR b.expire_at > now())
                            ORDER BY b.due_at, b.id LIMIT 1000)
                           UNION ALL
                           (SELECT b.* FROM pgcron.due_without_slot b
                            WHERE p.is_latest AND startable <> '{}'
                              AND b.schedule_id = p.schedule_id
                              AND (b.expire_at IS NULL OR b.expire_at > now())
                            ORDER BY b.due_at DESC, b.id DESC LIMIT p.most)) u) d
               WHERE pgcron.kind_of(d.handler, d.queue, d.requires) = ANY(startable)
               ORDER BY d.priority, lateness, d.due_at, d.id LIMIT p.most) f)
        UNION ALL
        (SELECT b.id, b.overlap, false, b.priority, b.due_at, 0 FROM pgcron.run b
         WHERE b.schedule_id = p.schedule_id AND b.state = 'blocked' AND b.gate = 'overlap'
           AND b.due_at > now()
           AND NOT EXISTS (SELECT FROM pgcron.due_without_slot d
                           WHERE d.schedule_id = p.schedule_id)
         ORDER BY b.due_at, b.id LIMIT p.most)) w
    WHERE p.most > 0)
  UPDATE pgcron.run r SET state = 'ready', gate = NULL, overlap_slot = chosen.slot
  FROM (SELECT h.id, (ARRAY(SELECT n::smallint FROM generate_series(1, h.runs + h.place::int) n
                            WHERE n <> ALL (coalesce(h.slots, '{}')) ORDER BY n))[h.place] AS slot
        FROM head h
        WHERE h.place <= pgcron.overlap_room(h.overlap, h.max_running, h.runs)) chosen
  WHERE r.id = chosen.id
    AND r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                         WHERE l.id IN (SELECT h.id FROM head h) AND l.gate = 'overlap'
                         ORDER BY l.id FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS given = ROW_COUNT;
  RETURN given;
END $$;

-- blocked -> skipped, superseded
-- After the slots were given: what is due and does not wait ends, and of a queue what is too much.
-- The caller has the schedules' rows locked.
CREATE FUNCTION pgcron.drop_surplus(schedules bigint[], startable text[])
  RETURNS TABLE (run_id bigint, outcome text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ending record;
BEGIN
  FOR ending IN
      WITH place AS MATERIALIZED (
        SELECT one.schedule_id, s.max_running, coalesce(s.max_queued, 1000) AS most_queued,
               coalesce(s.queue_drops, 'newest') AS drops, holder.id AS holder,
               holder.due_at AS holder_due_at, taken.runs - taken.ahead AS runs
        FROM unnest(schedules) one(schedule_id)
        LEFT JOIN pgcron.schedule s ON s.id = one.schedule_id
        CROSS JOIN LATERAL pgcron.overlap_taken(one.schedule_id) taken
        LEFT JOIN LATERAL (SELECT h.id, h.due_at FROM pgcron.run h
                           WHERE h.schedule_id = one.schedule_id
                             AND (h.overlap_slot IS NOT NULL OR h.state = 'running')
                             AND (h.attempt > 0 OR h.due_at <= now())
                           ORDER BY h.id LIMIT 1) holder ON taken.runs > 0),
      late AS MATERIALIZED (
        SELECT p.*, d.* FROM place p
        CROSS JOIN LATERAL (
            SELECT r.id, r.overlap, r.due_at,
                   pgcron.kind_of(r.handler, r.queue, r.requires) = ANY(startable) AS may_start
            FROM pgcron.due_without_slot r
            WHERE r.schedule_id = p.schedule_id AND (r.expire_at IS NULL OR r.expire_at > now())
            ORDER BY r.due_at, r.id LIMIT p.most_queued + 1000) d),
      waiting AS MATERIALIZED (
        SELECT l.*, row_number() OVER (PARTITION BY l.schedule_id, l.overlap = 'queue'
                                       ORDER BY l.due_at, l.id) AS place,
               count(*) OVER (PARTITION BY l.schedule_id, l.overlap = 'queue') AS queued
        FROM late l
        WHERE l.overlap = 'queue'
          OR (l.overlap IN ('skip', 'skip many') AND l.may_start
              AND pgcron.overlap_room(l.overlap, l.max_running, l.runs) <= 0))
      SELECT CASE WHEN w.overlap = 'queue' AND w.drops <> 'newest' THEN 'superseded'
                  ELSE 'skipped' END AS outcome,
             CASE WHEN w.overlap = 'queue' THEN format('%s %s %s (max_queued)', w.most_queued,
                         CASE w.drops WHEN 'newest' THEN 'older' ELSE 'newer' END,
                         CASE w.most_queued WHEN 1 THEN 'run waits' ELSE 'runs wait' END)
                  WHEN w.holder_due_at > w.due_at + interval '2 seconds'
                    THEN 'it was late, and a newer late fire runs in its place'
                  WHEN w.overlap = 'skip many' AND w.max_running > 1
                    THEN format('%s runs are not over (max_running)', w.max_running)
                  ELSE 'the last run is not over' END AS reason,
             array_agg(w.id ORDER BY w.id) AS runs,
             array_agg(CASE w.overlap WHEN 'skip' THEN w.holder END ORDER BY w.id) AS holders
      FROM waiting w
      WHERE w.overlap <> 'queue'
        OR CASE w.drops WHEN 'newest' THEN w.place ELSE w.queued - w.place + 1 END > w.most_queued
      GROUP BY 1, 2 LOOP
    RETURN QUERY SELECT e, ending.outcome
      FROM pgcron.end_each_waiting_run(ending.runs[:1000], ending.outcome, ending.reason,
          ending.holders[:1000]) e;
  END LOOP;
END $$;

-- blocked -> ready, skipped, superseded
-- ready -> blocked, superseded
-- Decides about the runs of these schedules that wait for an overlap slot. A schedule whose row
-- somebody has locked, as another node that does the same, is `left_out`. Each statement in here
-- sees a snapshot of its own, and what is known of a schedule is read after its lock was had; a
-- unique index guards the slots of one that was deleted.
CREATE FUNCTION pgcron.admit_overlap(schedules bigint[], OUT ready int, OUT skipped int,
    OUT superseded int, OUT left_out bigint[])
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  locked bigint[];
  due bigint[];
  startable text[] := '{}';
BEGIN
  PERFORM pgcron.require_read_committed('overlap policies');
  ready := 0; skipped := 0; superseded := 0;
  locked := ARRAY(SELECT s.id FROM pgcron.schedule s WHERE s.id = ANY(schedules) ORDER BY s.id
                  FOR NO KEY UPDATE SKIP LOCKED)
    || ARRAY(SELECT one.id FROM unnest(schedules) one(id)
             WHERE NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = one.id));
  left_out := ARRAY(SELECT unnest(schedules) EXCEPT SELECT unnest(locked));
  due := ARRAY(SELECT one.id FROM unnest(locked) one(id)
               WHERE EXISTS (SELECT FROM pgcron.due_without_slot d
                             WHERE d.schedule_id = one.id));
  IF due <> '{}' THEN
    startable := pgcron.startable_kinds(due);
    PERFORM pgcron.take_slots_back(due, startable);
    SELECT count(*) INTO superseded FROM pgcron.replace_older(due, startable);
  END IF;
  ready := pgcron.give_slots(locked, startable);
  IF due <> '{}' THEN
    SELECT count(*) FILTER (WHERE d.outcome = 'skipped'),
           admit_overlap.superseded + count(*) FILTER (WHERE d.outcome = 'superseded')
    INTO skipped, superseded FROM pgcron.drop_surplus(due, startable) d;
  END IF;
END $$;
