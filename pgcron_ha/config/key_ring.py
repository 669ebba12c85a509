"""The key ring of this process, ``secrets.keys`` of the configuration: no key is in the database.

The first key encrypts, all decrypt: that is how keys are rotated. A text becomes a name of the key,
which is a part of its hash, and data: AES-256-GCM, bound to what the caller says. The keys are read
anew for each use.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pgcron_ha.config.loading import load_obeyed
from pgcron_ha.config.secret_references import SecretReference
from pgcron_ha.errors import ConfigError, missing_package

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12

_references: tuple[SecretReference, ...] | None = None


def use_keys(references: Sequence[SecretReference]) -> None:
    """From now on this process reads its keys here; else where its configuration says."""
    global _references
    _references = tuple(references)


def keys() -> dict[str, bytes]:
    """By their names; the first one encrypts. Raises `ConfigError`."""
    if _references is None:
        use_keys(load_obeyed().secrets.keys)
    found = {_name_of(key): key for key in map(_key, _references or ())}
    if not found:
        raise ConfigError(
            "no key for secret values is given",
            "Secret args and results are encrypted with a key that the database does not have.",
            "Set secrets.keys (PGCRON_HA_SECRETS_KEYS); `pgcron-ha docs secrets` shows how.",
        )
    return found


def key_variables() -> set[str]:
    """Variables of this process that have keys: no process that it starts gets them."""
    return {each.place for each in _references or () if each.kind == "env"}


def encrypt(text: str, bound: bytes, *, is_steady: bool = False) -> dict[str, str]:
    """What `decrypt` reads with the same `bound`. Of equal texts it differs, unless `is_steady`.

    Raises `ConfigError`.
    """
    name, key = next(iter(keys().items()))
    plain = text.encode()
    nonce = os.urandom(_NONCE_BYTES)
    if is_steady:  # of the text and what it is bound to, so it is never one of another text
        own = hmac.digest(key, b"pgcron_ha nonce", "sha256")
        nonce = hmac.digest(own, bound + b"\0" + plain, "sha256")[:_NONCE_BYTES]
    data = nonce + _cipher(key).encrypt(nonce, plain, bound)
    return {"key": name, "data": base64.b64encode(data).decode()}


def decrypt(encrypted: Mapping[str, Any], bound: bytes, what: str) -> str | None:
    """The text; None if it was encrypted for something else, or changed.

    Raises `ConfigError` about `what` without its key.
    """
    known = keys()
    name = str(encrypted.get("key"))
    if name not in known:
        raise ConfigError(
            f"{what} is encrypted with key {name:.20}, which is not known here",
            f"secrets.keys has {', '.join(known)}.",
            "Add the key; `pgcron-ha secrets rotate` replaces it in what waits.",
        )
    cipher = _cipher(known[name])
    from cryptography.exceptions import InvalidTag

    try:
        data = base64.b64decode(str(encrypted.get("data")), validate=True)
        plain: bytes = cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        return None
    return plain.decode()


def _key(reference: SecretReference) -> bytes:
    try:
        key = base64.b64decode(reference.read(), validate=True)
    except binascii.Error:
        key = b""
    if len(key) != _KEY_BYTES:
        raise ConfigError(
            f"the key '{reference}' can't be used",
            f"A key is {_KEY_BYTES} random bytes in base64.",
            "Make one: openssl rand -base64 32",
        )
    return key


def _name_of(key: bytes) -> str:
    return hashlib.sha256(b"pgcron_ha key\0" + key).hexdigest()[:8]


def _cipher(key: bytes) -> Any:
    try:  # only who has secret values loads it
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise missing_package("secret values", "cryptography", "secrets") from None
    return AESGCM(key)
