-- What a workflow is made of: versions of its definition, their steps and dependencies. A running
-- workflow keeps its version.

CREATE TABLE pgcron.workflow_definition (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL CONSTRAINT a_workflow_name_is_that_of_a_handler
    CHECK (pgcron.is_handler('workflow:' || name)),
  version int NOT NULL,
  definition jsonb NOT NULL,
  hash text NOT NULL,
  on_failure text NOT NULL,
  parallelism int,
  timeout interval,
  steps int NOT NULL,
  -- cli, code, file, sql or ui; the file is source.
  managed_by text NOT NULL,
  source text,
  created_by text NOT NULL DEFAULT session_user,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- A deleted workflow starts no more; what runs goes on.
  deleted_at timestamptz,
  UNIQUE (name, version)
);
COMMENT ON TABLE pgcron.workflow_definition IS
    'Versions of workflows; the newest one that is not deleted is what starts.';
CREATE INDEX workflow_definition_named ON pgcron.workflow_definition (id) WHERE name <> 'ad_hoc';
CREATE INDEX workflow_definition_ad_hoc ON pgcron.workflow_definition (hash) WHERE name = 'ad_hoc';

-- One step of a version, by number: what a step depends on has a lower one. kind: run (its handler
-- is executed), map (for each item of a list), signal, approval, timer, or barrier (no author
-- writes it: it ends when all steps of a phase are over).
-- phase: 0 the steps, 1 compensations, 2 what runs finally.
CREATE TABLE pgcron.workflow_step (
  definition bigint NOT NULL REFERENCES pgcron.workflow_definition ON DELETE CASCADE,
  number int NOT NULL,
  name text NOT NULL,
  kind text NOT NULL,
  phase smallint NOT NULL,
  handler text,
  args jsonb,
  -- The other arguments of pgcron.enqueue.
  options jsonb NOT NULL,
  rule text NOT NULL,
  is_optional boolean NOT NULL,
  -- {name of an arg: path}
  args_from jsonb,
  condition jsonpath,
  compensates int,
  for_each jsonpath,
  max_parallel int,
  tolerate int NOT NULL,
  repeat_while jsonpath,
  repeat_at_most int,
  repeat_every interval,
  deadline interval,
  at_deadline text,
  parents int NOT NULL,
  children int NOT NULL,
  PRIMARY KEY (definition, number),
  -- The name goes first: a search by number takes the other index, whatever the planner believes.
  UNIQUE (name, definition)
);
COMMENT ON TABLE pgcron.workflow_step IS 'The steps of a version of a workflow.';

CREATE TABLE pgcron.workflow_edge (
  definition bigint NOT NULL REFERENCES pgcron.workflow_definition ON DELETE CASCADE,
  parent int NOT NULL,
  child int NOT NULL,
  PRIMARY KEY (definition, parent, child),
  CONSTRAINT a_step_depends_on_earlier_ones CHECK (parent < child)
);
COMMENT ON TABLE pgcron.workflow_edge IS
    'Dependencies: the child waits for the parent. Shared by all runs of a version.';
CREATE INDEX workflow_edge_child ON pgcron.workflow_edge (definition, child);

-- The steps of a definition in the order of their phases, numbered from 1, and the barriers that
-- end each phase; the last barrier is the end of the workflow.
CREATE FUNCTION pgcron.read_steps(steps jsonb) RETURNS pgcron.numbered_step[]
LANGUAGE sql STABLE AS $$
  WITH given AS MATERIALIZED (
    SELECT e.place::int AS place, e.step, pgcron.judge_step(e.place::int, e.step) AS kind,
           (CASE WHEN e.step ? 'compensates' THEN 1
                 WHEN e.step -> 'finally' = 'true' THEN 2 ELSE 0 END)::smallint AS phase
    FROM jsonb_array_elements(steps) WITH ORDINALITY e(step, place)),
  placed AS (
    SELECT g.*, -u.place AS undone
    FROM given g LEFT JOIN given u ON u.step ->> 'name' = g.step ->> 'compensates'
    UNION ALL
    SELECT NULL, jsonb_build_object('name',
             CASE g.phase WHEN max(g.phase) OVER () THEN '.end' ELSE '.phase_' || g.phase END),
           'barrier', g.phase, NULL
    FROM given g GROUP BY g.phase)
  SELECT array_agg(n::pgcron.numbered_step ORDER BY n.number)
  FROM (SELECT (row_number() OVER (ORDER BY p.phase, p.kind = 'barrier', p.undone, p.place))::int
                 AS number, p.place, p.step, p.kind, p.phase
        FROM placed p) n $$;

