"""Running models: inputs from what a user has, the runtime, its measurement."""
