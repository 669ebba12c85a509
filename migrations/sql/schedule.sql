-- What people write (schedule), what nodes write (cursor), and versions (schedule_version).

-- What a schedule shares with its runs has no CHECK here: it is judged as the run that the schedule
-- would make (pgcron.judge_runs_of).
CREATE TABLE pgcron.schedule (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  uuid uuid NOT NULL DEFAULT gen_random_uuid() UNIQUE,
  name text NOT NULL UNIQUE CHECK (pgcron.is_label('schedule''s name', name,
        'Give it a short name, for example ''nightly''.')),
  -- SQL knows the shape and size of a spec; its grammar is in the nodes, which judge it within a
  -- second.
  spec text NOT NULL CONSTRAINT a_spec_is_readable
    CHECK ((length(spec) <= 4096 AND spec ~ '^[\x09\x0a\x0d\x20-\x7e]*$' AND spec ~ '[!-~]'
            AND pgcron.lines_fit(spec, 32, 256))
      OR pgcron.refuse('PC002',
        format('the spec is empty, too long (%s characters), or not ASCII', length(spec)),
        'A spec has 1 to 4096 ASCII characters, in up to 32 lines of up to 256 characters.',
        'Write for example ''0 3 * * *''.')),
  timezone text NOT NULL DEFAULT 'UTC',
  dst text NOT NULL DEFAULT 'vixie' CONSTRAINT a_dst_policy_is_known
    CHECK (pgcron.is_one_of('DST policy', dst, '{vixie,robfig,skip}',
        'The policies are vixie, robfig and skip.',
        'Leave it out for vixie, which is what cron does.')),
  handler text NOT NULL,
  args jsonb NOT NULL DEFAULT '{}',
  queue text NOT NULL DEFAULT 'default',
  priority smallint NOT NULL DEFAULT 5,
  enabled boolean NOT NULL DEFAULT true,
  paused_note text CHECK (pgcron.is_short('paused_note', paused_note, 2000)),
  paused_by text CHECK (pgcron.is_short('paused_by', paused_by, 300)),
  overlap text NOT NULL DEFAULT 'skip' CONSTRAINT an_overlap_policy_is_known
    CHECK (pgcron.is_overlap(overlap)),
  max_running int CHECK (pgcron.is_within('max_running', max_running, 1, 1000,
        'So many runs of a schedule may execute at once: 1 to 1000.',
        'Leave it out for 1 (for no limit with overlap allow).')),
  max_queued int CHECK (pgcron.is_within('max_queued', max_queued, 1, 1000,
        'So many runs may wait with overlap queue: 1 to 1000.', 'Leave it out for 1000.')),
  queue_drops text CHECK (pgcron.is_one_of('queue_drops', queue_drops, '{newest,oldest}',
        'A full queue drops the newest or the oldest of its runs.', 'Leave it out for newest.')),
  catchup text NOT NULL DEFAULT 'latest' CONSTRAINT a_catchup_policy_is_known
    CHECK (catchup ~ '^(latest( ([2-9]|[1-9][0-9]|100))?|all|none)$'
      OR pgcron.refuse('PC001', format('catch-up policy %L is not known', left(catchup, 100)),
        'The policies are latest (run the newest late fire), latest 2 to latest 100, all (of the '
        'catch-up window) and none.',
        'Leave it out for latest.')),
  catchup_window interval NOT NULL DEFAULT '1 hour' CONSTRAINT a_catchup_window_is_at_most_a_century
    CHECK (pgcron.is_within('catch-up window', catchup_window, '1 microsecond', '36525 days',
        'It says how old a missed fire may be to be run late: more than nothing, at most 36525 '
        'days.',
        'Write for example ''1 hour''; catchup ''none'' runs nothing late.')),
  start_deadline interval CONSTRAINT a_start_deadline_is_at_most_a_century
    CHECK (pgcron.is_within('start deadline', start_deadline, '1 microsecond', '36525 days',
        'A run that has not started this long after its fire time expires: more than nothing, at '
        'most 36525 days.',
        'Leave it out to wait for ever.')),
  timeout interval NOT NULL DEFAULT '1 hour',
  max_attempts int,
  retry jsonb,
  delivery text NOT NULL DEFAULT 'at_least_once',
  concurrency_key text,
  requires text[],
  give_up_after interval,
  silence_timeout interval,
  weight int NOT NULL DEFAULT 1,
  paused_until timestamptz CHECK (paused_until IS NULL OR pgcron.is_in_calendar(paused_until)
      OR pgcron.refuse('PC001', format('paused_until %s is outside of the calendar', paused_until),
        'A pause ends in the year 9998 at the latest, or when the schedule is resumed.',
        'Leave it out to pause until it is resumed.')),
  after_pause text NOT NULL DEFAULT 'drop' CONSTRAINT what_happens_after_a_pause_is_known
    CHECK (pgcron.is_one_of('after_pause', after_pause, '{drop,catchup}',
        'What a pause held back is dropped (drop), or the catch-up policy decides about it '
        '(catchup).',
        'Leave it out for drop.')),
  jitter interval CHECK (pgcron.is_within('jitter', jitter, '1 microsecond', '1 day',
        'All fires are due later by one delay within it: more than nothing, up to 1 day.',
        'Write for example ''10 minutes''; leave it out for none.')),
  depends_on_previous boolean NOT NULL DEFAULT false,
  max_runs int CHECK (pgcron.is_within('max_runs', max_runs, 1, 1000000000,
        'A schedule ends after 1 to 1000000000 runs.',
        'Leave it out for a schedule that goes on.')),
  pause_after_failures int CONSTRAINT a_schedule_pauses_after_1_to_1000_failures
    CHECK (pgcron.is_within('pause_after_failures', pause_after_failures, 1, 1000,
        'A schedule pauses itself after 1 to 1000 failures in a row.',
        'Leave it out to go on whatever fails.')),
  probe_after interval CHECK (pgcron.is_within('probe_after', probe_after, '1 second', '1 day',
        'A schedule that failures have paused is resumed after 1 second to 1 day.',
        'Write for example ''10 minutes''; leave it out so that its next pause lasts until it is '
        'resumed.')),
  calendars jsonb,
  -- What people want to know of it; no run is other for it.
  owner text CHECK (pgcron.is_label('owner', owner,
        'Name a team or a person, for example ''billing''.')),
  description text CHECK (description IS NULL
      OR (length(description) BETWEEN 1 AND 2000 AND btrim(description) <> ''
        AND description !~ '[\x01-\x09\x0b-\x1f\x7f-\x9f]')
      OR pgcron.refuse('PC001',
        format('the description is empty, too long (%s characters) or has a control character',
          length(description)),
        'A description has 1 to 2000 characters, in lines.',
        'Say it in a few sentences, and link to the rest.')),
  tags text[] CHECK (tags IS NULL OR pgcron.are_tags(tags)),
  links jsonb CHECK (links IS NULL OR pgcron.links_are_fine(links)
      OR pgcron.refuse('PC001', format('links %s are not titles and addresses',
          left(links::text, 200)),
        'There are 1 to 10: a title of up to 100 characters and an address of up to 2000 ASCII '
        'characters that begins with http:// or https://.',
        'Write for example ''{"runbook": "https://wiki.example/billing"}''.')),
  managed_by text NOT NULL DEFAULT 'sql' CONSTRAINT a_schedule_is_managed_by_an_interface
    CHECK (pgcron.is_one_of('managed_by', managed_by, '{sql,code,file,cli,ui}',
        'A schedule is managed by cli, code, file, sql or ui.',
        'Leave it out: it stays as it is, and for a new schedule it is the interface that makes '
        'it.')),
  source text CHECK (pgcron.is_label('name of the source', source,
        'Give the file or folder of schedules a short name, for example ''billing''.')),
  version int NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT several_late_fires_need_overlap_allow
    CHECK (catchup IN ('latest', 'none') OR overlap IN ('allow', 'queue')
      OR pgcron.refuse('PC001',
        format('catch-up policy %L with overlap %L', left(catchup, 100), overlap),
        'Late fires are due together, and all but one of them would not run.',
        'Use overlap ''queue'', so that they run one after the other, or ''allow''; or catch-up '
        '''latest''.')),
  CONSTRAINT what_replaces_runs_alone
    CHECK (overlap NOT IN ('replace', 'terminate') OR coalesce(max_running, 1) = 1
      OR pgcron.refuse_replacing(overlap, max_running)),
  CONSTRAINT only_a_queue_has_a_length
    CHECK (overlap = 'queue' OR num_nonnulls(max_queued, queue_drops) = 0
      OR pgcron.refuse('PC001',
        format('%s with overlap %L',
          CASE WHEN max_queued IS NULL THEN 'queue_drops' ELSE 'max_queued' END, overlap),
        'Only with overlap queue is there a bound to what waits.',
        'Use overlap ''queue'', or take them back: max_queued 0, queue_drops ''''.')),
  CONSTRAINT all_late_fires_are_those_of_31_days_at_most
    CHECK (catchup <> 'all' OR catchup_window <= '31 days'
      OR pgcron.refuse('PC001', format('catch-up all with a window of %s',
          justify_hours(catchup_window)),
        'All late fires run only within a bound: 31 days at most.',
        'Give a shorter catchup_window.')),
  CONSTRAINT only_what_pauses_after_failures_is_probed
    CHECK (probe_after IS NULL OR pause_after_failures IS NOT NULL
      OR pgcron.refuse('PC001', format('probe_after %s without pause_after_failures', probe_after),
        'What is resumed then is a schedule that failures have paused.',
        'Say after how many: pause_after_failures.')),
  CONSTRAINT only_a_pause_ends_by_itself
    CHECK (paused_until IS NULL OR NOT enabled
      OR pgcron.refuse('PC001',
        format('paused_until %s of a schedule that is not paused', paused_until),
        'It says when a pause ends by itself.',
        'Pause it: pgcron.pause_schedule(name, until => …).')),
  CONSTRAINT who_catches_up_on_a_pause_catches_up
    CHECK (after_pause <> 'catchup' OR catchup <> 'none'
      OR pgcron.refuse('PC001', 'after_pause ''catchup'' with catch-up policy ''none''',
        'The catch-up policy decides about what a pause held back, and none runs nothing late.',
        'Use after_pause ''drop'', or catch-up ''latest'' with a window as long as the pause.')),
  CONSTRAINT who_depends_on_the_last_run_waits_for_it
    CHECK (NOT depends_on_previous
      OR (overlap IN ('skip', 'queue') AND coalesce(max_running, 1) = 1)
      OR pgcron.refuse('PC001',
        format('depends_on_previous with overlap %L%s', overlap,
          ' and max_running ' || nullif(max_running, 1)),
        'Whether the fire before it succeeded is known when it is over: with overlap skip or '
        'queue, one run at a time.',
        'Use overlap ''skip'' or ''queue'', and leave max_running out.'))
) WITH (fillfactor = 90);
COMMENT ON TABLE pgcron.schedule IS
    'What people write: when, what and how. INSERT, UPDATE and DELETE by plain SQL just work.';

