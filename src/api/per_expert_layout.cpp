#include "api/ep_layout.hpp"
#include "kernels/ep/per_expert/creation.hpp"
#include "kernels/ep/per_expert/launch.hpp"
#include "kernels/ep/per_expert/progress.hpp"

namespace baton {
namespace {

ep::launch_config launch_config_of(const world& w, const ep_config& c, int sms, int slot) {
  const int threads = w.device() == device_kind::cpu ? 64 : 1024;
  return {.format = c.format,
          .arrival = c.arrival,
          .blocks = c.num_sms > 0 ? c.num_sms : sms,
          .threads = c.num_threads > 0 ? c.num_threads : threads,
          .slot = reported_slot(c, slot)};
}

class per_expert_layout final : public ep_layout_calls {
 public:
  per_expert_layout(const world& w, const ep_config& c, int sms, int slot)
      : ranks_{w},
        launch_{launch_config_of(w, c, sms, slot)},
        end_{.s = shape_of(c, w.size(), w.rank()),
             .windows = {},
             .p2p_group_size = c.p2p_group_size > 0 ? c.p2p_group_size : w.size()} {}

  void place(std::byte* local, const ep::all_ranks_array<std::byte>& windows) override {
    end_.local = local;
    end_.windows = windows;
  }
  void make_ready(const creating_host& host) const override { ep::make_ready(end_, launch_.arrival, host); }
  ep::device_errors* errors() const override { return end_.errors(); }
  std::uint64_t* absent() const override { return nullptr; }
  received_tokens received() const override { return end_.received(); }
  int num_sms() const override { return launch_.blocks; }
  void look(const ep::progress_reader& read, ep_state& state) const override {
    ep::look(end_, launch_.arrival, read, state);
  }

  void dispatch_async(const dispatch_input& in, stream_ref stream) override {
    num_tokens_ = in.num_tokens;
    weights_ = in.topk_weights;
    reports_ = {in.host_counts, in.expert_load};
    dispatch_ = with_sms(in.num_sms);
    const token_source from = source_of(in);
    dispatch_.tokens_are_given = from.is_given;
    const ep::round_input input{from.values, in.topk_idx, in.num_tokens, {from.scales}, in.replicas};
    if (end_.goes_beyond_group())
      ep::launch(ranks_, dispatch_, end_.dispatch_async<peer_puts>(input), stream);
    else
      ep::launch(ranks_, dispatch_, end_.dispatch_async(input), stream);
  }
  received_tokens dispatch_wait(stream_ref stream) override {
    ep::launch(ranks_, dispatch_, end_.dispatch_wait(reports_), stream);
    return received();
  }
  received_tokens dispatch(const dispatch_input& in, stream_ref stream) override {
    dispatch_async(in, stream);
    return dispatch_wait(stream);
  }
  void combine_async(const combine_input& in, stream_ref stream) override {
    combine_ = with_sms(in.num_sms);
    if (end_.goes_beyond_group())
      ep::launch(ranks_, combine_, end_.combine_async<peer_puts>(in.expert_output), stream);
    else
      ep::launch(ranks_, combine_, end_.combine_async(in.expert_output), stream);
  }
  void combine_wait(const late_input& in, const output& out, stream_ref stream) override {
    const float* weights = weights_ != nullptr ? weights_ : in.topk_weights;
    std::visit(
        [&](const auto& o) {
          ep::launch(ranks_, combine_, end_.combine_wait(num_tokens_, weights, o, in.shared_output), stream);
        },
        out);
  }
  void combine(const combine_input& in, const output& out, stream_ref stream) override {
    combine_async(in, stream);
    combine_wait({nullptr, in.shared_output}, out, stream);
  }

 private:
  /// Of a call that asks for so many SMs; 0: all. The end divides work among its warps.
  ep::launch_config with_sms(int num_sms) {
    ep::launch_config c = launch_;
    if (num_sms > 0) c.blocks = num_sms;
    end_.warps = c.blocks * (c.threads / warp_lanes);
    return c;
  }

  world ranks_;
  ep::launch_config launch_, dispatch_, combine_;  // of the communicator, of the round
  ep::endpoint end_;
  int num_tokens_ = 0;
  const float* weights_ = nullptr;
  ep::row_reports reports_{};
};

}  // namespace

std::unique_ptr<ep_layout_calls> make_per_expert_layout(const world& w, const ep_config& c, int sms,
                                                        int slot) {
  return std::make_unique<per_expert_layout>(w, c, sms, slot);
}

}  // namespace baton
