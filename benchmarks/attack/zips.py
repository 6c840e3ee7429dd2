"""Zip files given as recordings: bombs, lies about sizes, odd names, damage."""

from __future__ import annotations

import io
import random
import shutil
import struct
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

from attack.case import Attempt
from attack.hostile.commands import run, warm, why_broken
from attack.hostile.written import MAGIC, Written, frame

GROUP = "zips"
MIB = 1 << 20


def attempts(seed: int, scratch: Path) -> Iterator[Attempt]:
    """Each zip through report; the bombs through compare too."""
    warm()
    warnings.simplefilter("ignore")
    dice = random.Random(seed)
    files = Written(rows=60).files()
    for number, (name, data, codes) in enumerate(_zips(files, dice)):
        folder = scratch / f"z{number}"
        folder.mkdir()
        (folder / "run.zip").write_bytes(data)
        words = ["compare", "run.zip", "run.zip"] if number % 9 == 8 else ["report", "run.zip", "--format", "json"]
        outcome = run(words, folder)
        made = sorted(
            path.name for path in folder.iterdir() if path.name not in {"run.zip", ".attack-out", ".attack-err"}
        )
        broken = why_broken(outcome, codes) or (f"it unpacked {made} beside the zip file" if made else None)
        shutil.rmtree(folder)
        yield Attempt(group=GROUP, name=name, broken=broken)


