#include "server/node/ring_metrics.h"

namespace penstock {
namespace {

using Value = double (*)(const RingControl&);

struct Family {
  Metrics::Kind kind;
  const char* name;
  const char* help;
  Value value;
  bool of_phase = false;  // carries what is being done
};

double number(std::uint64_t count) { return static_cast<double>(count); }

constexpr auto kGauge = Metrics::Kind::gauge;
constexpr auto kCounter = Metrics::Kind::counter;
constexpr Family kFamilies[] = {
    {kGauge, "penstock_ring_whole", "1 if every volume of the map is open and no change goes on.",
     [](const RingControl& ring) { return ring.is_whole() ? 1.0 : 0.0; }},
    {kGauge, "penstock_ring_map_epoch", "Version of the cluster map.",
     [](const RingControl& ring) { return number(ring.map_epoch()); }},
    {kGauge, "penstock_ring_change_active", "1 while a volume is being replaced.",
     [](const RingControl& ring) { return ring.status().active ? 1.0 : 0.0; }},
    {kGauge, "penstock_ring_change_done", "Steps done of the phase that is under way.",
     [](const RingControl& ring) { return number(ring.status().done); }, true},
    {kGauge, "penstock_ring_change_total", "Steps of the phase that is under way.",
     [](const RingControl& ring) { return number(ring.status().total); }, true},
    {kGauge, "penstock_ring_change_per_second", "Steps per second of that phase.",
     [](const RingControl& ring) { return ring.status().rate; }, true},
    {kGauge, "penstock_ring_fragments_missing",
     "Fragments that records name but that were never written, as of the last replacement.",
     [](const RingControl& ring) { return number(ring.status().fragments_missing); }},
    {kCounter, "penstock_ring_rows_brought_total", "Rows brought to new register lists.",
     [](const RingControl& ring) { return number(ring.status().rows_brought); }},
    {kCounter, "penstock_ring_fragments_moved_total", "Fragments made on other volumes.",
     [](const RingControl& ring) { return number(ring.status().fragments_moved); }},
    {kCounter, "penstock_ring_bytes_moved_total", "Bytes of them.",
     [](const RingControl& ring) { return number(ring.status().bytes_moved); }},
    {kCounter, "penstock_ring_volumes_replaced_total", "Volumes replaced.",
     [](const RingControl& ring) { return number(ring.status().replaced); }},
};

}  // namespace

void add_collectors_of_ring(Metrics& metrics, const RingControl& ring) {
  for (const Family& family : kFamilies) {
    const auto collect = [&ring, &family] {
      Metrics::Sample sample{{}, family.value(ring)};
      if (family.of_phase) sample.labels.emplace_back("what", ring.status().what);
      return std::vector<Metrics::Sample>{std::move(sample)};
    };
    metrics.add_collector(family.kind, family.name, family.help, collect);
  }
}

}  // namespace penstock
