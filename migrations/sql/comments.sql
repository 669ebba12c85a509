-- What the functions of the SQL contract say of themselves (`\df+`, migrations/SQL.md), where nothing else needed saying beside them.

COMMENT ON FUNCTION pgcron.put_schedule IS 'Creates or changes the schedule of that name; what is NULL stays as it is, or takes the default. Returns its id.';
COMMENT ON FUNCTION pgcron.pause_schedule IS 'No fires from now on; those that pass meanwhile are one missed range with the note.';
COMMENT ON FUNCTION pgcron.resume_schedule IS 'Fires again from now on.';
COMMENT ON FUNCTION pgcron.delete_schedule IS 'Ends what has not started and removes the schedule; its history stays, and its name can be used again.';
COMMENT ON FUNCTION pgcron.run_now IS 'A run beside the schedule''s fires; args NULL means the schedule''s. Returns the id of the run.';
COMMENT ON FUNCTION pgcron.cancel_run IS 'Ends a run: cancelled (had not begun), requested (its node stops it) or finished.';
COMMENT ON FUNCTION pgcron.retry_run IS 'A waiting run is due now (same id); an ended one runs again as a new run, whose id is returned.';
COMMENT ON FUNCTION pgcron.redrive IS 'Sends a dead letter again, once; args NULL means its own. Returns the id of the new run.';
COMMENT ON FUNCTION pgcron.pause_queue IS 'Nobody claims from the queue until it is resumed; what runs goes on.';
COMMENT ON FUNCTION pgcron.resume_queue IS 'The queue is claimed from again.';
COMMENT ON FUNCTION pgcron.forget_breaker IS 'Removes a breaker that nobody declares any more.';
COMMENT ON VIEW pgcron.schedules IS 'Schedules with their status, watermark and next fire.';
COMMENT ON VIEW pgcron.nodes IS 'Processes that work, or have worked: what they offer, and whether they hold their lease.';
COMMENT ON VIEW pgcron.queues IS 'Queues with what waits in them, is due, runs and is held.';
COMMENT ON VIEW pgcron.dead_letters IS 'Runs that ended dead or lost, and whether they were sent again.';
