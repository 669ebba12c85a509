-- What a claim's token is good for in the transaction of another program: to refuse what comes too
-- late, to read what the fire before it did, and to complete the run with it.

-- An assertion lives no longer than its transaction: it is judged, and removed, at the very end of
-- it. A plain table, and not an unlogged one, which no standby could be dumped with.
CREATE TABLE pgcron.assertion (
  transaction xid8 NOT NULL DEFAULT pg_current_xact_id(),
  run bigint NOT NULL,
  token uuid NOT NULL,
  PRIMARY KEY (transaction, run, token)
);
COMMENT ON TABLE pgcron.assertion IS
    'Claims that transactions under way rely on; empty whenever none is.';

-- The lock is taken at the end and not at the beginning. Locked at the beginning, a service that is
-- slow, or gone with its transaction open, would keep every node from taking the run away, and the
-- owner from recording how its runs ended: a zombie must not delay the takeover. FOR SHARE, since a
-- claim that is given back is an UPDATE of no key column. All claims of a transaction are locked by
-- the first of its assertions, in the order of ids, as wherever several runs are locked.
CREATE FUNCTION pgcron.judge_assertions() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
  asserted record;
BEGIN
  FOR asserted IN SELECT a.run, a.token FROM pgcron.assertion a
      WHERE a.transaction = pg_current_xact_id() ORDER BY a.run LOOP
    PERFORM FROM pgcron.run r WHERE r.id = asserted.run AND r.token = asserted.token FOR SHARE;
    IF NOT FOUND THEN PERFORM pgcron.refuse_claim(asserted.run); END IF;
  END LOOP;
  DELETE FROM pgcron.assertion a WHERE a.transaction = pg_current_xact_id();
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER the_claim_holds_at_commit AFTER INSERT ON pgcron.assertion
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pgcron.judge_assertions();

CREATE FUNCTION pgcron.refuse_claim(run bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC012', format('the claim of run %s is over', coalesce(run::text, 'NULL')),
           'The token is not the one that holds the run: it has ended, was given back, or is '
           'executed by another node now.',
           'Roll back and do nothing more for this run; another attempt does the work, or has '
           'done it.') $$;

-- For a service that works for a run in a transaction of its own; it may call this at any time in
-- it.
CREATE FUNCTION pgcron.assert_token(run_id bigint, token uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
BEGIN
  PERFORM FROM pgcron.run r WHERE r.id = assert_token.run_id AND r.token = assert_token.token;
  IF NOT FOUND THEN PERFORM pgcron.refuse_claim(assert_token.run_id); END IF;
  INSERT INTO pgcron.assertion (run, token) VALUES (assert_token.run_id, assert_token.token)
  ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION pgcron.assert_token IS
    'Raises PC012 now, or at the end of the caller''s transaction, if the token does not hold the '
    'run (any more): it can''t commit after the run was taken away. Nobody waits for the caller '
    'before its COMMIT.';

-- As pgcron.previous_run, for a service that works for a run and may read no table. All NULL
-- without a schedule, too.
CREATE FUNCTION pgcron.previous_of(run_id bigint, token uuid, OUT previous bigint,
    OUT fire_time timestamptz, OUT outcome text, OUT finished_at timestamptz, OUT result jsonb,
    OUT error text)
LANGUAGE sql STABLE SECURITY DEFINER AS $$
  SELECT pgcron.refuse_claim(run_id)
  WHERE NOT EXISTS (SELECT FROM pgcron.run r
                    WHERE r.id = previous_of.run_id AND r.token = previous_of.token);
  SELECT p.* FROM pgcron.run r
  CROSS JOIN LATERAL pgcron.previous_run(r.schedule_id,
      coalesce(r.scheduled_for, r.nominal_for)) p
  WHERE r.id = previous_of.run_id $$;
COMMENT ON FUNCTION pgcron.previous_of IS
    'How the last run before this one''s fire time ended, and with what result, for a service or '
    'a statement that works for the run and has its token. Raises PC012 if that does not hold the '
    'run.';

-- running -> succeeded
-- The fenced completion inside the transaction that holds the handler's effects. Raising, and not
-- answering "no", leaves nothing that could be committed without it.
CREATE FUNCTION pgcron.finish_run(run_id bigint, token uuid, elapsed float8 DEFAULT NULL,
    result jsonb DEFAULT NULL, node text DEFAULT NULL, keep_args boolean DEFAULT true)
  RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
  ending pgcron.run;
BEGIN
  PERFORM pgcron.refuse_size('the result', finish_run.result);
  SELECT r.* INTO ending FROM pgcron.run r
  WHERE r.id = finish_run.run_id AND r.token = finish_run.token FOR UPDATE;
  IF NOT FOUND THEN PERFORM pgcron.refuse_claim(finish_run.run_id); END IF;
  -- It held until here, and can't be taken away from here on.
  DELETE FROM pgcron.assertion a
  WHERE a.transaction = pg_current_xact_id() AND a.run = finish_run.run_id;
  ending.started_at := coalesce(ending.started_at,
      clock_timestamp() - finish_run.elapsed * interval '1 second');
  IF NOT keep_args THEN ending.args := NULL; END IF;
  PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, finish_run.node, finish_run.result,
      clock_timestamp());
END $$;
COMMENT ON FUNCTION pgcron.finish_run IS
    'Completes a run inside the caller''s transaction: its effects and the completion are '
    'committed together or not at all. Raises PC012 if the token does not hold the run. With '
    'keep_args false history keeps none of its args.';
