#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "baton/error.hpp"
#include "bootstrap/process_rendezvous.hpp"
#include "bootstrap/shared_memory.hpp"
#include "bootstrap/thread_rendezvous.hpp"
#include "bootstrap/unix_socket.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/window.hpp"
#include "tests/support/forked_ranks.hpp"
#include "tests/support/resident_pages.hpp"

namespace baton {
namespace {

constexpr std::size_t window_bytes = 100'000;  // no multiple of a page
constexpr std::size_t too_much = std::size_t{1} << 50;

std::uint32_t mark(int from, int to) {
  return static_cast<std::uint32_t>(0xabc000 + 16 * from + to);
}

/// The property of every window: zero at first; what a rank writes into a peer's block, the peer sees in its
/// own.
bool peers_see_each_other(const world& w, const symmetric_window& window) {
  const auto me = static_cast<std::size_t>(w.rank());
  const auto size = static_cast<std::size_t>(w.size());
  for (std::size_t i = 0; i < window_bytes; ++i)
    if (window.peer(w.rank())[i] != std::byte{0}) return false;
  std::vector<char> all(size);
  w.all_gather("r", all.data(), 1);  // all have looked
  for (int r = 0; r < w.size(); ++r) window.peer_as<std::uint32_t>(r)[me] = mark(w.rank(), r);
  window.peer_as<std::uint32_t>((w.rank() + 1) % w.size())[window_bytes / 4 - 1] = 77;
  w.all_gather("w", all.data(), 1);  // all have written
  bool right = window.peer_as<std::uint32_t>(w.rank())[window_bytes / 4 - 1] == 77;
  for (int r = 0; r < w.size(); ++r)
    right = right && window.peer_as<std::uint32_t>(w.rank())[r] == mark(r, w.rank());
  w.all_gather("d", all.data(), 1);  // all have looked again
  return right;
}

TEST(window, ranks_of_a_local_world_see_each_others_writes) {
  const auto worlds = world::local(4, device_kind::cpu);
  std::vector<std::unique_ptr<symmetric_window>> windows(4);
  on_every_rank(worlds, [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    windows[r] = make_window(worlds[r], window_bytes, "test", "");
    EXPECT_EQ(windows[r]->bytes(), window_bytes);
    EXPECT_TRUE(peers_see_each_other(worlds[r], *windows[r]));
  });
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(windows[r]->peer(2), windows[2]->peer(2));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(windows[r]->peer(0)) % 256, 0u);
  }
}

TEST(window, a_block_lives_until_the_last_rank_lets_go) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::vector<std::unique_ptr<symmetric_window>> windows(2);
  on_every_rank(worlds, [&](int rank) {
    windows[static_cast<std::size_t>(rank)] =
        make_window(worlds[static_cast<std::size_t>(rank)], window_bytes, "test", "");
  });
  windows[0].reset();
  windows[1]->peer(0)[5] = std::byte{9};  // AddressSanitizer would see a freed block
  EXPECT_EQ(windows[1]->peer(0)[5], std::byte{9});
}

TEST(window, threads_with_a_callback_share_pointers) {
  constexpr int size = 3;
  const auto meeting =
      std::make_shared<bootstrap::thread_rendezvous>(size, std::chrono::milliseconds{20'000});
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < size; ++r)
      threads.emplace_back([&, r] {
        world_config c;
        c.rank = r;
        c.size = size;
        c.all_gather = bootstrap::all_gather_of(meeting, r);
        const world w = world::create(c);
        right += peers_see_each_other(w, *make_window(w, window_bytes, "test", "")) ? 1 : 0;
      });
  }
  EXPECT_EQ(right, size);
}

/// Joins through the environment of a launcher, as rank `rank` of `size`.
world join(int rank, int size, const std::string& run) {
  test::set_launch_environment(rank, size, run);
  return world::from_environment(device_kind::cpu);
}

