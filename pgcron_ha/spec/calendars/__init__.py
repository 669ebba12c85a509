"""Calendars: days that schedules share."""
