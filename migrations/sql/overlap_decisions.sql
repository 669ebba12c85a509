-- Decisions about schedules whose runs may overlap, made by the node that claims.

-- ready -> running
-- ready -> skipped, superseded
-- blocked -> skipped, superseded
-- One round of decisions where some of the schedules have other policies than skip;
-- claim_overlapping has their locks, and calls it instead of going on itself. The rows are those of
-- claim_overlapping and, besides, `mine` for each claimed run whose end may let another one begin.
CREATE FUNCTION pgcron.decide_overlapping(incarnation uuid, queues text[], priorities smallint[],
    handlers text[], free int, ahead int, schedules bigint[])
  RETURNS SETOF pgcron.claim
LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  settled jsonb;
  chosen bigint[];
  slots smallint[];
  left_waiting bigint[];
BEGIN
  settled := (SELECT jsonb_object_agg(s.id, 'supersede')
              FROM pgcron.replace_older(schedules, decide_overlapping.handlers) s(id));
  settled := coalesce(settled, '{}') || coalesce((
        SELECT jsonb_object_agg(s.id, s.verdict) FROM pgcron.settle_queues(schedules) s
        WHERE s.verdict <> 'go'),
      '{}');
  IF decide_overlapping.free + decide_overlapping.ahead > 0 THEN
    SELECT array_agg(ranked.id) FILTER (WHERE ranked.position <= decide_overlapping.free
               OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.slot) FILTER (WHERE ranked.position <= decide_overlapping.free
               OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.id) FILTER (WHERE ranked.position > decide_overlapping.free
               AND ranked.delivery <> 'at_least_once')
    INTO chosen, slots, left_waiting
    FROM (WITH head AS MATERIALIZED (
            SELECT head.* FROM unnest(schedules) AS schedule(schedule_id)
            CROSS JOIN LATERAL (
                SELECT w.id, w.schedule_id, w.overlap, w.overlap_slot, w.priority, w.due_at,
                       w.delivery,
                       row_number() OVER (PARTITION BY w.overlap_slot IS NULL ORDER BY w.priority,
                           w.due_at, w.id) AS place
                FROM pgcron.run w
                WHERE w.schedule_id = schedule.schedule_id AND w.state = 'ready'
                  AND w.concurrency_key IS NULL AND w.requires IS NULL AND w.overlap IS NOT NULL
                  AND w.due_at <= now() AND w.queue = ANY(decide_overlapping.queues)
                  AND w.handler = ANY(decide_overlapping.handlers)
                  AND (w.expire_at IS NULL OR w.expire_at > now())
                  AND NOT EXISTS (SELECT FROM pgcron.queue q
                                  WHERE q.name = w.queue AND NOT q.is_plain)
                ORDER BY w.overlap_slot NULLS LAST, w.priority, w.due_at, w.id LIMIT 1000) head),
          kind AS MATERIALIZED (
            SELECT k.schedule_id, k.overlap, o.room, o.open
            FROM (SELECT DISTINCT h.schedule_id, h.overlap FROM head h) k
            CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap,
                decide_overlapping.free + decide_overlapping.ahead) o)
          SELECT head.id, head.delivery, coalesce(head.overlap_slot, kind.open[head.place]) AS slot,
                 row_number() OVER (ORDER BY array_position(decide_overlapping.priorities,
                     head.priority),
                     head.due_at, head.id) AS position
          FROM head JOIN kind ON kind.schedule_id = head.schedule_id AND kind.overlap = head.overlap
          WHERE (head.overlap_slot IS NOT NULL
                 OR (head.place <= kind.room AND kind.open[head.place] IS NOT NULL))
            AND EXISTS (SELECT FROM pgcron.claiming_node n
                        WHERE n.incarnation = decide_overlapping.incarnation)
          ORDER BY position LIMIT decide_overlapping.free + decide_overlapping.ahead) ranked;
    RETURN QUERY UPDATE pgcron.run r
      SET state = 'running', owner = decide_overlapping.incarnation,
          token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid,
          fence = nextval('pgcron.fence'), attempt = r.attempt + 1, claimed_at = now(),
          overlap_slot = given.slot
      FROM unnest(chosen, slots) given(id, slot)
      WHERE given.id = r.id
        AND r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                             WHERE l.id = ANY(chosen) AND l.state = 'ready'
                               AND l.concurrency_key IS NULL AND l.requires IS NULL
                               AND l.overlap IS NOT NULL
                               AND l.due_at <= now() AND l.queue = ANY(decide_overlapping.queues)
                               AND l.handler = ANY(decide_overlapping.handlers)
                               AND (l.expire_at IS NULL OR l.expire_at > now())
                             ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING (pgcron.claim_of(r)).*;
  END IF;
  RETURN QUERY SELECT (pgcron.no_claim(reported.verdict, reported.id)).*
    FROM (SELECT s.value, s.key::bigint FROM jsonb_each_text(settled) s
          UNION ALL SELECT 'skip', s FROM pgcron.skip_beyond(schedules) s
          UNION ALL SELECT 'wait', s.id FROM unnest(left_waiting) s(id)
          UNION ALL
          SELECT 'mine', r.id FROM pgcron.run r
          WHERE r.id = ANY(chosen) AND r.owner = decide_overlapping.incarnation
            AND r.overlap NOT IN ('skip', 'skip many')) reported(verdict, id);
