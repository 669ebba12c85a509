-- What nodes computed of the next fires: SQL knows neither cron nor zones.

CREATE TABLE pgcron.schedule_preview (
  schedule_id bigint PRIMARY KEY REFERENCES pgcron.cursor ON DELETE CASCADE,
  generation bigint,
  sentence text,
  fires jsonb,
  is_over boolean,
  error jsonb,
  -- More fires were requested than there are: a node computes them anew.
  asked_at timestamptz
) WITH (fillfactor = 80);
COMMENT ON TABLE pgcron.schedule_preview IS
    'The next fires of schedules, and schedules in English: written when a new generation is '
    'judged, and on request.';
CREATE INDEX schedule_preview_asked ON pgcron.schedule_preview (asked_at)
  WHERE asked_at IS NOT NULL;

CREATE FUNCTION pgcron.ask_preview(asked bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  -- a standby, or a reader: others request it
  IF current_setting('transaction_read_only')::boolean THEN RETURN; END IF;
  INSERT INTO pgcron.schedule_preview AS p (schedule_id, asked_at) VALUES (asked, now())
  ON CONFLICT (schedule_id) DO UPDATE SET asked_at = EXCLUDED.asked_at WHERE p.asked_at IS NULL;
END $$;

-- Raises the error of a schedule that no node can read. The note of a row without fire_at is the
-- reason why there is none.
CREATE FUNCTION pgcron.preview(schedule text, count int DEFAULT 5)
  RETURNS TABLE (fire_at timestamptz, local text, note text, sentence text)
LANGUAGE plpgsql AS $$
DECLARE
  state pgcron.cursor;
  row_found pgcron.schedule_preview;
  shown int;
BEGIN
  PERFORM pgcron.is_within('count', coalesce(count, 0), 1, 20,
      'Nodes keep the next 20 fires of a schedule.',
      'Ask for 1 to 20; `pgcron-ha next` computes more.');
  SELECT * INTO state FROM pgcron.cursor c
  WHERE c.schedule_id = pgcron.schedule_id(preview.schedule);
  SELECT * INTO row_found FROM pgcron.schedule_preview p
  WHERE p.schedule_id = state.schedule_id AND p.generation = state.generation
    AND NOT state.edit_is_pending;
  PERFORM pgcron.refuse(coalesce(wrong ->> 'sqlstate', 'PC002'),
      format('schedule %L: %s', left(preview.schedule, 200), wrong ->> 'message'),
      wrong ->> 'detail', wrong ->> 'hint')
    FROM coalesce(state.error, row_found.error) wrong WHERE wrong IS NOT NULL;
  RETURN QUERY SELECT (f.fire ->> 'at')::timestamptz, f.fire ->> 'local',
           nullif(concat_ws('; ', f.fire ->> 'note',
               CASE WHEN o.action IS NOT NULL
                      THEN pgcron.override_words(o.action, o.due_at, o.actor, o.note) END),
             ''),
           row_found.sentence
    FROM jsonb_array_elements(row_found.fires) WITH ORDINALITY f(fire, place)
    LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = state.schedule_id
      AND o.fire_at = (f.fire ->> 'at')::timestamptz
    WHERE coalesce(o.due_at, (f.fire ->> 'at')::timestamptz) > now() ORDER BY f.place LIMIT count;
  GET DIAGNOSTICS shown = ROW_COUNT;
  PERFORM pgcron.ask_preview(state.schedule_id)
    WHERE shown < count AND row_found.is_over IS DISTINCT FROM true;
  RETURN QUERY SELECT NULL::timestamptz, NULL::text,
           CASE WHEN state.canonical LIKE 'on asset %' THEN 'it runs when its assets were updated'
                WHEN row_found.is_over THEN 'it never fires again'
                ELSE 'no node has judged it yet: try again in a few seconds' END,
           row_found.sentence
    WHERE shown = 0;
END $$;
COMMENT ON FUNCTION pgcron.preview IS
    'The next fires of a schedule with local time, offset and what the clock does to them, and '
    'the schedule in English, as nodes computed them; the note says what somebody has skipped, '
    'moved or given other args; raises what is wrong with one that no node can read (PC002, PC003 '
    'for its zone).';
