-- What a definition of a workflow may say, and how it is refused: with the place in it.

-- A step of a definition: its number in the order of execution, and its place among those given;
-- the barriers that are added have none. kind and phase are those of pgcron.workflow_step.
CREATE TYPE pgcron.numbered_step AS (number int, place int, step jsonb, kind text, phase smallint);

-- The keys of a step that are not options of its run, and the options that it may have.
CREATE FUNCTION pgcron.step_keys() RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN '{name,handler,args,args_from,after,rule,when,optional,finally,compensates,for_each,'
  'max_parallel,tolerate,repeat,wait_for,deadline,at_deadline}'::text[];

CREATE FUNCTION pgcron.step_options() RETURNS text[]
LANGUAGE sql STABLE
RETURN ARRAY(SELECT a.attname::text FROM pg_attribute a
             WHERE a.attrelid = 'pgcron.run_request'::regclass
               AND a.attname <> ALL ('{handler,args,due_at,idempotency_key,key_lifetime,unique_key,'
                 'unique_scope,unique_for,on_conflict,debounce,debounce_max}') ORDER BY a.attnum);

-- Raises PC001 for a step of a definition, with its place; without a place for the workflow.
CREATE FUNCTION pgcron.refuse_step(place int, step jsonb, fact text, rule text, hint text)
  RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001',
           concat_ws(': ', 'step ' || place
               || coalesce(' (' || left(quote_literal(step ->> 'name'), 100) || ')', ''), fact),
           rule, hint) $$;

