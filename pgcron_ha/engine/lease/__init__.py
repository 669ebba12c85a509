"""The right of a node to its runs, and what happens to them when it ends."""
