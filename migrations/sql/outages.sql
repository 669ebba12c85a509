-- After a time in which no node lived: what became due meanwhile is late, also where it was a run
-- already. A node asks before it may claim, so the catch-up policy of the schedule decides first.

-- ready -> skipped
-- Late is what became due after the last beat of any node and more than `grace` ago. Of those the
-- policy keeps the newest; none where a newer late fire has no run yet, as the materializer decides
-- about that one. A run that was moved or edited by a person stays. Returns how many ended, at most
-- `most`; does nothing while some node has its lease.
CREATE FUNCTION pgcron.end_late_fires(grace interval, most int) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  silent_since timestamptz;
  ended int := 0;
  late record;
BEGIN
  IF EXISTS (SELECT FROM pgcron.node n WHERE n.state <> 'dead' AND n.lease_until > now()) THEN
    RETURN 0;
  END IF;
  SELECT coalesce(max(n.lease_until - n.lease_ttl), '-infinity') INTO silent_since
    FROM pgcron.node n;
  FOR late IN
    SELECT judged.reason, array_agg(judged.id ORDER BY judged.id) AS runs FROM (
      SELECT placed.id,
             CASE WHEN placed.catchup = 'none' THEN 'it was late, and its schedule does not catch up'
                  WHEN placed.is_old THEN 'it was late, and older than the catch-up window'
                  WHEN placed.place > placed.kept
                  THEN 'it was late, and a newer late fire runs in its place' END AS reason
        FROM (
          SELECT r.id, s.catchup, r.due_at < now() - s.catchup_window AS is_old,
                 row_number() OVER (PARTITION BY s.id ORDER BY r.scheduled_for DESC) AS place,
                 CASE WHEN s.catchup = 'latest' THEN 1
                      WHEN s.catchup LIKE 'latest %' THEN split_part(s.catchup, ' ', 2)::int END
                 - (c.next_fire <= now() - grace AND NOT c.is_paused)::int AS kept
            FROM pgcron.schedule s
            JOIN pgcron.cursor c ON c.schedule_id = s.id
           CROSS JOIN LATERAL (
             SELECT w.* FROM pgcron.run w
              WHERE w.schedule_id = s.id AND w.state = 'ready' AND w.origin = 'schedule'
                AND w.attempt = 0 AND w.due_at > silent_since AND w.due_at <= now() - grace) r
           WHERE s.catchup <> 'all' AND NOT EXISTS (
             SELECT FROM pgcron.occurrence_override o
              WHERE o.schedule_id = s.id AND o.fire_at = r.scheduled_for)) placed) judged
     WHERE judged.reason IS NOT NULL GROUP BY judged.reason LOOP
    SELECT ended + count(*) INTO ended
      FROM pgcron.end_each_waiting_run(late.runs[:most], 'skipped', late.reason);
  END LOOP;
  RETURN ended;
END $$;
