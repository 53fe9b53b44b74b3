#pragma once
// The memory of the ranks of one exploration, and what the ranks of the model share beside it.
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "checks/exchange_setting.hpp"
#include "checks/far_network.hpp"
#include "kernels/ep/per_expert/params.hpp"
#include "kernels/ep/token_format.hpp"
#include "sim/check.hpp"

namespace baton::checks {

/// One rank's memory in one communicator, and what its kernels are given.
struct exchange_memory {
  ep::shape s;
  std::byte* window;
  std::size_t window_bytes;
  std::byte* local;
  const bfloat16* tokens;        // [rounds, tokens, hidden]
  const std::int32_t* topk_idx;  // [rounds, tokens, top_k]
  bfloat16* expert_output;       // [max_rows, hidden]; fp8 only, else the received rows are given back
  float* out;                    // [tokens, hidden]

  bool is_in_window(const void* p) const {
    const auto* at = static_cast<const std::byte*>(p);
    return at >= window && at < window + window_bytes;
  }
  template <class T>
  T* in_local(std::size_t offset) const {
    return reinterpret_cast<T*>(local + offset);
  }
  std::uint64_t* in_window(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t*>(window + offset);
  }
  ep_local_sync_counters counters() const {
    return {in_local<std::int32_t>(ep::local_layout{s}.counters), s.num_pairs()};
  }
  ep::round_counters* rounds() const { return in_local<ep::round_counters>(ep::local_layout{s}.rounds); }
};

/// A rank as the model sees it. The flags change only where everybody who asks is behind a barrier.
struct exchange_rank_state {
  exchange_memory now;     // of the communicator in use
  int life = 0;            // which communicator that is
  bool gave_up = false;    // the abort word
  bool is_spoilt = false;  // a source of its received rows is damaged
  std::array<bool, 4> block_died{};
};

/// What all ranks of one execution share. Host memory: nobody's bug strikes there.
struct exchange_world {
  std::vector<exchange_memory> lives[2];
  std::vector<exchange_rank_state> ranks;
  std::unique_ptr<far_network> network;  // if some are beyond the p2p group
  std::uint64_t* met[4];                 // [ranks] each: rank r has come to the i-th meeting
  std::uint32_t* alive;                  // never stored to
  std::uint32_t* somebody_gave_up;
  std::set<std::tuple<int, int, int, int>> spoilt;  // (life, round, rank, token): a reply to it was not sent
};

/// Of a block: what combine of three warps keeps, and more.
constexpr std::size_t exchange_shared_bytes = 16384;

/// The words of both phases as a communicator finds them.
inline std::uint64_t idle_word(arrival_policy policy) {
  return policy == arrival_policy::sentinel ? ~std::uint64_t{0} : 0;
}

/// For counterexamples.
inline void name_cells(check::program& p, const exchange_memory& m, const std::string& whose) {
  const ep_local_sync_counters c = m.counters();
  const auto pairs = static_cast<std::size_t>(m.s.num_pairs()),
             ranks = static_cast<std::size_t>(m.s.num_ranks);
  p.name(c.words, "counter" + whose, static_cast<std::size_t>(c.total_size(m.s.num_pairs())));
  p.name(c.finished(0), "finished units" + whose, pairs);
  p.name(c.rank_completion(0), "finished experts" + whose, ranks);
  p.name(c.reserved(0), "finished experts" + whose, pairs);  // with ranks beyond the p2p group
  p.name(c.end_row(0), "row ends and counts" + whose, 2 * pairs);
  p.name(c.rank_prefix(0), "prefix sums" + whose, pairs);
  p.name(c.work(0), "finished replies" + whose, ranks);
  p.name(c.offsets_ready(), "offsets ready" + whose);
  p.name(c.dispatch_departed(), "dispatch departed" + whose);
  p.name(c.combine_ready(), "combine ready" + whose);
  p.name(c.combine_departed(), "combine departed" + whose);
  p.name(m.rounds(), "rounds completed" + whose);
}

inline void name_window(check::program& p, const exchange_memory& m, const std::string& whose) {
  const ep::window_layout window{m.s};
  const auto pairs = static_cast<std::size_t>(m.s.num_pairs());
  const auto pieces = [](std::size_t bytes) { return bytes / sizeof(vec16); };
  p.name(reinterpret_cast<vec16*>(m.window), "messages" + whose, pieces(window.combine_buffer));
  p.name(reinterpret_cast<vec16*>(m.window + window.combine_buffer), "replies" + whose,
         pieces(window.dispatch_count - window.combine_buffer));
  p.name(m.in_window(window.dispatch_count), "dispatch word" + whose, pairs);
  p.name(m.in_window(window.combine_count), "combine word" + whose, pairs);
}

inline void name_send_buffers(check::program& p, const exchange_memory& m, const std::string& whose) {
  const ep::send_layout sends{m.s};
  p.name(reinterpret_cast<vec16*>(m.window + sends.dispatch), "sent messages" + whose,
         (sends.combine - sends.dispatch) / sizeof(vec16));
  p.name(reinterpret_cast<vec16*>(m.window + sends.combine), "sent replies" + whose,
         (sends.bytes - sends.combine) / sizeof(vec16));
}

/// A rank's inputs: tokens differ in every communicator, round and rank.
inline void make_inputs(check::program& p, const exchange_setting& e, int life, exchange_memory& m) {
  const int rank = m.s.rank, tokens = e.of_rank(e.tokens, rank);
  const auto values = static_cast<std::size_t>(e.rounds * tokens * m.s.hidden);
  const auto choices = static_cast<std::size_t>(e.rounds * tokens * e.top_k);
  const std::string whose = " of rank " + std::to_string(rank);
  auto* sent = p.allocate<bfloat16>(values, "tokens" + whose);
  auto* ids = p.allocate<std::int32_t>(choices, "ids" + whose);
  for (std::size_t i = 0; i < values; ++i) {  // up to 251, which bfloat16 has
    const int token = static_cast<int>(i) / m.s.hidden;
    sent[i] = bfloat16{static_cast<float>((101 * life + 37 * rank + 11 * token) % 251 + 1)};
  }
  const int round_ids = tokens * e.top_k;
  for (int i = 0; i < static_cast<int>(choices); ++i) ids[i] = e.id_of(rank, i / round_ids, i % round_ids);
  m.tokens = sent;
  m.topk_idx = ids;
  if (m.s.is_fp8())
    m.expert_output =
        p.allocate<bfloat16>(static_cast<std::size_t>(m.s.max_rows() * m.s.hidden), "expert output" + whose);
  m.out = p.allocate<float>(static_cast<std::size_t>(tokens * m.s.hidden), "result" + whose);
}

/// Memory of a communicator as its creation leaves it: zeroes, idle words, and the epoch to go on from.
inline exchange_memory make_exchange_memory(check::program& p, const exchange_setting& e, int life,
                                            int rank) {
  exchange_memory m{};
  m.s = shape_of(e, rank);
  const std::string whose = (life == 0 ? " of rank " : " anew of rank ") + std::to_string(rank);
  m.window_bytes = e.has_network() ? ep::send_layout{m.s}.bytes : ep::window_layout{m.s}.bytes;
  m.window = p.allocate<std::byte>(m.window_bytes, "window" + whose);
  m.local = p.allocate<std::byte>(ep::local_layout{m.s}.bytes, "local memory" + whose);
  const ep::window_layout window{m.s};
  for (int i = 0; i < m.s.num_pairs(); ++i) {
    const std::uint64_t old = idle_word(e.policy) | std::uint64_t{e.rounds_before} << 32;
    m.in_window(window.dispatch_count)[i] = m.in_window(window.combine_count)[i] = old;
  }
  *m.rounds() = {e.rounds_before, e.rounds_before};
  *m.in_local<ep::device_errors>(ep::local_layout{m.s}.errors) = {ep::device_errors::none_found};
  name_cells(p, m, whose);
  name_window(p, m, whose);
  if (e.has_network()) name_send_buffers(p, m, whose);
  make_inputs(p, e, life, m);
  return m;
}

inline std::shared_ptr<exchange_world> make_exchange_world(check::program& p, const exchange_setting& e) {
  auto w = std::make_shared<exchange_world>();
  if (e.has_network()) w->network = std::make_unique<far_network>(p, e.ranks, e.carriers);
  for (int rank = 0; rank < e.ranks; ++rank) {
    w->lives[0].push_back(make_exchange_memory(p, e, 0, rank));
    w->ranks.push_back({w->lives[0].back()});
  }
  for (int rank = 0; e.then.happens && rank < e.ranks; ++rank) {
    if (e.then.in_place) {
      w->lives[1].push_back(w->lives[0][static_cast<std::size_t>(rank)]);
      make_inputs(p, e, 1, w->lives[1].back());
    } else {
      w->lives[1].push_back(make_exchange_memory(p, e, 1, rank));
    }
  }
  for (auto& words : w->met) words = p.allocate<std::uint64_t>(static_cast<std::size_t>(e.ranks), "has met");
  w->alive = p.allocate<std::uint32_t>(1, "nothing happens");
  w->somebody_gave_up = p.allocate<std::uint32_t>(1, "somebody gave up");
  return w;
}

/// What the network carries out of what a rank sends. As ranks of their own: they have no part in kernels.
inline void add_carriers(check::program& p, exchange_world& world, const exchange_setting& e, int rank) {
  far_network* network = world.network.get();
  network->senders[static_cast<std::size_t>(rank)].warps =
      e.of_rank(e.blocks, rank) * e.of_rank(e.warps, rank);
  for (int c = 0; c < e.carriers; ++c)
    p.spawn(e.ranks + rank * e.carriers + c, 0, 0,
            [network, rank, c](const check::context& x) { network->carry(x, rank, c); });
}

}  // namespace baton::checks
