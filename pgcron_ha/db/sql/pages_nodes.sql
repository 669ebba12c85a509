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
