// What the commands of a cluster are given by their command lines.
#pragma once
#include <string>
#include <vector>

#include "gateway/descriptor_shares.h"

namespace penstock {

struct ServerArguments {
  std::vector<std::string> directories;
  std::string listen = "127.0.0.1:9200";
  std::string admin_listen;  // empty: the port after that
  std::string key_file;
  std::string config_file;
  bool format = false;
  DescriptorShares descriptors;
};

struct GatewayArguments {
  std::string listen = "127.0.0.1:9000";
  std::string admin_listen;
  std::string key_file;
  std::string map_file;
  std::string credentials_file;
  std::string config_file;
  std::string access_log;
  DescriptorShares descriptors;
};

struct RingMakeArguments {
  std::string key_file;
  std::string map_file;
  std::vector<std::string> servers;  // ADDRESS:PORT
};

}  // namespace penstock
