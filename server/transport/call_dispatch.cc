#include "server/transport/call_dispatch.h"

#include <utility>

namespace penstock {
namespace {

using wire::Operation;

// Named, for GCC 12 must not see it made within a co_await.
template <class Request>
std::shared_ptr<const Request> shared(Request request) {
  return std::make_shared<const Request>(std::move(request));
}

Task<std::string> prepare(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_prepare_request(call.fields));
  auto asked = shared(std::move(request));
  CO_TRY(reply, co_await call.volume->prepare(std::move(asked), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> accept(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_accept_request(call.fields));
  auto asked = shared(std::move(request));
  CO_TRY(reply, co_await call.volume->accept(std::move(asked), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> read(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_read_request(call.fields));
  if (auto now = call.volume->read_now(request)) {
    CO_CHECK(*now);
    co_return wire::encode(now->value());
  }
  auto asked = shared(std::move(request));
  CO_TRY(row, co_await call.volume->read(std::move(asked), call.deadline));
  co_return wire::encode(row);
}
Task<std::string> scan(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_scan_request(call.fields));
  auto asked = shared(std::move(request));
  CO_TRY(reply, co_await call.volume->scan(std::move(asked), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> drop(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_drop_request(call.fields));
  auto asked = shared(std::move(request));
  CO_CHECK(co_await call.volume->drop(std::move(asked), call.deadline));
  co_return std::string{};
}
Task<std::string> pin(const DispatchedCall& call) {
  CO_TRY(ids, wire::decode_fragment_ids(call.fields));
  CO_TRY(missing, co_await call.volume->pin(std::move(ids), call.deadline));
  co_return wire::encode(missing);
}
Task<std::string> pin_for_reader(const DispatchedCall& call) {
  CO_TRY(ids, wire::decode_fragment_ids(call.fields));
  CO_TRY(missing, co_await call.volume->pin_for_reader(std::move(ids), call.deadline));
  co_return wire::encode(missing);
}
Task<std::string> remove_fragment(const DispatchedCall& call) {
  CO_TRY(ids, wire::decode_fragment_ids(call.fields));
  if (ids.size() != 1) co_return fail(Errc::corrupt, "wire: one fragment is removed at a time");
  CO_CHECK(co_await call.volume->remove_fragment(ids.front(), call.deadline));
  co_return std::string{};
}
Task<std::string> remove_fragment_if(const DispatchedCall& call) {
  CO_TRY(message, wire::decode_remove_fragment(call.fields));
  CO_CHECK(co_await call.volume->remove_fragment_if(message.id, message.rule, call.deadline));
  co_return std::string{};
}
Task<std::string> probe(const DispatchedCall& call) {
  CO_CHECK(co_await call.volume->probe(call.deadline));
  co_return std::string{};
}
Task<std::string> list_fragments(const DispatchedCall& call) {
  CO_TRY(message, wire::decode_list_fragments(call.fields));
  CO_TRY(entries,
         co_await call.volume->list_fragments(message.after, message.count, call.deadline));
  co_return wire::encode(entries);
}
Task<std::string> list_hints(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_hint_list_request(call.fields));
  CO_TRY(reply, co_await call.volume->list_hints(std::move(request), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> read_hint(const DispatchedCall& call) {
  CO_TRY(names, wire::decode_hint_names(call.fields));
  if (names.size() != 1) co_return fail(Errc::corrupt, "wire: one hint is read at a time");
  CO_TRY(ballot, co_await call.volume->read_hint(names.front(), call.deadline));
  co_return wire::encode(ballot);
}
Task<std::string> drop_hints(const DispatchedCall& call) {
  CO_TRY(names, wire::decode_hint_names(call.fields));
  CO_CHECK(co_await call.volume->drop_hints(std::move(names), call.deadline));
  co_return std::string{};
}
Task<std::string> list_registers(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_register_list_request(call.fields));
  CO_TRY(reply, co_await call.volume->list_registers(std::move(request), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> adopt(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_adopt_request(call.fields));
  auto asked = shared(std::move(request));
  CO_CHECK(co_await call.volume->adopt(std::move(asked), call.deadline));
  co_return std::string{};
}
Task<std::string> read_map(const DispatchedCall& call) {
  CO_TRY(map, co_await call.volume->read_map(call.deadline));
  co_return map ? *map : std::string{};
}
Task<std::string> read_join_state(const DispatchedCall& call) {
  CO_TRY(state, co_await call.volume->read_join_state(call.deadline));
  co_return wire::encode(state);
}

Task<std::string> read_note(const DispatchedCall& call) {
  CO_TRY(message, wire::decode_read_note(call.fields));
  CO_TRY(reply, co_await call.volume->read_note(std::move(message.name), call.deadline));
  co_return wire::encode(reply);
}
Task<std::string> put_note(const DispatchedCall& call) {
  CO_TRY(message, wire::decode_put_note(call.fields));
  CO_CHECK(co_await call.volume->put_note(std::move(message.name), std::move(message.bytes),
                                          call.deadline));
  co_return std::string{};
}

Task<DispatchedAnswer> read_fragment(const DispatchedCall& call) {
  CO_TRY(request, wire::decode_fragment_read(call.fields));
  // What is written to the file between check and send is found by who checks once more.
  request.file_allowed = request.with_checksums;
  DispatchedAnswer answer;
  if (auto now = call.volume->read_fragment_now(request)) {
    CO_CHECK(*now);
    answer.piece = std::move(now->value());
  } else {
    CO_TRY(piece, co_await call.volume->read_fragment(request, call.deadline));
    answer.piece = std::move(piece);
  }
  if (request.with_checksums) answer.fields = wire::encode(answer.piece.block_crcs);
  co_return answer;
}

using Handler = Task<std::string> (*)(const DispatchedCall&);
Handler handler_of(Operation operation) {
  switch (operation) {
    case Operation::prepare:
      return prepare;
    case Operation::accept:
      return accept;
    case Operation::read:
      return read;
    case Operation::scan:
      return scan;
    case Operation::drop:
      return drop;
    case Operation::pin:
      return pin;
    case Operation::pin_for_reader:
      return pin_for_reader;
    case Operation::remove_fragment:
      return remove_fragment;
    case Operation::remove_fragment_if:
      return remove_fragment_if;
    case Operation::probe:
      return probe;
    case Operation::list_fragments:
      return list_fragments;
    case Operation::list_hints:
      return list_hints;
    case Operation::read_hint:
      return read_hint;
    case Operation::drop_hints:
      return drop_hints;
    case Operation::list_registers:
      return list_registers;
    case Operation::adopt:
      return adopt;
    case Operation::read_map:
      return read_map;
    case Operation::read_join_state:
      return read_join_state;
    case Operation::read_note:
      return read_note;
    case Operation::put_note:
      return put_note;
    default:
      return nullptr;
  }
}

}  // namespace

Task<DispatchedAnswer> dispatch(DispatchedCall call) {
  if (call.operation == Operation::read_fragment) co_return co_await read_fragment(call);
  const Handler handle = handler_of(call.operation);
  if (handle == nullptr) co_return fail(Errc::invalid, "wire: no call of a volume");
  CO_TRY(fields, co_await handle(call));
  DispatchedAnswer answer;
  answer.fields = std::move(fields);
  co_return answer;
}

}  // namespace penstock
