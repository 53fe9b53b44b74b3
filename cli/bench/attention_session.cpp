#include "cli/bench/attention_session.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/bench/attention_row.hpp"

namespace baton::cli {
namespace {

const memory_use of_attention{"the heads", "ask for fewer, or shorter sequences"};
constexpr int checked_rows = 31;  // a prime: rows of all remainders

std::size_t values_of(const attention_size& s, int heads) {
  return static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.length) *
         static_cast<std::size_t>(heads) * static_cast<std::size_t>(s.of.head_dim);
}

/// Where a row of a head begins, in a tensor with so many heads.
std::size_t place_of(const attention_size& s, int sequence, int row, int heads, int head) {
  const std::int64_t at = (std::int64_t{sequence} * s.length + row) * heads + head;
  return static_cast<std::size_t>(at * s.of.head_dim);
}

}  // namespace

template <class Value>
varlen_attention_problem<Value> problem_of(const attention_size& s) {
  varlen_attention_problem<Value> p;
  p.batch = s.batch;
  p.max_seqlen_q = p.max_seqlen_k = s.length;
  p.total_q = p.total_k = s.batch * s.length;
  p.heads = s.of.heads;
  p.kv_heads = s.of.kv_heads;
  p.head_dim = s.of.head_dim;
  p.options = s.options();
  return p;
}

template <class Value>
attention_session<Value>::attention_session(const world& world, const attention_size& s)
    : world_{world},
      size_{s},
      q_{world, values_of(s, s.of.heads), 1, of_attention},
      k_{world, values_of(s, s.of.kv_heads), 2, of_attention},
      v_{world, values_of(s, s.of.kv_heads), 3, of_attention},
      out_{world, values_of(s, s.of.heads), of_attention} {
  q_.random_values();
  k_.random_values();
  v_.random_values();
}

template <class Value>
varlen_attention_problem<Value> attention_session<Value>::problem() {
  auto p = problem_of<Value>(size_);
  p.q = q_.data();
  p.k = k_.data();
  p.v = v_.data();
  p.out = out_.data();
  return p;
}

template <class Value>
std::string attention_session<Value>::wrong_value(int sequence, int row, int head) const {
  const auto dim = static_cast<std::size_t>(size_.of.head_dim);
  const int kv_head = head / (size_.of.heads / size_.of.kv_heads);
  const auto reader_of = [&](const gemm_operand<Value>& from) -> key_reader {
    return [&, sequence, kv_head](int key, std::span<double> to) {
      from.read(place_of(size_, sequence, key, size_.of.kv_heads, kv_head), to);
    };
  };
  std::vector<double> q(dim);
  const std::size_t at = place_of(size_, sequence, row, size_.of.heads, head);
  q_.read(at, q);
  const int end = size_.mask == attention_mask::dense ? size_.length : row + 1;
  const int first = size_.mask == attention_mask::window ? std::max(0, row - size_.of.window + 1) : 0;
  const std::string wrong = first_wrong_in_row<Value>(
      expected_row<Value>(q, first, end, reader_of(k_), reader_of(v_), world_.device() == device_kind::cuda),
      to_host(world_, out_.data() + at, dim));
  return wrong.empty() ? wrong : fmt::format("out[{}, {}, {}, {}", sequence, row, head, wrong);
}

template <class Value>
std::string attention_session<Value>::first_wrong(const attention_work<Value>& run) {
  constexpr unsigned char poison = 0xff;  // NaN
  out_.fill_async(poison);
  enqueue(run, {});
  for (int i = 0; i <= checked_rows; ++i) {
    const auto at = static_cast<std::int64_t>(size_.length - 1) * i / checked_rows;
    if (const std::string wrong = wrong_value(i % size_.batch, static_cast<int>(at), i % size_.of.heads);
        !wrong.empty())
      return wrong;
  }
  return {};
}

template varlen_attention_problem<bfloat16> problem_of(const attention_size&);
template varlen_attention_problem<float16> problem_of(const attention_size&);
template class attention_session<bfloat16>;
template class attention_session<float16>;

}  // namespace baton::cli
