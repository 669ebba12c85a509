-- Every instant has exactly one answer, from what is stored.

-- Of an instant of the schedule that has, or last had, the name. `decision` is run, skipped,
-- superseded, expired, cancelled, missed, not yet, not an instant or not known; `code` says why in
-- a stable word (pgcron.reason), `reason` as it was recorded then, `meaning` in a sentence.
CREATE FUNCTION pgcron.why(schedule text, instant timestamptz, OUT decision text, OUT reason text,
    OUT run_id bigint, OUT outcome text, OUT code text, OUT meaning text, OUT note text,
    OUT actor text, OUT decided_at timestamptz, OUT due_at timestamptz, OUT late_by interval,
    OUT until timestamptz, OUT owner text, OUT description text, OUT tags text[], OUT links jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  known bigint := coalesce(pgcron.schedule_of_versions(schedule), pgcron.schedule_id(schedule));
  changed pgcron.occurrence_override;
  dropped pgcron.missed;
BEGIN
  SELECT o.decision, o.reason, o.run_id, o.decided_at INTO decision, reason, run_id, decided_at
  FROM pgcron.occurrence o WHERE o.schedule_id = known AND o.fire_at = instant;
  SELECT * INTO changed FROM pgcron.occurrence_override o
  WHERE o.schedule_id = known AND o.fire_at = instant;
  SELECT * INTO dropped FROM pgcron.missed m
  WHERE m.schedule_id = known AND instant BETWEEN m.first_at AND m.last_at
  ORDER BY m.first_at DESC LIMIT 1;
  IF decision IS NOT NULL THEN
    SELECT reported.* INTO outcome, code, due_at, late_by
    FROM pgcron.why_of_run(run_id, instant, changed.due_at) reported;
    -- of a reason such as 'skipped by anna: a holiday'; a node's decision has neither
    SELECT part[1], nullif(part[2], '') INTO actor, note
    FROM regexp_match(reason, '^(?:skipped|cancelled|killed|moved|backfill [0-9]+ was stopped) by '
        '(.*?)(?:: (.*))?$') part;
    IF changed.action = 'move' OR (changed.action = 'edit' AND actor IS NULL) THEN
      actor := changed.actor; note := changed.note;
    END IF;
    IF decision <> 'run' OR (code = 'run' AND reason IS NOT NULL) THEN
      code := pgcron.reason_code(decision, reason);
    END IF;
    IF code = 'backfilled' THEN
      SELECT b.created_by, b.note INTO actor, note FROM pgcron.backfills b
      WHERE b.id = substring(reason FROM '^backfill ([0-9]+)$')::bigint;
    END IF;
  ELSIF dropped.schedule_id IS NOT NULL THEN
    decision := 'missed'; reason := concat_ws(': ', dropped.reason, dropped.note);
    decided_at := dropped.decided_at;
    code := pgcron.reason_code(decision, dropped.reason);
    -- that of a pause is kept as 'anna: a holiday'
    actor := CASE dropped.reason WHEN 'paused' THEN split_part(dropped.note, ': ', 1) END;
    note := nullif(substr(dropped.note, coalesce(length(actor) + 3, 1)), '');
  ELSE
    SELECT reported.* INTO decision, code, reason, actor, note, until
    FROM pgcron.why_undecided(known, instant) reported;
    IF code = 'not_yet' AND changed.action IS NOT NULL THEN
      reason := CASE changed.action
          WHEN 'skip' THEN 'it is to be skipped'
          WHEN 'move' THEN 'it is to run at ' || changed.due_at
          ELSE 'it is to run with other args' END;
      actor := changed.actor; note := changed.note; due_at := changed.due_at;
    END IF;
  END IF;
  -- else it was deleted long ago, and nothing is left of it
  PERFORM pgcron.schedule_id(schedule) WHERE why.code IS NULL;
  meaning := (SELECT r.meaning FROM pgcron.reason r WHERE r.code = why.code);
  SELECT l.owner, l.description, l.tags, l.links INTO owner, description, tags, links
  FROM (SELECT s.owner, s.description, s.tags, s.links FROM pgcron.schedule s WHERE s.id = known
        UNION ALL
        SELECT c.owner, c.description, c.tags, c.links FROM pgcron.schedule_version v
        CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.schedule, v.content) c
        WHERE v.schedule_id = known AND v.operation = 'delete') l LIMIT 1;
END $$;
COMMENT ON FUNCTION pgcron.why IS
    'Why a fire time of a schedule did or did not run: one answer for every instant, from what is '
    'stored. until: when the pause ends by itself; late_by: from when it was due to its start, or '
    'to now. owner, description, tags and links are the schedule''s.';

