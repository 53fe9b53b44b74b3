#include "cli/bench/silu_session.hpp"

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "base/format_error.hpp"
#include "base/stored_rows.hpp"

namespace baton::cli {
namespace {

constexpr const char* knob = "lower --rows or --columns";

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

}  // namespace

silu_session::silu_session(const world& world, const silu_size& s)
    : world_{world}, size_{s}, facts_{facts_of(s.format)} {
  std::minstd_rand random{1};
  std::normal_distribution<float> normal;
  host_in_.resize(size(s.rows) * size(s.columns) * 2);
  constexpr std::size_t period = 65'537;  // drawing them all would take longer than measuring
  for (std::size_t i = 0; i < host_in_.size(); ++i)
    host_in_[i] = i < period ? bfloat16{normal(random)} : host_in_[i - period];
  in_ = {world, host_in_, {"gate and up", knob}};
  values_ = {world, size(s.rows) * size(facts_.row_bytes(s.columns)), {"the activation", knob}};
  scales_ = {world, size(places().count() * facts_.scale_bytes), {"its scales", knob}};
  copy_ = {world, size(static_cast<std::int64_t>(bytes() / 2)), {"a copy", knob}};
}

scale_places silu_session::places() const {
  return {scale_layout::row_major, size_.rows, facts_.row_scales(size_.columns)};
}

double silu_session::bytes() const {
  const double of_row =
      4.0 * size_.columns + facts_.row_bytes(size_.columns) + places().blocks * facts_.scale_bytes;
  return of_row * size_.rows;
}

formatted_rows silu_session::out() {
  return {size_.format, values_.data(), scales_.data(), scale_layout::row_major};
}

void silu_session::enqueue(stream_ref stream) {
  fused_silu(world_, in_.data(), size_.columns, {size_.rows}, out(), stream);
}

void silu_session::enqueue_copy(stream_ref stream) {
  copy_async(world_, copy_.data(), in_.data(), copy_.size_bytes(), stream);
}

std::string silu_session::first_wrong() {
  values_.fill_async(0xff);
  scales_.fill_async(0xff);
  enqueue({});
  const std::vector<std::byte> values = values_.to_host(), scales = scales_.to_host();
  received_tokens rows{values.data(), scales.data()};
  rows.max_rows = size_.rows;
  rows.format = size_.format;
  rows.hidden = size_.columns;
  const std::size_t columns = size(size_.columns);
  std::vector<float> found(columns);
  std::vector<bfloat16> exact(columns);
  for (int i = 0; i < 31; ++i) {
    const std::size_t row = size(std::int64_t{i} * (size_.rows - 1) / 30);
    widen_row(rows, row, found.data());
    for (std::size_t c = 0; c < columns; ++c) {
      const double gate = static_cast<float>(host_in_[2 * row * columns + c]),
                   up = static_cast<float>(host_in_[(2 * row + 1) * columns + c]);
      exact[c] = bfloat16{static_cast<float>(gate / (1 + std::exp(-gate)) * up)};
    }
    const auto block = size(facts_.block == 0 ? size_.columns : facts_.block);
    for (std::size_t c = 0; c < columns; ++c) {
      const double x = static_cast<float>(exact[c]),
                   scale = scale_of(size_.format, exact.data() + c / block * block);
      // The block's largest, and with it the scale, was rounded to bf16 here: a power of two may be twice what it is there.
      const double allowed = 2.02 * format_error(size_.format, x, scale) + 0x1p-7 * std::fabs(x);
      if (!(std::fabs(static_cast<double>(found[c]) - x) <= allowed))
        return fmt::format("row {}, value {} is {}, expected {} +- {}", row, c, found[c], x, allowed);
    }
  }
  return {};
}

}  // namespace baton::cli
