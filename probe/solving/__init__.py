"""Values in no list: the search for settings with which our model gives the server's numbers."""
