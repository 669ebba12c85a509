-- name: apply_workflows

-- name: prune_workflows

-- name: workflows_to_export
-- All of them, or those of these names, and those of a source.
SELECT w.name, w.definition FROM pgcron.workflows w
WHERE :names::text[] IS NULL OR w.name = ANY(:names::text[]) OR w.source = :source::text
ORDER BY w.name LIMIT :at_most::int;
