-- name: apply_workflows
SELECT name, change, before, after, managed_before, source_before
FROM pgcron.apply_workflows(definitions => :definitions::text::jsonb, source => :source::text,
                            take_over => :take_over::boolean, actor => :actor::text);

-- name: prune_workflows
SELECT name, 'pruned' AS change, before, NULL::jsonb AS after, 'file' AS managed_before,
       :source::text AS source_before
FROM pgcron.prune_workflows(source => :source::text, kept => :kept::text[], actor => :actor::text);

-- name: workflows_to_export
-- All of them, or those of these names, and those of a source.
SELECT w.name, w.definition FROM pgcron.workflows w
WHERE :names::text[] IS NULL OR w.name = ANY(:names::text[]) OR w.source = :source::text
ORDER BY w.name LIMIT :at_most::int;
