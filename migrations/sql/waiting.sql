-- Waiting for the end of a run from SQL, by looks that get rarer: only a connection that listens
-- can be notified of it.

-- One look at a run of the caller's. Refuses what could only be a wait in vain.
CREATE FUNCTION pgcron.look_for_end(run_id bigint, OUT ended boolean, OUT state text,
    OUT result jsonb, OUT error text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  is_own boolean;      -- this very transaction has made it
BEGIN
  SELECT false, r.state, r.created_at = now() INTO ended, state, is_own FROM pgcron.run r
  WHERE r.id = look_for_end.run_id AND pgcron.may_read_run(r.created_by, r.created_login);
  IF NOT FOUND THEN
    SELECT true, s.state, s.result, s.error INTO ended, state, result, error
    FROM pgcron.run_status(look_for_end.run_id) s;
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', look_for_end.run_id),
        'There is no such run, or it is not yours and you may not read those of others, or its '
        'history is no longer kept.',
        'pgcron.enqueue gives the id of a run.')
      WHERE NOT FOUND;
  ELSIF is_own THEN
    PERFORM pgcron.refuse('PC011',
        format('run %s was made by this very transaction', look_for_end.run_id),
        'Until it is committed no node sees it: it would be waited for in vain.',
        'Commit first, then wait.');
  ELSIF current_setting('transaction_isolation') NOT LIKE 'read %' THEN
    PERFORM pgcron.refuse('PC011',
        format('run %s is not over for this transaction, and never will be', look_for_end.run_id),
        format('With isolation level %s a transaction sees what there was when it began.',
          current_setting('transaction_isolation')),
        'Wait outside of it, or with READ COMMITTED.');
  END IF;
END $$;

CREATE FUNCTION pgcron.judge_wait(timeout interval, most interval, remedy text) RETURNS timestamptz
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC001',
           format('timeout %s is out of range', coalesce(timeout::text, 'NULL')),
           format('Here a wait takes between nothing and %s.', most), remedy)
  WHERE (timeout BETWEEN '0' AND most) IS NOT TRUE;
  SELECT clock_timestamp() + timeout $$;

-- Until the next look: at first soon, in the end twice a second, and not beyond the end of the
-- wait.
CREATE FUNCTION pgcron.pause_of_look(looks int, until timestamptz) RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(0,
           least(0.5, 0.01 * 1.5 ^ least(looks, 20),
             extract(epoch FROM until - clock_timestamp())))::float8 $$;

CREATE FUNCTION pgcron.wait(run_id bigint, timeout interval DEFAULT '10 s', OUT ended boolean,
    OUT state text, OUT result jsonb, OUT error text)
LANGUAGE plpgsql AS $$
DECLARE
  until timestamptz := pgcron.judge_wait(timeout, '1 minute',
      'Call it again for as long as ended is false, or CALL pgcron.wait_long, outside of a '
      'transaction.');
  looks int := 0;
BEGIN
  LOOP
    SELECT l.* INTO ended, state, result, error FROM pgcron.look_for_end(wait.run_id) l;
    EXIT WHEN ended OR clock_timestamp() >= until;
    PERFORM pg_sleep(pgcron.pause_of_look(looks, until));
    looks := looks + 1;
  END LOOP;
END $$;
COMMENT ON FUNCTION pgcron.wait IS
    'Waits for the end of a run, up to a minute: state is the outcome when it has ended, and '
    'otherwise its live state. Holds a connection, and a snapshot: vacuum leaves what dies '
    'meanwhile.';

CREATE PROCEDURE pgcron.wait_long(run_id bigint, timeout interval DEFAULT '10 minutes',
    INOUT ended boolean DEFAULT NULL, INOUT state text DEFAULT NULL,
    INOUT result jsonb DEFAULT NULL, INOUT error text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE      -- It commits, so it can't have a path of its own: every name is qualified.
  until timestamp with time zone := pgcron.judge_wait(timeout, '1 day',
      'Call it again for as long as ended is false.');
  looks int := 0;
BEGIN
  -- A procedure can't know that it can't commit; of a transaction that has only read, PostgreSQL
  -- itself says so (2D000).
  PERFORM pgcron.refuse('PC011', 'pgcron.wait_long is called within a transaction',
      'It commits after each look, so that vacuum need not wait for it.',
      'Call it with autocommit, or SELECT * FROM pgcron.wait(…).')
    WHERE pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL;
  LOOP
    SELECT l.* INTO ended, state, result, error FROM pgcron.look_for_end(wait_long.run_id) l;
    EXIT WHEN ended OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) until;
    COMMIT;
    PERFORM pg_catalog.pg_sleep(pgcron.pause_of_look(looks, until));
    COMMIT;
    looks := looks OPERATOR(pg_catalog.+) 1;
  END LOOP;
END $$;
COMMENT ON PROCEDURE pgcron.wait_long IS
    'As pgcron.wait, up to a day, outside of a transaction: commits after each look, and so keeps '
    'no snapshot. CALL pgcron.wait_long(42).';
