-- name: start_workflow
-- By the name of a workflow; a definition that nobody has put is started by start_definition.
SELECT pgcron.start_workflow(workflow => :workflow::text, args => :args::text::jsonb,
  queue => :queue::text, priority => :priority::int, due_at => :due_at::timestamptz,
  idempotency_key => :idempotency_key::text,
  key_lifetime => pg_catalog.make_interval(secs => :key_lifetime::float8),
  unique_key => :unique_key::text, unique_scope => :unique_scope::text,
  concurrency_key => :concurrency_key::text, tags => :tags::text[],
  actor => :actor::text) AS run_id;

-- name: start_definition
SELECT pgcron.start_workflow(definition => :definition::text::jsonb, args => :args::text::jsonb,
  queue => :queue::text, priority => :priority::int, due_at => :due_at::timestamptz,
  idempotency_key => :idempotency_key::text,
  key_lifetime => pg_catalog.make_interval(secs => :key_lifetime::float8),
  unique_key => :unique_key::text, unique_scope => :unique_scope::text,
  concurrency_key => :concurrency_key::text, tags => :tags::text[],
  actor => :actor::text) AS run_id;

-- name: put_workflow

-- name: delete_workflow

-- name: signal
SELECT pgcron.signal(:run_id::bigint, :step::text, :payload::text::jsonb, :actor::text)
FROM pgcron.act_as(NULL, :interface::text);

-- name: approve_step

-- name: skip_step

-- name: succeed_step

-- name: clear_step

-- name: pause_workflow

-- name: resume_workflow

-- name: set_step_args
