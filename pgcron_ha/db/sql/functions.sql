-- name: enqueue

-- name: enqueue_plain
-- What most calls are: all but handler and args is the default.
SELECT pgcron.enqueue(:handler::text, :args::text::jsonb, actor => :actor::text) AS run_id;

-- name: enqueue_many

-- name: put_schedule

-- name: pause_schedule
SELECT pgcron.pause_schedule(:name::text, :note::text, :actor::text, :interface::text,
  coalesce(:until::timestamptz,
           pg_catalog.now() + pg_catalog.make_interval(secs => :pause::float8)));

-- name: resume_schedule

-- name: rename_schedule

-- name: delete_schedule

-- name: run_now

-- name: cancel_run
SELECT pgcron.cancel_run(:run_id::bigint, :note::text, :actor::text)
FROM pgcron.act_as(NULL, :interface::text);

-- name: kill_run
SELECT pgcron.kill_run(:run_id::bigint, :note::text, :actor::text)
FROM pgcron.act_as(NULL, :interface::text);

-- name: retry_run

-- name: redrive

-- name: archive_dead_letters
-- The oldest open ones that fit all that is given.
SELECT pg_catalog.unnest(pgcron.archive_dead_letters(
  pgcron.hold_letters(:run_ids::bigint[], :fingerprint::text, :handler::text, :queue::text,
    :error_class::text, :schedule::text, :tags::text[], :owner::text, :since::timestamptz,
    :until::timestamptz, :at_most::int),
  :note::text, :actor::text)) AS dead_letter;

-- name: redrive_many

-- name: begin_operation
-- A twin waits here until the first of them has committed, and then gets its run.

-- name: end_operation

-- name: pause_queue

-- name: resume_queue

-- name: set_queue

-- name: set_concurrency

-- name: pause_cluster

-- name: resume_cluster

-- name: delete_concurrency

-- name: ended_runs
-- Those of these that are not alive: ended, or never there. One look for all that a process waits
-- for.
SELECT coalesce(pg_catalog.array_agg(given.id), '{}') AS run_ids
FROM pg_catalog.unnest(:run_ids::bigint[]) given(id)
WHERE NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = given.id);

-- name: await_runs
-- As ended_runs; from now on the ends of the others are sent, but for `unmarked`.

-- name: end_channel

-- name: probe_end_channel
-- Proves to its listener that notifications arrive: through some poolers LISTEN succeeds, but no
-- notification is ever delivered.
SELECT pgcron.notify(pgcron.end_channel(), 'probe');

-- name: run_status
SELECT s.id, s.uuid::text, s.handler, s.schedule, s.state, s.attempt, s.due_at, s.started_at,
       s.finished_at, s.error, s.result::text, s.done, s.total, s.note
FROM pgcron.run_status(:run_id::bigint) s;
