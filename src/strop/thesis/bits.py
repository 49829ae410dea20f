"""Which of many examples were right, in few characters of a record."""

from collections.abc import Sequence


def packed(right: Sequence[bool]) -> str:
    """The number of examples, a colon, and their bits in hexadecimal digits.

    >>> packed([True, False, True, False, True])
    '5:a8'
    """
    bits = "".join("1" if one else "0" for one in right)
    bits += "0" * (-len(bits) % 4)
    return f"{len(right)}:{int(bits or '0', 2):0{len(bits) // 4}x}"


def unpacked(text: str) -> list[bool]:
    """The way back.

    >>> unpacked("5:a8")
    [True, False, True, False, True]
    """
    count, digits = text.split(":")
    bits = bin(int(digits or "0", 16))[2:].zfill(4 * len(digits))
    return [bit == "1" for bit in bits[: int(count)]]
