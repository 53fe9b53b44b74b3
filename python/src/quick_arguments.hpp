#pragma once
// Arguments of a round's calls by the names of their parameters, as Python gives them to functions of C.
#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace baton::python {

/// Those of all calls of a round.
enum class parameter {
  tokens,
  topk_idx,
  topk_weights,
  input_scales,
  expert_load,
  expert_output,
  shared_output,
  out,
  slot,
  num_sms,
  num_rows,
  stream
};
inline constexpr std::size_t num_parameters = 12;

/// What a method takes after self.
struct signature {
  std::array<parameter, 3> by_place{};
  std::size_t num_by_place = 0, num_required = 0;
  std::uint32_t known = 0;  // a bit for each parameter

  constexpr signature(std::initializer_list<parameter> places, std::size_t required,
                      std::initializer_list<parameter> by_name)
      : num_required{required} {
    for (const parameter p : places) {
      by_place[num_by_place++] = p;
      known |= bit(p);
    }
    for (const parameter p : by_name) known |= bit(p);
  }
  constexpr bool has(parameter p) const { return (known & bit(p)) != 0; }

 private:
  static constexpr std::uint32_t bit(parameter p) { return 1U << static_cast<unsigned>(p); }
};

/// What a call was given; references are the caller's.
class quick_arguments {
 public:
  /// Of a new one. False: too many, too few, or of a name that `of` has not, as the method will say.
  bool read(const signature& of, PyObject* const* args, std::size_t count, PyObject* names);

  /// Null: not given.
  PyObject* operator[](parameter p) const { return at_[static_cast<std::size_t>(p)]; }
  bool has(parameter p) const { return (*this)[p] != nullptr && (*this)[p] != Py_None; }
  /// None where it was not given.
  nanobind::handle array(parameter p) const { return has(p) ? (*this)[p] : Py_None; }
  /// nullopt: no number of Python's own type that is an int, at which the method is to look.
  std::optional<int> integer(parameter p, int otherwise) const {
    return (*this)[p] == nullptr ? otherwise : integer_of((*this)[p]);
  }

 private:
  static std::optional<int> integer_of(PyObject* number);
  PyObject*& at(parameter p) { return at_[static_cast<std::size_t>(p)]; }

  std::array<PyObject*, num_parameters> at_{};
};

/// A number of Python's own type as an address; nullopt: it is none.
std::optional<std::uintptr_t> address_of(PyObject* number);

}  // namespace baton::python
