-- The schema that the migrations make, for review. Written by: python -m tests.db.dump_schema > tests/db/schema.sql

CREATE SCHEMA pgcron;

COMMENT ON SCHEMA pgcron IS 'pgcron_ha: cron and background jobs';

CREATE TYPE pgcron.attempt_end AS (
	run_id bigint,
	kind text,
	retryable boolean,
	retry_after double precision,
	error_class text,
	error text,
	traceback text,
	causes text,
	fingerprint text,
	node_name text
);

CREATE TYPE pgcron.backfill_instant AS (
	place bigint,
	fire_at timestamp with time zone,
	verdict text,
	parent bigint
);

CREATE TYPE pgcron.claim AS (
	verdict text,
	id bigint,
	uuid uuid,
	handler text,
	args jsonb,
	attempt integer,
	max_attempts integer,
	queue text,
	priority smallint,
	schedule text,
	fire_time timestamp with time zone,
	token uuid,
	fence bigint,
	timeout double precision,
	delivery text,
	due double precision,
	origin text,
	concurrency_key text COLLATE pg_catalog."C",
	weight integer,
	overlap_of bigint,
	lost_early smallint,
	results jsonb,
	largest_log integer
);

CREATE TYPE pgcron.erasure AS (
	run_ids bigint[],
	concurrency_key text,
	unique_key text,
	tag text,
	args jsonb
);

CREATE TYPE pgcron.gated_pair AS (
	queue text,
	concurrency_key text COLLATE pg_catalog."C",
	priority smallint,
	room integer,
	heaviest integer
);

CREATE TYPE pgcron.gated_search AS (
	pairs pgcron.gated_pair[],
	limited text[],
	rooms integer[],
	open_queues text[],
	placed_queues text[],
	kept_for bigint,
	new_keys text[]
);

CREATE TYPE pgcron.numbered_step AS (
	number integer,
	place integer,
	step jsonb,
	kind text,
	phase smallint
);

CREATE TYPE pgcron.run_request AS (
	handler text,
	args jsonb,
	queue text,
	priority integer,
	due_at timestamp with time zone,
	idempotency_key text,
	key_lifetime interval,
	timeout interval,
	max_attempts integer,
	delivery text,
	retry jsonb,
	concurrency_key text,
	requires text[],
	unique_key text,
	unique_scope text,
	unique_for interval,
	on_conflict text,
	debounce interval,
	debounce_max interval,
	start_within interval,
	give_up_after interval,
	silence_timeout interval,
	weight integer,
	tags text[]
);

CREATE TYPE pgcron.step_count AS (
	workflow bigint,
	number integer,
	ends integer,
	good integer,
	skipped integer
);

CREATE TYPE pgcron.step_end AS (
	workflow bigint,
	number integer,
	item integer,
	outcome text,
	result jsonb,
	reason text
);

CREATE TABLE pgcron.producer (
    role regrole NOT NULL,
    namespace text NOT NULL COLLATE pg_catalog."C",
    rules text[] NOT NULL COLLATE pg_catalog."C",
    concurrency_keys text[] NOT NULL COLLATE pg_catalog."C",
    largest_weight integer DEFAULT 1 NOT NULL,
    highest_priority integer DEFAULT 5 NOT NULL,
    largest_args integer DEFAULT 262144 NOT NULL,
    backlog integer,
    largest_log integer,
    CONSTRAINT a_producer_has_args_of_256_kib CHECK (pgcron.is_within('largest_args'::text, largest_args, 2, 262144, 'The args of a run have at most 262144 bytes (256 KiB).'::text, 'Leave it out for 262144.'::text)),
    CONSTRAINT a_producer_has_priority_0_to_9 CHECK (pgcron.is_within('highest_priority'::text, highest_priority, 0, 9, 'A priority is a number from 0 (first) to 9 (last).'::text, 'Leave it out for 5.'::text)),
    CONSTRAINT a_producer_weighs_1_to_1000 CHECK (pgcron.is_within('largest_weight'::text, largest_weight, 1, 1000, 'A run takes 1 to 1000 of the slots of the node that executes it.'::text, 'Leave it out for 1.'::text)),
    CONSTRAINT producer_backlog_check CHECK (pgcron.is_within('backlog'::text, backlog, 1, 1000000, 'A limited backlog has 1 to 1000000 runs.'::text, 'NULL is no limit.'::text)),
    CONSTRAINT producer_concurrency_keys_check CHECK (((array_position(concurrency_keys, NULL::text) IS NULL) OR pgcron.refuse('PC001'::text, 'a concurrency key of a producer is NULL'::text, 'Each is a key, or how keys begin, with a star at its end.'::text, 'Write for example ''mail/*''.'::text))),
    CONSTRAINT producer_largest_log_check CHECK (pgcron.is_within('largest_log'::text, largest_log, 1, 81920000, 'A limited log of an attempt has 1 to 81920000 bytes (10000 lines of 8 KiB).'::text, 'NULL is no limit but that of lines.'::text))
);

COMMENT ON TABLE pgcron.producer IS 'Private: Roles that enqueue, and their limits: one that has the rights of a role in this table makes only runs within them. Roles that may empty pgcron.run are exempt.';

CREATE TABLE pgcron.workflow_run (
    run bigint NOT NULL,
    definition bigint NOT NULL,
    made integer DEFAULT 0 NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    outcome text,
    paused_at timestamp with time zone,
    paused_by text,
    paused_note text,
    stopping text,
    stop_reason text,
    deadline timestamp with time zone,
    look_at timestamp with time zone,
    clearing integer[],
    redrive_of bigint,
    above bigint,
    keys text[] DEFAULT '{}'::text[] NOT NULL,
    names text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT a_workflow_stops_in_a_known_way CHECK ((stopping = ANY (ARRAY['stop'::text, 'kill'::text, 'cancel'::text, 'abort'::text])))
)
WITH (fillfactor='70');

COMMENT ON TABLE pgcron.workflow_run IS 'Private: Runs that are workflows; kept as long as their history, dead letters and redrives.';

CREATE TABLE pgcron.schedule (
    id bigint NOT NULL,
    uuid uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    spec text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    dst text DEFAULT 'vixie'::text NOT NULL,
    handler text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    paused_note text,
    paused_by text,
    overlap text DEFAULT 'skip'::text NOT NULL,
    max_running integer,
    max_queued integer,
    queue_drops text,
    catchup text DEFAULT 'latest'::text NOT NULL,
    catchup_window interval DEFAULT '01:00:00'::interval NOT NULL,
    start_deadline interval,
    timeout interval DEFAULT '01:00:00'::interval NOT NULL,
    max_attempts integer,
    retry jsonb,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    concurrency_key text,
    requires text[],
    give_up_after interval,
    silence_timeout interval,
    weight integer DEFAULT 1 NOT NULL,
    paused_until timestamp with time zone,
    after_pause text DEFAULT 'drop'::text NOT NULL,
    jitter interval,
    depends_on_previous boolean DEFAULT false NOT NULL,
    max_runs integer,
    pause_after_failures integer,
    probe_after interval,
    calendars jsonb,
    owner text,
    description text,
    tags text[],
    links jsonb,
    managed_by text DEFAULT 'sql'::text NOT NULL,
    source text,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_catchup_policy_is_known CHECK (((catchup ~ '^(latest( ([2-9]|[1-9][0-9]|100))?|all|none)$'::text) OR pgcron.refuse('PC001'::text, format('catch-up policy %L is not known'::text, "left"(catchup, 100)), 'The policies are latest (run the newest late fire), latest 2 to latest 100, all (of the catch-up window) and none.'::text, 'Leave it out for latest.'::text))),
    CONSTRAINT a_catchup_window_is_at_most_a_century CHECK (pgcron.is_within('catch-up window'::text, catchup_window, '00:00:00.000001'::interval, '36525 days'::interval, 'It says how old a missed fire may be to be run late: more than nothing, at most 36525 days.'::text, 'Write for example ''1 hour''; catchup ''none'' runs nothing late.'::text)),
    CONSTRAINT a_dst_policy_is_known CHECK (pgcron.is_one_of('DST policy'::text, dst, '{vixie,robfig,skip}'::text[], 'The policies are vixie, robfig and skip.'::text, 'Leave it out for vixie, which is what cron does.'::text)),
    CONSTRAINT a_schedule_is_managed_by_an_interface CHECK (pgcron.is_one_of('managed_by'::text, managed_by, '{sql,code,file,cli,ui}'::text[], 'A schedule is managed by cli, code, file, sql or ui.'::text, 'Leave it out: it stays as it is, and for a new schedule it is the interface that makes it.'::text)),
    CONSTRAINT a_schedule_pauses_after_1_to_1000_failures CHECK (pgcron.is_within('pause_after_failures'::text, pause_after_failures, 1, 1000, 'A schedule pauses itself after 1 to 1000 failures in a row.'::text, 'Leave it out to go on whatever fails.'::text)),
    CONSTRAINT a_spec_is_readable CHECK ((((length(spec) <= 4096) AND (spec ~ '^[\x09\x0a\x0d\x20-\x7e]*$'::text) AND (spec ~ '[!-~]'::text) AND pgcron.lines_fit(spec, 32, 256)) OR pgcron.refuse('PC002'::text, format('the spec is empty, too long (%s characters), or not ASCII'::text, length(spec)), 'A spec has 1 to 4096 ASCII characters, in up to 32 lines of up to 256 characters.'::text, 'Write for example ''0 3 * * *''.'::text))),
    CONSTRAINT a_start_deadline_is_at_most_a_century CHECK (pgcron.is_within('start deadline'::text, start_deadline, '00:00:00.000001'::interval, '36525 days'::interval, 'A run that has not started this long after its fire time expires: more than nothing, at most 36525 days.'::text, 'Leave it out to wait for ever.'::text)),
    CONSTRAINT all_late_fires_are_those_of_31_days_at_most CHECK (((catchup <> 'all'::text) OR (catchup_window <= '31 days'::interval) OR pgcron.refuse('PC001'::text, format('catch-up all with a window of %s'::text, justify_hours(catchup_window)), 'All late fires run only within a bound: 31 days at most.'::text, 'Give a shorter catchup_window.'::text))),
    CONSTRAINT an_overlap_policy_is_known CHECK (pgcron.is_overlap(overlap)),
    CONSTRAINT only_a_pause_ends_by_itself CHECK (((paused_until IS NULL) OR (NOT enabled) OR pgcron.refuse('PC001'::text, format('paused_until %s of a schedule that is not paused'::text, paused_until), 'It says when a pause ends by itself.'::text, 'Pause it: pgcron.pause_schedule(name, until => …).'::text))),
    CONSTRAINT only_a_queue_has_a_length CHECK (((overlap = 'queue'::text) OR (num_nonnulls(max_queued, queue_drops) = 0) OR pgcron.refuse('PC001'::text, format('%s with overlap %L'::text,
CASE
    WHEN (max_queued IS NULL) THEN 'queue_drops'::text
    ELSE 'max_queued'::text
END, overlap), 'Only with overlap queue is there a bound to what waits.'::text, 'Use overlap ''queue'', or take them back: max_queued 0, queue_drops ''''.'::text))),
    CONSTRAINT only_what_pauses_after_failures_is_probed CHECK (((probe_after IS NULL) OR (pause_after_failures IS NOT NULL) OR pgcron.refuse('PC001'::text, format('probe_after %s without pause_after_failures'::text, probe_after), 'What is resumed then is a schedule that failures have paused.'::text, 'Say after how many: pause_after_failures.'::text))),
    CONSTRAINT schedule_description_check CHECK (((description IS NULL) OR (((length(description) >= 1) AND (length(description) <= 2000)) AND (btrim(description) <> ''::text) AND (description !~ '[\x01-\x09\x0b-\x1f\x7f-\x9f]'::text)) OR pgcron.refuse('PC001'::text, format('the description is empty, too long (%s characters) or has a control character'::text, length(description)), 'A description has 1 to 2000 characters, in lines.'::text, 'Say it in a few sentences, and link to the rest.'::text))),
    CONSTRAINT schedule_jitter_check CHECK (pgcron.is_within('jitter'::text, jitter, '00:00:00.000001'::interval, '1 day'::interval, 'All fires are due later by one delay within it: more than nothing, up to 1 day.'::text, 'Write for example ''10 minutes''; leave it out for none.'::text)),
    CONSTRAINT schedule_links_check CHECK (((links IS NULL) OR pgcron.links_are_fine(links) OR pgcron.refuse('PC001'::text, format('links %s are not titles and addresses'::text, "left"((links)::text, 200)), 'There are 1 to 10: a title of up to 100 characters and an address of up to 2000 ASCII characters that begins with http:// or https://.'::text, 'Write for example ''{"runbook": "https://wiki.example/billing"}''.'::text))),
    CONSTRAINT schedule_max_queued_check CHECK (pgcron.is_within('max_queued'::text, max_queued, 1, 1000, 'So many runs may wait with overlap queue: 1 to 1000.'::text, 'Leave it out for 1000.'::text)),
    CONSTRAINT schedule_max_running_check CHECK (pgcron.is_within('max_running'::text, max_running, 1, 1000, 'So many runs of a schedule may execute at once: 1 to 1000.'::text, 'Leave it out for 1 (for no limit with overlap allow).'::text)),
    CONSTRAINT schedule_max_runs_check CHECK (pgcron.is_within('max_runs'::text, max_runs, 1, 1000000000, 'A schedule ends after 1 to 1000000000 runs.'::text, 'Leave it out for a schedule that goes on.'::text)),
    CONSTRAINT schedule_name_check CHECK (pgcron.is_label('schedule''s name'::text, name, 'Give it a short name, for example ''nightly''.'::text)),
    CONSTRAINT schedule_owner_check CHECK (pgcron.is_label('owner'::text, owner, 'Name a team or a person, for example ''billing''.'::text)),
    CONSTRAINT schedule_paused_by_check CHECK (pgcron.is_short('paused_by'::text, paused_by, 300)),
    CONSTRAINT schedule_paused_note_check CHECK (pgcron.is_short('paused_note'::text, paused_note, 2000)),
    CONSTRAINT schedule_paused_until_check CHECK (((paused_until IS NULL) OR pgcron.is_in_calendar(paused_until) OR pgcron.refuse('PC001'::text, format('paused_until %s is outside of the calendar'::text, paused_until), 'A pause ends in the year 9998 at the latest, or when the schedule is resumed.'::text, 'Leave it out to pause until it is resumed.'::text))),
    CONSTRAINT schedule_probe_after_check CHECK (pgcron.is_within('probe_after'::text, probe_after, '00:00:01'::interval, '1 day'::interval, 'A schedule that failures have paused is resumed after 1 second to 1 day.'::text, 'Write for example ''10 minutes''; leave it out so that its next pause lasts until it is resumed.'::text)),
    CONSTRAINT schedule_queue_drops_check CHECK (pgcron.is_one_of('queue_drops'::text, queue_drops, '{newest,oldest}'::text[], 'A full queue drops the newest or the oldest of its runs.'::text, 'Leave it out for newest.'::text)),
    CONSTRAINT schedule_source_check CHECK (pgcron.is_label('name of the source'::text, source, 'Give the file or folder of schedules a short name, for example ''billing''.'::text)),
    CONSTRAINT schedule_tags_check CHECK (((tags IS NULL) OR pgcron.are_tags(tags))),
    CONSTRAINT several_late_fires_need_overlap_allow CHECK (((catchup = ANY (ARRAY['latest'::text, 'none'::text])) OR (overlap = ANY (ARRAY['allow'::text, 'queue'::text])) OR pgcron.refuse('PC001'::text, format('catch-up policy %L with overlap %L'::text, "left"(catchup, 100), overlap), 'Late fires are due together, and all but one of them would not run.'::text, 'Use overlap ''queue'', so that they run one after the other, or ''allow''; or catch-up ''latest''.'::text))),
    CONSTRAINT what_happens_after_a_pause_is_known CHECK (pgcron.is_one_of('after_pause'::text, after_pause, '{drop,catchup}'::text[], 'What a pause held back is dropped (drop), or the catch-up policy decides about it (catchup).'::text, 'Leave it out for drop.'::text)),
    CONSTRAINT what_replaces_runs_alone CHECK (((overlap <> ALL (ARRAY['replace'::text, 'terminate'::text])) OR (COALESCE(max_running, 1) = 1) OR pgcron.refuse_replacing(overlap, max_running))),
    CONSTRAINT who_catches_up_on_a_pause_catches_up CHECK (((after_pause <> 'catchup'::text) OR (catchup <> 'none'::text) OR pgcron.refuse('PC001'::text, 'after_pause ''catchup'' with catch-up policy ''none'''::text, 'The catch-up policy decides about what a pause held back, and none runs nothing late.'::text, 'Use after_pause ''drop'', or catch-up ''latest'' with a window as long as the pause.'::text))),
    CONSTRAINT who_depends_on_the_last_run_waits_for_it CHECK (((NOT depends_on_previous) OR ((overlap = ANY (ARRAY['skip'::text, 'queue'::text])) AND (COALESCE(max_running, 1) = 1)) OR pgcron.refuse('PC001'::text, format('depends_on_previous with overlap %L%s'::text, overlap, (' and max_running '::text || NULLIF(max_running, 1))), 'Whether the fire before it succeeded is known when it is over: with overlap skip or queue, one run at a time.'::text, 'Use overlap ''skip'' or ''queue'', and leave max_running out.'::text)))
)
WITH (fillfactor='90');

