// kernels/gemm/kernel.hpp itself, without the values of operands: which warp loads, multiplies, stores and frees what, and when.
// Of a box 16 bytes travel, and count as the whole; products read those. Accumulators count the products added up in them, and C
// is that number. Of a group one warp's products and stores are explored, as an exploration has room for 64 participants: what
// the others do, wait for and tell of is all there. Blocks are alone: that a warp of one block arrives in the next phase of
// another's barrier is known by way of copies, and of a wait at block scope the checker tells copies, but nobody who awaits them.
#include "kernels/gemm/kernel.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;
using tensor_config = gemm_kernels::config;
using tensor_params = gemm_kernels::params;

constexpr int box_bytes = 16;

/// Bugs of products, which planted_bug.hpp does not have.
enum class product_bug { none, awaited_too_late };

struct tensor_setting {
  int m = 128, n = 64, steps = 3;
  std::vector<std::int32_t> counts = {};  // of groups; none: one product
  int blocks = 1;
  planted_bug bug = {};
  product_bug of_products = product_bug::none;
};

/// Where what is multiplied lies.
struct product_memory {
  const tensor_params* p;
  const std::byte *a, *b;  // [rows / 64, steps, 16], [rows of B / those of a box, steps, 16]
  int steps, a_boxes, b_boxes;
  product_bug bug;
};

/// The checker's context with the verbs of groups that multiply.
template <tensor_config C>
class group_context : public check::context {
 public:
  group_context(const check::context& x, const product_memory& m) : check::context{x}, memory_{m} {}

  template <int>
  struct group_accumulators {
    std::uint32_t added = 0;
  };
  template <int, class>
  struct group_results {
    std::uint32_t added = 0;
  };
  struct row_values {};

  void launch_dependents() {}
  void await_dependencies() {}
  int group() const { return warp() / group_warps; }
  int warp_of_group() const { return warp() % group_warps; }
  template <int>
  void leave_registers() {}
  template <int>
  void take_registers() {}

  void prefetch(const tensor_map&) {}
  void tensor_load(std::byte* to, const tensor_map& map, box_origin box, mbarrier* b) {
    if (&map == &memory_.p->b)
      return box_part_load(to, of_b(box), box_bytes, b, C.b_box_rows() * operand_tile::row_bytes);
    const int rows = &map == &memory_.p->a ? gemm_kernels::block_m : group_rows;
    box_part_load(to, of_a(box), box_bytes, b, rows * operand_tile::row_bytes);
  }
  void tensor_load_to(std::byte* to, const tensor_map&, box_origin box, mbarrier* b, std::uint32_t blocks) {
    box_part_load_to(to, of_b(box), box_bytes, b, C.b_box_rows() * operand_tile::row_bytes, blocks);
  }
  void box_load(std::byte*, const tensor_map&, const box_place&, mbarrier*) {}  // gemm has none
  void box_load_once(std::byte*, const tensor_map&, const box_place&, mbarrier*) {}
  void box_load_to(std::byte*, const tensor_map&, const box_place&, mbarrier*, std::uint32_t) {}
  void box_store(const tensor_map&, const box_place&, const std::byte*) {}
  void ask_for_box(const tensor_map&, const box_place&) {}
  void tensor_store(const tensor_map&, box_origin box, std::byte* from) {
    if (!is_explored()) return;
    auto* c = static_cast<bfloat16*>(memory_.p->c_rows);
    bulk_store(c + std::int64_t{box.row} * memory_.p->n + box.column, from, box_bytes);
  }

  template <int columns>
  void start_product(group_accumulators<columns>& acc, const operand_tile& a, const operand_tile& b,
                     bool add) {
    acc.added = add ? acc.added + 1 : 1;
    if (!is_explored()) return;
    std::byte* const box = a.from_row((gemm_kernels::producer.groups - group()) * group_rows).at;
    check::context::start_product({{box, box_bytes}, {b.at, box_bytes}});
  }
  template <int newest, class... Done>
  void await_products(Done&...) {
    if (newest > 0 && memory_.bug == product_bug::awaited_too_late)
      check::context::await_products<newest + 1>();
    else
      check::context::await_products<newest>();
  }
  template <int columns>
  void clear(group_accumulators<columns>& acc) {
    acc.added = 0;
  }
  template <int columns, int taken, class T>
  void round(const group_accumulators<columns>& acc, int, group_results<taken, T>& results) {
    results.added = acc.added;
  }
  template <class T, class Rows>
  void put_rows(const swizzled_tile<T>& tile, const Rows& from, int) {
    for (int row = 0; row < group_warp_rows; ++row)
      for (int chunk = 0; chunk < swizzled_tile<T>::chunks; ++chunk)
        write(tile.chunk(row, chunk), vec16{{from.added, from.added, from.added, from.added}});
  }

