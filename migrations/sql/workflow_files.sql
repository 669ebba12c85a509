-- Workflows as files: applied before the schedules of their source, which may start them.

-- Applies the workflows of a source: definitions by name. One of another source is refused (PC011),
-- unless taken over. Returns each before and after, by name.
CREATE FUNCTION pgcron.apply_workflows(definitions jsonb, source text,
    take_over boolean DEFAULT false, actor text DEFAULT NULL)
  RETURNS TABLE (name text, change text, before jsonb, after jsonb, managed_before text,
      source_before text)
LANGUAGE sql AS $$
  SELECT pgcron.begin_apply(apply_workflows.actor);
  SELECT pgcron.refuse_foreign('workflow', w.name, w.source, apply_workflows.source)
  FROM pgcron.workflows w
  WHERE definitions ? w.name AND w.source <> apply_workflows.source AND NOT take_over
  ORDER BY w.name LIMIT 1;
  SELECT d.key, CASE WHEN w.version IS NULL THEN 'added'
                     WHEN w.version = p.version AND w.source = apply_workflows.source
                       THEN 'unchanged'
                     ELSE 'changed' END,
         w.definition, d.value, w.managed_by, w.source
  -- in the order of their names, so that two who do so wait for each other in one order
  FROM (SELECT e.* FROM jsonb_each(definitions) e ORDER BY e.key OFFSET 0) d
  LEFT JOIN LATERAL (SELECT k.* FROM pgcron.workflows k WHERE k.name = d.key LIMIT 1) w ON true
  CROSS JOIN LATERAL (
      SELECT pgcron.put_workflow(d.key, d.value, actor, 'file', apply_workflows.source) AS version
      OFFSET 0) p $$;

-- Deletes the workflows of the source but those of these names; what runs goes on. Returns them as
-- apply_workflows does.
CREATE FUNCTION pgcron.prune_workflows(source text, kept text[], actor text DEFAULT NULL)
  RETURNS TABLE (name text, change text, before jsonb, after jsonb, managed_before text,
      source_before text)
LANGUAGE sql AS $$
  SELECT pgcron.act_as(prune_workflows.actor, 'file');
  SELECT w.name, 'pruned', w.definition, NULL::jsonb, 'file', w.source FROM pgcron.workflows w
  CROSS JOIN LATERAL (SELECT pgcron.delete_workflow(w.name, prune_workflows.actor) OFFSET 0) d
  WHERE w.source = prune_workflows.source AND w.name <> ALL (kept) ORDER BY w.name $$;
