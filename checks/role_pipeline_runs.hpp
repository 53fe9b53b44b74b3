#pragma once
// One producer hands numbered items to readers through a role pipeline, right or with a planted bug, over any back
// end. With two blocks the readers of both wait for the leader's producer. An item has a word for each of two lanes, so
// that a warp's lanes have to meet before it signals.
#include <ostream>
#include <vector>

#include "checks/planted_context.hpp"
#include "protocol/role_pipeline.hpp"

namespace baton::checks {

/// The compile-time part: stages, sub-stages of the producer (1 or 2), blocks (1 or 2), readers in each.
template <int num_stages, int num_subs, int num_blocks, int num_readers>
struct hand_over {
  static constexpr int stages = num_stages;
  static constexpr int subs = num_subs;
  static constexpr int blocks = num_blocks;
  static constexpr int readers = num_readers;
  static constexpr int warps = 1 + readers;
  static constexpr int first_consumer_barrier = stages * subs;
  static constexpr std::size_t shared_bytes = (stages * subs + stages) * sizeof(mbarrier);
  static constexpr int words = 2;  // of an item's part
  static constexpr std::size_t cells = static_cast<std::size_t>(stages * subs * words);
  using producer = role_pipeline<stages, true, subs, 1, blocks>;
  using consumer = role_pipeline<stages, false, subs, 1, blocks>;
};

inline constexpr site stage_free = "stage.free", stage_filled = "stage.filled";

/// For bugs and counterexamples.
template <class Shape, class Names>
void name_hand_over(Names& names) {
  names.name_shared(0, sizeof(mbarrier), Shape::first_consumer_barrier, "producer barrier");
  names.name_shared(Shape::first_consumer_barrier * sizeof(mbarrier), sizeof(mbarrier), Shape::stages,
                    "consumer barrier");
}

struct pipeline_mutant {
  const char* name;
  const char* breaks;  // the edge, as protocol/role_pipeline.hpp names it
  planted_bug bug = {};
  int from_laps = 1;  // how often the ring must be used for the bug to show
  int from_blocks = 1;
  bool is_race_only = false;  // no value goes wrong where warps are switched at synchronisation only
};
inline std::ostream& operator<<(std::ostream& out, const pipeline_mutant& m) {
  return out << m.name;
}
inline const pipeline_mutant right_pipeline{"none", ""};

inline std::vector<pipeline_mutant> pipeline_mutants() {
  using enum change;
  constexpr verbs wait = verbs::mbarrier_wait, arrive = verbs::mbarrier_arrive;
  return {
      {"commits unwritten", "R1", {.what = verbs::write, .how = late, .cell = "stage"}},
      {"releases unread", "R2", {.what = verbs::read, .how = late, .cell = "stage"}, 2, 1, true},
      {"commits without sync_warp", "R1", {.what = verbs::sync_warp, .how = lost, .warp = 0}, 1, 1, true},
      {"releases without sync_warp", "R2", {.what = verbs::sync_warp, .how = lost, .warp = 2}, 2, 1, true},
      {"stage not acquired", "R2", {.what = wait, .how = lost, .where = stage_free}, 2},
      {"stage not awaited", "R1", {.what = wait, .how = lost, .where = stage_filled}},
      {"first acquire waits", "Start", {.what = wait, .how = shifted, .where = stage_free, .by = 1}},
      {"first wait falls through", "R1", {.what = wait, .how = shifted, .where = stage_filled, .by = 1}},
      {"a release is lost",
       "Progress",
       {.what = arrive, .how = lost, .cell = "consumer barrier", .time = 1},
       2},
      {"counts an arrival too many",
       "Progress",
       {.what = verbs::mbarrier_init, .how = shifted, .cell = "consumer barrier", .by = 1},
       2},
      {"releases in its own block", "Progress", {.what = arrive, .how = own}, 1, 2},
  };
}
template <class Shape>
bool is_a_bug(const pipeline_mutant& m, int items) {
  return items > (m.from_laps - 1) * Shape::stages && Shape::blocks >= m.from_blocks;
}

/// One warp: warp 0 of block 0 produces, the others but warp 0 of block 1 read.
template <class Shape, class X, class Judge>
class hand_over_role {
 public:
  hand_over_role(X& x, std::uint32_t* cells, int items, Judge& judge)
      : x_{x}, cells_{cells}, items_{items}, judge_{judge} {}

  bool run() {
    auto* producer = reinterpret_cast<mbarrier*>(x_.shared());
    mbarrier* consumer = producer + Shape::first_consumer_barrier;
    if (x_.warp() == 0) {
      x_.elect([&] {
        for (int i = 0; i < Shape::stages * Shape::subs; ++i) x_.mbarrier_init(producer + i, 1);
        for (int i = 0; i < Shape::stages; ++i)
          x_.mbarrier_init(consumer + i, Shape::blocks * Shape::readers);
        x_.fence_mbarrier_init();
      });
    }
    x_.sync_cluster();
    if (x_.warp() > 0 && !consume({producer, consumer})) return false;
    if (x_.warp() == 0 && x_.cluster_block() == leader_block && !produce({producer, consumer})) return false;
    x_.sync_cluster();
    return true;
  }

 private:
  static wait_site at(site where, int item) {
    return {.where = where, .epoch = static_cast<std::uint32_t>(item)};
  }
  std::uint32_t* cell(int stage, int sub) const {
    return cells_ + (stage * Shape::subs + sub) * Shape::words;
  }

  bool produce(typename Shape::producer end) {
    mma_sync_engine engine;
    for (int item = 0; item < items_; ++item) {
      if (!end.acquire(x_, at(stage_free, item))) return false;
      const int stage = end.index();
      write(stage, 0, item);
      if constexpr (Shape::subs == 2) {
        end.template commit_mma<0>(x_, engine);
        write(stage, 1, item);
      }
      end.template commit<Shape::subs - 1>(x_);
    }
    return true;
  }
  bool consume(typename Shape::consumer end) {
    for (int item = 0; item < items_; ++item) {
      const int stage = end.index();
      if (!end.wait(x_, at(stage_filled, item))) return false;
      read(stage, 0, item);
      if constexpr (Shape::subs == 2) {
        if (!end.template wait<1>(x_, at(stage_filled, item))) return false;
        read(stage, 1, item);
      }
      end.release(x_);
    }
    return true;
  }
  void write(int stage, int sub, int item) {
    x_.each(Shape::words,
            [&](int i) { x_.write(cell(stage, sub) + i, static_cast<std::uint32_t>(item + 1)); });
  }
  void read(int stage, int sub, int item) {
    x_.each(Shape::words, [&](int i) {
      judge_(x_.read(cell(stage, sub) + i) == static_cast<std::uint32_t>(item + 1),
             "a reader reads its item");
    });
  }

  X& x_;
  std::uint32_t* cells_;
  int items_;
  Judge& judge_;
};

template <class Shape, class Base, class Judge>
void run_hand_over(planted<Base>& x, std::uint32_t* cells, int items, Judge& judge) {
  hand_over_role<Shape, planted<Base>, Judge>{x, cells, items, judge}.run();
  judge(!x.has_read_too_late(), "a reader reads its item while it has it");
}

}  // namespace baton::checks
