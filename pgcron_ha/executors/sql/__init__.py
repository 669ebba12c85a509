"""``sql:`` handlers: statements in databases that the node names."""
