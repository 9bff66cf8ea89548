"""The wire format of protobuf, as far as it is written and told apart here; the schema is ONNX's own."""

__all__ = ["BYTES", "FIXED32", "FIXED64", "VARINT", "length_delimited", "varint"]

# What follows the key of a field.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(value: int) -> bytes:
    """A number, seven bits a byte, lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_delimited(number: int, body: bytes) -> bytes:
    """A field that is text, bytes or a message."""
    return varint(number << 3 | BYTES) + varint(len(body)) + body
