// SPDX-License-Identifier: GPL-3.0-or-later
// Names a vocabulary: SHA-256 over everything in it that decides about ids. Any thread.
#pragma once
#include <string>

#include "core/text/vocabulary.h"

namespace spanscope {

// Fields that have their default leave the digest as it was before they existed, so that sessions recorded then still fit.
std::string vocabulary_digest(const Vocabulary& vocabulary);

}  // namespace spanscope
