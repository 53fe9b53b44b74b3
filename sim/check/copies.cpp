// Bulk copies and products in an execution: participants that warps start, and what must not be left behind.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "exec/site_name.hpp"
#include "sim/bulk_copy_rules.hpp"
#include "sim/check/execution.hpp"

namespace baton::check {
namespace {

/// What is copied between two steps: a copy of more than 16 bytes lands in two pieces.
std::size_t next_piece(const copy_work& work) {
  const std::size_t rest = work.bytes - work.moved;
  return work.moved == 0 && rest > 16 ? rest / 32 * 16 : rest;
}

}  // namespace

/// An old copy's place, of the same kind, if the warp knows of all that copy did, so that the order between the two is real.
int execution::place_for_copy(int warp, const position& place) {
  const vector_clock& now = shop_.ram.knowledge(warp).now;
  for (int i = num_real_warps_; i < num_warps(); ++i) {
    const warp_state& old = warps_[static_cast<std::size_t>(i)];
    const auto last = static_cast<tick>(shop_.ram.knowledge(i).now[i] - 1);
    position same = place;
    same.copy = old.where.copy;
    if (old.finished && old.where == same && now.includes(i, last)) return i;
  }
  if (num_warps() == max_participants) return -1;
  warps_.emplace_back();
  warps_.back().where = place;
  warps_.back().where.copy = num_warps() - num_real_warps_;
  return shop_.ram.add(warps_.back().where);
}

int execution::issue(int warp, const position& place, copy_work work, verb what) {
  const int copy = place_for_copy(warp, place);
  if (copy < 0) {
    shop_.found.add(verdict::too_long,
                    fmt::format("more than {} warps and bulk copies at a time: check a smaller program",
                                max_participants));
    return copy;
  }
  if (!work.is_counted_store)
    record_on_the_way({where(warp), what, order::relaxed, scope::block, work.to, work.bytes});
  warp_state& state = warps_[static_cast<std::size_t>(copy)];
  state.copy = std::make_unique<copy_work>(work);
  state.finished = false;
  if (!work.is_counted_store) shop_.ram.begin_copy(copy, warp);
  return copy;
}

void execution::bulk_load(int warp, const void* from, const landing& at) {
  const warp_state& issuer = warps_[static_cast<std::size_t>(warp)];
  sim::require_bulk_copy({issuer.shared, static_cast<std::ptrdiff_t>(program_.shared_bytes_)}, at.to, from,
                         at.bytes);
  load_into(warp, where(warp), from, at);
}

/// To each block by an engine of its own, as all of it is counted there.
void execution::bulk_load_to(int warp, const void* from, const landing& at, std::uint32_t blocks) {
  const warp_state& issuer = warps_[static_cast<std::size_t>(warp)];
  sim::require_bulk_copy({issuer.shared, static_cast<std::ptrdiff_t>(program_.shared_bytes_)}, at.to, from,
                         at.bytes);
  require_memory(warp, at.counts_on, sizeof(mbarrier));
  if (limits_.fault == planted_fault::boxes_land_in_one) blocks &= ~(blocks - 1);
  for (; blocks != 0; blocks &= blocks - 1) {
    const int block = std::countr_zero(blocks);
    std::byte* to = place_in_block(warp, static_cast<std::byte*>(at.to), block);
    std::byte* counts_on = place_in_block(warp, reinterpret_cast<std::byte*>(at.counts_on), block);
    if (to == nullptr || counts_on == nullptr) return;
    position there = where(warp);
    const int first = there.block / program_.cluster_ * program_.cluster_;
    if (first + block != there.block) there.asked_by = there.block;
    there.block = first + block;
    load_into(warp, there, from, {to, at.bytes, at.counted, reinterpret_cast<mbarrier*>(counts_on)});
  }
}

void execution::load_into(int warp, const position& place, const void* from, const landing& at) {
  copy_work work;
  work.to = static_cast<std::byte*>(at.to);
  work.from = static_cast<const std::byte*>(from);
  work.bytes = static_cast<std::size_t>(at.bytes);
  work.counted = static_cast<std::size_t>(at.counted);
  work.counts_on = at.counts_on;
  require_memory(warp, from, work.bytes);
  if (place.asked_by < 0) require_memory(warp, at.counts_on, sizeof(mbarrier));
  shop_.ram.check_issuer(warp, true, at.to, work.bytes);
  const int copy = issue(warp, place, work, verb::bulk_load);
  if (copy >= 0) copy_piece(copy);
}

/// Moves the next piece of a load; its step tells the mbarrier.
void execution::copy_piece(int copy) {
  warp_state& state = warps_[static_cast<std::size_t>(copy)];
  copy_work& work = *state.copy;
  const std::size_t piece = next_piece(work);
  std::array<std::byte, 64> buffer;
  for (std::size_t at = work.moved; at < work.moved + piece; at += buffer.size()) {
    const std::size_t bytes = std::min(buffer.size(), work.moved + piece - at);
    read(copy, work.from + at, buffer.data(), bytes);
    write(copy, work.to + at, buffer.data(), bytes);
    shop_.ram.carry_garbage(work.to + at, work.from + at, bytes);
  }
  const scope reach = program_.cluster_ > 1 ? scope::cluster : scope::block;
  const auto counted_at = [&](std::size_t moved) { return work.counted * moved / work.bytes; };
  const std::size_t told = counted_at(work.moved + piece) - counted_at(work.moved);
  state.pending = {verb::count_bytes, order::release, reach,   sizeof(mbarrier),
                   work.counts_on,    told,           nullptr, true};
}

/// The next step of a copy that has read its source: the number of it among what this copy has read.
std::uint64_t execution::tell_of_reads(int copy) {
  std::uint64_t* cell = copied_out_ + copy;
  const std::uint64_t ordinal = *cell + 1;
  warps_[static_cast<std::size_t>(copy)].pending = {verb::copied_out, order::release, scope::block, 8, cell,
                                                    ordinal};
  return ordinal;
}

void execution::bulk_store(int warp, void* to, const void* from, int bytes) {
  warp_state& issuer = warps_[static_cast<std::size_t>(warp)];
  sim::require_bulk_copy({issuer.shared, static_cast<std::ptrdiff_t>(program_.shared_bytes_)}, from, to,
                         bytes);
  copy_work work;
  work.to = static_cast<std::byte*>(to);
  work.from = static_cast<const std::byte*>(from);
  work.bytes = static_cast<std::size_t>(bytes);
  require_memory(warp, to, work.bytes);
  shop_.ram.check_issuer(warp, false, from, work.bytes);
  const int copy = issue(warp, where(warp), work, verb::bulk_store);
  if (copy < 0) return;
  look_at(copy, {work.from, work.bytes});
  issuer.stores.push_back({copy, tell_of_reads(copy), issuer.open_group});
}

/// What an engine reads of its source while it is on its way, without a step of its own.
void execution::look_at(int copy, operand_bytes source) {
  std::array<std::byte, 64> buffer;
  for (std::size_t at = 0; at < source.size(); at += buffer.size())
    read(copy, source.data() + at, buffer.data(), std::min(buffer.size(), source.size() - at));
}

/// It has no destination: what it makes is known to who awaits it.
void execution::start_product(int warp, std::span<const operand_bytes> operands) {
  copy_work work;
  work.is_product = true;
  for (const operand_bytes& operand : operands) {
    work.to = const_cast<std::byte*>(operand.data());
    work.bytes += operand.size();
    shop_.ram.check_issuer(warp, false, operand.data(), operand.size());
  }
  position place = where(warp);
  place.is_product = true;
  const int product = issue(warp, place, work, verb::start_product);
  if (product < 0) return;
  for (const operand_bytes& operand : operands) look_at(product, operand);
  if (limits_.fault == planted_fault::products_read_at_once) shop_.ram.end_copy(product, warp);
  warp_state& issuer = warps_[static_cast<std::size_t>(warp)];
  issuer.products.push_back({product, tell_of_reads(product), issuer.num_products++});
}

/// After the step that told of a piece, or of a store's source having been read.
void execution::finish_copy_step(int copy) {
  warp_state& state = warps_[static_cast<std::size_t>(copy)];
  copy_work& work = *state.copy;
  work.last_touch = static_cast<tick>(shop_.ram.knowledge(copy).now[copy] - 1);
  if (work.is_counted_store || work.is_product) {
    work.moved = work.bytes;
  } else if (work.counts_on != nullptr) {
    work.moved += next_piece(work);
    if (work.moved < work.bytes) return copy_piece(copy);
  } else {
    std::array<std::byte, 64> buffer;
    for (std::size_t at = 0; at < work.bytes; at += buffer.size()) {
      const std::size_t bytes = std::min(buffer.size(), work.bytes - at);
      std::copy_n(work.from + at, bytes, buffer.data());
      write(copy, work.to + at, buffer.data(), bytes);
      shop_.ram.carry_garbage(work.to + at, work.from + at, bytes);
    }
    shop_.ram.advance(copy, false);
  }
  state.pending = {};
  state.finished = true;
}

void execution::bulk_commit(int warp) {
  ++warps_[static_cast<std::size_t>(warp)].open_group;
}

void execution::bulk_wait_read(int warp, int newest) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  const auto left = static_cast<std::uint64_t>(newest);
  await_reads(warp, state.stores, state.open_group > left ? state.open_group - left : 0);
}

