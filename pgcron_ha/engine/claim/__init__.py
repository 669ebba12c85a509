"""Due runs are claimed for free slots, and a little ahead of them."""
