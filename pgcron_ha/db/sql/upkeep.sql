-- name: ensure_partitions

-- name: outlived_partitions

-- name: drop_outlived

-- name: expired_runs
-- Runs that wait for their first attempt and whose start deadline has passed, without locked ones,
-- which are left for the next look; and the next one that expires, if that is soon. `seconds`: how
-- far ahead that is.
SELECT late.id, 0::float8 AS seconds FROM unnest(ARRAY(
  SELECT r.id FROM pgcron.run r
  WHERE r.state <> 'running' AND r.expire_at IS NOT NULL AND r.expire_at <= now() AND r.attempt = 0
  ORDER BY r.expire_at LIMIT :at_most FOR UPDATE SKIP LOCKED)) late(id)
UNION ALL
(SELECT r.id, extract(epoch FROM r.expire_at - now())::float8 FROM pgcron.run r
 WHERE r.state <> 'running' AND r.expire_at > now() AND r.expire_at < now() + interval '1 minute'
   AND r.attempt = 0
 ORDER BY r.expire_at LIMIT 1);

-- name: expire_runs
-- ready -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- blocked -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- Those that a node has claimed since they were found, or that wait no more, are left alone.
SELECT pgcron.end_each_waiting_run(ARRAY(
  SELECT r.id FROM pgcron.run r
  WHERE r.id = ANY(:run_ids::bigint[]) AND r.state <> 'running' AND r.attempt = 0
    AND r.expire_at <= now() FOR UPDATE SKIP LOCKED), 'expired', :reason) AS run_id;

-- name: give_up_runs
-- ready -> dead
-- blocked -> dead
-- Runs that wait for another attempt and whose total time is over.

-- name: notice_overruns
-- Runs of schedules that last longer than expected, each reported once: to the node whose statement
-- recorded it. Where there are more such runs than :at_most, each call takes others.
WITH long AS MATERIALIZED (
  SELECT r.id, r.schedule_id, r.schedule, now() - r.started_at AS taken FROM pgcron.run r
  WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.schedule_id IS NOT NULL
    AND r.started_at < now() - interval '10 seconds'
    AND NOT EXISTS (SELECT FROM pgcron.overrun o WHERE o.run_id = r.id)
  ORDER BY random() LIMIT :at_most),
expected AS MATERIALIZED (
  SELECT s.schedule_id, pgcron.expected_duration(s.schedule_id) AS length
  FROM (SELECT DISTINCT l.schedule_id FROM long l) s),
noticed AS (
  INSERT INTO pgcron.overrun AS o (run_id, schedule_id, expected)
  SELECT l.id, l.schedule_id, e.length FROM long l
  JOIN expected e ON e.schedule_id = l.schedule_id WHERE l.taken > e.length ORDER BY l.id
  ON CONFLICT DO NOTHING RETURNING o.run_id, o.expected)
SELECT n.run_id, l.schedule, extract(epoch FROM n.expected)::float8 AS expected,
       extract(epoch FROM l.taken)::float8 AS taken
FROM noticed n JOIN long l ON l.id = n.run_id;

-- name: forget_keys
-- forgets: pgcron.idempotency
o.expires_at <= now() ORDER BY o.expires_at;

-- name: forget_periods
-- forgets: pgcron.unique_period
o.until <= now() ORDER BY o.until;

-- name: forget_rates
-- forgets: pgcron.rate_window
-- What keys and queues with a rate have started, when all of it is older than the rate's time: no
-- row says the same. Else each key of a pattern would leave one behind.
pgcron.rate_slice(now(), o.per) - 256 > ALL (o.slices);

-- name: forget_nodes
-- forgets: pgcron.node
-- Dead for a day and owner of nothing.
o.state = 'dead' AND o.ended_at < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.owner = o.incarnation AND r.state = 'running');

-- name: forget_missed
-- forgets: pgcron.missed
o.last_at < (SELECT pgcron.kept_since('occurrence'));

-- name: forget_letters
-- forgets: pgcron.dead_letter
-- Of dead letters those that somebody has closed, for as long as ended runs are kept.
o.closed_at < (SELECT pgcron.kept_since('history')) ORDER BY o.closed_at;

-- name: forget_assets
-- forgets: pgcron.asset
-- That were not updated for as long as ended runs are kept, and that no schedule is on.
o.updated_at < (SELECT pgcron.kept_since('history'))
  AND NOT EXISTS (SELECT FROM pgcron.schedule_asset d WHERE d.asset = o.name);