END $$;

-- ready -> skipped, superseded, upstream_failed
-- blocked -> skipped, superseded, upstream_failed
-- Runs that wait for a slot of their schedule become claimable where one is free. Lets those go
-- that were put aside and may have a slot now: each node calls it, when a run has ended that kept
-- others waiting, and now and then. A walk over the schedules that keep runs waiting, from
-- `beyond`, `most` of them; `ended_at` is where it ended (NULL: it saw all). Whether one of them
-- starts is decided by its claim. What a waiting run replaces is asked to stop, if it was
-- not asked before.
CREATE FUNCTION pgcron.let_waiting_go(beyond bigint, most int, OUT let_go int, OUT ended_at bigint,
    OUT refused bigint[], OUT error text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  schedule record;
  steps int := 0;
BEGIN
  PERFORM pgcron.require_read_committed('overlap policies');
  let_go := 0;
  refused := '{}';
  IF beyond = 0 THEN
    BEGIN
      let_go := pgcron.decide_dependents();
    EXCEPTION WHEN OTHERS THEN
      refused := ARRAY(SELECT DISTINCT r.schedule_id FROM pgcron.run r
                       WHERE r.gate = 'previous' AND r.due_at <= now() + interval '1 minute'
                       LIMIT 1000);
      error := SQLERRM;
    END;
  END IF;
  FOR schedule IN
      WITH RECURSIVE walk(schedule_id) AS (
        (SELECT r.schedule_id FROM pgcron.run r
         WHERE r.gate = 'overlap' AND r.schedule_id > let_waiting_go.beyond ORDER BY r.schedule_id
         LIMIT 1)
        UNION ALL
        SELECT next.* FROM walk
        CROSS JOIN LATERAL (SELECT r.schedule_id FROM pgcron.run r
                            WHERE r.gate = 'overlap' AND r.schedule_id > walk.schedule_id
                            ORDER BY r.schedule_id LIMIT 1) next)
      SELECT w.schedule_id, first.overlap, o.room FROM walk w
      CROSS JOIN LATERAL (SELECT head.overlap
                          FROM unnest('{allow,queue,replace,terminate}'::text[]) AS word(overlap)
                          CROSS JOIN LATERAL (
                              SELECT r.overlap, r.priority, r.due_at, r.id FROM pgcron.run r
                              WHERE r.gate = 'overlap' AND r.schedule_id = w.schedule_id
                                AND r.overlap = word.overlap
                              ORDER BY r.priority, r.due_at, r.id LIMIT 1) head
                          ORDER BY head.priority, head.due_at, head.id LIMIT 1) first
      CROSS JOIN LATERAL pgcron.overlap_room(w.schedule_id, first.overlap, 1) o LOOP
    steps := steps + 1;
    IF (schedule.room > 0 OR schedule.overlap IN ('replace', 'terminate'))
        AND pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int,
              hashint8(schedule.schedule_id)) THEN
      BEGIN      -- a schedule whose runs can't be let go holds up no other
        IF schedule.overlap IN ('replace', 'terminate') THEN
          SELECT let_go + count(*) INTO let_go
          FROM pgcron.replace_older(ARRAY[schedule.schedule_id], NULL);
        END IF;
        SELECT let_go + count(*) INTO let_go
        FROM pgcron.settle_queues(ARRAY[schedule.schedule_id]) s
        WHERE s.verdict <> 'hold';
      EXCEPTION WHEN OTHERS THEN
        refused := refused || schedule.schedule_id;
        error := SQLERRM;
      END;
    END IF;
    IF steps >= most THEN
      ended_at := schedule.schedule_id;
      EXIT;
    END IF;
  END LOOP;
END $$;
