// SPDX-License-Identifier: GPL-3.0-or-later
// The synthetic session is shared with the window's tests; it has no Qt in it.
#include "tests/gui/support/synthetic_session.cpp"
