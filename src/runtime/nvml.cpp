#include "runtime/nvml.hpp"

#include <dlfcn.h>

namespace baton {
namespace {

// The few declarations of the library's stable C interface that we use.
using device = struct device_tag*;
using status = int;  // 0: success
using no_arguments = status (*)();
using get_text = status (*)(char*, unsigned);
using get_count = status (*)(unsigned*);
using device_by_index = status (*)(unsigned, device*);
using device_by_bus = status (*)(const char*, device*);
using device_text = status (*)(device, char*, unsigned);
using link_state = status (*)(device, unsigned, unsigned*);

constexpr unsigned most_links = 18;
constexpr unsigned longest_text = 96;

}  // namespace

template <class Call>
Call nvml::find(const char* name) const {
  return library_ == nullptr ? nullptr : reinterpret_cast<Call>(::dlsym(library_, name));
}

nvml::nvml() : library_{::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)} {
  const auto start = find<no_arguments>("nvmlInit_v2");
  if (start != nullptr && start() == 0) return;
  if (library_ != nullptr) ::dlclose(library_);
  library_ = nullptr;
}

nvml::~nvml() {
  if (library_ == nullptr) return;
  if (const auto stop = find<no_arguments>("nvmlShutdown")) stop();
  ::dlclose(library_);
}

std::string nvml::driver_version() const {
  const auto ask = find<get_text>("nvmlSystemGetDriverVersion");
  char text[longest_text] = {};
  return ask != nullptr && ask(text, longest_text) == 0 ? text : "";
}

std::vector<std::string> nvml::board_names() const {
  std::vector<std::string> names;
  const auto count_of = find<get_count>("nvmlDeviceGetCount_v2");
  const auto handle_of = find<device_by_index>("nvmlDeviceGetHandleByIndex_v2");
  const auto name_of = find<device_text>("nvmlDeviceGetName");
  unsigned count = 0;
  if (count_of == nullptr || handle_of == nullptr || name_of == nullptr || count_of(&count) != 0)
    return names;
  for (unsigned i = 0; i < count; ++i) {
    device d = nullptr;
    char text[longest_text] = {};
    if (handle_of(i, &d) == 0 && name_of(d, text, longest_text) == 0) names.emplace_back(text);
  }
  return names;
}

int nvml::active_nvlinks(const std::string& bus_id) const {
  const auto handle_of = find<device_by_bus>("nvmlDeviceGetHandleByPciBusId_v2");
  const auto state_of = find<link_state>("nvmlDeviceGetNvLinkState");
  device d = nullptr;
  if (handle_of == nullptr || state_of == nullptr || handle_of(bus_id.c_str(), &d) != 0) return -1;
  int active = 0;
  bool known = false;
  for (unsigned link = 0; link < most_links; ++link) {
    unsigned state = 0;
    if (state_of(d, link, &state) != 0) continue;
    known = true;
    active += state != 0 ? 1 : 0;
  }
  return known ? active : -1;
}

}  // namespace baton
