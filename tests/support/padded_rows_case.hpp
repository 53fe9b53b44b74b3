#pragma once
// Rows as a dispatch leaves them on any world, what pad_rows and unpad_rows make of them, and what that has to be.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/padded_rows.hpp"

namespace baton::test {

struct padded_case {
  token_format format = token_format::bf16;
  int hidden = 128, capacity = 6;
  std::vector<std::int32_t> counts{5, 0, 3}, offsets{2, 9, 9, 14};
  int max_rows = 16;
  scale_layout layout = scale_layout::column_major;
  bool as_exponents = false;
  int num_sms = 0;

  int experts() const { return static_cast<int>(counts.size()); }
  int row_bytes() const { return facts_of(format).row_bytes(hidden); }
  int blocks() const { return facts_of(format).row_scales(hidden); }
  int columns() const { return as_exponents ? blocks() / 4 : blocks(); }
};

inline std::string text(const padded_case& c) {
  return std::string{name(c.format)} + " of " + std::to_string(c.hidden) + ", capacity " +
         std::to_string(c.capacity) + (c.as_exponents ? ", exponents" : "") + ", " +
         std::to_string(c.num_sms) + " SMs";
}

/// Of a world with `ranks` ranks.
struct padded_input {
  std::vector<std::uint8_t> tokens;
  std::vector<float> scales;
  std::vector<source_info> sources;

  padded_input(const padded_case& c, int ranks) {
    std::mt19937 random{7};
    const auto rows = static_cast<std::size_t>(c.max_rows);
    for (std::size_t i = 0; i < rows * static_cast<std::size_t>(c.row_bytes()); ++i)
      tokens.push_back(static_cast<std::uint8_t>(random()));
    for (std::size_t i = 0; i < rows * static_cast<std::size_t>(c.blocks()); ++i)
      scales.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() % 254 + 1) << 23));
    sources.resize(rows, {-7, -7, 0, 0});
    for (std::size_t e = 0; e < c.counts.size(); ++e) {
      std::vector<int> of;  // by source rank; with many ranks some have none
      for (int w = 0; w < c.counts[e]; ++w)
        of.push_back(static_cast<int>(random() % static_cast<unsigned>(ranks)));
      std::sort(of.begin(), of.end());
      for (int w = 0; w < c.counts[e]; ++w)
        if (c.offsets[e] + w < c.max_rows)
          sources[static_cast<std::size_t>(c.offsets[e] + w)] = {static_cast<std::int32_t>(random() % 1000),
                                                                 1, of[static_cast<std::size_t>(w)], 3};
    }
  }
};

struct padded_result {
  std::vector<std::uint8_t> tokens;
  std::vector<std::uint32_t> scales;
  std::vector<std::int32_t> counts, source_tokens;
  std::vector<std::int64_t> ranges;
  friend bool operator==(const padded_result&, const padded_result&) = default;
};

/// Every byte of what no row has.
inline constexpr std::uint8_t byte_of_no_row = 0xa5;

inline padded_result untouched_places(const padded_case& c, int ranks) {
  const auto places = static_cast<std::size_t>(c.experts() * c.capacity);
  return {std::vector<std::uint8_t>(places * static_cast<std::size_t>(c.row_bytes()), byte_of_no_row),
          std::vector<std::uint32_t>(places / static_cast<std::size_t>(c.capacity) *
                                         static_cast<std::size_t>(c.columns() * c.capacity),
                                     0xa5a5a5a5u),
          std::vector<std::int32_t>(static_cast<std::size_t>(c.experts()),
                                    static_cast<std::int32_t>(0xa5a5a5a5u)),
          std::vector<std::int32_t>(places, static_cast<std::int32_t>(0xa5a5a5a5u)),
          std::vector<std::int64_t>(static_cast<std::size_t>(c.experts() * ranks),
                                    static_cast<std::int64_t>(0xa5a5a5a5a5a5a5a5u))};
}

/// By the formula, one row after the other.
inline padded_result expected_places(const padded_case& c, const padded_input& in, int ranks) {
  padded_result r = untouched_places(c, ranks);
  const auto bytes = static_cast<std::size_t>(c.row_bytes());
  const scale_places at{c.layout, c.max_rows, c.blocks()};
  for (int e = 0; e < c.experts(); ++e) {
    const auto expert = static_cast<std::size_t>(e);
    const int there = std::min(c.counts[expert], c.capacity);
    r.counts[expert] = there;
    std::vector<std::int64_t> of_rank(static_cast<std::size_t>(ranks));
    for (int w = 0; w < there; ++w) {
      const int row = c.offsets[expert] + w, place = e * c.capacity + w;
      const source_info& from = in.sources[static_cast<std::size_t>(row)];
      std::memcpy(r.tokens.data() + static_cast<std::size_t>(place) * bytes,
                  in.tokens.data() + static_cast<std::size_t>(row) * bytes, bytes);
      r.source_tokens[static_cast<std::size_t>(place)] = from.token;
      ++of_rank[static_cast<std::size_t>(from.rank)];
      for (int column = 0; column < c.columns(); ++column) {
        std::uint32_t word = 0;
        for (int i = 0; i < (c.as_exponents ? 4 : 1); ++i) {
          const int block = c.as_exponents ? 4 * column + i : column;
          const auto bits =
              std::bit_cast<std::uint32_t>(in.scales[static_cast<std::size_t>(at.at(row, block))]);
          word |= c.as_exponents ? (bits >> 23 & 0xff) << (8 * i) : bits;
        }
        r.scales[static_cast<std::size_t>((e * c.columns() + column) * c.capacity + w)] = word;
      }
    }
    std::int64_t first = 0;
    for (std::size_t s = 0; s < of_rank.size(); first += of_rank[s++])
      r.ranges[expert * of_rank.size() + s] = first << 32 | of_rank[s];
  }
  return r;
}

