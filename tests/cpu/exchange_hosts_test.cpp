// p2p groups that follow hosts: as ranks tell each other where they are, or as the caller says. BATON_HOST makes hosts here.
#include <algorithm>
#include <numeric>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_processes.hpp"

namespace baton::test {
namespace {

ep_config of_groups(int size, ep_layout layout = ep_layout::per_expert) {
  ep_config c;
  c.layout = layout;
  c.p2p_group_size = size;
  return c;
}
int group_by_host(int asked, const std::vector<int>& hosts, ep_layout layout = ep_layout::per_expert) {
  return in_groups_by_host(of_groups(asked, layout), hosts).p2p_group_size;
}

TEST(exchange_hosts, the_ranks_of_a_host_are_a_group_unless_a_smaller_one_is_asked_for) {
  EXPECT_EQ(group_by_host(0, {0, 0, 1, 1}), 2);
  EXPECT_EQ(group_by_host(0, {0, 1, 2}), 1);
  EXPECT_EQ(group_by_host(1, {0, 0, 1, 1}), 1);
  EXPECT_EQ(group_by_host(2, {0, 0, 0, 0, 1, 1}), 2);
  EXPECT_EQ(group_by_host(0, {0, 0, 1, 1}, ep_layout::per_rank), 2);
}

TEST(exchange_hosts, hosts_of_more_ranks_than_a_group_may_have_are_several_groups) {
  const auto of_two_hosts = [](int each) {
    std::vector<int> hosts(static_cast<std::size_t>(2 * each));
    std::fill(hosts.begin() + each, hosts.end(), 1);
    return group_by_host(0, hosts);
  };
  EXPECT_EQ(of_two_hosts(8), 8);
  EXPECT_EQ(of_two_hosts(9), 3);
  EXPECT_EQ(of_two_hosts(16), 8);
  EXPECT_EQ(of_two_hosts(11), 1);
}

TEST(exchange_hosts, on_one_host_nothing_changes) {
  for (const int asked : {-1, 0, 2, 4, 9}) EXPECT_EQ(group_by_host(asked, {0, 0, 0, 0}), asked);
  EXPECT_EQ(in_groups_by_host(of_groups(0, ep_layout::per_rank), std::vector<int>{0, 0}).p2p_group_size, 0);
}

TEST(exchange_hosts, groups_that_cannot_follow_hosts_are_refused_with_where_ranks_are) {
  const auto refusal = [](const ep_config& c, const std::vector<int>& hosts) {
    return message_of<invalid_argument>([&] { in_groups_by_host(c, hosts); });
  };
  EXPECT_TRUE(says(refusal(of_groups(0), {0, 0, 1}), "p2p_group_size: 0", "hosts of ranks: 0 0 1"));
  for (const std::vector<int>& not_as_many :
       {std::vector{0, 0, 1, 1, 1, 1}, std::vector{0, 1, 1, 1}, std::vector{0, 0, 1, 1, 2, 2, 2, 2}})
    EXPECT_TRUE(says(refusal(of_groups(0), not_as_many), "p2p_group_size: 0", "not as many on each"));
  EXPECT_TRUE(says(refusal(of_groups(0), {0, 1, 0, 1}), "one host after the other", "0 1 0 1"));
  EXPECT_TRUE(says(refusal(of_groups(4), {0, 0, 1, 1}), "puts ranks 0 and 2 into one group"));
  EXPECT_TRUE(says(refusal(of_groups(3), {0, 0, 1, 1, 1, 1}), "puts ranks 0 and 2 into one group"));
  EXPECT_TRUE(says(refusal(of_groups(0), {}), "host_of_rank"));
}

/// A process for each rank, which says on which host it is.
void expect_on_hosts(const std::vector<std::string>& hosts, const std::function<bool(const world&)>& work) {
  const std::string run = unique_name();
  std::vector<int> ranks(hosts.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto results = in_processes(ranks, [&](int rank) {
    set_launch_environment(rank, static_cast<int>(hosts.size()), run);
    ::setenv("BATON_HOST", hosts[static_cast<std::size_t>(rank)].c_str(), 1);
    return work(world::from_environment(device_kind::cpu));
  });
  for (std::size_t r = 0; r < results.size(); ++r)
    EXPECT_EQ(results[r].exit_code, 0) << "rank " << r << ": " << results[r].thrown;
}

TEST(exchange_hosts, processes_of_two_hosts_exchange_in_groups_of_their_own) {
  for (const ep_layout layout : {ep_layout::per_expert, ep_layout::per_rank})
    expect_on_hosts({"left", "left", "right", "right"}, [layout](const world& w) {
      exchange_case c{4, sizes(7, 3, 264, 9), {9, 4, 0, 5}, routing::sparse};
      c.config.layout = layout;
      exchange_rank mine{expert_parallel::create(w, c.config)};
      expect_no_error(run_rank(c, mine, 3));
      expect_no_error(run_rank(c, mine, 3, calls::fused));
      return w.hosts() == std::vector<int>{0, 0, 1, 1} && mine.ep().config().p2p_group_size == 2;
    });
}

TEST(exchange_hosts, more_processes_than_a_group_may_have_exchange_over_two_hosts) {
  std::vector<std::string> hosts(10, "left");
  std::fill(hosts.begin() + 5, hosts.end(), "right");
  expect_on_hosts(hosts, [](const world& w) {
    exchange_case c{10, sizes(23, 4, 64, 3), {3, 1, 0, 2, 3, 3, 1, 0, 2, 3}, routing::distinct};
    c.config.layout = ep_layout::per_rank;
    exchange_rank mine{expert_parallel::create(w, c.config)};
    expect_no_error(run_rank(c, mine, 3, calls::fused));
    return mine.ep().config().p2p_group_size == 5;
  });
}

TEST(exchange_hosts, what_travels_by_stores_alone_is_refused_between_hosts) {
  expect_on_hosts({"left", "left", "right", "right"}, [](const world& w) {
    ep_config c = sizes(7, 3, 264, 9);
    c.layout = ep_layout::per_rank;
    c.transfer = ep_transfer::lines;
    const std::string text = message_of<invalid_argument>([&] { expert_parallel::create(w, c); });
    return says(text, "p2p_group_size: 2 of 4 ranks", "use transfer automatic or chunks");
  });
}

TEST(exchange_hosts, ranks_whose_hosts_take_turns_are_told_so_on_all_of_them) {
  expect_on_hosts({"left", "right", "left", "right"}, [](const world& w) {
    const std::string text =
        message_of<invalid_argument>([&] { expert_parallel::create(w, sizes(7, 3, 264, 9)); });
    return w.hosts() == std::vector<int>{0, 1, 0, 1} && says(text, "hosts of ranks: 0 1 0 1");
  });
}

TEST(exchange_hosts, ranks_of_one_process_are_on_one_host) {
  for (const world& w : world::local(3, device_kind::cpu)) EXPECT_EQ(w.hosts(), (std::vector<int>{0, 0, 0}));
}

}  // namespace
}  // namespace baton::test
