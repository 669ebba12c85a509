"""What a process reports of itself: `events`, which `log` writes; `counters` for metrics; and the
state of its node (`node_snapshot`).
"""
