"""The program `unihal`: one module a command, and what only commands need."""
