-- name: claim_runs
-- ready -> running
-- Runs that may wait in the node's memory (at least once, no key). One index descent for each path
-- (queue, priority) from a lower bound that the node moves, so that neither future rows of a high
-- priority nor dead index entries are walked. The sub-select is an ARRAY(…) so that its LIMIT
-- holds whatever plan is chosen; the check of node and cluster is inside it so that nothing is
-- locked for a session that is not alive. Each token is one claim's and reveals nothing of
-- another's: a secret of the statement and the run's id, hashed (a random number for each row costs
-- five times as much). `due` is in seconds since 1970: a client makes an instant of it ten times as
-- fast as of a timestamp. The paths have an ORDER BY of their own: a join with queue may shuffle
-- them. Its twin claim_at_most_once claims those that may start only once: never more than there
-- are free slots.
UPDATE pgcron.run r
SET state = 'running', owner = :incarnation::uuid,
    token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid, fence = nextval('pgcron.fence'),
    attempt = r.attempt + 1,
    claimed_at = now()
WHERE r.id = ANY(ARRAY(
  SELECT due.id
  FROM (
    SELECT open_path.*
    FROM unnest(:queues::text[], :priorities::smallint[], :bound_dues::timestamptz[],
                :bound_ids::bigint[]) WITH ORDINALITY
                            AS open_path(queue, priority, bound_due, bound_id, position)
    WHERE EXISTS (SELECT FROM pgcron.claiming_node n WHERE n.incarnation = :incarnation)
      AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = open_path.queue AND NOT q.is_plain)
    ORDER BY open_path.position) path
  CROSS JOIN LATERAL (
    SELECT c.id FROM pgcron.run c
    WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
      AND c.overlap IS NULL AND c.delivery = 'at_least_once'
      AND c.queue = path.queue AND c.priority = path.priority AND c.due_at <= now()
      AND (c.due_at, c.id) >= (path.bound_due, path.bound_id)
      AND c.handler = ANY(:handlers::text[]) AND (c.expire_at IS NULL OR c.expire_at > now())
    ORDER BY c.due_at, c.id LIMIT :limit FOR UPDATE SKIP LOCKED) due
  LIMIT :limit))
RETURNING r.id, pgcron.run_uuid(r.uuid, r.id, r.created_at) AS uuid, r.handler, r.args, r.attempt,
    pgcron.attempts_allowed(r.max_attempts, r.delivery) AS max_attempts,
    r.queue, r.priority, r.schedule, coalesce(r.scheduled_for, r.nominal_for) AS fire_time,
          r.token, r.fence, date_part('epoch', pgcron.time_allowed(r.timeout)) AS timeout,
          r.delivery, date_part('epoch', r.due_at) AS due, r.origin, r.lost_early;

-- name: claim_overlapping
-- ready -> running
-- ready -> skipped
-- ready -> superseded
-- blocked -> skipped
-- blocked -> superseded
-- Verdicts on schedules whose runs must not overlap: `claim` with the columns of
-- claim_runs, `skip`, `supersede`, `hold` for a run that waits for a slot of its schedule, `mine`
-- for a claimed run whose end may release such a run, or `wait` for one that may start only once
-- and found no free slot. The function explains why each of its steps needs its own snapshot.
SELECT verdict, id, uuid, handler, args, attempt, max_attempts, queue, priority, schedule,
       fire_time, token, fence, timeout, delivery, due, origin
FROM pgcron.claim_overlapping(:incarnation, :queues, :priorities, :handlers, :free, :ahead, :look);

-- name: claim_limited
-- ready -> running
-- ready -> skipped
-- ready -> superseded
-- blocked -> skipped
-- blocked -> superseded
-- Runs that have a key or require labels, and those of limited queues: `claim` with the columns of
-- claim_runs, `skip` for a run whose schedule's last one is not over, `supersede`, `hold` and
-- `mine` as claim_overlapping, `wait` for one that may start only once and found no free slot, and
-- for each queue with keys one `walked`: `concurrency_key` is where the search ended (NULL: it saw
-- all of them), `due` the seconds until the next of its runs.
SELECT *
FROM pgcron.claim_limited(:incarnation, :queues, :beyond, :handlers, :free, :ahead, :look, :aged);

