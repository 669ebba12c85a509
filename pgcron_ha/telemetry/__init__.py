"""What happens inside a node, as values (`events`), and how it is worded and written (`log`)."""
