-- Secret args and results, which only who has a key can read (docs/how-to/secrets.md).

-- The encrypted values of a run, for who has the key, and a row of the audit that says who asked.
CREATE FUNCTION pgcron.reveal(run_id bigint, actor text DEFAULT NULL, OUT handler text,
    OUT args jsonb, OUT result jsonb)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  SELECT r.handler, r.args, r.result INTO handler, args, result FROM pgcron.runs r
  WHERE r.id = reveal.run_id LIMIT 1;
  IF handler IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', run_id),
        'It was never enqueued, its transaction was rolled back, or retention removed it.',
        '`pgcron-ha runs list` lists runs.');
  END IF;
  PERFORM pgcron.record_audit('reveal', 'run', run_id::text, actor);
END $$;
COMMENT ON FUNCTION pgcron.reveal IS
    'The encrypted args and result of a run; the audit has who asked for them.';
