-- name: page_workflows
-- Workflows by name, each with its newest :runs runs, the oldest of these first.
SELECT w.name, w.version, w.description, w.steps, w.managed_by, w.source, w.created_at,
       last.ids, last.states, last.started
FROM pgcron.workflows w
CROSS JOIN LATERAL (
  SELECT max(r.run) AS run, array_agg(r.run ORDER BY r.run) AS ids,
         array_agg(coalesce(r.outcome, 'running') ORDER BY r.run) AS states,
         array_agg(r.started_at ORDER BY r.run) AS started
  FROM pgcron.runs_of_workflow(w.name, :runs::int) r) last
WHERE (:after::text IS NULL OR w.name > :after::text)
  AND (:text::text IS NULL OR position(lower(:text::text) IN lower(w.name)) > 0)
  AND pgcron.in_scope(NULL, NULL, 'workflow:' || w.name, NULL, NULL)
  AND (num_nonnulls(:owner::text, :tags::text[]) = 0
       OR pgcron.run_has(last.run, :owner::text, :tags::text[]))
ORDER BY w.name LIMIT :limit::int;

-- name: page_workflow
-- The newest version of a workflow that is not deleted; at most :most characters of its definition,
-- laid out if it has no more bytes.
SELECT w.id AS definition_id, w.name, w.version, w.description, w.steps, w.on_failure,
       w.parallelism, w.timeout, w.managed_by, w.source, w.created_at, w.created_by,
       length(w.definition::text) AS characters,
       pgcron.laid_out(w.definition, :most::int) AS definition
FROM pgcron.workflows w WHERE w.name = :name::text;

-- name: page_workflow_graph
-- The numbers of the steps of a version, in order, and its dependencies; the barrier at the end of
-- the workflow, which nothing comes after, is left out.
WITH steps AS MATERIALIZED (
  SELECT s.number FROM pgcron.workflow_step s
  WHERE s.definition = :definition::bigint AND (s.kind <> 'barrier' OR s.children > 0))
SELECT ARRAY(SELECT s.number FROM steps s ORDER BY 1) AS nodes,
       ARRAY(SELECT ARRAY[e.parent, e.child]
             FROM pgcron.workflow_edge e JOIN steps s ON s.number = e.child
             WHERE e.definition = :definition::bigint ORDER BY e.parent, e.child) AS edges;

-- name: page_workflow_nodes
-- The steps of a version as nodes, those after :after; of one run with their states.
SELECT d.number, d.name, d.kind, d.phase, d.handler, d.is_optional, s.state, s.items,
       s.items_ended, s.items_failed
FROM pgcron.workflow_step d
LEFT JOIN LATERAL pgcron.step_of(:run_id::bigint, d.number) s ON true
WHERE d.definition = :definition::bigint AND d.number > coalesce(:after::int, 0)
  AND d.kind <> 'barrier'
ORDER BY d.number LIMIT :limit::int;

-- name: page_workflow_cells
-- The newest :runs runs of a workflow, of any version, with the states of the steps of these names.
SELECT r.run AS id, coalesce(r.outcome, 'running') AS state, v.version, r.started_at, r.ended_at,
       cells.names, cells.states
FROM pgcron.runs_of_workflow(:name::text, :runs::int) r
JOIN pgcron.workflow_definition v ON v.id = r.definition
CROSS JOIN LATERAL (
  SELECT array_agg(d.name) AS names, array_agg(s.state) AS states
  FROM pgcron.workflow_step d
  JOIN pgcron.step s ON s.workflow = r.run AND s.number = d.number AND s.item = -1
  WHERE d.definition = r.definition AND d.name = ANY(:names::text[])) cells
ORDER BY r.run DESC;

-- name: page_workflow_run
-- A workflow that has begun, by the number of its run.
SELECT r.definition, d.name, d.version, d.parallelism, d.steps, r.started_at, r.ended_at,
       r.paused_at, coalesce(r.paused_by, h.paused_by) AS paused_by,
       coalesce(r.paused_note, h.paused_note) AS paused_note, h.run AS held_by, r.stopping,
       r.stop_reason, r.deadline, r.redrive_of
FROM pgcron.workflow_run r JOIN pgcron.workflow_definition d ON d.id = r.definition
LEFT JOIN LATERAL pgcron.held_by(r) h ON r.ended_at IS NULL
WHERE r.run = :run_id::bigint AND r.started_at IS NOT NULL;

-- name: page_step_counts
-- The steps of a run by state; those that run again when the step :cleared does.
SELECT s.state, count(*) AS steps
FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
WHERE s.workflow = :run_id::bigint AND s.item = -1 AND d.kind <> 'barrier'
  AND (:cleared::int IS NULL OR s.number IN (
        SELECT unnest(pgcron.steps_to_clear(w, ARRAY[:cleared::int]))
        FROM pgcron.workflow_run w WHERE w.run = :run_id::bigint))