CREATE INDEX schedule_paused_until ON pgcron.schedule (paused_until) WHERE paused_until IS NOT NULL;

CREATE TABLE pgcron.cursor (
  schedule_id bigint PRIMARY KEY REFERENCES pgcron.schedule ON DELETE CASCADE,
  generation bigint NOT NULL DEFAULT 1,
  -- When this generation began: fires after it are those of the schedule as it is now.
  since timestamptz NOT NULL,
  watermark timestamptz NOT NULL,
  -- A hint for the poll: NULL must be computed, infinity never fires again. Of a pause the first
  -- that it holds back; NULL: not known.
  next_fire timestamptz,
  status text NOT NULL DEFAULT 'unchecked' CONSTRAINT a_schedule_is_unchecked_valid_or_invalid
    CHECK (status IN ('unchecked', 'valid', 'invalid')),
  error jsonb,
  -- When a schedule that the database refused is tried again; NULL: nodes can't read it, and look
  -- again after an edit, or with another version.
  retry_at timestamptz,
  canonical text,
  -- What the schedule's enabled meant when the last edit was applied: resuming writes the pause
  -- into missed.
  is_paused boolean NOT NULL DEFAULT false,
  pause_note text,
  -- When the pause under way ends by itself: fires after it are not the pause's, however late a
  -- node resumes the schedule.
  paused_until timestamptz,
  -- The edit came in a transaction that could not see new rows; a node removes the outdated runs.
  edit_is_pending boolean NOT NULL DEFAULT false,
  -- The pending edit changes when the schedule fires, not only what and how.
  timing_is_new boolean NOT NULL DEFAULT false,
  -- Of the schedule's max_runs: fires that were decided as runs since it has such a bound, less
  -- those that were taken back.
  runs_made int NOT NULL DEFAULT 0,
  -- Since when the tzdata of now decides its fires; NULL: since it is there.
  rules_since timestamptz,
  CONSTRAINT an_invalid_schedule_says_why CHECK ((status = 'invalid') = (error IS NOT NULL)),
  CONSTRAINT only_what_is_invalid_is_tried_again CHECK (retry_at IS NULL OR status = 'invalid')
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500,
      autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE pgcron.cursor IS
    'Machine-written, apart from schedule so that edits and the materializer do not wait for each '
    'other. Every fire up to watermark is decided.';
CREATE INDEX cursor_due ON pgcron.cursor (next_fire NULLS FIRST)
  WHERE status <> 'invalid' AND NOT is_paused;
CREATE INDEX cursor_refused ON pgcron.cursor (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX cursor_edited ON pgcron.cursor (schedule_id) WHERE edit_is_pending;

-- Fires that were counted as runs of a schedule with max_runs and never ran: skipped and superseded
-- ones don't count.
CREATE TABLE pgcron.given_back (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL,
  runs int NOT NULL
);
COMMENT ON TABLE pgcron.given_back IS
    'Counted by the next materializer, which locks the cursor for it: a transaction that ends runs '
    'may not lock it any more.';

CREATE TABLE pgcron.schedule_version (
  schedule_id bigint NOT NULL,
  version int NOT NULL,
  at timestamptz NOT NULL DEFAULT now(),
  actor text NOT NULL CHECK (pgcron.is_short('actor', actor, 300)),
  interface text NOT NULL,
  operation text NOT NULL CONSTRAINT a_version_is_a_creation_edit_or_deletion
    CHECK (operation IN ('create', 'edit', 'delete')),
  content jsonb NOT NULL,
  -- From when on it decided: fires after it are its own. NULL while a node has still to apply it.
  since timestamptz,
  -- What the editor said about the edit (pgcron_ha.version_note), or what it restored.
  note text,
  PRIMARY KEY (schedule_id, version, operation)
);
-- Deleted schedules by their last name; and those whose versions are no longer kept.
CREATE INDEX schedule_version_deleted ON pgcron.schedule_version ((content ->> 'name'), at)
  WHERE operation = 'delete';
CREATE INDEX schedule_version_outlived ON pgcron.schedule_version (at) WHERE operation = 'delete';
COMMENT ON TABLE pgcron.schedule_version IS
    'Every version of every schedule, who wrote it and through which interface. No '
    'foreign key: it outlives the schedule.';
