-- name: page_node_names
-- For an incarnation that does not exist: those of that name or whose number begins so, else any;
-- the living first.
SELECT n.incarnation::text AS incarnation, n.name, n.state FROM pgcron.node n
ORDER BY position(lower(:text::text) IN lower(n.name)) = 0
    AND NOT starts_with(n.incarnation::text, lower(left(:text::text, 4))), n.state = 'dead', n.name,
         n.started_at DESC LIMIT :limit::int;
