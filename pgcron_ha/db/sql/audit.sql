-- name: act_as

-- name: settle_audit

-- name: audited
-- What was recorded, the newest first, from (:before_at, :before) downwards. At most :look rows are
-- looked at, whatever the filters let through: the columns looked, floor_at and floor of every row
-- say how far (if nothing matched, a single row without an id has them). An index leads to those of
-- a :name.
WITH looked AS MATERIALIZED (
  (SELECT a.at, a.id, a.actor, a.login, a.verb, a.kind, a.interface, a.outcome FROM pgcron.audit a
   WHERE :name::text IS NULL AND a.at <= :before_at::timestamptz
     AND (a.at, a.id) < (:before_at::timestamptz, :before::bigint)
     AND a.at >= :since::timestamptz
   ORDER BY a.at DESC, a.id DESC LIMIT :look::int)
  UNION ALL
  (SELECT a.at, a.id, a.actor, a.login, a.verb, a.kind, a.interface, a.outcome FROM pgcron.audit a
   WHERE a.name = :name::text AND a.at <= :before_at::timestamptz
     AND (a.at, a.id) < (:before_at::timestamptz, :before::bigint)
     AND a.at >= :since::timestamptz
   ORDER BY a.at DESC, a.id DESC LIMIT :look::int)),
matched AS MATERIALIZED (
  SELECT l.at, l.id FROM looked l
  WHERE (:actor::text IS NULL OR l.actor = :actor::text)
    AND (:login::text IS NULL OR l.login = :login::text)
    AND (:verb::text IS NULL OR l.verb = :verb::text)
    AND (:kind::text IS NULL OR l.kind = :kind::text)
    AND (:interface::text IS NULL OR l.interface = :interface::text)
    AND (:outcome::text IS NULL OR l.outcome = :outcome::text)
  ORDER BY l.at DESC, l.id DESC LIMIT :limit::int)
SELECT scan.looked, scan.floor_at, scan.floor, a.*
FROM (SELECT count(*) AS looked, min(l.at) AS floor_at,
             (array_agg(l.id ORDER BY l.at, l.id))[1] AS floor FROM looked l) scan
LEFT JOIN (matched m JOIN pgcron.audit a ON a.at = m.at AND a.id = m.id) ON true
ORDER BY m.at DESC, m.id DESC;

-- name: audit_after
-- The next ones by number, up to the one to which the audit is complete.
SELECT a.* FROM pgcron.audit a WHERE a.id > :after::bigint AND a.id <= :settled::bigint
ORDER BY a.id LIMIT :at_most::int;

-- name: audit_unsent
SELECT CASE WHEN e.sent = 0 AND e.failures = 0 THEN 0 ELSE e.settled - e.sent END AS unsent
FROM pgcron.audit_export e;

-- name: claim_audit
-- The next rows for the webhook, as JSON: for a minute nobody else sends them.
WITH mine AS (
  UPDATE pgcron.audit_export e SET due_at = now() + interval '1 minute'
  WHERE e.sent < e.settled AND e.due_at <= now()
    AND e.one = ANY(ARRAY(SELECT x.one FROM pgcron.audit_export x FOR UPDATE SKIP LOCKED))
  RETURNING e.sent, e.settled)
SELECT m.sent, next.id, next.line
FROM mine m
CROSS JOIN LATERAL (SELECT a.id, to_jsonb(a)::text AS line FROM pgcron.audit a
                    WHERE a.id > m.sent AND a.id <= m.settled ORDER BY a.id LIMIT :at_most) next
ORDER BY next.id;

-- name: audit_was_sent
-- Or was not, with the error: then the next try comes later and later, after five minutes at most.
UPDATE pgcron.audit_export e
SET sent = CASE WHEN :error::text IS NULL THEN :sent ELSE e.sent END,
    failures = CASE WHEN :error::text IS NULL THEN 0 ELSE e.failures + 1 END,
    error = left(:error::text, 500),
    due_at = now() + CASE WHEN :error::text IS NULL THEN interval '0'
                          ELSE least(power(2, least(e.failures, 20)) * interval '1 second',
                                 interval '5 minutes') END
WHERE e.sent = :before
RETURNING e.failures;
