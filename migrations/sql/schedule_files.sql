-- Schedules as files: the definitions of a source (a file or a folder of files, by its name) are
-- applied in one transaction.

CREATE INDEX schedule_of_source ON pgcron.schedule (source) WHERE source IS NOT NULL;

-- The defaults of what a file leaves out, by column; not those that are computed, of what manages
-- it, or of a pause.
CREATE FUNCTION pgcron.schedule_defaults() RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  pairs text;
  defaults jsonb;
BEGIN
  SELECT string_agg(format('%L, %s', a.attname, coalesce(pg_get_expr(d.adbin, d.adrelid), 'NULL')),
           ', ')
  INTO pairs FROM pg_attribute a
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
  WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attname = ANY (pgcron.written_columns())
    AND (a.atthasdef OR NOT a.attnotnull) AND a.attname !~ '^(managed_by|source|paused_.*)$';
  EXECUTE 'SELECT jsonb_build_object(' || pairs || ')' INTO defaults;
  RETURN defaults;
END $$;

-- For the files of a source: who acts, one after the other, as two may make the same name.
CREATE FUNCTION pgcron.begin_apply(actor text) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor, 'file');
  SELECT pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashtext('apply')) $$;

CREATE FUNCTION pgcron.refuse_foreign(kind text, name text, owner text, source text) RETURNS boolean
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC011',
           format('%s %L is defined by the files of %L and of %L', kind, name, owner, source),
           'One name has one source: two would undo each other.',
           'Remove it from one of them, choose another name, or take it over (--take-over).') $$;

-- Applies the schedules of a source: definitions is an array of objects (name, spec, handler, and
-- any other column), one for each name; what they leave out is its default, but for enabled. A
-- schedule of another source is refused (PC011), unless taken over. Returns each before and
-- after, by name.
CREATE FUNCTION pgcron.apply_schedules(definitions jsonb, source text,
    take_over boolean DEFAULT false, actor text DEFAULT NULL)
  RETURNS TABLE (name text, change text, previous pgcron.schedule, content pgcron.schedule)
LANGUAGE plpgsql AS $$
DECLARE
  definition jsonb;
  wanted jsonb;
  refusal text;
  rule text;
  advice text;
  defaults jsonb := pgcron.schedule_defaults() || jsonb_build_object('managed_by', 'file', 'source',
      apply_schedules.source);
  names text[] := ARRAY(
      SELECT d ->> 'name' FROM jsonb_array_elements(apply_schedules.definitions) d);
BEGIN
  PERFORM pgcron.begin_apply(apply_schedules.actor);
  PERFORM FROM pgcron.schedule s WHERE s.name = ANY(names) OR s.source = apply_schedules.source
    ORDER BY s.id FOR UPDATE;
  PERFORM pgcron.refuse_foreign('schedule', s.name, s.source, apply_schedules.source)
    FROM pgcron.schedule s
    WHERE s.name = ANY(names) AND s.source <> apply_schedules.source AND NOT take_over
    ORDER BY s.name LIMIT 1;
  FOR definition IN SELECT d FROM jsonb_array_elements(apply_schedules.definitions) d
      ORDER BY d ->> 'name' LOOP
    name := definition ->> 'name';
    SELECT s.* INTO previous FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    -- The caller says who owns it, not the file; a pause outlives what files say of all else.
    wanted := defaults - CASE WHEN previous.id IS NULL THEN '' ELSE 'enabled' END
      || (definition - '{managed_by,source}'::text[]);
    BEGIN
      PERFORM pgcron.write_schedule(wanted, previous);
    EXCEPTION WHEN data_exception OR not_null_violation THEN
      PERFORM pgcron.refuse_value(definition ->> 'name', SQLERRM);
    WHEN OTHERS THEN      -- one of many is at fault: which
      GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL,
        advice = PG_EXCEPTION_HINT;
      RAISE EXCEPTION USING ERRCODE = SQLSTATE,
        MESSAGE = format('schedule %L: %s', left(definition ->> 'name', 200), refusal),
        DETAIL = rule, HINT = advice;
    END;
    SELECT s.* INTO content FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    change := CASE WHEN previous.id IS NULL THEN 'added'
                   WHEN previous.version = content.version THEN 'unchanged'
                   ELSE 'changed' END;
    RETURN NEXT;
  END LOOP;
END $$;
