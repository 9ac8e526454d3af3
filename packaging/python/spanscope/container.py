# SPDX-License-Identifier: GPL-3.0-or-later
"""The container: zstd frames, one safetensors blob in each; by the index when the file is finished, else by walking.

Every limit is checked before anything is allocated, so a hostile file is an error or a finding and nothing worse.
"""
from __future__ import annotations

import json
import mmap
import struct
from dataclasses import dataclass
from typing import Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import zstandard

MAGIC = 0xFD2FB528
SEEK_TABLE_FRAME = 0x184D2A5E
SEEK_TABLE_END = 0x8F92EAB1
PREAMBLE = struct.pack("<II", 0x184D2A5A, 8) + b"SPANSCP\x01"
MAX_CONTENT = 64 << 20
MAX_HEADER = 1 << 20
MAX_JOINED = 1 << 30
MAX_PARTS = 1024
MAX_DAMAGES = 1000
INDEX_VERSION = 2
NO_TURN = 0xFFFFFFFF

DTYPES: Mapping[str, np.dtype] = {
    "U8": np.dtype("<u1"), "I8": np.dtype("<i1"), "BOOL": np.dtype("?"), "U16": np.dtype("<u2"), "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"), "U32": np.dtype("<u4"), "I32": np.dtype("<i4"), "F32": np.dtype("<f4"), "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"), "F64": np.dtype("<f8"), "BF16": np.dtype("<u2")}

Buffer = Union[bytes, mmap.mmap, memoryview]
Arrays = Dict[str, np.ndarray]
Blob = Tuple[Dict[str, str], Arrays]


