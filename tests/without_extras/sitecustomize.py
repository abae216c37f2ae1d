"""What each process of the tests begins with (tests/conftest.py): garbage is collected less often. An import of
TensorFlow or PyTorch makes some hundred thousand objects that stay, of which collections take an eighth of its time."""

import gc

gc.set_threshold(50_000, 20, 50)
