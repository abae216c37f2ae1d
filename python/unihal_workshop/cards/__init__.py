"""Cards: their profiles, which one is here, and what the system tells about it."""
