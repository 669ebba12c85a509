-- Schedules as files: what a source (a file or a folder of files, by its name) says is made so, all
-- of it or nothing.

CREATE INDEX schedule_of_source ON pgcron.schedule (source) WHERE source IS NOT NULL;

-- What a schedule is where a file says nothing, by column. Defaults that are computed, and what
-- people or the machine say of a pause, are nobody's file's.
CREATE FUNCTION pgcron.schedule_defaults() RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  pairs text;
  defaults jsonb;
BEGIN
  SELECT string_agg(format('%L, %s', a.attname, coalesce(pg_get_expr(d.adbin, d.adrelid), 'NULL')),
                    ', ')
  INTO pairs
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
   WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND NOT a.attisdropped
     AND a.attidentity = '' AND a.attgenerated = ''
     AND (a.atthasdef OR NOT a.attnotnull)
     AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') !~ '\(\)'
     AND a.attname NOT IN ('version', 'managed_by', 'source', 'calendars')
     AND a.attname NOT LIKE 'paused\_%';
  EXECUTE 'SELECT jsonb_build_object(' || pairs || ')' INTO defaults;
  RETURN defaults;
END $$;
COMMENT ON FUNCTION pgcron.schedule_defaults() IS
    'What a schedule is where a file says nothing, by column.';

CREATE FUNCTION pgcron.put_defined_schedule(definition jsonb, existing pgcron.schedule,
    defaults jsonb)
  RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  -- whose it is says the caller, not the file
  wanted jsonb := defaults || (definition - '{managed_by,source}'::text[]);
  refusal text;
  rule text;
  advice text;
BEGIN
  -- a pause outlives what files say of everything else
  IF existing.id IS NOT NULL AND NOT definition ? 'enabled' THEN
    wanted := wanted - 'enabled';
  END IF;
  PERFORM pgcron.write_schedule(wanted, existing);
EXCEPTION WHEN data_exception OR not_null_violation THEN
  PERFORM pgcron.refuse_value(definition ->> 'name', SQLERRM);
WHEN OTHERS THEN      -- one of many is at fault: which
  GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL,
      advice = PG_EXCEPTION_HINT;
  RAISE EXCEPTION
      USING ERRCODE = SQLSTATE,
          MESSAGE = format('schedule %L: %s', left(definition ->> 'name', 200), refusal),
          DETAIL = rule, HINT = advice;
END $$;

-- Deletes what the source owns and these names are not.
CREATE FUNCTION pgcron.prune_schedules(source text, kept text[], actor text DEFAULT NULL)
  RETURNS TABLE (name text, previous pgcron.schedule)
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as(prune_schedules.actor, 'file');
  RETURN QUERY DELETE FROM pgcron.schedule s
    WHERE s.source = prune_schedules.source AND s.name <> ALL(kept) RETURNING s.name, s;
END $$;
COMMENT ON FUNCTION pgcron.prune_schedules(text, text[], text) IS
    'Deletes the schedules that a source owns, but for those of these names.';

-- Raises PC001 for what are no definitions.
CREATE FUNCTION pgcron.judge_definitions(definitions jsonb, source text) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  bad jsonb;
  double text;
