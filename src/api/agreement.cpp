#include "api/agreement.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string>

#include "baton/error.hpp"

namespace baton {
namespace {

using value_names = std::span<const char* const>;

constexpr const char* formats[] = {name(token_format::bf16), name(token_format::blockwise_fp8),
                                   name(token_format::mxfp8), name(token_format::mxfp4),
                                   name(token_format::nvfp4)};
constexpr const char* arrivals[] = {"epoch", "sentinel"};
constexpr const char* levels[] = {"one", "two"};
constexpr const char* layouts[] = {"per_expert", "per_rank"};
constexpr const char* transfers[] = {"automatic", "lines", "chunks", "flags"};
constexpr const char* row_kinds[] = {"by_expert", "by_token"};
constexpr const char* truths[] = {"false", "true"};

struct field {
  const char* name;
  std::int64_t value;
  value_names values{};  // by what a message calls them; empty: numbers
};

std::string text_of(std::int64_t value, value_names values) {
  const auto at = static_cast<std::size_t>(value);
  return at < values.size() ? values[at] : fmt::format("{}", value);
}

auto fields_of(const ep_config& c) {
  return std::to_array<field>({{"num_experts", c.num_experts},
                               {"top_k", c.top_k},
                               {"hidden", c.hidden},
                               {"num_max_tokens_per_rank", c.num_max_tokens_per_rank},
                               {"format", static_cast<int>(c.format), formats},
                               {"combine_format", static_cast<int>(c.combine_format), formats},
                               {"arrival", static_cast<int>(c.arrival), arrivals},
                               {"p2p_group_size", c.p2p_group_size},
                               {"levels", static_cast<int>(c.levels), levels},
                               {"num_sms", c.num_sms},
                               {"num_threads", c.num_threads},
                               {"layout", static_cast<int>(c.layout), layouts},
                               {"transfer", static_cast<int>(c.transfer), transfers},
                               {"rows", static_cast<int>(c.rows), row_kinds},
                               {"tiled_scales", c.tiled_scales ? 1 : 0, truths},
                               {"row_alignment", c.row_alignment},
                               {"rows_of_expert", c.rows_of_expert},
                               {"weights_at_combine", c.weights_at_combine ? 1 : 0, truths},
                               {"num_slots", c.num_slots},
                               {"sizeof(ep_config)", sizeof(ep_config)}});
}
using fields = decltype(fields_of(ep_config{}));
using values = std::array<std::int64_t, fields{}.size()>;

/// FNV-1a, so that the common case exchanges 8 bytes.
std::uint64_t hash_of(const values& v) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int64_t value : v) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ (static_cast<std::uint64_t>(value) >> shift & 0xffu)) * 0x100000001b3u;
    }
  }
  return hash;
}

}  // namespace

void require_agreement(const world& w, const ep_config& config) {
  const fields mine = fields_of(config);
  values my_values{};
  for (std::size_t i = 0; i < mine.size(); ++i) my_values[i] = mine[i].value;
  const auto size = static_cast<std::size_t>(w.size());
  const std::uint64_t hash = hash_of(my_values);
  std::vector<std::uint64_t> hashes(size);
  w.all_gather(&hash, hashes.data(), sizeof(hash));
  bool agree = true;
  for (const std::uint64_t other : hashes) agree = agree && other == hash;
  // Ranks see the same hashes, so all or none go on to exchange the values.
  if (agree) return;
  std::vector<values> all(size);
  w.all_gather(&my_values, all.data(), sizeof(values));
  for (std::size_t i = 0; i < mine.size(); ++i) {
    for (std::size_t r = 1; r < size; ++r) {
      if (all[r][i] == all[0][i]) continue;
      throw invalid_argument{
          fmt::format("ep_config differs between ranks: {} is {} on rank 0 and {} on rank {}", mine[i].name,
                      text_of(all[0][i], mine[i].values), text_of(all[r][i], mine[i].values), r)};
    }
  }
}

}  // namespace baton