def _zipped(files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in {**files, **more}.items():
            archive.writestr(name, data)
    return out.getvalue()


def _zips(files: dict[str, bytes], dice: random.Random) -> Iterator[tuple[str, bytes, tuple[int, ...]]]:
    whole, any_code, refused = _zipped(files), (0, 1, 2, 3), (2, 3)
    yield "whole", whole, (0, 1)
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        yield f"method {method}", _zipped(files, method), (0, 1)
    for size in (100, 400):
        yield f"bomb of {size} MiB in a rank's file", _bomb(files, "rank-1-99.gdr", MAGIC, size), any_code
        yield f"bomb of {size} MiB in recording.json", _bomb(files, "recording.json", b"", size), any_code
        yield f"bomb of {size} MiB in end.json", _bomb(files, "end.json", b"[", size), any_code
    yield "bomb of 2100 MiB", _bomb(files, "rank-1-99.gdr", MAGIC, 2100), any_code
    yield "bomb of frames", _zipped({**files, "rank-1-5.gdr": MAGIC + frame(b"Z", b"") * 4_000_000}), any_code
    yield "bomb of rows", _zipped({**files, "rank-1-5.gdr": MAGIC + _zeros(60_000_000)}), any_code
    yield (
        "bomb of records",
        _zipped({**files, "rank-1-5.gdr": MAGIC + frame(b"J", b'{"type":"site","t":1}') * 400_000}),
        any_code,
    )
    yield (
        "bomb of JSON",
        _zipped({**files, "rank-1-5.gdr": MAGIC + frame(b"J", b"[" + b"{}," * 3_000_000 + b"{}]")}),
        any_code,
    )
    yield (
        "many bombs",
        _zipped({**files, **{f"rank-{i}-{i}.gdr": MAGIC + bytes(40 * MIB) for i in range(1, 12)}}),
        any_code,
    )
    yield ("20,000 empty files", _zipped({**files, **{f"worker-0-4712-{i}.gdr": b"" for i in range(20_000)}}), any_code)
    yield "60,000 entries", _zipped({**files, **{f"x{i}": b"" for i in range(60_000)}}), any_code
    yield "3,000 folders", _zipped({**files, **{f"d{i}/a.txt": b"" for i in range(3000)}}), any_code
    yield "nested zip", _zipped({"inner.zip": whole}), refused
    yield "nested zip beside", _zipped({**files, "inner.zip": whole, "inner.gdr": whole}), any_code
    for prefix in (
        "/",
        "../",
        "../../../../tmp/",
        "a/../",
        "./",
        "C:\\",
        "a/b/c/",
        "\\\\server\\",
        "~/",
        "a\x01b/",
        "ü/",
    ):
        yield (f"names begin with {prefix!r}", _zipped({prefix + name: data for name, data in files.items()}), any_code)
    yield "a name of 60,000 letters", _zipped({**files, "a" * 60_000 + ".gdr": MAGIC}), any_code
    yield "a symbolic link", _link(files, "/etc/passwd", "end.json"), any_code
    yield "a symbolic link as a rank", _link(files, "/dev/zero", "rank-1-9.gdr"), any_code
    for name in ("recording.json", "end.json", "rank-0-4712.gdr"):
        yield f"{name} twice", _twice(files, name), any_code
        yield f"{name} encrypted", _flagged(whole, name, 1), any_code
        yield f"{name} of an unknown method", _method(whole, name, 77), any_code
        yield f"{name} of deflate64", _method(whole, name, 9), any_code
        for claim in (0, 1, 10**6, 2**31, 2**32 - 1):
            yield f"{name} claims {claim} bytes", _claimed(whole, name, claim), any_code
        yield f"{name} overlaps", _overlapped(whole, name), any_code
    for comment in (b"PK\x05\x06" + bytes(18), b"x" * 65_535, b"PK\x06\x06" + bytes(60)):
        yield f"comment {comment[:4]!r}", _commented(whole, comment), any_code
    for size in (2**31, 2**32 - 1, 2**24):
        yield f"contents of {size} bytes claimed", _contents(whole, size), any_code
    for number in range(24):
        damaged = bytearray(whole)
        for _ in range(dice.choice([1, 3, 30, 300])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        yield f"damaged {number}", bytes(damaged), any_code
    for number in range(12):
        yield f"cut {number}", whole[: dice.randrange(len(whole))], any_code
    for data in (b"", b"PK", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"\x1f\x8b" * 50, b"Rar!\x1a\x07\x00" * 9):
        yield f"{data[:6]!r}", data, refused
    yield "prefixed by a script", b"#!/bin/sh\n" * 100 + whole, any_code


def _zeros(rows: int) -> bytes:
    head = b'{"table":"steps","n":%d,"columns":[["zero","B"]]}\n' % rows
    return frame(b"C", head + bytes(rows))


def _bomb(files: dict[str, bytes], name: str, head: bytes, size: int) -> bytes:
    """Two megabytes that unpack to two thousand, written in pieces."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for other, data in files.items():
            if other != name:
                archive.writestr(other, data)
        with archive.open(name, "w", force_zip64=True) as stream:
            stream.write(head)
            for _ in range(size):
                stream.write(bytes(MIB) if head else b" " * MIB)
    return out.getvalue()


def _link(files: dict[str, bytes], target: str, name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for other, data in files.items():
            if other != name:
                archive.writestr(other, data)
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, target)
    return out.getvalue()


def _twice(files: dict[str, bytes], name: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for other, data in [*files.items(), (name, files[name])]:
            archive.writestr(other, data)
    return out.getvalue()


def _headers(data: bytes, name: str) -> tuple[int, int]:
    """Places of a member's local header and of its entry in the table of contents."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        local = archive.getinfo(name).header_offset
    at = data.find(b"PK\x01\x02")
    while data[at + 46 : at + 46 + len(name)] != name.encode():
        at = data.find(b"PK\x01\x02", at + 4)
    return local, at


def _patched(data: bytes, *changes: tuple[int, str, int]) -> bytes:
    out = bytearray(data)
    for at, form, value in changes:
        struct.pack_into(form, out, at, value)
    return bytes(out)


def _flagged(data: bytes, name: str, flag: int) -> bytes:
    local, entry = _headers(data, name)
    return _patched(data, (local + 6, "<H", flag), (entry + 8, "<H", flag))


def _method(data: bytes, name: str, method: int) -> bytes:
    local, entry = _headers(data, name)
    return _patched(data, (local + 8, "<H", method), (entry + 10, "<H", method))


def _claimed(data: bytes, name: str, size: int) -> bytes:
    local, entry = _headers(data, name)
    return _patched(data, (local + 22, "<L", size), (entry + 24, "<L", size))


def _overlapped(data: bytes, name: str) -> bytes:
    _, entry = _headers(data, name)
    return _patched(data, (entry + 42, "<L", 0))


def _commented(data: bytes, comment: bytes) -> bytes:
    return _patched(data, (len(data) - 2, "<H", len(comment))) + comment


def _contents(data: bytes, size: int) -> bytes:
    return _patched(data, (len(data) - 10, "<L", size))
