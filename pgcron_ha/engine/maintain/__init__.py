"""Partitions, retention and repairs."""
