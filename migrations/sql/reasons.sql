-- Why a fire did or did not run: a stable code, whatever sentence was stored, and what it means.

CREATE TABLE pgcron.reason (
  code text PRIMARY KEY CONSTRAINT a_reason_is_a_word CHECK (code ~ '^[a-z_]{1,40}$'),
  decision text NOT NULL,
  matches text,
  meaning text NOT NULL
);
COMMENT ON TABLE pgcron.reason IS
    'The answers of pgcron.why. What a ledger row says is the code itself, or a sentence that '
    'matches (a regular expression).';
INSERT INTO pgcron.reason (code, decision, matches, meaning)
VALUES ('run', 'run', NULL, 'It became a run.'),
      ('moved', 'run', NULL, 'It became a run, at another time.'),
      ('backfilled', 'run', '^backfill [0-9]+$', 'A backfill made a run of it.'),
      ('overlap_skipped', 'skipped', '^(the last run is not over|[0-9]+ runs are not over)',
        'The last run was not over, and the schedule skips what overlaps.'),
      ('overlap_superseded', 'superseded', '^run [0-9]+ came later',
        'A newer fire took its place before it began.'),
      ('overlap_queue_full', 'skipped', '^[0-9]+ (older|newer) runs? waits? \(max_queued\)',
        'As many runs of the schedule waited as may.'),
      ('overlap_replaced', 'cancelled', '^replaced by run [0-9]+',
        'A newer run stopped it and took its place.'),
      ('skipped_by_hand', 'skipped', '^skipped by ', 'A person skipped this one.'),
      ('cancelled_by_hand', 'cancelled', '^(cancelled|killed) by ',
        'Its run was cancelled before it began.'),
      ('backfill_stopped', 'cancelled', '^backfill [0-9]+ was stopped by ',
        'Its backfill was stopped before its run began.'),
      ('previous_failed', 'upstream_failed', '^run [0-9]+ of the fire before ended',
        'The fire before it did not succeed, and the schedule depends on that.'),
      ('schedule_deleted', 'cancelled', '^schedule was deleted',
        'The schedule was deleted before its run began.'),
      ('start_deadline', 'expired', '^it did not start before its deadline',
        'No node could start it in time.'),
      ('catchup_latest', 'missed', NULL, 'It was late, and a newer late fire ran in its place.'),
      ('catchup_window', 'missed', NULL, 'It was late, and older than the catch-up window.'),
      ('catchup_none', 'missed', NULL, 'It was late, and the schedule does not catch up.'),
      ('paused', 'missed', NULL, 'The schedule was paused.'),
      ('edited', 'missed', NULL, 'It was not decided yet when the schedule''s timing was edited.'),
      ('deleted', 'missed', NULL, 'It was not decided yet when the schedule was deleted.'),
      ('not_yet', 'not yet', NULL, 'It is decided shortly before its time.'),
      ('is_paused', 'not yet', NULL, 'The schedule is paused.'),
      ('is_invalid', 'not yet', NULL, 'No node can read the schedule as it is.'),
      ('not_an_instant', 'not an instant', NULL,
        'The schedule, as it was then, did not name this instant.'),
      ('completed', 'not an instant', NULL, 'The schedule had made all its runs.'),
      ('not_created', 'not an instant', NULL, 'The schedule did not exist yet.'),
      ('is_deleted', 'not an instant', NULL, 'The schedule did not exist any more.'),
      ('not_kept', 'not known', NULL, 'What was decided so long ago is not kept.');

-- The code for what a row of the ledger says; that of its decision for an unknown sentence.
CREATE FUNCTION pgcron.reason_code(decision text, reported text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT r.code FROM pgcron.reason r
                   WHERE r.code = reason_code.reported OR reason_code.reported ~ r.matches
                   ORDER BY r.code <> reason_code.reported, r.code LIMIT 1),
           replace(reason_code.decision, ' ', '_')) $$;
