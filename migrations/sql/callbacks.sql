-- A service that an http: run has called reports later, by a callback, how it ended. The report is
-- kept here until the node that waits for it has read it, or is known to be dead.

CREATE TABLE pgcron.callback (
  run_id bigint NOT NULL,
  fence bigint NOT NULL,
  token_hash bytea NOT NULL CONSTRAINT a_callback_token_is_kept_as_sha256
    CHECK (octet_length(token_hash) = 32),
  opened_at timestamptz NOT NULL DEFAULT now(),
  -- The run was stopped: nothing more is taken.
  closed_at timestamptz,
  answered_at timestamptz,
  -- How it ended; NULL: the service has not reported it.
  status text CONSTRAINT an_answer_is_known
    CHECK (status IN ('succeeded', 'failed', 'discarded', 'retry')),
  result jsonb,
  error text,
  retry_after float8 CONSTRAINT an_answer_asks_for_no_negative_delay CHECK (retry_after >= 0),
  -- Progress or lines that the node has not fetched.
  has_news boolean NOT NULL DEFAULT false,
  done float8,
  total float8,
  note text,
  lines text[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (run_id, fence),
  CONSTRAINT an_answer_has_its_time CHECK ((status IS NULL) = (answered_at IS NULL))
);
CREATE INDEX callback_age ON pgcron.callback (opened_at);
COMMENT ON TABLE pgcron.callback IS
    'Attempts that wait, or waited within the last day, for a service''s callback. The token '
    'itself is nowhere but in the request that the service got.';

-- A hash is compared as any other value: how long that takes reveals nothing of the token, which is
-- random and can't be computed from its hash.

-- Positions, from 1 on, of those attempts whose token has the hash beside them: checked before a
-- body is read.
CREATE FUNCTION pgcron.known_callbacks(runs bigint[], fences bigint[], token_hashes bytea[])
  RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER SET enable_seqscan = off AS $$
  SELECT coalesce(array_agg(given.position), '{}')
  FROM unnest(runs, fences, token_hashes) WITH ORDINALITY
    given(run_id, fence, token_hash, position)
  JOIN pgcron.callback c ON c.run_id = given.run_id AND c.fence = given.fence
    AND c.token_hash = given.token_hash $$;

-- Takes the report of a called service: status succeeded, failed, discarded, retry, or NULL while
-- it goes on. It counts only with the hash of the token and the fence of the attempt, and while
-- this attempt holds the run. The run's row is locked as a service's transaction locks it: what
-- takes the run away comes before, and the report is refused, or after, and sees it. Returns
-- `taken`, `again` (the same report came before), `other` (another one did), `gone` (the attempt is
-- over) or `unknown` (no such token, whichever part is wrong).
CREATE FUNCTION pgcron.answer_callback(run bigint, fence bigint, token_hash bytea, status text,
    result jsonb DEFAULT NULL, error text DEFAULT NULL, retry_after float8 DEFAULT NULL,
    done float8 DEFAULT NULL, total float8 DEFAULT NULL, note text DEFAULT NULL,
    lines text[] DEFAULT '{}') RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
  kept pgcron.callback;
BEGIN
  SELECT c.* INTO kept FROM pgcron.callback c
  WHERE c.run_id = answer_callback.run AND c.fence = answer_callback.fence
    AND c.token_hash = answer_callback.token_hash FOR UPDATE;
  IF NOT FOUND THEN RETURN 'unknown'; END IF;
  IF kept.status IS NOT NULL AND answer_callback.status IS NOT NULL THEN
    RETURN CASE WHEN (kept.status, kept.result, kept.error, kept.retry_after) IS NOT DISTINCT FROM
                     (answer_callback.status, answer_callback.result, answer_callback.error,
                       answer_callback.retry_after) THEN 'again'
                ELSE 'other' END;
  END IF;
  IF kept.status IS NOT NULL OR kept.closed_at IS NOT NULL THEN RETURN 'gone'; END IF;
  PERFORM FROM pgcron.run r
    WHERE r.id = kept.run_id AND r.fence = kept.fence AND r.state = 'running' FOR SHARE;
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  UPDATE pgcron.callback c
  SET answered_at = CASE WHEN answer_callback.status IS NOT NULL THEN clock_timestamp() END,
      status = answer_callback.status, result = answer_callback.result,
      error = answer_callback.error, retry_after = answer_callback.retry_after, has_news = true,
      done = coalesce(answer_callback.done, c.done),
      total = CASE WHEN answer_callback.done IS NULL THEN c.total ELSE answer_callback.total END,
      note = CASE WHEN answer_callback.done IS NULL THEN c.note ELSE answer_callback.note END,
      -- more than a node fetches in a second, and bounded when none does
      lines = (c.lines || answer_callback.lines)[1:1000]
  WHERE c.run_id = kept.run_id AND c.fence = kept.fence;
  PERFORM pgcron.notify(pgcron.channel(), 'callback');
  RETURN 'taken';
END $$;
