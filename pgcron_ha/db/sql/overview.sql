-- name: list_schedules
-- is_served: some node would take its runs; also where no node lives, which is another complaint.
SELECT s.id, s.uuid, s.name, s.spec, s.timezone, s.handler, s.queue, s.priority, s.enabled,
       s.paused_note, s.paused_by, s.paused_until, s.overlap, s.catchup, s.managed_by, s.owner,
       s.tags, s.max_runs, s.runs_made, s.status, s.error, s.next_fire, s.overrunning,
       last.outcome AS last_outcome, last.finished_at AS last_finished_at,
       NOT EXISTS (SELECT FROM pgcron.node n WHERE n.state = 'alive')
         OR pgcron.is_served(s.handler, s.queue, s.requires) AS is_served
FROM (SELECT v.* FROM pgcron.schedules v
      CROSS JOIN LATERAL pgcron.team_of(v.id, v.queue) t
      WHERE (:name::text IS NULL OR position(lower(:name::text) IN lower(v.name)) > 0)
        AND (:handler::text IS NULL OR v.handler = :handler::text)
        AND (:queue::text IS NULL OR v.queue = :queue::text)
        AND (:status::text IS NULL OR v.status = :status::text)
        AND (:enabled::boolean IS NULL OR v.enabled = :enabled::boolean)
        AND (:owner::text IS NULL OR t.team = :owner::text)
        AND (:tags::text[] IS NULL OR v.tags @> :tags::text[])
      ORDER BY v.name LIMIT :limit::int) s
LEFT JOIN LATERAL (SELECT h.outcome, h.finished_at FROM pgcron.history h WHERE h.schedule_id = s.id
ORDER BY h.finished_at DESC LIMIT 1) last ON true
ORDER BY s.name;

-- name: list_assets
SELECT a.* FROM pgcron.assets a ORDER BY a.name LIMIT :limit::int;

-- name: one_schedule
SELECT v.*, c.since, c.edit_is_pending,
       (SELECT concat_ws(' ', e.actor, 'by', e.interface) FROM pgcron.schedule_version e
        WHERE e.schedule_id = v.id ORDER BY e.version DESC LIMIT 1) AS last_editor,
       pgcron.largest_server(v.handler, v.queue, v.requires) IS NOT NULL AS is_served
FROM pgcron.schedules v JOIN pgcron.cursor c ON c.schedule_id = v.id
WHERE v.name = :name::text AND pgcron.in_scope(v.id, v.queue, v.handler, v.name, v.tags, v.owner);

-- name: one_run
SELECT v.*,
       coalesce(r.cancel_reason, (SELECT h.cancel_reason FROM pgcron.history h
                                  WHERE h.id = v.id LIMIT 1)) AS cancel_reason,
       r.kill_at, r.expire_at, r.time_limits, pgcron.time_allowed(r.timeout) AS timeout,
       p.done, p.total, p.note
FROM pgcron.runs v LEFT JOIN pgcron.run r ON r.id = v.id
LEFT JOIN pgcron.progress p ON p.run_id = v.id AND p.attempt = v.attempt AND v.state = 'running'
WHERE v.id = :run_id::bigint LIMIT 1;

-- name: list_lines
-- The lines of a run (of one :attempt) after one of them, in order.
SELECT l.attempt, l.sequence, l.at, l.stream, left(l.line, :most::int) AS line FROM pgcron.log l
WHERE l.run_id = :run_id::bigint
  AND (l.attempt, l.sequence) > (:after_attempt::int, :after_sequence::int)
  AND (:attempt::int IS NULL OR l.attempt = :attempt::int)
ORDER BY l.attempt, l.sequence LIMIT :limit::int;

-- name: list_queues
-- Also those without runs and settings that a living node takes from.
SELECT name, q.paused_at, q.paused_by, q.paused_note, q.max_running, s.rate, s.per,
       coalesce(q.waiting, 0) AS waiting, coalesce(q.due, 0) AS due,
       coalesce(q.running, 0) AS running, coalesce(q.blocked, 0) AS blocked,
       q.oldest_due, s.set_by, s.set_at
FROM pgcron.queues q
FULL JOIN (SELECT DISTINCT unnest(n.queues) AS name FROM pgcron.node n
           WHERE n.state = 'alive' AND n.lease_until > now()) served USING (name)
LEFT JOIN pgcron.queue s USING (name) ORDER BY name LIMIT :limit::int;

-- name: scale_demand

-- name: list_concurrency
-- Settings, and keys of which something runs.
SELECT concurrency_key,
       coalesce(l.slots, found.slots) AS slots, coalesce(l.by_weight, found.by_weight) AS by_weight,
       coalesce(l.rate, found.rate) AS rate, coalesce(l.per, found.per) AS per,
       coalesce(r.running, 0) AS running, coalesce(r.weight, 0) AS weight, l.set_by, l.set_at
FROM pgcron.concurrency_limit l
FULL JOIN (SELECT h.concurrency_key, count(*) AS running, sum(coalesce(h.weight, 1)) AS weight
           FROM pgcron.run h
           WHERE h.key_slot IS NOT NULL GROUP BY h.concurrency_key) r USING (concurrency_key)
LEFT JOIN LATERAL (SELECT s.slots, s.by_weight, s.rate, s.per
                   FROM pgcron.concurrency_slots(ARRAY[concurrency_key]) s
                   WHERE l.concurrency_key IS NULL) found ON true
ORDER BY 1 LIMIT :limit::int;

