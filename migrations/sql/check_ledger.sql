-- The invariant of the ledger, as far as rows show: nothing is missing and nothing is double.
-- `pgcron-ha schedules verify` also compares it with the specs. One statement, so that all of it
-- has one snapshot.

-- Single fires of the ledger, each with its run, if that is alive, and how it ended. is_by_hand: it
-- is there by a backfill or a person (an override, a run cancelled or started ahead of its time),
-- not by the spec; later edits of the schedule leave it as it is.
CREATE VIEW pgcron.decided_fire AS
  SELECT o.*, r.id AS live_run, coalesce(r.origin, past.origin) AS origin, past.outcome,
         (o.decision <> 'run' AND o.decided_at < o.fire_at)
           OR coalesce(r.origin, past.origin) = 'backfill'
           OR coalesce(past.began, r.claimed_at, CASE WHEN r.attempt > 0 THEN now() END) < o.fire_at
           OR EXISTS (SELECT FROM pgcron.occurrence_override e
                      WHERE e.schedule_id = o.schedule_id AND e.fire_at = o.fire_at) AS is_by_hand
  FROM pgcron.occurrence o LEFT JOIN pgcron.run r ON r.id = o.run_id
  LEFT JOIN LATERAL (SELECT h.outcome, h.origin, coalesce(h.claimed_at, h.finished_at) AS began
                     FROM pgcron.ended_runs h WHERE h.id = o.run_id LIMIT 1) past ON true;

-- Rows that break a rule, up to at_most of each; there should be none. Of one schedule (living, or
-- deleted, by its last name) or of all; of what fired, ended or was dropped since.
CREATE FUNCTION pgcron.check_ledger(schedule text DEFAULT NULL, at_most int DEFAULT 100,
    since timestamptz DEFAULT NULL)
  RETURNS TABLE (rule text, schedule_id bigint, fire_at timestamptz, run_id bigint, detail text)
