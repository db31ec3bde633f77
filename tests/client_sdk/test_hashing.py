"""The interpreter's own SHA-256 and HMAC are those of everybody else."""

import hashlib
import hmac
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from client_sdk.hashing import hmac_sha256, sha256


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_hashes_and_macs_are_those_of_openssl(key: bytes, message: bytes) -> None:
    assert sha256(message).hexdigest() == hashlib.sha256(message).hexdigest()
    assert sha256(message).digest() == hashlib.sha256(message).digest()
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")


def test_the_vector_of_rfc_4231_holds() -> None:
    # Test case 2.
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert hmac_sha256(b"Jefe", b"what do ya want for nothing?").hex() == expected


def test_an_interpreter_without_its_own_hash_takes_that_of_openssl() -> None:
    program = (
        "import sys\nsys.modules['_sha2'] = sys.modules['_sha256'] = None\n"
        "from client_sdk.hashing import hmac_sha256, sha256\n"
        "print(sha256(b'').hexdigest()[:8], hmac_sha256(b'', b'').hex()[:8])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "e3b0c442 b613679a\n"


def test_a_client_loads_no_openssl_before_its_first_upload() -> None:
    program = (
        "import sys\nfrom client_sdk import parts\n"
        "print({'_hashlib', '_ssl', 'hashlib', 'ssl', 'requests', 'logging'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"
