#pragma once
// What a kernel is called where people read it: "ep::per_rank::dispatch" of ep::per_rank::dispatch_kernel<...>.
#include <array>
#include <string_view>

namespace baton {

/// As the compiler spells it, from behind "baton::" to its arguments, without "_kernel" at its end.
template <class Kernel>
constexpr std::string_view spelled_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("Kernel"));
  name.remove_prefix(name.find_first_not_of(" =", sizeof("Kernel") - 1));
  name = name.substr(0, name.find_first_of("<;]"));
  if (name.starts_with("baton::")) name.remove_prefix(sizeof("baton::") - 1);
  for (const std::string_view end : {"_kernel", "::kernel"})
    if (name.ends_with(end)) name.remove_suffix(end.size());
  return name;
}

/// The same, as C has texts.
template <class Kernel>
struct kernel_name_text {
  static constexpr auto value = [] {
    constexpr std::string_view name = spelled_name<Kernel>();
    std::array<char, name.size() + 1> text{};
    for (std::size_t i = 0; i < name.size(); ++i) text[i] = name[i];
    return text;
  }();
};

template <class Kernel>
constexpr const char* kernel_name() {
  return kernel_name_text<Kernel>::value.data();
}

}  // namespace baton
