"""``py:`` handlers: Python functions, in threads, on a loop, or in processes of their own."""
