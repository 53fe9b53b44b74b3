#pragma once
// Forecasts as JSON and as tables.
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "cli/forecast_case.hpp"

namespace baton::cli {

const char* name(ep_levels by);

/// Schema baton.forecast/1.
nlohmann::json to_json(const forecast_case& c, const forecast::round_forecast& f);

/// A heading whenever what all rows have in common changes.
class forecast_table {
 public:
  void print(const forecast_case& c, const forecast::round_forecast& f, std::ostream& out);
  /// What marks in the rows mean.
  void print_end(std::ostream& out) const;

 private:
  std::string heading_;
  bool has_unwritten_ = false;
};

}  // namespace baton::cli
