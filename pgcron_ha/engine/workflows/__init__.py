"""Workflows: how they go on from the outbox of their steps."""
