#include "baton/world.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "baton/error.hpp"
#include "bootstrap/thread_rendezvous.hpp"
#include "runtime/world_state.hpp"

namespace baton {
namespace {

struct failure {
  std::exception_ptr what;
  bool is_echo = false;  // of another rank's failure
};

void validate(std::span<const world> worlds) {
  if (worlds.empty()) throw invalid_argument{"worlds: none, expected all ranks of one world::local"};
  const auto& rendezvous = worlds.front().state().rendezvous;
  for (std::size_t r = 0; r < worlds.size(); ++r)
    if (rendezvous == nullptr || worlds[r].state().rendezvous != rendezvous ||
        worlds[r].rank() != static_cast<int>(r) || worlds[r].size() != static_cast<int>(worlds.size()))
      throw invalid_argument{
          fmt::format("worlds[{}]: rank {} of {}, expected all {} ranks of one world::local, in order", r,
                      worlds[r].rank(), worlds[r].size(), worlds.size())};
}

failure run_one(bootstrap::thread_rendezvous& rendezvous, const std::function<void(int)>& work, int rank) {
  try {
    work(rank);
    return {};
  } catch (const bootstrap::left_behind&) {
    return {std::current_exception(), true};
  } catch (const std::exception& e) {
    rendezvous.break_off(fmt::format("rank {} failed: {}", rank, e.what()));
    return {std::current_exception(), false};
  }
}

/// The ranks that have begun wait for the others in vain.
failure no_thread(bootstrap::thread_rendezvous& rendezvous, std::size_t rank, const std::system_error& why) {
  const std::string text = fmt::format(
      "cannot start a thread for rank {}: {}; raise the limits of processes (ulimit -u, pids.max) or "
      "memory (ulimit -v), or use fewer ranks",
      rank, why.what());
  rendezvous.break_off(text);
  return {std::make_exception_ptr(unsupported{text}), false};
}

}  // namespace

void on_every_rank(std::span<const world> worlds, const std::function<void(int)>& work) {
  validate(worlds);
  bootstrap::thread_rendezvous& rendezvous = *worlds.front().state().rendezvous;
  std::vector<failure> failures(worlds.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(worlds.size());
    for (std::size_t r = 0; r < worlds.size(); ++r) try {
        threads.emplace_back([&, r] { failures[r] = run_one(rendezvous, work, static_cast<int>(r)); });
      } catch (const std::system_error& e) {
        failures[r] = no_thread(rendezvous, r, e);
        break;
      }
  }
  const failure* first = nullptr;
  for (const failure& f : failures)
    if (f.what && (first == nullptr || (first->is_echo && !f.is_echo))) first = &f;
  if (first == nullptr) return;
  rendezvous.reopen();
  std::rethrow_exception(first->what);
}

}  // namespace baton
