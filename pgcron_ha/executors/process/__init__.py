"""``shell:`` handlers: programs, and the process that supervises them."""