 private:
  int step_of(box_origin box) const { return box.column / operand_tile::columns; }
  bool is_explored() const { return warp_of_group() == 0; }
  const std::byte* of_a(box_origin box) const {
    const int place = smaller(box.row / group_rows, memory_.a_boxes - 1);
    return memory_.a + (place * memory_.steps + step_of(box)) * box_bytes;
  }
  const std::byte* of_b(box_origin box) const {
    return memory_.b +
           (smaller(box.row / C.b_box_rows(), memory_.b_boxes - 1) * memory_.steps + step_of(box)) *
               box_bytes;
  }

  const product_memory& memory_;
};

template <tensor_config C>
struct laid_out {
  tensor_params p{};
  product_memory memory{};

  laid_out(check::program& program, const tensor_setting& s) {
    const int groups = static_cast<int>(s.counts.size()), b_rows = s.n * larger(groups, 1);
    const int a_boxes = ceil_div(s.m, group_rows), b_boxes = b_rows / C.b_box_rows();
    const auto boxes = [&](int count, const char* name) {
      return program.allocate<std::byte>(static_cast<std::size_t>(count * s.steps * box_bytes), name);
    };
    memory = {&p, boxes(a_boxes, "A"), boxes(b_boxes, "B"), s.steps, a_boxes, b_boxes, s.of_products};
    p.m = s.m;
    p.n = s.n;
    p.k = s.steps * operand_tile::columns;
    p.c_rows = program.allocate<vec16>(static_cast<std::size_t>(s.m * s.n) / 8, "C");
    if (groups == 0) return;
    p.groups = groups;
    auto* counts = program.allocate<std::int32_t>(s.counts.size(), "count");
    auto* firsts = program.allocate<std::int32_t>(s.counts.size(), "first");
    for (int g = 0, first = 0; g < groups; first += counts[g], ++g) {
      counts[g] = s.counts[static_cast<std::size_t>(g)];
      firsts[g] = first;
    }
    p.counts = counts;
    p.firsts = firsts;
  }

  /// A tile of the warp leaves as its first 16 bytes, or as plain rows, of which the first is looked at.
  bool is_whole() const {
    for (int row = 0; row < p.m; row += group_rows)
      for (int column = 0; column < p.n; column += operand_tile::columns) {
        std::uint32_t added;
        std::memcpy(&added, static_cast<const bfloat16*>(p.c_rows) + row * p.n + column, sizeof added);
        if (added != static_cast<std::uint32_t>(memory.steps)) return false;
      }
    return true;
  }
};

template <tensor_config C>
check::result explore_tensors(const tensor_setting& s, const check::bounds& limits) {
  static_assert(gemm_kernels::why_not<C>() == nullptr);
  using pipeline = gemm_kernels::slot_pipeline<C>;
  return check::explore(limits, [s](check::program& program) {
    const gemm_kernels::block_plan<C> plan;
    const auto made = std::make_shared<laid_out<C>>(program, s);
    program.shared_memory(plan.bytes);
    program.clusters_of(C.cluster);
    program.name_shared(plan.a.offset, 1024, C.stages * gemm_kernels::block_m / 8, "slot of A");
    program.name_shared(plan.b.offset, 1024, C.stages * C.columns / 8, "slot of B");
    program.name_shared(plan.results.offset, 1024, 2 * gemm_kernels::consumer_warps * C.places, "place");
    program.name_shared(plan.barriers.offset, sizeof(mbarrier), pipeline::total_stages, "filled");
    program.name_shared(plan.barriers.offset + pipeline::total_stages * sizeof(mbarrier), sizeof(mbarrier),
                        pipeline::total_stages, "free");
    for (int i = 0; i < s.blocks * gemm_kernels::num_warps; ++i)
      program.spawn(0, i / gemm_kernels::num_warps, i % gemm_kernels::num_warps,
                    [made, s, &program](check::context& x) {
                      using context = planted<group_context<C>>;
                      context mine{group_context<C>{x, made->memory}, s.bug, program.names()};
                      gemm_kernels::block_role<C, context>{mine, made->p}.run();
                    });
    program.at_end([made, &program] { program.require(made->is_whole(), "C is the product"); });
  });
}

