-- Workflows that run. A workflow is a run; while its steps are open it is blocked (gate
-- `workflow`). A step's run is made when its dependencies allow it, in the transaction that ends
-- the last of them. What that transaction can't do at once, as others have rows locked, it is
-- another program's, an item of a list has ended, or there is too much, is left in an outbox, from
-- which every node goes on.

CREATE TABLE pgcron.workflow_run (
  run bigint PRIMARY KEY,
  definition bigint NOT NULL REFERENCES pgcron.workflow_definition,
  -- Its steps are written up to this number.
  made int NOT NULL DEFAULT 0,
  args jsonb NOT NULL DEFAULT '{}',
  started_at timestamptz,
  ended_at timestamptz,
  outcome text,
  paused_at timestamptz,
  paused_by text,
  paused_note text,
  -- Why no further step begins. stop: a step failed, and those that execute go on; kill: they are
  -- ended, too; cancel: as kill, and compensations and what runs finally begin yet; abort: nothing
  -- more begins.
  stopping text CONSTRAINT a_workflow_stops_in_a_known_way
    CHECK (stopping IN ('stop', 'kill', 'cancel', 'abort')),
  stop_reason text,
  deadline timestamptz,
  -- When a service is to look at it; NULL: when something of it ends.
  look_at timestamptz,
  -- Steps to be run again, and all below them, when none of those executes any more.
  clearing int[],
  redrive_of bigint,
  -- The workflow that it is a step of.
  above bigint,
  -- The concurrency keys that it and the workflows above it hold, and their names: a step that
  -- needs one of them would wait for itself.
  keys text[] NOT NULL DEFAULT '{}',
  names text[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 70);
COMMENT ON TABLE pgcron.workflow_run IS
    'Runs that are workflows; kept as long as their history, dead letters and redrives.';
CREATE INDEX workflow_run_look ON pgcron.workflow_run (look_at) WHERE look_at IS NOT NULL;
CREATE INDEX workflow_run_deadline ON pgcron.workflow_run (deadline)
  WHERE deadline IS NOT NULL AND ended_at IS NULL AND coalesce(stopping, 'stop') = 'stop';
CREATE INDEX workflow_run_ended ON pgcron.workflow_run (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX workflow_run_redrive ON pgcron.workflow_run (redrive_of) WHERE redrive_of IS NOT NULL;
CREATE INDEX workflow_run_definition ON pgcron.workflow_run (definition, run);

-- item: -1 for the step itself, from 0 on the items of its list. waits counts its dependencies that
-- are open; good, bad and skipped how the others ended. run: the id that its run has, or will have:
-- what an earlier run of it does counts no more.
CREATE TABLE pgcron.step (
  workflow bigint NOT NULL REFERENCES pgcron.workflow_run ON DELETE CASCADE,
  number int NOT NULL,
  item int NOT NULL DEFAULT -1,
  definition bigint NOT NULL,
  run bigint NOT NULL,
  state text NOT NULL DEFAULT 'waiting' CONSTRAINT a_step_has_a_known_state
    CHECK (state IN ('waiting', 'ready', 'running', 'succeeded', 'dead', 'lost', 'cancelled',
        'skipped', 'superseded', 'expired', 'upstream_failed')),
  waits int NOT NULL,
  good int NOT NULL DEFAULT 0,
  bad int NOT NULL DEFAULT 0,
  skipped int NOT NULL DEFAULT 0,
  items int,
  items_ended int,
  items_failed int,
  -- How often it was executed as a loop; NULL: no more than once, it was not cleared, and what a
  -- redrive finds of it may be kept.
  turns int,
  -- When a timer ends, or nobody waits for a signal any more.
  due timestamptz,
  started_at timestamptz,
  ended_at timestamptz,
  -- Of a step whose args were changed by hand; of an item its value.
  args jsonb,
  result jsonb,
  reason text,
  PRIMARY KEY (workflow, number, item),
  CONSTRAINT a_step_waits_for_no_less_than_nothing CHECK (waits >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE pgcron.step IS 'The steps of workflows that run or ran.';
CREATE UNIQUE INDEX step_run ON pgcron.step (run);
CREATE INDEX step_ready ON pgcron.step (workflow, number, item) WHERE state = 'ready';
CREATE INDEX step_due ON pgcron.step (due) WHERE due IS NOT NULL AND state = 'running';
-- Of most steps no result is kept: so those that others come after are found without their rows.
CREATE INDEX step_result ON pgcron.step (workflow, number) WHERE result IS NOT NULL AND item = -1;
CREATE INDEX step_failed ON pgcron.step (workflow, number)
  WHERE state IN ('dead', 'lost', 'cancelled', 'expired', 'upstream_failed');

-- What is still to be done for an end. run: that run of a step has ended so. parent: it ended so,
-- which is to be counted for its children after the number `after`. child: so many ends are to be
-- counted for it, or with is_command a person ends it, or without an outcome lets it run again; it
-- is named by its number, as it may have another run by then. None of them: its workflow is to be
-- looked at.
CREATE TABLE pgcron.step_outbox (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workflow bigint NOT NULL,
  run bigint,
  outcome text,
  result jsonb,
  reason text,
  parent int,
  after int,
  child int,
  ends int,
  good int,
  skipped int,
  is_command boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE pgcron.step_outbox IS
    'Ends of steps that are not yet counted for their dependents; empty after a moment.';
CREATE INDEX step_outbox_workflow ON pgcron.step_outbox (workflow, id);

CREATE TABLE pgcron.step_signal (
  workflow bigint NOT NULL REFERENCES pgcron.workflow_run ON DELETE CASCADE,
  name text NOT NULL,
  payload jsonb,
  -- who sent it and why
  reason text NOT NULL,
  PRIMARY KEY (workflow, name)
);
COMMENT ON TABLE pgcron.step_signal IS 'Signals that came before their step; the last one counts.';

CREATE FUNCTION pgcron.wake_workflows() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  -- Most statements that may write find nothing to be written.
  IF EXISTS (SELECT FROM written) THEN PERFORM pgcron.wake_nodes('workflow'); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER wake_workflows AFTER INSERT ON pgcron.step_outbox REFERENCING NEW TABLE AS written
  FOR EACH STATEMENT EXECUTE FUNCTION pgcron.wake_workflows();

-- A run of a step has ended, in whatever transaction: it holds no lock that others wait for.
CREATE FUNCTION pgcron.step_ended(run_id bigint, outcome text, result jsonb, reason text)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO pgcron.step_outbox (workflow, run, outcome, result, reason)
  SELECT s.workflow, s.run, step_ended.outcome, step_ended.result, left(step_ended.reason, 1000)
  FROM pgcron.step s WHERE s.run = step_ended.run_id $$;

-- Of runs that end, those that are workflows and have not begun are over, too.
CREATE FUNCTION pgcron.workflows_ended(run_ids bigint[], outcome text) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.workflow_run w SET ended_at = now(), outcome = workflows_ended.outcome
  WHERE w.run = ANY(run_ids) AND w.started_at IS NULL $$;

-- What a definition says of a step. In this form each is looked up by its key, however few rows
-- PostgreSQL believes the table to have: it would go through all steps in the order of their names.
CREATE FUNCTION pgcron.definition_of(definition bigint, number int)
  RETURNS SETOF pgcron.workflow_step
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT x.* FROM pgcron.workflow_step x
  WHERE x.definition = definition_of.definition
    AND x.number BETWEEN definition_of.number AND definition_of.number ORDER BY x.number LIMIT 1;
END;

-- A step of a workflow, or an item of its list, by its key, too.
CREATE FUNCTION pgcron.step_of(workflow bigint, number int, item int DEFAULT -1)
  RETURNS SETOF pgcron.step
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT x.* FROM pgcron.step x WHERE x.workflow = step_of.workflow
    AND x.number = step_of.number AND x.item = step_of.item LIMIT 1;
END;

CREATE FUNCTION pgcron.step_state(workflow bigint, number int) RETURNS text
LANGUAGE sql STABLE
RETURN (SELECT s.state FROM pgcron.step_of(workflow, number) s);

CREATE FUNCTION pgcron.has_ended(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN state NOT IN ('waiting', 'ready', 'running');

-- The outcomes that are failures; the index step_failed has the same list.
CREATE FUNCTION pgcron.is_failure(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN state IN ('dead', 'lost', 'cancelled', 'expired', 'upstream_failed');

-- How an end counts for the steps that wait for it: good, bad or skipped.
CREATE FUNCTION pgcron.counts_as(outcome text, is_optional boolean) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN outcome IN ('skipped', 'superseded') THEN 'skipped'
            WHEN outcome = 'succeeded' OR is_optional THEN 'good' ELSE 'bad' END;

-- Whether results of these steps, or of their items, have more bytes as text than may be put
-- together: no more of them are read than show it.
CREATE FUNCTION pgcron.results_exceed(most int, workflow bigint, numbers int[],
    first_item int DEFAULT -1, last_item int DEFAULT -1) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM (
      SELECT sum(octet_length(s.result::text)) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM pgcron.step s
      WHERE s.workflow = results_exceed.workflow AND s.number IN (SELECT unnest(numbers))
        AND s.item BETWEEN first_item AND last_item AND s.result IS NOT NULL) r
    WHERE r.bytes > most) $$;