void execution::await_products(int warp, int newest) {
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  const auto left = static_cast<std::uint64_t>(newest);
  await_reads(warp, state.products, state.num_products > left ? state.num_products - left : 0);
  std::erase_if(state.products, [](const issued_store& product) { return product.is_read; });
}

/// Of the groups before that one.
void execution::await_reads(int warp, std::vector<issued_store>& of, std::uint64_t before_group) {
  const auto is_awaited = [&](const issued_store& s) { return s.group < before_group && !s.is_read; };
  while (std::any_of(of.begin(), of.end(), is_awaited)) wait_read_of_some(warp, of, before_group);
}

/// A store writes in the step that tells that its source has been read: what is left is to know it.
void execution::bulk_wait(int warp, int newest) {
  bulk_wait_read(warp, newest);
  warp_state& state = warps_[static_cast<std::size_t>(warp)];
  const auto left = static_cast<std::uint64_t>(newest);
  std::erase_if(state.stores, [&](const issued_store& store) {
    const bool is_done = store.group + left < state.open_group;
    if (is_done) shop_.ram.end_copy(store.copy, warp);
    return is_done;
  });
}

/// As many as a wait has words.
void execution::wait_read_of_some(int warp, std::vector<issued_store>& of, std::uint64_t before_group) {
  std::array<std::uint64_t, warp_lanes> wanted{};
  wait_request request;
  for (issued_store& store : of) {
    if (store.group >= before_group || store.is_read || request.num_words == warp_lanes) continue;
    const auto lane = static_cast<std::size_t>(request.num_words);
    wanted[lane] = store.ordinal;
    request.words[lane] = {request.num_words++, copied_out_ + store.copy, 0};
    store.is_read = true;
  }
  request.predicate = wanted.data();
  request.holds = [](const void* all, int lane, std::uint64_t value) {
    return value >= static_cast<const std::uint64_t*>(all)[lane];
  };
  perform(warp, {verb::wait, order::acquire, scope::block, 8, nullptr, 0, &request});
}

