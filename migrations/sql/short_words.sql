-- Notes, and the names of who acts, are for people: what is longer than a screen is a mistake, or somebody who fills the disk. What stands there is cut: it would stop who writes
-- the row next, a node that claims it, too.

CREATE FUNCTION pgcron.refuse_words(what text, given text, most int) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN pgcron.refuse('PC001', format('%s has %s characters', what, length(given)), format('It has at most %s: %s …', most, left(given, 40)), 'Say it in a few words, and keep the rest elsewhere.');
END $$;

ALTER TABLE pgcron.schedule ADD CONSTRAINT schedule_paused_note_is_short CHECK (paused_note IS NULL OR length(paused_note) <= 2000 OR pgcron.refuse_words('paused_note', paused_note, 2000)),
  ADD CONSTRAINT schedule_paused_by_is_short CHECK (paused_by IS NULL OR length(paused_by) <= 300 OR pgcron.refuse_words('paused_by', paused_by, 300));
ALTER TABLE pgcron.queue ADD CONSTRAINT queue_paused_note_is_short CHECK (paused_note IS NULL OR length(paused_note) <= 2000 OR pgcron.refuse_words('paused_note', paused_note, 2000)),
  ADD CONSTRAINT queue_paused_by_is_short CHECK (paused_by IS NULL OR length(paused_by) <= 300 OR pgcron.refuse_words('paused_by', paused_by, 300)),
  ADD CONSTRAINT queue_set_by_is_short CHECK (set_by IS NULL OR length(set_by) <= 300 OR pgcron.refuse_words('set_by', set_by, 300));
ALTER TABLE pgcron.cluster ADD CONSTRAINT cluster_paused_note_is_short CHECK (paused_note IS NULL OR length(paused_note) <= 2000 OR pgcron.refuse_words('paused_note', paused_note, 2000)),
  ADD CONSTRAINT cluster_paused_by_is_short CHECK (paused_by IS NULL OR length(paused_by) <= 300 OR pgcron.refuse_words('paused_by', paused_by, 300));
ALTER TABLE pgcron.occurrence_override ADD CONSTRAINT occurrence_override_note_is_short CHECK (note IS NULL OR length(note) <= 2000 OR pgcron.refuse_words('note', note, 2000)),
  ADD CONSTRAINT occurrence_override_actor_is_short CHECK (actor IS NULL OR length(actor) <= 300 OR pgcron.refuse_words('actor', actor, 300));
ALTER TABLE pgcron.backfill ADD CONSTRAINT backfill_note_is_short CHECK (note IS NULL OR length(note) <= 2000 OR pgcron.refuse_words('note', note, 2000)),
  ADD CONSTRAINT backfill_created_by_is_short CHECK (created_by IS NULL OR length(created_by) <= 300 OR pgcron.refuse_words('created_by', created_by, 300)),
  ADD CONSTRAINT backfill_changed_by_is_short CHECK (changed_by IS NULL OR length(changed_by) <= 300 OR pgcron.refuse_words('changed_by', changed_by, 300));
ALTER TABLE pgcron.run ADD CONSTRAINT run_created_by_is_short CHECK (created_by IS NULL OR length(created_by) <= 300 OR pgcron.refuse_words('created_by', created_by, 300));
ALTER TABLE pgcron.schedule_version ADD CONSTRAINT schedule_version_actor_is_short CHECK (actor IS NULL OR length(actor) <= 300 OR pgcron.refuse_words('actor', actor, 300));
ALTER TABLE pgcron.lane_limit ADD CONSTRAINT lane_limit_set_by_is_short CHECK (set_by IS NULL OR length(set_by) <= 300 OR pgcron.refuse_words('set_by', set_by, 300));
ALTER TABLE pgcron.cordon ADD CONSTRAINT cordon_set_by_is_short CHECK (set_by IS NULL OR length(set_by) <= 300 OR pgcron.refuse_words('set_by', set_by, 300)),
  ADD CONSTRAINT cordon_lifted_by_is_short CHECK (lifted_by IS NULL OR length(lifted_by) <= 300 OR pgcron.refuse_words('lifted_by', lifted_by, 300));
ALTER TABLE pgcron.breaker ADD CONSTRAINT breaker_set_by_is_short CHECK (set_by IS NULL OR length(set_by) <= 300 OR pgcron.refuse_words('set_by', set_by, 300)),
  ADD CONSTRAINT breaker_reset_by_is_short CHECK (reset_by IS NULL OR length(reset_by) <= 300 OR pgcron.refuse_words('reset_by', reset_by, 300));
ALTER TABLE pgcron.calendar ADD CONSTRAINT calendar_updated_by_is_short CHECK (updated_by IS NULL OR length(updated_by) <= 300 OR pgcron.refuse_words('updated_by', updated_by, 300));
