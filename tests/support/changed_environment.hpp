#pragma once
// Variables of the environment as a test wants them, until it is over: of a process that has one thread now.
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace baton::test {

/// Sets variables, or takes them away that have no value here. What they were comes back with its end.
class changed_environment {
 public:
  using variables = std::vector<std::pair<std::string, std::optional<std::string>>>;

  explicit changed_environment(const variables& wanted) {
    for (const auto& [name, value] : wanted) {
      const char* const was = std::getenv(name.c_str());
      before_.emplace_back(name, was != nullptr ? std::optional<std::string>{was} : std::nullopt);
      set(name, value);
    }
  }
  ~changed_environment() {
    for (auto at = before_.rbegin(); at != before_.rend(); ++at) set(at->first, at->second);
  }
  changed_environment(const changed_environment&) = delete;
  changed_environment& operator=(const changed_environment&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }

  variables before_;
};

}  // namespace baton::test
