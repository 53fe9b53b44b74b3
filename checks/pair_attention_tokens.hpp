#pragma once
// Work for pair attention that moves tokens instead of numbers: one small cell for everything the barriers
// guard. A missing edge is a race on a cell or a stale token. For the machine and the checker.
//
// The agents of the hardware, and how they are modelled:
//   copy engine     bulk_load and bulk_store of one 16-byte token each. As the pair's copies do, the follower's
//                   copies count on the leader's barrier, through a pointer exchanged in the prologue
//   tensor core     a warp of the leader, the first idle one. It takes commands from the issuer in order, each
//                   at most one issue of products and the commit that follows it, does the products, arrives.
//                   Command k has its own mbarrier, so nothing the core does is ordered before what the issuer
//                   does next, except through the pipeline's own barriers
//
// Not visible here: a missing proxy fence between P's stores and the products, because the modelled core reads
// P as a warp does.
//
//   cell       written by, with                                      read by, expecting
//   slot, Q    copy engine: tile, stage and block                    core: those of its step
//   S          core: the tile and how many stages are summed         softmax: all stages of its tile
//   P          softmax: tile                                         core: tile of its step
//   O          core: tile, stages summed; correction: multiplied     each other's last token
//   factor     softmax: tile                                         correction: tile
#include <cstddef>
#include <cstdint>

#include "protocol/pair_attention/shape.hpp"

namespace baton::checks {

/// What the issuer asks of the modelled tensor core.
struct alignas(8) tensor_command {
  std::int16_t tile;  // mma_step, if there is one
  std::int8_t stage, slot, buffer, half;
  std::int8_t has_step;
  std::int8_t commit;  // the barrier to arrive at, by index; both_blocks added
  static constexpr std::int8_t both_blocks = 64;
};

/// Tokens: what a cell holds once something has been done for a tile. 0: nothing yet.
struct pair_attention_token {
  static constexpr std::uint32_t of(int kind, int tile, int part) {
    return static_cast<std::uint32_t>((kind << 24) + ((tile + 1) << 8) + part);
  }
  static constexpr std::uint32_t query(int block, int stage) { return of(1, block, stage); }
  static constexpr std::uint32_t key(int tile, int block, int stage) {
    return of(2, tile, 2 * stage + block);
  }
  static constexpr std::uint32_t value(int tile, int block, int part) {
    return of(3, tile, 2 * part + block);
  }
  static constexpr std::uint32_t scores(int tile, int stage) { return of(4, tile, stage); }
  static constexpr std::uint32_t weights(int tile) { return of(5, tile, 0); }
  static constexpr std::uint32_t grown(int tile, int stage) { return of(6, tile, stage); }
  static constexpr std::uint32_t rescaled(int tile) { return of(7, tile, 0); }
  static constexpr std::uint32_t factor(int tile) { return of(8, tile, 0); }
  static constexpr std::uint32_t result(int block, int stage) { return of(9, block, stage); }
};

/// The cells of one pair in memory of the device, and where the blocks' shared memory keeps the others.
template <class Shape>
class pair_attention_cells {
 public:
  using token = pair_attention_token;
  static constexpr int blocks = 2;
  static constexpr int warps = Shape::warps_per_role;
  static constexpr int halves = Shape::output_halves;
  static constexpr int v_parts = halves * Shape::pv_stages;

