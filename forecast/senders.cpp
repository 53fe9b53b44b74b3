#include "forecast/senders.hpp"

#include <algorithm>

namespace baton::forecast {
namespace {

/// In [0, 1), any but always the same: warps that have messages at the same time send them in no order.
double place_of(int rank, std::size_t nth) {
  std::uint64_t z = (static_cast<std::uint64_t>(rank) << 40) + nth + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/// The messages of each train from `begin` on are evenly between two times, the first where chance has it.
void spread(std::vector<train>& trains, std::size_t begin, double from, double to) {
  for (std::size_t i = begin; i < trains.size(); ++i) {
    train& t = trains[i];
    const double latest = std::max(from, to - t.cost), gap = (latest - from) / t.count;
    t.first = from + place_of(t.from, i - begin) * gap;
    t.last = t.first + (t.count - 1) * gap;
  }
}

}  // namespace

ways::ways(const question& q) {
  const auto of = [](int count, double latency) {
    return crossing{std::vector<double>(static_cast<std::size_t>(count), 0.0), latency};
  };
  near_out = of(q.ranks, q.links.near_us);
  near_in = of(q.ranks, 0);
  nic_out = of(q.nics(), q.links.nic_us);
  nic_in = of(q.nics(), 0);
}

phase::phase(const question& q)
    : through{q},
      sent_us(static_cast<std::size_t>(q.ranks), 0.0),
      arrived_us(sent_us),
      put_bytes(sent_us),
      forwarded_bytes(sent_us) {}

void sender::end_block(const block& b, std::vector<train>& near, std::vector<train>& far) const {
  spread(near, b.near_trains, b.near_begin, near_us_);
  spread(far, b.far_trains, b.far_begin, far_us_);
}

void sender::queue(double& free_us, double cost, int to, std::uint32_t count, std::vector<train>& trains) {
  trains.push_back({free_us, free_us + (count - 1) * cost, cost, count, rank_, to});
  free_us += count * cost;
}

void sender::send_near(int to, std::uint32_t count, int bytes, std::vector<train>& near) {
  if (count == 0) return;
  queue(near_us_, q_.links.near_cost(bytes), to, count, near);
  all_.near.messages += count;
  all_.near.bytes += std::uint64_t{count} * static_cast<std::uint64_t>(bytes);
}

double cost_of(const link_facts& links, const put& what) {
  return what.puts * links.far_cost(static_cast<double>(what.bytes) / what.puts) +
         what.signals * links.far_cost(signal_bytes);
}

void note_far(phase& all, int from, std::uint32_t count, const put& what) {
  const std::uint64_t puts = std::uint64_t{count} * static_cast<std::uint64_t>(what.puts);
  all.far.messages += puts;
  all.far.bytes += std::uint64_t{count} * static_cast<std::uint64_t>(what.bytes);
  all.far.signals += std::uint64_t{count} * static_cast<std::uint64_t>(what.signals);
  all.put_bytes[static_cast<std::size_t>(from)] += static_cast<double>(count) * what.bytes;
}

void sender::send_far(int to, std::uint32_t count, const put& what, std::vector<train>& far) {
  if (count == 0) return;
  queue(far_us_, cost_of(q_.links, what), to, count, far);
  note_far(all_, rank_, count, what);
}

void sender::send_signals(int to, int count, std::vector<train>& far) {
  queue(far_us_, q_.links.far_cost(signal_bytes), to, static_cast<std::uint32_t>(count), far);
  all_.far.signals += static_cast<std::uint64_t>(count);
}

void sender::send_ids(const message_sizes& sizes, int to, std::vector<train>& near, std::vector<train>& far) {
  const bool is_near = q_.is_near(rank_, to);
  const int bytes = is_near ? sizes.near_ids : sizes.far_ids;
  if (bytes == 0) return;
  const put ids{bytes, is_near ? 1 : sizes.far_id_puts, is_near ? 0 : sizes.far_id_puts};
  if (is_near)
    queue(near_us_, q_.links.near_cost(bytes), to, 1, near);
  else
    queue(far_us_, cost_of(q_.links, ids), to, 1, far);
  traffic& of = is_near ? all_.near : all_.far;
  of.id_messages += static_cast<std::uint64_t>(ids.puts);
  of.id_bytes += static_cast<std::uint64_t>(bytes);
  of.signals += static_cast<std::uint64_t>(ids.signals);
}

void pass_links(const question&, phase& all, std::vector<train>& near) {
  pass(near, all.through.near_out, [](const train& t) { return t.from; });
  for (const train& t : near) {
    double& sent = all.sent_us[static_cast<std::size_t>(t.from)];
    sent = std::max(sent, t.last - all.through.near_out.latency_us);
  }
  pass(near, all.through.near_in, [](const train& t) { return t.to; });
}

void pass_network(const question& q, phase& all, std::vector<train>& far) {
  pass(far, all.through.nic_out, [&](const train& t) { return q.nic_of(t.from); });
  pass(far, all.through.nic_in, [&](const train& t) { return q.nic_of(t.to); });
}

void note_arrivals(phase& all, const std::vector<train>& trains) {
  for (const train& t : trains) {
    double& arrived = all.arrived_us[static_cast<std::size_t>(t.to)];
    arrived = std::max(arrived, t.last);
  }
}

}  // namespace baton::forecast