-- name: let_waiting_go
-- ready -> skipped
-- ready -> superseded
-- ready -> upstream_failed
-- blocked -> skipped
-- blocked -> superseded
-- blocked -> upstream_failed
-- Runs that were put aside until their schedule has a slot for them, where it has one now, or until
-- the fire before theirs is over. Schedules whose runs could not be released are returned in
-- `refused`, with the last reason.
SELECT let_go, ended_at, refused, error FROM pgcron.let_waiting_go(:beyond, :most);

-- name: end_waiting_runs
-- ready -> skipped
-- ready -> superseded
-- ready -> expired
-- ready -> cancelled
-- ready -> upstream_failed
-- blocked -> cancelled
-- blocked -> skipped
-- blocked -> superseded
-- blocked -> expired
-- blocked -> upstream_failed
SELECT pgcron.end_waiting_runs(:run_ids, :outcome, :reason) AS run_id;

-- name: next_due
-- The head of every path that has waiting runs, future ones included: where to claim, and how long
-- to sleep. A paused queue has none. is_limited: claimed by claim_limited; runs with a key, and
-- those that require labels, are returned as one row for each queue, without a time. A row without
-- a queue says that somewhere runs wait for a slot of their schedule. The bounds are those of
-- claim_runs, for the paths that have one: a busy node looks several times a second, and would walk
-- each time what a held xmin horizon keeps of the runs that are gone.
SELECT path.queue, path.priority, head.is_careful, head.is_once, path.is_limited,
       CASE WHEN head.due_at < to_timestamp(-2208988800) THEN '-infinity'
            ELSE least(head.due_at, to_timestamp(253370764800)) END AS due_at,
       head.due_at <= now() AS is_due,
       extract(epoch FROM greatest(to_timestamp(-2208988800),
                                   least(head.due_at,
                                         to_timestamp(253370764800)))
                                             - clock_timestamp())::float8 AS seconds
FROM unnest(:queues::text[]) AS path_queue(queue)
LEFT JOIN pgcron.queue q ON q.name = path_queue.queue
CROSS JOIN generate_series(0, 9) AS path_priority(priority)
LEFT JOIN unnest(:bound_queues::text[], :bound_priorities::smallint[], :bound_dues::timestamptz[],
                 :bound_ids::bigint[]) AS bound(queue, priority, due, id)
  ON bound.queue = path_queue.queue AND bound.priority = path_priority.priority
CROSS JOIN LATERAL (SELECT path_queue.queue, path_priority.priority::smallint AS priority,
                    q.is_plain IS FALSE AS is_limited,
                           coalesce(bound.due, '-infinity') AS bound_due,
                               coalesce(bound.id, 0) AS bound_id
                               WHERE q.paused_at IS NULL) path
CROSS JOIN LATERAL (
  (SELECT false AS is_careful, false AS is_once, c.due_at FROM pgcron.run c
   WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
     AND c.overlap IS NULL AND c.delivery = 'at_least_once' AND c.queue = path.queue
     AND c.priority = path.priority
     AND (c.due_at, c.id) >= (path.bound_due, path.bound_id)
   ORDER BY c.due_at, c.id LIMIT 1)
  UNION ALL
  (SELECT true, false, c.due_at FROM pgcron.run c
   WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
     AND c.overlap IS NOT NULL AND c.queue = path.queue AND c.priority = path.priority
   ORDER BY c.due_at, c.id LIMIT 1)
  UNION ALL
  (SELECT true, true, c.due_at FROM pgcron.run c
   WHERE c.state = 'ready' AND c.concurrency_key IS NULL AND c.requires IS NULL
     AND c.overlap IS NULL AND c.delivery <> 'at_least_once' AND c.queue = path.queue
     AND c.priority = path.priority
   ORDER BY c.due_at, c.id LIMIT 1)) head
UNION ALL
SELECT path.queue, NULL, true, false, true, NULL, NULL, NULL
FROM unnest(:queues::text[]) AS path(queue)
WHERE (EXISTS (SELECT FROM pgcron.run c
WHERE c.state = 'ready' AND c.concurrency_key IS NOT NULL
  AND c.queue = path.queue)
    OR EXISTS (SELECT FROM pgcron.run c
        WHERE c.state = 'ready' AND c.concurrency_key IS NULL
          AND c.requires IS NOT NULL
          AND c.queue = path.queue))
  AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = path.queue AND q.paused_at IS NOT NULL)
