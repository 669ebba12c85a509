-- name: enqueue
-- Args come as text and durations as seconds, so that neither a caller's JSON codec nor a driver's
-- idea of an interval matters.
SELECT pgcron.enqueue(:handler::text, :args::text::jsonb, :queue::text, :priority::int,
                      :due_at::timestamptz, :idempotency_key::text,
                      pg_catalog.make_interval(secs => :key_lifetime::float8),
                      pg_catalog.make_interval(secs => :timeout::float8), :max_attempts::int,
                      :delivery::text,
                      :retry::text::jsonb, :actor::text, :concurrency_key::text, :requires::text[],
                      start_within => pg_catalog.make_interval(secs => :start_within::float8),
                      give_up_after => pg_catalog.make_interval(secs => :give_up_after::float8),
                      silence_timeout => pg_catalog.make_interval(secs => :silence_timeout::float8),
                      weight => :weight::int) AS run_id;

-- name: enqueue_plain
-- What most calls are: all but handler and args is the default.
SELECT pgcron.enqueue(:handler::text, :args::text::jsonb, actor => :actor::text) AS run_id;

-- name: enqueue_request
SELECT pgcron.enqueue_request(:options::text::jsonb, :actor::text) AS run_id;

-- name: enqueue_many
SELECT pgcron.enqueue_many(:runs::text::jsonb, :actor::text) AS run_ids;

-- name: put_schedule
SELECT pgcron.put_schedule(
  :name::text, :spec::text, :handler::text, args => :args::text::jsonb,
  timezone => :timezone::text, dst => :dst::text, queue => :queue::text,
  priority => :priority::int, enabled => :enabled::boolean, overlap => :overlap::text,
  catchup => :catchup::text,
  catchup_window => pg_catalog.make_interval(secs => :catchup_window::float8),
  start_deadline => pg_catalog.make_interval(secs => :start_deadline::float8),
  timeout => pg_catalog.make_interval(secs => :timeout::float8),
  max_attempts => :max_attempts::int,
  retry_base => pg_catalog.make_interval(secs => :retry_base::float8),
  retry_cap => pg_catalog.make_interval(secs => :retry_cap::float8),
  retry => :retry::text::jsonb, delivery => :delivery::text, managed_by => :managed_by::text,
  actor => :actor::text, interface => :interface::text, concurrency_key => :concurrency_key::text,
  requires => :requires::text[],
  give_up_after => pg_catalog.make_interval(secs => :give_up_after::float8),
  silence_timeout => pg_catalog.make_interval(secs => :silence_timeout::float8),
  weight => :weight::int, expected_version => :expected_version::int,
  max_running => :max_running::int, max_queued => :max_queued::int,
  queue_drops => :queue_drops::text, after_pause => :after_pause::text,
  jitter => pg_catalog.make_interval(secs => :jitter::float8), max_runs => :max_runs::int,
  pause_after_failures => :pause_after_failures::int,
  probe_after => pg_catalog.make_interval(secs => :probe_after::float8),
  depends_on_previous => :depends_on_previous::boolean,
  owner => :owner::text, description => :description::text, tags => :tags::text[],
  links => :links::text::jsonb) AS schedule_id;

-- name: pause_schedule
SELECT pgcron.pause_schedule(:name::text, :note::text, :actor::text, :interface::text,
  coalesce(:until::timestamptz,
           pg_catalog.now() + pg_catalog.make_interval(secs => :pause::float8)));

-- name: resume_schedule
SELECT pgcron.resume_schedule(:name::text, :actor::text, :interface::text);

-- name: rename_schedule
SELECT pgcron.rename_schedule(:name::text, :new_name::text, :actor::text, :interface::text);

-- name: delete_schedule
SELECT pgcron.delete_schedule(:name::text, :actor::text, :interface::text);

-- name: run_now
SELECT pgcron.run_now(:name::text, :args::text::jsonb, :actor::text, overlap => :overlap::text,
                      fire_time => :fire_time::timestamptz) AS run_id;

-- name: cancel_run
SELECT pgcron.cancel_run(:run_id::bigint, :note::text, :actor::text) AS verdict;

-- name: kill_run
SELECT pgcron.kill_run(:run_id::bigint, :note::text, :actor::text) AS verdict;

-- name: retry_run
SELECT pgcron.retry_run(:run_id::bigint, :actor::text) AS run_id;

