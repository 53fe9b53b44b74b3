// Tokens on their way out, with one level or two.
#include "forecast/senders.hpp"

namespace baton::forecast {
namespace {

/// What a forwarder does with a train of the network: trains within its group, which leave as its messages come.
struct forwarding {
  std::size_t of_far, begin, end;  // trains of `forwarded`
};

struct dispatching {
  const question& q;
  const message_sizes& sizes;
  const routed& routing;
  phase all;
  std::vector<train> near{}, far{}, forwarded{};
  std::vector<forwarding> forwardings{};

  void send(int source) {
    sender out{q, all, source};
    send_ids(out, source);
    for (int block = 0; block < routing.blocks(); ++block) {
      const sender::block begun = out.begin_block(near, far);
      for (int group = 0; group < q.groups(); ++group) {
        if (q.forwards() && group != q.group_of(source))
          send_to_group(out, source, block, group);
        else
          send_to_ranks(out, source, block, group);
      }
      out.end_block(begun, near, far);
    }
    send_words(out, source);
  }

  /// To all ranks, with two levels too: forwarders and receivers know from them what comes.
  void send_ids(sender& out, int source) {
    for (int i = 1; i < q.ranks; ++i) out.send_ids(sizes, (source + i) % q.ranks, near, far);
  }

  int end_of(int group) const { return std::min(q.ranks, (group + 1) * q.group_size()); }

  void send_to_ranks(sender& out, int source, int block, int group) {
    const put token{sizes.far_message, 1, q.per_expert() ? 0 : 1};
    for (int to = group * q.group_size(); to < end_of(group); ++to) {
      const std::uint32_t count = to == source ? 0 : routing.to_rank(source, block, to);
      if (q.is_near(source, to))
        out.send_near(to, count, sizes.near_message, near);
      else
        out.send_far(to, count, token, far);
    }
  }

  void send_to_group(sender& out, int source, int block, int group) {
    const std::uint32_t tokens = routing.to_group(source, block, group);
    if (tokens == 0) return;
    const int forwarder = q.counterpart(source, group);
    out.send_far(forwarder, tokens, {sizes.group_message, 1, 1}, far);
    all.forwarded_bytes[static_cast<std::size_t>(forwarder)] +=
        static_cast<double>(tokens) * sizes.group_message;
    const std::size_t begin = forwarded.size();
    for (int to = group * q.group_size(); to < end_of(group); ++to) {
      const std::uint32_t count = to == forwarder ? 0 : routing.to_rank(source, block, to);
      if (count == 0) continue;
      forwarded.push_back(
          {.cost = q.links.near_cost(sizes.near_message), .count = count, .from = forwarder, .to = to});
      all.near.messages += count;
      all.near.bytes += std::uint64_t{count} * static_cast<std::uint64_t>(sizes.near_message);
    }
    forwardings.push_back({far.size() - 1, begin, forwarded.size()});
  }

  /// A word for each of a rank's experts, behind all messages to it. Of those within the group nothing is counted.
  void send_words(sender& out, int source) {
    if (!q.per_expert()) return;
    for (int i = 1; i < q.ranks; ++i) {
      const int to = (source + i) % q.ranks;
      if (q.is_near(source, to)) continue;
      if (!q.forwards())
        out.send_signals(to, routing.end_place(to) - routing.first_place(to), far);
      else if (to == q.counterpart(source, q.group_of(to)))
        out.send_signals(to, 1, far);
    }
  }

  phase done() {
    pass_network(q, all, far);
    for (const forwarding& f : forwardings)
      for (std::size_t i = f.begin; i < f.end; ++i) {
        forwarded[i].first = far[f.of_far].first;
        forwarded[i].last = far[f.of_far].last;
      }
    near.insert(near.end(), forwarded.begin(), forwarded.end());
    pass_links(q, all, near);
    note_arrivals(all, far);
    note_arrivals(all, near);
    return std::move(all);
  }
};

}  // namespace

phase dispatch_phase(const question& q, const message_sizes& sizes, const routed& routing) {
  dispatching d{q, sizes, routing, phase{q}};
  for (int source = 0; source < q.ranks; ++source) d.send(source);
  return d.done();
}

}  // namespace baton::forecast
