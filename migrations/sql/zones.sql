-- The time zones' data: the newest that any node has brought are those that all compute with, so that two nodes with other data never
-- decide against each other. A zone whose clocks differ by newer rules has what was made ahead of its schedules made again, schedule by schedule.

CREATE TABLE pgcron.zone_change (
  zone text NOT NULL,
  tzdata text COLLATE "C" NOT NULL,
  old_rules bytea NOT NULL,
  differs_from timestamptz NOT NULL,
  taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  swept_to bigint NOT NULL DEFAULT 0,
  postponed bigint[] NOT NULL DEFAULT '{}',
  remade bigint NOT NULL DEFAULT 0,
  done_at timestamptz,
  PRIMARY KEY (zone, tzdata)
);
COMMENT ON TABLE pgcron.zone_change IS 'A zone whose clocks differ by newer data: from when on, and how far its schedules follow. Schedules up to swept_to that are not postponed do.';
COMMENT ON COLUMN pgcron.zone_change.postponed IS 'Schedules that somebody was editing: looked at again.';
COMMENT ON COLUMN pgcron.zone_change.remade IS 'How many schedules had fires ahead decided by the old rules: those were made again.';
CREATE INDEX zone_change_under_way ON pgcron.zone_change (zone) WHERE done_at IS NULL;

-- The cluster takes newer data, if they are still newer and what it had before is what the caller compared with. Not while an earlier
-- change is under way: each schedule has either the old or the new rules. Zones whose clocks differ come with the instant from which on they do.
CREATE FUNCTION pgcron.take_zones(tzdata text, base text, zones text[], rules bytea[], differ_from timestamptz[]) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  UPDATE pgcron.cluster c SET tzdata = take_zones.tzdata
   WHERE c.tzdata IS NOT DISTINCT FROM take_zones.base AND (c.tzdata IS NULL OR c.tzdata < take_zones.tzdata)
     AND NOT EXISTS (SELECT FROM pgcron.zone_change z WHERE z.done_at IS NULL);
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO pgcron.zone_change (zone, tzdata, old_rules, differs_from)
  SELECT given.zone, take_zones.tzdata, t.rules, given.differs_from FROM unnest(take_zones.zones, take_zones.differ_from) given(zone, differs_from)
    JOIN pgcron.timezone t ON t.name = given.zone AND t.rules IS NOT NULL
   WHERE given.differs_from IS NOT NULL;
  INSERT INTO pgcron.timezone (name, rules) SELECT given.zone, given.rules FROM unnest(take_zones.zones, take_zones.rules) given(zone, rules)
  ON CONFLICT (name) DO UPDATE SET rules = EXCLUDED.rules;
  RETURN true;
END $$;
COMMENT ON FUNCTION pgcron.take_zones(text, text, text[], bytea[], timestamptz[]) IS 'For nodes: the cluster computes with newer time zones from now on, if nobody was faster.';

-- What lay before the moment at which a schedule took the new rules was decided by the old ones, what lies after it by the new ones. Where the
-- clocks themselves differ at that moment, they jump there for the schedule, and no wall time is to be lost or to run twice by that: `later` are fires by the new
-- rules that by the old ones came `shift` (negative) before; the ledger has them. `earlier` are fires by the new rules that by the old ones would have come `shift` after.
CREATE FUNCTION pgcron.bridge_clocks(before pgcron.cursor, shift interval, earlier timestamptz[], later timestamptz[], note text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  boundary timestamptz := (SELECT c.watermark FROM pgcron.cursor c WHERE c.schedule_id = before.schedule_id);
  lost timestamptz[];
  decided timestamptz;
BEGIN
  INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, note, actor)
  SELECT before.schedule_id, fire, 'skip', format('%s; by the clocks of before it was decided for %s', bridge_clocks.note, fire + shift), 'pgcron_ha' FROM unnest(later) fire
   WHERE fire > boundary AND fire + shift <= boundary AND EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at = fire + shift)
  ON CONFLICT DO NOTHING;
  lost := ARRAY(SELECT fire FROM unnest(earlier) fire
                 WHERE fire <= boundary AND fire > boundary - shift AND fire > before.since
                   AND NOT EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at = fire)
                   AND NOT EXISTS (SELECT FROM pgcron.missed m WHERE m.schedule_id = before.schedule_id AND fire BETWEEN m.first_at AND m.last_at) ORDER BY 1);
  IF cardinality(lost) = 0 THEN RETURN; END IF;
  -- Late fires, which the catch-up policy decides; those that have a decided one after them are told.
  decided := greatest((SELECT max(o.fire_at) FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at > lost[1] AND o.fire_at <= boundary),
                      (SELECT max(m.last_at) FROM pgcron.missed m WHERE m.schedule_id = before.schedule_id AND m.last_at > lost[1] AND m.last_at <= boundary));
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason, note)
  SELECT before.schedule_id, fire, fire, 1, 'edited', bridge_clocks.note FROM unnest(lost) fire WHERE fire <= decided ON CONFLICT DO NOTHING;
  UPDATE pgcron.cursor c SET watermark = greatest(lost[1] - interval '1 microsecond', decided) WHERE c.schedule_id = before.schedule_id;
