#pragma once
// fused_silu into one format, and a copy of as many bytes: ready to run, checked.
#include <string>
#include <vector>

#include "baton/device_buffer.hpp"
#include "baton/quantise.hpp"

namespace baton::cli {

struct silu_size {
  int rows, columns;
  token_format format;
};

class silu_session {
 public:
  silu_session(const world& world, const silu_size& size);

  /// What fused_silu reads and writes.
  double bytes() const;
  void enqueue(stream_ref stream);
  /// Moves bytes() bytes: reads half of them and writes the other half.
  void enqueue_copy(stream_ref stream);
  /// Poisons the result, runs once, and compares rows that are spread out with double arithmetic. Empty: all right.
  std::string first_wrong();

 private:
  formatted_rows out();
  scale_places places() const;

  world world_;
  silu_size size_;
  format_facts facts_;
  std::vector<bfloat16> host_in_;  // [some rows, 2 * columns], repeated
  device_buffer<bfloat16> in_;
  device_buffer<std::byte> values_, scales_, copy_;
};

}  // namespace baton::cli
