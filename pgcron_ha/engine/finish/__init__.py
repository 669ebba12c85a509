"""How runs ended is written to the database."""
