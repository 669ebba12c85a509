-- Workflows as files: applied before the schedules of their source, which may start them.

-- Applies the workflows of a source: definitions by name. One of another source is refused (PC011),
-- unless taken over. Returns each before and after, by name.
CREATE FUNCTION pgcron.apply_workflows(definitions jsonb, source text,
    take_over boolean DEFAULT false, actor text DEFAULT NULL)
  RETURNS TABLE (name text, change text, before jsonb, after jsonb, managed_before text,
      source_before text)
LANGUAGE plpgsql AS $$
DECLARE
  version int;
  put int;
  refusal text;
  rule text;
  advice text;
BEGIN
  PERFORM pgcron.begin_apply(apply_workflows.actor);
  PERFORM pgcron.refuse_foreign('workflow', w.name, w.source, apply_workflows.source)
    FROM pgcron.workflows w
    WHERE definitions ? w.name AND w.source <> apply_workflows.source AND NOT take_over
    ORDER BY w.name LIMIT 1;
  FOR name, after IN SELECT d.key, d.value FROM jsonb_each(definitions) d ORDER BY d.key LOOP
    SELECT w.definition, w.version, w.managed_by, w.source
      INTO before, version, managed_before, source_before
    FROM pgcron.workflows w WHERE w.name = apply_workflows.name;
    BEGIN
      put := pgcron.put_workflow(name, after, actor, 'file', apply_workflows.source);
    EXCEPTION WHEN OTHERS THEN      -- one of many is at fault: which
      GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL,
        advice = PG_EXCEPTION_HINT;
      RAISE EXCEPTION USING ERRCODE = SQLSTATE,
        MESSAGE = format('workflow %L: %s', left(name, 200), refusal),
        DETAIL = rule, HINT = advice;
    END;
    change := CASE WHEN version IS NULL THEN 'added'
                   WHEN version = put AND source_before = apply_workflows.source THEN 'unchanged'
                   ELSE 'changed' END;
    RETURN NEXT;
  END LOOP;
END $$;

-- Deletes the workflows of the source but those of these names; what runs goes on.
CREATE FUNCTION pgcron.prune_workflows(source text, kept text[], actor text DEFAULT NULL)
  RETURNS TABLE (name text, before jsonb)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as(prune_workflows.actor, 'file');
  FOR name, before IN SELECT w.name, w.definition FROM pgcron.workflows w
      WHERE w.source = prune_workflows.source AND w.name <> ALL(kept) ORDER BY w.name LOOP
    PERFORM pgcron.delete_workflow(name, actor);
    RETURN NEXT;
  END LOOP;
END $$;