  /// allocate<T>(count, name) gives zeroed memory.
  template <class Allocate>
  static pair_attention_cells make(int tiles, Allocate allocate) {
    constexpr int qk = Shape::qk_stages;
    pair_attention_cells c;
    c.scores_ = allocate.template operator()<std::uint32_t>(blocks * 2 * warps, "S");
    c.weights_ = allocate.template operator()<std::uint32_t>(blocks * warps, "P");
    c.output_ = allocate.template operator()<std::uint32_t>(blocks * halves * warps, "O");
    c.factors_ = allocate.template operator()<std::uint32_t>(blocks * warps, "factor");
    c.queries_ = allocate.template operator()<vec16>(blocks * qk, "Q in memory");
    c.keys_ = allocate.template operator()<vec16>(tiles * blocks * qk, "K in memory");
    c.values_ = allocate.template operator()<vec16>(tiles * blocks * v_parts, "V in memory");
    c.results_ = allocate.template operator()<vec16>(blocks * qk, "result");
    c.commands_ = allocate.template operator()<tensor_command>(num_commands(tiles), "command");
    c.shared_of_ = allocate.template operator()<std::byte*>(blocks, "address of shared memory");
    for (int block = 0; block < blocks; ++block) {
      for (int i = 0; i < qk; ++i) *c.query(block, i) = {{token::query(block, i)}};
      for (int n = 0; n < tiles; ++n) {
        for (int i = 0; i < qk; ++i) *c.key(n, block, i) = {{token::key(n, block, i)}};
        for (int i = 0; i < v_parts; ++i) *c.value(n, block, i) = {{token::value(n, block, i)}};
      }
    }
    return c;
  }

  constexpr std::uint32_t* scores(int block, int buffer, int warp) const {
    return scores_ + (block * 2 + buffer) * warps + warp;
  }
  constexpr std::uint32_t* weights(int block, int warp) const { return weights_ + block * warps + warp; }
  constexpr std::uint32_t* output(int block, int half, int warp) const {
    return output_ + (block * halves + half) * warps + warp;
  }
  constexpr std::uint32_t* factor(int block, int warp) const { return factors_ + block * warps + warp; }
  constexpr vec16* query(int block, int stage) const { return queries_ + block * Shape::qk_stages + stage; }
  constexpr vec16* key(int tile, int block, int stage) const {
    return keys_ + (tile * blocks + block) * Shape::qk_stages + stage;
  }
  constexpr vec16* value(int tile, int block, int part) const {
    return values_ + (tile * blocks + block) * v_parts + part;
  }
  constexpr vec16* result(int block, int stage) const { return results_ + block * Shape::qk_stages + stage; }

  /// Commits of a tile: one a slot, one for S, one an output half.
  static constexpr int num_commands(int tiles) { return tiles * (Shape::slots_per_tile + 1 + halves); }

  // Shared memory of a block: the barriers, the slots, Q, and the barriers of the commands.
  BATON_FN static mbarrier* barriers(std::byte* shared) { return reinterpret_cast<mbarrier*>(shared); }
  BATON_FN static vec16* slots(std::byte* shared) {
    return reinterpret_cast<vec16*>(shared + warp_lanes * sizeof(mbarrier));
  }
  BATON_FN static vec16* q(std::byte* shared) { return slots(shared) + Shape::kv_stages; }
  BATON_FN static mbarrier* issued(std::byte* shared) {
    return reinterpret_cast<mbarrier*>(q(shared) + Shape::qk_stages);
  }
  static constexpr std::size_t shared_bytes(int tiles) {
    const int tokens = Shape::kv_stages + Shape::qk_stages;
    return static_cast<std::size_t>(warp_lanes + num_commands(tiles) + num_commands(tiles) % 2) *
               sizeof(mbarrier) +
           static_cast<std::size_t>(tokens) * sizeof(vec16);
  }

  /// After the run, on the host: whether every result has arrived in memory.
  static bool stored(const pair_attention_cells& c) {
    bool all = true;
    for (int block = 0; block < blocks; ++block)
      for (int i = 0; i < Shape::qk_stages; ++i)
        all = all && c.result(block, i)->word[0] == token::result(block, i);
    return all;
  }

  constexpr tensor_command* command(int k) const { return commands_ + k; }
  constexpr std::byte** shared_of(int block) const { return shared_of_ + block; }

 private:
  std::uint32_t* scores_ = nullptr;   // [block, buffer, warp]
  std::uint32_t* weights_ = nullptr;  // [block, warp]
  std::uint32_t* output_ = nullptr;   // [block, half, warp]
  std::uint32_t* factors_ = nullptr;  // [block, warp]
  vec16* queries_ = nullptr;          // [block, stage]
  vec16* keys_ = nullptr;             // [tile, block, stage]
  vec16* values_ = nullptr;           // [tile, block, half, stage]
  vec16* results_ = nullptr;          // [block, stage]
  tensor_command* commands_ = nullptr;
  std::byte** shared_of_ = nullptr;  // [block]
};

/// One warp's Work. judge(holds, text) hears every expectation.
template <class Shape, async_exec_context X, class Judge>
class pair_attention_tokens {
 public:
  using cells = pair_attention_cells<Shape>;
  using token = pair_attention_token;

