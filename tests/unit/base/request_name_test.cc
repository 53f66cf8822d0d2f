#include "penstock/request_name.h"

#include <doctest/doctest.h>

#include <string>

namespace penstock {
namespace {

TEST_CASE("the id of a request comes back as its number") {
  for (const std::uint64_t number : {1ull, 0xfedcba9876543210ull, ~0ull}) {
    std::string id;
    write_request_id(number, id);
    CHECK(id.size() == 16);
    CHECK(request_number(id) == number);
    CHECK(request_id_text(Trace{number, {}}) == id);
  }
  CHECK(request_number("") == 0);
  CHECK(request_number("REQUEST1") == 0);
  CHECK(request_number("00000000000000G0") == 0);
}

TEST_CASE("a trace is told in lower case, and not at all without one") {
  CHECK(trace_text(Trace{1, {0x0af7651916cd43dd, 0x8448eb211c80319c}}) ==
        "0af7651916cd43dd8448eb211c80319c");
  CHECK(trace_text(Trace{1, {0, 1}}) == std::string(31, '0') + "1");
  CHECK(trace_text(Trace{1, {}}).empty());
  CHECK(trace_field(Trace{1, {}}).name.empty());
}

TEST_CASE("deadlines compare by their time, and keep whom they are for") {
  const BootTime early{Duration(5)}, late{Duration(9)};
  const Deadline deadline(late, Trace{7, {}});
  CHECK(deadline > Deadline(early));
  CHECK(early < deadline);
  CHECK(deadline - early == Duration(4));
  CHECK(deadline.capped(early).at() == early);
  CHECK(deadline.capped(early).trace().request == 7);
  CHECK(deadline.moved_to(BootTime::max()).trace().request == 7);
  CHECK(Deadline(early).trace().is_zero());
}

}  // namespace
}  // namespace penstock
