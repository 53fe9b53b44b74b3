#pragma once
// One rank of an exchange under test: moves inputs in, results out, and compares with exchange_case.hpp. Comparisons
// return what differs, or nothing, so that they also serve ranks in other processes.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "baton/device_buffer.hpp"
#include "tests/support/exchange_case.hpp"

namespace baton::test {

/// What dispatch_wait left, on the host, of the rows that it says there are, not of all that there is room for; tokens that have
/// a row each, once for each of their experts.
struct received_copy {
  std::size_t row_bytes = 0;
  std::vector<std::uint8_t> tokens, scales;
  std::vector<std::int32_t> row_offsets, row_counts, expert_ids;
  std::vector<source_info> sources;
  scale_places places;
};

class exchange_rank {
 public:
  exchange_rank(expert_parallel ep, stream_ref stream = {})
      : exchange_rank{std::make_shared<expert_parallel>(std::move(ep)), stream, 0} {}
  /// A slot of a communicator that others share.
  exchange_rank(std::shared_ptr<expert_parallel> ep, stream_ref stream, int slot)
      : ep_{std::move(ep)}, stream_{stream}, slot_{slot} {
    make_room(is_on_cpu() ? 1 : static_cast<std::size_t>(ep_->config().num_max_tokens_per_rank));
  }

  /// What rounds from now on are called with beside their inputs.
  struct {
    int dispatch_sms = 0, combine_sms = 0;
    std::int32_t* host_counts = nullptr;
    std::int64_t* expert_load = nullptr;
    expert_map replicas = {};
    std::vector<std::int32_t> weights_of = {};  // exchange_case::weights_of
    bool bf16_output = false;                   // exchange_case::bf16_output
    bool gives_weights = true;                  // to combine, with weights_at_combine
  } options;

  expert_parallel& ep() { return *ep_; }
  const world& ranks() const { return ep_->ranks(); }

  void load(const rank_inputs& in) {
    in_ = in;
    make_room(static_cast<std::size_t>(in_.num_tokens));
    tokens_.copy_from_async(in_.tokens, stream_);
    topk_idx_.copy_from_async(in_.topk_idx, stream_);
    wide_ids_.copy_from_async(in_.wide_ids, stream_);
    if (!in_.given.empty()) load_given();
    topk_weights_.copy_from_async(in_.topk_weights, stream_);
    if (!in_.shared_output.empty()) write_shared_output(in_.shared_output);
    out_.fill_async(0xff, stream_);  // NaN: every element must be written
    if (bf16_out_.size() < out_.size() && options.bf16_output) bf16_out_ = {ranks(), out_.size()};
    if (bf16_out_.size() > 0) bf16_out_.fill_async(0xff, stream_);
  }
  void dispatch_async() { ep_->dispatch_async(input(early_weights()), stream_); }
  void dispatch(const float* input_scales = nullptr) {
    dispatch_input in = input(ep_->config().weights_at_combine ? nullptr : topk_weights_.data());
    in.input_scales = input_scales;
    dispatch_with(in);
  }
  void dispatch_with(const dispatch_input& in) { received_ = ep_->dispatch(in, stream_); }
  /// Of experts that return the rows at `expert_output`.
  void combine(const bfloat16* expert_output) {
    if (options.bf16_output)
      ep_->combine(combine_of(expert_output), bf16_out_.data(), stream_);
    else
      ep_->combine(combine_of(expert_output), out_.data(), stream_);
  }
  void combine() { combine(expert_output_.data()); }
  void dispatch_wait() { received_ = ep_->dispatch_wait(stream_, slot_); }
  void combine_async(const bfloat16* expert_output) {
    ep_->combine_async(combine_of(expert_output), stream_);
  }
  void combine_async() { combine_async(expert_output_.data()); }
  void combine_wait() {
    const float* weights = ep_->config().layout == ep_layout::per_expert ? topk_weights_.data() : nullptr;
    if (options.bf16_output)
      ep_->combine_wait(weights, bf16_out_.data(), stream_, slot_);
    else
      ep_->combine_wait(weights, out_.data(), stream_, slot_);
  }
  /// What the round's shared_output points to is these from here on, in stream order. They stay until the stream is waited for.
  void write_shared_output(const std::vector<bfloat16>& rows) {
    if (shared_output_.size() < out_.size()) shared_output_ = {ranks(), out_.size()};
    shared_output_.copy_from_async(rows, stream_);
  }

