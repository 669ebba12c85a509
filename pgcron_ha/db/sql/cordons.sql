-- name: cordon_node
SELECT pgcron.cordon_node(:node::text, :reason::text, :actor::text);

-- name: uncordon_node
SELECT pgcron.uncordon_node(:node::text, :actor::text);

-- name: held_by_node
-- How many runs the living processes of a name, or the one of an incarnation, hold.
SELECT count(*) AS runs FROM pgcron.node n
JOIN pgcron.run r ON r.owner = n.incarnation AND r.state = 'running'
WHERE n.state <> 'dead' AND (n.name = :node::text OR n.incarnation::text = :node::text);

-- name: list_cordons
-- What was cordoned and not lifted, with how many of its processes live.
SELECT c.node, c.reason, c.set_by, c.set_at,
       (SELECT count(*) FROM pgcron.node n
        WHERE n.state <> 'dead' AND c.node IN (n.name, n.incarnation::text)) AS living
FROM pgcron.cordon c WHERE c.lifted_at IS NULL ORDER BY c.set_at, c.node LIMIT :limit::int;