-- name: forget_versions
-- Those of a schedule that was deleted are kept as long as its ledger.
DELETE FROM pgcron.schedule_version g WHERE g.schedule_id = ANY(ARRAY(
  SELECT o.schedule_id FROM pgcron.schedule_version o
  WHERE o.operation = 'delete' AND o.at < (SELECT pgcron.kept_since('occurrence'))
  ORDER BY o.at LIMIT :at_most FOR UPDATE SKIP LOCKED)) RETURNING 1 AS gone;

-- name: overflowed
-- Of runs that ended when history had no partition for them; not those that were refused just now.
SELECT o.id FROM pgcron.history_overflow o WHERE o.id <> ALL(:aside::bigint[]) ORDER BY o.id
LIMIT :at_most;

-- name: drain_overflow
-- What found no partition is moved to history, once there is one.
WITH moved AS (DELETE FROM pgcron.history_overflow o WHERE o.id = ANY(:run_ids::bigint[])
RETURNING o.*)
INSERT INTO pgcron.history SELECT * FROM moved;

-- name: append_lines
-- Lines of a run that is no longer the caller's are refused. The database's clock decides: a line
-- is not of the future, and not older than its run's claim, so that the clock of a node that is
-- weeks off loses none.
INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line)
SELECT r.id, r.attempt, l.sequence,
       least(greatest(l.at, r.claimed_at, now() - interval '1 day'), now()), l.stream, l.line
FROM unnest(:run_ids::bigint[], :tokens::uuid[], :sequences::int[], :times::timestamptz[],
            :streams::text[], :lines::text[])
     l(run_id, token, sequence, at, stream, line)
JOIN pgcron.run r ON r.id = l.run_id AND r.token = l.token
WHERE r.id = ANY(:run_ids);

-- name: append_lines_again
-- After an answer that got lost: only what is not there yet. A run's lines are written in their
-- order. And after the run's end, when the lines had to wait: the fence number names the claim. A
-- claim that was taken away has no lines any more.
WITH given AS MATERIALIZED (
  SELECT *
  FROM unnest(:run_ids::bigint[], :tokens::uuid[], :fences::bigint[], :sequences::int[],
              :times::timestamptz[], :streams::text[], :lines::text[])
           l(run_id, token, fence, sequence, at, stream, line)),
claim AS MATERIALIZED (
  SELECT c.run_id, c.fence, found.attempt, found.claimed_at, seen.sequence
  FROM (SELECT DISTINCT g.run_id, g.token, g.fence FROM given g) c
  CROSS JOIN LATERAL (
    SELECT r.attempt, r.claimed_at FROM pgcron.run r WHERE r.id = c.run_id AND r.token = c.token
    UNION ALL SELECT h.attempt, h.claimed_at FROM pgcron.ended_runs h
    WHERE h.id = c.run_id AND h.fence = c.fence AND h.outcome <> 'lost'
    UNION ALL SELECT a.attempt, a.claimed_at FROM pgcron.attempt a
    WHERE a.run_id = c.run_id AND a.fence = c.fence AND a.outcome <> 'lease_lost'
    LIMIT 1) found
  CROSS JOIN LATERAL (SELECT coalesce(max(w.sequence), 0) AS sequence FROM pgcron.log w
  WHERE w.run_id = c.run_id AND w.attempt = found.attempt) seen)
INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line)
SELECT c.run_id, c.attempt, g.sequence,
       least(greatest(g.at, c.claimed_at, now() - interval '1 day'), now()), g.stream, g.line
FROM given g JOIN claim c ON c.run_id = g.run_id AND c.fence = g.fence
WHERE g.sequence > c.sequence;

-- name: put_progress
-- The latest progress of each run, in a narrow table of its own: the run's row is not touched. A
-- late one, of a claim that is over, is refused by the token.
INSERT INTO pgcron.progress AS reported (run_id, attempt, at, done, total, note)
SELECT r.id, r.attempt, least(p.at, now()), p.done, p.total, p.note
FROM unnest(:run_ids::bigint[], :tokens::uuid[], :times::timestamptz[], :dones::float8[],
            :totals::float8[], :notes::text[])
     p(run_id, token, at, done, total, note)
JOIN pgcron.run r ON r.id = p.run_id AND r.token = p.token
WHERE r.id = ANY(:run_ids)
ORDER BY r.id
ON CONFLICT (run_id) DO UPDATE
    SET attempt = EXCLUDED.attempt, at = EXCLUDED.at, done = EXCLUDED.done, total = EXCLUDED.total,
        note = EXCLUDED.note;

-- name: forget_progress
-- forgets: pgcron.progress
-- Progress of runs that are over: so the end of a run need not search for it.
NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id) ORDER BY o.run_id;

-- name: forget_overruns
-- forgets: pgcron.overrun
-- Which runs lasted too long, as progress.
NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id) ORDER BY o.run_id;

-- name: channel
