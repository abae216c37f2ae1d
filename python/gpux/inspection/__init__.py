"""What is in a model file, and whether it may be opened at all."""
