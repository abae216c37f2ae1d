"""Words as numbers where a model's folder brings no tokenizer: for configurations with random weights.

They are no language model's vocabulary: texts in, numbers out, the same ones each time.
"""

from __future__ import annotations

import hashlib

#: Numbers of the byte tokenizer: 256 bytes, and the end.
BYTE_VOCABULARY = 257


class WordTokenizer:
    """A number for each word by its hash, between a begin and an end, as CLIP's tokenizer has them."""

    def __init__(self, vocabulary: int, length: int) -> None:
        self.vocabulary, self.length = vocabulary, length

    def encode(self, text: str) -> list[int]:
        """Exactly `length` numbers: begin, words (cut off at the end), end, and the end again as padding."""
        begin, end = self.vocabulary - 2, self.vocabulary - 1
        words = text.lower().split()[: self.length - 2]
        numbers = [
            int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little") % begin for word in words
        ]
        numbers = [begin, *numbers, end]
        return numbers + [end] * (self.length - len(numbers))


class ByteTokenizer:
    """UTF-8's bytes as numbers from 0 to 255; 256 is the end."""

    end = 256

    def encode(self, text: str) -> list[int]:
        """The bytes of a text."""
        return list(text.encode("utf-8"))

    def decode(self, numbers: list[int]) -> str:
        """A text of numbers; those beyond bytes are left out, broken characters replaced."""
        return bytes(number for number in numbers if number < 256).decode("utf-8", errors="replace")