constexpr tensor_config of_a_block{.columns = 64, .stages = 2, .cluster = 1, .places = 1};
constexpr tensor_config that_keeps{.columns = 128, .stages = 2, .cluster = 1, .places = 1};
constexpr tensor_config of_groups{
    .columns = 64, .stages = 2, .cluster = 1, .places = 1, .grouped = true, .evenly = true};

template <tensor_config C>
exploration tensors_hold(const char* name, const tensor_setting& s) {
  return {name, [s](const check::bounds& limits) { return explore_tensors<C>(s, limits); }};
}

const tensor_setting four_tiles{.m = 256, .n = 128};

mutant wrong_tensors(const char* name, const char* breaks, const planted_bug& bug,
                     product_bug of_products = product_bug::none) {
  return {name,
          breaks,
          {verdict::data_race, verdict::deadlock, verdict::mbarrier_misuse, verdict::garbage_read,
           verdict::broken_promise, verdict::loose_end, verdict::divergence},
          [bug, of_products](const check::bounds& limits) {
            tensor_setting s = four_tiles;
            s.bug = bug;
            s.of_products = of_products;
            return explore_tensors<of_a_block>(s, limits);
          }};
}

}  // namespace

protocol_check gemm_check() {
  using enum change;
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  return {
      .name = "gemm",
      .title = "The matrix product of groups, as it runs, without values",
      .headers = {"src/kernels/gemm/kernel.hpp", "src/protocol/mbarrier_pipeline.hpp"},
      .explorations =
          {tensors_hold<of_a_block>("a block, 1 tile of 3 steps", {}),
           tensors_hold<of_a_block>("a block, 4 tiles of 3 steps", four_tiles),
           tensors_hold<of_a_block>("2 blocks, 3 tiles of 1 step", {.n = 192, .steps = 1, .blocks = 2}),
           tensors_hold<that_keeps>("a block that keeps results, 2 tiles of 3 steps", {.m = 256, .n = 128}),
           tensors_hold<of_groups>("2 blocks, groups of 128, 0, 64 and 8 rows, 2 steps",
                                   {.m = 200, .steps = 2, .counts = {128, 0, 64, 8}, .blocks = 2})},
      .mutants = {
          wrong_tensors("a slot is filled without asking", "P2",
                        {.what = wait, .how = lost, .where = "gemm.slot_free"}),
          wrong_tensors("a slot is multiplied without waiting", "P1",
                        {.what = wait, .how = lost, .where = "gemm.slot_filled"}),
          wrong_tensors("the first slot is waited for as if it were used", "Start",
                        {.what = wait, .how = shifted, .where = "gemm.slot_free", .by = 1}),
          wrong_tensors("a slot that was read is taken for the next one", "P1",
                        {.what = wait, .how = shifted, .where = "gemm.slot_filled", .by = 1}),
          wrong_tensors(
              "the bytes of B are not expected", "P1",
              {.what = verbs::mbarrier_expect, .how = shifted, .by = -64 * operand_tile::row_bytes}),
          wrong_tensors("a release is lost", "Progress",
                        {.what = arrive, .how = lost, .cell = "free", .time = 1}),
          wrong_tensors("a slot is free when half have released it", "P2",
                        {.what = verbs::mbarrier_init, .how = shifted, .cell = "free", .by = -4}),
          wrong_tensors("a slot is released while its products run", "P2", {}, product_bug::awaited_too_late),
          wrong_tensors("results are stored without a fence", "results",
                        {.what = verbs::fence_proxy, .how = lost}),
          wrong_tensors("a place of results is written while it is stored", "results",
                        {.what = verbs::bulk_wait_read, .how = lost})}};
}

}  // namespace baton::checks
