#pragma once
// What a benchmark wrote as JSON, an object a line.
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/parsed_json.hpp"

namespace baton::test {

inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::istringstream lines{text};
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) objects.push_back(parsed_json(line));
  return objects;
}

}  // namespace baton::test
