"""The workshop's settings: what there is, and where each value comes from."""
