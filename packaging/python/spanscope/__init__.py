# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads Spanscope session files as numpy arrays.  open(path) -> Session"""
from .container import Finding, Frame, SpanscopeError
from .session import Session, Span, Turn, open  # noqa: A004 - spanscope.open is the point of the module

__all__ = ["Finding", "Frame", "Session", "Span", "SpanscopeError", "Turn", "open"]
__version__ = "0.1.0"
