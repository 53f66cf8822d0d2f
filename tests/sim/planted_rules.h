// The rules that a build for planted faults can break, by name, with what becomes of the store.
#pragma once
#include <span>
#include <string_view>

#include "penstock/planted.h"

namespace penstock::sim {

struct PlantedRule {
  Rule rule = Rule::none;
  std::string_view name;
  std::string_view fault;  // what the store does without the rule
};

std::span<const PlantedRule> planted_rules();
// Breaks the rule of this name from now on. False: there is none, or this build cannot break rules.
bool break_rule(std::string_view name);

}  // namespace penstock::sim
