-- What was decided and how it ended: occurrences, missed ranges, history, attempts, dead
-- letters, logs.

CREATE TABLE pgcron.occurrence (
  schedule_id bigint NOT NULL,
  fire_at timestamptz NOT NULL,
  decision text NOT NULL CONSTRAINT a_decision_is_known
    CHECK (decision IN ('run', 'skipped', 'superseded', 'expired', 'cancelled', 'upstream_failed')),
  reason text,
  run_id bigint,
  decided_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (schedule_id, fire_at),
  CONSTRAINT a_fire_that_does_not_run_says_why CHECK (decision = 'run' OR reason IS NOT NULL),
  CONSTRAINT a_fire_that_runs_names_its_run CHECK (decision <> 'run' OR run_id IS NOT NULL)
) PARTITION BY RANGE (fire_at);
COMMENT ON TABLE pgcron.occurrence IS
    'The ledger and the permanent fence: one row for each fire time that was decided singly.';

CREATE TABLE pgcron.missed (
  schedule_id bigint NOT NULL,
  first_at timestamptz NOT NULL,
  last_at timestamptz NOT NULL,
  fires int CONSTRAINT a_count_of_missed_fires_is_not_negative CHECK (fires >= 0),
  reason text NOT NULL,
  note text,
  decided_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (schedule_id, first_at),
  CONSTRAINT a_range_does_not_end_before_it_begins CHECK (last_at >= first_at)
);
COMMENT ON TABLE pgcron.missed IS
    'Fires that were dropped together: every fire of the schedule from first_at to last_at, both '
    'included, that has no row of its own in occurrence. fires is NULL when there were too many '
    'to count.';

CREATE TABLE pgcron.occurrence_override (
  schedule_id bigint NOT NULL REFERENCES pgcron.schedule ON DELETE CASCADE,
  fire_at timestamptz NOT NULL,
  action text NOT NULL CONSTRAINT an_override_skips_moves_or_edits
    CHECK (action IN ('skip', 'move', 'edit')),
  due_at timestamptz,
  args jsonb CONSTRAINT override_args_are_an_object_of_256_kib
    CHECK (args IS NULL OR pgcron.args_are_fine(args) OR pgcron.refuse_args(args)),
  note text CHECK (pgcron.is_short('note', note, 2000)),
  actor text NOT NULL DEFAULT session_user CHECK (pgcron.is_short('actor', actor, 300)),
  at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (schedule_id, fire_at),
  CONSTRAINT a_fire_lies_within_the_calendar
    CHECK ((pgcron.is_in_calendar(fire_at) AND coalesce(pgcron.is_in_calendar(due_at), true))
      OR pgcron.refuse('PC001',
        format('fire %s%s is outside of the calendar', fire_at, ' at ' || due_at),
        'A fire lies, and is moved, within the years 1900 to 9998.',
        'SELECT * FROM pgcron.preview(…) shows those to come.')),
  CONSTRAINT a_move_says_where_to CHECK ((action = 'move') = (due_at IS NOT NULL)),
  CONSTRAINT an_edit_has_args CHECK (action <> 'edit' OR args IS NOT NULL)
);
COMMENT ON TABLE pgcron.occurrence_override IS
    'One fire skipped, moved or given other args, applied when it is materialized.';

CREATE TABLE pgcron.history (
  -- First what most rows have, the wide ones before the narrow ones, as in pgcron.run.
  id bigint NOT NULL,
  due_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  claimed_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz NOT NULL DEFAULT now(),
  fence bigint,
  owner uuid,
  attempt int NOT NULL,
  priority smallint NOT NULL,
  -- NULL, as timeout: what it means for pgcron.run.
  uuid uuid,
  origin text NOT NULL,
  schedule_id bigint,
  schedule text,
  scheduled_for timestamptz,
  nominal_for timestamptz,
  parent_run bigint,
  queue text NOT NULL,
  concurrency_key text,
  unique_key text,
  unique_scope text,
  requires text[],
  weight int,
  tags text[],
  handler text NOT NULL,
  -- NULL: its handler keeps none of runs that succeeded.
  args jsonb,
  delivery text NOT NULL,
  outcome text NOT NULL CONSTRAINT an_outcome_is_known
    CHECK (outcome IN ('succeeded', 'dead', 'cancelled', 'skipped', 'superseded', 'expired', 'lost',
        'upstream_failed')),
  max_attempts int,
  timeout interval,
  retry jsonb,
  snoozes smallint,
  time_limits jsonb,
  created_by text NOT NULL,
  created_login text,
  namespace text,
  node text,
  cancel_reason text,
  error text,
  result jsonb
) PARTITION BY RANGE (finished_at);
COMMENT ON TABLE pgcron.history IS
    'How each run ended, append-only, readable without its schedule. Old partitions are dropped.';
