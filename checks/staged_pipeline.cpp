// A loader in each block fills the parts of a stage with bulk copies of 32 bytes, each landing in two pieces; the leader's
// issuer reads them. In a pair both blocks' bytes count on the leader's barrier.
#include "protocol/staged_pipeline.hpp"

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

constexpr site part_free = "part.free", part_filled = "part.filled";
constexpr int part_bytes = 32, part_words = part_bytes / 4;

template <int num_stages, int num_parts, int num_blocks>
struct staging {
  static constexpr int stages = num_stages, parts = num_parts, blocks = num_blocks, places = stages * parts;
  using pipeline = staged_pipeline<stages, parts, blocks>;
  static constexpr std::size_t barrier_bytes =
      (pipeline::num_mbars + pipeline::num_mbars % 2) * sizeof(mbarrier);
  static constexpr std::size_t shared_bytes = barrier_bytes + places * part_bytes;

  static mbarrier* barriers(std::byte* shared) { return reinterpret_cast<mbarrier*>(shared); }
  static std::uint32_t* place(std::byte* shared, int stage, int part) {
    return reinterpret_cast<std::uint32_t*>(shared + barrier_bytes) + (stage * parts + part) * part_words;
  }
  static constexpr std::uint32_t value(int item, int part, int block) {
    return static_cast<std::uint32_t>((item * parts + part) * blocks + block + 1);
  }
};

/// Global memory: what is loaded, and where the blocks' shared memory lies.
struct staging_memory {
  std::uint32_t* source = nullptr;  // [item, part, block, word]
  std::byte** shared_of = nullptr;  // [block]
};

template <class S, class X>
class staging_role {
 public:
  staging_role(X& x, check::program& p, const staging_memory& m, int items)
      : x_{x}, program_{p}, memory_{m}, items_{items} {}

  void run() {
    if (x_.warp() == 0) {
      x_.write(memory_.shared_of + x_.cluster_block(), x_.shared());
      for (int i = 0; i < S::pipeline::num_mbars; ++i) x_.mbarrier_init(S::barriers(x_.shared()) + i, 1);
      x_.fence_mbarrier_init();
    }
    x_.sync_cluster();
    const typename S::pipeline pipeline{S::barriers(x_.shared())};
    if (x_.warp() == 0 && !load(pipeline.producer())) return;
    if (x_.warp() == 1 && x_.cluster_block() == leader_block && !use(pipeline.consumer())) return;
    x_.sync_cluster();
  }

 private:
  static wait_site at(site where, int item) {
    return {.where = where, .epoch = static_cast<std::uint32_t>(item)};
  }

  bool load(typename S::pipeline::producer_end end) {
    for (int item = 0; item < items_; ++item) {
      if (!load_part<0>(end, item)) return false;
      if constexpr (S::parts == 2)
        if (!load_part<1>(end, item)) return false;
      end.step();
    }
    return true;
  }
  template <int part>
  bool load_part(typename S::pipeline::producer_end& end, int item) {
    if (!end.template producer_acquire<part>(x_, at(part_free, item))) return false;
    const int block = x_.cluster_block();
    mbarrier* filled = end.producer_mbar(part);
    if (block == leader_block) x_.mbarrier_arrive_expect(filled, S::blocks * part_bytes);
    std::byte* leader = x_.read(memory_.shared_of + leader_block);
    mbarrier* counted = S::barriers(leader) + (filled - S::barriers(x_.shared()));
    const std::uint32_t* from = memory_.source + ((item * S::parts + part) * S::blocks + block) * part_words;
    x_.bulk_load(S::place(x_.shared(), end.index(), part), from, part_bytes, counted);
    return true;
  }

  bool use(typename S::pipeline::consumer_end end) {
    for (int item = 0; item < items_; ++item) {
      if (!use_part<0>(end, item)) return false;
      if constexpr (S::parts == 2)
        if (!use_part<1>(end, item)) return false;
    }
    return true;
  }
  template <int part>
  bool use_part(typename S::pipeline::consumer_end& end, int item) {
    mma_sync_engine engine;
    const int stage = end.index();
    if (!end.template consumer_wait<part>(x_, at(part_filled, item))) return false;
    read(stage, part, item);
    end.template consumer_release<part>(x_, engine);
    return true;
  }
  void read(int stage, int part, int item) {
    for (int block = 0; block < S::blocks; ++block) {
      const std::uint32_t* last = S::place(x_.read(memory_.shared_of + block), stage, part) + part_words - 1;
      program_.require(x_.read(last) == S::value(item, part, block), "the issuer reads the part of its item");
    }
  }

