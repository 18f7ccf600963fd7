"""A server's reading of its settings: all questions, the decision, and its words."""
