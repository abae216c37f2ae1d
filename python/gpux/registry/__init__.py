"""The local registry: built models by name and version."""
