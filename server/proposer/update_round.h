// The conditional update: prepare, decide on the promised value, accept; conditions by R7, an
// unknown outcome by R8. Thread-safety: any I/O thread.
#pragma once
#include "server/proposer/register_round.h"

namespace penstock {

// `asked`: when it began to wait for its turn. Errors: those of Proposer::update().
Task<Snapshot> update_round(ProposerContext& context, RegisterTask task, BootTime asked,
                            RegisterUpdate& update);

}  // namespace penstock
