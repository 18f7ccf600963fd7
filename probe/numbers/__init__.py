"""Our numbers and a server's: candidates, ./run's numbers for them, the decision, bounds of values."""
