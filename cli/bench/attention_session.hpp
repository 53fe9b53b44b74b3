#pragma once
// One attention on one device, ready to run, checked and timed.
#include <functional>
#include <string>
#include <vector>

#include "baton/attention.hpp"
#include "baton/device_buffer.hpp"
#include "cli/bench/attention_points.hpp"
#include "cli/bench/gemm_operands.hpp"

namespace baton::cli {

/// Puts one attention on a stream.
template <class Value>
using attention_work = std::function<void(const varlen_attention_problem<Value>&, stream_ref)>;

/// What is asked, without memory: supports() says whether it is served.
template <class Value>
varlen_attention_problem<Value> problem_of(const attention_size& size);

/// Sequences of normally distributed values. `Value` is bfloat16 or float16.
template <class Value>
class attention_session {
 public:
  attention_session(const world& world, const attention_size& size);

  varlen_attention_problem<Value> problem();
  /// Poisons the result, runs once, and compares rows that are spread out over sequences and heads with the formula in double
  /// precision. Empty: all are as near as fp32, and on CUDA weights of Value, make them.
  std::string first_wrong(const attention_work<Value>& run);
  void enqueue(const attention_work<Value>& run, stream_ref stream) { run(problem(), stream); }

 private:
  std::string wrong_value(int sequence, int row, int head) const;

  world world_;
  attention_size size_;
  gemm_operand<Value> q_, k_, v_;
  device_buffer<Value> out_;
};

extern template varlen_attention_problem<bfloat16> problem_of(const attention_size&);
extern template varlen_attention_problem<float16> problem_of(const attention_size&);
extern template class attention_session<bfloat16>;
extern template class attention_session<float16>;

}  // namespace baton::cli
