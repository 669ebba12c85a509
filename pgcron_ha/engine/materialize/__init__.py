"""Fires within the horizon become runs."""
