// A simulated cluster in which one volume is replaced by a new one (R12) while a client writes and
// reads: the product's driver, rounds and volumes under loss, delay, crashes and restarts. At the
// end the old volume is named by no record, and all is readable with as many others lost as the
// store promises to bear.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::sim {

// What was violated; empty: nothing.
std::vector<std::string> run_replacement_seed(std::uint64_t seed);

}  // namespace penstock::sim
