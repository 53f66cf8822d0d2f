// LIST of objects: both versions, page by page, from some key on, with and without a delimiter.
#include "tests/sim/sim_client.h"

namespace penstock::sim {
void SimClient::take_page(const Answer& answer, History::Listing& listing, std::string& last) {
  std::string key = last, prefix = last;
  for (const auto& entry : xml_elements(answer.body, "Contents")) {
    const auto name = xml_element(entry, "Key");
    const History::Listed listed{xml_etag(entry), std::stoull(xml_element(entry, "Size")),
                                 xml_element(entry, "LastModified").substr(0, kSecondLength)};
    if (name <= key || !listing.covers(name) || !listing.seen.emplace(name, listed).second) {
      history_.violation("LIST is out of order at " + name);
    }
    key = name;
  }
  for (const auto& entry : xml_elements(answer.body, "CommonPrefixes")) {
    const auto name = xml_element(entry, "Prefix");
    if (name <= prefix || !listing.prefixes.insert(name).second) {
      history_.violation("LIST is out of order at the prefix " + name);
    }
    prefix = name;
  }
  last = std::max(key, prefix);
}

Awaitable<void> SimClient::list() {
  History::Listing listing;
  listing.call = time_.now();
  listing.prefix = "key";
  const bool second = random_.chance(0.7);
  const std::string marker = second ? "continuation-token" : "marker";
  const std::string page_keys = std::to_string(random_.chance(0.5) ? random_.between(1, 5) : 1000);
  Pairs query{{"prefix", listing.prefix}, {"max-keys", page_keys}};
  if (second) query.emplace_back("list-type", "2");
  if (random_.chance(0.2)) {
    listing.after = random_.pick(plan_.keys);
    query.emplace_back(second ? "start-after" : "marker", listing.after);
  }
  const bool grouped = random_.chance(0.2);
  if (grouped) query.emplace_back("delimiter", random_.chance(0.5) ? "0" : "3");
  std::string last;
  for (int page = 0; page < 200; ++page) {
    auto asked = request("GET", "", query);
    const SimMicros call = time_.now();
    auto answer = co_await ask(std::move(asked));
    if (says_nothing("LIST", answer) || no_bucket("", call, answer)) co_return;
    if (answer->status != 200) {
      unexpected("LIST", *answer);
      co_return;
    }
    take_page(*answer, listing, last);
    if (xml_element(answer->body, "IsTruncated") != "true") break;
    std::string next = xml_element(answer->body, second ? "NextContinuationToken" : "NextMarker");
    if (next.empty() && !second && !grouped) next = last;
    if (next.empty()) {
      history_.violation("a truncated LIST without a token");
      co_return;
    }
    std::erase_if(query, [&marker](const auto& pair) { return pair.first == marker; });
    query.emplace_back(marker, next);
  }
  listing.answer = time_.now();
  history_.add(std::move(listing));
}

}  // namespace penstock::sim
