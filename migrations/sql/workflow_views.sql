-- What readers see of workflows, and whether all is well with them.

-- JSON as a page shows it: at most so many characters, laid out if it has no more bytes.
CREATE FUNCTION pgcron.laid_out(document jsonb, most int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN left(CASE WHEN octet_length(document::text) <= most THEN jsonb_pretty(document)
              ELSE document::text END, most);

CREATE VIEW pgcron.workflows AS
  SELECT DISTINCT ON (d.name) d.name, d.version, d.definition ->> 'description' AS description,
         d.steps, d.on_failure, d.parallelism, d.timeout, d.managed_by, d.source, d.created_at,
         d.created_by, d.definition, d.id
  FROM pgcron.workflow_definition d
  WHERE d.deleted_at IS NULL AND d.name <> 'ad_hoc' ORDER BY d.name, d.version DESC;
COMMENT ON VIEW pgcron.workflows IS 'Workflows, each in its newest version.';

-- The newest runs of a workflow that have begun or have a definition, of its newest versions: each
-- has its own in the order of an index.
CREATE FUNCTION pgcron.runs_of_workflow(name text, most int) RETURNS SETOF pgcron.workflow_run
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT r.* FROM (SELECT d.id FROM pgcron.workflow_definition d
                   WHERE d.name = runs_of_workflow.name ORDER BY d.version DESC LIMIT 50) v
  CROSS JOIN LATERAL (SELECT f.* FROM pgcron.workflow_run f WHERE f.definition = v.id
                      ORDER BY f.run DESC LIMIT runs_of_workflow.most) r
  ORDER BY r.run DESC LIMIT runs_of_workflow.most;
END;

CREATE VIEW pgcron.workflow_runs AS
  SELECT w.run AS run_id, d.name, d.version, coalesce(w.outcome, 'running') AS state,
         w.stop_reason AS reason, w.args, w.started_at, w.ended_at AS finished_at, d.steps,
         c.waiting, c.ready, c.running, c.succeeded, c.failed, c.skipped,
         coalesce(w.paused_at, h.paused_at) AS paused_at,
         coalesce(w.paused_by, h.paused_by) AS paused_by,
         coalesce(w.paused_note, h.paused_note) AS paused_note, w.stopping, w.deadline,
         w.redrive_of, w.definition AS definition_id
  FROM pgcron.workflow_run w JOIN pgcron.workflow_definition d ON d.id = w.definition
  CROSS JOIN LATERAL (
      SELECT count(*) FILTER (WHERE s.state = 'waiting') AS waiting,
             count(*) FILTER (WHERE s.state = 'ready') AS ready,
             count(*) FILTER (WHERE s.state = 'running') AS running,
             count(*) FILTER (WHERE s.state = 'succeeded') AS succeeded,
             count(*) FILTER (WHERE pgcron.is_failure(s.state)) AS failed,
             count(*) FILTER (WHERE s.state IN ('skipped', 'superseded')) AS skipped
      FROM pgcron.step s
      -- by no function: who may read the view alone may not read what that reads
      CROSS JOIN LATERAL (SELECT FROM pgcron.workflow_step x
                          WHERE x.definition = s.definition AND x.number = s.number
                            AND x.kind <> 'barrier' LIMIT 1) x
      WHERE s.workflow = w.run AND s.item = -1) c
  LEFT JOIN LATERAL pgcron.held_by(w) h ON w.paused_at IS NULL AND w.ended_at IS NULL
  WHERE w.started_at IS NOT NULL;
COMMENT ON VIEW pgcron.workflow_runs IS
    'Runs of workflows that have begun, and how many of their steps are in which state. paused_at, '
    'paused_by, paused_note: of the pause of the run, or of one above it.';

-- What a step waits for, in a sentence; NULL when it waits for nothing. Rows are found by their
-- keys, however many PostgreSQL believes there are.
CREATE FUNCTION pgcron.step_waits(s pgcron.step, d pgcron.workflow_step) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE s.state
      WHEN 'ready' THEN CASE
          WHEN h.run IS NOT NULL
            THEN concat('the workflow', ' above (run ' || nullif(h.run, w.run) || ')',
                   pgcron.is_paused_by(h.paused_by, h.paused_note))
          WHEN s.number = ANY(w.clearing)
            THEN 'steps that are to run again still execute, and have to end first'
          WHEN pgcron.comes_too_early(s, d) THEN 'steps before it are not over'
          ELSE 'as many steps execute as may' END
      WHEN 'running' THEN CASE
          WHEN d.kind IN ('signal', 'approval', 'timer')
            THEN concat('it waits', ' for the ' || nullif(d.kind, 'timer'),
                   ' until ' || to_char(s.due AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'))
          WHEN s.items IS NOT NULL THEN format('%s of %s items are over', s.items_ended, s.items)
          ELSE (SELECT r.waits_detail FROM pgcron.waiting r WHERE r.id = s.run) END
      WHEN 'waiting' THEN format('it waits for %s of %s steps: %s%s', s.waits, d.parents,
             open.names, CASE WHEN s.waits > 3 THEN ', …' END) END
  FROM pgcron.workflow_run w
  LEFT JOIN LATERAL pgcron.held_by(w) h ON s.state = 'ready'
  LEFT JOIN LATERAL (
      SELECT string_agg(CASE WHEN n.kind = 'barrier' THEN 'all that come before' ELSE n.name END,
               ', ') AS names
      FROM (SELECT p.name, p.kind FROM pgcron.workflow_edge e
            CROSS JOIN LATERAL pgcron.step_of(s.workflow, e.parent) u
            CROSS JOIN LATERAL pgcron.definition_of(e.definition, e.parent) p
            WHERE e.definition = d.definition AND e.child = d.number
              AND NOT pgcron.has_ended(u.state)
            ORDER BY e.parent LIMIT 3) n) open ON s.state = 'waiting'
  WHERE w.run = s.workflow $$;

CREATE VIEW pgcron.workflow_steps AS
  SELECT s.workflow AS run_id, s.number, s.item, d.name, d.kind, d.phase, s.state, d.rule,
         d.handler, d.is_optional,
         CASE WHEN d.kind = 'run' OR s.item >= 0 THEN s.run END AS step_run, s.waits, s.items,
         s.items_ended, s.items_failed, s.due, s.started_at, s.ended_at, s.result, s.reason,
         pgcron.step_waits(s, d) AS waits_detail
  FROM pgcron.step s JOIN pgcron.workflow_step d USING (definition, number)
  WHERE d.kind <> 'barrier';
COMMENT ON VIEW pgcron.workflow_steps IS
    'The steps of workflows that run or ran: item -1 is the step, from 0 on the items of its list. '
    'waits_detail: what keeps it from going on.';

-- What must be true of every workflow, but for what the outbox still holds; a row says what is not.
CREATE FUNCTION pgcron.check_workflows()
  RETURNS TABLE (run_id bigint, step text, problem text)
LANGUAGE sql STABLE AS $$
  WITH quiet AS MATERIALIZED (
    SELECT w.* FROM pgcron.workflow_run w
    WHERE w.look_at IS NULL AND w.clearing IS NULL
      AND NOT EXISTS (SELECT FROM pgcron.step_outbox o WHERE o.workflow = w.run))
  SELECT s.workflow, d.name,
         format('it waits for %s steps, and %s that it depends on are open', s.waits, n.open)
  FROM quiet w JOIN pgcron.step s ON s.workflow = w.run AND s.item = -1 AND s.state = 'waiting'
  JOIN pgcron.workflow_step d ON d.definition = s.definition AND d.number = s.number
  CROSS JOIN LATERAL (SELECT count(*) AS open FROM pgcron.workflow_edge e
                      CROSS JOIN LATERAL pgcron.step_of(w.run, e.parent) u
                      WHERE e.definition = d.definition AND e.child = d.number
                        AND NOT pgcron.has_ended(u.state)) n
  WHERE s.waits <> n.open
    OR pgcron.judge_step(d.rule, s.waits, s.good, s.bad, s.skipped) <> 'wait'
  UNION ALL
  SELECT s.workflow, d.name, 'its run is over, and the step is not'
  FROM quiet w JOIN pgcron.step s ON s.workflow = w.run AND s.state = 'running'
  CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
  WHERE (d.kind = 'run' OR s.item >= 0) AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = s.run)
  UNION ALL
  SELECT w.run, NULL, CASE WHEN w.ended_at IS NULL THEN 'its run is gone, and it is not over'
                        ELSE 'it is over, and its run is not' END FROM quiet w
  WHERE (w.ended_at IS NULL) <> EXISTS (SELECT FROM pgcron.run r WHERE r.id = w.run)
  UNION ALL
  SELECT w.run, NULL, 'nothing of it is open, and it is not over' FROM quiet w
  WHERE w.ended_at IS NULL AND w.started_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM pgcron.step s
                    WHERE s.workflow = w.run AND NOT pgcron.has_ended(s.state))
  UNION ALL
  SELECT r.parent_run, NULL, format('no step of it knows run %s, which executes one', r.id)
  FROM pgcron.run r
  WHERE r.origin = 'step' AND NOT EXISTS (SELECT FROM pgcron.step s WHERE s.run = r.id)
  UNION ALL
  SELECT r.id, NULL, 'it is blocked as a workflow, and is none' FROM pgcron.run r
  WHERE r.gate = 'workflow'
    AND NOT EXISTS (SELECT FROM pgcron.workflow_run w WHERE w.run = r.id) $$;
COMMENT ON FUNCTION pgcron.check_workflows IS
    'What is wrong with workflows: nothing, if all is well.';
