-- What readers get: stable columns.

-- Live and ended runs in the shape of history; ended_at is NULL for those that are alive.
CREATE VIEW pgcron.every_run AS
  SELECT h.*, NULL::timestamptz AS ended_at, r.gate, r.expire_at, r.cancel_at, r.kill_at,
         coalesce(n.state <> 'dead' AND n.lease_until > now(), false) AS has_lease,
         (pgcron.waits(r)).*
  FROM pgcron.run r LEFT JOIN pgcron.node n ON n.incarnation = r.owner
  CROSS JOIN LATERAL pgcron.history_of(r, r.state, r.last_error, n.name) h
  UNION ALL
  SELECT h.*, h.finished_at, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL
  FROM pgcron.ended_runs h;

-- Whether a run belongs to this owner and has these tags; NULL: any.
CREATE FUNCTION pgcron.run_has(run bigint, owner text, tags text[]) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (
    SELECT FROM pgcron.every_run e CROSS JOIN LATERAL pgcron.team_of(e.schedule_id, e.queue) t
    WHERE e.id = run_has.run AND (run_has.owner IS NULL OR t.team = run_has.owner)
      AND (run_has.tags IS NULL OR e.tags @> run_has.tags));

CREATE VIEW pgcron.runs AS
  SELECT e.id, pgcron.run_uuid(e.uuid, e.id, e.created_at) AS uuid, e.origin, e.schedule,
         e.schedule_id, e.scheduled_for, e.nominal_for, e.parent_run, e.handler, e.queue,
         e.priority, e.outcome AS state, e.gate, e.delivery, e.attempt,
         pgcron.attempts_allowed(e.max_attempts, e.delivery) AS max_attempts, e.due_at,
         e.claimed_at, e.started_at, e.ended_at AS finished_at, e.node, e.owner, e.error, e.args,
         e.result, e.created_at, e.created_by, e.cancel_at, e.concurrency_key, e.requires,
         coalesce(e.weight, 1) AS weight, e.tags,
         CASE WHEN e.outcome = 'running'
                THEN (SELECT o.expected FROM pgcron.overrun o WHERE o.run_id = e.id) END AS
           overrun_after,
         e.waits_for, e.waits_detail, e.created_login
  FROM pgcron.every_run e;
COMMENT ON VIEW pgcron.runs IS
    'Live and ended runs; state is the live state or the outcome. waits_for and waits_detail: what '
    'keeps a run that is due from beginning, as a word and as a sentence.';

CREATE VIEW pgcron.schedules AS
  SELECT s.*, c.runs_made,
         CASE WHEN c.status = 'valid' AND c.next_fire = 'infinity'
                   AND (s.max_runs <= c.runs_made OR c.canonical NOT LIKE 'on asset %')
                   AND NOT EXISTS (SELECT FROM pgcron.run r
                                   WHERE r.schedule_id = s.id AND r.origin = 'schedule') THEN 'done'
              ELSE c.status END AS status,
         c.error, c.canonical, c.watermark,
         coalesce((SELECT min(r.scheduled_for) FROM pgcron.run r
                   WHERE r.schedule_id = s.id AND r.state IN ('blocked', 'ready')
                     AND r.scheduled_for > now()),
             CASE WHEN isfinite(c.next_fire) AND NOT c.is_paused THEN c.next_fire END) AS next_fire,
         (SELECT count(*)::int FROM pgcron.overrun o
          JOIN pgcron.run r ON r.id = o.run_id AND r.state = 'running' WHERE o.schedule_id = s.id)
           AS overrunning,
         (SELECT array_agg(d.asset ORDER BY d.asset) FROM pgcron.schedule_asset d
          WHERE d.schedule_id = s.id AND d.updated_at IS NULL) AS waits_for_assets
  FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id;
COMMENT ON VIEW pgcron.schedules IS
    'Schedules and their status: unchecked, valid, invalid (error says why), or done: '
    'it has no fire to come, and its last run is over. waits_for_assets: those of its assets that '
    'were not updated since its last run.';

