#include <fmt/format.h>

#include <type_traits>

#include "api/ep_layout.hpp"
#include "baton/error.hpp"
#include "kernels/ep/late_weights/launch.hpp"
#include "kernels/ep/per_rank/launch.hpp"
#include "kernels/ep/per_rank/progress.hpp"
#include "kernels/ep/per_rank_chunks/launch.hpp"

namespace baton {
namespace {

using ep::per_rank::half;

/// Endpoints are those of lines, of chunks or of flags; the kernels' doors have the same names.
template <class Endpoint>
class per_rank_layout final : public ep_layout_calls {
 public:
  per_rank_layout(const world& w, const ep_config& c, int sms, int slot)
      : ranks_{w},
        limits_{.blocks = c.num_sms > 0 ? c.num_sms : sms,
                .threads = c.num_threads == 0 && w.device() == device_kind::cpu ? cpu_threads : c.num_threads,
                .slot = reported_slot(c, slot),
                .threads_are_asked_for = c.num_threads != 0},
        weights_come_late_{c.weights_at_combine},
        end_{Endpoint::of(shape_of(c, w.size(), w.rank()))} {
    if constexpr (std::is_same_v<Endpoint, ep::per_rank_chunks::endpoint>) {
      end_ = Endpoint::of(end_.s, has_many_blocks(c, w.size()));
      if (goes_beyond_group(c, w.size())) end_.p2p_group_size = c.p2p_group_size;
      end_.forwards = has_two_levels(c, w.size());
    }
  }

  void place(std::byte* local, const ep::all_ranks_array<std::byte>& windows) override {
    end_.local = local;
    end_.windows = windows;
  }
  void make_ready(const creating_host& host) const override {
    host.together([&] {
      host.fill(end_.errors(), 0xff, sizeof(ep::device_errors));
      load_code();
    });
  }
  ep::device_errors* errors() const override { return end_.errors(); }
  std::uint64_t* absent() const override { return &end_.epochs()->absent; }
  received_tokens received() const override { return end_.received(); }
  int num_sms() const override { return limits_.blocks; }
  void look(const ep::progress_reader& read, ep_state& state) const override {
    ep::per_rank::look(end_, end_.window_cells(), read, state);
  }

  void dispatch_async(const dispatch_input& in, stream_ref stream) override { send(in, half::send, stream); }
  received_tokens dispatch_wait(stream_ref stream) override {
    launch(
        ranks_, end_, limits(half::receive, dispatch_sms_),
        ep::per_rank::round_input{.topk_idx = kind_of_ids_, .num_tokens = num_tokens_, .reports = reports_},
        stream);
    return received();
  }
  received_tokens dispatch(const dispatch_input& in, stream_ref stream) override {
    send(in, half::both, stream);
    return received();
  }
  void combine_async(const combine_input& in, stream_ref stream) override {
    combine_sms_ = in.num_sms;
    const output to = ends_in_bf16_ ? output{ep::store_bf16{}} : output{ep::store_fp32{}};
    run({.expert_output = in.expert_output, .num_tokens = num_tokens_}, to, half::send, stream,
        in.topk_weights);
  }
  void combine_wait(const late_input& in, const output& out, stream_ref stream) override {
    ends_in_bf16_ = std::holds_alternative<ep::store_bf16>(out);
    run({.num_tokens = num_tokens_, .shared_output = in.shared_output}, out, half::receive, stream);
  }
  void combine(const combine_input& in, const output& out, stream_ref stream) override {
    combine_sms_ = in.num_sms;
    run({in.expert_output, num_tokens_, in.shared_output}, out, half::both, stream, in.topk_weights);
  }

 private:
  static constexpr int cpu_threads = 96;  // a warp for each role

  ep::per_rank::launch_limits limits(half which, int num_sms) const {
    ep::per_rank::launch_limits all = limits_;
    if (num_sms > 0) all.blocks = num_sms;
    all.which = which;
    return all;
  }
  void send(const dispatch_input& in, half which, stream_ref stream) {
    num_tokens_ = in.num_tokens;
    dispatch_sms_ = in.num_sms;
    reports_ = {in.host_counts, in.expert_load};
    kind_of_ids_.is_wide = in.topk_idx.is_wide;
    const token_source from = source_of(in);
    launch(ranks_, end_, limits(which, in.num_sms),
           ep::per_rank::round_input{.tokens = from.values,
                                     .topk_idx = in.topk_idx,
                                     .topk_weights = in.topk_weights,
                                     .num_tokens = in.num_tokens,
                                     .input_scales = {from.scales},
                                     .tokens_are_given = from.is_given,
                                     .reports = reports_,
                                     .replicas = in.replicas},
           stream);
  }
  void run(const ep::per_rank::combine_input& in, const output& out, half which, stream_ref stream,
           const float* topk_weights = nullptr) {
    const ep::per_rank::launch_limits of_combine = limits(which, combine_sms_);
    if (weights_come_late_ && which != half::receive)
      launch(ranks_, of_combine, end_.weights({topk_weights, num_tokens_}), stream);
    enqueue(of_combine, in, out, stream);
  }
  /// That of all kernels that may follow a round's dispatch. CUDA loads code at its first launch, and may wait for what runs on
  /// the device when it does: a dispatch that waits for a rank whose own the same thread would enqueue next.
  void load_code() const {
    for (const half which : {half::both, half::send, half::receive}) {
      ep::per_rank::launch_limits of_combine = limits(which, 0);
      of_combine.only_loads = true;
      for (const int tokens : {1, end_.s.max_tokens}) {
        enqueue(of_combine, {.num_tokens = tokens}, ep::store_fp32{}, {});
        enqueue(of_combine, {.num_tokens = tokens}, ep::store_bf16{}, {});
      }
      if (weights_come_late_) launch(ranks_, of_combine, end_.weights({nullptr, end_.s.max_tokens}), {});
    }
  }
  void enqueue(const ep::per_rank::launch_limits& of_combine, const ep::per_rank::combine_input& in,
               const output& out, stream_ref stream) const {
    if (const auto* fp32 = std::get_if<ep::store_fp32>(&out))
      launch(ranks_, end_, of_combine, in, *fp32, stream);
    else if (const auto* bf16 = std::get_if<ep::store_bf16>(&out))
      launch(ranks_, end_, of_combine, in, *bf16, stream);
  }

  world ranks_;
  ep::per_rank::launch_limits limits_;
  bool weights_come_late_;
  Endpoint end_;
  int num_tokens_ = 0, dispatch_sms_ = 0, combine_sms_ = 0;
  ep::row_reports reports_{};
  // Both halves of a round are one kernel that runs twice: its code is there the second time, and profiles tell it as one.
  topk_ids kind_of_ids_{};     // without ids
  bool ends_in_bf16_ = false;  // did when combine_wait was called last, and will again
};

}  // namespace

std::unique_ptr<ep_layout_calls> make_per_rank_layout(const world& w, const ep_config& c, int sms, int slot) {
  if (transfer_of(c, w.size()) == ep_transfer::chunks)
    return std::make_unique<per_rank_layout<ep::per_rank_chunks::endpoint>>(w, c, sms, slot);
  if (transfer_of(c, w.size()) == ep_transfer::flags)
    return std::make_unique<per_rank_layout<ep::per_rank::flag_endpoint>>(w, c, sms, slot);
  return std::make_unique<per_rank_layout<ep::per_rank::endpoint>>(w, c, sms, slot);
}

}  // namespace baton