COMMENT ON TABLE pgcron.schedule IS 'What people write: when, what and how. INSERT, UPDATE and DELETE by plain SQL just work.';

CREATE TABLE pgcron.run (
    id bigint NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    attempt integer DEFAULT 0 NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    uuid uuid,
    origin text DEFAULT 'enqueued'::text NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text DEFAULT 'default'::text NOT NULL,
    handler text DEFAULT ''::text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    state text DEFAULT 'ready'::text NOT NULL,
    gate text,
    expire_at timestamp with time zone,
    max_attempts integer,
    timeout interval,
    retry jsonb,
    overlap text,
    overlap_slot smallint,
    snoozes smallint,
    concurrency_key text COLLATE pg_catalog."C",
    key_slot integer,
    unique_key text COLLATE pg_catalog."C",
    unique_scope text,
    namespace text COLLATE pg_catalog."C",
    requires text[] COLLATE pg_catalog."C",
    weight integer,
    tags text[],
    owner uuid,
    token uuid,
    fence bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_at timestamp with time zone,
    cancel_reason text,
    kill_at timestamp with time zone,
    time_limits jsonb,
    last_error text,
    lost_early smallint,
    created_by text DEFAULT SESSION_USER NOT NULL,
    created_login text,
    awaited boolean
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

COMMENT ON TABLE pgcron.run IS 'One request to execute a handler, while it is alive. Ended runs are in history.';

COMMENT ON COLUMN pgcron.run.max_attempts IS 'NULL means 5, or 1 with at_most_once. Each snooze adds one.';

COMMENT ON COLUMN pgcron.run.timeout IS 'NULL means 1 hour.';

COMMENT ON COLUMN pgcron.run.retry IS 'A retry policy, such as {"backoff": "linear", "base": "10 seconds", "retry_for": "2 hours"}; NULL is the default.';

COMMENT ON COLUMN pgcron.run.concurrency_key IS 'No more runs that have the same key execute at once than it has slots (pgcron.concurrency_limit).';

COMMENT ON COLUMN pgcron.run.unique_key IS 'Of the runs of a handler and a namespace with one key only one has it at a time.';

COMMENT ON COLUMN pgcron.run.unique_scope IS 'How long it has its key: open (also NULL) until it ends, waiting until a node takes it, period for a time that is kept elsewhere. taken: a node has claimed it once, so the key is free again.';

COMMENT ON COLUMN pgcron.run.requires IS 'Labels (key=value, or a key for any value): only nodes that announce all of them may claim the run.';

COMMENT ON COLUMN pgcron.run.weight IS 'How many of its node''s slots the run takes; NULL is one. A run that takes more has a concurrency key: *weight 4 if none was given.';

COMMENT ON COLUMN pgcron.run.time_limits IS 'Limits that few runs have, as pgcron.enqueue writes them; NULL is none.';

CREATE TABLE pgcron.step (
    workflow bigint NOT NULL,
    number integer NOT NULL,
    item integer DEFAULT '-1'::integer NOT NULL,
    definition bigint NOT NULL,
    run bigint NOT NULL,
    state text DEFAULT 'waiting'::text NOT NULL,
    waits integer NOT NULL,
    good integer DEFAULT 0 NOT NULL,
    bad integer DEFAULT 0 NOT NULL,
    skipped integer DEFAULT 0 NOT NULL,
    items integer,
    items_ended integer,
    items_failed integer,
    turns integer,
    due timestamp with time zone,
    started_at timestamp with time zone,
    ended_at timestamp with time zone,
    args jsonb,
    result jsonb,
    reason text,
    CONSTRAINT a_step_has_a_known_state CHECK ((state = ANY (ARRAY['waiting'::text, 'ready'::text, 'running'::text, 'succeeded'::text, 'dead'::text, 'lost'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'upstream_failed'::text]))),
    CONSTRAINT a_step_waits_for_no_less_than_nothing CHECK ((waits >= 0))
)
WITH (fillfactor='70');

COMMENT ON TABLE pgcron.step IS 'Private: The steps of workflows that run or ran.';

CREATE TABLE pgcron.workflow_step (
    definition bigint NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    phase smallint NOT NULL,
    handler text,
    args jsonb,
    options jsonb NOT NULL,
    rule text NOT NULL,
    is_optional boolean NOT NULL,
    args_from jsonb,
    condition jsonpath,
    compensates integer,
    for_each jsonpath,
    max_parallel integer,
    tolerate integer NOT NULL,
    repeat_while jsonpath,
    repeat_at_most integer,
    repeat_every interval,
    deadline interval,
    at_deadline text,
    parents integer NOT NULL,
    children integer NOT NULL
);

COMMENT ON TABLE pgcron.workflow_step IS 'Private: The steps of a version of a workflow.';

CREATE TABLE pgcron.breaker (
    name text NOT NULL,
    failures integer DEFAULT 5 NOT NULL,
    within interval DEFAULT '00:01:00'::interval NOT NULL,
    open_for interval DEFAULT '00:00:30'::interval NOT NULL,
    open_for_at_most interval DEFAULT '00:10:00'::interval NOT NULL,
    fallback_handler text,
    fallback_queue text,
    set_by text,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    state text DEFAULT 'closed'::text NOT NULL,
    failed_at timestamp with time zone[] DEFAULT '{}'::timestamp with time zone[] NOT NULL,
    opened_at timestamp with time zone,
    open_until timestamp with time zone,
    openings integer DEFAULT 0 NOT NULL,
    reason text,
    last_error text,
    probe_run bigint,
    probe_attempt integer,
    reset_by text,
    reset_at timestamp with time zone,
    CONSTRAINT a_breaker_is_closed_open_or_half_open CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text]))),
    CONSTRAINT a_breaker_is_named_as_a_handler CHECK (pgcron.is_handler(name)),
    CONSTRAINT a_fallback_is_a_handler_or_a_queue CHECK (((fallback_handler IS NULL) OR (fallback_queue IS NULL) OR pgcron.refuse('PC001'::text, format('breaker %L has two fallbacks'::text, name), 'What waits is executed by another handler, or moved to another queue, or waits.'::text, 'Name one of them.'::text))),
    CONSTRAINT a_fallback_is_another_handler CHECK (((fallback_handler IS NULL) OR (fallback_handler <> name) OR pgcron.refuse('PC001'::text, format('the fallback of breaker %L is its own handler'::text, name), 'While a breaker is open none of its handlers is executed.'::text, 'Name another handler, or a queue, or leave it out.'::text))),
    CONSTRAINT a_probe_belongs_to_a_half_open_breaker CHECK ((((state = 'half_open'::text) = (probe_run IS NOT NULL)) AND ((probe_run IS NULL) = (probe_attempt IS NULL)))),
    CONSTRAINT an_open_breaker_says_until_when_and_why CHECK (((state = 'closed'::text) OR ((open_until IS NOT NULL) AND (opened_at IS NOT NULL) AND (reason IS NOT NULL)))),
    CONSTRAINT breaker_fallback_handler_check CHECK (pgcron.is_handler(fallback_handler)),
    CONSTRAINT breaker_fallback_queue_check CHECK (pgcron.is_queue(fallback_queue)),
    CONSTRAINT breaker_reset_by_check CHECK (pgcron.is_short('reset_by'::text, reset_by, 300)),
    CONSTRAINT breaker_set_by_check CHECK (pgcron.is_short('set_by'::text, set_by, 300))
);

COMMENT ON TABLE pgcron.breaker IS 'Private: Circuit breakers. set_by NULL: declared by the nodes that offer the handler; else a person''s setting, which the nodes leave alone.';

CREATE TABLE pgcron.concurrency_limit (
    concurrency_key text NOT NULL COLLATE pg_catalog."C",
    rate integer,
    per interval,
    slots integer,
    by_weight boolean DEFAULT false NOT NULL,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_key_has_1_to_10000_slots CHECK (((slots IS NULL) OR ((slots >= 1) AND (slots <= 10000)) OR pgcron.refuse('PC001'::text, format('%s slots are out of range'::text, slots), 'A concurrency key has 1 to 10000 slots.'::text, 'NULL is no limit.'::text))),
    CONSTRAINT a_key_starts_1_to_1000000_runs_in_a_time CHECK ((pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))),
    CONSTRAINT concurrency_limit_concurrency_key_check CHECK (((concurrency_key = '*'::text) OR pgcron.concurrency_key_is_fine(regexp_replace(concurrency_key, '\*$'::text, ''::text)) OR pgcron.refuse_concurrency_key(concurrency_key))),
    CONSTRAINT concurrency_limit_set_by_check CHECK (pgcron.is_short('set_by'::text, set_by, 300))
);

COMMENT ON TABLE pgcron.concurrency_limit IS 'Private: How many runs of one concurrency key execute at once, or of which weight together, and how many start in any span of time. The key''s own row counts, else the row with the longest prefix (customer-*), else that of *, else one.';

CREATE TABLE pgcron.queue (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    paused_note text,
    max_running integer,
    rate integer,
    per interval,
    set_by text,
    set_at timestamp with time zone,
    is_plain boolean GENERATED ALWAYS AS (((paused_at IS NULL) AND (max_running IS NULL) AND (rate IS NULL))) STORED NOT NULL,
    CONSTRAINT a_queue_name_is_simple CHECK (pgcron.is_queue(name)),
    CONSTRAINT a_queue_runs_1_to_100000_at_once CHECK (pgcron.is_within('max_running'::text, max_running, 1, 100000, 'Of one queue 1 to 100000 runs may execute at once.'::text, 'NULL is no limit; pausing the queue lets nothing run.'::text)),
    CONSTRAINT a_queue_starts_1_to_1000000_runs_in_a_time CHECK ((pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))),
    CONSTRAINT queue_paused_by_check CHECK (pgcron.is_short('paused_by'::text, paused_by, 300)),
    CONSTRAINT queue_paused_note_check CHECK (pgcron.is_short('paused_note'::text, paused_note, 2000)),
    CONSTRAINT queue_set_by_check CHECK (pgcron.is_short('set_by'::text, set_by, 300))
);

COMMENT ON TABLE pgcron.queue IS 'Private: Settings of queues; a queue without a row exists as soon as a run names it.';

CREATE TABLE pgcron.owned (
    kind text NOT NULL,
    name text NOT NULL,
    team text NOT NULL,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT owned_kind_check CHECK (pgcron.is_one_of('kind'::text, kind, '{queue,calendar,key,producer}'::text[], 'A team owns queues, calendars, keys (of concurrency) and producers with their quotas; of schedules it is the owner.'::text, 'Name one of them.'::text)),
    CONSTRAINT owned_team_check CHECK (pgcron.is_label('team'::text, team, 'Write for example ''billing''.'::text)),
    CONSTRAINT what_is_owned_has_1_to_206_characters CHECK (((length(name) >= 1) AND (length(name) <= 206)))
);

COMMENT ON TABLE pgcron.owned IS 'Private: Which team a queue, a calendar, a key or a producer belongs to.';

CREATE TABLE pgcron.workflow_edge (
    definition bigint NOT NULL,
    parent integer NOT NULL,
    child integer NOT NULL,
    CONSTRAINT a_step_depends_on_earlier_ones CHECK ((parent < child))
);

COMMENT ON TABLE pgcron.workflow_edge IS 'Private: Dependencies: the child waits for the parent. Shared by all runs of a version.';

CREATE TABLE pgcron.history (
    id bigint NOT NULL,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() NOT NULL,
    fence bigint,
    owner uuid,
    attempt integer NOT NULL,
    priority smallint NOT NULL,
    uuid uuid,
    origin text NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text NOT NULL,
    concurrency_key text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    tags text[],
    handler text NOT NULL,
    args jsonb,
    delivery text NOT NULL,
    outcome text NOT NULL,
    max_attempts integer,
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
    result jsonb,
    CONSTRAINT an_outcome_is_known CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'lost'::text, 'upstream_failed'::text])))
)
PARTITION BY RANGE (finished_at);

COMMENT ON TABLE pgcron.history IS 'Private: How each run ended, append-only, readable without its schedule. Old partitions are dropped.';

