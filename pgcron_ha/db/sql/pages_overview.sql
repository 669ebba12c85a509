-- name: page_cluster
SELECT now() AS now, c.paused_at, c.paused_by, c.paused_note,
       CASE WHEN c.quarantine_until > now() THEN c.quarantine_until END AS quarantine_until
FROM pgcron.cluster c;

-- name: page_schedule_count
-- Who sees a part of the schedules is shown how many of the first 50000 these are.
SELECT count(*) AS schedules
FROM (SELECT v.* FROM pgcron.schedule v
      LIMIT CASE WHEN pgcron.in_scope(NULL, NULL, NULL, NULL, NULL) THEN NULL ELSE 50000 END) s
WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner);

-- name: page_open_letters
-- Counts stop at :most + 1, so that a million dead letters cost no more than some thousands. looked
-- counts those beyond the scope, too: for who sees a part, none of them is not none of all.
SELECT count(*) FILTER (WHERE l.is_seen) AS letters,
       count(*) FILTER (WHERE l.died_at > now() - interval '1 hour' AND l.is_seen) AS of_last_hour,
       count(*) AS looked
FROM (SELECT d.died_at, pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags,
                                         coalesce(s.owner, o.team, '')) AS is_seen
      FROM (SELECT e.* FROM pgcron.dead_letter e WHERE e.closed_at IS NULL
            ORDER BY e.died_at DESC LIMIT :most::int + 1) d
      LEFT JOIN pgcron.schedule s ON s.id = d.schedule_id
      LEFT JOIN pgcron.owned o ON o.kind = 'queue' AND o.name = d.queue) l;

-- name: page_due
-- The oldest due runs of each queue, at most :look of each way to the claim: counting all that wait
-- would walk a million future runs. Without a scope the server leaves out the joins with runs,
-- schedules and owners, here and below: they are for the scope alone.
SELECT q.queue, due.schedule_id, min(due.due_at) AS oldest_due, count(*) AS runs
FROM pgcron.waiting_queues(:queues::int) q
CROSS JOIN LATERAL pgcron.waiting_runs(q.queue, '-infinity', now(), :look::int) due
LEFT JOIN pgcron.run r ON r.id = due.id
LEFT JOIN pgcron.schedule s ON s.id = r.schedule_id
LEFT JOIN pgcron.owned o ON o.kind = 'queue' AND o.name = r.queue
WHERE pgcron.in_scope(r.schedule_id, r.queue, r.handler, r.schedule, r.tags,
      coalesce(s.owner, o.team, ''))
GROUP BY q.queue, due.schedule_id ORDER BY min(due.due_at) LIMIT :limit::int;

-- name: waiting_groups
-- Due runs by what they ask for, and what the first of each group waits for; the oldest first, and
-- of more than :limit groups those that no node takes. Of each queue and priority at most :look
-- ready ones are counted, and at most :most at each gate. What waits for its turn at a node takes
-- the longest to say: :stuck leaves that out.
SELECT alike.*, w.waits_for, w.waits_detail
FROM (
  SELECT due.queue, due.handler, due.requires, coalesce(due.weight, 1) AS weight, min(due.id) AS id,
         count(*) AS runs, count(*) FILTER (WHERE due.gate = 'no_node') AS blocked,
         count(due.gate) AS at_gates, min(due.due_at) AS oldest_due
  FROM (SELECT q.queue, r.id, r.handler, r.requires, r.weight, r.due_at, NULL AS gate
        FROM pgcron.waiting_queues(:queues::int) q
        CROSS JOIN LATERAL pgcron.waiting_runs(q.queue, '-infinity', now(), :look::int) r
        LEFT JOIN pgcron.run f ON f.id = r.id
        LEFT JOIN pgcron.schedule s ON s.id = f.schedule_id
        LEFT JOIN pgcron.owned o ON o.kind = 'queue' AND o.name = f.queue
        WHERE pgcron.in_scope(f.schedule_id, f.queue, f.handler, f.schedule, f.tags,
              coalesce(s.owner, o.team, ''))
        UNION ALL
        SELECT b.queue, b.id, b.handler, b.requires, b.weight, b.due_at, closed.gate
        FROM (VALUES ('no_node'), ('breaker'), ('previous'), ('overlap')) closed(gate)
        CROSS JOIN LATERAL (
            SELECT g.queue, g.id, g.handler, g.requires, g.weight, g.due_at, g.schedule_id,
                   g.schedule, g.tags
            FROM pgcron.run g
            WHERE g.state = 'blocked' AND g.gate = closed.gate AND g.due_at <= now()
            ORDER BY g.due_at LIMIT :most::int) b
        WHERE pgcron.in_scope(b.schedule_id, b.queue, b.handler, b.schedule, b.tags)) due
  GROUP BY due.queue, due.handler, due.requires, coalesce(due.weight, 1),
      nullif(due.gate, 'no_node')
  ORDER BY bool_or(due.gate = 'no_node') DESC NULLS LAST, min(due.due_at) LIMIT :limit::int) alike
