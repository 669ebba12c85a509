"""The schema: migrations, revisions, names."""
