#include "forecast/trains.hpp"

#include <algorithm>

namespace baton::forecast {
namespace {

struct event {
  double time;
  std::uint32_t train;
  bool is_end;  // the train's last message
};

/// What waits at one link or card, as time goes on.
class waiting_line {
 public:
  /// Work that waits at `time`, no earlier than any time before.
  double at(double time) {
    waiting_ = std::max(0.0, waiting_ + (inflow_ - 1) * (time - now_));
    now_ = time;
    return waiting_;
  }
  void add(double work) { waiting_ += work; }
  void flow(double change) { inflow_ = std::max(0.0, inflow_ + change); }

 private:
  double now_ = 0, waiting_ = 0, inflow_ = 0;
};

/// Work of a train's other messages, for each us between its first and its last.
double flow_of(const train& t) {
  return (t.count - 1) * t.cost / (t.last - t.first);
}

/// A train whose messages all come at once is one.
bool is_spread(const train& t) {
  return t.count > 1 && t.last > t.first;
}

void go_through(std::vector<train>& trains, const std::vector<event>& events,
                const std::vector<double>& flows, double latency) {
  waiting_line line;
  for (const event& e : events) {
    train& t = trains[e.train];
    const double before = line.at(e.time), flow = flows[e.train];
    if (e.is_end) {
      line.flow(-flow);
      t.last = e.time + std::max(before, t.cost) + latency;
      continue;
    }
    t.first = e.time + before + t.cost + latency;
    if (flow > 0) {
      line.add(t.cost);
      line.flow(flow);
    } else {
      line.add(t.work());
      t.last = e.time + before + t.work() + latency;
    }
  }
}

/// The numbers of trains, by what they pass.
std::vector<std::vector<std::uint32_t>> sorted_by(const std::vector<std::int32_t>& of_train,
                                                  std::size_t count) {
  std::vector<std::vector<std::uint32_t>> trains_of(count);
  for (std::uint32_t i = 0; i < of_train.size(); ++i)
    trains_of[static_cast<std::size_t>(of_train[i])].push_back(i);
  return trains_of;
}

}  // namespace

void pass(std::vector<train>& trains, crossing& through, const std::vector<std::int32_t>& of_train) {
  std::vector<double> flows(trains.size(), 0.0);
  for (std::size_t i = 0; i < trains.size(); ++i)
    if (is_spread(trains[i])) flows[i] = flow_of(trains[i]);
  const auto all = sorted_by(of_train, through.busy_us.size());
  std::vector<event> events;
  for (std::size_t which = 0; which < all.size(); ++which) {
    events.clear();
    for (const std::uint32_t i : all[which]) {
      through.busy_us[which] += trains[i].work();
      events.push_back({trains[i].first, i, false});
      if (flows[i] > 0) events.push_back({trains[i].last, i, true});
    }
    std::sort(events.begin(), events.end(), [](const event& a, const event& b) {
      if (a.time != b.time) return a.time < b.time;
      return a.is_end != b.is_end ? a.is_end : a.train < b.train;
    });
    go_through(trains, events, flows, through.latency_us);
  }
}

}  // namespace baton::forecast
