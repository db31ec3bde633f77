"""HPKE: byte for byte the RFC's, the same as an independent implementation, and fail closed."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import hpke
from client_sdk.hpke import CannotOpen, Recipient, seal

# RFC 9180, A.2.1 (DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode) and its
# encryption with sequence number 0.
A2 = {
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "skEm": "f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600",
    "pkEm": "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
    "skRm": "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
    "pkRm": "4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a",
    "shared_secret": "0bbe78490412b4bbea4812666f7916932b828bba79942424abb65244930d69a7",
    "key": "ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91",
    "base_nonce": "5c4d98150661b848853b547f",
    "pt": "4265617574792069732074727574682c20747275746820626561757479",
    "aad": "436f756e742d30",
    "ct": "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db"
    "21993c62ce81883d2dd1b51a28",
}
# RFC 9180, A.1.1: the same KEM under another AEAD, so its shared secret is a second figure.
A1 = {
    "skEm": "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    "pkEm": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "skRm": "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
    "pkRm": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
    "shared_secret": "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc",
}
SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def figure(vector: dict[str, str], name: str) -> bytes:
    return bytes.fromhex(vector[name])


def test_sealing_with_the_rfcs_ephemeral_key_gives_the_rfcs_bytes() -> None:
    given_figures = (figure(A2, name) for name in ("skEm", "pkRm", "info", "aad", "pt"))
    sealed = hpke._seal_with(*given_figures)
    assert sealed.hex() == A2["pkEm"] + A2["ct"]


def test_the_rfcs_ciphertext_opens() -> None:
    recipient = Recipient(figure(A2, "skRm"))
    assert recipient.public == figure(A2, "pkRm")
    sealed = figure(A2, "pkEm") + figure(A2, "ct")
    assert recipient.open(sealed, figure(A2, "info"), figure(A2, "aad")) == figure(A2, "pt")


def test_the_key_schedule_is_the_rfcs() -> None:
    made = hpke._key_schedule(figure(A2, "shared_secret"), figure(A2, "info"))
    assert made == (figure(A2, "key"), figure(A2, "base_nonce"))


@pytest.mark.parametrize("vector", [A1, A2], ids=["A.1.1", "A.2.1"])
def test_both_sides_agree_on_the_rfcs_shared_secret(vector: dict[str, str]) -> None:
    context = figure(vector, "pkEm") + figure(vector, "pkRm")
    sender, recipient = (hpke._private_key(figure(vector, private)) for private in ("skEm", "skRm"))
    for private, public in ((sender, "pkRm"), (recipient, "pkEm")):
        agreed = hpke._shared_secret(private, figure(vector, public), context)
        assert agreed == figure(vector, "shared_secret")


@settings(max_examples=50, deadline=None)
@given(plaintext=st.binary(max_size=300), info=st.binary(max_size=40))
def test_cryptographys_own_hpke_opens_ours_and_ours_opens_its(
    plaintext: bytes, info: bytes
) -> None:
    private = X25519PrivateKey.generate()
    recipient = Recipient(private.private_bytes_raw())
    # Theirs takes no associated data, which is the same as none of any length.
    assert SUITE.decrypt(seal(recipient.public, info, b"", plaintext), private, info) == plaintext
    theirs = SUITE.encrypt(plaintext, private.public_key(), info)
    assert recipient.open(theirs, info, b"") == plaintext


def test_one_flipped_bit_anywhere_opens_nothing() -> None:
    recipient = Recipient(figure(A2, "skRm"))
    sealed = seal(recipient.public, b"info", b"aad", b"x" * 32)
    assert len(sealed) == 80
    # The top bit of an X25519 key is among them: RFC 7748 ignores it, HPKE binds it all the same.
    for place in range(8 * len(sealed)):
        altered = bytearray(sealed)
        altered[place // 8] ^= 1 << place % 8
        with pytest.raises(CannotOpen):
            recipient.open(bytes(altered), b"info", b"aad")


@pytest.mark.parametrize("length", [0, 1, 31, 32, 47, 48, 63])
def test_a_cut_message_opens_nothing(length: int) -> None:
    recipient = Recipient(figure(A2, "skRm"))
    sealed = seal(recipient.public, b"info", b"aad", b"x" * 16)
    with pytest.raises(CannotOpen):
        recipient.open(sealed[:length], b"info", b"aad")


@pytest.mark.parametrize(("info", "aad"), [(b"info2", b"aad"), (b"info", b"aad2"), (b"", b"")])
def test_other_info_or_aad_opens_nothing(info: bytes, aad: bytes) -> None:
    recipient = Recipient(figure(A2, "skRm"))
    with pytest.raises(CannotOpen):
        recipient.open(seal(recipient.public, b"info", b"aad", b"secret"), info, aad)


def test_an_encapsulation_of_small_order_opens_nothing() -> None:
    recipient = Recipient(figure(A2, "skRm"))
    with pytest.raises(CannotOpen):
        recipient.open(bytes(32) + bytes(64), b"info", b"aad")


def test_two_seals_of_one_plaintext_share_nothing() -> None:
    public = Recipient(figure(A2, "skRm")).public
    first, second = (seal(public, b"", b"", b"x" * 64) for _ in range(2))
    assert first[:32] != second[:32] and first[32:] != second[32:]
    X25519PublicKey.from_public_bytes(first[:32])