std::byte* execution::shared_of(int rank, int block) const {
  for (const warp_state& other : warps_)
    if (other.copy == nullptr && other.where.rank == rank && other.where.block == block) return other.shared;
  return nullptr;
}

/// Null if the cluster has no such block.
std::byte* execution::place_in_block(int warp, std::byte* at, int block_of_cluster) {
  const position& me = where(warp);
  const int first = me.block / program_.cluster_ * program_.cluster_;
  std::byte* there = shared_of(me.rank, first + block_of_cluster);
  if (block_of_cluster >= 0 && block_of_cluster < program_.cluster_ && there != nullptr)
    return there + (at - shared(warp));
  shop_.found.add(verdict::mbarrier_misuse, fmt::format("{} reaches for block {} of a cluster of {}",
                                                        name(me), block_of_cluster, program_.cluster_));
  return nullptr;
}

void execution::note_access_to(int block, int warp) {
  const tick now = shop_.ram.knowledge(warp).now[warp];
  const auto before = std::ranges::find_if(
      remote_accesses_, [&](const remote_access& a) { return a.warp == warp && a.to_block == block; });
  if (before != remote_accesses_.end())
    before->when = now;
  else
    remote_accesses_.push_back({warp, block, now});
}

/// What the warp stores without a step between and counts on one barrier is one participant: it is written at once, and counted
/// when the search says so. Each lane's store knows what that lane does.
int execution::begin_stores(int warp, const void* to, std::size_t bytes, mbarrier* counts_on) {
  int& open = warps_[static_cast<std::size_t>(warp)].counted_stores;
  if (open < 0 || warps_[static_cast<std::size_t>(open)].copy->counts_on != counts_on ||
      shop_.ram.has_written(open, to, bytes)) {
    copy_work work;
    work.counts_on = counts_on;
    work.is_counted_store = true;
    position place = where(warp);
    place.is_store = true;
    open = issue(warp, place, work, verb::count_bytes);
  }
  if (open >= 0) shop_.ram.begin_store(open, warp);
  return open;
}