/// The case's rows in memory of `where`, for one call or more.
class padded_run {
 public:
  padded_run(const world& where, const padded_case& c, const padded_input& in)
      : where_{where},
        c_{c},
        counts_{where, c.counts},
        offsets_{where, c.offsets},
        tokens_{where, in.tokens},
        scales_{where, in.scales},
        sources_{where, in.sources} {
    rows.tokens = tokens_.data();
    rows.scales = c.blocks() == 0 ? nullptr : scales_.data();
    rows.row_offsets = offsets_.data();
    rows.row_counts = counts_.data();
    rows.sources = sources_.data();
    rows.num_local_experts = c.experts();
    rows.max_rows = c.max_rows;
    rows.format = c.format;
    rows.hidden = c.hidden;
    rows.scales_layout = c.layout;
  }

  padded_result pad() {
    padded_result r = untouched_places(c_, where_.size());
    device_buffer<std::uint8_t> tokens{where_, r.tokens};
    device_buffer<std::uint32_t> scales{where_, r.scales};
    device_buffer<std::int32_t> counts{where_, r.counts}, source_tokens{where_, r.source_tokens};
    device_buffer<std::int64_t> ranges{where_, r.ranges};
    pad_rows(where_, rows,
             {.capacity = c_.capacity,
              .tokens = tokens.data(),
              .scales = c_.blocks() == 0 ? nullptr : scales.data(),
              .scales_as_exponents = c_.as_exponents,
              .row_counts = counts.data(),
              .source_tokens = source_tokens.data(),
              .source_ranges = ranges.data(),
              .num_sms = c_.num_sms});
    return {tokens.to_host(), c_.blocks() == 0 ? r.scales : scales.to_host(), counts.to_host(),
            source_tokens.to_host(), ranges.to_host()};
  }

  /// What a way back leaves of places that hold their own number.
  std::vector<std::uint16_t> unpad() {
    const auto hidden = static_cast<std::size_t>(c_.hidden);
    std::vector<bfloat16> places(static_cast<std::size_t>(c_.experts() * c_.capacity) * hidden);
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = std::bit_cast<bfloat16>(static_cast<std::uint16_t>(i * 31 + 1));
    std::vector<bfloat16> out(static_cast<std::size_t>(c_.max_rows) * hidden,
                              std::bit_cast<bfloat16>(untouched_value));
    device_buffer<bfloat16> from{where_, places}, to{where_, out};
    unpad_rows(where_, rows, {from.data(), c_.capacity, c_.num_sms}, to.data());
    std::vector<std::uint16_t> bits;
    for (const bfloat16 v : to.to_host()) bits.push_back(std::bit_cast<std::uint16_t>(v));
    return bits;
  }

  static constexpr std::uint16_t untouched_value = 0x4242;
  received_tokens rows{};

 private:
  world where_;
  padded_case c_;
  device_buffer<std::int32_t> counts_, offsets_;
  device_buffer<std::uint8_t> tokens_;
  device_buffer<float> scales_;
  device_buffer<source_info> sources_;
};

inline std::vector<std::uint16_t> expected_rows(const padded_case& c) {
  const auto hidden = static_cast<std::size_t>(c.hidden);
  std::vector<std::uint16_t> out(static_cast<std::size_t>(c.max_rows) * hidden, padded_run::untouched_value);
  for (int e = 0; e < c.experts(); ++e) {
    const auto expert = static_cast<std::size_t>(e);
    for (int w = 0; w < std::min(c.counts[expert], c.capacity); ++w)
      for (std::size_t i = 0; i < hidden; ++i)
        out[static_cast<std::size_t>(c.offsets[expert] + w) * hidden + i] =
            static_cast<std::uint16_t>((static_cast<std::size_t>(e * c.capacity + w) * hidden + i) * 31 + 1);
  }
  return out;
}

/// Formats, rows of a part of a step, of several and of many, capacities over and under what came, SMs.
inline std::vector<padded_case> padded_cases() {
  std::vector<padded_case> all;
  for (const int hidden : {8, 1024, 1536, 7168}) all.push_back({.hidden = hidden});
  for (const int capacity : {1, 3, 5, 40}) all.push_back({.capacity = capacity});
  for (const scale_layout layout : {scale_layout::row_major, scale_layout::column_major})
    for (const int hidden : {128, 2048, 7168})
      all.push_back({.format = token_format::blockwise_fp8, .hidden = hidden, .layout = layout});
  for (const int hidden : {512, 7168})
    all.push_back({.format = token_format::blockwise_fp8, .hidden = hidden, .as_exponents = true});
  padded_case many{
      .format = token_format::blockwise_fp8, .hidden = 512, .capacity = 70, .counts = {}, .offsets = {0}};
  for (std::int32_t e = 0; e < 40; ++e) {
    many.counts.push_back(e * 7 % 70);
    many.offsets.push_back(many.offsets.back() + e * 7 % 70 + e % 3);
  }
  many.max_rows = many.offsets.back();
  for (const int sms : {0, 1, 3}) {
    many.num_sms = sms;
    all.push_back(many);
  }
  return all;
}

}  // namespace baton::test
