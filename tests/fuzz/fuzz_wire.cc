// Arbitrary bytes as every message of the wire: what decodes must encode to the same bytes again.
#include <cstdlib>
#include <string_view>

#include "server/transport/hello.h"
#include "server/transport/wire.h"

namespace {
using namespace penstock;
using namespace penstock::wire;

template <class Decode>
void check(Decode decode, std::string_view bytes) {
  const auto message = decode(bytes);
  if (message && encode(*message) != bytes) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 29) {
    case 0:
      check(decode_header, bytes);
      break;
    case 1:
      check(decode_failure, bytes);
      break;
    case 2:
      check(decode_prepare_request, bytes);
      break;
    case 3:
      check(decode_prepare_reply, bytes);
      break;
    case 4:
      check(decode_accept_request, bytes);
      break;
    case 5:
      check(decode_accept_reply, bytes);
      break;
    case 6:
      check(decode_read_request, bytes);
      break;
    case 7:
      check(decode_accepted, bytes);
      break;
    case 8:
      check(decode_scan_request, bytes);
      break;
    case 9:
      check(decode_scan_reply, bytes);
      break;
    case 10:
      check(decode_drop_request, bytes);
      break;
    case 11:
      check(decode_write_fragment, bytes);
      break;
    case 12:
      check(decode_append, bytes);
      break;
    case 13:
      check(decode_fragment_ids, bytes);
      break;
    case 14:
      check(decode_fragment_entries, bytes);
      break;
    case 15:
      check(decode_hint_list_request, bytes);
      break;
    case 16:
      check(decode_hint_list_reply, bytes);
      break;
    case 17:
      check(decode_hint_names, bytes);
      break;
    case 18:
      check(decode_register_list_request, bytes);
      break;
    case 19:
      check(decode_register_list_reply, bytes);
      break;
    case 20:
      check(decode_end_transfer, bytes);
      break;
    case 21:
      check(decode_adopt_request, bytes);
      break;
    case 22:
      check(decode_join_state, bytes);
      break;
    case 23:
      check(decode_remove_fragment, bytes);
      break;
    case 24:
      check(decode_list_fragments, bytes);
      break;
    case 25:
      check(decode_hello, bytes);
      break;
    case 26:
      check(decode_server_hello, bytes);
      break;
    case 27:
      check(decode_welcome, bytes);
      break;
    case 28:
      check(decode_read_note, bytes);
      break;
    case 29:
      check(decode_put_note, bytes);
      break;
    case 30:
      check(decode_note_reply, bytes);
      break;
    case 31:
      check(decode_places, bytes);
      break;
    default:
      check(decode_status, bytes);
      break;
  }
  return 0;
}