void execution::store_counted(int warp, int block_of_cluster, void* to, const void* value, std::size_t bytes,
                              mbarrier* b) {
  std::byte* there = place_in_block(warp, static_cast<std::byte*>(to), block_of_cluster);
  auto* counts_on =
      reinterpret_cast<mbarrier*>(place_in_block(warp, reinterpret_cast<std::byte*>(b), block_of_cluster));
  if (there == nullptr || counts_on == nullptr) return;
  shop_.ram.check_issuer(warp, true, there, bytes);
  const int stores = begin_stores(warp, there, bytes, counts_on);
  if (stores < 0) return;
  require_memory(stores, counts_on, sizeof(mbarrier));
  write(stores, there, value, bytes);
  warp_state& state = warps_[static_cast<std::size_t>(stores)];
  state.copy->bytes += bytes;
  operation count{verb::count_bytes, order::release,    scope::cluster, sizeof(mbarrier),
                  counts_on,         state.copy->bytes, nullptr,        true};
  count.covers = tells::own_stores;
  state.pending = count;
}

void execution::arrive_at(int warp, mbarrier* b, int block_of_cluster, int arrivals, tells covers) {
  require_memory(warp, b, sizeof(mbarrier));
  auto* target =
      reinterpret_cast<mbarrier*>(place_in_block(warp, reinterpret_cast<std::byte*>(b), block_of_cluster));
  if (target == nullptr) return;
  require_memory(warp, target, sizeof(mbarrier));
  operation op{verb::arrive,   order::release,
               scope::cluster, sizeof(mbarrier),
               target,         static_cast<std::uint64_t>(arrivals),
               nullptr,        true};
  op.covers = covers;
  perform(warp, op);
}

bool execution::anybody_knows(int rank, int block, int participant, tick when) const {
  for (int w = 0; w < num_real_warps_; ++w) {
    const warp_state& state = warps_[static_cast<std::size_t>(w)];
    if (state.where.rank != rank || state.where.block != block) continue;
    const warp_knowledge& k = shop_.ram.knowledge(w);
    if (state.gave_up || k.now.includes(participant, when) || k.elsewhere.ended.includes(participant, when))
      return true;
  }
  return false;
}

/// A block's shared memory is gone when its warps have returned. What is to happen there must have happened before
/// something that one of them knows of.
void execution::report_loose_ends(int rank) {
  if (limits_.fault == planted_fault::loose_ends_ignored) return;
  for (int i = num_real_warps_; i < num_warps(); ++i) {
    const warp_state& state = warps_[static_cast<std::size_t>(i)];
    if (state.where.rank != rank || !state.finished || state.where.is_store) continue;  // of others: below
    if (anybody_knows(rank, state.where.block, i, state.copy->last_touch)) continue;
    return shop_.found.add(
        verdict::loose_end,
        fmt::format("rank {} block {} may end while {} is on its way: nobody there waits for it", rank,
                    state.where.block, name(state.where)));
  }
  for (const remote_access& access : remote_accesses_) {
    const position& from = where(access.warp);
    if (from.rank != rank || anybody_knows(rank, access.to_block, access.warp, access.when)) continue;
    return shop_.found.add(verdict::loose_end,
                           fmt::format("rank {} block {} may end before {} is done with its shared memory: "
                                       "synchronise the cluster before leaving",
                                       rank, access.to_block, name(from)));
  }
}

}  // namespace baton::check
