#pragma once
// What ranks reach each other through, as numbers. Times are microseconds, rates bytes of a microsecond: GB/s times 1000.
#include <algorithm>

namespace baton::forecast {

/// | field                | default | where it comes from                                                                     |
/// |----------------------|---------|-----------------------------------------------------------------------------------------|
/// | near_gb_per_s        | 357     | measured: all 4 GPUs push to their peers at once (docs/results/2026-11-21-first-exchange) |
/// | near_us              | 0.75    | measured: a flag, one way                                                               |
/// | nic_gb_per_s         | 50      | 400 Gb/s, ConnectX-7: DeepEP's documents name it for the machines of its figures        |
/// | nic_us               | 3       | assumed: not measured                                                                   |
/// | nic_messages_per_us  | 100     | assumed; tokens of 7 KB need 7                                                          |
/// | nic_overhead_bytes   | 64      | assumed: headers of a put                                                               |
/// | ranks_per_nic        | 1       | as such machines are built: a card for each GPU; divides a group                        |
/// | one_host             | no      | all ranks are on one host: no cards, puts are a GPU's stores, through its links         |
struct link_facts {
  double near_gb_per_s = 357;  // of a GPU to its peers of the p2p group, and as much from them
  double near_us = 0.75;       // how long a byte is under way
  double nic_gb_per_s = 50;    // of a network card, each way
  double nic_us = 3;
  double nic_messages_per_us = 100;
  int nic_overhead_bytes = 64;
  int ranks_per_nic = 1;
  bool one_host = false;  // then nothing of the cards above counts

  /// What takes puts there, at the rate at which GPUs put.
  constexpr link_facts as_one_host(double put_gb_per_s) const {
    link_facts l = *this;
    l.nic_gb_per_s = std::min(put_gb_per_s, near_gb_per_s);
    l.nic_us = near_us;
    l.nic_messages_per_us = 1e6;
    l.nic_overhead_bytes = 0;
    l.ranks_per_nic = 1;
    return l;
  }
  /// How long a message keeps a GPU's links to its group busy.
  constexpr double near_cost(double bytes) const { return bytes / (1e3 * near_gb_per_s); }
  /// How long a put keeps a network card busy.
  constexpr double far_cost(double bytes) const {
    return std::max(1 / nic_messages_per_us, (bytes + nic_overhead_bytes) / (1e3 * nic_gb_per_s));
  }
};

}  // namespace baton::forecast
