"""What happens inside a node, as values (`events`), and how it is worded and written (`log`); what
the process did, as numbers (`counters`), and how its node stands (`node_snapshot`).
"""