CREATE VIEW pgcron.occurrences AS
  SELECT s.name AS schedule, o.schedule_id, o.fire_at, o.fire_at AS last_at, o.decision, o.reason,
         o.run_id, 1 AS fires, o.decided_at,
         CASE WHEN o.decision = 'run' AND o.reason IS NULL THEN 'run'
              ELSE pgcron.reason_code(o.decision, o.reason) END AS code
  FROM pgcron.occurrence o LEFT JOIN pgcron.schedule s ON s.id = o.schedule_id
  UNION ALL
  SELECT s.name, m.schedule_id, m.first_at, m.last_at, 'missed', concat_ws(': ', m.reason, m.note),
         NULL, m.fires, m.decided_at, pgcron.reason_code('missed', m.reason)
  FROM pgcron.missed m LEFT JOIN pgcron.schedule s ON s.id = m.schedule_id;
COMMENT ON VIEW pgcron.occurrences IS
    'The ledger: one row for each fire time, or for each range of fires that were dropped '
    'together (fires NULL: not counted). code: a stable word; pgcron.why says what it means.';

-- A cordon of the node's name counts before one of this process alone.
CREATE VIEW pgcron.nodes AS
  SELECT n.incarnation, n.name, n.host, n.process_id, n.version,
         CASE WHEN n.state NOT IN ('alive', 'cordoned') THEN n.state
              WHEN c.node IS NULL THEN 'alive'
              ELSE 'cordoned' END AS state,
         n.lease_until, n.lease_ttl, n.state <> 'dead' AND n.lease_until > now() AS has_lease,
         n.slots, n.slots_used, n.queues,
         (SELECT array_agg(o.handler ORDER BY o.handler) FROM pgcron.offer o
          WHERE o.incarnation = n.incarnation) AS handlers,
         n.is_idle, n.started_at, n.ended_at, n.ended_because, n.labels, c.set_at AS cordoned_at,
         c.set_by AS cordoned_by, c.note AS cordon_note, n.is_pooled, n.tzdata, n.health
  FROM pgcron.node n
  LEFT JOIN LATERAL (SELECT e.* FROM pgcron.cordon e WHERE e.node IN (n.name, n.incarnation::text)
                     ORDER BY e.incarnation IS NOT NULL LIMIT 1) c ON n.state <> 'dead';
COMMENT ON VIEW pgcron.nodes IS
    'Worker processes, past ones too: what they offer, and whether they hold their lease.';

CREATE VIEW pgcron.queues AS
  SELECT coalesce(q.name, w.queue) AS name, q.paused_at, q.paused_by, q.paused_note, q.max_running,
         coalesce(w.waiting, 0) AS waiting, coalesce(w.due, 0) AS due,
         coalesce(w.running, 0) AS running, coalesce(w.blocked, 0) AS blocked, w.oldest_due
  FROM pgcron.queue q
  FULL JOIN (SELECT r.queue, count(*) FILTER (WHERE r.state <> 'running') AS waiting,
                    count(*) FILTER (WHERE r.state = 'ready' AND r.due_at <= now()) AS due,
                    count(*) FILTER (WHERE r.state = 'running') AS running,
                    count(*) FILTER (WHERE r.state = 'blocked' AND r.due_at <= now()
                                           AND r.gate <> 'workflow') AS blocked,
                    min(r.due_at) FILTER (WHERE r.state <> 'running' AND r.due_at <= now()) AS
                      oldest_due
             FROM pgcron.run r GROUP BY r.queue) w ON w.queue = q.name;
COMMENT ON VIEW pgcron.queues IS
    'Queues and their runs: all that wait, and of those that are due the ready and the blocked; '
    'what runs; since when the oldest of all waits.';

CREATE VIEW pgcron.dead_letters AS
  SELECT d.run_id, d.uuid, d.outcome, d.died_at, d.schedule, d.scheduled_for, d.handler, d.queue,
         d.priority, d.args, d.attempts, d.error_class, d.error, d.fingerprint, d.redriven_as,
         d.closed_at, d.closed_by, d.note, d.created_by, d.created_login
  FROM pgcron.dead_letter d;
COMMENT ON VIEW pgcron.dead_letters IS
    'Runs that ended dead or lost; closed ones were redriven or archived.';
