-- name: start_claimed_workflows
-- running -> blocked
-- running -> dead

-- name: workflows_to_advance

-- name: advance_workflow
-- blocked -> succeeded
-- blocked -> dead
-- blocked -> cancelled

-- name: workflow_names
-- What any node may begin, besides those without a name: workflows are executed by the database.
-- What waits of a deleted one ends dead, and does not wait for ever.
SELECT DISTINCT 'workflow:' || d.name AS handler FROM pgcron.workflow_definition d
WHERE d.name <> 'ad_hoc';

-- name: forget_workflows
-- Their steps, for as long as ended runs are kept; those of a dead letter, which a redrive looks at
-- when it begins, as long as that, and as the redrives of it that have not succeeded. So many steps
-- at once, but for those that somebody has locked, and the workflows when none of theirs is left.
WITH old AS MATERIALIZED (
  SELECT o.run FROM pgcron.workflow_run o WHERE o.ended_at < (SELECT pgcron.kept_since('history'))
    AND NOT EXISTS (SELECT FROM pgcron.dead_letter d WHERE d.run_id = o.run)
    AND NOT EXISTS (SELECT FROM pgcron.workflow_run w
                    WHERE w.redrive_of = o.run AND w.outcome IS DISTINCT FROM 'succeeded')
  ORDER BY o.ended_at LIMIT :at_most FOR UPDATE SKIP LOCKED),
free AS MATERIALIZED (
  SELECT x.ctid AS place FROM old o JOIN pgcron.step x ON x.workflow = o.run
  LIMIT 10 * :at_most FOR UPDATE OF x SKIP LOCKED),
steps AS (
  DELETE FROM pgcron.step s WHERE s.ctid = ANY(ARRAY(SELECT f.place FROM free f)) RETURNING 1),
runs AS (
  DELETE FROM pgcron.workflow_run g WHERE g.run = ANY(ARRAY(SELECT o.run FROM old o))
    AND NOT EXISTS (SELECT FROM pgcron.step x
                    WHERE x.workflow = g.run AND x.ctid NOT IN (SELECT f.place FROM free f)
                    OFFSET 0)
  RETURNING 1)
SELECT 1 AS gone FROM steps UNION ALL SELECT 1 FROM runs;

-- name: forget_definitions
-- Versions that start no more and that no run is left of; fewer at once when they have many steps.
WITH gone AS (
  DELETE FROM pgcron.workflow_definition g WHERE g.id = ANY(ARRAY(
    SELECT s.id FROM (
      SELECT o.id, sum(o.steps) OVER (ROWS UNBOUNDED PRECEDING) - o.steps AS before
      FROM (SELECT o.id, o.steps FROM pgcron.workflow_definition o
            WHERE o.created_at < (SELECT pgcron.kept_since('history'))
              AND (o.name = 'ad_hoc' OR o.deleted_at IS NOT NULL OR o.version < (
                    SELECT max(n.version) FROM pgcron.workflow_definition n WHERE n.name = o.name))
              AND NOT EXISTS (SELECT FROM pgcron.workflow_run w WHERE w.definition = o.id)
            LIMIT :at_most FOR UPDATE SKIP LOCKED) o) s
    WHERE s.before < 10 * :at_most)) RETURNING g.steps)
SELECT generate_series(1, g.steps) AS gone FROM gone g;
