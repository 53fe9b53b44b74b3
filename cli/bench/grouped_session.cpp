#include "cli/bench/grouped_session.hpp"

#include <algorithm>
#include <numeric>

namespace baton::cli {
namespace {

std::vector<std::int32_t> firsts_of(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> firsts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), firsts.begin(), 0);
  return firsts;
}

}  // namespace

template <class Problem>
grouped_session<Problem>::grouped_session(const world& world, const grouped_shape& s,
                                          std::vector<std::int32_t> counts)
    : world_{world},
      shape_{s},
      counts_{std::move(counts)},
      firsts_{firsts_of(counts_)},
      rows_{firsts_.back() + counts_.back()},
      device_counts_{world, counts_},
      device_firsts_{world, firsts_},
      operands_{world, s, rows_},
      c_{world,
         static_cast<std::size_t>(rows_) * static_cast<std::size_t>(s.n),
         {"the products", "lower --rows"}} {}

template <class Problem>
void grouped_session<Problem>::enqueue(const grouped_product<Problem>& run, stream_ref stream) {
  Problem p = operands_.problem();
  p.c = c_.data();
  p.n = shape_.n;
  p.k = shape_.k;
  p.rows = {rows_, device_counts_.data(), device_firsts_.data(), shape_.groups};
  run(p, stream);
}

template <class Problem>
std::vector<std::size_t> grouped_session<Problem>::places() const {
  const auto n = static_cast<std::size_t>(shape_.n);
  std::vector<std::size_t> places = spread_out(c_.size());
  for (std::size_t g = 0; g < counts_.size(); ++g) {
    if (counts_[g] == 0) continue;
    const auto first = static_cast<std::size_t>(firsts_[g]), rows = static_cast<std::size_t>(counts_[g]);
    places.push_back(first * n + g * 37 % n);
    places.push_back((first + rows - 1) * n + (n - 1 - g * 37 % n));
  }
  return places;
}

template <class Problem>
double grouped_session<Problem>::expected(std::size_t row, std::size_t column) const {
  // Behind the last group that begins at or before the row; empty ones begin where the next one does.
  const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), static_cast<std::int32_t>(row));
  const auto group = static_cast<std::size_t>(behind - firsts_.begin()) - 1;
  return operands_.expected(row, column, group);
}

template <class Problem>
std::string grouped_session<Problem>::first_wrong(const grouped_product<Problem>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  return first_wrong_value(world_, c_.data(), static_cast<std::size_t>(shape_.n), places(),
                           [this](std::size_t row, std::size_t column) { return expected(row, column); });
}

template class grouped_session<grouped_gemm_problem>;
template class grouped_session<fp16_grouped_gemm_problem>;
template class grouped_session<scaled_grouped_gemm_problem>;

}  // namespace baton::cli
