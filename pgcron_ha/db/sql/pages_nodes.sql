-- name: page_nodes
-- Nodes that live, or that are dead (the janitor forgets them after a day); the newest dead first.
-- Handlers only as far as a line shows them.
SELECT n.incarnation::text AS incarnation, n.name, n.host, n.process_id, n.version, n.tzdata,
       CASE WHEN n.state NOT IN ('alive', 'cordoned') THEN n.state WHEN c.node IS NULL THEN 'alive'
            ELSE 'cordoned' END AS state,
       n.lease_until, extract(epoch FROM n.lease_ttl)::float8 AS lease_ttl,
       extract(epoch FROM n.lease_until - now())::float8 AS lease_left, n.slots, n.slots_used,
       n.queues, n.is_idle, n.is_pooled, n.started_at, n.ended_at, n.ended_because,
       n.labels::text AS labels, n.health::text AS health,
       extract(epoch FROM clock_timestamp() - (n.lease_until - n.lease_ttl))::float8 AS health_age,
       c.reason AS cordon_reason, c.set_by AS cordoned_by, c.set_at AS cordoned_at,
       (SELECT count(*)
        FROM (SELECT FROM pgcron.run r WHERE r.state = 'running' AND r.owner = n.incarnation
        LIMIT :most::int) held) AS runs,
       (SELECT count(*) FROM pgcron.offer o WHERE o.incarnation = n.incarnation) AS handlers,
       ARRAY(SELECT o.handler FROM pgcron.offer o WHERE o.incarnation = n.incarnation
           ORDER BY o.handler LIMIT :names::int) AS handler_names,
       ARRAY(SELECT r.id
           FROM (SELECT e.id, e.cancel_at, e.kill_at FROM pgcron.run e
           WHERE e.state = 'running' AND e.owner = n.incarnation AND n.state <> 'dead'
           LIMIT :look_unresponsive::int) r
             WHERE r.kill_at < now() - make_interval(secs => :killed_for::float8)
               OR r.cancel_at < now() - make_interval(secs => :asked_for::float8)
             ORDER BY r.id LIMIT :few::int) AS unresponsive_runs
FROM (SELECT * FROM pgcron.node e
      WHERE (e.state = 'dead') = :is_dead::boolean
        AND (:queue::text IS NULL OR :queue::text = ANY(e.queues))
        AND (:handler::text IS NULL
             OR EXISTS (SELECT FROM pgcron.offer o
                 WHERE o.incarnation = e.incarnation AND o.handler = :handler::text))
      ORDER BY e.ended_at DESC NULLS FIRST, e.name, e.started_at DESC LIMIT :limit::int) n
LEFT JOIN LATERAL (SELECT d.* FROM pgcron.cordon d
WHERE d.lifted_at IS NULL AND d.node IN (n.name, n.incarnation::text) ORDER BY d.set_at LIMIT 1) c
    ON n.state <> 'dead'
ORDER BY n.ended_at DESC NULLS FIRST, n.name, n.started_at DESC;

-- name: page_node
SELECT n.incarnation::text AS incarnation, n.name, n.host, n.process_id, n.version, n.tzdata,
       CASE WHEN n.state NOT IN ('alive', 'cordoned') THEN n.state WHEN c.node IS NULL THEN 'alive'
            ELSE 'cordoned' END AS state,
       n.lease_until, extract(epoch FROM n.lease_ttl)::float8 AS lease_ttl,
       extract(epoch FROM n.lease_until - now())::float8 AS lease_left, n.slots, n.slots_used,
       n.queues, n.is_idle, n.is_pooled, n.started_at, n.ended_at, n.ended_because,
       n.labels::text AS labels, n.health::text AS health,
       extract(epoch FROM clock_timestamp() - (n.lease_until - n.lease_ttl))::float8 AS health_age,
       c.reason AS cordon_reason, c.set_by AS cordoned_by, c.set_at AS cordoned_at,
       c.incarnation IS NOT NULL AS is_cordoned_alone,
       n.beat_sequence AS beats,
       ARRAY(SELECT o.handler FROM pgcron.offer o WHERE o.incarnation = n.incarnation
           ORDER BY o.handler LIMIT :names::int) AS handler_names,
       ARRAY(SELECT r.id
           FROM (SELECT e.id, e.cancel_at, e.kill_at FROM pgcron.run e
           WHERE e.state = 'running' AND e.owner = n.incarnation AND n.state <> 'dead'
           LIMIT :look_unresponsive::int) r
             WHERE r.kill_at < now() - make_interval(secs => :killed_for::float8)
               OR r.cancel_at < now() - make_interval(secs => :asked_for::float8)
             ORDER BY r.id LIMIT :few::int) AS unresponsive_runs
FROM pgcron.node n
LEFT JOIN LATERAL (SELECT d.* FROM pgcron.cordon d
WHERE d.lifted_at IS NULL AND d.node IN (n.name, n.incarnation::text)
                   ORDER BY d.incarnation IS NOT NULL, d.set_at LIMIT 1) c ON n.state <> 'dead'
WHERE n.incarnation = :incarnation::uuid;

-- name: page_node_runs
-- What a node holds, by the index of running runs; the longest first.
SELECT r.id, r.queue, r.handler, r.schedule, r.attempt, r.claimed_at, r.started_at,
       extract(epoch FROM r.timeout)::float8 AS timeout, r.cancel_at
FROM (SELECT e.id, e.queue, e.handler, e.schedule, e.attempt, e.claimed_at, e.started_at, e.timeout,
      e.cancel_at
FROM pgcron.run e WHERE e.state = 'running' AND e.owner = :incarnation::uuid LIMIT :look::int) r
ORDER BY coalesce(r.started_at, r.claimed_at), r.id LIMIT :limit::int;

-- name: page_node_names
-- For an incarnation that does not exist: those of that name or whose number begins so, else any;
-- the living first.
SELECT n.incarnation::text AS incarnation, n.name, n.state FROM pgcron.node n
ORDER BY position(lower(:text::text) IN lower(n.name)) = 0
    AND NOT starts_with(n.incarnation::text, lower(left(:text::text, 4))), n.state = 'dead', n.name,
         n.started_at DESC LIMIT :limit::int;
