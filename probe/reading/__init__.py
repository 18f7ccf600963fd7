"""Which reading of settings a server has in force: all questions and the decision, and the words for it."""