-- The dependencies of numbered steps. Each phase begins when the one before it is over. A phase is
-- over when its last steps are, and those that a step did not wait for to the end.
CREATE FUNCTION pgcron.read_edges(numbered pgcron.numbered_step[])
  RETURNS TABLE (parent int, child int)
LANGUAGE sql STABLE AS $$
  WITH s AS MATERIALIZED (
    SELECT n.*, n.step ->> 'name' AS name, pgcron.step_names(n.step -> 'after') AS after
    FROM unnest(numbered) n),
  -- by themselves, so that each is looked for among the hashed ones
  wanted AS MATERIALIZED (
    SELECT s.number, s.phase, s.step ->> 'rule' AS rule, a.name
    FROM s CROSS JOIN LATERAL unnest(s.after) a(name)),
  barriers AS MATERIALIZED (SELECT s.number, s.phase FROM s WHERE s.kind = 'barrier'),
  named AS MATERIALIZED (
    SELECT u.number AS parent, a.number AS child, a.rule
    FROM wanted a JOIN s u ON u.name = a.name AND u.phase = a.phase
    UNION
    SELECT s.number - 1, s.number, NULL FROM s
    WHERE s.phase = 1 AND s.kind <> 'barrier'
      AND EXISTS (SELECT FROM s b WHERE b.number = s.number - 1 AND b.phase = 1))
  SELECT n.parent, n.child FROM named n
  UNION
  SELECT u.number, s.number FROM s JOIN s u ON u.name = s.step ->> 'compensates'
  UNION
  SELECT b.number, s.number FROM s
  JOIN LATERAL (SELECT max(e.number) AS number FROM barriers e WHERE e.phase < s.phase) b
    ON b.number IS NOT NULL
  WHERE s.kind <> 'barrier' AND NOT EXISTS (SELECT FROM named n WHERE n.child = s.number)
  UNION
  SELECT s.number, b.number
  FROM (SELECT s.number FROM s WHERE s.kind <> 'barrier'
        EXCEPT
        SELECT n.parent FROM named n
        WHERE coalesce(n.rule, '') NOT IN ('one_succeeded', 'one_failed')) leaf
  JOIN s ON s.number = leaf.number JOIN barriers b ON b.phase = s.phase $$;

-- Writes the steps and dependencies of a new version.
CREATE FUNCTION pgcron.write_steps(definition bigint, numbered pgcron.numbered_step[])
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO pgcron.workflow_edge (definition, parent, child)
  SELECT write_steps.definition, e.parent, e.child FROM pgcron.read_edges(numbered) e;
  INSERT INTO pgcron.workflow_step
  SELECT write_steps.definition, n.number, n.step ->> 'name', n.kind, n.phase, n.step ->> 'handler',
         coalesce(n.step -> 'args', '{}'), n.step - pgcron.step_keys(),
         coalesce(n.step ->> 'rule',
           CASE WHEN n.kind = 'barrier' OR n.phase > 0 THEN 'all_ended' ELSE 'all_succeeded' END),
         coalesce((n.step -> 'optional')::boolean, false), n.step -> 'args_from',
         (n.step ->> 'when')::jsonpath, u.number, (n.step ->> 'for_each')::jsonpath,
         pgcron.step_number(n.place, n.step, 'max_parallel', 1, 10000),
         coalesce(pgcron.step_number(n.place, n.step, 'tolerate', 0, 10000), 0),
         (n.step -> 'repeat' ->> 'while')::jsonpath,
         pgcron.step_number(n.place, n.step -> 'repeat', 'at_most', 1, 100000),
         coalesce(pgcron.step_duration(n.place, n.step -> 'repeat', 'every'), '1 second'),
         pgcron.step_duration(n.place, n.step, 'deadline'),
         coalesce(n.step ->> 'at_deadline',
           CASE n.kind WHEN 'timer' THEN 'succeed' ELSE 'fail' END), coalesce(p.edges, 0),
         coalesce(c.edges, 0)
  FROM unnest(numbered) n
  LEFT JOIN unnest(numbered) u ON u.step ->> 'name' = n.step ->> 'compensates'
  LEFT JOIN (SELECT e.child, count(*)::int AS edges FROM pgcron.workflow_edge e
             WHERE e.definition = write_steps.definition GROUP BY e.child) p ON p.child = n.number
  LEFT JOIN (SELECT e.parent, count(*)::int AS edges FROM pgcron.workflow_edge e
             WHERE e.definition = write_steps.definition GROUP BY e.parent) c
    ON c.parent = n.number;
