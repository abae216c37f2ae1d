"""What a user writes down: gpux.yml of a model, and the settings of the program."""
