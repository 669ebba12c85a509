-- name: reveal

-- name: stale_secrets
-- What is open, or may run again, with args that another key has encrypted: after a number, in its
-- order.
SELECT s.id, s.handler, s.args FROM (
  SELECT r.id, r.handler, r.args FROM pgcron.run r WHERE :kind = 'run'
  UNION ALL
  SELECT d.id, d.handler, d.args FROM pgcron.schedule d WHERE :kind = 'schedule'
  UNION ALL
  SELECT l.run_id, l.handler, l.args FROM pgcron.dead_letter l WHERE :kind = 'dead letter') s
WHERE s.id > :after::bigint
  AND pg_catalog.jsonb_path_exists(s.args, '$.*."$secret".key ? (@ != $key)',
      pg_catalog.jsonb_build_object('key', :key::text))
ORDER BY s.id LIMIT :at_most::int;

-- name: stale_elsewhere
-- How many edited fires to come, and backfills that are not over, have args of another key.
SELECT s.kind, pg_catalog.count(*) AS "left" FROM (
  SELECT 'edited fire' AS kind, o.args FROM pgcron.occurrence_override o
  JOIN pgcron.cursor c ON c.schedule_id = o.schedule_id
  WHERE o.fire_at > least(c.watermark, now())
  UNION ALL
  SELECT 'backfill', coalesce(b.args, b.definition -> 'args') FROM pgcron.backfill b
  WHERE b.ended_at IS NULL) s
WHERE pg_catalog.jsonb_path_exists(s.args, '$.*."$secret".key ? (@ != $key)',
    pg_catalog.jsonb_build_object('key', :key::text))
GROUP BY s.kind ORDER BY s.kind;

-- name: rotate_run
-- If it is as it was read, and no node has it.
UPDATE pgcron.run r SET args = :args::text::jsonb
WHERE r.id = :id::bigint AND r.args = :old::text::jsonb AND r.state <> 'running' RETURNING r.id;

-- name: rotate_schedule
WITH acting AS MATERIALIZED (SELECT pgcron.act_as(:actor::text, 'cli'))
UPDATE pgcron.schedule s SET args = :args::text::jsonb FROM acting
WHERE s.id = :id::bigint AND s.args = :old::text::jsonb RETURNING s.id;

-- name: rotate_dead_letter
UPDATE pgcron.dead_letter d SET args = :args::text::jsonb
WHERE d.run_id = :id::bigint AND d.args = :old::text::jsonb RETURNING d.run_id AS id;

-- name: erase
