"""Workflows: how they begin, and how they go on from the outbox of their steps."""
