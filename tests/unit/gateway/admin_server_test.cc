#include "gateway/admin_server.h"

#include <doctest/doctest.h>

#include "tests/unit/gateway/http/http_loopback.h"

using namespace penstock;
using namespace penstock::test;

TEST_CASE("the admin service tells life, readiness and numbers") {
  Metrics metrics({"GetObject"}, {});
  std::atomic<bool> lost_one{false};
  AdminService service(metrics, [&lost_one] {
    return lost_one ? Readiness{false, "volume 3 missing\n"}
                    : Readiness{true, "six volumes open\n"};
  });
  LoopbackServer server(service);
  RawClient client(server);
  client.send(request("GET", "/healthz"));
  CHECK(client.answer().body == "ok\n");
  client.send(request("GET", "/readyz?verbose"));
  const Answer ready = client.answer();
  CHECK(ready.status == 200);
  CHECK(ready.body == "six volumes open\n");
  lost_one = true;
  client.send(request("GET", "/readyz"));
  const Answer lost = client.answer();
  CHECK(lost.status == 503);
  CHECK(lost.body == "volume 3 missing\n");
  client.send(request("GET", "/metrics"));
  const Answer numbers = client.answer();
  CHECK(numbers.has("Content-Type: text/plain; version=0.0.4; charset=utf-8"));
  CHECK(numbers.body.find("penstock_requests_total{operation=\"GetObject\"} 0") !=
        std::string::npos);
  client.send(request("GET", "/debug") + request("DELETE", "/healthz") +
              request("HEAD", "/readyz"));
  CHECK(client.answer().status == 404);
  CHECK(client.answer().status == 405);
  CHECK(client.answer(true).status == 503);
}
