"""Where a program's time and memory go: named stages over unihal's recording."""
