"""What people and clients change: one module a noun."""
