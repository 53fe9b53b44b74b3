#pragma once
// Where the points of a benchmark go: tables to the reader, JSON to whoever asked for it.
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/world.hpp"
#include "cli/model/output_file.hpp"

namespace baton::cli {

class bench_report {
 public:
  /// `json_path`: if not empty, the file that gets the JSON as well.
  bench_report(bool json, const std::string& json_path, std::ostream& out) : json_{json}, out_{out} {
    if (!json_path.empty()) file_.emplace(json_path, "--json-file");
  }
  void add(const nlohmann::json& point) {
    const std::string line = point.dump();
    if (json_) out_ << line << '\n' << std::flush;
    if (file_) file_->write(line + '\n');
  }
  template <class Print>
  void table(Print print) {
    if (!json_) print(out_);
    out_.flush();
  }
  void publish() {
    if (file_) file_->publish();
  }

 private:
  bool json_;
  std::ostream& out_;
  std::optional<model::output_file> file_;
};

/// One rank; of a GPU if there is one, unless `device` says otherwise.
inline std::vector<world> open_one_rank(const std::optional<device_kind>& device) {
  if (device) return world::local(1, *device);
  try {
    return world::local(1, device_kind::cuda);
  } catch (const unsupported&) {
    return world::local(1, device_kind::cpu);
  }
}

}  // namespace baton::cli