-- name: count_live_runs
WITH live AS (
  SELECT count(*) FILTER (WHERE r.state = 'running') AS running,
         count(*) FILTER (WHERE r.state = 'blocked' AND r.due_at <= now()
                            AND r.gate <> 'workflow') AS blocked,
         count(*) FILTER (WHERE r.state = 'ready' AND r.due_at <= now()) AS due,
         count(*) FILTER (WHERE r.state <> 'running' AND r.due_at > now()) AS later,
         min(r.due_at) FILTER (WHERE r.state = 'ready' AND r.due_at <= now()) AS oldest_due
  FROM pgcron.run r)
SELECT live.*, c.paused_at, c.paused_by, c.paused_note,
       CASE WHEN c.quarantine_until > now() THEN c.quarantine_until END AS quarantine_until,
       (SELECT count(*) FROM pgcron.queue q WHERE q.paused_at IS NOT NULL) AS paused_queues,
       (SELECT count(*) FROM pgcron.schedule s WHERE NOT s.enabled) AS paused_schedules,
       (SELECT count(*) FROM pgcron.schedule s) AS schedules,
       (SELECT count(*) FROM pgcron.cursor k WHERE k.status = 'invalid') AS invalid_schedules,
       (SELECT count(*) FROM pgcron.dead_letter d WHERE d.closed_at IS NULL) AS dead_letters
FROM live LEFT JOIN pgcron.cluster c ON true;

-- name: count_outcomes
SELECT h.outcome, count(*) AS runs, max(h.finished_at) AS last_finished_at FROM pgcron.history h
WHERE h.finished_at > now() - make_interval(secs => :seconds::float8) GROUP BY h.outcome
ORDER BY h.outcome;

-- name: list_invalid_schedules
-- Those that are not paused first.
SELECT c.schedule_id FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE c.status = 'invalid' AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY s.enabled DESC, s.updated_at DESC LIMIT :limit::int;

-- name: read_clock
SELECT clock_timestamp() AS now;

-- name: read_rights
SELECT has_table_privilege(session_user, 'pgcron.history', 'SELECT') AS reads_history;

-- name: list_nodes
-- The living by name, then the dead, the newest first (the janitor forgets them after a day).
-- :is_dead chooses one of both, :ended_within how long ago the dead may have ended. At most :names
-- handlers of each node; with 0 its offers are not read. unresponsive_runs: the first few, by id,
-- that were killed longer ago than a node needs to hear of that and to end what it can (it has no
-- grace then), or cancelled longer ago than the longest grace that anybody asks for.
SELECT n.incarnation, n.name, n.host, n.process_id, n.version, n.state, n.has_lease, n.lease_until,
       extract(epoch FROM n.lease_ttl)::float8 AS lease_ttl, n.slots, n.slots_used, n.queues,
       ARRAY(SELECT o.handler FROM pgcron.offer o WHERE o.incarnation = n.incarnation
             ORDER BY o.handler LIMIT :names::int) AS handlers,
       CASE WHEN :names::int > 0
            THEN (SELECT count(*) FROM pgcron.offer o WHERE o.incarnation = n.incarnation)
       END AS offers,
       n.is_idle, n.is_pooled, n.started_at, n.ended_at, n.ended_because,
       CASE jsonb_typeof(n.labels) WHEN 'object' THEN n.labels ELSE '{}' END AS labels,
       CASE WHEN pgcron.in_scope(NULL, NULL, NULL, NULL, NULL) THEN n.health END AS health,
       (extract(epoch FROM clock_timestamp()) - extract(epoch FROM n.lease_until)
           + extract(epoch FROM n.lease_ttl))::float8 AS health_age,
       n.cordoned_at, n.cordoned_by, n.cordon_note,
       n.cordoned_at IS NOT NULL
           AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = n.name) AS is_cordoned_alone,
       (SELECT e.beat_sequence FROM pgcron.node e WHERE e.incarnation = n.incarnation) AS beats,
       n.tzdata,
       (SELECT k.tzdata FROM pgcron.cluster k) AS cluster_tzdata, held.runs,
       held.unresponsive[1 : 5] AS unresponsive_runs
FROM (SELECT * FROM pgcron.nodes e
      WHERE (:incarnation::text IS NULL OR e.incarnation::text = :incarnation::text)
        AND (:is_dead::boolean IS NULL OR (e.state = 'dead') = :is_dead::boolean)
        AND (e.state <> 'dead' OR :ended_within::float8 IS NULL
             OR e.ended_at > now() - make_interval(secs => :ended_within::float8))
        AND (:queue::text IS NULL OR :queue::text = ANY(e.queues))
        AND (:handler::text IS NULL
             OR EXISTS (SELECT FROM pgcron.offer o
                 WHERE o.incarnation = e.incarnation AND o.handler = :handler::text))
      ORDER BY e.ended_at DESC NULLS FIRST, e.name, e.started_at DESC LIMIT :limit::int) n
CROSS JOIN LATERAL (
  SELECT count(*) AS runs,
         coalesce(array_agg(r.id ORDER BY r.id) FILTER (
             WHERE n.state <> 'dead' AND pgcron.in_scope(NULL, NULL, NULL, NULL, NULL)
               AND (r.kill_at < now() - interval '10 seconds'
                    OR r.cancel_at < now() - interval '5 minutes')),
                  '{}') AS unresponsive
  FROM (SELECT e.id, e.cancel_at, e.kill_at FROM pgcron.run e
        WHERE e.state = 'running' AND e.owner = n.incarnation LIMIT 1000) r) held
ORDER BY n.ended_at DESC NULLS FIRST, n.name, n.started_at DESC;
