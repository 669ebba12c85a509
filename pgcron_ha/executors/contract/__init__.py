"""What every kind of executor shares: the attempt, its context, its outcome, its log."""
