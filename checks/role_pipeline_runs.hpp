#pragma once
// One producer hands numbered items to readers through a role pipeline, right or with a planted bug, over any back
// end. With two blocks the readers of both wait for the leader's producer.
#include <ostream>
#include <vector>

#include "checks/tampered_context.hpp"
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
  using producer = role_pipeline<stages, true, subs, 1, blocks>;
  using consumer = role_pipeline<stages, false, subs, 1, blocks>;
};

inline constexpr site stage_free = "stage.free", stage_filled = "stage.filled";

enum class pipeline_order { right, commits_unwritten, releases_unread };

struct pipeline_mutant {
  const char* name;
  const char* breaks;  // the edge, as protocol/role_pipeline.hpp names it
  tampering how = {};
  pipeline_order order = pipeline_order::right;
  int from_laps = 1;  // how often the ring must be used for the bug to show
  int from_blocks = 1;
  bool is_race_only = false;  // no value goes wrong where warps are switched at synchronisation only
};
inline std::ostream& operator<<(std::ostream& out, const pipeline_mutant& m) {
  return out << m.name;
}
inline const pipeline_mutant right_pipeline{"none", ""};

template <class Shape>
std::vector<pipeline_mutant> pipeline_mutants() {
  const auto with = [](auto member, auto value) {
    tampering t;
    t.*member = value;
    return t;
  };
  tampering lost = with(&tampering::drops_at, Shape::first_consumer_barrier);
  tampering few = with(&tampering::recounts, Shape::first_consumer_barrier);
  few.recount = Shape::blocks * Shape::readers + 1;
  return {
      {"commits unwritten", "R1", {}, pipeline_order::commits_unwritten},
      {"releases unread", "R2", {}, pipeline_order::releases_unread, 2, 1, true},
      {"stage not acquired", "R2", with(&tampering::skips, stage_free), pipeline_order::right, 2},
      {"stage not awaited", "R1", with(&tampering::skips, stage_filled)},
      {"first acquire waits", "Start", with(&tampering::flips, stage_free)},
      {"first wait falls through", "R1", with(&tampering::flips, stage_filled)},
      {"a release is lost", "Progress", lost, pipeline_order::right, 2},
      {"counts an arrival too many", "Progress", few, pipeline_order::right, 2},
      {"releases in its own block", "Progress", with(&tampering::arrives_here, true), pipeline_order::right,
       1, 2},
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
  hand_over_role(X& x, std::uint32_t* cells, int items, pipeline_order order, Judge& judge)
      : x_{x}, cells_{cells}, items_{items}, order_{order}, judge_{judge} {}

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
  std::uint32_t* cell(int stage, int sub) const { return cells_ + stage * Shape::subs + sub; }

  bool produce(typename Shape::producer end) {
    prompt_engine engine;
    for (int item = 0; item < items_; ++item) {
      if (!end.acquire(x_, at(stage_free, item))) return false;
      const int stage = end.index();
      const bool late = order_ == pipeline_order::commits_unwritten;
      if (!late) write(stage, 0, item);
      if constexpr (Shape::subs == 2) {
        end.template commit_mma<0>(x_, engine);
        if (!late) write(stage, 1, item);
      }
      end.template commit<Shape::subs - 1>(x_);
      for (int sub = 0; late && sub < Shape::subs; ++sub) write(stage, sub, item);
    }
    return true;
  }
  bool consume(typename Shape::consumer end) {
    for (int item = 0; item < items_; ++item) {
      const int stage = end.index();
      if (!end.wait(x_, at(stage_filled, item))) return false;
      const bool late = order_ == pipeline_order::releases_unread;
      if (!late) read(stage, 0, item);
      if constexpr (Shape::subs == 2) {
        if (!end.template wait<1>(x_, at(stage_filled, item))) return false;
        if (!late) read(stage, 1, item);
      }
      end.release(x_);
      for (int sub = 0; late && sub < Shape::subs; ++sub) read(stage, sub, item);
    }
    return true;
  }
  void write(int stage, int sub, int item) {
    x_.elect([&] { x_.write(cell(stage, sub), static_cast<std::uint32_t>(item + 1)); });
  }
  void read(int stage, int sub, int item) {
    x_.elect([&] {
      judge_(x_.read(cell(stage, sub)) == static_cast<std::uint32_t>(item + 1), "a reader reads its item");
    });
  }

  X& x_;
  std::uint32_t* cells_;
  int items_;
  pipeline_order order_;
  Judge& judge_;
};

template <class Shape, class Base, class Judge>
void run_hand_over(const Base& base, std::uint32_t* cells, int items, const pipeline_mutant& m,
                   Judge& judge) {
  tampered<Base> x{base, m.how};
  hand_over_role<Shape, tampered<Base>, Judge>{x, cells, items, m.order, judge}.run();
}

}  // namespace baton::checks
