"""One module for each page or family of verbs; `pgcron_ha.web` says how they are made."""