LANGUAGE sql STABLE AS $$
  -- A range of ids is one or all by the same index; an OR would read every row.
  WITH scope AS MATERIALIZED (
    SELECT coalesce(chosen.id, 0) AS low, coalesce(chosen.id, 9223372036854775807) AS high,
           coalesce(check_ledger.since, now() - interval '1 day') AS since,
           -- Runs that ended before may have been removed by a rule of retention.
           greatest(pgcron.kept_since('history'),
               (SELECT max(s.until) FROM pgcron.retention_sweep s WHERE s.removed > 0)) AS
             history_since,
           pgcron.kept_since('occurrence') AS ledger_since
    FROM (SELECT CASE WHEN check_ledger.schedule IS NOT NULL
                        THEN coalesce(pgcron.schedule_of_versions(check_ledger.schedule),
                               pgcron.schedule_id(check_ledger.schedule)) END AS id) chosen),
  decided AS MATERIALIZED (
    SELECT d.*, letter.run_id AS letter
    FROM scope a
    JOIN pgcron.decided_fire d ON d.schedule_id BETWEEN a.low AND a.high AND d.fire_at >= a.since
    LEFT JOIN pgcron.dead_letter letter ON letter.run_id = d.run_id),
  broken AS (
    SELECT b.rule, d.schedule_id, d.fire_at, d.run_id,
           format(b.detail, d.decision, d.outcome, c.watermark) AS detail  -- of broken rows only
    FROM scope a CROSS JOIN decided d LEFT JOIN pgcron.cursor c ON c.schedule_id = d.schedule_id
    CROSS JOIN LATERAL (VALUES
      ('a run is gone', 'the fire became a run that is neither alive nor in history',
       d.run_id IS NOT NULL AND d.live_run IS NULL AND d.outcome IS NULL AND d.letter IS NULL
         AND d.decided_at > a.history_since),
      ('a run is alive and over', 'the run is alive, and history has its end',
       d.live_run IS NOT NULL AND d.outcome IS NOT NULL),
      ('decision and outcome disagree',
       'the ledger says %1$s, history says %2$s',
       CASE d.decision WHEN 'run' THEN d.outcome IN ('skipped', 'superseded', 'expired')
                       ELSE d.outcome <> d.decision END),
      ('a fire that does not run has a live run', 'the ledger says %1$s',
       d.live_run IS NOT NULL AND d.decision <> 'run'),
      ('a fire lies beyond what is decided',
       'all fires up to %3$s are decided, and none after',
       d.fire_at > c.watermark AND NOT c.edit_is_pending AND d.is_by_hand IS NOT TRUE))
      b(rule, detail, is_broken)
    WHERE b.is_broken
    UNION ALL
    SELECT r.rule, r.schedule_id, r.scheduled_for, r.id,
           'the ledger has another run for its fire time, or none'
    FROM scope a
    CROSS JOIN LATERAL (SELECT 'a run has no fire' AS rule, w.id, w.schedule_id, w.scheduled_for,
                               w.origin
                        FROM pgcron.run w WHERE w.scheduled_for IS NOT NULL
                        UNION ALL
                        SELECT 'a run that is over has no fire', h.id, h.schedule_id,
                               h.scheduled_for, h.origin
                        FROM pgcron.history h
                        WHERE h.finished_at >= a.since AND h.schedule_id IS NOT NULL) r
    WHERE r.schedule_id BETWEEN a.low AND a.high AND r.scheduled_for > a.ledger_since
      AND r.origin IN ('schedule', 'backfill')
      AND NOT EXISTS (SELECT FROM pgcron.occurrence o
                      WHERE o.schedule_id = r.schedule_id AND o.fire_at = r.scheduled_for
                        AND o.run_id = r.id)
    UNION ALL
    SELECT b.rule, m.schedule_id, m.first_at, NULL,
           format(b.detail, m.last_at, m.next_at, c.watermark)
    FROM (SELECT e.*,
                 lead(e.first_at) OVER (PARTITION BY e.schedule_id ORDER BY e.first_at) AS next_at
          FROM scope a
          JOIN pgcron.missed e
            ON e.schedule_id BETWEEN a.low AND a.high AND e.last_at >= a.since) m
    LEFT JOIN pgcron.cursor c ON c.schedule_id = m.schedule_id
    CROSS JOIN LATERAL (VALUES
      ('ranges overlap', 'the range up to %1$s goes on when the next begins at %2$s',
       m.next_at <= m.last_at),
      ('a range lies beyond what is decided',
       'it ends at %1$s, and all fires up to %3$s are decided',
       m.last_at > c.watermark)) b(rule, detail, is_broken)
    WHERE b.is_broken
    UNION ALL
    SELECT b.rule, s.id, b.fire_at, NULL, format(b.detail, c.watermark, s.version)
    FROM scope a JOIN pgcron.schedule s ON s.id BETWEEN a.low AND a.high
    LEFT JOIN pgcron.cursor c ON c.schedule_id = s.id
    CROSS JOIN LATERAL (VALUES
      ('the next fire is decided', c.next_fire, 'all fires up to %1$s are decided',
       c.status = 'valid' AND c.next_fire <= c.watermark),
      ('a schedule has no cursor', NULL, 'nothing of it can be decided', c.schedule_id IS NULL),
      ('the version is not kept', NULL, 'version %2$s is in force',
       NOT EXISTS (SELECT FROM pgcron.schedule_version v
                   WHERE v.schedule_id = s.id AND v.version = s.version)))
      b(rule, fire_at, detail, is_broken)
    WHERE b.is_broken)
  SELECT b.rule, b.schedule_id, b.fire_at, b.run_id, b.detail
  FROM (SELECT e.*, row_number() OVER (PARTITION BY e.rule) AS place FROM broken e) b
  WHERE b.place <= check_ledger.at_most $$;
COMMENT ON FUNCTION pgcron.check_ledger IS
    'Rows that break the invariant of the ledger: nothing is missing, nothing is double. There '
    'should be none. Looks at what fired, ended or was dropped since (a day).';