class SpanscopeError(Exception):
    """Nothing can be read: no file, no session, no header. The message begins with a stable tag."""

    def __init__(self, tag: str, message: str) -> None:
        super().__init__(f"{tag}: {message}")
        self.tag = tag


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file. grade: info, warning, loss or error."""
    grade: str
    tag: str
    message: str
    offset: Optional[int] = None


@dataclass(frozen=True)
class Part:
    offset: int
    compressed: int


@dataclass(frozen=True)
class Frame:
    """One blob of the file (its parts, when it was written in several zstd frames)."""
    kind: str
    version: int
    seq: int
    turn: Optional[int]  # from 0
    parts: Tuple[Part, ...]

    @property
    def offset(self) -> int:
        return self.parts[0].offset

    @property
    def compressed(self) -> int:
        return sum(p.compressed for p in self.parts)


class Damaged(Exception):
    """Inside this package: bytes that are not what they should be."""


def frame_size(data: Buffer, at: int) -> int:
    """Bytes of the zstd frame that begins at `at` (RFC 8878: header, then blocks). Damaged when it is cut or no frame."""
    def need(n: int) -> None:
        if at + n > len(data):
            raise Damaged("a frame is cut or damaged")
    need(5)
    if struct.unpack_from("<I", data, at)[0] != MAGIC:
        raise Damaged("bytes that are no frame")
    descriptor = data[at + 4]
    if descriptor & 0x08 or descriptor & 0x10:
        raise Damaged("a reserved bit of the frame header is set")
    single = bool(descriptor & 0x20)
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    declared = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    size = 5 + (0 if single else 1) + dictionary + declared
    while True:
        need(size + 3)
        header = data[at + size] | data[at + size + 1] << 8 | data[at + size + 2] << 16
        kind, length = header >> 1 & 3, header >> 3
        if kind == 3:
            raise Damaged("a frame is cut or damaged")
        size += 3 + (1 if kind == 1 else length)
        need(size)
        if header & 1:
            break
    if descriptor & 4:
        size += 4
        need(size)
    return size


def decompress(frame: bytes) -> bytes:
    if len(frame) < 9 or struct.unpack_from("<I", frame)[0] != MAGIC:
        raise Damaged("expected a zstd frame")
    if not frame[4] & 4:
        raise Damaged("the frame has no checksum")
    if frame[4] & 0x10:
        raise Damaged("an unused bit of the frame header is set")
    try:
        parameters = zstandard.get_frame_parameters(frame)
        content = parameters.content_size
        if content in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR):
            raise Damaged("the frame does not declare its content size")
        if content > MAX_CONTENT or parameters.window_size > MAX_CONTENT:
            raise Damaged(f"the frame declares {content} bytes, the most is {MAX_CONTENT}")
        if content == 0:
            raise Damaged("an empty frame")
        out = zstandard.ZstdDecompressor().decompress(frame)
    except zstandard.ZstdError as error:
        raise Damaged(str(error)) from None
    if len(out) != content:
        raise Damaged(f"declared {content} bytes, found {len(out)}")
    return out


def _unique(pairs: Sequence[Tuple[str, object]]) -> Dict[str, object]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise Damaged("a key is there twice")
    return out


def parse_blob(content: bytes) -> Blob:
    """A safetensors blob: metadata and arrays (read-only views of `content`). BF16 comes as float32."""
    if len(content) < 8:
        raise Damaged("no room for a blob header")
    size = struct.unpack_from("<Q", content)[0]
    if size > MAX_HEADER or size > len(content) - 8:
        raise Damaged(f"a blob header of {size} bytes")
    try:
        header = json.loads(content[8:8 + size].decode("utf-8"), object_pairs_hook=_unique)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Damaged(f"the blob header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise Damaged("the blob header is no object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise Damaged("metadata that is no text")
    data = memoryview(content)[8 + size:]
    arrays: Arrays = {}
    extents: List[Tuple[int, int]] = []
    for name, entry in header.items():
        try:
            dtype = DTYPES[entry["dtype"]]
            shape = entry["shape"]
            begin, end = entry["data_offsets"]
            counts = [*shape, begin, end]
        except (TypeError, KeyError, ValueError):
            raise Damaged(f"tensor {name} is not described rightly") from None
        if len(shape) > 8 or any(type(n) is not int or n < 0 or n >= 1 << 64 for n in counts):
            raise Damaged(f"tensor {name} has a shape or place that is no count")
        elements = 1
        for n in shape:
            elements *= n
        if not begin <= end <= len(data) or end - begin != elements * dtype.itemsize:
            raise Damaged(f"tensor {name} does not fit its bytes")
        array = np.frombuffer(data[begin:end], dtype=dtype).reshape(shape) if elements else np.empty(shape if all(n < 1 << 31 for n in shape) else (0,), dtype)
        if entry["dtype"] == "BF16":
            array = (array.astype("<u4") << 16).view("<f4")
        arrays[name] = array
        extents.append((begin, end))
    at = 0
    for begin, end in sorted(extents):
        if begin != at:
            raise Damaged("tensors that leave a hole or overlap")
        at = end
    if at != len(data):
        raise Damaged("bytes behind the last tensor")
    return metadata, arrays


@dataclass(frozen=True)
class Stamp:
    kind: str
    version: int
    session: str
    seq: int
    turn: int
    part: int
    parts: int


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 32:
        raise Damaged("metadata with a number that is none")
    return int(text)


def stamp_of(metadata: Mapping[str, str]) -> Stamp:
    try:
        kind, session = metadata["kind"], metadata["session"]
        out = Stamp(kind, _count(metadata["v"]), session, _count(metadata["seq"]), _count(metadata.get("turn", str(NO_TURN))),
                    _count(metadata.get("part", "0")), _count(metadata.get("parts", "1")))
    except KeyError as error:
        raise Damaged(f"metadata without {error.args[0]}") from None
    if len(session) != 32 or not kind or len(kind) > 32 or ("part" in metadata) != ("parts" in metadata):
        raise Damaged("metadata without kind, v, session and seq")
    if out.parts > MAX_PARTS or out.part >= out.parts:
        raise Damaged("metadata with part and parts that do not fit")
    return out


def join(blobs: Sequence[Blob]) -> Blob:
    """Blobs that were written in parts: slices follow each other, shape.NAME gives the whole tensor's shape."""
    metadata = {k: v for k, v in blobs[0][0].items() if k not in ("part", "parts") and not k.startswith("shape.")}
    pieces: Dict[str, List[np.ndarray]] = {}
    shapes: Dict[str, Optional[str]] = {}
    for meta, arrays in blobs:
        for name, array in arrays.items():
            shape = meta.get("shape." + name)
            if name in pieces and (shape is None or shapes[name] != shape or pieces[name][0].dtype != array.dtype):
                raise Damaged(f"slices of {name} disagree")
            pieces.setdefault(name, []).append(array)
            shapes[name] = shape
    out: Arrays = {}
    for name, slices in pieces.items():
        shape = shapes[name]
        if shape is None:
            out[name] = slices[0]
            continue
        try:
            out[name] = np.concatenate([s.reshape(-1) for s in slices]).reshape([_count(n) for n in shape.split(",")])
        except ValueError:
            raise Damaged(f"slices of {name} do not add up to {shape}") from None
    return metadata, out


@dataclass
class _Physical:
    stamp: Stamp
    part: Part


