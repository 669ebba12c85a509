-- name: grant_role

-- name: revoke_role

-- name: set_team

-- name: list_role_grants
-- Without those of tokens that are over.
SELECT g.*, coalesce('token ' || t.id || ' ' || t.name || coalesce(' of ' || t.owner, ''),
                     g.subject_kind || ' ' || g.subject) AS who
FROM pgcron.role_grant g
LEFT JOIN pgcron.api_token t ON g.subject_kind = 'token' AND t.id = g.subject
WHERE (:subject::text IS NULL OR g.subject = :subject::text)
  AND (t.expires_at > now()) IS NOT false
ORDER BY g.subject_kind, g.subject, g.role, g.scope_kind, g.scope LIMIT :limit::int;

-- name: list_unknown
-- Of a grant, what is not there yet, as words.
SELECT format('there is no user %L yet', :subject::text) AS words
WHERE :subject_kind::text = 'user'
  AND NOT EXISTS (SELECT FROM pgcron.web_user u WHERE u.name = :subject::text)
UNION ALL
SELECT format('team %L owns nothing yet', :scope::text)
WHERE :scope_kind::text = 'team' AND right(:scope::text, 1) <> '*'
  AND NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.owner = :scope::text)
  AND NOT EXISTS (SELECT FROM pgcron.owned o WHERE o.team = :scope::text);

-- name: list_owned
SELECT o.* FROM pgcron.owned o WHERE :team::text IS NULL OR o.team = :team::text
ORDER BY o.team, o.kind, o.name LIMIT :limit::int;

-- name: enter_scopes
-- For the rest of the transaction.
SELECT set_config('pgcron_ha.scopes', :scopes::text[]::text, true);

-- name: reaches
SELECT pgcron.reaches(:kind::text, :name::text) AS reaches;

-- name: reached
-- NULL scopes: everything. A calendar of no team is seen by all, and is for editors of everything;
-- with a space before the parenthesis, so that it is asked of who sees everything, too.
SELECT pgcron.reaches(:kind::text, :name::text, :viewer::text[]) AS viewer,
       pgcron.reaches(:kind::text, :name::text, :operator::text[]) AS operator,
       pgcron.reaches(:kind::text, :name::text, :editor::text[]) AND (:kind::text <> 'calendars'
         OR pgcron.calendar_in_scope (:name::text, :editor::text[], false)) AS editor,
       pgcron.reaches(:kind::text, :name::text, :admin::text[]) AS admin;

-- name: record_refusal
