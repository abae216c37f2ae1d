"""The workshop's page: the card, the plan as a picture, and models that run."""
