# SPDX-License-Identifier: GPL-3.0-or-later
"""A session: header, spans, messages, turns with their arrays, and findings about what is damaged or missing."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .container import Arrays, Container, Damaged, Finding, Frame, SpanscopeError

VERSIONS = {"session": 1, "ledger": 1, "turn_begin": 2, "mass": 2, "profile": 2, "reads": 1, "routing": 2, "turn_end": 1, "closing": 1, "note": 1,
            "tokenstat": 1, "residual": 1, "rows": 1, "pairs": 1, "keys": 1, "values": 1, "gc": 1}
READABLE = {"turn_begin": (1, 2), "mass": (1, 2), "profile": (1, 2), "routing": (1, 2)}  # others: the one of VERSIONS
DETAILS = ("tokenstat", "residual", "rows", "pairs", "keys", "values")  # read when asked for: Session.details()
KINDS = ("sink", "template", "content", "parent")
GRADES = ("info", "warning", "loss", "error")
PHASES = ("prompt", "answer", "recompute")
NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Span:
    """A run of tokens (a leaf), or a parent of leaves. None: missing."""
    id: int
    kind: str
    role: str
    name: str
    producer: str
    digest: str
    field: str
    message: Optional[int]
    parent: Optional[int]
    attached_to: Optional[int]
    replaces: Optional[int]
    source: Tuple[int, int]
    head_skip: int
    tail_skip: int
    birth: int
    tokens: int
    taint: int
    pinned: bool


@dataclass(frozen=True)
class Message:
    role: str
    name: str
    id: str


@dataclass
class Turn:
    """One closed turn. `turn` counts from 0. arrays: by kind of frame ("turn_begin", "mass", "reads", "routing", ...), then by
    name, exactly as the file holds them; core/record/session_data.h says what each is. Profiles that the file holds as 16-bit
    shares (layer_share, head_share) are there as masses too (layer_mass, head_mass): share x rows x heads."""
    turn: int
    data: Dict[str, Any]
    arrays: Dict[str, Arrays] = field(default_factory=dict)
    end: Dict[str, str] = field(default_factory=dict)   # what the turn's end says: how many frames of each kind there were
    seq: int = -1                                       # of the turn's first frame

    @property
    def layout(self) -> np.ndarray:
        """[leaves, 4]: span, slot, length, position; in slot order."""
        return self.arrays["turn_begin"]["layout"]

    @property
    def phase(self) -> np.ndarray:
        """Per executed slot: 0 prompt, 1 answer, 2 recompute."""
        return self.arrays["turn_begin"]["phase"]

    @property
    def events(self) -> Arrays:
        """Read events, one array a column: row, leaf, layer, head, mass, habit. Empty arrays when there were none."""
        empty: Arrays = {n: np.empty(0, t) for n, t in (("row", "<u4"), ("leaf", "<u4"), ("layer", "<u2"), ("head", "<u2"), ("mass", "<f4"), ("habit", "<f4"))}
        return self.arrays.get("reads", empty)


def _strings(arrays: Arrays, name: str) -> List[str]:
    text, ends = bytes(arrays[name + ".bytes"]), arrays[name + ".ends"]
    out, at = [], 0
    for end in ends:
        if end < at or end > len(text):
            raise Damaged(f"{name}: string ends that do not ascend")
        out.append(text[at:int(end)].decode("utf-8", "replace"))
        at = int(end)
    return out


def _optional(value: Any) -> Optional[int]:
    value = int(value)
    return None if value in (NONE, -1) else value


class Session:
    """What open() returns. Frames are read when they are asked for; `turns` reads them all once."""

    def __init__(self, path: str) -> None:
        self._container = Container(path)
        self.path = path
        self.findings: List[Finding] = list(self._container.findings)
        self.gc: Optional[Arrays] = None                # what `spanscope gc` left out: spans, until (turn, from 0), picks.*
        self.gc_policy: Dict[str, Any] = {}             # theta, turns, measure
        self.header: Dict[str, Any] = {}
        self.spans: List[Span] = []
        self.messages: List[Message] = []
        self.closing: Arrays = {}
        self._turns: List[Turn] = []
        self._lost: set[int] = set()
        self._load()

    @property
    def finished(self) -> bool:
        """The file has its index: the recording came to its end."""
        return self._container.finished

    @property
    def session_id(self) -> str:
        return self._container.session_id

    @property
    def file_bytes(self) -> int:
        return self._container.file_bytes

    @property
    def frames(self) -> List[Frame]:
        """Every blob of the file but indices, known kind or not."""
        return self._container.frames

    @property
    def turns(self) -> List[Turn]:
        """The closed turns that can be read whole, ascending."""
        return self._turns

    def read(self, frame: Frame) -> Tuple[Dict[str, str], Arrays]:
        """Metadata and arrays of any frame. Raises SpanscopeError when it is damaged."""
        try:
            return self._container.read(frame)
        except Damaged as error:
            raise SpanscopeError("SPAN-FRAME", f"{self.path} frame {frame.seq} ({frame.kind}): {error}") from None

    def _find(self, grade: str, tag: str, message: str, offset: Optional[int] = None) -> None:
        self.findings.append(Finding(grade, tag, message, offset))

    def _lose(self, turn: int, why: str) -> None:
        if turn not in self._lost:
            self._lost.add(turn)
            self._find("loss", "SPAN-TURN-LOST", f"turn {turn + 1} {why}")

    def _load(self) -> None:
        open_turn: Optional[Turn] = None
        whole, ledger_ok = True, True
        for frame in self.frames:
            wanted = VERSIONS.get(frame.kind)
            part = open_turn is not None and frame.turn == open_turn.turn
            if frame.kind == "loss" or frame.kind in DETAILS or (wanted is None and not part):
                continue  # losses are findings already; unknown kinds outside a turn can be had with read(), details with details()
            try:
                if wanted is not None and frame.version not in READABLE.get(frame.kind, (wanted,)):
                    raise Damaged(f"version {frame.version}, written by spanscope {self.header.get('program_version', '?')}; this program reads version {wanted}")
                metadata, arrays = self._container.read(frame)
                if frame.kind == "session":
                    self.header = json.loads(metadata["header"])
                    if not isinstance(self.header, dict):
                        raise Damaged("the header is no object")
                elif frame.kind == "ledger":
                    if ledger_ok:
                        self._ledger(metadata, arrays)
                elif frame.kind == "note":
                    self._notes(arrays)
                elif frame.kind == "closing":
                    self.closing = arrays
                elif frame.kind == "gc":
                    self._gc(metadata, arrays)
                elif frame.kind == "turn_begin":
                    if open_turn is not None and open_turn.turn == frame.turn:
                        self._find("info", "SPAN-TURN-AGAIN", f"turn {open_turn.turn + 1} was begun twice; the second one counts")
                    elif open_turn is not None:
                        self._lose(open_turn.turn, "was not finished")
                    open_turn, whole = Turn(frame.turn or 0, {}), True
                    open_turn.data = json.loads(metadata["turn_data"])
                    open_turn.arrays["turn_begin"] = arrays
                    open_turn.seq = frame.seq
                    self._check_begin(open_turn)
                elif frame.kind == "turn_end":
                    if open_turn is None or open_turn.turn != frame.turn:
                        if open_turn is not None:
                            self._lose(open_turn.turn, "was not finished")
                        self._lose(frame.turn or 0, "cannot be read")
                    elif not whole or "mass" not in open_turn.arrays or metadata.get("events") != str(len(open_turn.events["row"])) or \
                            metadata.get("routing", "0") != ("1" if "routing" in open_turn.arrays else "0") or \
                            not self._profiles_whole(open_turn, metadata.get("profiles", "0")):
                        self._lose(open_turn.turn, "is left out: a part of it cannot be read")
                    else:
                        for missing in range(self._turns[-1].turn + 1 if self._turns else 0, open_turn.turn):
                            if len(self._lost) < 1000:
                                self._lose(missing, "is missing")
                        open_turn.end = metadata
                        self._turns.append(open_turn)
                    open_turn = None
                elif open_turn is not None and part:
                    if whole or wanted is None:
                        arrays = dict(arrays)
                        if frame.kind == "mass":
                            open_turn.arrays["mass"] = arrays
                            self._masses(open_turn, arrays, "layer", self.header["query_heads"])
                        elif frame.kind == "profile":
                            self._masses(open_turn, arrays, "head", 1)
                            if "profile" in open_turn.arrays:  # some layers a frame, in order
                                before = open_turn.arrays["profile"]
                                arrays = {name: np.concatenate([before[name], arrays[name]]) for name in before}
                        open_turn.arrays[frame.kind] = arrays
                        self._check_part(open_turn, frame.kind)
            except (Damaged, KeyError, ValueError, TypeError, IndexError) as error:
                if frame.kind == "session":
                    raise SpanscopeError("SPAN-NO-HEADER", f"{self.path}: the session header cannot be used: {error}") from None
                tag = "SPAN-VERSION" if isinstance(error, Damaged) and str(error).startswith("version ") else "SPAN-FRAME"
                place = "" if frame.turn is None else f", turn {frame.turn + 1}"
                self._find("loss", tag, f"frame {frame.seq} ({frame.kind}{place}): {error}", frame.offset)
                whole = whole and wanted is None
                ledger_ok = ledger_ok and frame.kind != "ledger"
        if open_turn is not None:
            self._lose(open_turn.turn, "is not finished: the file ends inside it")

    def _ledger(self, metadata: Dict[str, str], a: Arrays) -> None:
        role, name, producer, digest, fields = (_strings(a, n) for n in ("role", "name", "producer", "digest", "field"))
        for i in range(len(a["id"])):
            span = Span(int(a["id"][i]), KINDS[a["kind"][i]], role[i], name[i], producer[i], digest[i], fields[i], _optional(a["message"][i]),
                        _optional(a["parent"][i]), _optional(a["attached_to"][i]), _optional(a["replaces"][i]),
                        (int(a["source_begin"][i]), int(a["source_end"][i])), int(a["head_skip"][i]), int(a["tail_skip"][i]),
                        int(a["birth"][i]), int(a["tokens"][i]), int(a["taint"][i]), bool(a["pinned"][i]))
            if span.id > len(self.spans):
                raise Damaged(f"span {span.id} does not follow the ones before it")
            if span.id == len(self.spans):
                self.spans.append(span)
            else:
                self.spans[span.id] = span
        if metadata["first_message"] != str(len(self.messages)):
            raise Damaged("messages do not follow the ones before them")
        self.messages += [Message(*m) for m in zip(_strings(a, "message.role"), _strings(a, "message.name"), _strings(a, "message.id"))]

    def _notes(self, a: Arrays) -> None:
        for grade, tag, message in zip(a["grade"], _strings(a, "tag"), _strings(a, "message")):
            self._find(GRADES[min(int(grade), 3)], tag, message)

    def _gc(self, metadata: Dict[str, str], a: Arrays) -> None:
        if a["until"].shape != a["spans"].shape or (len(a["spans"]) and int(a["spans"].max()) >= len(self.spans)):
            raise Damaged("spans of gc that the ledger does not have")
        self.gc, self.gc_policy = a, json.loads(metadata["policy"])

    def dropped(self, span: int, turn: int) -> bool:
        """Whether `spanscope gc` dropped the span's numbers of that turn (from 0): its masses are NaN then, and missing, not 0."""
        if self.gc is None:
            return False
        at = int(np.searchsorted(self.gc["spans"], span))
        return at < len(self.gc["spans"]) and int(self.gc["spans"][at]) == span and turn < int(self.gc["until"][at])

    def _check_begin(self, turn: Turn) -> None:
        data, layout = turn.data, turn.layout
        if data["turn"] != turn.turn:
            raise Damaged(f"the frame belongs to turn {turn.turn + 1}, its content to turn {data['turn'] + 1}")
        if layout.ndim != 2 or layout.shape[1] != 4 or (len(layout) and int(layout[:, 0].max()) >= len(self.spans)):
            raise Damaged("the layout names spans that the ledger does not have")
        if len(turn.phase) != data["executed_end"] - data["executed_begin"]:
            raise Damaged("phases that do not fit the rows")

    def _profiles_whole(self, turn: Turn, frames: str) -> bool:
        layers = len(turn.arrays["profile"]["head_mass"]) if "profile" in turn.arrays else 0
        return layers == (0 if frames == "0" else len(self.header.get("kept_heads", ())) or self.header["layers"])

    def _rows(self, turn: Turn) -> Tuple[int, np.ndarray]:
        """Answer rows; and for every span of the turn's profile its consumer rows: prompt and answer rows at or behind its end."""
        end = np.zeros(len(self.spans), np.int64)
        position = np.zeros(turn.data["context"], np.int64)
        for leaf, slot, length, first in turn.layout.astype(np.int64):
            position[slot:slot + length] = first + np.arange(length)
            at, steps = int(leaf), 0
            end[at] = first + length
            while self.spans[int(leaf)].kind == "content" and self.spans[at].parent is not None and steps < 64:
                at, steps = self.spans[at].parent or 0, steps + 1
                end[at] = max(end[at], first + length)
        rows = np.sort(position[turn.data["executed_begin"]:turn.data["executed_end"]][turn.phase < 2])
        return int((turn.phase == 1).sum()), len(rows) - np.searchsorted(rows, end[turn.arrays["mass"]["profile_spans"].astype(np.int64)])

    def _masses(self, turn: Turn, arrays: Arrays, name: str, heads: int) -> None:
        """Adds NAME_mass to arrays that hold NAME_share."""
        if name + "_share" not in arrays:
            return
        answer, consumer = self._rows(turn)
        rows = np.stack([np.full(len(consumer), answer), consumer]).astype(np.float64)
        arrays[name + "_mass"] = (arrays[name + "_share"].astype(np.float64) * rows * heads).astype("<f4")

    def details(self, turn: Turn, kind: str) -> Dict[int, Arrays]:
        """What was kept of a turn beyond views, by layer: "tokenstat", "rows", "pairs", "keys" or "values"; "residual" stands
        under -1. Empty: not captured. core/record/schema_details.cpp names the arrays. Raises SpanscopeError when a part is
        missing or damaged."""
        if kind not in DETAILS:
            raise ValueError(f"{kind} is none of {', '.join(DETAILS)}")
        out: Dict[int, Arrays] = {}
        for frame in self.frames:
            if frame.kind == kind and frame.turn == turn.turn and frame.seq > turn.seq:
                if frame.version != VERSIONS[kind]:
                    raise SpanscopeError("SPAN-VERSION", f"{self.path}: {kind} of version {frame.version}; this program reads {VERSIONS[kind]}")
                metadata, arrays = self.read(frame)
                out[int(metadata.get("layer", -1))] = arrays
        if str(len(out)) != turn.end.get(kind, "0"):
            raise SpanscopeError("SPAN-DETAIL-LOST", f"{self.path}: turn {turn.turn + 1} had {turn.end.get(kind, '0')} frames of {kind}, {len(out)} are there")
        return out

    def _check_part(self, turn: Turn, kind: str) -> None:
        a, layers = turn.arrays[kind], self.header["layers"]
        if kind == "mass":
            q, s = len(a["query_leaves"]), len(turn.layout)
            shapes = {"rows_q": (3, q), "mass_qk": (3, q, s), "uniform_qk": (3, q, s), "learned_sink": (3, layers), "unattributed": (3, layers),
                      "spike": (s,), "layer_mass": (layers, 2, len(a["profile_spans"]))}
            for name, shape in shapes.items():
                if a[name].shape != shape:
                    raise Damaged(f"{name} has the shape {a[name].shape}, expected {shape}")
        elif kind == "profile":
            spans = len(turn.arrays["mass"]["profile_spans"])
            shape = a["head_mass"].shape
            chosen = len(self.header.get("kept_heads", ()))
            expected = (chosen, 2, spans) if chosen else (layers, self.header["query_heads"], 2, spans)
            if len(shape) != len(expected) or shape[0] > expected[0] or shape[1:] != expected[1:]:
                raise Damaged(f"head_mass has the shape {shape}, expected {expected}")
        elif kind == "reads":
            if any(a[name].shape != a["row"].shape for name in ("leaf", "layer", "head", "mass", "habit")):
                raise Damaged("event columns of different lengths")

    def _token_owner(self, at: int, slot: int) -> Tuple[Optional[Turn], int]:
        """The turn that brought in the token in `slot` at turns[at], and its slot there; None when it cannot be known for certain."""
        for t in range(at, -1, -1):
            turn = self._turns[t]
            if t < at and turn.turn + 1 != self._turns[t + 1].turn or slot >= turn.data["context"]:
                return None, slot
            if slot >= turn.data["executed_begin"]:
                return turn, slot
            rest = slot
            for begin, end in turn.arrays["turn_begin"].get("kept", ()):  # leaves that left make the ones behind them move up
                if rest < int(end) - int(begin):
                    slot = int(begin) + rest
                    break
                rest -= int(end) - int(begin)
        return None, slot

    def text(self, span: int) -> Optional[bytes]:
        """Exact bytes of a leaf or of a parent's content leaves; None when text was not recorded or is lost."""
        for t, turn in enumerate(self._turns):
            leaves = [e for e in turn.layout if int(e[0]) == span or (self.spans[span].kind == "parent" and self._inside(int(e[0]), span))]
            if not leaves:
                continue
            out = b""
            for leaf, slot, length, _ in ((int(x) for x in e) for e in leaves):
                piece = b""
                for s in range(slot, slot + length):
                    owner, place = self._token_owner(t, s)
                    begin = owner.arrays["turn_begin"] if owner is not None else {}
                    if owner is None or "text" not in begin:
                        return None
                    ends = np.cumsum(begin["token_bytes"], dtype=np.int64)
                    n = place - owner.data["executed_begin"]
                    piece += bytes(begin["text"][int(ends[n - 1]) if n else 0:int(ends[n])])
                info = self.spans[leaf]
                out += piece[info.head_skip:len(piece) - info.tail_skip]
            return out
        return None

    def _inside(self, leaf: int, parent: int) -> bool:
        at, steps = self.spans[leaf], 0
        if at.kind != "content":
            return False
        while at.parent is not None and at.parent < len(self.spans) and steps < 64:
            if at.parent == parent:
                return True
            at, steps = self.spans[at.parent], steps + 1
        return False

    def arrays(self) -> Iterator[Tuple[Frame, Dict[str, str], Arrays]]:
        """Everything that can be read, frame by frame."""
        for frame in self.frames:
            try:
                metadata, arrays = self._container.read(frame)
            except Damaged:
                continue  # findings of the session say so
            yield frame, metadata, arrays


def open(path: str) -> Session:  # noqa: A001
    """Reads a session. Raises SpanscopeError when there is none; everything less is in Session.findings."""
    return Session(str(path))
