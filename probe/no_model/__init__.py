"""What needs no model: whether a context holds, where prompts are cut, whether two servers differ."""
