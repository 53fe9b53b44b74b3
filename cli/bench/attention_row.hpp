#pragma once
// A row of attention in double precision, and how far off fp32 may bring it: what measured results are compared with.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "baton/numeric.hpp"

namespace baton::cli {

struct right_row {
  std::vector<double> out, bound;
};

/// Reads what k or v has of a key.
using key_reader = std::function<void(int key, std::span<double> to)>;

/// Of a row of q that sees keys `first` to end - 1, with the usual scale. `on_gpu`: weights are rounded to Value.
template <class Value>
right_row expected_row(std::span<const double> q, int first, int end, const key_reader& read_k,
                       const key_reader& read_v, bool on_gpu);

/// The first value of the row that is not within its bound, with what Value rounds: "3] = 2, expected 4 within 0.1"; empty: none.
template <class Value>
std::string first_wrong_in_row(const right_row& right, std::span<const Value> found);

extern template right_row expected_row<bfloat16>(std::span<const double>, int, int, const key_reader&,
                                                 const key_reader&, bool);
extern template right_row expected_row<float16>(std::span<const double>, int, int, const key_reader&,
                                                const key_reader&, bool);
extern template std::string first_wrong_in_row(const right_row&, std::span<const bfloat16>);
extern template std::string first_wrong_in_row(const right_row&, std::span<const float16>);

}  // namespace baton::cli