  /// The experts of the tests, on the host: computes from the received rows, and enqueues combine_async.
  void reply(const received_copy& got) {
    apply_experts(got);
    combine_async();
  }
  void apply_experts(const received_copy& got) {
    const auto hidden = static_cast<std::size_t>(ep_->config().hidden);
    const std::size_t rows = got.sources.size(), row_bytes = hidden * sizeof(bfloat16);
    if (reply_.size() < rows * row_bytes) reply_.resize(rows * row_bytes, nan_byte);
    std::vector<rows_there> written = std::exchange(replied_, together(got));
    for (const rows_there& run : written)
      std::memset(reply_.data() + run.first * row_bytes, nan_byte, run.count * row_bytes);
    std::vector<float> values(hidden);
    for (std::size_t e = 0; e < got.row_counts.size(); ++e) {
      const auto id = static_cast<std::size_t>(got.expert_ids[e]);
      const float factor =
          expert_factor(options.weights_of.empty() ? got.expert_ids[e] : options.weights_of[id]);
      for (std::int32_t i = 0; i < got.row_counts[e]; ++i) {
        const auto row = static_cast<std::size_t>(got.row_offsets[e] + i);
        if (row >= rows) throw std::out_of_range{fmt::format("row {} of {}", row, rows)};
        read_row(got, row, values);
        round_scaled(factor, values.data(), reply_.data() + row * row_bytes, hidden);
      }
    }
    const std::size_t room =
        is_on_cpu() ? std::max<std::size_t>(rows, 1) : static_cast<std::size_t>(received_.max_rows);
    if (expert_output_.size() < room * hidden) {
      expert_output_ = {ranks(), room * hidden};
      expert_output_.fill_async(nan_byte, stream_);
    }
    written.insert(written.end(), replied_.begin(), replied_.end());
    if (ep_->config().rows_of_expert == 0 && !written.empty())
      written = {*std::ranges::max_element(written, {}, &rows_there::count)};
    for (const rows_there& run : written)
      copy_async(ranks(), expert_output_.data() + run.first * hidden, reply_.data() + run.first * row_bytes,
                 run.count * row_bytes, stream_);
  }

  received_copy read_received() {
    received_copy got;
    const format_facts facts = facts_of(received_.format);
    const auto experts = static_cast<std::size_t>(received_.num_local_experts);
    got.row_bytes = static_cast<std::size_t>(facts.row_bytes(received_.hidden));
    got.places = places();
    got.row_offsets.resize(experts + 1);
    got.row_counts.resize(experts);
    got.expert_ids.resize(experts);
    fetch(got.row_offsets, received_.row_offsets);
    fetch(got.row_counts, received_.row_counts);
    fetch(got.expert_ids, received_.expert_ids);
    ranks().synchronize(stream_);
    const std::size_t rows = rows_of(got);
    got.sources.resize(rows);
    got.tokens.resize(rows * got.row_bytes);
    got.scales.resize(static_cast<std::size_t>(places().count() * facts.scale_bytes));
    for (const rows_there& run : together(got))
      fetch(got.sources.data() + run.first, received_.sources + run.first, run.count * sizeof(source_info));
    if (received_.token_rows != nullptr) {
      lay_out(got);
    } else {
      const auto* const tokens = static_cast<const std::uint8_t*>(received_.tokens);
      for (const rows_there& run : together(got))
        fetch(got.tokens.data() + run.first * got.row_bytes, tokens + run.first * got.row_bytes,
              run.count * got.row_bytes);
      fetch(got.scales, received_.scales);
    }
    ranks().synchronize(stream_);
    return got;
  }