BEGIN
  IF source IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'the source is NULL',
                          'A source is a file or a folder of schedules.',
                          'Give it a short name, for example ''billing''.');
  ELSIF jsonb_typeof(definitions) IS DISTINCT FROM 'array' THEN
    PERFORM pgcron.refuse('PC001',
                          format('the definitions are %s',
                                 coalesce('a JSON ' || jsonb_typeof(definitions), 'NULL')),
                          'They are an array of objects.',
                          'Write for example [{"name": "nightly", "spec": "@daily", "handler": '
                          '"py:report"}].');
  END IF;
  SELECT d INTO bad FROM jsonb_array_elements(definitions) d
   WHERE jsonb_typeof(d) <> 'object' OR jsonb_typeof(d -> 'name') IS DISTINCT FROM 'string'
     OR jsonb_typeof(d -> 'spec') IS DISTINCT FROM 'string'
     OR jsonb_typeof(d -> 'handler') IS DISTINCT FROM 'string'
   LIMIT 1;
  IF bad IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('%s defines no schedule', left(bad::text, 200)),
                          'A definition has a name, a spec and a handler, each a text.',
                          'Give it what it lacks.');
  END IF;
  SELECT d ->> 'name' INTO double FROM jsonb_array_elements(definitions) d GROUP BY 1
  HAVING count(*) > 1 LIMIT 1;
  IF double IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('schedule %L is defined twice', left(double, 200)),
                          'One name has one definition.', 'Remove one of them.');
  END IF;
  PERFORM pgcron.refuse_columns(ARRAY(SELECT DISTINCT jsonb_object_keys(d)
    FROM jsonb_array_elements(definitions) d),
                                '{}');
END $$;

-- Makes the schedules of a source so: definitions is an array of objects (name, spec, handler, and
-- any other column); what they leave out is its default, but for enabled. With prune, what the
-- source owns and no longer defines is deleted. A schedule of another source is refused (PC011),
-- unless taken over. Returns what there was and what there is, by name.
CREATE FUNCTION pgcron.apply_schedules(definitions jsonb, source text, prune boolean DEFAULT false,
    take_over boolean DEFAULT false, actor text DEFAULT NULL)
RETURNS TABLE (name text, change text, previous pgcron.schedule, content pgcron.schedule)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  definition jsonb;
  defaults jsonb := pgcron.schedule_defaults() || jsonb_build_object('managed_by', 'file', 'source',
      apply_schedules.source);
  foreign_one pgcron.schedule;
  names text[];
BEGIN
  PERFORM pgcron.judge_definitions(apply_schedules.definitions, apply_schedules.source);
  names := ARRAY(SELECT d ->> 'name' FROM jsonb_array_elements(apply_schedules.definitions) d);
  PERFORM pgcron.act_as(apply_schedules.actor, 'file');
  -- one after the other: two may make the same name
  PERFORM pg_advisory_xact_lock(hashtextextended(pgcron.channel() || '/apply', 0));
  PERFORM FROM pgcron.schedule s WHERE s.name = ANY(names) OR s.source = apply_schedules.source
    ORDER BY s.id FOR UPDATE;
  SELECT s.* INTO foreign_one FROM pgcron.schedule s
  WHERE s.name = ANY(names) AND s.source <> apply_schedules.source ORDER BY s.name LIMIT 1;
  IF foreign_one.id IS NOT NULL AND NOT take_over THEN
    PERFORM pgcron.refuse('PC011',
                          format('schedule %L is defined by the files of %L and of %L',
                                 foreign_one.name, foreign_one.source, apply_schedules.source),
      'One name has one source: two would undo each other.',
      'Remove it from one of them, choose another name, or take it over (--take-over).');
  END IF;
  FOR definition IN SELECT d FROM jsonb_array_elements(apply_schedules.definitions) d
      ORDER BY d ->> 'name' LOOP
    name := definition ->> 'name';
    previous := NULL;
    SELECT s.* INTO previous FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    PERFORM pgcron.put_defined_schedule(definition, previous, defaults);
    SELECT s.* INTO content FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    change := CASE WHEN previous.id IS NULL THEN 'added'
                   WHEN previous.version = content.version THEN 'unchanged' ELSE 'changed' END;
    RETURN NEXT;
  END LOOP;
  IF prune THEN
    RETURN QUERY SELECT p.name, 'pruned', p.previous, NULL::pgcron.schedule
      FROM pgcron.prune_schedules(apply_schedules.source, names, apply_schedules.actor) p;
  END IF;
END $$;
COMMENT ON FUNCTION pgcron.apply_schedules(jsonb, text, boolean, boolean, text) IS
    'Makes the schedules of a source what its files say, in one transaction.';
