"""The program `gpux`."""
