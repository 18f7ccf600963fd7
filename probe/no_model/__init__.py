"""The jobs that need no model: whether a context works, where prompts are cut, whether two servers differ."""
