-- name: act_as

-- name: record_audit

-- name: settle_audit

-- name: audited
-- What was recorded, the newest first, from (:before_at, :before) downwards. At most :look rows are
-- looked at, whatever the filters let through: the columns looked, floor_at and floor of every row
-- say how far (if nothing matched, a single row without an id has them). An index leads to those of
-- a :name.
WITH looked AS MATERIALIZED (
  (SELECT a.* FROM pgcron.audit a
   WHERE :name::text IS NULL AND a.at <= :before_at::timestamptz
     AND (a.at, a.id) < (:before_at::timestamptz, :before::bigint)
     AND a.at >= :since::timestamptz
   ORDER BY a.at DESC, a.id DESC LIMIT :look::int)
  UNION ALL
  (SELECT a.* FROM pgcron.audit a
   WHERE a.name = :name::text AND a.at <= :before_at::timestamptz
     AND (a.at, a.id) < (:before_at::timestamptz, :before::bigint)
     AND a.at >= :since::timestamptz
   ORDER BY a.at DESC, a.id DESC LIMIT :look::int)),
matched AS MATERIALIZED (
  SELECT l.* FROM looked l
  WHERE (:actor::text IS NULL OR l.actor = :actor::text)
    AND (:login::text IS NULL OR l.login = :login::text)
    AND (:verb::text IS NULL OR l.verb = :verb::text)
    AND (:kind::text IS NULL OR l.kind = :kind::text)
    AND (:interface::text IS NULL OR l.interface = :interface::text)
    AND (:outcome::text IS NULL OR l.outcome = :outcome::text)
  ORDER BY l.at DESC, l.id DESC LIMIT :limit::int)
SELECT scan.looked, scan.floor_at, scan.floor, m.*
FROM (SELECT count(*) AS looked, min(l.at) AS floor_at,
             (array_agg(l.id ORDER BY l.at, l.id))[1] AS floor FROM looked l) scan
LEFT JOIN matched m ON true ORDER BY m.at DESC, m.id DESC;

-- name: audit_after
-- The next ones by number, up to the one to which the audit is complete.
SELECT a.* FROM pgcron.audit a WHERE a.id > :after::bigint AND a.id <= :settled::bigint
ORDER BY a.id LIMIT :at_most::int;
