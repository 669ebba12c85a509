-- Claims of runs whose schedule must not overlap with itself: the schedule has one slot; with other
-- policies than skip what overlap says. Runs that have a key besides, or wait in a limited queue,
-- are claimed by claim_limited.

CREATE FUNCTION pgcron.require_read_committed(what text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM pgcron.refuse('PC001',
        what || ' are not decided under ' || current_setting('transaction_isolation'),
        'Each step must see what was committed before it.', 'Use READ COMMITTED.');
  END IF;
END $$;

-- ready -> running
-- ready -> skipped, superseded
-- blocked -> skipped, superseded
-- One round of decisions. Each statement in here sees a snapshot of its own (a VOLATILE function
-- under READ COMMITTED), and correctness rests on it: what is known of a schedule must be read
-- after its lock was had, or a holder that committed in between would not be seen. Under any other
-- isolation level the snapshot would be as old as the transaction, so there the function refuses.
-- 1. Schedules with due runs, as far as their advisory lock can be had without waiting; it lives
-- until the commit. A paused or limited queue's come last.
-- 2. The first due run of each schedule that has no holder. A run that waits for its retry holds
-- its schedule and goes first. Runs that may start only once are chosen for a free slot only; those
-- that found none are returned as `wait`.
-- 3. The claim. A locked row is skipped, and one that has changed is judged anew.
-- 4. Whatever else is due in a schedule that is held now is skipped, a thousand at a time. A
-- schedule without a holder keeps its runs when none can be claimed here. Priorities count in the
-- order of the request: now and then a node begins with that of what is due longest. A holder is
-- looked for schedule by schedule: an EXISTS may be turned into a join with, or a hash of, all
-- holders there are. Nothing in here waits for a lock. One statement is one round trip and one
-- commit for hundreds of runs.
CREATE FUNCTION pgcron.claim_overlapping(incarnation uuid, queues text[], priorities smallint[],
    handlers text[], free int, ahead int, look int)
  RETURNS SETOF pgcron.claim
LANGUAGE plpgsql VOLATILE ROWS 100 AS $$
#variable_conflict use_column
DECLARE
  schedules bigint[];
  has_others boolean;
  chosen bigint[];
  left_waiting bigint[];
  skipped bigint[];
BEGIN
  PERFORM pgcron.require_read_committed('overlap policies');
  WITH due AS MATERIALIZED (
    SELECT due_index.schedule_id, bool_or(due_index.overlap <> 'skip') AS is_other
    FROM (SELECT head.schedule_id, head.overlap
          FROM (SELECT asked.queue, asked.priority
                FROM unnest(claim_overlapping.queues,
                    claim_overlapping.priorities) WITH ORDINALITY AS
                  asked(queue, priority, position)
                ORDER BY EXISTS (SELECT FROM pgcron.queue q
                                 WHERE q.name = asked.queue AND NOT q.is_plain),
                    asked.position) path
          CROSS JOIN LATERAL (SELECT c.schedule_id, c.overlap FROM pgcron.run c
                              WHERE c.state = 'ready'
                                AND c.concurrency_key IS NULL
                                AND c.requires IS NULL AND c.overlap IS NOT NULL
                                AND c.queue = path.queue AND c.priority = path.priority
                                AND c.due_at <= now()
                                AND c.handler = ANY(claim_overlapping.handlers)
                              ORDER BY c.due_at, c.id LIMIT claim_overlapping.look) head
          LIMIT claim_overlapping.look) due_index
    GROUP BY due_index.schedule_id)
  SELECT array_agg(due.schedule_id), bool_or(due.is_other) INTO schedules, has_others FROM due
  WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashint8(due.schedule_id));
  IF schedules IS NULL THEN RETURN; END IF;
  IF has_others THEN
    RETURN QUERY SELECT *
      FROM pgcron.decide_overlapping(claim_overlapping.incarnation, claim_overlapping.queues,
          claim_overlapping.priorities,
          claim_overlapping.handlers, claim_overlapping.free, claim_overlapping.ahead, schedules);
    RETURN;
  END IF;

  IF claim_overlapping.free + claim_overlapping.ahead > 0 THEN
    SELECT array_agg(ranked.id) FILTER (WHERE ranked.place <= claim_overlapping.free
               OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.id) FILTER (WHERE ranked.place > claim_overlapping.free
               AND ranked.delivery <> 'at_least_once')
    INTO chosen, left_waiting
    FROM (SELECT head.id, head.delivery,
                 row_number() OVER (ORDER BY array_position(claim_overlapping.priorities,
                     head.priority),
                     head.due_at, head.id) AS place
          FROM unnest(schedules) AS schedule(schedule_id)
          CROSS JOIN LATERAL (
              SELECT w.id, w.overlap_slot, w.priority, w.due_at, w.delivery FROM pgcron.run w
              WHERE w.schedule_id = schedule.schedule_id AND w.state = 'ready'
                AND w.concurrency_key IS NULL AND w.requires IS NULL AND w.overlap = 'skip'
                AND w.due_at <= now() AND w.queue = ANY(claim_overlapping.queues)
                AND w.handler = ANY(claim_overlapping.handlers)
                AND (w.expire_at IS NULL OR w.expire_at > now())
                AND NOT EXISTS (SELECT FROM pgcron.queue q
                                WHERE q.name = w.queue AND NOT q.is_plain)
              ORDER BY w.overlap_slot NULLS LAST, w.priority, w.due_at, w.id LIMIT 1) head
          WHERE (head.overlap_slot IS NOT NULL
                 OR (SELECT h.id FROM pgcron.run h
                     WHERE h.schedule_id = schedule.schedule_id
                       AND h.overlap_slot IS NOT NULL LIMIT 1)
                    IS NULL)
            AND EXISTS (SELECT FROM pgcron.claiming_node n
                        WHERE n.incarnation = claim_overlapping.incarnation)
          ORDER BY place LIMIT claim_overlapping.free + claim_overlapping.ahead) ranked;
    RETURN QUERY UPDATE pgcron.run r
      SET state = 'running', owner = claim_overlapping.incarnation,
          token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid,
          fence = nextval('pgcron.fence'), attempt = r.attempt + 1, claimed_at = now(),
          overlap_slot = 1
      WHERE r.id = ANY(ARRAY(SELECT l.id FROM pgcron.run l
                             WHERE l.id = ANY(chosen) AND l.state = 'ready'
                               AND l.concurrency_key IS NULL AND l.requires IS NULL
                               AND l.overlap IS NOT NULL
                               AND l.due_at <= now() AND l.queue = ANY(claim_overlapping.queues)
                               AND l.handler = ANY(claim_overlapping.handlers)
                               AND (l.expire_at IS NULL OR l.expire_at > now())
                             ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING (pgcron.claim_of(r)).*;
  END IF;

  skipped := ARRAY(
      SELECT w.id FROM unnest(schedules) AS schedule(schedule_id)
      JOIN pgcron.run w ON w.schedule_id = schedule.schedule_id
      WHERE w.state = 'ready' AND w.concurrency_key IS NULL
        AND w.requires IS NULL
        AND w.overlap = 'skip' AND w.due_at <= now() AND w.overlap_slot IS NULL
        AND (SELECT h.id FROM pgcron.run h
             WHERE h.schedule_id = w.schedule_id AND h.overlap_slot IS NOT NULL LIMIT 1) IS NOT NULL
      ORDER BY w.id LIMIT 1000 FOR UPDATE OF w SKIP LOCKED);
  IF skipped <> '{}' THEN
    PERFORM pgcron.end_waiting_runs(skipped, 'skipped', 'the last run is not over');
  END IF;
  RETURN QUERY SELECT (pgcron.no_claim(reported.verdict, reported.id)).*
    FROM (SELECT 'skip', s.id FROM unnest(skipped) s(id)
          UNION ALL SELECT 'wait', s.id FROM unnest(left_waiting) s(id)) reported(verdict, id);
END $$;
COMMENT ON FUNCTION pgcron.claim_overlapping IS
    'Decides due runs of schedules with an overlap policy: claims up to free + ahead of them '
    '(ahead: none that may start only once), skips what finds its schedule held.';