  X& x_;
  check::program& program_;
  const staging_memory& memory_;
  int items_;
};

template <class S>
check::result explore_staging(int items, const planted_bug& bug, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    staging_memory memory;
    memory.source = p.allocate<std::uint32_t>(
        static_cast<std::size_t>(items * S::parts * S::blocks * part_words), "source");
    memory.shared_of = p.allocate<std::byte*>(S::blocks, "address of shared memory");
    for (int i = 0; i < items * S::parts * S::blocks * part_words; ++i)
      memory.source[i] = static_cast<std::uint32_t>(i / part_words + 1);
    p.shared_memory(S::shared_bytes);
    p.name_shared(0, sizeof(mbarrier), S::places, "producer barrier");
    p.name_shared(S::places * sizeof(mbarrier), sizeof(mbarrier), S::places, "consumer barrier");
    p.name_shared(S::barrier_bytes, part_bytes, S::places, "part");
    p.clusters_of(S::blocks);
    for (int block = 0; block < S::blocks; ++block) {
      for (int warp = 0; warp < (block == leader_block ? 2 : 1); ++warp) {
        p.spawn(0, block, warp, [=, &p](check::context& base) {
          planted<check::context> x{base, bug, p.names()};
          staging_role<S, planted<check::context>>{x, p, memory, items}.run();
        });
      }
    }
  });
}

template <class S>
exploration staging_holds(int items) {
  return {std::to_string(S::stages) + " stages of " + std::to_string(S::parts) + ", " +
              (S::blocks == 1 ? "1 block, " : "a pair of blocks, ") + std::to_string(items) + " items",
          [items](const check::bounds& limits) { return explore_staging<S>(items, {}, limits); }};
}

template <class S>
std::vector<mutant> staging_mutants(int items) {
  using enum change;
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  const auto wrong = [items](const char* name, const char* breaks, const planted_bug& bug) {
    return mutant{
        name,
        breaks,
        {verdict::data_race, verdict::broken_promise, verdict::deadlock, verdict::mbarrier_misuse,
         verdict::garbage_read},
        [items, bug](const check::bounds& limits) { return explore_staging<S>(items, bug, limits); }};
  };
  return {
      wrong("a part is overwritten without asking", "K2", {.what = wait, .how = lost, .where = part_free}),
      wrong("a part is read without waiting", "K1", {.what = wait, .how = lost, .where = part_filled}),
      wrong("the loader's first acquire waits", "Start",
            {.what = wait, .how = shifted, .where = part_free, .by = 1}),
      wrong("the issuer waits for the other parity", "K1",
            {.what = wait, .how = shifted, .where = part_filled, .by = 1}),
      wrong("half of the bytes are expected", "K1",
            {.what = verbs::mbarrier_expect, .how = shifted, .by = -S::blocks * part_bytes / 2}),
      wrong("a release is lost", "Progress",
            {.what = arrive, .how = lost, .cell = "consumer barrier", .time = 1}),
      wrong("a release counts for half", "Progress",
            {.what = verbs::mbarrier_init, .how = shifted, .cell = "consumer barrier", .by = 1}),
      wrong("a part is released unread", "K2", {.what = verbs::read, .how = late, .cell = "part"}),
      wrong("releases reach the leader only", "Progress", {.what = arrive, .how = own})};
}

}  // namespace

protocol_check staged_pipeline_check() {
  using whole = staging<2, 2, 2>;
  constexpr int items = 5;
  return {.name = "staged_pipeline",
          .title = "A ring that the copy engine fills in parts",
          .headers = {"src/protocol/staged_pipeline.hpp"},
          .explorations = {staging_holds<staging<2, 1, 1>>(2), staging_holds<staging<2, 1, 1>>(items),
                           staging_holds<staging<3, 2, 1>>(7), staging_holds<staging<2, 1, 2>>(items),
                           staging_holds<whole>(items)},
          .mutants = staging_mutants<whole>(items)};
}

}  // namespace baton::checks
