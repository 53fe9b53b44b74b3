#pragma once
// Attention of a model's layers by the library, in bf16 on the ranks' devices.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "baton/attention.hpp"
#include "baton/device_buffer.hpp"
#include "baton/world.hpp"
#include "cli/model/attention_backend.hpp"
#include "cli/model/checkpoint.hpp"

namespace baton::cli {

/// Keys and values of all sequences stay on their ranks' devices, in pages; rows of q go there, rows of out come back.
class library_attention : public model::attention_backend {
 public:
  static constexpr int page_size = 64;

  /// Why a model's attention cannot be made there; empty: it can.
  static std::string why_not(const model::model_config& config, device_kind device);

  /// `positions[r]`: of each sequence of rank r, how many it comes to.
  /// @throws unsupported    why_not()
  /// @throws out_of_memory  for keys and values, with the option that helps
  library_attention(const model::model_config& config, const std::vector<world>& ranks,
                    std::span<const std::vector<int>> positions);

  /// @throws invalid_argument  sequences that come to more than was said
  /// @throws stuck             the device did not come to its end; this object is of no further use
  void run(int rank, int layer, std::span<const model::attended_sequence> sequences) override;

 private:
  struct rank_state {
    world device;
    int num_pages, pages_taken = 0;
    device_buffer<bfloat16> k, v;  // [layers, num_pages, page_size, kv_heads, head_dim]
    device_buffer<bfloat16> q, out;
    device_buffer<std::int32_t> page_table, first_rows, lengths;
    device_buffer<std::byte> scratch;
    std::map<const model::kv_cache*, std::vector<std::int32_t>> pages;
  };
  struct step;

  std::vector<std::int32_t>& pages_of(rank_state& rank, const model::attended_sequence& of);
  step gather(rank_state& rank, int layer, std::span<const model::attended_sequence> sequences);
  void put_keys(rank_state& rank, int layer, const model::attended_sequence& of, step& to);
  void enqueue(rank_state& rank, int layer, const step& s);

  model::model_config config_;
  std::vector<rank_state> ranks_;
};

}  // namespace baton::cli