CREATE TABLE pgcron.node (
    incarnation uuid NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    process_id integer NOT NULL,
    version text NOT NULL,
    tzdata text COLLATE pg_catalog."C",
    home text,
    state text DEFAULT 'alive'::text NOT NULL,
    beat_sequence bigint DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    lease_ttl interval NOT NULL,
    slots integer NOT NULL,
    slots_used integer DEFAULT 0 NOT NULL,
    queues text[] NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    is_idle boolean DEFAULT false NOT NULL,
    is_pooled boolean DEFAULT false NOT NULL,
    awaits bigint,
    health jsonb,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    ended_because text,
    CONSTRAINT a_dead_node_says_when_and_why CHECK (((state = 'dead'::text) = ((ended_at IS NOT NULL) AND (ended_because IS NOT NULL)))),
    CONSTRAINT a_lease_lives_1_second_to_5_minutes CHECK (((lease_ttl >= '00:00:01'::interval) AND (lease_ttl <= '00:05:00'::interval))),
    CONSTRAINT a_node_is_alive_cordoned_draining_or_dead CHECK ((state = ANY (ARRAY['alive'::text, 'cordoned'::text, 'draining'::text, 'dead'::text]))),
    CONSTRAINT a_node_name_has_1_to_200_characters CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT node_labels_are_words CHECK ((pgcron.labels_are_fine(labels) OR pgcron.refuse('PC001'::text, format('labels %L are not labels'::text, "left"((labels)::text, 200)), 'A node has at most 64 labels: names of 1 to 100 letters, digits, "_", ".", "/" and "-", with values that may have ":", "+" and "@", too.'::text, 'Write for example ''{"gpu": "a100"}''.'::text)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

COMMENT ON TABLE pgcron.node IS 'Private: One row for each process incarnation; the row is its lease. name is a label, never an identity.';

CREATE TABLE pgcron.offer (
    incarnation uuid NOT NULL,
    handler text NOT NULL,
    CONSTRAINT an_offer_is_a_handler_name CHECK (pgcron.is_handler(handler))
);

COMMENT ON TABLE pgcron.offer IS 'Private: Which handlers a node offers.';

CREATE TABLE pgcron.role_grant (
    subject_kind text NOT NULL,
    subject text NOT NULL,
    role text NOT NULL,
    scope_kind text DEFAULT 'all'::text NOT NULL,
    scope text DEFAULT '*'::text NOT NULL,
    granted_by text DEFAULT SESSION_USER NOT NULL,
    granted_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_role_is_given_to_a_user_a_group_or_a_token CHECK ((subject_kind = ANY (ARRAY['user'::text, 'group'::text, 'token'::text]))),
    CONSTRAINT a_scope_is_known CHECK ((((scope_kind = 'all'::text) AND (scope = '*'::text)) OR ((scope_kind = ANY (ARRAY['team'::text, 'queue'::text, 'tag'::text, 'schedule'::text, 'handler'::text])) AND ((length(scope) >= 1) AND (length(scope) <= 206)) AND (scope !~ '[*].'::text) AND ((scope_kind <> 'handler'::text) OR (scope ~ '[:*]'::text))) OR pgcron.refuse('PC001'::text, format('%L is not a scope'::text, "left"(concat_ws(':'::text, scope_kind, NULLIF(scope, ''::text)), 300)), 'A scope is KIND:NAME; the kinds are team, queue, tag, schedule and handler. A star may stand at the end of NAME, for all that begin so; a handler has its own kind in it.'::text, 'Write for example queue:mail-* or handler:py:report.'::text))),
    CONSTRAINT a_subject_has_1_to_200_characters CHECK (((length(subject) >= 1) AND (length(subject) <= 200))),
    CONSTRAINT role_grant_role_check CHECK (pgcron.is_one_of('role'::text, role, '{viewer,operator,editor,admin}'::text[], 'A role is viewer, operator, editor or admin.'::text, 'Name one of them.'::text))
);

COMMENT ON TABLE pgcron.role_grant IS 'Private: Which role a user or a group of users has, and within which scope.';

CREATE TABLE pgcron.web_user (
    name text NOT NULL,
    shown text,
    groups text[] DEFAULT '{}'::text[] NOT NULL,
    password_hash text,
    networks text[] DEFAULT '{}'::text[] NOT NULL,
    disabled_at timestamp with time zone,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_password_is_hashed_by_argon2id CHECK ((password_hash ~~ '$argon2id$%'::text)),
    CONSTRAINT a_shown_name_is_short CHECK (((length(shown) >= 1) AND (length(shown) <= 200))),
    CONSTRAINT web_user_name_check CHECK (((name ~ '^[A-Za-z0-9_.@+-]{1,100}$'::text) OR (name ~ '^oidc:[!-~]{1,195}$'::text) OR pgcron.refuse('PC001'::text, format('%L is not the name of a user'::text, "left"(name, 200)), 'A user has 1 to 100 letters, digits, "_", ".", "@", "+" and "-".'::text, 'Write for example ''alice''.'::text)))
);

COMMENT ON TABLE pgcron.web_user IS 'Private: Who may log in to the pages.';

CREATE TABLE pgcron.step_outbox (
    id bigint NOT NULL,
    workflow bigint NOT NULL,
    run bigint,
    outcome text,
    result jsonb,
    reason text,
    parent integer,
    after integer,
    child integer,
    ends integer,
    good integer,
    skipped integer,
    is_command boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE pgcron.step_outbox IS 'Private: Ends of steps that are not yet counted for their dependents; empty after a moment.';

CREATE TABLE pgcron.backfill (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    schedule text NOT NULL,
    definition jsonb NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    direction text NOT NULL,
    parallelism integer NOT NULL,
    overlap text,
    if_ran text NOT NULL,
    args jsonb,
    note text,
    state text DEFAULT 'open'::text NOT NULL,
    reached timestamp with time zone,
    planned integer,
    already integer DEFAULT 0 NOT NULL,
    created integer DEFAULT 0 NOT NULL,
    succeeded integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    error jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_by text,
    ended_at timestamp with time zone,
    CONSTRAINT a_backfill_has_up_to_a_million_instants CHECK (((planned IS NULL) OR (planned <= 1000000) OR pgcron.refuse('PC004'::text, format('the range has more than 1000000 instants of the schedule, %s at least'::text, planned), 'A backfill has up to 1000000 instants.'::text, 'Ask for several ranges, one after the other.'::text))),
    CONSTRAINT a_backfill_lies_in_the_past CHECK ((((since < until) AND (until <= created_at) AND ((until - since) <= '3660 days'::interval)) OR pgcron.refuse('PC001'::text, format('a backfill from %s to %s'::text, since, until),
CASE
    WHEN (since >= until) THEN 'Its range begins at since and ends before until, which is later.'::text
    WHEN (until > created_at) THEN 'Only instants that have passed are filled in; the others are the schedule''s own.'::text
    ELSE 'Its range spans up to 3660 days (ten years).'::text
END,
CASE
    WHEN ((until > created_at) AND (since < until)) THEN 'Write an until that is not later than now.'::text
    ELSE 'Ask for several ranges, each with since before until.'::text
END))),
    CONSTRAINT a_backfill_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'paused'::text, 'stopping'::text, 'stopped'::text, 'done'::text]))),
    CONSTRAINT a_backfill_that_is_over_says_when CHECK (((state = ANY (ARRAY['stopped'::text, 'done'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT backfill_args_check CHECK (((args IS NULL) OR pgcron.args_are_fine(args) OR pgcron.refuse_args(args))),
    CONSTRAINT backfill_changed_by_check CHECK (pgcron.is_short('changed_by'::text, changed_by, 300)),
    CONSTRAINT backfill_created_by_check CHECK (pgcron.is_short('created_by'::text, created_by, 300)),
    CONSTRAINT backfill_direction_check CHECK (pgcron.is_one_of('direction'::text, direction, '{forward,backward}'::text[], 'A backfill goes forward (the oldest instant first) or backward.'::text, 'Leave it out for forward.'::text)),
    CONSTRAINT backfill_if_ran_check CHECK (pgcron.is_one_of('if_ran'::text, if_ran, '{skip,failed,all}'::text[], 'Instants that were decided already are left alone (skip), run again if they did not succeed (failed), or all run again (all).'::text, 'Leave it out for skip.'::text)),
    CONSTRAINT backfill_note_check CHECK (pgcron.is_short('note'::text, note, 2000)),
    CONSTRAINT backfill_parallelism_check CHECK (pgcron.is_within('parallelism'::text, parallelism, 1, 1000, 'Of a backfill 1 to 1000 runs are open at once.'::text, 'Leave it out for 1.'::text)),
    CONSTRAINT runs_that_depend_on_the_one_before_are_filled_in_one_by_one CHECK (((NOT COALESCE(((definition ->> 'depends_on_previous'::text))::boolean, false)) OR ((direction = 'forward'::text) AND (parallelism = 1)) OR pgcron.refuse('PC001'::text, format('direction %s and parallelism %s with depends_on_previous'::text, direction, parallelism), 'Each run of the schedule needs that of the instant before: they are made one after the other, the oldest first.'::text, 'Leave both out, or set depends_on_previous to false first.'::text)))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.backfill IS 'Private: Requests to run a range of a schedule, and how far nodes are with them.';

CREATE TABLE pgcron.dead_letter (
    run_id bigint NOT NULL,
    uuid uuid NOT NULL,
    outcome text NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    queue text NOT NULL,
    concurrency_key text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    tags text[],
    priority smallint NOT NULL,
    handler text NOT NULL,
    args jsonb NOT NULL,
    delivery text NOT NULL,
    max_attempts integer,
    timeout interval,
    retry jsonb,
    time_limits jsonb,
    created_by text,
    created_login text,
    namespace text,
    attempts integer NOT NULL,
    error_class text,
    error text,
    fingerprint text,
    redriven_as bigint,
    closed_at timestamp with time zone,
    closed_by text,
    note text,
    CONSTRAINT a_dead_letter_is_dead_or_lost CHECK ((outcome = ANY (ARRAY['dead'::text, 'lost'::text]))),
    CONSTRAINT a_redriven_dead_letter_is_closed CHECK (((redriven_as IS NULL) OR (closed_at IS NOT NULL))),
    CONSTRAINT dead_letter_note_check CHECK (pgcron.is_short('note'::text, note, 2000))
);

COMMENT ON TABLE pgcron.dead_letter IS 'Private: Runs that ended dead or lost, kept apart from history, whose partitions are dropped.';

CREATE TABLE pgcron.history_overflow (
    id bigint CONSTRAINT history_id_not_null NOT NULL,
    due_at timestamp with time zone CONSTRAINT history_due_at_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT history_created_at_not_null NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() CONSTRAINT history_finished_at_not_null NOT NULL,
    fence bigint,
    owner uuid,
    attempt integer CONSTRAINT history_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT history_priority_not_null NOT NULL,
    uuid uuid,
    origin text CONSTRAINT history_origin_not_null NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text CONSTRAINT history_queue_not_null NOT NULL,
    concurrency_key text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    tags text[],
    handler text CONSTRAINT history_handler_not_null NOT NULL,
    args jsonb,
    delivery text CONSTRAINT history_delivery_not_null NOT NULL,
    outcome text CONSTRAINT history_outcome_not_null NOT NULL,
    max_attempts integer,
    timeout interval,
    retry jsonb,
    snoozes smallint,
    time_limits jsonb,
    created_by text CONSTRAINT history_created_by_not_null NOT NULL,
    created_login text,
    namespace text,
    node text,
    cancel_reason text,
    error text,
    result jsonb,
    CONSTRAINT an_outcome_is_known CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'lost'::text, 'upstream_failed'::text])))
);

COMMENT ON TABLE pgcron.history_overflow IS 'Private: Takes what has no partition, so that a run can always end; the janitor moves it over.';

CREATE VIEW pgcron.ended_runs AS
 SELECT h.id,
    h.due_at,
    h.created_at,
    h.claimed_at,
    h.started_at,
    h.finished_at,
    h.fence,
    h.owner,
    h.attempt,
    h.priority,
    h.uuid,
    h.origin,
    h.schedule_id,
    h.schedule,
    h.scheduled_for,
    h.nominal_for,
    h.parent_run,
    h.queue,
    h.concurrency_key,
    h.unique_key,
    h.unique_scope,
    h.requires,
    h.weight,
    h.tags,
    h.handler,
    h.args,
    h.delivery,
    h.outcome,
    h.max_attempts,
    h.timeout,
    h.retry,
    h.snoozes,
    h.time_limits,
    h.created_by,
    h.created_login,
    h.namespace,
    h.node,
    h.cancel_reason,
    h.error,
    h.result
   FROM pgcron.history h
UNION ALL
 SELECT o.id,
    o.due_at,
    o.created_at,
    o.claimed_at,
    o.started_at,
    o.finished_at,
    o.fence,
    o.owner,
    o.attempt,
    o.priority,
    o.uuid,
    o.origin,
    o.schedule_id,
    o.schedule,
    o.scheduled_for,
    o.nominal_for,
    o.parent_run,
    o.queue,
    o.concurrency_key,
    o.unique_key,
    o.unique_scope,
    o.requires,
    o.weight,
    o.tags,
    o.handler,
    o.args,
    o.delivery,
    o.outcome,
    o.max_attempts,
    o.timeout,
    o.retry,
    o.snoozes,
    o.time_limits,
    o.created_by,
    o.created_login,
    o.namespace,
    o.node,
    o.cancel_reason,
    o.error,
    o.result
   FROM pgcron.history_overflow o;

COMMENT ON VIEW pgcron.ended_runs IS 'Private: history and its overflow.';

CREATE TABLE pgcron.occurrence (
    schedule_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    decision text NOT NULL,
    reason text,
    run_id bigint,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_decision_is_known CHECK ((decision = ANY (ARRAY['run'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'cancelled'::text, 'upstream_failed'::text]))),
    CONSTRAINT a_fire_that_does_not_run_says_why CHECK (((decision = 'run'::text) OR (reason IS NOT NULL))),
    CONSTRAINT a_fire_that_runs_names_its_run CHECK (((decision <> 'run'::text) OR (run_id IS NOT NULL)))
)
PARTITION BY RANGE (fire_at);

COMMENT ON TABLE pgcron.occurrence IS 'Private: The ledger and the permanent fence: one row for each fire time that was decided singly.';

CREATE TABLE pgcron.occurrence_override (
    schedule_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    action text NOT NULL,
    due_at timestamp with time zone,
    args jsonb,
    note text,
    actor text DEFAULT SESSION_USER NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_fire_lies_within_the_calendar CHECK (((pgcron.is_in_calendar(fire_at) AND COALESCE(pgcron.is_in_calendar(due_at), true)) OR pgcron.refuse('PC001'::text, format('fire %s%s is outside of the calendar'::text, fire_at, (' at '::text || due_at)), 'A fire lies, and is moved, within the years 1900 to 9998.'::text, 'SELECT * FROM pgcron.preview(…) shows those to come.'::text))),
    CONSTRAINT a_move_says_where_to CHECK (((action = 'move'::text) = (due_at IS NOT NULL))),
    CONSTRAINT an_edit_has_args CHECK (((action <> 'edit'::text) OR (args IS NOT NULL))),
    CONSTRAINT an_override_skips_moves_or_edits CHECK ((action = ANY (ARRAY['skip'::text, 'move'::text, 'edit'::text]))),
    CONSTRAINT occurrence_override_actor_check CHECK (pgcron.is_short('actor'::text, actor, 300)),
    CONSTRAINT occurrence_override_note_check CHECK (pgcron.is_short('note'::text, note, 2000)),
    CONSTRAINT override_args_are_an_object_of_256_kib CHECK (((args IS NULL) OR pgcron.args_are_fine(args) OR pgcron.refuse_args(args)))
);

COMMENT ON TABLE pgcron.occurrence_override IS 'Private: One fire skipped, moved or given other args, applied when it is materialized.';

CREATE TABLE pgcron.login_failure (
    key text NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    since timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    last_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

COMMENT ON TABLE pgcron.login_failure IS 'Private: Failed logins, by account and by network.';

CREATE TABLE pgcron.cursor (
    schedule_id bigint NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    since timestamp with time zone NOT NULL,
    watermark timestamp with time zone NOT NULL,
    next_fire timestamp with time zone,
    status text DEFAULT 'unchecked'::text NOT NULL,
    error jsonb,
    retry_at timestamp with time zone,
    canonical text,
    is_paused boolean DEFAULT false NOT NULL,
    pause_note text,
    paused_until timestamp with time zone,
    edit_is_pending boolean DEFAULT false NOT NULL,
    timing_is_new boolean DEFAULT false NOT NULL,
    runs_made integer DEFAULT 0 NOT NULL,
    rules_since timestamp with time zone,
    CONSTRAINT a_schedule_is_unchecked_valid_or_invalid CHECK ((status = ANY (ARRAY['unchecked'::text, 'valid'::text, 'invalid'::text]))),
    CONSTRAINT an_invalid_schedule_says_why CHECK (((status = 'invalid'::text) = (error IS NOT NULL))),
    CONSTRAINT only_what_is_invalid_is_tried_again CHECK (((retry_at IS NULL) OR (status = 'invalid'::text)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE pgcron.cursor IS 'Private: Machine-written, apart from schedule so that edits and the materializer do not wait for each other. Every fire up to watermark is decided.';

CREATE TABLE pgcron.workflow_definition (
    id bigint NOT NULL,
    name text NOT NULL,
    version integer NOT NULL,
    definition jsonb NOT NULL,
    hash text NOT NULL,
    on_failure text NOT NULL,
    parallelism integer,
    timeout interval,
    steps integer NOT NULL,
    managed_by text NOT NULL,
    source text,
    created_by text DEFAULT SESSION_USER NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT a_workflow_name_is_that_of_a_handler CHECK (pgcron.is_handler(('workflow:'::text || name)))
);

COMMENT ON TABLE pgcron.workflow_definition IS 'Private: Versions of workflows; the newest one that is not deleted is what starts.';

CREATE VIEW pgcron.every_run AS
 SELECT h.id,
    h.due_at,
    h.created_at,
    h.claimed_at,
    h.started_at,
    h.finished_at,
    h.fence,
    h.owner,
    h.attempt,
    h.priority,
    h.uuid,
    h.origin,
    h.schedule_id,
    h.schedule,
    h.scheduled_for,
    h.nominal_for,
    h.parent_run,
    h.queue,
    h.concurrency_key,
    h.unique_key,
    h.unique_scope,
    h.requires,
    h.weight,
    h.tags,
    h.handler,
    h.args,
    h.delivery,
    h.outcome,
    h.max_attempts,
    h.timeout,
    h.retry,
    h.snoozes,
    h.time_limits,
    h.created_by,
    h.created_login,
    h.namespace,
    h.node,
    h.cancel_reason,
    h.error,
    h.result,
    NULL::timestamp with time zone AS ended_at,
    r.gate,
    r.expire_at,
    r.cancel_at,
    r.kill_at,
    COALESCE(((n.state <> 'dead'::text) AND (n.lease_until > now())), false) AS has_lease,
    (pgcron.waits(r.*)).waits_for AS waits_for,
    (pgcron.waits(r.*)).waits_detail AS waits_detail,
    (pgcron.waits(r.*)).waits_on AS waits_on
   FROM ((pgcron.run r
     LEFT JOIN pgcron.node n ON ((n.incarnation = r.owner)))
     CROSS JOIN LATERAL pgcron.history_of(r.*, r.state, r.last_error, n.name) h(id, due_at, created_at, claimed_at, started_at, finished_at, fence, owner, attempt, priority, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, concurrency_key, unique_key, unique_scope, requires, weight, tags, handler, args, delivery, outcome, max_attempts, timeout, retry, snoozes, time_limits, created_by, created_login, namespace, node, cancel_reason, error, result))
UNION ALL
 SELECT h.id,
    h.due_at,
    h.created_at,
    h.claimed_at,
    h.started_at,
    h.finished_at,
    h.fence,
    h.owner,
    h.attempt,
    h.priority,
    h.uuid,
    h.origin,
    h.schedule_id,
    h.schedule,
    h.scheduled_for,
    h.nominal_for,
    h.parent_run,
    h.queue,
    h.concurrency_key,
    h.unique_key,
    h.unique_scope,
    h.requires,
    h.weight,
    h.tags,
    h.handler,
    h.args,
    h.delivery,
    h.outcome,
    h.max_attempts,
    h.timeout,
    h.retry,
    h.snoozes,
    h.time_limits,
    h.created_by,
    h.created_login,
    h.namespace,
    h.node,
    h.cancel_reason,
    h.error,
    h.result,
    h.finished_at AS ended_at,
    NULL::text AS gate,
    NULL::timestamp with time zone AS expire_at,
    NULL::timestamp with time zone AS cancel_at,
    NULL::timestamp with time zone AS kill_at,
    false AS has_lease,
    NULL::text AS waits_for,
    NULL::text AS waits_detail,
    NULL::bigint AS waits_on
   FROM pgcron.ended_runs h;

COMMENT ON VIEW pgcron.every_run IS 'Private: of the engine.';

CREATE TABLE pgcron.reason (
    code text NOT NULL,
    decision text NOT NULL,
    matches text,
    meaning text NOT NULL,
    CONSTRAINT a_reason_is_a_word CHECK ((code ~ '^[a-z_]{1,40}$'::text))
);

COMMENT ON TABLE pgcron.reason IS 'Private: The answers of pgcron.why. What a ledger row says is the code itself, or a sentence that matches (a regular expression).';

CREATE TABLE pgcron.retention (
    relation text NOT NULL,
    period text NOT NULL,
    ahead interval NOT NULL,
    keep interval NOT NULL,
    set_by text,
    set_at timestamp with time zone,
    CONSTRAINT a_partition_holds_a_day_or_a_month CHECK ((period = ANY (ARRAY['day'::text, 'month'::text]))),
    CONSTRAINT partitions_are_made_a_day_to_a_year_ahead CHECK (((ahead >= '1 day'::interval) AND (ahead <= '1 year'::interval))),
    CONSTRAINT retention_is_of_a_partitioned_table CHECK ((relation = ANY (ARRAY['occurrence'::text, 'history'::text, 'attempt'::text, 'log'::text, 'audit'::text]))),
    CONSTRAINT retention_keep_check CHECK (pgcron.is_within('retention'::text, keep, '1 day'::interval, '36525 days'::interval, 'Rows are kept for a day to 36525 days (a century).'::text, 'Write for example ''400 days''.'::text)),
    CONSTRAINT retention_set_by_check CHECK (pgcron.is_short('set_by'::text, set_by, 300))
);

COMMENT ON TABLE pgcron.retention IS 'Private: How long each partitioned table is kept. Set by set_table_retention; a changed period holds for new partitions.';

CREATE TABLE pgcron.schedule_version (
    schedule_id bigint NOT NULL,
    version integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    interface text NOT NULL,
    operation text NOT NULL,
    content jsonb NOT NULL,
    since timestamp with time zone,
    note text,
    CONSTRAINT a_version_is_a_creation_edit_or_deletion CHECK ((operation = ANY (ARRAY['create'::text, 'edit'::text, 'delete'::text]))),
    CONSTRAINT schedule_version_actor_check CHECK (pgcron.is_short('actor'::text, actor, 300))
);

COMMENT ON TABLE pgcron.schedule_version IS 'Private: Every version of every schedule, who wrote it and through which interface. No foreign key: it outlives the schedule.';

CREATE TABLE pgcron.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE pgcron.api_token (
    id text NOT NULL,
    secret_hash bytea NOT NULL,
    name text NOT NULL,
    owner text,
    created_by text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    CONSTRAINT a_token_has_an_id CHECK ((id ~ '^[a-z0-9]{8}$'::text)),
    CONSTRAINT a_token_is_known_by_its_hash CHECK ((length(secret_hash) = 32)),
    CONSTRAINT a_token_lives_for_up_to_a_year CHECK ((((expires_at > created_at) AND (expires_at <= (created_at + '366 days'::interval))) OR pgcron.refuse('PC001'::text, 'a token can''t be valid for so long, or so short'::text, 'A token is valid for more than nothing, and for up to a year.'::text, 'Leave it out for 90 days.'::text))),
    CONSTRAINT api_token_name_check CHECK (((name ~ '^[A-Za-z0-9_.-]{1,100}$'::text) OR pgcron.refuse('PC001'::text, format('%L is not the name of a token'::text, "left"(name, 200)), 'A token has a name of 1 to 100 letters, digits, "_", "." and "-".'::text, 'Write for example ''deploy''.'::text)))
);

COMMENT ON TABLE pgcron.api_token IS 'Private: Tokens of programs; what each may is in role_grant.';

CREATE TABLE pgcron.assertion (
    transaction xid8 DEFAULT pg_current_xact_id() NOT NULL,
    run bigint NOT NULL,
    token uuid NOT NULL
);

COMMENT ON TABLE pgcron.assertion IS 'Private: Claims that transactions under way rely on; empty whenever none is.';

CREATE TABLE pgcron.asset (
    name text NOT NULL,
    updates bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    updated_by text NOT NULL,
    metadata jsonb
);

COMMENT ON TABLE pgcron.asset IS 'Private: How often each asset was updated, and its last update.';

CREATE TABLE pgcron.asset_update (
    id bigint NOT NULL,
    asset text NOT NULL,
    metadata jsonb,
    updated_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    updated_by text NOT NULL,
    CONSTRAINT an_asset_has_a_name CHECK ((pgcron.asset_is_fine(asset) OR pgcron.refuse('PC001'::text, format('%L is not the name of an asset'::text, "left"(asset, 200)), 'An asset has 1 to 100 letters, digits, "_", ".", ":", "/", "+", "@", "=" and "-", and is not called "and".'::text, 'Write for example ''sales''.'::text))),
    CONSTRAINT asset_updated_by_is_short CHECK (pgcron.is_short('actor'::text, updated_by, 300)),
    CONSTRAINT metadata_is_a_small_object CHECK (((metadata IS NULL) OR ((jsonb_typeof(metadata) = 'object'::text) AND (octet_length((metadata)::text) <= 4096)) OR pgcron.refuse('PC004'::text, format('the metadata of asset %L is a JSON %s of %s bytes'::text, "left"(asset, 200), jsonb_typeof(metadata), octet_length((metadata)::text)), 'Metadata is a JSON object of at most 4096 bytes.'::text, 'Write for example ''{"rows": 3}'', and keep the rest in a table of yours.'::text)))
);

COMMENT ON TABLE pgcron.asset_update IS 'Private: Updates that nodes have still to count. Who updates only appends here, and so waits for nobody else who updates the same asset.';

ALTER TABLE pgcron.asset_update ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.asset_update_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.schedule_asset (
    schedule_id bigint NOT NULL,
    asset text NOT NULL,
    updated_at timestamp with time zone
);

COMMENT ON TABLE pgcron.schedule_asset IS 'Private: The assets that schedules are on.';

CREATE VIEW pgcron.assets AS
 SELECT n.name,
    COALESCE(a.updates, (0)::bigint) AS updates,
    a.updated_at,
    a.updated_by,
    a.metadata,
    ARRAY( SELECT s.name
           FROM (pgcron.schedule_asset d
             JOIN pgcron.schedule s ON ((s.id = d.schedule_id)))
          WHERE (d.asset = n.name)
          ORDER BY s.name) AS schedules
   FROM (( SELECT e.name
           FROM pgcron.asset e
        UNION
         SELECT d.asset
           FROM pgcron.schedule_asset d) n
     LEFT JOIN pgcron.asset a ON ((a.name = n.name)));

COMMENT ON VIEW pgcron.assets IS 'Assets that were updated, with their last update, or that schedules are on: those schedules by name.';

CREATE TABLE pgcron.attempt (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    owner uuid NOT NULL,
    node text,
    fence bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone DEFAULT now() NOT NULL,
    error_class text,
    error text,
    traceback text,
    fingerprint text,
    CONSTRAINT an_attempt_ends_in_a_known_way CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'lease_lost'::text, 'cancelled'::text, 'snoozed'::text])))
)
PARTITION BY RANGE (ended_at);

COMMENT ON TABLE pgcron.attempt IS 'Private: One row at the end of each attempt that did not succeed.';

CREATE TABLE pgcron.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    login text DEFAULT SESSION_USER NOT NULL,
    actor text NOT NULL,
    interface text NOT NULL,
    address text,
    verb text NOT NULL,
    kind text NOT NULL,
    name text,
    note text,
    before jsonb,
    after jsonb,
    outcome text DEFAULT 'done'::text NOT NULL,
    CONSTRAINT an_audited_verb_was_done_or_refused CHECK ((outcome = ANY (ARRAY['done'::text, 'refused'::text])))
)
PARTITION BY RANGE (at);

COMMENT ON TABLE pgcron.audit IS 'Private: One row for each command that controls, each login and each refusal. Nobody changes a row.';

CREATE TABLE pgcron.audit_export (
    one boolean DEFAULT true NOT NULL,
    settled bigint DEFAULT 0 NOT NULL,
    next_id bigint DEFAULT 0 NOT NULL,
    next_xid xid8 DEFAULT '0'::xid8 NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    error text,
    due_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    CONSTRAINT there_is_one_audit_export CHECK (one)
);

COMMENT ON TABLE pgcron.audit_export IS 'Private: One row: up to which row the audit is complete, and up to which it was sent to a webhook.';

ALTER TABLE pgcron.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE pgcron.backfill ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.backfill_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.backfill_run (
    backfill_id bigint NOT NULL,
    run_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome text
)
WITH (fillfactor='70');

COMMENT ON TABLE pgcron.backfill_run IS 'Private: The runs of a backfill whose end was not counted yet (outcome NULL), and the last thousand that did not succeed.';

CREATE VIEW pgcron.backfills AS
 SELECT b.id,
    COALESCE(s.name, b.schedule) AS schedule,
    b.schedule_id,
    b.since,
    b.until,
    b.direction,
    b.parallelism,
    COALESCE(b.overlap, (b.definition ->> 'overlap'::text)) AS overlap,
    b.if_ran,
    b.args,
    b.note,
    b.state,
    b.planned,
    b.already,
    b.created,
    b.succeeded,
    b.failed,
    ((b.created - b.succeeded) - b.failed) AS open,
        CASE
            WHEN (b.state = ANY (ARRAY['done'::text, 'stopped'::text])) THEN 0
            ELSE GREATEST(((b.planned - b.already) - b.created), 0)
        END AS remaining,
    b.reached,
    b.error,
    ((b.definition ->> 'version'::text))::integer AS version,
    (b.definition ->> 'spec'::text) AS spec,
    (b.definition ->> 'timezone'::text) AS timezone,
    b.created_at,
    b.created_by,
    b.changed_at,
    b.changed_by,
    b.ended_at
   FROM (pgcron.backfill b
     LEFT JOIN pgcron.schedule s ON ((s.id = b.schedule_id)));

COMMENT ON VIEW pgcron.backfills IS 'Backfills and how far they are: of planned instants some were decided already, for created ones runs were made; open ones are not over, remaining ones not looked at yet.';

CREATE TABLE pgcron.breaker_handler (
    handler text NOT NULL,
    breaker text NOT NULL,
    CONSTRAINT a_breaker_guards_a_handler CHECK (pgcron.is_handler(handler))
);

COMMENT ON TABLE pgcron.breaker_handler IS 'Private: Which handlers a breaker is for; a handler has one breaker at most.';

CREATE TABLE pgcron.calendar (
    id bigint NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text NOT NULL,
    parts text[] GENERATED ALWAYS AS (pgcron.parts_of_calendar(content)) STORED NOT NULL,
    source text,
    CONSTRAINT a_calendar_is_readable CHECK ((((octet_length(content) <= 65536) AND (content !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]'::text) AND pgcron.lines_fit(regexp_replace(content, '^[ \t\r]*#.*$'::text, ''::text, 'gn'::text), 5000, 512)) OR pgcron.refuse('PC005'::text, format('the calendar is too long (%s bytes), or has a control character'::text, octet_length(content)), 'A calendar has up to 65536 bytes, in up to 5000 lines of up to 512 characters.'::text, 'Split a longer one, and name the parts with `calendar` lines.'::text))),
    CONSTRAINT calendar_name_check CHECK (((name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$'::text) OR pgcron.refuse('PC005'::text, format('%L is not a name of a calendar'::text, "left"(name, 200)), 'A name has 1 to 100 letters, digits, "_", "." and "-", and begins with a letter or a digit.'::text, 'Write for example ''holidays''.'::text))),
    CONSTRAINT calendar_source_check CHECK (pgcron.is_label('name of the source'::text, source, 'Give the file or folder of schedules a short name, for example ''billing''.'::text)),
    CONSTRAINT calendar_updated_by_check CHECK (pgcron.is_short('updated_by'::text, updated_by, 300))
);

COMMENT ON TABLE pgcron.calendar IS 'Private: Named days that schedules share. Written by put_calendar and delete_calendar, which see to the schedules that use them.';

ALTER TABLE pgcron.calendar ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.calendar_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW pgcron.calendars AS
 SELECT id,
    name,
    content,
    version,
    updated_at,
    updated_by,
    ( SELECT count(*) AS count
           FROM pgcron.schedule s
          WHERE ((s.calendars IS NOT NULL) AND (s.calendars ? c.name) AND ((pgcron.scopes() IS NULL) OR pgcron.schedule_in_scope(s.*)))) AS schedules,
    source
   FROM pgcron.calendar c;

COMMENT ON VIEW pgcron.calendars IS 'Calendars, and how many schedules use each, directly or within another.';

CREATE TABLE pgcron.callback (
    run_id bigint NOT NULL,
    fence bigint NOT NULL,
    token_hash bytea NOT NULL,
    opened_at timestamp with time zone DEFAULT now() NOT NULL,
    closed_at timestamp with time zone,
    answered_at timestamp with time zone,
    status text,
    result jsonb,
    error text,
    retry_after double precision,
    has_news boolean DEFAULT false NOT NULL,
    done double precision,
    total double precision,
    note text,
    lines text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT a_callback_token_is_kept_as_sha256 CHECK ((octet_length(token_hash) = 32)),
    CONSTRAINT an_answer_asks_for_no_negative_delay CHECK ((retry_after >= (0)::double precision)),
    CONSTRAINT an_answer_has_its_time CHECK (((status IS NULL) = (answered_at IS NULL))),
    CONSTRAINT an_answer_is_known CHECK ((status = ANY (ARRAY['succeeded'::text, 'failed'::text, 'discarded'::text, 'retry'::text])))
);

COMMENT ON TABLE pgcron.callback IS 'Private: Attempts that wait, or waited within the last day, for a service''s callback. The token itself is nowhere but in the request that the service got.';

CREATE TABLE pgcron.cluster (
    one boolean DEFAULT true NOT NULL,
    system_identifier bigint,
    timeline integer,
    is_synchronous boolean,
    quarantine_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    paused_note text,
    tzdata text COLLATE pg_catalog."C",
    replan_after bigint,
    CONSTRAINT cluster_paused_by_check CHECK (pgcron.is_short('paused_by'::text, paused_by, 300)),
    CONSTRAINT cluster_paused_note_check CHECK (pgcron.is_short('paused_note'::text, paused_note, 2000)),
    CONSTRAINT there_is_one_cluster_row CHECK (one)
);

COMMENT ON TABLE pgcron.cluster IS 'Private: One row: the server''s timeline as last seen, claims refused until quarantine_until or while paused_at is set.';

CREATE TABLE pgcron.cordon (
    node text NOT NULL,
    incarnation uuid,
    note text,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT cordon_note_check CHECK (pgcron.is_short('note'::text, note, 500)),
    CONSTRAINT cordon_set_by_check CHECK (pgcron.is_short('set_by'::text, set_by, 300))
);

COMMENT ON TABLE pgcron.cordon IS 'Private: Which nodes claim nothing: by a name, for every process of that name until it is lifted, or by the incarnation of one process.';

CREATE VIEW pgcron.claiming_node AS
 SELECT n.incarnation
   FROM (pgcron.node n
     CROSS JOIN pgcron.cluster k)
  WHERE ((n.state = ANY (ARRAY['alive'::text, 'cordoned'::text])) AND (n.lease_until > now()) AND (NOT (EXISTS ( SELECT
           FROM pgcron.cordon c
          WHERE (c.node = ANY (ARRAY[n.name, (n.incarnation)::text]))))) AND (k.quarantine_until <= now()) AND (k.paused_at IS NULL) AND COALESCE((k.timeline = pgcron.server_timeline()), true));

COMMENT ON VIEW pgcron.claiming_node IS 'Private: of the engine.';

CREATE VIEW pgcron.dead_letters AS
 SELECT run_id,
    uuid,
    outcome,
    died_at,
    schedule,
    scheduled_for,
    handler,
    queue,
    priority,
    args,
    attempts,
    error_class,
    error,
    fingerprint,
    redriven_as,
    closed_at,
    closed_by,
    note,
    created_by,
    created_login
   FROM pgcron.dead_letter d;

COMMENT ON VIEW pgcron.dead_letters IS 'Runs that ended dead or lost; closed ones were redriven or archived.';

CREATE VIEW pgcron.decided_fire AS
 SELECT o.schedule_id,
    o.fire_at,
    o.decision,
    o.reason,
    o.run_id,
    o.decided_at,
    r.id AS live_run,
    COALESCE(r.origin, past.origin) AS origin,
    past.outcome,
    (((o.decision <> 'run'::text) AND (o.decided_at < o.fire_at)) OR (COALESCE(r.origin, past.origin) = 'backfill'::text) OR (COALESCE(past.began, r.claimed_at,
        CASE
            WHEN (r.attempt > 0) THEN now()
            ELSE NULL::timestamp with time zone
        END) < o.fire_at) OR (EXISTS ( SELECT
           FROM pgcron.occurrence_override e
          WHERE ((e.schedule_id = o.schedule_id) AND (e.fire_at = o.fire_at))))) AS is_by_hand
   FROM ((pgcron.occurrence o
     LEFT JOIN pgcron.run r ON ((r.id = o.run_id)))
     LEFT JOIN LATERAL ( SELECT h.outcome,
            h.origin,
            COALESCE(h.claimed_at, h.finished_at) AS began
           FROM pgcron.ended_runs h
          WHERE (h.id = o.run_id)
         LIMIT 1) past ON (true));

COMMENT ON VIEW pgcron.decided_fire IS 'Private: of the engine.';

CREATE VIEW pgcron.due_without_slot AS
 SELECT id,
    due_at,
    created_at,
    attempt,
    priority,
    uuid,
    origin,
    schedule_id,
    schedule,
    scheduled_for,
    nominal_for,
    parent_run,
    queue,
    handler,
    args,
    delivery,
    state,
    gate,
    expire_at,
    max_attempts,
    timeout,
    retry,
    overlap,
    overlap_slot,
    snoozes,
    concurrency_key,
    key_slot,
    unique_key,
    unique_scope,
    namespace,
    requires,
    weight,
    tags,
    owner,
    token,
    fence,
    claimed_at,
    started_at,
    cancel_at,
    cancel_reason,
    kill_at,
    time_limits,
    last_error,
    lost_early,
    created_by,
    created_login,
    awaited
   FROM pgcron.run r
  WHERE ((state = 'blocked'::text) AND (gate = 'overlap'::text) AND (due_at <= now()));

COMMENT ON VIEW pgcron.due_without_slot IS 'Private: of the engine.';

CREATE VIEW pgcron.error_groups AS
 SELECT fingerprint,
    max(error_class) AS error_class,
    (array_agg("left"(error, 300) ORDER BY died_at DESC))[1] AS message,
    count(*) AS letters,
    count(*) FILTER (WHERE (closed_at IS NULL)) AS open,
    count(*) FILTER (WHERE (outcome = 'lost'::text)) AS lost,
    min(died_at) AS first_at,
    max(died_at) AS last_at,
    array_agg(DISTINCT handler) AS handlers,
    array_agg(DISTINCT queue) AS queues,
    array_remove(array_agg(DISTINCT schedule), NULL::text) AS schedules,
    array_agg(DISTINCT outcome) AS outcomes,
    max(run_id) AS last_run
   FROM pgcron.dead_letter d
  GROUP BY fingerprint;

COMMENT ON VIEW pgcron.error_groups IS 'Dead letters by how they died; open ones were neither redriven nor archived. fingerprint is NULL for letters without one.';

CREATE TABLE pgcron.fallback_run (
    run_id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    breaker text NOT NULL,
    handler text NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL
);

COMMENT ON TABLE pgcron.fallback_run IS 'Private: Runs that an open breaker''s fallback took: the handler and queue of the request. Kept as long as history.';

CREATE SEQUENCE pgcron.fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE pgcron.fire_failure (
    run_id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    fire_at timestamp with time zone,
    failed_at timestamp with time zone NOT NULL,
    is_judged boolean DEFAULT false NOT NULL,
    paused_at timestamp with time zone,
    failures integer DEFAULT 1 NOT NULL,
    pauses integer DEFAULT 0 NOT NULL
);

COMMENT ON TABLE pgcron.fire_failure IS 'Private: Fires of schedules with pause_after_failures that ended dead or lost, since the last that succeeded. The end of a run only inserts, so that it waits for no lock.';

CREATE TABLE pgcron.given_back (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    runs integer NOT NULL
);

COMMENT ON TABLE pgcron.given_back IS 'Private: Counted by the next materializer, which locks the cursor for it: a transaction that ends runs may not lock it any more.';

ALTER TABLE pgcron.given_back ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.given_back_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.idempotency (
    key text NOT NULL,
    run_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    namespace text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    CONSTRAINT idempotency_key_check CHECK ((((length(key) >= 1) AND (length(key) <= 500)) OR pgcron.refuse('PC001'::text, format('the idempotency key has %s characters'::text, length(key)), 'A key has 1 to 500 characters.'::text, 'Use a hash of a longer one.'::text)))
);

COMMENT ON TABLE pgcron.idempotency IS 'Private: An enqueue with a living key returns the run that the key already named.';

CREATE TABLE pgcron.log (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    sequence integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    stream text NOT NULL,
    line text NOT NULL,
    CONSTRAINT a_log_line_has_8_kib CHECK ((octet_length(line) <= 8300)),
    CONSTRAINT a_stream_is_stdout_stderr_or_log CHECK ((stream = ANY (ARRAY['stdout'::text, 'stderr'::text, 'log'::text])))
)
PARTITION BY RANGE (at);

COMMENT ON TABLE pgcron.log IS 'Private: What handlers printed, line by line, while they ran.';

CREATE TABLE pgcron.missed (
    schedule_id bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    fires integer,
    reason text NOT NULL,
    note text,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_count_of_missed_fires_is_not_negative CHECK ((fires >= 0)),
    CONSTRAINT a_range_does_not_end_before_it_begins CHECK ((last_at >= first_at))
);

COMMENT ON TABLE pgcron.missed IS 'Private: Fires that were dropped together: every fire of the schedule from first_at to last_at, both included, that has no row of its own in occurrence. fires is NULL when there were too many to count.';

CREATE VIEW pgcron.nodes AS
 SELECT n.incarnation,
    n.name,
    n.host,
    n.process_id,
    n.version,
        CASE
            WHEN (n.state <> ALL (ARRAY['alive'::text, 'cordoned'::text])) THEN n.state
            WHEN (c.node IS NULL) THEN 'alive'::text
            ELSE 'cordoned'::text
        END AS state,
    n.lease_until,
    n.lease_ttl,
    ((n.state <> 'dead'::text) AND (n.lease_until > now())) AS has_lease,
    n.slots,
    n.slots_used,
    n.queues,
    ( SELECT array_agg(o.handler ORDER BY o.handler) AS array_agg
           FROM pgcron.offer o
          WHERE (o.incarnation = n.incarnation)) AS handlers,
    n.is_idle,
    n.started_at,
    n.ended_at,
    n.ended_because,
    n.labels,
    c.set_at AS cordoned_at,
    c.set_by AS cordoned_by,
    c.note AS cordon_note,
    n.is_pooled,
    n.tzdata,
    n.health
   FROM (pgcron.node n
     LEFT JOIN LATERAL ( SELECT e.node,
            e.incarnation,
            e.note,
            e.set_by,
            e.set_at
           FROM pgcron.cordon e
          WHERE (e.node = ANY (ARRAY[n.name, (n.incarnation)::text]))
          ORDER BY (e.incarnation IS NOT NULL)
         LIMIT 1) c ON ((n.state <> 'dead'::text)));

COMMENT ON VIEW pgcron.nodes IS 'Worker processes, past ones too: what they offer, and whether they hold their lease.';

CREATE VIEW pgcron.occurrences AS
 SELECT s.name AS schedule,
    o.schedule_id,
    o.fire_at,
    o.fire_at AS last_at,
    o.decision,
    o.reason,
    o.run_id,
    1 AS fires,
    o.decided_at,
        CASE
            WHEN ((o.decision = 'run'::text) AND (o.reason IS NULL)) THEN 'run'::text
            ELSE pgcron.reason_code(o.decision, o.reason)
        END AS code
   FROM (pgcron.occurrence o
     LEFT JOIN pgcron.schedule s ON ((s.id = o.schedule_id)))
UNION ALL
 SELECT s.name AS schedule,
    m.schedule_id,
    m.first_at AS fire_at,
    m.last_at,
    'missed'::text AS decision,
    concat_ws(': '::text, m.reason, m.note) AS reason,
    NULL::bigint AS run_id,
    m.fires,
    m.decided_at,
    pgcron.reason_code('missed'::text, m.reason) AS code
   FROM (pgcron.missed m
     LEFT JOIN pgcron.schedule s ON ((s.id = m.schedule_id)));

COMMENT ON VIEW pgcron.occurrences IS 'The ledger: one row for each fire time, or for each range of fires that were dropped together (fires NULL: not counted). code: a stable word; pgcron.why says what it means.';

CREATE TABLE pgcron.outdated_plan (
    schedule_id bigint NOT NULL
);

COMMENT ON TABLE pgcron.outdated_plan IS 'Private: Schedules with fires ahead that another tzdata than cluster.tzdata decided: a node decides them again.';

CREATE TABLE pgcron.overrun (
    run_id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    expected interval NOT NULL
);

COMMENT ON TABLE pgcron.overrun IS 'Private: Runs that execute, or executed a moment ago, for longer than expected; the row of a run that is over is removed within minutes.';

CREATE VIEW pgcron.runs AS
 SELECT id,
    pgcron.run_uuid(uuid, id, created_at) AS uuid,
    origin,
    schedule,
    schedule_id,
    scheduled_for,
    nominal_for,
    parent_run,
    handler,
    queue,
    priority,
    outcome AS state,
    gate,
    delivery,
    attempt,
    pgcron.attempts_allowed(max_attempts, delivery) AS max_attempts,
    due_at,
    claimed_at,
    started_at,
    ended_at AS finished_at,
    node,
    owner,
    error,
    args,
    result,
    created_at,
    created_by,
    cancel_at,
    concurrency_key,
    requires,
    COALESCE(weight, 1) AS weight,
    tags,
        CASE
            WHEN (outcome = 'running'::text) THEN ( SELECT o.expected
               FROM pgcron.overrun o
              WHERE (o.run_id = e.id))
            ELSE NULL::interval
        END AS overrun_after,
    waits_for,
    waits_detail,
    created_login
   FROM pgcron.every_run e;

COMMENT ON VIEW pgcron.runs IS 'Live and ended runs; state is the live state or the outcome. waits_for and waits_detail: what keeps a run that is due from beginning, as a word and as a sentence.';

CREATE VIEW pgcron.own_runs WITH (security_barrier='true') AS
 SELECT id,
    uuid,
    handler,
    queue,
    priority,
    state,
    gate,
    delivery,
    attempt,
    max_attempts,
    due_at,
    started_at,
    finished_at,
    error,
    args,
    result,
    concurrency_key,
    requires,
    weight,
    tags,
    parent_run,
    created_at,
    created_by,
    created_login
   FROM pgcron.runs v
  WHERE (COALESCE(created_login, created_by) = ANY (ARRAY[(SESSION_USER)::text, (CURRENT_USER)::text]));

COMMENT ON VIEW pgcron.own_runs IS 'The runs that the reader''s role has enqueued, and no others; best read by id.';

CREATE TABLE pgcron.producer_backlog (
    role regrole NOT NULL,
    live integer,
    counted_to bigint
);

COMMENT ON TABLE pgcron.producer_backlog IS 'Private: How many live runs a producer with a limited backlog had when they were last counted.';

CREATE TABLE pgcron.progress (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    at timestamp with time zone NOT NULL,
    done double precision NOT NULL,
    total double precision,
    note text,
    CONSTRAINT a_total_is_positive CHECK ((total > (0)::double precision)),
    CONSTRAINT progress_is_not_negative CHECK ((done >= (0)::double precision))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.progress IS 'Private: The last progress that an executing run reported; the row of a run that is over is removed within minutes.';

CREATE VIEW pgcron.queues AS
 SELECT COALESCE(q.name, w.queue) AS name,
    q.paused_at,
    q.paused_by,
    q.paused_note,
    q.max_running,
    COALESCE(w.waiting, (0)::bigint) AS waiting,
    COALESCE(w.due, (0)::bigint) AS due,
    COALESCE(w.running, (0)::bigint) AS running,
    COALESCE(w.blocked, (0)::bigint) AS blocked,
    w.oldest_due
   FROM (pgcron.queue q
     FULL JOIN ( SELECT r.queue,
            count(*) FILTER (WHERE (r.state <> 'running'::text)) AS waiting,
            count(*) FILTER (WHERE ((r.state = 'ready'::text) AND (r.due_at <= now()))) AS due,
            count(*) FILTER (WHERE (r.state = 'running'::text)) AS running,
            count(*) FILTER (WHERE ((r.state = 'blocked'::text) AND (r.due_at <= now()) AND (r.gate <> 'workflow'::text))) AS blocked,
            min(r.due_at) FILTER (WHERE ((r.state <> 'running'::text) AND (r.due_at <= now()))) AS oldest_due
           FROM pgcron.run r
          GROUP BY r.queue) w ON ((w.queue = q.name)));

COMMENT ON VIEW pgcron.queues IS 'Queues and their runs: all that wait, and of those that are due the ready and the blocked; what runs; since when the oldest of all waits.';

CREATE TABLE pgcron.rate_window (
    kind text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    per interval NOT NULL,
    slices bigint[] NOT NULL,
    starts integer[] NOT NULL,
    CONSTRAINT a_rate_is_of_a_key_or_a_queue CHECK ((kind = ANY (ARRAY['key'::text, 'queue'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.rate_window IS 'Private: How many runs of one concurrency key or queue with a rate started lately, by slices of a 256th of its time. Who claims from a key that counts starts or weight has locked its row.';

CREATE TABLE pgcron.retention_rule (
    queue text,
    outcome text,
    keep interval NOT NULL,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_retention_rule_keeps_a_day CHECK (pgcron.is_within('retention'::text, keep, '1 day'::interval, '36525 days'::interval, 'Rows are kept for a day to 36525 days (a century).'::text, 'Keep at least ''1 day''.'::text)),
    CONSTRAINT a_retention_rule_names_a_queue CHECK (pgcron.is_queue(queue)),
    CONSTRAINT retention_rule_outcome_check CHECK (pgcron.is_one_of('outcome'::text, outcome, '{succeeded,dead,cancelled,skipped,superseded,expired,lost,upstream_failed}'::text[], 'Runs end succeeded, dead, lost, cancelled, expired, skipped, superseded or upstream_failed.'::text, 'Leave it out for every outcome.'::text))
);

COMMENT ON TABLE pgcron.retention_rule IS 'Private: How long ended runs of a queue (NULL: every queue) that ended so (NULL: however) are kept, if not as long as history. The most specific rule counts: queue and outcome, queue, outcome, neither.';

CREATE TABLE pgcron.retention_sweep (
    partition text NOT NULL,
    until timestamp with time zone NOT NULL,
    rules text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    file oid,
    page bigint DEFAULT 0 NOT NULL,
    ended_at timestamp with time zone,
    removed bigint DEFAULT 0 NOT NULL,
    remaining bigint DEFAULT 0 NOT NULL,
    gone bigint DEFAULT 0 NOT NULL,
    bytes bigint,
    tries integer DEFAULT 0 NOT NULL,
    tried_at timestamp with time zone
);

COMMENT ON TABLE pgcron.retention_sweep IS 'Private: How far the runs of a day of history have been looked at by the rules of retention, and whether its space was given back.';

ALTER TABLE pgcron.run ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pgcron.run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE pgcron.schedule ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.schedule_preview (
    schedule_id bigint NOT NULL,
    generation bigint,
    sentence text,
    fires jsonb,
    is_over boolean,
    error jsonb,
    asked_at timestamp with time zone
)
WITH (fillfactor='80');

COMMENT ON TABLE pgcron.schedule_preview IS 'Private: The next fires of schedules, and schedules in English: written when a new generation is judged, and on request.';

CREATE VIEW pgcron.schedule_versions AS
 SELECT schedule_id,
    (content ->> 'name'::text) AS schedule,
    version,
    operation,
    at,
    actor,
    interface,
    note,
    since,
    (EXISTS ( SELECT
           FROM pgcron.schedule s
          WHERE ((s.id = v.schedule_id) AND (s.version = v.version)))) AS is_current,
    content
   FROM pgcron.schedule_version v;

COMMENT ON VIEW pgcron.schedule_versions IS 'Every version of every schedule, deleted ones too, under the name that it had then: the newest 200 of each, and of a deleted one as long as its ledger is kept.';

CREATE VIEW pgcron.schedules AS
 SELECT s.id,
    s.uuid,
    s.name,
    s.spec,
    s.timezone,
    s.dst,
    s.handler,
    s.args,
    s.queue,
    s.priority,
    s.enabled,
    s.paused_note,
    s.paused_by,
    s.overlap,
    s.max_running,
    s.max_queued,
    s.queue_drops,
    s.catchup,
    s.catchup_window,
    s.start_deadline,
    s.timeout,
    s.max_attempts,
    s.retry,
    s.delivery,
    s.concurrency_key,
    s.requires,
    s.give_up_after,
    s.silence_timeout,
    s.weight,
    s.paused_until,
    s.after_pause,
    s.jitter,
    s.depends_on_previous,
    s.max_runs,
    s.pause_after_failures,
    s.probe_after,
    s.calendars,
    s.owner,
    s.description,
    s.tags,
    s.links,
    s.managed_by,
    s.source,
    s.version,
    s.created_at,
    s.updated_at,
    c.runs_made,
        CASE
            WHEN ((c.status = 'valid'::text) AND (c.next_fire = 'infinity'::timestamp with time zone) AND ((s.max_runs <= c.runs_made) OR (c.canonical !~~ 'on asset %'::text)) AND (NOT (EXISTS ( SELECT
               FROM pgcron.run r
              WHERE ((r.schedule_id = s.id) AND (r.origin = 'schedule'::text)))))) THEN 'done'::text
            ELSE c.status
        END AS status,
    c.error,
    c.canonical,
    c.watermark,
    COALESCE(( SELECT min(r.scheduled_for) AS min
           FROM pgcron.run r
          WHERE ((r.schedule_id = s.id) AND (r.state = ANY (ARRAY['blocked'::text, 'ready'::text])) AND (r.scheduled_for > now()))),
        CASE
            WHEN (isfinite(c.next_fire) AND (NOT c.is_paused)) THEN c.next_fire
            ELSE NULL::timestamp with time zone
        END) AS next_fire,
    ( SELECT (count(*))::integer AS count
           FROM (pgcron.overrun o
             JOIN pgcron.run r ON (((r.id = o.run_id) AND (r.state = 'running'::text))))
          WHERE (o.schedule_id = s.id)) AS overrunning,
    ( SELECT array_agg(d.asset ORDER BY d.asset) AS array_agg
           FROM pgcron.schedule_asset d
          WHERE ((d.schedule_id = s.id) AND (d.updated_at IS NULL))) AS waits_for_assets
   FROM (pgcron.schedule s
     JOIN pgcron.cursor c ON ((c.schedule_id = s.id)));

COMMENT ON VIEW pgcron.schedules IS 'Schedules and their status: unchecked, valid, invalid (error says why), or done: it has no fire to come, and its last run is over. waits_for_assets: those of its assets that were not updated since its last run.';

ALTER TABLE pgcron.step_outbox ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.step_outbox_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.step_signal (
    workflow bigint NOT NULL,
    name text NOT NULL,
    payload jsonb,
    reason text NOT NULL
);

COMMENT ON TABLE pgcron.step_signal IS 'Private: Signals that came before their step; the last one counts.';

CREATE TABLE pgcron.timezone (
    name text NOT NULL
);

COMMENT ON TABLE pgcron.timezone IS 'Private: IANA zones that the nodes'' own tzdata knows (PostgreSQL''s may differ); nodes add what they know.';

CREATE TABLE pgcron.unique_period (
    key text NOT NULL COLLATE pg_catalog."C",
    handler text NOT NULL,
    run_id bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    namespace text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C"
);

COMMENT ON TABLE pgcron.unique_period IS 'Private: Unique keys with a time: which run was the last with it, and until when there is no other. The janitor removes what is over.';

CREATE VIEW pgcron.waiting AS
 SELECT r.id,
    r.state,
    w.waits_for,
    w.waits_detail,
    w.waits_on
   FROM (pgcron.run r
     CROSS JOIN LATERAL pgcron.waits(r.*) w(waits_for, waits_detail, waits_on))
  WHERE (r.state <> 'running'::text);

COMMENT ON VIEW pgcron.waiting IS 'Private: of the engine.';

CREATE TABLE pgcron.web_session (
    id bytea NOT NULL,
    user_name text NOT NULL,
    method text NOT NULL,
    address text,
    agent text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_seen_at timestamp with time zone DEFAULT now() NOT NULL,
    idle interval NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT a_login_has_a_method CHECK ((method = ANY (ARRAY['password'::text, 'oidc'::text]))),
    CONSTRAINT a_session_is_known_by_its_hash CHECK ((length(id) = 32))
);

COMMENT ON TABLE pgcron.web_session IS 'Private: Who is logged in, and until when.';

ALTER TABLE pgcron.workflow_definition ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.workflow_definition_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW pgcron.workflow_runs AS
 SELECT w.run AS run_id,
    d.name,
    d.version,
    COALESCE(w.outcome, 'running'::text) AS state,
    w.stop_reason AS reason,
    w.args,
    w.started_at,
    w.ended_at AS finished_at,
    d.steps,
    c.waiting,
    c.ready,
    c.running,
    c.succeeded,
    c.failed,
    c.skipped,
    COALESCE(w.paused_at, h.paused_at) AS paused_at,
    COALESCE(w.paused_by, h.paused_by) AS paused_by,
    COALESCE(w.paused_note, h.paused_note) AS paused_note,
    w.stopping,
    w.deadline,
    w.redrive_of,
    w.definition AS definition_id
   FROM (((pgcron.workflow_run w
     JOIN pgcron.workflow_definition d ON ((d.id = w.definition)))
     CROSS JOIN LATERAL ( SELECT count(*) FILTER (WHERE (s.state = 'waiting'::text)) AS waiting,
            count(*) FILTER (WHERE (s.state = 'ready'::text)) AS ready,
            count(*) FILTER (WHERE (s.state = 'running'::text)) AS running,
            count(*) FILTER (WHERE (s.state = 'succeeded'::text)) AS succeeded,
            count(*) FILTER (WHERE pgcron.is_failure(s.state)) AS failed,
            count(*) FILTER (WHERE (s.state = ANY (ARRAY['skipped'::text, 'superseded'::text]))) AS skipped
           FROM (pgcron.step s
             CROSS JOIN LATERAL ( SELECT
                   FROM pgcron.workflow_step x_1
                  WHERE ((x_1.definition = s.definition) AND (x_1.number = s.number) AND (x_1.kind <> 'barrier'::text))
                 LIMIT 1) x)
          WHERE ((s.workflow = w.run) AND (s.item = '-1'::integer))) c)
     LEFT JOIN LATERAL pgcron.held_by(w.*) h(run, definition, made, args, started_at, ended_at, outcome, paused_at, paused_by, paused_note, stopping, stop_reason, deadline, look_at, clearing, redrive_of, above, keys, names) ON (((w.paused_at IS NULL) AND (w.ended_at IS NULL))))
  WHERE (w.started_at IS NOT NULL);

COMMENT ON VIEW pgcron.workflow_runs IS 'Runs of workflows that have begun, and how many of their steps are in which state. paused_at, paused_by, paused_note: of the pause of the run, or of one above it.';

CREATE VIEW pgcron.workflow_steps AS
 SELECT s.workflow AS run_id,
    s.number,
    s.item,
    d.name,
    d.kind,
    d.phase,
    s.state,
    d.rule,
    d.handler,
    d.is_optional,
        CASE
            WHEN ((d.kind = 'run'::text) OR (s.item >= 0)) THEN s.run
            ELSE NULL::bigint
        END AS step_run,
    s.waits,
    s.items,
    s.items_ended,
    s.items_failed,
    s.due,
    s.started_at,
    s.ended_at,
    s.result,
    s.reason,
    pgcron.step_waits(s.*, d.*) AS waits_detail
   FROM (pgcron.step s
     JOIN pgcron.workflow_step d USING (definition, number))
  WHERE (d.kind <> 'barrier'::text);

COMMENT ON VIEW pgcron.workflow_steps IS 'The steps of workflows that run or ran: item -1 is the step, from 0 on the items of its list. waits_detail: what keeps it from going on.';

CREATE VIEW pgcron.workflows AS
 SELECT DISTINCT ON (name) name,
    version,
    (definition ->> 'description'::text) AS description,
    steps,
    on_failure,
    parallelism,
    timeout,
    managed_by,
    source,
    created_at,
    created_by,
    definition,
    id
   FROM pgcron.workflow_definition d
  WHERE ((deleted_at IS NULL) AND (name <> 'ad_hoc'::text))
  ORDER BY name, version DESC;

COMMENT ON VIEW pgcron.workflows IS 'Workflows, each in its newest version.';

ALTER TABLE pgcron.run
    ADD CONSTRAINT a_run_keeps_its_rules CHECK ((((attempt = 1) AND (state = 'running'::text) AND (num_nonnulls(owner, token, fence, claimed_at) = 4) AND (num_nonnulls(gate, requires) = 0) AND ((concurrency_key IS NULL) = (key_slot IS NULL)) AND ((key_slot >= 1) IS NOT FALSE) AND ((overlap IS NULL) = (overlap_slot IS NULL))) OR ((has_table_privilege(('pgcron.run'::regclass)::oid, 'TRUNCATE'::text) OR pgcron.judge_guest(run.*, CURRENT_USER)) AND (pgcron.is_common_run(run.*) OR pgcron.judge_run(run.*)))));

ALTER TABLE ONLY pgcron.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY pgcron.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.assertion
    ADD CONSTRAINT assertion_pkey PRIMARY KEY (transaction, run, token);

ALTER TABLE ONLY pgcron.asset
    ADD CONSTRAINT asset_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.asset_update
    ADD CONSTRAINT asset_update_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id, at);

ALTER TABLE ONLY pgcron.audit_export
    ADD CONSTRAINT audit_export_pkey PRIMARY KEY (one);

ALTER TABLE ONLY pgcron.backfill
    ADD CONSTRAINT backfill_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.backfill_run
    ADD CONSTRAINT backfill_run_pkey PRIMARY KEY (backfill_id, run_id);

ALTER TABLE ONLY pgcron.breaker_handler
    ADD CONSTRAINT breaker_handler_pkey PRIMARY KEY (handler);

ALTER TABLE ONLY pgcron.breaker
    ADD CONSTRAINT breaker_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.calendar
    ADD CONSTRAINT calendar_name_key UNIQUE (name);

ALTER TABLE ONLY pgcron.calendar
    ADD CONSTRAINT calendar_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.callback
    ADD CONSTRAINT callback_pkey PRIMARY KEY (run_id, fence);

ALTER TABLE ONLY pgcron.cluster
    ADD CONSTRAINT cluster_pkey PRIMARY KEY (one);

ALTER TABLE ONLY pgcron.concurrency_limit
    ADD CONSTRAINT concurrency_limit_pkey PRIMARY KEY (concurrency_key);

ALTER TABLE ONLY pgcron.cordon
    ADD CONSTRAINT cordon_pkey PRIMARY KEY (node);

ALTER TABLE ONLY pgcron.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.fallback_run
    ADD CONSTRAINT fallback_run_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.fire_failure
    ADD CONSTRAINT fire_failure_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.given_back
    ADD CONSTRAINT given_back_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (namespace, key);

ALTER TABLE ONLY pgcron.login_failure
    ADD CONSTRAINT login_failure_pkey PRIMARY KEY (key);

ALTER TABLE ONLY pgcron.missed
    ADD CONSTRAINT missed_pkey PRIMARY KEY (schedule_id, first_at);

ALTER TABLE ONLY pgcron.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (incarnation);

ALTER TABLE ONLY pgcron.occurrence
    ADD CONSTRAINT occurrence_pkey PRIMARY KEY (schedule_id, fire_at);

ALTER TABLE ONLY pgcron.occurrence_override
    ADD CONSTRAINT occurrence_override_pkey PRIMARY KEY (schedule_id, fire_at);

ALTER TABLE ONLY pgcron.offer
    ADD CONSTRAINT offer_pkey PRIMARY KEY (incarnation, handler);

ALTER TABLE ONLY pgcron.outdated_plan
    ADD CONSTRAINT outdated_plan_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.overrun
    ADD CONSTRAINT overrun_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.owned
    ADD CONSTRAINT owned_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY pgcron.producer_backlog
    ADD CONSTRAINT producer_backlog_pkey PRIMARY KEY (role);

ALTER TABLE ONLY pgcron.producer
    ADD CONSTRAINT producer_namespace_key UNIQUE (namespace);

ALTER TABLE ONLY pgcron.producer
    ADD CONSTRAINT producer_pkey PRIMARY KEY (role);

ALTER TABLE ONLY pgcron.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.rate_window
    ADD CONSTRAINT rate_window_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY pgcron.reason
    ADD CONSTRAINT reason_pkey PRIMARY KEY (code);

ALTER TABLE ONLY pgcron.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (relation);

ALTER TABLE ONLY pgcron.retention_sweep
    ADD CONSTRAINT retention_sweep_pkey PRIMARY KEY (partition);

ALTER TABLE ONLY pgcron.role_grant
    ADD CONSTRAINT role_grant_pkey PRIMARY KEY (subject_kind, subject, role, scope_kind, scope);

ALTER TABLE ONLY pgcron.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.schedule_asset
    ADD CONSTRAINT schedule_asset_pkey PRIMARY KEY (schedule_id, asset);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_name_key UNIQUE (name);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.schedule_preview
    ADD CONSTRAINT schedule_preview_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_uuid_key UNIQUE (uuid);

ALTER TABLE ONLY pgcron.schedule_version
    ADD CONSTRAINT schedule_version_pkey PRIMARY KEY (schedule_id, version, operation);

ALTER TABLE ONLY pgcron.step_outbox
    ADD CONSTRAINT step_outbox_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.step
    ADD CONSTRAINT step_pkey PRIMARY KEY (workflow, number, item);

ALTER TABLE ONLY pgcron.step_signal
    ADD CONSTRAINT step_signal_pkey PRIMARY KEY (workflow, name);

ALTER TABLE pgcron.breaker
    ADD CONSTRAINT the_numbers_of_a_breaker_are_in_range CHECK ((pgcron.breaker_is_fine(breaker.*) OR pgcron.refuse('PC001'::text, format('breaker %L is out of range: failures %s, within %s, open_for %s, open_for_at_most %s'::text, name, failures, within, open_for, open_for_at_most), 'It opens after 1 to 100 failures, each of which counts for 1 second to 1 day (within), for 1 second to 1 day at first (open_for); each probe that fails doubles that, up to open_for_at_most, which is at least open_for and at most 7 days.'::text, 'Leave out what need not differ from 5, ''1 minute'', ''30 seconds'' and ''10 minutes''.'::text)));

ALTER TABLE ONLY pgcron.timezone
    ADD CONSTRAINT timezone_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.unique_period
    ADD CONSTRAINT unique_period_pkey PRIMARY KEY (namespace, key, handler);

ALTER TABLE ONLY pgcron.web_session
    ADD CONSTRAINT web_session_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.web_user
    ADD CONSTRAINT web_user_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.workflow_definition
    ADD CONSTRAINT workflow_definition_name_version_key UNIQUE (name, version);

ALTER TABLE ONLY pgcron.workflow_definition
    ADD CONSTRAINT workflow_definition_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.workflow_edge
    ADD CONSTRAINT workflow_edge_pkey PRIMARY KEY (definition, parent, child);

ALTER TABLE ONLY pgcron.workflow_run
    ADD CONSTRAINT workflow_run_pkey PRIMARY KEY (run);

ALTER TABLE ONLY pgcron.workflow_step
    ADD CONSTRAINT workflow_step_name_definition_key UNIQUE (name, definition);

ALTER TABLE ONLY pgcron.workflow_step
    ADD CONSTRAINT workflow_step_pkey PRIMARY KEY (definition, number);

CREATE INDEX api_token_owner ON pgcron.api_token USING btree (owner);

CREATE INDEX attempt_run ON ONLY pgcron.attempt USING btree (run_id, attempt);

CREATE INDEX audit_at ON ONLY pgcron.audit USING btree (at, id);

CREATE INDEX audit_name ON ONLY pgcron.audit USING btree (name, at, id);

CREATE INDEX backfill_of_schedule ON pgcron.backfill USING btree (schedule_id, id);

CREATE INDEX backfill_run_open ON pgcron.backfill_run USING btree (backfill_id) WHERE (outcome IS NULL);

CREATE INDEX backfill_under_way ON pgcron.backfill USING btree (id) WHERE (state = ANY (ARRAY['open'::text, 'paused'::text, 'stopping'::text]));

CREATE INDEX breaker_handler_breaker ON pgcron.breaker_handler USING btree (breaker);

CREATE INDEX breaker_open ON pgcron.breaker USING btree (name) WHERE (state <> 'closed'::text);

CREATE INDEX callback_age ON pgcron.callback USING btree (opened_at);

CREATE INDEX concurrency_limit_pattern ON pgcron.concurrency_limit USING btree (concurrency_key) WHERE ("right"(concurrency_key, 1) = '*'::text);

CREATE INDEX cursor_due ON pgcron.cursor USING btree (next_fire NULLS FIRST) WHERE ((status <> 'invalid'::text) AND (NOT is_paused));

CREATE INDEX cursor_edited ON pgcron.cursor USING btree (schedule_id) WHERE edit_is_pending;

CREATE INDEX cursor_refused ON pgcron.cursor USING btree (retry_at) WHERE (retry_at IS NOT NULL);

CREATE INDEX dead_letter_closed ON pgcron.dead_letter USING btree (closed_at) WHERE (closed_at IS NOT NULL);

CREATE INDEX dead_letter_group ON pgcron.dead_letter USING btree (fingerprint, died_at);

CREATE INDEX dead_letter_open ON pgcron.dead_letter USING btree (died_at DESC) WHERE (closed_at IS NULL);

CREATE INDEX fallback_run_at ON pgcron.fallback_run USING btree (at);

CREATE INDEX fire_failure_new ON pgcron.fire_failure USING btree (schedule_id) WHERE (NOT is_judged);

CREATE INDEX fire_failure_schedule ON pgcron.fire_failure USING btree (schedule_id, failed_at);

CREATE INDEX history_id ON ONLY pgcron.history USING btree (id);

CREATE INDEX history_parent ON ONLY pgcron.history USING btree (parent_run) WHERE (parent_run IS NOT NULL);

CREATE INDEX history_schedule ON ONLY pgcron.history USING btree (schedule_id, finished_at) WHERE (schedule_id IS NOT NULL);

CREATE INDEX history_overflow_id ON pgcron.history_overflow USING btree (id);

CREATE INDEX idempotency_expiring ON pgcron.idempotency USING btree (expires_at);

CREATE INDEX log_run ON ONLY pgcron.log USING btree (run_id, attempt, sequence);

CREATE INDEX login_failure_last ON pgcron.login_failure USING btree (last_at);

CREATE INDEX node_living ON pgcron.node USING btree (incarnation) WHERE (state <> 'dead'::text);

CREATE INDEX occurrence_override_early ON pgcron.occurrence_override USING btree (due_at) WHERE ((action = 'move'::text) AND (due_at < fire_at));

CREATE INDEX offer_handler ON pgcron.offer USING btree (handler);

CREATE INDEX overrun_schedule ON pgcron.overrun USING btree (schedule_id);

CREATE UNIQUE INDEX retention_rule_once ON pgcron.retention_rule USING btree (COALESCE(queue, ''::text), COALESCE(outcome, ''::text));

CREATE INDEX run_blocked ON pgcron.run USING btree (gate, due_at, id) WHERE (state = 'blocked'::text);

CREATE INDEX run_claim ON pgcron.run USING btree (queue, priority, ((delivery <> 'at_least_once'::text)), due_at, id) WHERE ((state = 'ready'::text) AND (concurrency_key IS NULL) AND (requires IS NULL));

CREATE INDEX run_claim_key ON pgcron.run USING btree (queue, concurrency_key, priority, due_at, id) WHERE ((state = 'ready'::text) AND (concurrency_key IS NOT NULL));

CREATE INDEX run_claim_placed ON pgcron.run USING btree (queue, requires, priority, due_at, id) WHERE ((state = 'ready'::text) AND (concurrency_key IS NULL) AND (requires IS NOT NULL));

CREATE INDEX run_expiring ON pgcron.run USING btree (expire_at) WHERE ((state <> 'running'::text) AND (expire_at IS NOT NULL));

CREATE UNIQUE INDEX run_fire ON pgcron.run USING btree (schedule_id, scheduled_for) WHERE (scheduled_for IS NOT NULL);

CREATE UNIQUE INDEX run_key_slot ON pgcron.run USING btree (concurrency_key, key_slot) WHERE (key_slot IS NOT NULL);

CREATE INDEX run_namespace ON pgcron.run USING btree (namespace) WHERE (namespace IS NOT NULL);

CREATE INDEX run_new_keys ON pgcron.run USING btree (queue, due_at) WHERE ((state = 'ready'::text) AND (concurrency_key IS NOT NULL));

CREATE UNIQUE INDEX run_overlap_slot ON pgcron.run USING btree (schedule_id, overlap_slot) WHERE (overlap_slot IS NOT NULL);

CREATE INDEX run_owner ON pgcron.run USING btree (owner) WHERE (state = 'running'::text);

CREATE INDEX run_parent ON pgcron.run USING btree (parent_run) WHERE (parent_run IS NOT NULL);

CREATE INDEX run_schedule ON pgcron.run USING btree (schedule_id, state, gate, due_at) WHERE (schedule_id IS NOT NULL);

CREATE UNIQUE INDEX run_unique_key ON pgcron.run USING btree (unique_key, handler, COALESCE(namespace, ''::text)) WHERE pgcron.has_key(unique_key, unique_scope, attempt);

CREATE INDEX run_unserved ON pgcron.run USING btree (handler, queue, COALESCE(requires, '{}'::text[])) WHERE (gate = ANY (ARRAY['breaker'::text, 'no_node'::text]));

CREATE INDEX schedule_asset_name ON pgcron.schedule_asset USING btree (asset);

CREATE INDEX schedule_asset_updated ON pgcron.schedule_asset USING btree (schedule_id) WHERE (updated_at IS NOT NULL);

CREATE INDEX schedule_of_source ON pgcron.schedule USING btree (source) WHERE (source IS NOT NULL);

CREATE INDEX schedule_paused_until ON pgcron.schedule USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX schedule_preview_asked ON pgcron.schedule_preview USING btree (asked_at) WHERE (asked_at IS NOT NULL);

CREATE INDEX schedule_version_deleted ON pgcron.schedule_version USING btree (((content ->> 'name'::text)), at) WHERE (operation = 'delete'::text);

CREATE INDEX schedule_version_outlived ON pgcron.schedule_version USING btree (at) WHERE (operation = 'delete'::text);

CREATE INDEX schedule_with_calendars ON pgcron.schedule USING btree (id) WHERE (calendars IS NOT NULL);

CREATE INDEX step_due ON pgcron.step USING btree (due) WHERE ((due IS NOT NULL) AND (state = 'running'::text));

CREATE INDEX step_failed ON pgcron.step USING btree (workflow, number) WHERE (state = ANY (ARRAY['dead'::text, 'lost'::text, 'cancelled'::text, 'expired'::text, 'upstream_failed'::text]));

CREATE INDEX step_outbox_workflow ON pgcron.step_outbox USING btree (workflow, id);

CREATE INDEX step_ready ON pgcron.step USING btree (workflow, number, item) WHERE (state = 'ready'::text);

CREATE INDEX step_result ON pgcron.step USING btree (workflow, number) WHERE ((result IS NOT NULL) AND (item = '-1'::integer));

CREATE UNIQUE INDEX step_run ON pgcron.step USING btree (run);

CREATE INDEX unique_period_until ON pgcron.unique_period USING btree (until);

CREATE INDEX web_session_expires ON pgcron.web_session USING btree (expires_at);

CREATE INDEX web_session_user ON pgcron.web_session USING btree (user_name, created_at);

CREATE INDEX workflow_definition_ad_hoc ON pgcron.workflow_definition USING btree (hash) WHERE (name = 'ad_hoc'::text);

CREATE INDEX workflow_definition_named ON pgcron.workflow_definition USING btree (id) WHERE (name <> 'ad_hoc'::text);

CREATE INDEX workflow_edge_child ON pgcron.workflow_edge USING btree (definition, child);

CREATE INDEX workflow_run_deadline ON pgcron.workflow_run USING btree (deadline) WHERE ((deadline IS NOT NULL) AND (ended_at IS NULL) AND (COALESCE(stopping, 'stop'::text) = 'stop'::text));

CREATE INDEX workflow_run_definition ON pgcron.workflow_run USING btree (definition, run);

CREATE INDEX workflow_run_ended ON pgcron.workflow_run USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX workflow_run_look ON pgcron.workflow_run USING btree (look_at) WHERE (look_at IS NOT NULL);

CREATE INDEX workflow_run_redrive ON pgcron.workflow_run USING btree (redrive_of) WHERE (redrive_of IS NOT NULL);

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE OF failures, within, open_for, open_for_at_most, fallback_handler, fallback_queue ON pgcron.breaker FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('breaker', 'name', 'set', 'set', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR UPDATE ON pgcron.breaker_handler FOR EACH ROW WHEN ((new.handler <> new.breaker)) EXECUTE FUNCTION pgcron.audit_change('breaker_handler', 'handler', 'set', 'set');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.calendar FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('calendar', 'name', 'create', 'edit', 'delete');

CREATE TRIGGER audit_change AFTER UPDATE OF paused_at, paused_note ON pgcron.cluster FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('cluster', '', '', 'edit');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.concurrency_limit FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('concurrency', 'concurrency_key', 'set', 'set', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR UPDATE ON pgcron.cordon FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('node', 'node', 'cordon', 'cordon');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.producer FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('producer', 'role', 'confine', 'confine', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.queue FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('queue', 'name', 'set', 'set', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.retention FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('table_retention', 'relation', 'set', 'set', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.retention_rule FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('retention', 'queue outcome', 'set', 'set', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.role_grant FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('role', 'subject_kind subject', 'grant', 'grant', 'revoke');

CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.audit_change('schedule', 'name', 'create', 'edit', 'delete');

CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OF managed_by, source ON pgcron.workflow_definition FOR EACH ROW WHEN ((new.name <> 'ad_hoc'::text)) EXECUTE FUNCTION pgcron.audit_change('workflow', 'name', 'put', 'put');

CREATE TRIGGER audit_delete AFTER DELETE ON pgcron.cordon FOR EACH ROW WHEN (((old.incarnation IS NULL) OR (pg_trigger_depth() = 0))) EXECUTE FUNCTION pgcron.audit_change('node', 'node', 'cordon', 'cordon', 'uncordon');

CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON pgcron.audit FOR EACH STATEMENT EXECUTE FUNCTION pgcron.refuse_audit_change();

CREATE TRIGGER audit_stays BEFORE DELETE OR UPDATE ON pgcron.audit FOR EACH ROW EXECUTE FUNCTION pgcron.refuse_audit_change();

CREATE TRIGGER block_new_run BEFORE INSERT ON pgcron.run FOR EACH ROW WHEN (((new.overlap IS NOT NULL) AND (new.overlap_slot IS NULL) AND (new.state = 'ready'::text))) EXECUTE FUNCTION pgcron.block_new_run();

CREATE TRIGGER forget_owner AFTER DELETE ON pgcron.calendar FOR EACH ROW EXECUTE FUNCTION pgcron.forget_owner();

CREATE TRIGGER judge_schedule BEFORE INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.judge_schedule();

CREATE TRIGGER keep_calendar_in_scope BEFORE INSERT OR DELETE OR UPDATE ON pgcron.calendar FOR EACH ROW WHEN ((NULLIF(current_setting('pgcron_ha.scopes'::text, true), ''::text) IS NOT NULL)) EXECUTE FUNCTION pgcron.keep_calendar_in_scope();

CREATE TRIGGER keep_schedule_in_scope BEFORE INSERT OR DELETE OR UPDATE ON pgcron.schedule FOR EACH ROW WHEN ((NULLIF(current_setting('pgcron_ha.scopes'::text, true), ''::text) IS NOT NULL)) EXECUTE FUNCTION pgcron.keep_schedule_in_scope();

CREATE TRIGGER schedule_is_deleted BEFORE DELETE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.schedule_is_deleted();

CREATE TRIGGER schedule_was_written AFTER INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.schedule_was_written();

CREATE CONSTRAINT TRIGGER the_claim_holds_at_commit AFTER INSERT ON pgcron.assertion DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pgcron.judge_assertions();

CREATE CONSTRAINT TRIGGER wake_idle_nodes AFTER INSERT ON pgcron.run DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (
        CASE current_setting('pgcron.asked'::text, true)
            WHEN 'yes'::text THEN false
            ELSE (set_config('pgcron.asked'::text, 'yes'::text, true) = 'yes'::text)
        END) EXECUTE FUNCTION pgcron.wake_idle_nodes();

CREATE TRIGGER wake_waiting_clients AFTER DELETE ON pgcron.run FOR EACH ROW WHEN (old.awaited) EXECUTE FUNCTION pgcron.wake_waiting_clients();

CREATE TRIGGER wake_workflows AFTER INSERT ON pgcron.step_outbox REFERENCING NEW TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION pgcron.wake_workflows();

ALTER TABLE ONLY pgcron.api_token
    ADD CONSTRAINT api_token_owner_fkey FOREIGN KEY (owner) REFERENCES pgcron.web_user(name) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.backfill_run
    ADD CONSTRAINT backfill_run_backfill_id_fkey FOREIGN KEY (backfill_id) REFERENCES pgcron.backfill(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.breaker_handler
    ADD CONSTRAINT breaker_handler_breaker_fkey FOREIGN KEY (breaker) REFERENCES pgcron.breaker(name) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.cordon
    ADD CONSTRAINT cordon_incarnation_fkey FOREIGN KEY (incarnation) REFERENCES pgcron.node(incarnation) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.cursor
    ADD CONSTRAINT cursor_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.occurrence_override
    ADD CONSTRAINT occurrence_override_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.offer
    ADD CONSTRAINT offer_incarnation_fkey FOREIGN KEY (incarnation) REFERENCES pgcron.node(incarnation) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.producer_backlog
    ADD CONSTRAINT producer_backlog_role_fkey FOREIGN KEY (role) REFERENCES pgcron.producer(role) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.schedule_asset
    ADD CONSTRAINT schedule_asset_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.schedule_preview
    ADD CONSTRAINT schedule_preview_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.cursor(schedule_id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.step_signal
    ADD CONSTRAINT step_signal_workflow_fkey FOREIGN KEY (workflow) REFERENCES pgcron.workflow_run(run) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.step
    ADD CONSTRAINT step_workflow_fkey FOREIGN KEY (workflow) REFERENCES pgcron.workflow_run(run) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.web_session
    ADD CONSTRAINT web_session_user_name_fkey FOREIGN KEY (user_name) REFERENCES pgcron.web_user(name) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.workflow_edge
    ADD CONSTRAINT workflow_edge_definition_fkey FOREIGN KEY (definition) REFERENCES pgcron.workflow_definition(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.workflow_run
    ADD CONSTRAINT workflow_run_definition_fkey FOREIGN KEY (definition) REFERENCES pgcron.workflow_definition(id);

ALTER TABLE ONLY pgcron.workflow_step
    ADD CONSTRAINT workflow_step_definition_fkey FOREIGN KEY (definition) REFERENCES pgcron.workflow_definition(id) ON DELETE CASCADE;

REVOKE ALL ON FUNCTION pgcron.add_token(id text, secret_hash bytea, name text, role text, scopes text[], lifetime interval, owner text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.add_user(name text, password_hash text, role text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.answer_callback(run bigint, fence bigint, token_hash bytea, status text, result jsonb, error text, retry_after double precision, done double precision, total double precision, note text, lines text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.apply_calendars(contents jsonb, source text, take_over boolean, actor text, schedules text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.apply_edit(edited bigint, timing_changes boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.approve_step(run_id bigint, step text, approved boolean, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.archive_dead_letters(run_ids bigint[], note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.ask_preview(asked bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.assert_token(run_id bigint, token uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.audit_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.backfill(schedule text, since timestamp with time zone, until timestamp with time zone, direction text, parallelism integer, overlap text, if_ran text, args jsonb, note text, actor text, planned integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.begin_login(name text, address text, OUT wait double precision, OUT password_hash text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.begin_operation(key text, lifetime interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.block_new_run() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.calendars_of(spec text, known jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.cancel_own_run(run_id bigint, note text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.cancel_run(run_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.clear_step(run_id bigint, step text, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.cordon_node(node text, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.define_run(run_id bigint, definition jsonb, actor text, replaces boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.delete_breaker(breaker text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.delete_calendar(calendar text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.delete_concurrency(concurrency_key text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.delete_workflow(workflow text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.disable_user(name text, is_disabled boolean, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.drop_outlived(partition text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.end_login(name text, method text, password_hash text, shown text, groups text[], session bytea, idle interval, life interval, address text, agent text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.end_operation(key text, run_id bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.end_waiting_runs(run_ids bigint[], outcome text, reason text, holders bigint[], by_force boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.enqueue(handler text, args jsonb, queue text, priority integer, due_at timestamp with time zone, idempotency_key text, key_lifetime interval, timeout interval, max_attempts integer, delivery text, retry jsonb, actor text, concurrency_key text, requires text[], unique_key text, unique_scope text, unique_for interval, on_conflict text, debounce interval, debounce_max interval, start_within interval, give_up_after interval, silence_timeout interval, weight integer, tags text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.enqueue_many(runs jsonb, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.ensure_partitions() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.erase(run_ids bigint[], concurrency_key text, unique_key text, idempotency_key text, tag text, args_contain jsonb, cancel boolean, dry_run boolean, at_most integer, actor text, OUT runs bigint, OUT log_lines bigint, OUT definitions bigint, OUT alive bigint[], OUT schedules text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.finish_run(run_id bigint, token uuid, elapsed double precision, result jsonb, node text, keep_args boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.forget_owner() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.hold_letters(run_ids bigint[], fingerprint text, handler text, queue text, error_class text, schedule text, tags text[], owner text, since timestamp with time zone, until timestamp with time zone, at_most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.judge_assertions() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.judge_schedule() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.judge_start(workflow text, queue text, priority integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.keep_calendar_in_scope() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.kill_run(run_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.known_callbacks(runs bigint[], fences bigint[], token_hashes bytea[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.log_out(session bytea, address text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.note_user(name text, shown text, groups text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.override_occurrence(name text, instant timestamp with time zone, action text, due_at timestamp with time zone, args jsonb, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.pause_backfill(backfill_id bigint, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.pause_cluster(note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.pause_queue(queue text, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.pause_schedule(schedule text, note text, actor text, interface text, until timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.pause_workflow(run_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.previous_of(run_id bigint, token uuid, OUT previous bigint, OUT fire_time timestamp with time zone, OUT outcome text, OUT finished_at timestamp with time zone, OUT result jsonb, OUT error text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.prune_calendars(source text, kept text[], actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.put_calendar(calendar text, content text, actor text, interface text, take_over boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.put_workflow(workflow text, definition jsonb, actor text, managed_by text, source text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.record_audit(verb text, kind text, name text, actor text, note text, before jsonb, after jsonb, outcome text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.record_refusal(verb text, kind text, name text, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.redrive(run_id bigint, args jsonb, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.redrive_many(fingerprint text, handler text, queue text, error_class text, schedule text, tags text[], owner text, since timestamp with time zone, until timestamp with time zone, also_lost boolean, args jsonb, rate integer, per interval, starting timestamp with time zone, at_most integer, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.remove_user(name text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.reopen_ledger(instants timestamp with time zone[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.reset_breaker(breaker text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.results_of(run_id bigint, token uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.resume_backfill(backfill_id bigint, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.resume_cluster(actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.resume_queue(queue text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.resume_schedule(schedule text, actor text, interface text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.resume_workflow(run_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.retry_run(run_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.reveal(run_id bigint, actor text, OUT handler text, OUT args jsonb, OUT result jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.revoke_sessions(name text, session text, but bytea, actor text, OUT sessions bigint, OUT tokens bigint) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.revoke_token(id text, owner text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.run_now(schedule text, args jsonb, actor text, overlap text, fire_time timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.scale_demand(queue text, at_most integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.schedule_is_deleted() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.schedule_was_written() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.set_breaker(breaker text, failures integer, within interval, open_for interval, open_for_at_most interval, fallback_handler text, fallback_queue text, handlers text[], actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.set_concurrency(concurrency_key text, slots integer, rate integer, per interval, by_weight boolean, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.set_password(name text, password_hash text, session bytea, renewed bytea, address text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.set_queue(queue text, max_running integer, rate integer, per interval, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.set_step_args(run_id bigint, step text, args jsonb, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.settle_audit() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.signal(run_id bigint, step text, payload jsonb, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.skip_lost_numbers() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.skip_step(run_id bigint, step text, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.step_ended(run_id bigint, outcome text, result jsonb, reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.stop_backfill(backfill_id bigint, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.stop_workflow(workflow bigint, how text, reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.succeed_step(run_id bigint, step text, result jsonb, note text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.sweep_history(pages integer, OUT partition text, OUT removed integer, OUT removed_in_all bigint, OUT remaining bigint, OUT is_over boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.take_calendars(spec text, known jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.uncordon_node(node text, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.update_asset(asset text, metadata jsonb, actor text) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.user_of_proxy(user_name text, groups text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.user_of_session(session bytea) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.user_of_token(id text, secret_hash bytea) FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.wake_idle_nodes() FROM PUBLIC;

REVOKE ALL ON FUNCTION pgcron.wake_workflows() FROM PUBLIC;

