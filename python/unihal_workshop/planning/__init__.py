"""What a model needs of a card's memory, from a trace of the model, before anything runs."""
