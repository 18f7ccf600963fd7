"""What a model has that a Llama has not, a module for each kind of layer, both ways."""
