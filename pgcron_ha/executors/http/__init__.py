"""``http:`` handlers: requests to services, and their callbacks."""
