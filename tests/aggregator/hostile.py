"""Hostile requests by the hundred thousand: true uploads, spoilt by grammar and by the byte."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from client_sdk.authentication import MAC_HEADER, batch_mac, derive_device_key
from client_sdk.report import DEVICES_PATH, REPORTS_PATH, SEALED_TYPE
from client_sdk.sealing import seal_upload

VALUES: tuple[str, ...] = (
    *("null", "true", "false", "0", "-0", "1", "-1", "255", "65535", "65536", "4294967295"),
    *("4294967296", "9" * 18, "9" * 19, "1" * 5000, "1.0", "1e2", "1e999", "-1e-999", "0.1"),
    *("NaN", "Infinity", "-Infinity", "00", "+1", "0x10", "1_0", ".5", "[]", "{}", "[[]]"),
    *('""', '"0"', '" "', '"\\u0000"', '"\\ud800"', '"\\ud83d\\ude00"', '"\\u00e9"', '"é"'),
    *('"' + "0" * 32 + '"', '"' + "f" * 1024 + '"', '"' + "f" * 1025 + '"', '"a:b"', '"{s0}"'),
    *('{"a":1,"a":2}', "[" * 2000, '{"":' * 500 + "0" + "}" * 500, '"theme"', '"accepted"'),
)
TOKENS: tuple[bytes, ...] = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u", b"\0", b"\xff", b"\xc3\x28"),
    *(b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"//", b"/**/", b"\n", b"\x1f", b"'"),
    *(b"9" * 400, b"[" * 400, b'"reports":', b'"device":"', b'"version":1,', b"e", b"-"),
)


@dataclass(frozen=True)
class Hostile:
    """One request; `plain` is what is in it where that is sealed."""

    path: str
    headers: dict[str, str]
    body: bytes
    plain: bytes


def requests_of(world: Any, count: int, seed: int) -> Iterator[Hostile]:
    """Draw requests; the same kinds in the same order for the same seed."""
    chance = random.Random(seed)
    device, left = world.device(), 0
    made: Hostile | None = None
    for _ in range(count):
        if left == 0:
            device, left = world.device(), chance.randrange(1, 40)
        left -= 1
        if made is None or chance.random() > 0.02:  # else the same again
            drawn = chance.random()
            made = enrolment(world, chance) if drawn < 0.03 else upload(world, device, chance)
        yield made


def enrolment(world: Any, chance: random.Random) -> Hostile:
    shown = world.keys.write_key if chance.random() < 0.8 else "wrong"
    headers = {"Authorization": f"Bearer {shown}", "Content-Type": "application/json"}
    body = spoilt(b'{"a":[{}]}', chance)
    return Hostile(DEVICES_PATH, headers, body, body)


def upload(world: Any, device: Any, chance: random.Random) -> Hostile:
    good = device.batch(*reports(world, chance))
    body = good if chance.random() < 0.05 else spoilt(good, chance)
    key = derive_device_key(world.keys.master_keys[-1].secret or b"", device_of(body, device.id))
    mac = batch_mac(key, body) if chance.random() < 0.9 else "0" * 64
    if chance.random() < 0.1:
        sealed = seal_upload(world.keys.sealing_keys[-1].public, body, mac)
        sealed = sealed if chance.random() < 0.5 else bytewise(sealed, chance)
        return Hostile(REPORTS_PATH, {"Content-Type": SEALED_TYPE}, sealed, body)
    headers = {MAC_HEADER: mac, "Content-Type": "application/json"}
    return Hostile(REPORTS_PATH, headers, body, body)


def reports(world: Any, chance: random.Random) -> list[str]:
    made = [
        lambda: world.report("theme", chance.randrange(4)),
        lambda: world.report("theme", 0, epoch=world.epoch("theme") - chance.randrange(3)),
        lambda: world.report("crashed", chance.randrange(2)),
        lambda: world.report("home_page", chance.getrandbits(16), chance.randrange(64)),
    ]
    return [chance.choice(made)() for _ in range(chance.choice((1, 1, 2, 3, 12)))]


def spoilt(body: bytes, chance: random.Random) -> bytes:
    """Spoil a body in one to three ways."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        body = chance.choice(WAYS)(body, chance)
    return body[: 70 * 1024]


def member(body: bytes, chance: random.Random) -> bytes:
    """Replace, remove, add or repeat a member, anywhere in the tree."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return bytewise(body, chance)
    nodes = [node for node in walk(document) if node]
    if not nodes:
        return chance.choice(VALUES).encode()
    node = chance.choice(nodes)
    mark = '"\\u0001mark"'  # replaced in the text by what json.dumps would not write
    key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    act = chance.randrange(4)
    if act == 0:
        del node[key]
    elif act == 1 and isinstance(node, list):
        node.extend([node[key]] * chance.choice((1, 10, 300)))
    elif act == 1:
        node[chance.choice(("epsilon", "", "device", "\ud800", "a" * 300))] = node[key]
    else:
        node[key] = json.loads(mark)
    text = json.dumps(document, separators=(",", ":"))
    return text.replace(mark, chance.choice(VALUES)).encode()


def walk(node: Any) -> Iterator[Any]:
    if isinstance(node, dict | list):
        yield node
        for inner in node.values() if isinstance(node, dict) else node[:8]:
            yield from walk(inner)


def bytewise(body: bytes, chance: random.Random) -> bytes:
    """Flip, cut, insert, repeat or overwrite some bytes."""
    at, to = sorted((chance.randrange(len(body) + 1), chance.randrange(len(body) + 1)))
    match chance.randrange(6):
        case 0 if at < len(body):
            return body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]
        case 1:
            return body[:at]
        case 2:
            return body[:at] + body[to:]
        case 3:
            return body[:to] + body[at:]
        case 4:
            return body[:at] + chance.randbytes(chance.choice((1, 2, 8))) + body[at:]
        case _:
            return body[:at] + chance.choice(TOKENS) + body[at:]


def member_twice(body: bytes, chance: random.Random) -> bytes:
    """Give a key twice, which json.dumps cannot."""
    at = body.find(b'"', chance.randrange(len(body) + 1))
    end = body.find(b",", at)
    return body if at < 0 or end < 0 else body[: end + 1] + body[at:end] + body[end:]


def other_text(body: bytes, chance: random.Random) -> bytes:
    """The same text in another encoding, or with blanks where JSON allows them."""
    text = body.decode("utf-8", "replace")
    encoding = chance.choice(("utf-16", "utf-32", "utf-8-sig", "blank"))
    if encoding == "blank":
        return text.replace(":", chance.choice((" : ", ":\n", ":\t"))).encode()
    return text.encode(encoding)


WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(member, member, member, member),
    *(bytewise, bytewise, bytewise),
    *(member_twice, other_text),
)


def device_of(body: bytes, otherwise: str) -> str:
    """The device that a body names, if it has the form of one: so that the MAC is seldom wrong."""
    _, _, rest = body.partition(b'"device":"')
    named = rest[:32].decode("latin-1")
    return named if len(named) == 32 else otherwise
