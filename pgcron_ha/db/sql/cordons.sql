-- name: cordon_node
SELECT pgcron.cordon_node(:node::text, :reason::text, :actor::text);

-- name: uncordon_node
SELECT pgcron.uncordon_node(:node::text, :actor::text);

-- name: held_by_node
-- How many runs the living processes of a name, or the one of an incarnation, hold.
SELECT count(*) AS runs FROM pgcron.node n
JOIN pgcron.run r ON r.owner = n.incarnation AND r.state = 'running'
WHERE n.state <> 'dead' AND (n.name = :node::text OR n.incarnation::text = :node::text);
