"""What people, pages and commands read."""