  BATON_FN pair_attention_tokens(X& x, const cells& c, int num_tiles, Judge& judge)
      : c_{c}, num_tiles_{num_tiles}, judge_{judge}, block_{x.cluster_block()}, warp_{x.warp()} {}

  BATON_FN void prologue(X& x) {
    x.elect([&] {
      x.write(c_.shared_of(block_), x.shared());
      if (block_ != leader_block) return;
      for (int k = 0; k < cells::num_commands(num_tiles_); ++k) x.mbarrier_init(issued(x) + k, 1);
    });
  }

  BATON_FN void load(X& x, const kv_piece& piece, int slot, mbarrier* filled) {
    constexpr int bytes = sizeof(vec16);
    const vec16* from = piece.half < 0 ? c_.key(piece.tile, block_, piece.stage)
                                       : c_.value(piece.tile, block_, part(piece.half, piece.stage));
    x.elect([&] {
      if (block_ == leader_block)
        x.mbarrier_arrive_expect(filled, cells::blocks * (piece.with_q ? 2 : 1) * bytes);
      mbarrier* counted =
          cells::barriers(shared_of(x, leader_block)) + (filled - cells::barriers(x.shared()));
      copy(x, cells::slots(x.shared()) + slot, from, counted);
      if (piece.with_q) copy(x, cells::q(x.shared()) + piece.stage, c_.query(block_, piece.stage), counted);
    });
  }

  BATON_FN void issue(X&, const mma_step& step) { next_ = command_of(step); }

  BATON_FN void commit(X& x, mbarrier* b, commit_to to) {
    const int both = to == commit_to::both_blocks ? tensor_command::both_blocks : 0;
    next_.commit = static_cast<std::int8_t>(b - cells::barriers(x.shared()) + both);
    x.sync_warp();
    x.elect([&] {
      x.write(c_.command(num_issued_), next_);
      x.mbarrier_arrive(issued(x) + num_issued_, 1);
    });
    ++num_issued_;
    next_ = {};
  }

  BATON_FN void read_scores(X& x, int tile, int buffer) {
    x.elect([&] {
      expect(x.read(c_.scores(block_, buffer, warp_)) == token::scores(tile, Shape::qk_stages - 1),
             "softmax reads the finished scores of its tile");
    });
  }
  BATON_FN void choose_factor(X& x, int) {
    x.elect([&] { x.write(c_.factor(block_, warp_), 0u); });
  }
  BATON_FN void write_weights(X& x, int tile) {
    x.elect([&] {
      x.write(c_.weights(block_, warp_), token::weights(tile));
      x.fence_proxy_async();
    });
  }
  BATON_FN void write_factor(X& x, int tile) {
    x.elect([&] { x.write(c_.factor(block_, warp_), token::factor(tile)); });
  }
  BATON_FN void read_factor(X& x, int tile) {
    x.elect([&] {
      for (int warp = 0; warp < cells::warps; ++warp)
        expect(x.read(c_.factor(block_, warp)) == token::factor(tile),
               "correction reads the factor of its tile");
    });
  }
  BATON_FN void rescale(X& x, int tile, int half) {
    x.elect([&] {
      std::uint32_t* o = c_.output(block_, half, warp_ - cells::warps);
      expect(x.read(o) == token::grown(tile - 1, Shape::pv_stages - 1),
             "correction multiplies the output of the tile before, complete");
      x.write(o, token::rescaled(tile));
    });
  }
  BATON_FN void finish(X& x, int num_tiles) {
    x.elect([&] {
      for (int half = 0; half < cells::halves; ++half)
        expect(x.read(c_.output(block_, half, warp_)) == token::grown(num_tiles - 1, Shape::pv_stages - 1),
               "the epilogue reads the finished output");
      vec16* staging = cells::q(x.shared());
      for (int i = warp_; i < Shape::qk_stages; i += cells::warps)
        x.write(staging + i, vec16{{token::result(block_, i)}});
      x.fence_proxy_async();
      for (int i = warp_; i < Shape::qk_stages; i += cells::warps)
        x.bulk_store(as_bytes(c_.result(block_, i)), as_bytes(staging + i), sizeof(vec16));
      x.bulk_commit();
    });
    x.bulk_wait_read();
  }