-- Whether a path can be read; raises with the place where it can't.
CREATE FUNCTION pgcron.is_path(place int, step jsonb, key text, path jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM (path #>> '{}')::jsonpath;
  IF jsonb_typeof(path) = 'string' THEN RETURN true; END IF;
  RAISE invalid_text_representation USING MESSAGE = format('it is a JSON %s', jsonb_typeof(path));
EXCEPTION WHEN syntax_error OR data_exception OR invalid_text_representation THEN
  RETURN pgcron.refuse_step(place, step, format('%s %s can''t be read: %s', key,
        left(path::text, 200), SQLERRM),
      'It is a path of PostgreSQL (jsonpath) in the document of the workflow: its args, and the '
      'results of the steps that this one comes after, by their names.',
      'Write for example ''$.args.day'' or ''$.extract.rows''.');
END $$;

CREATE FUNCTION pgcron.judge_word(place int, step jsonb, key text, known text[]) RETURNS void
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse_step(place, step,
           format('%s %L is not known', key, left(step ->> key, 100)),
           'It is one of ' || array_to_string(known, ', ') || '.',
           'Correct its spelling, or leave it out.')
  WHERE step ->> key <> ALL (known) $$;

CREATE FUNCTION pgcron.step_names(after jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE
RETURN CASE jsonb_typeof(after)
         WHEN 'array' THEN ARRAY(SELECT DISTINCT jsonb_array_elements_text(after))
         WHEN 'string' THEN ARRAY[after #>> '{}'] ELSE '{}' END;

-- Of a step what it says of when it runs, and how often.
CREATE FUNCTION pgcron.judge_flow(place int, step jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  PERFORM pgcron.refuse_step(place, step, m.fact, m.rule, m.hint)
  FROM (VALUES
      (jsonb_typeof(step -> 'after') NOT IN ('array', 'string')
         OR jsonb_path_exists(step, 'strict $.after[*] ? (@.type() != "string")', silent => true),
       '"after" is no list of names', 'It names the steps that must be over first.',
       'Write for example "after": ["extract"].'),
      (jsonb_typeof(step -> 'args') <> 'object' OR jsonb_typeof(step -> 'args_from') <> 'object',
       '"args" or "args_from" is no JSON object',
       'args has values by name, args_from paths by name.',
       'Write for example "args_from": {"day": "$.args.day"}.'),
      ('boolean' <> ANY (ARRAY[jsonb_typeof(step -> 'optional'), jsonb_typeof(step -> 'finally')]),
       '"optional" or "finally" is neither true nor false', 'They are true or false.',
       'Leave them out for false.'),
      (step ? 'compensates' AND step -> 'finally' = 'true',
       'it has both "finally" and "compensates"',
       'A compensation undoes a step when the workflow has failed; what runs finally always runs.',
       'Make two steps of it.'),
      (step ? 'compensates' AND step ?| '{after,rule}', 'a compensation with "after" or "rule"',
       'Compensations run when all steps are over, one by one, in the reverse order of what they '
       'undo.', 'Leave them out.'),
      (step ? 'for_each' AND step ->> 'handler' IS NULL, '"for_each" without a handler',
       'The handler is executed for each item of the list.', 'Give a handler.'),
      (NOT step ? 'for_each' AND step ?| '{max_parallel,tolerate}',
       '"max_parallel" or "tolerate" without "for_each"',
       'They say how many items are executed at once, and how many may fail.',
       'Write for example "for_each": "$.list.files".'),
      (step ? 'repeat' AND (NOT step -> 'repeat' ?& '{while,at_most}'
         OR (step -> 'repeat') - '{while,at_most,every}'::text[] <> '{}'
         OR step ->> 'handler' IS NULL OR step ? 'for_each'), '"repeat" can''t be read',
       'A handler, not one of each item, is executed again while a path in its result is true.',
       'Write for example {"while": "$.status == \"busy\"", "at_most": 100, "every": "30 s"}.')
    ) m(is_wrong, fact, rule, hint) WHERE m.is_wrong;
  PERFORM pgcron.is_path(place, step, p.key, p.path)
  FROM (VALUES ('when', step -> 'when'), ('for_each', step -> 'for_each'),
               ('while', step -> 'repeat' -> 'while')
        UNION ALL
        SELECT 'args_from ' || a.key, a.value FROM jsonb_each(step -> 'args_from') a) p(key, path)
  WHERE p.path IS NOT NULL;
END $$;

-- Of a step everything that needs no other one. Returns its kind.
CREATE FUNCTION pgcron.judge_step(place int, step jsonb) RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  wait_for text := step ->> 'wait_for';
BEGIN
  IF jsonb_typeof(step) IS DISTINCT FROM 'object' THEN
    PERFORM pgcron.refuse_step(place, '{}', 'it is a JSON ' || jsonb_typeof(step),
        'A step is a JSON object.', 'Write for example {"name": "load", "handler": "py:load"}.');
  END IF;
  PERFORM pgcron.refuse_step(place, step, format('%L is no key of a step', left(key, 100)),
      'Its keys are ' || array_to_string(pgcron.step_keys() || pgcron.step_options(), ', ') || '.',
      'Correct its spelling.')
    FROM jsonb_object_keys(step - pgcron.step_keys()) key WHERE key <> ALL (pgcron.step_options());
  PERFORM pgcron.refuse_step(place, step, m.fact, m.rule, m.hint)
  FROM (VALUES
      ((step ->> 'name' ~ '^(?!(args|item)$)[A-Za-z_][A-Za-z0-9_-]{0,99}$') IS NOT TRUE,
       'it has no name that a step may have',
       'A name has 1 to 100 letters, digits, "_" and "-", begins with a letter or "_", and '
       'is neither "args" nor "item".', 'Write for example "name": "load".'),
      (num_nonnulls(step ->> 'handler', wait_for) <> 1,
       'it has neither a handler nor wait_for, or both',
       'A step executes a handler, or waits for a signal, an approval or a timer.',
       'Write "handler": "py:load", or "wait_for": "approval".'),
      (wait_for = 'timer' AND step ->> 'deadline' IS NULL, 'a timer has no deadline',
       'A timer ends when its deadline is over.', 'Write for example "deadline": "10 minutes".'),
      (wait_for IS NOT NULL AND step ?| (pgcron.step_options() || '{args,args_from}'),
       'a step that waits has args or options of a run',
       'It executes nothing: a step waits, or has a handler.', 'Leave them out.'),
      (wait_for IS NULL AND num_nonnulls(step ->> 'deadline', step ->> 'at_deadline') > 0,
       'a deadline without wait_for',
       'A deadline limits how long a step waits for a signal or an approval.',
       'A handler is limited by "timeout" and "give_up_after".')
    ) m(is_wrong, fact, rule, hint) WHERE m.is_wrong;
  PERFORM pgcron.judge_word(place, step, 'rule',
      '{all_succeeded,all_ended,one_succeeded,one_failed,none_failed}');
  PERFORM pgcron.judge_word(place, step, 'wait_for', '{signal,approval,timer}');
  PERFORM pgcron.judge_word(place, step, 'at_deadline', '{fail,succeed,skip}');
  PERFORM pgcron.judge_flow(place, step);
  RETURN coalesce(wait_for, CASE WHEN step ? 'for_each' THEN 'map' ELSE 'run' END);
END $$;

-- What steps say of one another: raises PC001 with their place.
CREATE FUNCTION pgcron.judge_dependencies(numbered pgcron.numbered_step[]) RETURNS void
LANGUAGE plpgsql STABLE AS $$
BEGIN
  PERFORM pgcron.refuse_step(n.place, n.step, 'another step has this name',
      'Within a workflow a name is one step''s.', 'Give one of them another name.')
  FROM unnest(numbered) n
  JOIN unnest(numbered) twin ON twin.step ->> 'name' = n.step ->> 'name' AND twin.place < n.place
  ORDER BY n.place LIMIT 1;
  PERFORM pgcron.refuse_step(w.place, w.step,
      format('%s names %L, %s', w.key, left(w.name, 100), w.why),
      'A step comes after steps above it, so that no cycle can be written. Compensations and '
      'what runs finally begin when all other steps are over.',
      coalesce('Did you mean ''' || w.alike || '''?', 'Move it, or correct the name.'))
  FROM (
    WITH s AS MATERIALIZED (SELECT n.*, n.step ->> 'name' AS name FROM unnest(numbered) n),
    named AS (
      SELECT s.step, s.place, s.phase, a.name, 'after' AS key FROM s
      CROSS JOIN LATERAL unnest(pgcron.step_names(s.step -> 'after')) a(name)
      UNION ALL
      SELECT s.step, s.place, 0, s.step ->> 'compensates', 'compensates' FROM s
      WHERE s.step ? 'compensates')
    SELECT n.*, CASE WHEN u.place IS NULL THEN 'which is no step'
                     WHEN u.phase <> n.phase THEN 'a step of another part'
                     ELSE 'which is not above it' END AS why,
           (SELECT s.name FROM s WHERE s.place < n.place AND left(s.name, 2) = left(n.name, 2)
              AND u.place IS NULL ORDER BY s.place LIMIT 1) AS alike
    FROM named n LEFT JOIN s u ON u.name = n.name
    WHERE u.place IS NULL OR (n.key = 'after' AND u.place >= n.place) OR u.phase <> n.phase
    ORDER BY n.place LIMIT 1) w;
  PERFORM pgcron.refuse('PC001', 'the workflow has no step that begins it',
      'Compensations and what runs finally come after other steps.', 'Add a step.')
  WHERE NOT EXISTS (SELECT FROM unnest(numbered) n WHERE n.phase = 0);
  PERFORM pgcron.refuse_step(n.place, n.step, format('rule %s can never hold', n.rule),
      'It waits until a step that is named in "after" has succeeded, or failed; the failure of an '
      'optional one counts as a success.',
      'Name another step in "after", or leave the rule out.')
  FROM (SELECT u.*, u.step ->> 'rule' AS rule FROM unnest(numbered) u) n
  WHERE CASE n.rule
          WHEN 'one_succeeded' THEN cardinality(pgcron.step_names(n.step -> 'after')) = 0
          WHEN 'one_failed' THEN NOT pgcron.step_names(n.step -> 'after') && ARRAY(
            SELECT u.step ->> 'name' FROM unnest(numbered) u
            WHERE u.step -> 'optional' IS DISTINCT FROM 'true') END;
END $$;

-- The whole definition but its steps. Raises PC001, PC004.
CREATE FUNCTION pgcron.judge_workflow(definition jsonb) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known text[] := '{description,on_failure,parallelism,timeout,steps}';
  example text := 'Write for example {"steps": [{"name": "load", "handler": "py:load"}]}.';
BEGIN
  PERFORM pgcron.refuse('PC001',
      'the definition is ' || coalesce('a JSON ' || jsonb_typeof(definition), 'NULL'),
      'The definition of a workflow is a JSON object.', example)
    WHERE jsonb_typeof(definition) IS DISTINCT FROM 'object';
  PERFORM pgcron.refuse('PC004',
      format('the definition has %s bytes', octet_length(definition::text)),
      'A definition may have 1048576 bytes (1 MiB) as JSON text.',
      'Use for_each for steps that are alike, or a step that is a workflow.')
    WHERE octet_length(definition::text) > 1048576;
  PERFORM pgcron.refuse('PC001', format('%L is no key of a workflow', left(key, 100)),
      'Its keys are ' || array_to_string(known, ', ') || '.', 'Correct its spelling.')
    FROM jsonb_object_keys(definition - known) key;
  PERFORM pgcron.refuse('PC001', 'a workflow without steps, or with more than 100000',
      '"steps" is a list of 1 to 100000 steps.', example)
    WHERE CASE jsonb_typeof(definition -> 'steps')
            WHEN 'array' THEN jsonb_array_length(definition -> 'steps') NOT BETWEEN 1 AND 100000
            ELSE true END;
  PERFORM pgcron.judge_word(NULL, definition, 'on_failure', '{continue,stop,kill}');
END $$;

-- A number or a duration of a step, or the refusal that names its place.
CREATE FUNCTION pgcron.step_number(place int, step jsonb, key text, low int, high int) RETURNS int
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF NOT coalesce(jsonb_typeof(step -> key) = 'number'
        AND (step -> key)::numeric BETWEEN low AND high AND (step -> key)::numeric % 1 = 0,
        NOT step ? key) THEN
    PERFORM pgcron.refuse_step(place, step, format('%s %s is out of range', key,
          left((step -> key)::text, 100)),
        format('It is a number from %s to %s.', low, high), 'Correct it, or leave it out.');
  END IF;
  RETURN (step -> key)::int;
END $$;

CREATE FUNCTION pgcron.step_duration(place int, step jsonb, key text) RETURNS interval
LANGUAGE plpgsql STABLE AS $$
DECLARE
  given interval;
BEGIN
  given := step ->> key;
  IF given <= '0' OR given > '366 days' THEN RAISE interval_field_overflow; END IF;
  RETURN given;
EXCEPTION WHEN data_exception THEN
  PERFORM pgcron.refuse_step(place, step, format('%s %L is no duration', key,
        left(step ->> key, 100)),
      'It is more than nothing, and at most 366 days.', 'Write for example ''10 minutes''.');
END $$;