JOIN pgcron.waiting w ON w.id = alike.id
WHERE w.waits_for IS NOT NULL
  AND (NOT :stuck::boolean OR alike.at_gates > 0
       OR (pgcron.largest_server(alike.handler, alike.queue, alike.requires)
             >= alike.weight) IS NOT true)
ORDER BY alike.oldest_due;

-- name: page_recent
-- The newest :look ended runs by number: a bounded sample, since nothing orders history by its end
-- alone.
WITH recent AS MATERIALIZED (
  SELECT h.finished_at, h.outcome,
         CASE WHEN h.started_at IS NOT NULL AND h.finished_at > now() - interval '5 minutes'
              THEN greatest(extract(epoch FROM h.started_at - greatest(h.due_at, h.created_at)), 0)
         END::float8 AS delay
  FROM (SELECT e.* FROM pgcron.history e ORDER BY e.id DESC LIMIT :look::int) h
  LEFT JOIN pgcron.schedule s ON s.id = h.schedule_id
  LEFT JOIN pgcron.owned o ON o.kind = 'queue' AND o.name = h.queue
  WHERE pgcron.in_scope(h.schedule_id, h.queue, h.handler, h.schedule, h.tags,
        coalesce(s.owner, o.team, '')))
SELECT count(*) AS runs, max(r.finished_at) AS last_finished_at,
       count(*) FILTER (WHERE r.finished_at > now() - interval '1 minute'
                        AND r.outcome IN ('succeeded', 'dead', 'lost')) AS ended_in_a_minute,
       count(r.delay) AS started,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY r.delay) AS start_delay_p99,
       count(*) = :look::int
         OR EXISTS (SELECT FROM pgcron.history e ORDER BY e.id DESC OFFSET :look::int - 1) AS is_cut
FROM recent r;

-- name: page_failing_candidates
-- Schedules with a recent dead letter whose newest executed run failed. A failing schedule has a
-- dead letter for each failure, so no others need to be searched.
SELECT letter.schedule_id
FROM (SELECT DISTINCT d.schedule_id
      FROM (SELECT e.schedule_id FROM pgcron.dead_letter e WHERE e.closed_at IS NULL
            ORDER BY e.died_at DESC LIMIT :look::int) d) letter
LEFT JOIN pgcron.schedule s ON s.id = letter.schedule_id
CROSS JOIN LATERAL (SELECT h.outcome FROM pgcron.history h
                    WHERE h.schedule_id = letter.schedule_id AND h.finished_at <= now()
                      AND h.outcome IN ('succeeded', 'dead', 'lost')
                    ORDER BY h.finished_at DESC LIMIT 1) last
WHERE last.outcome <> 'succeeded'
  AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner) LIMIT :limit::int;

-- name: page_timeline_runs
-- Ended runs of some schedules since an instant, newest first, at most :each of one schedule.
SELECT track.schedule_id, h.id, h.outcome, h.started_at, h.finished_at, h.attempt
FROM unnest(:schedule_ids::bigint[]) AS track(schedule_id)
CROSS JOIN LATERAL (SELECT e.* FROM pgcron.history e
                    WHERE e.schedule_id = track.schedule_id AND e.finished_at >= :since::timestamptz
                      AND e.finished_at <= now()
                    ORDER BY e.finished_at DESC LIMIT :each::int) h;

-- name: page_blocked_schedules
SELECT DISTINCT held.schedule_id
FROM (SELECT r.schedule_id, r.gate FROM pgcron.run r
WHERE r.gate IN ('breaker', 'no_node') AND r.schedule_id IS NOT NULL LIMIT :look::int) held
LEFT JOIN pgcron.schedule s ON s.id = held.schedule_id
WHERE held.gate = 'no_node'
  AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner) LIMIT :limit::int;

-- name: page_running
-- What runs now (on one node), among the first :look that run, by the index of
-- running runs; the longest first.
SELECT r.id, r.queue, r.handler, r.schedule_id, r.schedule, r.attempt, r.claimed_at, r.started_at,
       coalesce(r.started_at, r.claimed_at) AS since,
       date_part('epoch', pgcron.time_allowed(r.timeout)) AS timeout, r.cancel_at
FROM (SELECT e.id, e.queue, e.handler, e.schedule_id, e.schedule, e.tags, e.attempt, e.claimed_at,
      e.started_at, e.timeout, e.cancel_at
      FROM pgcron.run e
      WHERE e.state = 'running' AND e.owner IS NOT NULL
        AND (:incarnation::uuid IS NULL OR e.owner = :incarnation::uuid) LIMIT :look::int) r
WHERE pgcron.in_scope(r.schedule_id, r.queue, r.handler, r.schedule, r.tags)
ORDER BY since, r.id LIMIT :limit::int;