  std::vector<float> read_output() {
    const auto values =
        static_cast<std::size_t>(in_.num_tokens) * static_cast<std::size_t>(ep_->config().hidden);
    if (!options.bf16_output) return to_host(ranks(), out_.data(), values, stream_);
    const auto rounded = to_host(ranks(), bf16_out_.data(), values, stream_);
    return {rounded.begin(), rounded.end()};
  }

  const received_tokens& received() const { return received_; }
  scale_places places() const {
    return {received_.scales_layout, received_.max_rows,
            facts_of(received_.format).row_scales(received_.hidden)};
  }

 private:
  bool is_on_cpu() const { return ranks().device() == device_kind::cpu; }
  /// For a round of so many tokens. On a CPU buffers grow with rounds: memory of a communicator for many tokens takes long to
  /// zero, and a sanitizer sees who goes behind those that there are. On a GPU a captured round wants buffers that stay.
  void make_room(std::size_t tokens) {
    const auto k = static_cast<std::size_t>(ep_->config().top_k),
               hidden = static_cast<std::size_t>(ep_->config().hidden);
    if (tokens * hidden <= tokens_.size()) return;
    tokens_ = {ranks(), tokens * hidden};
    topk_idx_ = {ranks(), tokens * k};
    wide_ids_ = {ranks(), tokens * k};
    topk_weights_ = {ranks(), tokens * k};
    out_ = {ranks(), tokens * hidden};
  }
  /// With layout per_rank weights are given at dispatch, unless the communicator is one to which they are given at combine.
  const float* early_weights() const {
    const ep_config& c = ep_->config();
    return c.layout == ep_layout::per_rank && !c.weights_at_combine ? topk_weights_.data() : nullptr;
  }
  void load_given() {
    std::vector<std::uint8_t> values, scales;
    for (const encoded_token& token : in_.given) {
      append(values, token.payload);
      append(scales, token.scales);
    }
    given_values_ = {ranks(), std::span<const std::uint8_t>{values}};
    given_scales_ = {ranks(), std::span<const std::uint8_t>{scales}};
  }
  combine_input combine_of(const bfloat16* expert_output) const {
    return {.expert_output = expert_output,
            .num_sms = options.combine_sms,
            .slot = slot_,
            .shared_output = in_.shared_output.empty() ? nullptr : shared_output_.data(),
            .topk_weights =
                ep_->config().weights_at_combine && options.gives_weights ? topk_weights_.data() : nullptr};
  }
  dispatch_input input(const float* weights) const {
    dispatch_input in{.tokens = tokens_.data(),
                      .topk_weights = weights,
                      .num_tokens = in_.num_tokens,
                      .num_sms = options.dispatch_sms,
                      .host_counts = options.host_counts,
                      .expert_load = options.expert_load,
                      .replicas = options.replicas,
                      .slot = slot_};
    if (!in_.given.empty()) in.tokens = quantised_tokens{given_values_.data(), given_scales_.data()};
    if (!in_.wide_ids.empty())
      in.topk_idx = wide_ids_.data();
    else
      in.topk_idx = topk_idx_.data();
    return in;
  }
  /// Up to the end that is said, and up to that of each expert; no more than there is room for.
  std::size_t rows_of(const received_copy& got) const {
    std::int64_t end = got.row_offsets.back();
    for (std::size_t e = 0; e < got.row_counts.size(); ++e)
      end = std::max(end, std::int64_t{got.row_offsets[e]} + got.row_counts[e]);
    return static_cast<std::size_t>(std::clamp<std::int64_t>(end, 0, received_.max_rows));
  }
  struct rows_there {
    std::size_t first, count;
  };
  /// Rows of one expert after the other, with what lies between them unless experts have rows of their own: then most of them are
  /// none's.
  std::vector<rows_there> together(const received_copy& got) const {
    const std::size_t rows = got.sources.size();
    std::vector<rows_there> all;
    if (ep_->config().rows_of_expert == 0) {
      if (rows > 0) all.push_back({0, rows});
      return all;
    }
    for (std::size_t e = 0; e < got.row_counts.size(); ++e) {
      const auto first = static_cast<std::size_t>(std::max(got.row_offsets[e], 0));
      if (got.row_counts[e] > 0 && first < rows)
        all.push_back({first, std::min(static_cast<std::size_t>(got.row_counts[e]), rows - first)});
    }
    return all;
  }
  /// Calls f with each row of an expert and where its token lies.
  template <class F>
  void each_token_row(const received_copy& got, const std::vector<std::int32_t>& token_rows, F f) const {
    for (std::size_t e = 0; e < got.row_counts.size(); ++e) {
      for (std::int32_t i = 0; i < got.row_counts[e]; ++i) {
        const auto row = static_cast<std::size_t>(got.row_offsets[e] + i);
        if (token_rows.at(row) < 0 || token_rows[row] >= received_.max_token_rows)
          throw std::out_of_range{fmt::format("token_rows[{}] is {}", row, token_rows[row])};
        f(row, static_cast<std::size_t>(token_rows[row]));
      }
    }
  }
  /// Tokens and their scales from where they lie into rows of experts.
  void lay_out(received_copy& got) {
    const format_facts facts = facts_of(received_.format);
    const auto scales = static_cast<std::size_t>(facts.row_scales(received_.hidden) * facts.scale_bytes),
               stride = static_cast<std::size_t>(received_.row_bytes);
    const auto scales_begin = scales == 0 ? 0
                                          : static_cast<const std::uint8_t*>(received_.scales) -
                                                static_cast<const std::uint8_t*>(received_.tokens);
    std::vector<std::int32_t> token_rows(got.sources.size());
    fetch(token_rows, received_.token_rows);
    ranks().synchronize(stream_);
    std::vector<std::size_t> there;
    each_token_row(got, token_rows, [&](std::size_t, std::size_t at) { there.push_back(at); });
    std::sort(there.begin(), there.end());
    there.erase(std::unique(there.begin(), there.end()), there.end());
    const std::vector<std::uint8_t> stored = token_rows_at(there, stride);
    each_token_row(got, token_rows, [&](std::size_t row, std::size_t at) {
      const auto nth =
          static_cast<std::size_t>(std::lower_bound(there.begin(), there.end(), at) - there.begin());
      const std::uint8_t* from = stored.data() + nth * stride;
      std::memcpy(got.tokens.data() + row * got.row_bytes, from, got.row_bytes);
      if (scales > 0) std::memcpy(got.scales.data() + row * scales, from + scales_begin, scales);
    });
  }
  /// Those of ascending numbers, one behind the other: those of a source's tokens mostly follow each other.
  std::vector<std::uint8_t> token_rows_at(const std::vector<std::size_t>& there, std::size_t stride) const {
    std::vector<std::uint8_t> stored(there.size() * stride);
    const auto* const from = static_cast<const std::uint8_t*>(received_.tokens);
    for (std::size_t first = 0, end = 0; first < there.size(); first = end) {
      for (end = first + 1; end < there.size() && there[end] == there[end - 1] + 1;) ++end;
      copy_async(ranks(), stored.data() + first * stride, from + there[first] * stride,
                 (end - first) * stride, stream_);
    }
    ranks().synchronize(stream_);
    return stored;
  }
  void fetch(void* to, const void* from, std::size_t bytes) { copy_async(ranks(), to, from, bytes, stream_); }
  template <class T>
  void fetch(std::vector<T>& to, const void* from) {
    fetch(to.data(), from, to.size() * sizeof(T));
  }
  /// A received row as floats. Each scale is looked up once.
  void read_row(const received_copy& got, std::size_t row, std::span<float> values) const {
    const token_format format = received_.format;
    const std::size_t at = row * values.size();
    if (format == token_format::bf16) {
      widen_stored(got.tokens.data() + at * 2, values.data(), values.size());
      return;
    }
    const int bits = facts_of(format).value_bits;
    const auto block = static_cast<std::size_t>(facts_of(format).block);
    for (std::size_t first = 0; first < values.size(); first += block) {
      const float scale = scale_at(got, row, first / block);
      const std::size_t end = std::min(first + block, values.size());
      if (format == token_format::blockwise_fp8)
        widen_scaled(got.tokens.data() + at + first, scale, values.data() + first, end - first);
      else
        for (std::size_t h = first; h < end; ++h)
          values[h] = static_cast<float>(read_value(bits, got.tokens, at + h)) * scale;
    }
  }
  float scale_at(const received_copy& got, std::size_t row, std::size_t block) const {
    const auto place =
        static_cast<std::size_t>(got.places.at(static_cast<int>(row), static_cast<int>(block)));
    if (received_.format != token_format::blockwise_fp8)
      return static_cast<float>(read_scale(received_.format, got.scales, place));
    float scale;
    std::memcpy(&scale, &got.scales[place * 4], 4);
    return scale;
  }