-- name: redrive
SELECT pgcron.redrive(:run_id::bigint, :actor::text, :args::text::jsonb) AS run_id;

-- name: archive_dead_letters
-- The oldest open ones that fit all that is given.
SELECT pgcron.archive_dead_letters(ARRAY(
  SELECT d.run_id FROM pgcron.dead_letter d
  WHERE d.closed_at IS NULL
    AND (:run_ids::bigint[] IS NULL OR d.run_id = ANY(:run_ids::bigint[]))
    AND pgcron.letter_fits(d, :fingerprint::text, :handler::text, :queue::text,
        :error_class::text, :schedule::text, :since::timestamptz, :until::timestamptz)
  ORDER BY d.died_at, d.run_id LIMIT :at_most::int FOR UPDATE SKIP LOCKED),
  :note::text, :actor::text) AS run_ids;

-- name: redrive_many
SELECT coalesce(pg_catalog.array_agg(m.dead_letter ORDER BY m.run_id), '{}') AS letters,
       coalesce(pg_catalog.array_agg(m.run_id ORDER BY m.run_id), '{}') AS runs,
       pg_catalog.max(m.due_at) + coalesce(
         pg_catalog.make_interval(secs => :per::float8) / nullif(:rate::int, 0), '0') AS next_due
FROM pgcron.redrive_many(
  fingerprint => :fingerprint::text, handler => :handler::text, queue => :queue::text,
  error_class => :error_class::text, schedule => :schedule::text,
  since => :since::timestamptz, until => :until::timestamptz, also_lost => :also_lost::boolean,
  args => :args::text::jsonb, rate => :rate::int,
  per => pg_catalog.make_interval(secs => :per::float8), starting => :starting::timestamptz,
  at_most => :at_most::int, actor => :actor::text) m;

-- name: begin_operation
-- A twin waits here until the first of them has committed, and then finds its row.
INSERT INTO pgcron.idempotency (key, run_id, expires_at)
VALUES (:key::text, 0, pg_catalog.now() + pg_catalog.make_interval(secs => :lifetime::float8))
ON CONFLICT (key) DO NOTHING RETURNING true AS is_new;

-- name: end_operation
UPDATE pgcron.idempotency i SET run_id = :run_id::bigint WHERE i.key = :key::text;

-- name: run_of_operation
SELECT i.run_id FROM pgcron.idempotency i WHERE i.key = :key::text;

-- name: pause_queue
SELECT pgcron.pause_queue(:name::text, :note::text, :actor::text);

-- name: resume_queue
SELECT pgcron.resume_queue(:name::text, :actor::text);

-- name: set_queue
SELECT pgcron.set_queue(:name::text, :max_running::int, :rate::int,
                        pg_catalog.make_interval(secs => :per::float8), :actor::text);

-- name: set_concurrency
SELECT pgcron.set_concurrency(:concurrency_key::text, :slots::int, :rate::int,
                       pg_catalog.make_interval(secs => :per::float8), :actor::text);

-- name: pause_cluster
SELECT pgcron.pause_cluster(:note::text, :actor::text);

-- name: resume_cluster
SELECT pgcron.resume_cluster(:actor::text);

-- name: delete_concurrency
SELECT pgcron.delete_concurrency(:concurrency_key::text);

-- name: ended_runs
-- Those of these that are not alive: ended, or never there. One look for all that a process waits
-- for.
SELECT coalesce(pg_catalog.array_agg(given.id), '{}') AS run_ids
FROM pg_catalog.unnest(:run_ids::bigint[]) given(id)
WHERE NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = given.id);

-- name: await_runs
-- As ended_runs; from now on the ends of the others are sent, but for `unmarked`.
SELECT found.ended, found.unmarked FROM pgcron.await_runs(:run_ids::bigint[]) found;

-- name: end_channel
SELECT pgcron.end_channel();

-- name: probe_end_channel
-- Proves to its listener that notifications arrive: through some poolers LISTEN succeeds, but no
-- notification is ever delivered.
SELECT pgcron.notify(pgcron.end_channel(), 'probe');

-- name: run_status
SELECT s.id, s.uuid::text, s.handler, s.schedule, s.state, s.attempt, s.due_at, s.started_at,
       s.finished_at, s.error, s.result::text, s.done, s.total, s.note
FROM pgcron.run_status(:run_id::bigint) s;
