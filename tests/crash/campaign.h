// Many power cuts, failing calls or damaged files, of as many recorded loads as that takes; counts,
// prints progress and what is wrong, and how to see it again.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/crash/children.h"
#include "tests/crash/damage.h"
#include "tests/crash/recording.h"

namespace penstock::crash {

enum class CampaignMode : std::uint8_t { cuts, calls, damages };

struct CampaignOptions {
  std::uint64_t from = 1;  // seed of the first load
  std::uint64_t at = 0;    // only this change or call of it; 0: chosen
  int operations = 60;     // of each client
  unsigned jobs = 2;
  std::string directory;  // for rebuilt volumes; empty: they stay in memory
};

class Campaign {
 public:
  explicit Campaign(CampaignOptions options);
  // True if nothing was wrong.
  bool run_cuts(std::uint64_t count);
  bool run_calls(std::uint64_t count);
  bool run_damages(std::uint64_t count);

 private:
  // Records load after load until `count` children have run.
  bool run(CampaignMode mode, std::uint64_t count);
  std::set<std::uint64_t> choose(const Recording& rehearsal, std::uint64_t count) const;
  void damage_after(Recording& recording, const std::set<std::uint64_t>& chosen);
  void record(std::uint64_t seed, const std::set<std::uint64_t>& chosen, std::uint64_t trace);
  bool check_cut(Recording& recording, const Recording::Call& call);
  bool inject(Recording& recording, const Recording::Call& call);
  bool check_fault(Recording& recording);
  bool check_damage(Recording& recording, std::uint64_t number, bool orderly);
  void judge_alone(const Damage& damage, const Disks& disks, const std::string& boot_id);
  bool verify(Recording& recording, sim::SimRandom& random, const std::set<std::size_t>& left_out);
  bool start_and_stop(Recording& recording, const Cut& cut, sim::SimRandom& random);
  void start_as_the_binary_does(const std::string& base);
  bool report(const Recording& recording, std::vector<std::string> violations);
  void print_progress(bool last);

  const CampaignOptions options_;
  Children children_;
  CampaignMode mode_ = CampaignMode::cuts;
  std::uint64_t count_ = 0;
  std::uint64_t failed_ = 0;  // loads, in this process
  std::uint64_t seed_ = 0;
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point printed_;
  // In a child:
  std::size_t slot_ = 0;
  std::string what_;
  Recording::Call call_;
  bool must_leave_ = false;
  Disks older_;          // the volumes as they were at some earlier call
  std::string boot_id_;  // of the start that is checked
  std::optional<std::size_t> suspect_;
  std::vector<std::string> violations_;
};

}  // namespace penstock::crash