  std::shared_ptr<expert_parallel> ep_;
  stream_ref stream_;
  int slot_;
  device_buffer<bfloat16> tokens_;
  device_buffer<std::int32_t> topk_idx_;
  device_buffer<std::int64_t> wide_ids_;
  device_buffer<std::uint8_t> given_values_, given_scales_;
  device_buffer<float> topk_weights_, out_;
  device_buffer<bfloat16> expert_output_, shared_output_, bf16_out_;
  rank_inputs in_;
  received_tokens received_;
  static constexpr std::uint8_t nan_byte = 0xff;  // two of them are no number
  std::vector<std::uint8_t> reply_;               // the last one; no numbers where no row is
  std::vector<rows_there> replied_;               // where its rows are
};

/// What is wrong with the rows that `rank` received; empty if nothing.
inline std::string difference(const expected_round& round, int rank, const received_copy& got) {
  const exchange_case& c = round.c;
  const expert_range local = experts_of_rank(c.config.num_experts, c.ranks, rank);
  const int least = c.config.format == token_format::blockwise_fp8 ? 4 : c.config.tiled_scales ? 128 : 1;
  const int align = std::max(least, c.config.row_alignment);
  const auto each = static_cast<std::size_t>(facts_of(c.config.format).scale_bytes);
  int first = 0;
  for (int e = 0; e < local.count; ++e) {
    const auto at = static_cast<std::size_t>(e);
    const auto& expected = round.messages[static_cast<std::size_t>(local.first + e)];
    if (got.expert_ids[at] != local.first + e)
      return fmt::format("expert_ids[{}] is {}", e, got.expert_ids[at]);
    if (got.row_offsets[at] != first)
      return fmt::format("row_offsets[{}] is {}, not {}", e, got.row_offsets[at], first);
    if (got.row_counts[at] != static_cast<int>(expected.size()))
      return fmt::format("row_counts[{}] is {}, not {}", e, got.row_counts[at], expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::size_t row = static_cast<std::size_t>(first) + i;
      const message& m = expected[i];
      const source_info& s = got.sources[row];
      if (s.rank != m.rank || s.token != m.token || s.topk_slot != m.topk_slot)
        return fmt::format("row {} comes from rank {} token {} choice {}, not {} {} {}", row, s.rank, s.token,
                           s.topk_slot, m.rank, m.token, m.topk_slot);
      const encoded_token& token =
          round.tokens[static_cast<std::size_t>(m.rank)][static_cast<std::size_t>(m.token)];
      if (std::memcmp(&got.tokens[row * token.payload.size()], token.payload.data(), token.payload.size()) !=
          0)
        return fmt::format("payload of row {} differs", row);
      for (std::size_t b = 0; b * each < token.scales.size(); ++b) {
        const auto place =
            static_cast<std::size_t>(got.places.at(static_cast<int>(row), static_cast<int>(b)));
        if (std::memcmp(&got.scales[place * each], &token.scales[b * each], each) != 0)
          return fmt::format("scale {} of row {} differs", b, row);
      }
    }
    first = c.config.rows_of_expert > 0
                ? (e + 1) * c.config.rows_of_expert
                : (first + static_cast<int>(expected.size()) + align - 1) / align * align;
  }
  if (got.row_offsets.back() != first)
    return fmt::format("last row offset is {}, not {}", got.row_offsets.back(), first);
  return {};
}

/// Bitwise comparison of outputs; empty if equal.
inline std::string difference(const std::vector<float>& expected, const std::vector<float>& got) {
  if (expected.size() != got.size()) return fmt::format("{} values, not {}", got.size(), expected.size());
  if (got.empty() || std::memcmp(expected.data(), got.data(), got.size() * sizeof(float)) == 0) return {};
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&expected[i], &got[i], 4) != 0)
      return fmt::format("value {} is {:.9g}, not {:.9g}", i, got[i], expected[i]);
  return {};
}

