-- name: list_workflows
SELECT w.name, w.version, w.description, w.steps, w.on_failure, w.parallelism, w.timeout,
       w.managed_by, w.source, w.created_at, w.created_by, last.run AS last_run,
       CASE WHEN last.run IS NOT NULL THEN coalesce(last.outcome, 'running') END AS last_state,
       last.started_at AS last_started_at, last.ended_at AS last_finished_at
FROM pgcron.workflows w LEFT JOIN LATERAL pgcron.runs_of_workflow(w.name, 1) last ON true
WHERE (num_nonnulls(:owner::text, :tags::text[]) = 0
       OR pgcron.run_has(last.run, :owner::text, :tags::text[]))
ORDER BY w.name LIMIT :limit::int;

-- name: one_workflow
SELECT w.name, w.version, w.description, w.steps, w.on_failure, w.parallelism, w.timeout,
       w.managed_by, w.source, w.created_at, w.created_by, w.id AS definition_id, w.definition
FROM pgcron.workflows w WHERE w.name = :name::text;

-- name: list_workflow_runs
SELECT r.* FROM pgcron.workflow_runs r
WHERE r.run_id = ANY(ARRAY(SELECT e.run FROM pgcron.runs_of_workflow(:name::text, :limit::int) e))
ORDER BY r.run_id DESC;

-- name: one_workflow_run
SELECT r.* FROM pgcron.workflow_runs r WHERE r.run_id = :run_id::bigint;

-- name: steps_of_workflow
-- The id of a step's run is known before the run exists.
SELECT d.number, d.name, d.kind, d.phase, d.handler, d.rule, d.is_optional, d.condition::text,
       d.for_each::text,
       (SELECT u.name FROM pgcron.definition_of(d.definition, d.compensates) u) AS compensates,
       ARRAY(SELECT p.name FROM pgcron.workflow_edge e
             JOIN pgcron.workflow_step p ON p.definition = e.definition AND p.number = e.parent
             WHERE e.definition = d.definition AND e.child = d.number AND p.kind <> 'barrier'
             ORDER BY e.parent) AS after,
       s.state, CASE WHEN s.started_at IS NOT NULL THEN s.step_run END AS step_run, s.items,
       s.items_ended, s.items_failed, s.due, s.started_at, s.ended_at,
       coalesce(s.ended_at, CASE WHEN s.state = 'running' THEN now() END) - s.started_at
         AS duration, s.reason, s.waits_detail
FROM pgcron.workflow_step d
LEFT JOIN pgcron.workflow_steps s ON s.run_id = :run_id::bigint AND s.number = d.number
  AND s.item = -1
WHERE d.definition = :definition::bigint AND d.kind <> 'barrier'
ORDER BY d.number LIMIT :limit::int;

-- name: why_steps
-- What waits for other steps comes last.
SELECT s.run_id, s.name AS step, nullif(s.item, -1) AS item, s.state, s.step_run, s.reason,
       s.waits_detail
FROM pgcron.workflow_steps s
WHERE s.run_id = :run_id::bigint AND s.name = coalesce(:step::text, s.name)
  AND (s.item = -1 OR :step IS NOT NULL)
  AND (s.state IN ('waiting', 'ready', 'running') OR (s.item = -1 AND :step IS NOT NULL))
ORDER BY s.state = 'waiting', s.number, s.item LIMIT :limit::int;

-- name: item_causes
-- Why the first :look items of a step that failed did: those with one fingerprint are one row, with
-- the run of the first that began. Items that were given up since too many had failed come after
-- the others. A workflow, which has no attempts, is grouped by its reason, whatever numbers that
-- has.
SELECT :run_id::bigint AS run_id, :step::text AS step, count(*) AS failed,
       min(f.item) AS first_item, max(f.item) AS last_item, f.state,
       (array_agg(f.step_run ORDER BY f.item)
          FILTER (WHERE f.started_at IS NOT NULL))[1] AS step_run,
       (array_agg(left(f.reason, 300) ORDER BY f.item))[1] AS reason
FROM (SELECT s.item, s.step_run, s.state, s.reason, s.started_at, s.ended_at
      FROM pgcron.workflow_steps s
      WHERE s.run_id = :run_id::bigint AND s.name = :step::text AND s.item >= 0
        AND pgcron.is_failure(s.state)
      ORDER BY s.state = 'cancelled', s.item LIMIT :look::int) f
LEFT JOIN LATERAL (SELECT a.fingerprint FROM pgcron.attempt a
                   WHERE a.run_id = f.step_run AND a.ended_at BETWEEN f.started_at AND f.ended_at
                   ORDER BY a.attempt DESC LIMIT 1) a ON true
GROUP BY f.state, coalesce(a.fingerprint, regexp_replace(left(f.reason, 300), '\d+', '', 'g'))
ORDER BY f.state = 'cancelled', count(*) DESC, min(f.item) LIMIT :limit::int;

-- name: step_results
SELECT s.name, s.item, s.state, s.result, s.reason FROM pgcron.workflow_steps s
WHERE s.run_id = :run_id::bigint ORDER BY s.number, s.item;

-- name: check_workflows
SELECT c.run_id, c.step, c.problem FROM pgcron.check_workflows() c LIMIT :limit::int;