END $$;

-- Applies new rules to the next schedules of a zone, or to those that were postponed; returns how many had fires ahead that are made
-- again, NULL when another node was faster. A schedule that somebody has locked is postponed: no edit, however long, holds up the others.
-- Fires up to differs_from are the same by both rules; so what is decided no further stays.
CREATE FUNCTION pgcron.take_rules(zone text, tzdata text, after bigint, swept_to bigint, schedules bigint[], moved jsonb) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  change pgcron.zone_change;
  locked bigint[];
  before pgcron.cursor;
  healthy bigint;
  bridge jsonb;
  made_again int := 0;
BEGIN
  SELECT * INTO change FROM pgcron.zone_change z WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata AND z.swept_to = take_rules.after AND z.done_at IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  locked := ARRAY(SELECT c.schedule_id FROM pgcron.cursor c WHERE c.schedule_id = ANY(take_rules.schedules) ORDER BY c.schedule_id FOR UPDATE SKIP LOCKED);
  BEGIN
    UPDATE pgcron.cursor c SET next_fire = NULL WHERE c.schedule_id = ANY(locked) AND c.next_fire >= change.differs_from AND isfinite(c.next_fire);
  EXCEPTION WHEN check_violation THEN      -- one of them breaks a rule: those that don't, one by one
    FOREACH healthy IN ARRAY locked LOOP
      BEGIN
        UPDATE pgcron.cursor c SET next_fire = NULL WHERE c.schedule_id = healthy AND c.next_fire >= change.differs_from AND isfinite(c.next_fire);
      EXCEPTION WHEN check_violation THEN NULL;
      END;
    END LOOP;
  END;
  UPDATE pgcron.schedule_preview p SET generation = NULL, asked_at = now() WHERE p.schedule_id = ANY(locked);
  UPDATE pgcron.failure_pause p SET probe_fire = NULL, look_at = p.probe_at WHERE p.schedule_id = ANY(locked) AND p.probe_run IS NULL AND p.probe_fire >= change.differs_from;
  FOR before IN SELECT c.* FROM pgcron.cursor c WHERE c.schedule_id = ANY(locked) AND NOT c.is_paused AND c.since < change.taken_at
                   AND (change.differs_from <= now() OR c.watermark >= change.differs_from) ORDER BY c.schedule_id LOOP
    BEGIN
      PERFORM pgcron.apply_edit(before.schedule_id);
      bridge := take_rules.moved -> before.schedule_id::text;
      IF bridge IS NOT NULL THEN
        PERFORM pgcron.bridge_clocks(before, make_interval(secs => (bridge ->> 'shift')::float8),
          ARRAY(SELECT jsonb_array_elements_text(bridge -> 'earlier')::timestamptz), ARRAY(SELECT jsonb_array_elements_text(bridge -> 'later')::timestamptz),
          format('the clocks of %s changed with the time zones of %s', take_rules.zone, take_rules.tzdata));
      END IF;
      made_again := made_again + 1;
    EXCEPTION
      WHEN lock_not_available OR deadlock_detected THEN      -- one of its runs is locked: it is postponed
        locked := array_remove(locked, before.schedule_id);
      WHEN OTHERS THEN      -- its rows break a rule: it keeps what was made of it, and the others follow
        RAISE WARNING 'pgcron_ha: schedule % can''t take the new rules of %: %', before.schedule_id, take_rules.zone, SQLERRM;
    END;
  END LOOP;
  UPDATE pgcron.zone_change z SET swept_to = take_rules.swept_to, remade = z.remade + made_again,
         postponed = ARRAY(SELECT left_over FROM unnest(change.postponed || take_rules.schedules) left_over
                            WHERE left_over <> ALL(locked) AND EXISTS (SELECT FROM pgcron.cursor c WHERE c.schedule_id = left_over) GROUP BY left_over ORDER BY left_over)
   WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata;
  UPDATE pgcron.zone_change z SET done_at = clock_timestamp()
   WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata AND take_rules.schedules = '{}' AND z.postponed = '{}';
  RETURN made_again;
END $$;
COMMENT ON FUNCTION pgcron.take_rules(text, text, bigint, bigint, bigint[], jsonb) IS 'For nodes: makes again what was made ahead of these schedules by the old rules of their zone.';

REVOKE ALL ON FUNCTION pgcron.take_zones(text, text, text[], bytea[], timestamptz[]), pgcron.bridge_clocks(pgcron.cursor, interval, timestamptz[], timestamptz[], text),
  pgcron.take_rules(text, text, bigint, bigint, bigint[], jsonb) FROM PUBLIC;
