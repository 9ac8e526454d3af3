// SPDX-License-Identifier: GPL-3.0-or-later
// What a person may call a model. Any thread.
#pragma once
#include <string>

#include "core/base/result.h"

namespace spanscope {

// "ollama:NAME[:TAG]" to the file that Ollama keeps it in ($OLLAMA_MODELS, ~/.ollama/models, or the service's own
// folder); anything else is a path and comes back unchanged. Nothing is downloaded. Errors: SPAN-OLLAMA, naming every
// place that was looked at.
Result<std::string> resolve_model_path(const std::string& name);

}  // namespace spanscope
