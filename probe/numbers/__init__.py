"""Our numbers beside a server's: candidates, what ./run computes of them, the decision, bounds of values."""
