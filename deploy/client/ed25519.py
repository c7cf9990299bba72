"""Ed25519 by RFC 8032, with the standard library alone. For tests: it takes milliseconds, and its time depends on the key."""

import hashlib

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def _x(y, sign):
    """The x of a point with this y; None if there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    return P - x if x % 2 != sign else x


def _point(x, y):
    """Extended coordinates: x/z, y/z and xy/z."""
    return (x, y, 1, x * y % P)


_BASE_Y = 4 * pow(5, -1, P) % P
BASE = _point(_x(_BASE_Y, 0), _BASE_Y)
NEUTRAL = (0, 1, 1, 0)


def _add(first, second):
    a = (first[1] - first[0]) * (second[1] - second[0]) % P
    b = (first[1] + first[0]) * (second[1] + second[0]) % P
    c = 2 * first[3] * second[3] * D % P
    d = 2 * first[2] * second[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def _times(number, point):
    product = NEUTRAL
    while number:
        if number & 1:
            product = _add(product, point)
        point = _add(point, point)
        number >>= 1
    return product


def _is_same(first, second):
    return not ((first[0] * second[2] - second[0] * first[2]) % P or (first[1] * second[2] - second[1] * first[2]) % P)


def _encoded(point):
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decoded(text):
    """None if the 32 bytes are no point."""
    number = int.from_bytes(text, "little")
    y, sign = number & (1 << 255) - 1, number >> 255
    x = _x(y, sign) if y < P else None
    return None if x is None else _point(x, y)


def _number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


class PrivateKey:
    """A key made of 32 bytes."""

    def __init__(self, seed):
        digest = hashlib.sha512(seed).digest()
        scalar = int.from_bytes(digest[:32], "little")
        self._scalar = scalar & (1 << 254) - 8 | 1 << 254
        self._prefix = digest[32:]
        self.public = _encoded(_times(self._scalar, BASE))

    def sign(self, message):
        nonce = _number(self._prefix, message)
        point = _encoded(_times(nonce, BASE))
        return point + ((nonce + _number(point, self.public, message) * self._scalar) % ORDER).to_bytes(32, "little")


def is_signature(signature, message, public):
    """Whether the 64 bytes are the signature of the message by the public key of 32 bytes."""
    if len(signature) != 64 or len(public) != 32:
        return False
    key, point = _decoded(public), _decoded(signature[:32])
    number = int.from_bytes(signature[32:], "little")
    if key is None or point is None or number >= ORDER:
        return False
    return _is_same(_times(number, BASE), _add(point, _times(_number(signature[:32], public, message), key)))
