"""Cron expressions."""
