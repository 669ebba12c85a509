-- Cordons: nodes that an operator lets take nothing new. A cordoned node keeps its lease, ends what
-- it holds, and goes on with all that is no claim: fires, takeovers, upkeep.

CREATE TABLE pgcron.cordon (
  node text PRIMARY KEY,
  note text CHECK (pgcron.is_short('note', note, 500)),
  set_by text NOT NULL DEFAULT session_user CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pgcron.cordon IS
    'The names of nodes of which no process claims anything.';

CREATE FUNCTION pgcron.require_node(node text) RETURNS void
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse('PC010', format('node %L does not exist', left(require_node.node, 200)),
           'A node is named by its name; those that died are forgotten after a day.',
           '`pgcron-ha nodes` lists them.')
  WHERE NOT EXISTS (SELECT FROM pgcron.node n WHERE n.name = require_node.node)
    AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = require_node.node) $$;

-- The nodes that may claim now. A cordon counts from its commit on and locks no node's row: that is
-- a lease, and a lock on it would end the node. After a failover no node claims before it has noted
-- the new server: a pooler keeps connections over it.
CREATE VIEW pgcron.claiming_node AS
  SELECT n.incarnation FROM pgcron.node n CROSS JOIN pgcron.cluster k
  WHERE n.state IN ('alive', 'cordoned') AND n.lease_until > now()
    AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = n.name)
    AND k.quarantine_until <= now() AND k.paused_at IS NULL
    AND coalesce(k.timeline = pgcron.server_timeline(), true);

-- It holds for every process of the name, those that start later, too. A claim that was under way
-- may still end as it began. Returns how many living processes take nothing new.
CREATE FUNCTION pgcron.cordon_node(node text, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  SELECT pgcron.require_node(cordon_node.node);
  INSERT INTO pgcron.cordon (node, note, set_by)
  VALUES (cordon_node.node, cordon_node.note, coalesce(cordon_node.actor, session_user))
  ON CONFLICT (node) DO UPDATE SET note = EXCLUDED.note, set_by = EXCLUDED.set_by;
  SELECT pgcron.notify(pgcron.channel(), 'node');
  SELECT count(*)::int FROM pgcron.node n
  WHERE n.state <> 'dead' AND n.name = cordon_node.node $$;
COMMENT ON FUNCTION pgcron.cordon_node IS
    'The nodes of that name claim nothing more until it is lifted, also after a restart; what they '
    'hold goes on. Returns how many live.';

-- Returns how many living processes take runs again.
CREATE FUNCTION pgcron.uncordon_node(node text, actor text DEFAULT NULL) RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(uncordon_node.actor);
  SELECT pgcron.require_node(uncordon_node.node);
  DELETE FROM pgcron.cordon c WHERE c.node = uncordon_node.node;
  SELECT pgcron.notify(pgcron.channel(), 'node');
  SELECT count(*)::int FROM pgcron.node n
  WHERE n.state IN ('alive', 'cordoned') AND n.name = uncordon_node.node $$;
COMMENT ON FUNCTION pgcron.uncordon_node IS
    'The nodes of that name claim runs again. Returns how many do.';
