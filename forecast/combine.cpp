// What experts made of tokens on its way back, with one level or two.
#include <algorithm>
#include <utility>

#include "forecast/senders.hpp"

namespace baton::forecast {
namespace {

constexpr std::uint32_t warps_that_send = 132 * 32;  // of an H200, all of whose multiprocessors take part

/// What is known of a block's sums in a group: when the replies that they are of come to their forwarder.
struct gathered {
  double soonest = 0, last = 0;
  bool has_some = false;

  void add(const train& t) {
    soonest = has_some ? std::min(soonest, t.first) : t.first;
    last = std::max(last, t.last);
    has_some = true;
  }
  /// One token's sum leaves when its last reply is there. Of several tokens some have all of theirs as soon as any is there.
  train of(std::uint32_t tokens) const {
    train sum;
    sum.first = tokens == 1 ? last : soonest;
    sum.last = last;
    sum.count = tokens;
    return sum;
  }
};

struct combining {
  const question& q;
  const message_sizes& sizes;
  const routed& routing;
  phase all;
  std::vector<train> near{}, far{};
  std::vector<std::uint32_t> sum_of_near{};  // two levels: 1 + which sum a train of `near` is for; 0: none
  std::vector<gathered> sums{};              // two levels: [source, group, block]

  std::size_t sum_at(int source, int group, int block) const {
    const auto size = [](int n) { return static_cast<std::size_t>(n); };
    return (size(source) * size(q.groups()) + size(group)) * size(routing.blocks()) + size(block);
  }

  void send(int from) {
    sender out{q, all, from};
    if (q.per_expert()) {
      send_rows(out, from);
      send_words(out, from);
    } else if (sizes.near_in_chunks || q.groups() > 1) {
      send_sums_by_token(out, from);
    } else {
      for (int i = 1; i < q.ranks; ++i) reply(out, from, (from + i) % q.ranks, from);
    }
  }

  /// Chunks: each token's number in turn, for all sources. Lines are source by source.
  void send_sums_by_token(sender& out, int from) {
    for (int block = 0; block < routing.blocks(); ++block) {
      const sender::block begun = out.begin_block(near, far);
      for (int i = 1; i < q.ranks; ++i) reply_block(out, from, (from + i) % q.ranks, from, block);
      out.end_block(begun, near, far);
    }
  }

  /// Each of a GPU's warps has a row of its own, so that as many rows as there are warps are on their way at the same time.
  void send_rows(sender& out, int from) {
    sender::block begun = out.begin_block(near, far);
    std::uint32_t rows = 0;
    for (int expert = routing.first_place(from); expert < routing.end_place(from); ++expert)
      for (int source = 0; source < q.ranks; ++source) {
        rows += reply(out, from, source, expert);
        if (rows < warps_that_send) continue;
        out.end_block(begun, near, far);
        begun = out.begin_block(near, far);
        rows = 0;
      }
    out.end_block(begun, near, far);
  }

  /// To all of a source's tokens that came to a place; how many.
  std::uint32_t reply(sender& out, int from, int source, int place) {
    std::uint32_t sent = 0;
    for (int block = 0; block < routing.blocks(); ++block)
      sent += reply_block(out, from, source, place, block);
    return sent;
  }

  std::uint32_t reply_block(sender& out, int from, int source, int place, int block) {
    const std::uint32_t count = source == from ? 0 : routing.to_place(source, block, place);
    if (count == 0) return 0;
    const bool to_group = q.forwards() && !q.is_near(from, source);
    const int to = to_group ? q.counterpart(source, q.group_of(from)) : source;
    if (to == from) {  // a forwarder has its own replies from the beginning
      sums[sum_at(source, q.group_of(from), block)].add({.count = count});
      return 0;
    }
    if (!q.is_near(from, to)) {
      const int parts = sizes.parts_of_reply;
      out.send_far(to, count, {sizes.far_reply, parts, q.per_expert() ? 0 : parts}, far);
      return count;
    }
    out.send_near(to, count, sizes.near_reply, near);
    if (q.forwards())
      sum_of_near.push_back(to_group ? static_cast<std::uint32_t>(sum_at(source, q.group_of(from), block)) + 1
                                     : 0);
    return count;
  }

  void send_words(sender& out, int from) {
    if (q.forwards()) return;  // a sum has a signal of its own
    for (int i = 1; i < q.ranks; ++i) {
      const int to = (from + i) % q.ranks;
      if (!q.is_near(from, to))
        out.send_signals(to, routing.end_place(from) - routing.first_place(from), far);
    }
  }

  /// Sums leave their forwarders when the group's replies are there.
  void send_sums() {
    for (std::size_t i = 0; i < near.size(); ++i)
      if (sum_of_near[i] != 0) sums[sum_of_near[i] - 1].add(near[i]);
    for (int from = 0; from < q.ranks; ++from)
      for (int i = 1; i < q.ranks; ++i) send_sums_of((from + i) % q.ranks, from);
  }

  void send_sums_of(int source, int from) {
    const put whole{sizes.group_reply, sizes.parts_of_reply, sizes.parts_of_reply};
    const int group = q.group_of(from);
    if (q.is_near(source, from) || q.counterpart(source, group) != from) return;
    for (int block = 0; block < routing.blocks(); ++block) {
      const std::uint32_t count = routing.to_group(source, block, group);
      if (count == 0) continue;
      train sum = sums[sum_at(source, group, block)].of(count);
      sum.cost = cost_of(q.links, whole);
      sum.from = from;
      sum.to = source;
      far.push_back(sum);
      note_far(all, from, count, whole);
    }
  }

  phase done() {
    pass_links(q, all, near);
    if (q.forwards()) send_sums();
    pass_network(q, all, far);
    note_arrivals(all, near);
    note_arrivals(all, far);
    return std::move(all);
  }
};

}  // namespace

phase combine_phase(const question& q, const message_sizes& sizes, const routed& routing) {
  combining c{q, sizes, routing, phase{q}};
  if (q.forwards()) c.sums.resize(c.sum_at(q.ranks, 0, 0));
  for (int from = 0; from < q.ranks; ++from) c.send(from);
  return c.done();
}

}  // namespace baton::forecast
