"""The runs that a node holds and executes."""
