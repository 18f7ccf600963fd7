"""Values that no list has: the search for settings by which our model gives the server's numbers."""
