-- name: start_workflow_workflow
-- By its name.

-- name: start_workflow_definition
-- By a definition that nobody has put.

-- name: put_workflow

-- name: delete_workflow

-- name: signal
SELECT pgcron.signal(:run_id::bigint, :step::text, :payload::text::jsonb, :note::text,
         :actor::text)
FROM pgcron.act_as(NULL, :interface::text);

-- name: approve_step

-- name: skip_step

-- name: succeed_step

-- name: clear_step

-- name: pause_workflow

-- name: resume_workflow

-- name: set_step_args