  /// The leader's first idle warp is the tensor core.
  BATON_FN bool idle(X& x) {
    if (block_ != leader_block || warp_ != Shape::loader_warp + 1) return true;
    for (int k = 0; k < cells::num_commands(num_tiles_); ++k) {
      const wait_site at = attention_site("attention.issued", k);
      if (!x.template mbarrier_wait<scope::block>(issued(x) + k, parity::even, at)) return false;
      x.elect([&] {
        const tensor_command c = x.read(c_.command(k));
        if (c.has_step != 0) multiply(x, c);
        const bool both = c.commit >= tensor_command::both_blocks;
        arrive_for_commit(x, cells::barriers(x.shared()) + c.commit % tensor_command::both_blocks,
                          both ? commit_to::both_blocks : commit_to::own_block);
      });
    }
    return true;
  }

 protected:
  static constexpr int part(int half, int stage) { return half * Shape::pv_stages + stage; }
  BATON_FN static mbarrier* issued(X& x) { return cells::issued(x.shared()); }
  BATON_FN static std::byte* as_bytes(const vec16* v) {
    return reinterpret_cast<std::byte*>(const_cast<vec16*>(v));
  }
  BATON_FN static tensor_command command_of(const mma_step& s) {
    const auto small = [](int v) { return static_cast<std::int8_t>(v); };
    return {static_cast<std::int16_t>(s.tile),
            small(s.stage),
            small(s.slot),
            small(s.buffer),
            small(s.half),
            1,
            0};
  }
  BATON_FN static void copy(X& x, vec16* to, const vec16* from, mbarrier* counted) {
    x.bulk_load(as_bytes(to), as_bytes(from), sizeof(vec16), counted);
  }
  BATON_FN std::byte* shared_of(X& x, int block) const { return x.read(c_.shared_of(block)); }
  BATON_FN void expect(bool holds, const char* text) { judge_(holds, text); }

  BATON_FN void multiply(X& x, const tensor_command& c) {
    for (int block = 0; block < cells::blocks; ++block) {
      const std::uint32_t operand = x.read(cells::slots(shared_of(x, block)) + c.slot).word[0];
      if (c.half < 0) {
        expect(operand == token::key(c.tile, block, c.stage), "the product reads its K stage");
        expect(x.read(cells::q(shared_of(x, block)) + c.stage).word[0] == token::query(block, c.stage),
               "the product reads Q");
        for (int warp = 0; warp < cells::warps; ++warp) sum_scores(x, c, c_.scores(block, c.buffer, warp));
      } else {
        expect(operand == token::value(c.tile, block, part(c.half, c.stage)),
               "the product reads its V stage");
        for (int warp = 0; warp < cells::warps; ++warp) {
          expect(x.read(c_.weights(block, warp)) == token::weights(c.tile),
                 "the product reads P of its tile");
          grow(x, c, c_.output(block, c.half, warp));
        }
      }
    }
  }
  BATON_FN void sum_scores(X& x, const tensor_command& c, std::uint32_t* s) {
    if (c.stage > 0) expect(x.read(s) == token::scores(c.tile, c.stage - 1), "scores sum up stage by stage");
    x.write(s, token::scores(c.tile, c.stage));
  }
  BATON_FN void grow(X& x, const tensor_command& c, std::uint32_t* o) {
    if (c.stage > 0 || c.tile > 0) {
      const std::uint32_t before = c.stage > 0 ? token::grown(c.tile, c.stage - 1) : token::rescaled(c.tile);
      expect(x.read(o) == before, "the output grows once it has been multiplied");
    }
    x.write(o, token::grown(c.tile, c.stage));
  }

  cells c_;
  int num_tiles_;
  Judge& judge_;
  int block_, warp_;
  int num_issued_ = 0;
  tensor_command next_{};
};

}  // namespace baton::checks