GROUP BY s.state;

-- name: page_step_groups
-- The steps of a run by groups of their numbers, and each group by state; the first of these steps.
-- Each is looked up by its number, however few PostgreSQL believes there to be.
SELECT c.part, c.state, c.steps, c.first, n.name
FROM (SELECT g.part, s.state, count(*) AS steps, min(g.number) AS first
      FROM unnest(:numbers::int[], :groups::int[]) g(number, part)
      CROSS JOIN LATERAL pgcron.definition_of(:definition::bigint, g.number) d
      LEFT JOIN LATERAL pgcron.step_of(:run_id::bigint, g.number) s ON true
      WHERE d.kind <> 'barrier' GROUP BY g.part, s.state) c
JOIN pgcron.workflow_step n ON n.definition = :definition::bigint AND n.number = c.first
ORDER BY c.part, c.first;

-- name: page_steps
-- Steps of a run, or items of one of them: their numbers between two bounds.
SELECT s.number, s.item, s.name, s.kind, s.phase, s.state, s.handler, s.is_optional, s.step_run,
       s.items, s.items_ended, s.items_failed, s.due, s.started_at, s.ended_at, s.reason,
       CASE WHEN s.ended_at IS NULL THEN s.waits_detail END AS waits_detail
FROM pgcron.workflow_steps s
WHERE s.run_id = :run_id::bigint AND s.number BETWEEN :first::int AND :last::int
  AND s.item BETWEEN :first_item::int AND :last_item::int
  AND (:state::text IS NULL OR s.state = :state::text)
ORDER BY s.number, s.item LIMIT :limit::int;

-- name: page_longest_steps
-- The way through the graph that took until now, or until the end, at most :path steps of it; and
-- the steps that took the longest.
WITH RECURSIVE path(number, length) AS (
  (SELECT s.number, 1 FROM pgcron.step s
   WHERE s.workflow = :run_id::bigint AND s.item = -1 AND s.started_at IS NOT NULL
   ORDER BY coalesce(s.ended_at, 'infinity') DESC, s.started_at DESC LIMIT 1)
  UNION ALL
  SELECT before.number, p.length + 1 FROM path p
  CROSS JOIN LATERAL (
    SELECT e.parent AS number FROM pgcron.workflow_edge e
    CROSS JOIN LATERAL pgcron.step_of(:run_id::bigint, e.parent) s
    WHERE e.definition = :definition::bigint AND e.child = p.number AND s.ended_at IS NOT NULL
    ORDER BY s.ended_at DESC LIMIT 1) before
  WHERE p.length < :path::int)
SELECT d.name, s.state, s.started_at, s.ended_at,
       p.number IS NOT NULL AS is_critical
FROM pgcron.step s CROSS JOIN LATERAL pgcron.definition_of(s.definition, s.number) d
LEFT JOIN path p ON p.number = s.number
WHERE s.workflow = :run_id::bigint AND s.item = -1 AND s.started_at IS NOT NULL
  AND d.kind <> 'barrier'
ORDER BY p.number IS NULL, coalesce(s.ended_at, now()) - s.started_at DESC LIMIT :limit::int;

-- name: page_step
-- One step of a run by its name; at most :most characters of its result, args and definition, each
-- laid out if it has no more bytes.
SELECT s.*, w.version, w.workflow, w.is_open, pgcron.laid_out(s.result, :most::int) AS result_text,
       pgcron.laid_out(own.args, :most::int) AS args, pgcron.laid_out(w.step, :most::int) AS step
FROM (SELECT d.name AS workflow, d.version, r.outcome IS NULL AS is_open,
             (SELECT e FROM jsonb_array_elements(d.definition -> 'steps') e
              WHERE e ->> 'name' = :name::text) AS step,
             (SELECT g.number FROM pgcron.workflow_step g
              WHERE g.definition = d.id AND g.name = :name::text) AS number
      FROM pgcron.workflow_run r JOIN pgcron.workflow_definition d ON d.id = r.definition
      WHERE r.run = :run_id::bigint) w
JOIN pgcron.workflow_steps s ON s.run_id = :run_id::bigint AND s.number = w.number AND s.item = -1
CROSS JOIN LATERAL pgcron.step_of(s.run_id, s.number) own;

-- name: page_item_counts
-- The items of a step by state.
SELECT s.state, count(*) AS steps FROM pgcron.step s
WHERE s.workflow = :run_id::bigint AND s.number = :number::int AND s.item >= 0 GROUP BY s.state;

-- name: page_step_of_run
-- The step whose run this is.
SELECT s.workflow, d.name
FROM pgcron.step s
JOIN pgcron.workflow_step d ON d.definition = s.definition AND d.number = s.number
WHERE s.run = :run_id::bigint AND pgcron.run_in_scope(s.workflow);
