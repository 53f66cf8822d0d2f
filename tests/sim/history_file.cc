#include "tests/sim/history_file.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/sim/linearizability.h"

namespace penstock::sim {
namespace {

using Json = nlohmann::json;

std::optional<Operation> operation_of(const Json& line) {
  Operation operation;
  const std::string kind = line.value("kind", "");
  if (kind != "read" && kind != "write") return std::nullopt;
  operation.kind = kind == "read" ? Operation::Kind::read : Operation::Kind::write;
  operation.value = line.value("value", Value{0});
  operation.expected = line.value("expected", Value{0});
  const std::string condition = line.value("condition", "none");
  if (condition == "absent") operation.condition = Operation::Condition::must_be_absent;
  if (condition == "is") operation.condition = Operation::Condition::must_be;
  const std::string outcome = line.value("outcome", "");
  if (outcome == "refused") operation.outcome = Operation::Outcome::refused;
  if (outcome == "unknown") operation.outcome = Operation::Outcome::unknown;
  if (outcome != "ok" && operation.outcome == Operation::Outcome::ok) return std::nullopt;
  operation.call = line.at("call").get<std::int64_t>();
  if (operation.outcome != Operation::Outcome::unknown) {
    operation.answer = line.at("answer").get<std::int64_t>();
    if (operation.answer < operation.call) return std::nullopt;
  }
  return operation;
}

}  // namespace

Result<FileVerdict> check_history_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(Errc::io, path + " cannot be read");
  FileVerdict verdict;
  std::map<std::string, std::vector<Operation>> histories;
  std::string text;
  while (std::getline(file, text)) {
    ++verdict.operations;
    std::optional<Operation> operation;
    std::string key;
    try {
      const Json line = Json::parse(text);
      operation = operation_of(line);
      key = line.at("key").get<std::string>();
    } catch (const Json::exception&) {
      operation.reset();
    }
    if (!operation) {
      return fail(Errc::invalid, path + ":" + std::to_string(verdict.operations) +
                                     ": no operation of a history");
    }
    if (operation->outcome == Operation::Outcome::unknown) ++verdict.unknown;
    histories[key].push_back(*operation);
  }
  verdict.keys = histories.size();
  for (const auto& [key, history] : histories) {
    if (auto report = check_linearizable(history)) {
      verdict.violations.push_back("key " + key + ": " + *report);
    }
  }
  return verdict;
}

}  // namespace penstock::sim
