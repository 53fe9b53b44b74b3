#include "api/ep_members.hpp"

#include <fmt/format.h>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "kernels/ep/members/launch.hpp"

namespace baton {
namespace {

constexpr std::uint64_t most_epoch = (std::uint64_t{1} << (64 - epoch_bits_from)) - 1;

constexpr std::uint32_t bits_of(int num_ranks) {
  return (2u << (num_ranks - 1)) - 1;
}

std::string text_of(std::uint32_t ranks) {
  std::string text;
  for (int r = 0; r < most_members; ++r)
    if ((ranks >> r & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", r);
  return text.empty() ? "none" : text;
}

std::string text_of_word(std::uint64_t word) {
  const ep_membership told = members_of(word);
  return fmt::format("epoch {} of ranks {}", told.epoch, text_of(told.active_ranks));
}

}  // namespace

static_assert(ep::max_near_ranks <= most_members);

ep_membership all_members(int num_ranks) {
  return {0, bits_of(num_ranks)};
}

std::uint64_t word_of(const ep_membership& members) {
  return member_word(members.epoch, members.active_ranks);
}

ep_membership members_of(std::uint64_t word) {
  return {epoch_of_word(word), static_cast<std::uint32_t>(word) & bits_of(most_members)};
}

void require_next(const world& w, const ep_membership& next, std::uint64_t last_epoch) {
  if (next.epoch <= last_epoch || next.epoch > most_epoch)
    throw invalid_argument{fmt::format(
        "members.epoch: {} on rank {}, expected more than {}, of which it told last, and at most {}",
        next.epoch, w.rank(), last_epoch, most_epoch)};
  if ((next.active_ranks & ~bits_of(w.size())) != 0)
    throw invalid_argument{
        fmt::format("members.active_ranks: {:#x} on rank {}, expected bits of {} ranks, at most {:#x}",
                    next.active_ranks, w.rank(), w.size(), bits_of(w.size()))};
  if (!next.has(w.rank()))
    throw invalid_argument{fmt::format(
        "members.active_ranks: {:#x} is without rank {}, which calls; only ranks that take part call this",
        next.active_ranks, w.rank())};
}

void meet(const world& w, const ep_workspace& workspace, const ep_membership& next, int step) {
  const ep::all_ranks_array<std::uint64_t> words = workspace.words_of_ranks();
  ep::members::params p{{{}, word_of(next), w.rank(), step}, workspace.told()};
  for (int r = 0; r < w.size(); ++r) p.step.words[r] = words.at[r];
  ep::members::launch(w, p, {});
  std::uint64_t told[most_members] = {};
  copy_async(w, told, workspace.told(), sizeof told, {});
  w.synchronize();
  for (int r = 0; r < w.size(); ++r) {
    if (!next.has(r) || told[r] == p.step.told) continue;
    const std::string given =
        fmt::format("set_members: rank {} is given {}, and ", w.rank(), text_of_word(p.step.told));
    if (!is_told(told[r]))
      throw invalid_argument{
          fmt::format("{}finds {:#x} of rank {}, which nobody tells: its memory was overwritten; go on with "
                      "a new communicator",
                      given, told[r], r)};
    throw invalid_argument{fmt::format("{}rank {} {}; give all the same", given, r, text_of_word(told[r]))};
  }
}

}  // namespace baton
