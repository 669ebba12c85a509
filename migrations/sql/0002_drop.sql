-- What 0002 has made. Functions of 0001 that it replaced are put back by the revision itself.
ALTER TABLE pgcron.schedule DROP CONSTRAINT schedule_paused_note_is_short, DROP CONSTRAINT schedule_paused_by_is_short;
ALTER TABLE pgcron.queue DROP CONSTRAINT queue_paused_note_is_short, DROP CONSTRAINT queue_paused_by_is_short, DROP CONSTRAINT queue_set_by_is_short;
ALTER TABLE pgcron.cluster DROP CONSTRAINT cluster_paused_note_is_short, DROP CONSTRAINT cluster_paused_by_is_short;
ALTER TABLE pgcron.occurrence_override DROP CONSTRAINT occurrence_override_note_is_short, DROP CONSTRAINT occurrence_override_actor_is_short;
ALTER TABLE pgcron.backfill DROP CONSTRAINT backfill_note_is_short, DROP CONSTRAINT backfill_created_by_is_short, DROP CONSTRAINT backfill_changed_by_is_short;
ALTER TABLE pgcron.run DROP CONSTRAINT run_created_by_is_short;
ALTER TABLE pgcron.schedule_version DROP CONSTRAINT schedule_version_actor_is_short;
ALTER TABLE pgcron.lane_limit DROP CONSTRAINT lane_limit_set_by_is_short;
ALTER TABLE pgcron.cordon DROP CONSTRAINT cordon_set_by_is_short, DROP CONSTRAINT cordon_lifted_by_is_short;
ALTER TABLE pgcron.breaker DROP CONSTRAINT breaker_set_by_is_short, DROP CONSTRAINT breaker_reset_by_is_short;
ALTER TABLE pgcron.calendar DROP CONSTRAINT calendar_updated_by_is_short;
DROP FUNCTION pgcron.refuse_words(text, text, int);
ALTER TABLE pgcron.schedule DROP CONSTRAINT a_catchup_window_is_at_most_a_century, DROP CONSTRAINT a_start_deadline_is_at_most_a_century, DROP CONSTRAINT a_pause_ends_within_the_calendar;
ALTER TABLE pgcron.occurrence_override DROP CONSTRAINT a_fire_lies_within_the_calendar;
ALTER TABLE pgcron.retention DROP CONSTRAINT retention_is_at_most_a_century;
DROP FUNCTION pgcron.refuse_instants(timestamptz, timestamptz), pgcron.with_pending_pause(pgcron.cursor);
DROP FUNCTION pgcron.confine_producer(text, text[], text[]), pgcron.free_producer(text), pgcron.cancel_own_run(bigint, text);
DROP VIEW pgcron.own_runs;
DROP TRIGGER a_living_key_stays ON pgcron.idempotency;
DROP TRIGGER a_living_key_stays ON pgcron.unique_period;
DROP TRIGGER a_key_names_a_new_run ON pgcron.idempotency;
DROP TRIGGER a_key_names_a_new_run ON pgcron.unique_period;
DROP FUNCTION pgcron.a_living_key_stays(), pgcron.a_key_names_a_new_run(), pgcron.judge_guest(pgcron.run, name), pgcron.judge_run_of_guest(pgcron.run), pgcron.judge_by_rules(text, text, name), pgcron.judge_claims(bigint, text, name, boolean),
  pgcron.refuse_producer(name, text, text), pgcron.rule_fits(text, text);
DROP TABLE pgcron.producer_rule;
DROP FUNCTION pgcron.oldest_program();
DROP FUNCTION pgcron.note_given_back(text), pgcron.spent_partitions(), pgcron.sweep_history(int), pgcron.unswept_partitions(), pgcron.retention_word(), pgcron.runs_to_keep(bigint),
  pgcron.set_table_retention(text, interval), pgcron.reset_retention(text, text), pgcron.set_retention(interval, text, text, text), pgcron.history_thinned_until(), pgcron.history_keep(text, text);
DROP TABLE pgcron.retention_sweep, pgcron.retention_rule;
DROP FUNCTION pgcron.judge_retention_rule();