UNION ALL
SELECT NULL, NULL, true, false, true, NULL, false, NULL
WHERE EXISTS (SELECT FROM pgcron.run w WHERE w.gate = 'overlap')
  OR EXISTS (SELECT FROM pgcron.run w
      WHERE w.state = 'blocked' AND w.gate = 'previous'
        AND w.due_at <= now() + interval '5 seconds')
ORDER BY priority, queue;

-- name: park_unserved
-- ready -> blocked
-- blocked -> ready
-- Due runs whose handler no live node offers for their queue leave the claim index, so that they
-- delay no others. Locked rows are left for the next look.
SELECT set_gate AS id FROM pgcron.set_gate(ARRAY(
  SELECT p.id FROM pgcron.run p
  WHERE p.state = 'ready' AND p.id = ANY(ARRAY(
    SELECT head.id
    FROM unnest(:queues::text[], :priorities::smallint[]) AS path(queue, priority)
    CROSS JOIN LATERAL pgcron.path_candidates(path.queue, path.priority, :look::int) head
    WHERE NOT EXISTS (SELECT FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
                      WHERE o.handler = head.handler AND n.state = 'alive'
                        AND path.queue = ANY(n.queues))))
  FOR UPDATE SKIP LOCKED), 'no_node');

-- name: park_unplaced
-- ready -> blocked
-- blocked -> ready
-- The same for runs that require labels: by requirement, so that none delays another.
SELECT set_gate AS id FROM pgcron.set_gate(ARRAY(
  SELECT p.id FROM pgcron.run p
  WHERE p.state = 'ready' AND p.id = ANY(ARRAY(
    SELECT head.id
    FROM unnest(:queues::text[]) asked(queue)
    CROSS JOIN LATERAL pgcron.walk_requirements(asked.queue, NULL) place
    CROSS JOIN LATERAL (
      SELECT c.id, c.handler FROM pgcron.run c
      WHERE c.state = 'ready' AND c.concurrency_key IS NULL
        AND c.requires IS NOT NULL
        AND c.queue = asked.queue AND c.requires = place.requires
        AND c.priority = place.priority AND c.due_at <= now() ORDER BY c.due_at, c.id
            LIMIT :look) head
    WHERE place.due_at <= now() AND NOT pgcron.is_served(head.handler, asked.queue, place.requires)
    LIMIT :look))
  FOR UPDATE SKIP LOCKED), 'no_node');

-- name: unpark_served
-- ready -> blocked
-- blocked -> ready
-- The other way round, level-triggered: a run that somebody may take does not stay blocked.
SELECT set_gate AS id FROM pgcron.set_gate(ARRAY(
  SELECT h.id FROM pgcron.run h
  WHERE h.gate = 'no_node' AND h.id = ANY(ARRAY(SELECT pgcron.served_again(:at_most)))
  FOR UPDATE OF h SKIP LOCKED), NULL);

-- name: refused_runs
-- Due runs of these queues that no node can claim, with the server's reason: asked for after a
-- claim that was refused. Changes nothing.
SELECT run_id, error FROM pgcron.refused_runs(:incarnation::uuid, ARRAY(
  SELECT head.id FROM unnest(:queues::text[]) asked(queue)
  CROSS JOIN LATERAL pgcron.waiting_candidates(asked.queue, :at_most::int) head LIMIT :at_most));

-- name: refused_runs_in_line
-- The same of runs that wait for a slot of their schedule, or for the fire before theirs.
SELECT run_id, error FROM pgcron.refused_runs(:incarnation::uuid, ARRAY(
  SELECT r.id FROM pgcron.run r
  WHERE r.schedule_id = ANY(:schedules::bigint[]) AND r.state = 'blocked'
    AND r.gate IN ('overlap', 'previous')
  ORDER BY r.due_at, r.id LIMIT :at_most));

-- name: broken_settings
SELECT kind, name, error FROM pgcron.broken_settings();