/// Whether a round is four calls or two.
enum class calls { apart, fused };

/// One round of all ranks from one thread, every step compared. Empty if all is well. `given`: what the ranks give, if these
/// are not the inputs that come of it.
inline std::string run_round(const expected_round& round, std::vector<exchange_rank>& ranks,
                             calls how = calls::apart, const std::vector<rank_inputs>* given = nullptr) {
  const auto in_context = [](std::size_t r, const std::string& what) {
    return what.empty() ? what : fmt::format("rank {}: {}", r, what);
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].load((given != nullptr ? *given : round.inputs)[r]);
  if (how == calls::fused) {
    for (auto& r : ranks) r.dispatch();
  } else {
    for (auto& r : ranks) r.dispatch_async();
    for (auto& r : ranks) r.dispatch_wait();
  }
  std::vector<received_copy> got;
  for (auto& r : ranks) got.push_back(r.read_received());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string wrong = difference(round, static_cast<int>(r), got[r]);
    if (!wrong.empty()) return in_context(r, wrong);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) ranks[r].apply_experts(got[r]);
  if (how == calls::fused) {
    for (auto& r : ranks) r.combine();
  } else {
    for (auto& r : ranks) r.combine_async();
    for (auto& r : ranks) r.combine_wait();
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string wrong = difference(expected_output(round, static_cast<int>(r)), ranks[r].read_output());
    if (!wrong.empty()) return in_context(r, wrong);
  }
  return {};
}

