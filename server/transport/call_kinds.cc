#include "server/transport/call_kinds.h"

#include <algorithm>

#include "penstock/limits.h"

namespace penstock {

using wire::Operation;

bool is_at_once(Operation operation) {
  return operation == Operation::ping || operation == Operation::status ||
         operation == Operation::describe || operation == Operation::announce;
}

bool may_be_long(Operation operation) {
  switch (operation) {
    case Operation::ping:
    case Operation::status:
    case Operation::describe:
    case Operation::read:
    case Operation::probe:
    case Operation::write_fragment:
    case Operation::append:
    case Operation::commit:
    case Operation::discard:
    case Operation::read_fragment:
    case Operation::read_map:
    case Operation::read_join_state:
    case Operation::read_note:
    case Operation::put_note:
      return false;
    default:
      return true;
  }
}

bool is_about_maps(Operation operation) {
  switch (operation) {
    case Operation::read_map:
    case Operation::adopt:
    case Operation::read_join_state:
    case Operation::read_note:
    case Operation::put_note:
      return true;
    default:
      return false;
  }
}

bool is_step(Operation operation) {
  return operation == Operation::write_fragment || is_later_step(operation);
}

bool is_later_step(Operation operation) {
  return operation == Operation::append || operation == Operation::commit;
}

bool is_refused_at_stop(Operation operation) {
  return !is_at_once(operation) && !is_later_step(operation);
}

AnswerRoom answer_room(Operation operation, std::string_view fields) {
  switch (operation) {
    case Operation::read_fragment: {
      const auto request = wire::decode_fragment_read(fields);
      if (!request) return {};
      const std::size_t most = FragmentReadRequest::kBytesMax;
      return {AnswerKind::piece, std::min<std::size_t>(request->length, most)};
    }
    case Operation::scan:
    case Operation::list_fragments:
    case Operation::list_hints:
    case Operation::list_registers:
    case Operation::read_join_state:
      return {AnswerKind::list, limits::kReplyBytesMax};
    default:
      return {};
  }
}

bool is_trouble(Errc code) {
  switch (code) {
    case Errc::corrupt:
    case Errc::io:
    case Errc::unavailable:
    case Errc::timeout:
    case Errc::full:
    case Errc::overloaded:
    case Errc::shutting_down:
      return true;
    default:
      return false;
  }
}

}  // namespace penstock
