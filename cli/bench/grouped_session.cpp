#include "cli/bench/grouped_session.hpp"

#include <algorithm>
#include <numeric>

namespace baton::cli {
namespace {

constexpr const char* fewer_rows = "lower --rows";

std::vector<std::int32_t> firsts_of(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> firsts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), firsts.begin(), 0);
  return firsts;
}

std::size_t volume(int matrices, int rows, int columns) {
  return static_cast<std::size_t>(matrices) * static_cast<std::size_t>(rows) *
         static_cast<std::size_t>(columns);
}

}  // namespace

grouped_session::grouped_session(const world& world, const grouped_shape& s, std::vector<std::int32_t> counts)
    : world_{world},
      shape_{s},
      counts_{std::move(counts)},
      firsts_{firsts_of(counts_)},
      rows_{firsts_.back() + counts_.back()},
      device_counts_{world, counts_},
      device_firsts_{world, firsts_},
      a_{world, volume(1, rows_, s.k), 1, {"the rows", fewer_rows}},
      b_{world, volume(s.groups, s.n, s.k), 2, {"the groups' matrices", "lower --groups or the sizes"}},
      c_{world, volume(1, rows_, s.n), {"the products", fewer_rows}} {}

void grouped_session::enqueue(const grouped_product& run, stream_ref stream) {
  run({a_.data(),
       b_.data(),
       c_.data(),
       shape_.n,
       shape_.k,
       {rows_, device_counts_.data(), device_firsts_.data(), shape_.groups}},
      stream);
}

void grouped_session::random_values() {
  a_.random_values();
  b_.random_values();
}

std::vector<std::size_t> grouped_session::places() const {
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

double grouped_session::expected(std::size_t row, std::size_t column) const {
  const auto n = static_cast<std::size_t>(shape_.n), k = static_cast<std::size_t>(shape_.k);
  // Behind the last group that begins at or before the row; empty ones begin where the next one does.
  const auto behind = std::upper_bound(firsts_.begin(), firsts_.end(), static_cast<std::int32_t>(row));
  const auto group = static_cast<std::size_t>(behind - firsts_.begin()) - 1;
  return dot(a_, row * k, b_, (group * n + column) * k, k);
}

std::string grouped_session::first_wrong(const grouped_product& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  c_.fill_async(poison);
  enqueue(run, {});
  return first_wrong_value(world_, c_.data(), static_cast<std::size_t>(shape_.n), places(),
                           [this](std::size_t row, std::size_t column) { return expected(row, column); });
}

}  // namespace baton::cli
