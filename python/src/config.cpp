#include "config.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <limits>
#include <string>
#include <type_traits>

#include "baton/error.hpp"

namespace baton::python {
namespace {

namespace nb = nanobind;

template <std::size_t Count>
using names = std::array<const char*, Count>;

constexpr names<5> formats = {name(token_format::bf16), name(token_format::blockwise_fp8),
                              name(token_format::mxfp8), name(token_format::mxfp4),
                              name(token_format::nvfp4)};
constexpr names<2> layouts = {"per_expert", "per_rank"};
constexpr names<4> transfers = {"automatic", "lines", "chunks", "flags"};
constexpr names<2> levels = {"one", "two"};
constexpr names<2> row_kinds = {"by_expert", "by_token"};
constexpr names<2> arrivals = {"epoch", "sentinel"};

/// `f(keyword, member, names)` of every choice, and `g(keyword, member)` of every number.
template <class Config, class Choice, class Number>
void each_member(Config& c, Choice f, Number g) {
  f("format", c.format, formats);
  f("combine_format", c.combine_format, formats);
  f("arrival", c.arrival, arrivals);
  f("layout", c.layout, layouts);
  f("transfer", c.transfer, transfers);
  f("rows", c.rows, row_kinds);
  f("levels", c.levels, levels);
  g("num_experts", c.num_experts);
  g("top_k", c.top_k);
  g("hidden", c.hidden);
  g("num_max_tokens_per_rank", c.num_max_tokens_per_rank);
  g("p2p_group_size", c.p2p_group_size);
  g("num_sms", c.num_sms);
  g("num_threads", c.num_threads);
  g("tiled_scales", c.tiled_scales);
  g("row_alignment", c.row_alignment);
  g("rows_of_expert", c.rows_of_expert);
  g("weights_at_combine", c.weights_at_combine);
  g("num_slots", c.num_slots);
}

template <class Enum, std::size_t Count>
Enum choice_of(const char* keyword, nb::handle given, const names<Count>& choices) {
  std::string name;
  if (!nb::try_cast(given, name, false)) name = nb::repr(given).c_str();  // no text, or none that is Unicode
  std::string all;
  for (std::size_t i = 0; i < Count; ++i) {
    if (name == choices[i]) return static_cast<Enum>(i);
    all += (i == 0 ? "'" : ", '") + std::string{choices[i]} + "'";
  }
  throw invalid_argument{std::string{keyword} + ": '" + name + "', expected one of " + all};
}

[[noreturn]] void refuse(const char* keyword, nb::handle given, const std::string& expected) {
  throw invalid_argument{std::string{keyword} + ": " + nb::repr(given).c_str() + ", expected " + expected};
}

/// Whatever kind of whole number it is, as numpy's; a bool is none.
template <class Number>
Number number_of(const char* keyword, nb::handle given) {
  Number number{};
  if constexpr (std::is_same_v<Number, bool>) {
    if (!nb::try_cast(given, number, false)) refuse(keyword, given, "True or False");
  } else {
    const auto whole = nb::steal(PyBool_Check(given.ptr()) ? nullptr : PyNumber_Index(given.ptr()));
    if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0)
      throw nb::python_error{};  // as Ctrl-C
    PyErr_Clear();
    if (!whole.is_valid()) refuse(keyword, given, "a whole number");
    using limits = std::numeric_limits<Number>;
    if (!nb::try_cast(whole, number, false))
      refuse(keyword, given, std::to_string(limits::min()) + " to " + std::to_string(limits::max()));
  }
  return number;
}

}  // namespace

ep_config config_of(const nb::dict& given) {
  ep_config config;
  each_member(
      config,
      [&]<class Enum>(const char* keyword, Enum& member, const auto& choices) {
        if (given.contains(keyword)) member = choice_of<Enum>(keyword, given[keyword], choices);
      },
      [&]<class Number>(const char* keyword, Number& member) {
        if (given.contains(keyword)) member = number_of<Number>(keyword, given[keyword]);
      });
  return config;
}

nb::dict dict_of(const ep_config& config) {
  nb::dict all;
  each_member(
      config,
      [&](const char* keyword, auto member, const auto& choices) {
        all[keyword] = choices[static_cast<std::size_t>(member)];
      },
      [&](const char* keyword, auto member) { all[keyword] = member; });
  return all;
}

}  // namespace baton::python
