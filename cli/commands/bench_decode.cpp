#include "cli/commands/bench_decode.hpp"

#include "cli/bench/decode_point.hpp"
#include "cli/bench/gemm_session.hpp"
#include "cli/bench/paced_timer.hpp"
#include "cli/commands/bench_report.hpp"
#include "cli/commands/product_sizes.hpp"
#include "cli/exit_code.hpp"

namespace baton::cli {
namespace {

void require_decode(const bench_attention_options& o) {
  require_within("--rows", o.rows, 1, 1 << 10);
  require_within("--page-size", o.page_size, 1, 1 << 16);
  if (!o.masks.empty())
    throw invalid_argument{
        "--mask: rows of --decode see the keys up to their own, or a model's window of them"};
}

std::vector<decode_size> decode_sizes_of(const bench_attention_options& o,
                                         const std::vector<attention_heads>& heads, bool on_gpu) {
  std::vector<int> lengths = o.lengths;
  if (lengths.empty()) lengths = on_gpu ? std::vector<int>{1024, 8192, 32768} : std::vector<int>{128};
  std::vector<decode_size> all;
  for (const attention_heads& of : heads)
    for (const int keys : lengths)
      for (const operand_format format : o.formats)
        for (const cache_format cache : o.caches)
          all.push_back({of, o.batch, o.rows, keys, o.page_size, format, o.num_sms,
                         cache == cache_format::e4m3 ? operand_format::e4m3 : format});
  return all;
}

/// Measures and tells.
class decode_bench {
 public:
  decode_bench(const world& where, const bench_attention_options& o, bench_report& to)
      : where_{where},
        options_{o},
        to_{to},
        timer_{where},
        run_{begin_gemm_run({&where, 1}, timer_, o.sustained_ms)} {
    to_.table([&](std::ostream& table) { print_decode_header(run_, table); });
  }

  /// True: it was right, or there is no kernel for it.
  bool measure(const decode_size& size) {
    decode_point point{size};
    const bool e4m3 = size.cache == operand_format::e4m3;
    if (size.format == operand_format::fp16)
      e4m3 ? measure_as<float16, float8_e4m3>(point) : measure_as<float16, float16>(point);
    else
      e4m3 ? measure_as<bfloat16, float8_e4m3>(point) : measure_as<bfloat16, bfloat16>(point);
    to_.add(to_json(run_, point));
    to_.table([&](std::ostream& table) { print(run_, point, table); });
    return point.wrong.empty();
  }

 private:
  template <class Value, class Cache>
  void measure_as(decode_point& point) {
    const auto asked = problem_of<Value, Cache>(point.size);
    point.why_not = supports(where_.device(), asked).why_not;
    if (!point.why_not.empty()) return;
    point.caches = point.size.caches(where_.device());
    decode_session<Value, Cache> session{where_, point.size};
    device_buffer<std::byte> scratch{where_, attention_scratch_bytes(where_.device(), asked)};
    void* const at = scratch.size() == 0 ? nullptr : scratch.data();
    const decode_work<Value, Cache> call = [&](const auto& p, stream_ref stream) {
      paged_attention(where_, p, at, stream);
    };
    point.wrong = session.first_wrong(call);
    if (!point.wrong.empty()) return;
    const work run = [&](stream_ref stream) { session.enqueue(call, stream); };
    for (int i = 0; i < options_.repeats; ++i) point.burst_us.push_back(timer_.burst(run));
    if (run_.sustained_ms > 0) point.sustained_us = timer_.sustained(run, run_.sustained_ms);
  }

  world where_;
  const bench_attention_options& options_;
  bench_report& to_;
  paced_timer timer_;
  gemm_run run_;
};

}  // namespace

int run_bench_decode(const bench_attention_options& o, const world& where,
                     const std::vector<attention_heads>& heads, std::ostream& out) {
  require_decode(o);
  bench_report to{o.json, o.json_path, out};
  decode_bench bench{where, o, to};
  bool all_right = true;
  for (const decode_size& size : decode_sizes_of(o, heads, where.device() == device_kind::cuda))
    all_right = bench.measure(size) && all_right;
  to.publish();
  return static_cast<int>(all_right ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