-- How the run of a fire ended; due_at only if that is not its fire time: it was moved,
-- or is due later by the schedule's jitter.
CREATE FUNCTION pgcron.why_of_run(run bigint, instant timestamptz, moved_to timestamptz,
    OUT outcome text, OUT code text, OUT due_at timestamptz, OUT late_by interval)
LANGUAGE sql STABLE AS $$
  SELECT v.state,
         CASE WHEN moved_to IS NOT NULL THEN 'moved'
              WHEN v.origin = 'backfill' THEN 'backfilled'
              ELSE 'run' END,
         due.later,
         CASE WHEN v.started_at IS NOT NULL
                THEN greatest(v.started_at - coalesce(due.later, instant), '0')
              WHEN v.state IN ('ready', 'blocked') AND now() > coalesce(due.later, instant)
                THEN now() - coalesce(due.later, instant) END
  FROM (SELECT 1) one
  LEFT JOIN LATERAL (SELECT r.* FROM pgcron.runs r WHERE r.id = why_of_run.run LIMIT 1) v ON true
  LEFT JOIN pgcron.schedule s ON s.id = v.schedule_id AND s.jitter IS NOT NULL
  CROSS JOIN LATERAL (SELECT coalesce(moved_to,
                                 CASE WHEN s.id IS NOT NULL AND v.attempt <= 1
                                           AND v.due_at > instant THEN v.due_at END) AS later)
    due $$;

-- An instant that no row of the ledger is about; no row: nothing is left of the schedule either.
CREATE FUNCTION pgcron.why_undecided(known bigint, instant timestamptz)
  RETURNS TABLE (decision text, code text, reason text, actor text, note text, until timestamptz)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT r.decision, judged.code,
         CASE judged.code
           WHEN 'completed' THEN format('the schedule ended after %s',
                  CASE s.max_runs WHEN 1 THEN '1 run' ELSE s.max_runs || ' runs' END)
           WHEN 'not_created' THEN 'the schedule did not exist then; it was created at '
               || date_trunc('second', life.began)
           WHEN 'is_deleted' THEN 'the schedule did not exist then; it was deleted at '
               || date_trunc('second', deletion.at)
           WHEN 'is_paused'
             THEN concat_ws(': ', concat_ws(' by ', 'paused', s.paused_by), s.paused_note)
           WHEN 'is_invalid' THEN 'the schedule is invalid: ' || (c.error ->> 'message')
           WHEN 'not_yet' THEN 'fires are decided up to ' || date_trunc('second', c.watermark)
           WHEN 'not_kept' THEN 'what was decided so long ago is not kept: retention of occurrence '
               'is ' || kept.keep
           ELSE 'the schedule, as it was then, did not name this instant' END,
         CASE judged.code WHEN 'is_deleted' THEN deletion.actor WHEN 'is_paused' THEN s.paused_by
         END,
         CASE judged.code WHEN 'is_paused' THEN s.paused_note END,
         CASE judged.code WHEN 'is_paused' THEN s.paused_until END
  FROM pgcron.retention kept
  LEFT JOIN pgcron.schedule s ON s.id = why_undecided.known
  LEFT JOIN pgcron.cursor c ON c.schedule_id = s.id
  LEFT JOIN LATERAL (SELECT v.* FROM pgcron.schedule_version v
                     WHERE v.schedule_id = why_undecided.known AND v.operation = 'delete'
                     LIMIT 1) deletion ON true
  CROSS JOIN LATERAL (
      SELECT coalesce(s.created_at, (deletion.content ->> 'created_at')::timestamptz)) life(began)
  CROSS JOIN LATERAL (
      SELECT CASE WHEN instant > c.watermark AND c.status = 'valid' AND c.runs_made >= s.max_runs
                    THEN 'completed'
                  WHEN instant < life.began THEN 'not_created'
                  WHEN instant > coalesce(deletion.since, deletion.at) THEN 'is_deleted'
                  WHEN instant > c.watermark AND NOT s.enabled THEN 'is_paused'
                  WHEN instant > c.watermark AND c.status = 'invalid' THEN 'is_invalid'
                  WHEN instant > c.watermark AND (c.canonical LIKE 'on asset %') IS NOT TRUE
                    THEN 'not_yet'
                  WHEN instant < now() - kept.keep THEN 'not_kept'
                  ELSE 'not_an_instant' END) judged(code)
  JOIN pgcron.reason r ON r.code = judged.code
  WHERE kept.relation = 'occurrence' AND coalesce(s.id, deletion.schedule_id) IS NOT NULL;
END;