END $$;

-- What the runs of its steps would be is judged as those that are enqueued.
CREATE FUNCTION pgcron.judge_step_runs(definition bigint, numbered pgcron.numbered_step[])
  RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  step pgcron.workflow_step;
  rule text;
  remedy text;
BEGIN
  FOR step IN SELECT s.* FROM pgcron.workflow_step s
      WHERE s.definition = judge_step_runs.definition AND s.handler IS NOT NULL
      ORDER BY s.number LOOP
    BEGIN
      PERFORM pgcron.judge_run(pgcron.run_of_step(step, 0, '{}', NULL));
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS rule = PG_EXCEPTION_DETAIL, remedy = PG_EXCEPTION_HINT;
      PERFORM pgcron.refuse_step(numbered[step.number].place, numbered[step.number].step, SQLERRM,
          coalesce(nullif(rule, ''), 'A key takes what the argument of pgcron.enqueue takes.'),
          coalesce(nullif(remedy, ''), 'Durations are texts such as "90 s".'));
    END;
  END LOOP;
END $$;

-- Stores a definition as the newest version of its name, unless it is that already. The name of
-- ad-hoc definitions is ad_hoc. Returns its id.
CREATE FUNCTION pgcron.store_workflow(name text, definition jsonb, managed_by text, source text,
    actor text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  fingerprint text := md5(definition::text);
  newest pgcron.workflow_definition;
  numbered pgcron.numbered_step[];
  new_id bigint;
BEGIN
  IF store_workflow.name = 'ad_hoc' THEN
    -- who defines one in an open transaction keeps no other from it
    SELECT d.* INTO newest FROM pgcron.workflow_definition d
    WHERE d.name = 'ad_hoc' AND d.hash = fingerprint LIMIT 1;
  ELSE
    SELECT d.* INTO newest FROM pgcron.workflow_definition d WHERE d.name = store_workflow.name
    ORDER BY d.version DESC LIMIT 1;
  END IF;
  IF newest.hash = fingerprint AND newest.deleted_at IS NULL THEN
    UPDATE pgcron.workflow_definition d SET managed_by = store_workflow.managed_by,
      source = store_workflow.source
    WHERE d.id = newest.id
      AND (d.managed_by, d.source)
          IS DISTINCT FROM (store_workflow.managed_by, store_workflow.source);
    RETURN newest.id;
  END IF;
  PERFORM pgcron.judge_workflow(definition);
  numbered := pgcron.read_steps(definition -> 'steps');
  PERFORM pgcron.judge_dependencies(numbered);
  PERFORM pgcron.refuse_step(n.place, n.step, 'it is the workflow itself',
      'A workflow may be a step of another one, but not within itself.',
      'Repeat a step with "repeat", or name another workflow.')
    FROM unnest(numbered) n WHERE n.step ->> 'handler' = 'workflow:' || store_workflow.name;
  INSERT INTO pgcron.workflow_definition (name, version, definition, hash, on_failure, parallelism,
        timeout, steps, managed_by, source, created_by)
  VALUES (store_workflow.name,
          CASE store_workflow.name WHEN 'ad_hoc' THEN nextval('pgcron.workflow_definition_id_seq')
            ELSE coalesce(newest.version, 0) + 1 END,
          definition, fingerprint, coalesce(definition ->> 'on_failure', 'continue'),
          pgcron.step_number(NULL, definition, 'parallelism', 1, 100000),
          pgcron.step_duration(NULL, definition, 'timeout'),
          jsonb_array_length(definition -> 'steps'), store_workflow.managed_by,
          store_workflow.source, coalesce(actor, session_user))
  ON CONFLICT ON CONSTRAINT workflow_definition_name_version_key DO NOTHING
  RETURNING id INTO new_id;
  IF new_id IS NULL THEN
    -- Somebody else has defined it at the same moment.
    RETURN pgcron.store_workflow(store_workflow.name, definition, store_workflow.managed_by,
             store_workflow.source, actor);
  END IF;
  PERFORM pgcron.write_steps(new_id, numbered);
  PERFORM pgcron.judge_step_runs(new_id, numbered);
  IF store_workflow.name <> 'ad_hoc' THEN PERFORM pgcron.notify(pgcron.channel(), 'workflow');
  END IF;
  RETURN new_id;
END $$;

CREATE FUNCTION pgcron.put_workflow(workflow text, definition jsonb, actor text DEFAULT NULL,
    managed_by text DEFAULT NULL, source text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  stored bigint;
  rule text;
  remedy text;
BEGIN
  PERFORM pgcron.act_as(put_workflow.actor, put_workflow.managed_by);
  PERFORM pgcron.refuse('PC001', format('a workflow can''t have the name %L', left(workflow, 200)),
      'A name has 1 to 197 letters, digits, "_", "." and "-", begins with none of the last two, '
      'and is no number, which is that of a run; ad_hoc is that of definitions without a name.',
      'Choose another one.')
    WHERE (workflow ~ '^(?!([0-9]+|ad_hoc)$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,196}$') IS NOT TRUE;
  BEGIN
    stored := pgcron.store_workflow(put_workflow.workflow, put_workflow.definition,
        coalesce(put_workflow.managed_by, 'sql'), put_workflow.source, put_workflow.actor);
  EXCEPTION WHEN SQLSTATE 'PC001' OR SQLSTATE 'PC004' THEN
    -- anew: of which workflow, and its context would quote every other rule
    GET STACKED DIAGNOSTICS rule = PG_EXCEPTION_DETAIL, remedy = PG_EXCEPTION_HINT;
    PERFORM pgcron.refuse(SQLSTATE, format('workflow %L: %s', workflow, SQLERRM), rule, remedy);
  END;
  RETURN (SELECT d.version FROM pgcron.workflow_definition d WHERE d.id = stored);
END $$;
COMMENT ON FUNCTION pgcron.put_workflow IS
    'Defines a workflow, or its next version, which the next run takes; returns the version. '
    'Nothing happens when it is as it was.';

CREATE FUNCTION pgcron.delete_workflow(workflow text, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM pgcron.refuse('PC011', format('workflow %L is used', delete_workflow.workflow),
      'By ' || users || '.', 'Delete them first, or give them another handler.')
    FROM (SELECT string_agg('schedule ' || CASE WHEN pgcron.schedule_in_scope(s) THEN s.name
                                                ELSE 'of another team' END, ', ') AS users
          FROM (SELECT s.* FROM pgcron.schedule s
                WHERE s.handler = 'workflow:' || delete_workflow.workflow
                ORDER BY s.name LIMIT 5) s) u WHERE users IS NOT NULL;
  UPDATE pgcron.workflow_definition d SET deleted_at = now()
  WHERE d.name = delete_workflow.workflow AND d.name <> 'ad_hoc' AND d.deleted_at IS NULL;
  IF NOT FOUND THEN PERFORM pgcron.refuse_workflow(delete_workflow.workflow); END IF;
  PERFORM pgcron.record_audit('delete', 'workflow', workflow, delete_workflow.actor);
END $$;
COMMENT ON FUNCTION pgcron.delete_workflow IS
    'A workflow that no schedule starts is deleted: it starts no more, and its runs go on.';

CREATE FUNCTION pgcron.refuse_workflow(name text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC010', format('workflow %L does not exist', left(name, 200)),
           'pgcron.put_workflow, a file or an App defines one.',
           '`pgcron-ha workflows list` lists them.') $$;

-- The newest version of a workflow; NULL when there is none. One without a name is that of a run.
CREATE FUNCTION pgcron.newest_workflow(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT d.id FROM pgcron.workflow_definition d
  WHERE d.name = newest_workflow.name AND d.name <> 'ad_hoc' AND d.deleted_at IS NULL
  ORDER BY d.version DESC LIMIT 1 $$;
