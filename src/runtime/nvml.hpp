#pragma once
// NVIDIA's management library, if the machine has it: opened at run time, only asked, never told.
#include <string>
#include <vector>

namespace baton {

class nvml {
 public:
  nvml();
  ~nvml();
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;

  /// "580.95.05"; empty without a driver.
  std::string driver_version() const;
  std::vector<std::string> board_names() const;
  /// Active NVLinks of the GPU at PCI address "00000000:1b:00.0"; -1: not known.
  int active_nvlinks(const std::string& bus_id) const;

 private:
  template <class Call>
  Call find(const char* name) const;
  void* library_ = nullptr;
};

}  // namespace baton
