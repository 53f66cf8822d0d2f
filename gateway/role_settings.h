// What the settings file says of what the command line and the environment may say as well. They
// count first; then the file; then what a role has by default. Pure. Thread-safety: any thread.
#pragma once
#include <string>

#include "gateway/cluster_arguments.h"
#include "gateway/local_arguments.h"

namespace penstock {

// Fill in what is empty. Errors: invalid - something that is needed is said nowhere.
Result<> take_settings(const RoleSettings& file, LocalArguments& arguments);
Result<> take_settings(const RoleSettings& file, ServerArguments& arguments);
Result<> take_settings(const RoleSettings& file, GatewayArguments& arguments);

}  // namespace penstock