class Container:
    """The frames of a file. Nothing is decompressed before it is asked for when the file is finished."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.findings: List[Finding] = []
        self.frames: List[Frame] = []
        self.finished = False
        self.session_id = ""
        try:
            with open(path, "rb") as file:
                self.data: Buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise SpanscopeError("SPAN-EMPTY", f"{path}: the file is empty") from None
        except OSError as error:
            raise SpanscopeError("SPAN-READ", f"{path}: {error.strerror}") from None
        data = self.data
        self.file_bytes = len(data)
        signed = data[:16] == PREAMBLE[:min(16, len(data))]
        if not signed and not (len(data) >= 20 and struct.unpack_from("<I", data, 16)[0] == MAGIC):
            raise SpanscopeError("SPAN-NOT-A-SESSION", f"{path}: expected a Spanscope session, found something else")
        why = "the first 16 bytes are damaged"
        if signed:
            try:
                self._by_index()
                return
            except Damaged as error:
                why = str(error)
        else:
            self._find("loss", "SPAN-DAMAGED", "the first 16 bytes are not a session's", 0)
        self._walk()
        if not self.frames or self.frames[0].kind != "session":
            raise SpanscopeError("SPAN-NO-HEADER", f"{path}: the session header cannot be read")
        closed = sum(f.kind == "turn_end" for f in self.frames)
        self.findings.insert(0, Finding("warning", "SPAN-UNFINISHED", f"unfinished ({why}); {closed} closed turns can be read"))

    def _find(self, grade: str, tag: str, message: str, offset: Optional[int] = None) -> None:
        self.findings.append(Finding(grade, tag, message, offset))

    def _one(self, offset: int, size: int) -> Tuple[Stamp, Blob]:
        blob = parse_blob(decompress(bytes(self.data[offset:offset + size])))
        return stamp_of(blob[0]), blob

    def _by_index(self) -> None:
        data = self.data
        if len(data) < 17 or struct.unpack_from("<I", data, len(data) - 4)[0] != SEEK_TABLE_END or data[len(data) - 5] & 0x7F:
            raise Damaged("no seek table at the end")
        entry = 12 if data[len(data) - 5] & 0x80 else 8
        n = struct.unpack_from("<I", data, len(data) - 9)[0]
        begin = len(data) - (n * entry + 17)
        if n < 3 or begin < 0 or struct.unpack_from("<II", data, begin) != (SEEK_TABLE_FRAME, n * entry + 9):
            raise Damaged("no seek table at the end")
        table = np.frombuffer(data, dtype="<u4", count=n * entry // 4, offset=begin + 8).reshape(n, entry // 4)[:, :2].astype(np.uint64)
        if int(table[:, 0].sum()) + n * entry + 17 != len(data) or tuple(table[0]) != (16, 0):
            raise Damaged("the seek table does not cover the file")
        index_bytes = int(table[-1, 0])
        stamp, (meta, index) = self._one(begin - index_bytes, index_bytes)
        if stamp.kind != "index":
            raise Damaged("the last frame is not an index")
        if stamp.version > INDEX_VERSION:
            raise Damaged(f"the index has version {stamp.version}, this program reads {INDEX_VERSION}")
        rows = n - 2
        names = ["offset", "compressed", "content", "kind", "version", "turn", "part", "parts"] + (["seq"] if stamp.version > 1 else [])
        if any(name not in index or index[name].shape != (rows,) for name in names):
            raise Damaged(f"the index does not list {rows} frames")
        kinds = meta.get("kinds", "").split(",")
        offsets = 16 + np.concatenate([[0], np.cumsum(table[1:-1, 0])])
        if (not np.array_equal(index["offset"], offsets[:-1]) or not np.array_equal(index["compressed"], table[1:-1, 0]) or
                not np.array_equal(index["content"], table[1:-1, 1]) or index["kind"].max(initial=0) >= len(kinds)):
            raise Damaged("index and seek table disagree")
        physical: List[_Physical] = []
        next_seq = 0
        for i in range(rows):
            kind = kinds[int(index["kind"][i])]
            if kind == "skippable":
                continue
            seq = i if stamp.version == 1 else int(index["seq"][i])
            if seq < next_seq or seq >= stamp.seq:
                raise Damaged("the index contradicts itself")
            self._gap(next_seq, seq, int(index["offset"][i]))
            next_seq = seq + 1
            if kind != "index":
                physical.append(_Physical(Stamp(kind, int(index["version"][i]), stamp.session, seq, int(index["turn"][i]), int(index["part"][i]),
                                                int(index["parts"][i])), Part(int(index["offset"][i]), int(index["compressed"][i]))))
        self._gap(next_seq, stamp.seq, begin - index_bytes)
        if not physical or physical[0].stamp.kind != "session" or physical[0].stamp.seq != 0:
            self.findings.clear()
            raise Damaged("the first frame is not the session header")
        self.session_id = stamp.session
        self._group(physical)
        self.finished = True
        for frame in self.frames:
            if frame.kind == "loss":
                try:
                    self._loss(self.read(frame)[0], frame.offset)
                except Damaged:
                    self._find("loss", "SPAN-LOSS", "a note of loss cannot be read", frame.offset)

    def _gap(self, expected: int, found: int, offset: int) -> None:
        if found > expected:
            self._find("loss", "SPAN-MISSING", f"frame {expected} is missing" if found == expected + 1 else
                       f"frames {expected} to {found - 1} are missing", offset)

    def _loss(self, metadata: Mapping[str, str], offset: int) -> None:
        self._find("warning" if metadata.get("grade") == "warning" else "loss", "SPAN-LOSS",
                   metadata.get("reason", "the recorder stopped here: it could not write on"), offset)

    def _walk(self) -> None:
        data, at, next_seq = self.data, 16, 0
        seen = set()
        physical: List[_Physical] = []
        while at < len(data) and len(self.findings) < MAX_DAMAGES:
            try:
                magic = struct.unpack_from("<I", data, at)[0] if at + 4 <= len(data) else 0
                if magic & 0xFFFFFFF0 == 0x184D2A50:
                    if at + 8 > len(data) or at + 8 + struct.unpack_from("<I", data, at + 4)[0] > len(data):
                        raise Damaged("a skippable frame is cut")
                    if magic != SEEK_TABLE_FRAME:
                        self._find("warning", "SPAN-SKIPPABLE", "a foreign skippable frame passed over", at)
                    at += 8 + struct.unpack_from("<I", data, at + 4)[0]
                    continue
                size = frame_size(data, at)
                stamp, (meta, _) = self._one(at, size)
                if not self.session_id:
                    if stamp.kind != "session" or stamp.seq != 0:
                        raise Damaged(f"frame of kind {stamp.kind} before the session header")
                    self.session_id = stamp.session
            except Damaged as error:
                found = [p for p in (data.find(struct.pack("<I", m), at + 1) for m in (MAGIC, 0x184D2A5A, SEEK_TABLE_FRAME)) if p >= 0]
                resume = min(found, default=len(data))
                self._find("loss", "SPAN-TRUNCATED" if resume == len(data) else "SPAN-DAMAGED", f"{error}; {resume - at} bytes passed over", at)
                at = resume
                continue
            if stamp.session != self.session_id:
                self._find("loss", "SPAN-FOREIGN", f"frame of another session passed over ({stamp.kind})", at)
            elif stamp.seq in seen:
                self._find("loss", "SPAN-REPEATED", f"frame {stamp.seq} is there twice; the second is passed over", at)
            else:
                seen.add(stamp.seq)
                self._gap(next_seq, stamp.seq, at)
                if stamp.seq < next_seq:
                    self._find("loss", "SPAN-SWAPPED", f"frame {stamp.seq} stands out of order", at)
                next_seq = max(next_seq, stamp.seq + 1)
                if stamp.kind == "loss":
                    self._loss(meta, at)
                if stamp.kind != "index":
                    physical.append(_Physical(stamp, Part(at, size)))
            at += size
        physical.sort(key=lambda p: p.stamp.seq)
        self._group(physical)

    def _group(self, physical: Sequence[_Physical]) -> None:
        i = 0
        while i < len(physical):
            first = physical[i].stamp
            n = 0
            while i + n < len(physical) and n < first.parts:
                s = physical[i + n].stamp
                if (s.part, s.parts, s.kind, s.turn, s.version, s.seq) != (n, first.parts, first.kind, first.turn, first.version, first.seq + n):
                    break
                n += 1
            if n == first.parts:
                self.frames.append(Frame(first.kind, first.version, first.seq, None if first.turn == NO_TURN else first.turn,
                                         tuple(p.part for p in physical[i:i + n])))
            else:
                self._find("loss", "SPAN-PARTS", f"frame {first.seq} ({first.kind}) has {n} of {first.parts} parts in place", physical[i].part.offset)
            i += max(n, 1)

    def read(self, frame: Frame) -> Blob:
        """Metadata and arrays of a frame. Damaged when it is not what was written there."""
        blobs: List[Blob] = []
        for p, part in enumerate(frame.parts):
            stamp, blob = self._one(part.offset, part.compressed)
            turn = NO_TURN if frame.turn is None else frame.turn
            expected = Stamp(frame.kind, frame.version, self.session_id, frame.seq + p, turn, p, len(frame.parts))
            if stamp != expected:
                raise Damaged(f"expected frame {expected.seq} of kind {expected.kind} of this session, found {stamp.seq} of kind {stamp.kind}")
            blobs.append(blob)
        return join(blobs) if len(blobs) > 1 else blobs[0]
