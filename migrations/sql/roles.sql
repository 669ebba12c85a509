-- Who may do what on the pages: roles, each within a scope.

CREATE TABLE pgcron.role_grant (
  subject_kind text NOT NULL CONSTRAINT a_role_is_given_to_a_user_or_a_group
    CHECK (subject_kind IN ('user', 'group')),
  subject text NOT NULL CONSTRAINT a_subject_has_1_to_200_characters
    CHECK (length(subject) BETWEEN 1 AND 200),
  role text NOT NULL CONSTRAINT a_role_is_known
    CHECK (role IN ('viewer', 'operator', 'editor', 'admin')),
  scope_kind text NOT NULL DEFAULT 'all' CONSTRAINT a_scope_is_known
    CHECK (scope_kind IN ('all', 'team', 'queue', 'tag', 'schedule', 'handler')),
  -- A name, or how names begin, with a star at its end.
  scope text NOT NULL DEFAULT '*' CONSTRAINT a_scope_has_1_to_206_characters
    CHECK (length(scope) BETWEEN 1 AND 206),
  granted_by text NOT NULL DEFAULT session_user,
  granted_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (subject_kind, subject, role, scope_kind, scope),
  CONSTRAINT the_scope_of_everything_has_no_name CHECK (scope_kind <> 'all' OR scope = '*')
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
