-- Who did what: one row for each command that controls, in the transaction of the command.

CREATE TABLE pgcron.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The role that logged in to PostgreSQL, which nobody can claim to be.
  login text NOT NULL DEFAULT session_user,
  -- Who acted, as that role says.
  actor text NOT NULL,
  interface text NOT NULL,
  address text,
  verb text NOT NULL,
  kind text NOT NULL,
  name text,
  note text,
  before jsonb,
  after jsonb,
  outcome text NOT NULL DEFAULT 'done' CONSTRAINT an_audited_verb_was_done_or_refused
    CHECK (outcome IN ('done', 'refused'))
);
COMMENT ON TABLE pgcron.audit IS
    'One row for each command that controls, each login and each refusal. Nobody changes a row.';
CREATE INDEX audit_at ON pgcron.audit (at);

-- Records a command. What its transaction says of itself (pgcron.act_as) fills in what is left out.
CREATE FUNCTION pgcron.record_audit(verb text, kind text, name text, actor text DEFAULT NULL,
    note text DEFAULT NULL, before jsonb DEFAULT NULL, after jsonb DEFAULT NULL,
    outcome text DEFAULT 'done') RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO pgcron.audit (actor, interface, address, verb, kind, name, note, before, after,
        outcome)
  VALUES (left(coalesce(record_audit.actor, pgcron.actor()), 300), pgcron.interface(),
          nullif(current_setting('pgcron_ha.address', true), ''), record_audit.verb,
          record_audit.kind, left(record_audit.name, 500), left(record_audit.note, 2000),
          record_audit.before, record_audit.after, record_audit.outcome) $$;
