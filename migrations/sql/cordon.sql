-- Cordons: nodes that an operator lets take nothing new. A cordoned node keeps its lease, ends what
-- it holds, and goes on with all that is no claim: fires, takeovers, upkeep.

CREATE TABLE pgcron.cordon (
  node text PRIMARY KEY,
  incarnation uuid REFERENCES pgcron.node ON DELETE CASCADE,
  note text CHECK (pgcron.is_short('note', note, 500)),
  set_by text NOT NULL DEFAULT session_user CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pgcron.cordon IS
    'Which nodes claim nothing: by a name, for every process of that name until it is lifted, or '
    'by the incarnation of one process.';

CREATE FUNCTION pgcron.require_node(node text) RETURNS void
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse('PC010', format('node %L does not exist', left(require_node.node, 200)),
           'A node is named by its name, or by the incarnation of one process; those that died are '
           'forgotten after a day.',
           '`pgcron-ha nodes` lists them.')
  WHERE NOT EXISTS (SELECT FROM pgcron.node n
                    WHERE require_node.node IN (n.name, n.incarnation::text))
    AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = require_node.node) $$;

-- The nodes that may claim now. A cordon counts from its commit on and locks no node's row: that is
-- a lease, and a lock on it would end the node. After a failover no node claims before it has noted
-- the new server: a pooler keeps connections over it.
CREATE VIEW pgcron.claiming_node AS
  SELECT n.incarnation FROM pgcron.node n CROSS JOIN pgcron.cluster k
  WHERE n.state IN ('alive', 'cordoned') AND n.lease_until > now()
    AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node IN (n.name, n.incarnation::text))
    AND k.quarantine_until <= now() AND k.paused_at IS NULL
    AND coalesce(k.timeline = pgcron.server_timeline(), true);

-- By a name it holds for every process of the name, those that start later, too; by an incarnation
-- for that process. A claim that was under way may still end as it began. Returns how many living
-- processes take nothing new.
CREATE FUNCTION pgcron.cordon_node(node text, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  SELECT pgcron.require_node(cordon_node.node);
  INSERT INTO pgcron.cordon (node, incarnation, note, set_by)
  VALUES (cordon_node.node,
          (SELECT n.incarnation FROM pgcron.node n WHERE n.incarnation::text = cordon_node.node),
          cordon_node.note, coalesce(cordon_node.actor, session_user))
  ON CONFLICT (node) DO UPDATE SET note = EXCLUDED.note, set_by = EXCLUDED.set_by;
  SELECT pgcron.notify(pgcron.channel(), 'node');
  SELECT count(*)::int FROM pgcron.node n
  WHERE n.state <> 'dead' AND cordon_node.node IN (n.name, n.incarnation::text) $$;
COMMENT ON FUNCTION pgcron.cordon_node IS
    'The nodes of that name (until it is lifted, also after a restart), or the process of that '
    'incarnation, claim nothing more; what they hold goes on. Returns how many live.';

-- By a name it lifts those of its processes, too. Returns how many living processes take runs
-- again.
CREATE FUNCTION pgcron.uncordon_node(node text, actor text DEFAULT NULL) RETURNS int
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(uncordon_node.actor);
  SELECT pgcron.require_node(uncordon_node.node);
  SELECT pgcron.refuse('PC011', format('node %L is cordoned by its name', uncordon_node.node),
           'A cordon of a name holds for every process of that name.',
           format('Lift that of %L.', n.name))
  FROM pgcron.node n JOIN pgcron.cordon c ON c.node = n.name
  WHERE n.incarnation::text = uncordon_node.node AND n.name <> uncordon_node.node;
  DELETE FROM pgcron.cordon c
  WHERE c.node = uncordon_node.node
     OR c.incarnation IN (SELECT n.incarnation FROM pgcron.node n
                          WHERE n.name = uncordon_node.node);
  SELECT pgcron.notify(pgcron.channel(), 'node');
  SELECT count(*)::int FROM pgcron.node n
  WHERE n.state IN ('alive', 'cordoned')
    AND uncordon_node.node IN (n.name, n.incarnation::text) $$;
COMMENT ON FUNCTION pgcron.uncordon_node IS
    'The nodes of that name, or the process of that incarnation, claim runs again. Returns how '
    'many do.';