CREATE INDEX history_id ON pgcron.history (id);
CREATE INDEX history_schedule ON pgcron.history (schedule_id, finished_at)
  WHERE schedule_id IS NOT NULL;
-- What was made of a run: few rows have a parent, so ending a run costs no more for it.
CREATE INDEX history_parent ON pgcron.history (parent_run) WHERE parent_run IS NOT NULL;

CREATE TABLE pgcron.history_overflow (
  LIKE pgcron.history INCLUDING DEFAULTS INCLUDING CONSTRAINTS
);
COMMENT ON TABLE pgcron.history_overflow IS
    'Takes what has no partition, so that a run can always end; the janitor moves it over.';
CREATE INDEX history_overflow_id ON pgcron.history_overflow (id);

CREATE VIEW pgcron.ended_runs AS
  SELECT h.* FROM pgcron.history h UNION ALL SELECT o.* FROM pgcron.history_overflow o;
COMMENT ON VIEW pgcron.ended_runs IS 'history and its overflow.';

CREATE TABLE pgcron.attempt (
  run_id bigint NOT NULL,
  attempt int NOT NULL,
  outcome text NOT NULL CONSTRAINT an_attempt_ends_in_a_known_way
    CHECK (outcome IN ('failed', 'timed_out', 'lease_lost', 'cancelled', 'snoozed')),
  owner uuid NOT NULL,
  node text,
  fence bigint NOT NULL,
  claimed_at timestamptz NOT NULL,
  started_at timestamptz,
  ended_at timestamptz NOT NULL DEFAULT now(),
  error_class text,
  error text,
  traceback text,
  fingerprint text
) PARTITION BY RANGE (ended_at);
COMMENT ON TABLE pgcron.attempt IS 'One row at the end of each attempt that did not succeed.';
CREATE INDEX attempt_run ON pgcron.attempt (run_id, attempt);

CREATE TABLE pgcron.dead_letter (
  run_id bigint PRIMARY KEY,
  uuid uuid NOT NULL,
  outcome text NOT NULL CONSTRAINT a_dead_letter_is_dead_or_lost
    CHECK (outcome IN ('dead', 'lost')),
  died_at timestamptz NOT NULL DEFAULT now(),
  schedule_id bigint,
  schedule text,
  scheduled_for timestamptz,
  queue text NOT NULL,
  concurrency_key text,
  unique_key text,
  unique_scope text,
  requires text[],
  weight int,
  tags text[],
  priority smallint NOT NULL,
  handler text NOT NULL,
  args jsonb NOT NULL,
  delivery text NOT NULL,
  max_attempts int,
  timeout interval,
  retry jsonb,
  time_limits jsonb,
  created_by text,
  created_login text,
  namespace text,
  attempts int NOT NULL,
  error_class text,
  error text,
  fingerprint text,
  redriven_as bigint,
  closed_at timestamptz,
  closed_by text,
  note text CHECK (pgcron.is_short('note', note, 2000)),
  CONSTRAINT a_redriven_dead_letter_is_closed CHECK (redriven_as IS NULL OR closed_at IS NOT NULL)
);
COMMENT ON TABLE pgcron.dead_letter IS
    'Runs that ended dead or lost, kept apart from history, whose partitions are dropped.';
CREATE INDEX dead_letter_open ON pgcron.dead_letter (died_at DESC) WHERE closed_at IS NULL;
CREATE INDEX dead_letter_closed ON pgcron.dead_letter (closed_at) WHERE closed_at IS NOT NULL;
-- The letters of one error group, the open ones in the order in which they are redriven.
CREATE INDEX dead_letter_group ON pgcron.dead_letter (fingerprint, died_at);

CREATE TABLE pgcron.log (
  run_id bigint NOT NULL,
  attempt int NOT NULL,
  sequence int NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  stream text NOT NULL CONSTRAINT a_stream_is_stdout_stderr_or_log
    CHECK (stream IN ('stdout', 'stderr', 'log')),
  line text NOT NULL CONSTRAINT a_log_line_has_8_kib CHECK (octet_length(line) <= 8300)
) PARTITION BY RANGE (at);
COMMENT ON TABLE pgcron.log IS 'What handlers printed, line by line, while they ran.';
CREATE INDEX log_run ON pgcron.log (run_id, attempt, sequence);
