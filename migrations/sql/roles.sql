-- Who may do what on the pages: roles, each within a scope.

CREATE TABLE pgcron.role_grant (
  subject_kind text NOT NULL CONSTRAINT a_role_is_given_to_a_user_a_group_or_a_token
    CHECK (subject_kind IN ('user', 'group', 'token')),
  subject text NOT NULL CONSTRAINT a_subject_has_1_to_200_characters
    CHECK (length(subject) BETWEEN 1 AND 200),
  role text NOT NULL CHECK (pgcron.is_one_of('role', role, '{viewer,operator,editor,admin}',
        'A role is viewer, operator, editor or admin.', 'Name one of them.')),
  scope_kind text NOT NULL DEFAULT 'all',
  scope text NOT NULL DEFAULT '*',
  granted_by text NOT NULL DEFAULT session_user,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (subject_kind, subject, role, scope_kind, scope),
  -- A name, or how names begin, with a star at its end.
  CONSTRAINT a_scope_is_known CHECK ((scope_kind = 'all' AND scope = '*')
      OR (scope_kind IN ('team', 'queue', 'tag', 'schedule', 'handler')
        AND length(scope) BETWEEN 1 AND 206 AND scope !~ '[*].'
        AND (scope_kind <> 'handler' OR scope ~ '[:*]'))
      OR pgcron.refuse('PC001',
        format('%L is not a scope', left(concat_ws(':', scope_kind, nullif(scope, '')), 300)),
        'A scope is KIND:NAME; the kinds are team, queue, tag, schedule and handler. A star may '
        'stand at the end of NAME, for all that begin so; a handler has its own kind in it.',
        'Write for example queue:mail-* or handler:py:report.'))
);
COMMENT ON TABLE pgcron.role_grant IS
    'Which role a user or a group of users has, and within which scope.';

-- All grants of a user with these groups.
CREATE FUNCTION pgcron.grants_of(name text, groups text[])
  RETURNS TABLE (role text, scope_kind text, scope text)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  SELECT DISTINCT g.role, g.scope_kind, g.scope FROM pgcron.role_grant g
  WHERE (g.subject_kind = 'user' AND g.subject = grants_of.name)
     OR (g.subject_kind = 'group' AND g.subject = ANY (grants_of.groups))
  ORDER BY g.role, g.scope_kind, g.scope;
END;
