-- name: apply_workflows

-- name: prune_workflows
SELECT name, 'pruned' AS change, before, NULL AS after, 'file' AS managed_before,
       :source::text AS source_before
FROM pgcron.prune_workflows(source => :source::text, kept => :kept::text[], actor => :actor::text)
ORDER BY name;

-- name: workflows_to_export
-- All of them, or those of these names, and those of a source.
SELECT w.name, w.definition FROM pgcron.workflows w
WHERE :names::text[] IS NULL OR w.name = ANY(:names::text[]) OR w.source = :source::text
ORDER BY w.name LIMIT :at_most::int;
