-- Instants that no clock and no program of ours can read, and intervals that lead to them, are refused where they are written: one such row
-- would be read by every node.

-- Not valid: what stands there already is looked at when it is edited next, and nodes take it for a century meanwhile.
ALTER TABLE pgcron.schedule ADD CONSTRAINT a_catchup_window_is_at_most_a_century CHECK (catchup_window <= '36525 days' OR pgcron.refuse('PC001',
  format('catch-up window %s is longer than a century', catchup_window), 'It says how old a missed fire may be to be run late: at most 36525 days.', 'Write for example ''30 days''.'));
ALTER TABLE pgcron.schedule ADD CONSTRAINT a_start_deadline_is_at_most_a_century CHECK (start_deadline IS NULL OR start_deadline <= '36525 days' OR pgcron.refuse('PC001',
  format('start deadline %s is longer than a century', start_deadline), 'A run that has not started this long after its fire time expires: at most 36525 days.', 'Leave it out to wait for ever.'));

-- A pause that was to end in the year 10000 or later ends when the calendar does; pages and commands could not read it.
ALTER TABLE pgcron.schedule ADD CONSTRAINT a_pause_ends_within_the_calendar CHECK (paused_until IS NULL OR NOT isfinite(paused_until) OR paused_until < to_timestamp(253370764800) OR pgcron.refuse('PC001',
  format('paused_until %s is outside of the calendar', paused_until), 'A pause ends in the year 9998 at the latest.', 'Leave it out for a pause without an end.'));
ALTER TABLE pgcron.occurrence_override ADD CONSTRAINT a_fire_lies_within_the_calendar CHECK ((fire_at >= to_timestamp(-2208988800) AND fire_at < to_timestamp(253370764800)
  AND (due_at IS NULL OR (due_at >= to_timestamp(-2208988800) AND due_at < to_timestamp(253370764800)))) OR pgcron.refuse('PC001',
  format('fire %s%s is outside of the calendar', fire_at, ' at ' || due_at), 'A fire lies, and is moved, within the years 1900 to 9998.', 'SELECT * FROM pgcron.preview(…) shows those to come.'));

-- What is kept for longer than that is kept for good, and no clock can say until when.
ALTER TABLE pgcron.retention ADD CONSTRAINT retention_is_at_most_a_century CHECK (keep <= '36525 days' OR pgcron.refuse('PC001',
  format('%s for %s is longer than a century', keep, relation), 'Rows are kept for a day to 36525 days.', 'Write for example ''400 days''.'));