TEST(window, processes_map_each_others_memory) {
  constexpr int size = 4;
  const std::string run = std::to_string(bootstrap::random_bits());
  const auto results = test::in_processes({0, 1, 2, 3}, [&](int rank) {
    const world w = join(rank, size, run);
    const auto first = make_window(w, window_bytes, "test", "");
    const auto second = make_window(w, window_bytes, "test", "");
    return peers_see_each_other(w, *first) && peers_see_each_other(w, *second);
  });
  for (const auto& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(window, threads_of_several_processes_map_each_others_memory) {
  const std::string name = std::to_string(bootstrap::random_bits());
  const auto results = test::in_processes({0, 1}, [&](int process) {
    std::atomic<int> right = 0;
    {
      std::vector<std::jthread> threads;
      for (const int rank : {2 * process, 2 * process + 1})
        threads.emplace_back([&, rank] {
          bootstrap::rendezvous_config where{name, rank, 4};
          auto rendezvous = std::make_shared<bootstrap::process_rendezvous>(where);
          world_config c;
          c.rank = rank;
          c.size = 4;
          c.all_gather = [rendezvous](const void* mine, void* all, std::size_t bytes) {
            rendezvous->all_gather(mine, all, bytes);
          };
          const world w = world::create(c);
          right += peers_see_each_other(w, *make_window(w, window_bytes, "test", "")) ? 1 : 0;
        });
    }
    return right == 2;
  });
  for (const auto& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

/// Again zero and shared where it was, after its memory had gone.
bool comes_back(const world& w, symmetric_window& window) {
  std::vector<const std::byte*> lay;
  for (int r = 0; r < w.size(); ++r) lay.push_back(window.peer(r));
  bool right = true;
  for (int turn = 0; turn < 3; ++turn) {
    right = right && peers_see_each_other(w, window);
    window.release();
    right = right && test::resident_part(window.peer(w.rank()), window_bytes) == 0;
    window.reacquire();
    for (int r = 0; r < w.size(); ++r) right = right && window.peer(r) == lay[static_cast<std::size_t>(r)];
  }
  return right && peers_see_each_other(w, window);
}

TEST(window, memory_that_was_released_comes_back_zeroed_at_the_same_addresses) {
  const auto worlds = world::local(3, device_kind::cpu);
  on_every_rank(worlds, [&](int rank) {
    const world& w = worlds[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(comes_back(w, *make_window(w, window_bytes, "test", "")));
  });
  const std::string run = std::to_string(bootstrap::random_bits());
  const auto results = test::in_processes({0, 1, 2}, [&](int rank) {
    const world w = join(rank, 3, run);
    return comes_back(w, *make_window(w, window_bytes, "test", ""));
  });
  for (const auto& r : results) EXPECT_EQ(r.exit_code, 0) << r.thrown;
}

TEST(window, private_memory_is_one_ranks_alone_and_comes_back_too) {
  const auto worlds = world::local(2, device_kind::cpu);
  const auto memory = make_private_memory(worlds[1], window_bytes, "test", "");
  const auto is_zero = [&] {
    return std::all_of(memory->peer(0), memory->peer(0) + window_bytes,
                       [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(is_zero());
  std::fill_n(memory->peer(0), window_bytes, std::byte{7});
  const std::byte* const lay = memory->peer(0);
  memory->release();
  memory->reacquire();
  EXPECT_EQ(memory->peer(0), lay);
  EXPECT_TRUE(is_zero());
}

TEST(window, a_window_that_does_not_fit_fails_on_every_rank_with_the_knob) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::atomic<int> told = 0;
  on_every_rank(worlds, [&](int rank) {
    try {
      make_window(worlds[static_cast<std::size_t>(rank)], too_much, "receive buffer",
                  "lower num_max_tokens_per_rank");
    } catch (const out_of_memory& e) {
      told += e.needed == 2 * too_much && std::string{e.what()}.find("lower num_max") != std::string::npos
                  ? 1
                  : 0;
    }
  });
  EXPECT_EQ(told, 2);
  const std::string run = std::to_string(bootstrap::random_bits());
  const auto results = test::in_processes({0, 1}, [&](int rank) {
    const world w = join(rank, 2, run);
    make_window(w, too_much, "receive buffer", "lower num_max_tokens_per_rank");
    return true;
  });
  for (const auto& r : results) EXPECT_NE(r.thrown.find("lower num_max"), std::string::npos) << r.thrown;
}

TEST(window, ranks_are_granted_together_what_is_there_and_not_each_for_itself) {
  const auto worlds = world::local(2, device_kind::cpu);
  const std::size_t most = host_bytes_free() / 10 * 6;
  const std::string text = [&]() -> std::string {
    try {
      on_every_rank(worlds, [&](int rank) {
        require_memory_of_all(worlds[static_cast<std::size_t>(rank)], most, "receive buffer", "lower it");
      });
    } catch (const out_of_memory& e) {
      return e.what();
    }
    return "nothing was thrown";
  }();
  EXPECT_NE(text.find("host memory for receive buffer of all 2 ranks"), std::string::npos) << text;
}

/// What mapping the descriptor is refused with.
std::string why_not_mapped(const bootstrap::file_descriptor& fd, std::size_t bytes) try {
  bootstrap::map_shared_memory(fd, bytes);
  return "nothing was thrown";
} catch (const transport_error& e) {
  return e.what();
}

TEST(shared_memory, is_taken_at_once_and_nobody_can_change_its_size) {
  const bootstrap::file_descriptor fd = bootstrap::create_shared_memory(window_bytes);
  struct stat info {};
  ASSERT_EQ(::fstat(fd.get(), &info), 0);
  EXPECT_GE(static_cast<std::size_t>(info.st_blocks) * 512, window_bytes)
      << "the first touch may find no page";
  EXPECT_NE(::ftruncate(fd.get(), 0), 0) << "a peer that shrinks it ends whoever reads on";
  EXPECT_NE(::ftruncate(fd.get(), 1 << 30), 0);
  EXPECT_NE(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "a peer may keep others from mapping it";
  const auto mapped = bootstrap::map_shared_memory(fd, window_bytes);
  for (std::size_t i = 0; i < window_bytes; ++i) ASSERT_EQ(mapped.get()[i], std::byte{0});
}

TEST(shared_memory, that_a_peer_could_shrink_is_not_mapped) {
  const bootstrap::file_descriptor open_ended{::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  ASSERT_EQ(::ftruncate(open_ended.get(), 4096), 0);
  EXPECT_NE(why_not_mapped(open_ended, 4096).find("not sealed"), std::string::npos);
  const bootstrap::file_descriptor file{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  EXPECT_NE(why_not_mapped(file, 4096).find("not sealed"), std::string::npos);
  EXPECT_NE(why_not_mapped(bootstrap::create_shared_memory(64), 65).find("64 bytes, expected 65"),
            std::string::npos);
}

TEST(shared_memory, beyond_what_ulimit_f_allows_is_refused_and_the_process_lives) {
  const auto results = test::in_processes({0}, [](int) {
    const rlimit most{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &most);
    bootstrap::create_shared_memory(window_bytes);
    return true;
  });
  EXPECT_NE(results[0].thrown.find("(ulimit -f)"), std::string::npos) << results[0].exit_code;
}

TEST(window, ranks_that_ask_for_different_sizes_all_hear_about_it) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::atomic<int> told = 0;
  on_every_rank(worlds, [&](int rank) {
    try {
      make_window(worlds[static_cast<std::size_t>(rank)], 64 + static_cast<std::size_t>(rank),
                  "receive buffer", "");
    } catch (const transport_error& e) {
      told +=
          std::string{e.what()}.find("rank 0 asks for 64 bytes, rank 1 for 65") != std::string::npos ? 1 : 0;
    }
  });
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace baton
