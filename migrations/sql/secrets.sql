-- Secret args and results, which only who has a key can read (docs/how-to/secrets.md).

-- The encrypted values of a run, for who has the key, and a row of the audit that says who asked.
CREATE FUNCTION pgcron.reveal(run_id bigint, actor text DEFAULT NULL, OUT handler text,
    OUT args jsonb, OUT result jsonb)
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.ended_run(run_id)
  WHERE NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = reveal.run_id);
  SELECT pgcron.record_audit('reveal', 'run', run_id::text, actor);
  SELECT r.handler, r.args, r.result FROM pgcron.runs r WHERE r.id = reveal.run_id LIMIT 1 $$;
COMMENT ON FUNCTION pgcron.reveal IS
    'The encrypted args and result of a run; the audit has who asked for them.';