/// The same with inputs drawn from a seed.
inline std::string run_round(const exchange_case& c, std::vector<exchange_rank>& ranks, std::uint64_t seed,
                             calls how = calls::apart) {
  const auto inputs = draw_inputs(c, seed);
  const std::string wrong = run_round(expected_round{c, inputs}, ranks, how);
  return wrong.empty() ? wrong : fmt::format("seed {}, {}", seed, wrong);
}

inline std::vector<exchange_rank> make_ranks(std::span<const world> worlds, const ep_config& config) {
  std::vector<exchange_rank> ranks;
  for (auto& ep : expert_parallel::create_all(worlds, config)) ranks.emplace_back(std::move(ep));
  return ranks;
}

/// The slots of one communicator: [slot][rank]. Slot s of rank r works on stream_of(s, r).
template <class StreamOf>
std::vector<std::vector<exchange_rank>> make_slots(std::span<const world> worlds, const ep_config& config,
                                                   StreamOf stream_of) {
  std::vector<std::vector<exchange_rank>> slots(static_cast<std::size_t>(config.num_slots));
  for (auto& ep : expert_parallel::create_all(worlds, config)) {
    const auto shared = std::make_shared<expert_parallel>(std::move(ep));
    for (std::size_t s = 0; s < slots.size(); ++s)
      slots[s].emplace_back(shared, stream_of(static_cast<int>(s), shared->ranks().rank()),
                            static_cast<int>(s));
  }
  return slots;
}

}  // namespace baton::test
