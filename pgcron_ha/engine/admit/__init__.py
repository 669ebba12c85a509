"""Runs that wait for an event are made ready, or end."""
