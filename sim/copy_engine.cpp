// The copy engine: when pieces of bulk copies are read and written.
#include "sim/copy_engine.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "baton/error.hpp"
#include "sim/machine_state.hpp"
#include "sim/mbarrier_model.hpp"

namespace baton::sim {
namespace {

bool within(const std::vector<std::byte>& memory, const std::byte* at) {
  return !memory.empty() && at >= memory.data() && at < memory.data() + memory.size();
}

}  // namespace

void copy_pieces::add(copy_piece piece) {
  if (most_urgent_ && piece.priority > pieces_[*most_urgent_]->priority) most_urgent_ = pieces_.size();
  pieces_.push_back(std::make_unique<copy_piece>(std::move(piece)));
}

copy_piece copy_pieces::take(std::size_t index) {
  copy_piece taken = std::move(*pieces_[index]);
  pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(index));
  if (most_urgent_ && *most_urgent_ > index)
    --*most_urgent_;
  else if (most_urgent_ == index)
    most_urgent_.reset();
  return taken;
}

std::size_t copy_pieces::most_urgent() {
  if (!most_urgent_) {
    const auto most = std::max_element(pieces_.begin(), pieces_.end(), [](const auto& a, const auto& b) {
      return a->priority < b->priority;
    });
    most_urgent_ = static_cast<std::size_t>(most - pieces_.begin());
  }
  return *most_urgent_;
}

bool copy_pieces::any(const std::function<bool(const copy_piece&)>& is) const {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& piece) { return is(*piece); });
}

void copy_pieces::erase_if(const std::function<bool(const copy_piece&)>& is) {
  std::erase_if(pieces_, [&](const auto& piece) { return is(*piece); });
  most_urgent_.reset();
}

/// One piece in the product's schedule, else up to four.
void machine::state::issue(const copy_piece& whole) {
  const std::size_t most = opts.order == schedule::round_robin ? 1 : 1 + random() % 4;
  copy_piece rest = whole;
  for (std::size_t i = 0; i < most && rest.bytes > 0; ++i) {
    const std::size_t left = rest.bytes / whole.unit();
    copy_piece piece = rest;
    piece.bytes = (i + 1 == most ? left : 1 + random() % left) * whole.unit();
    piece.priority = lowest_priority + random() % (1u << 20);
    rest.skip(piece.bytes);
    copies.add(std::move(piece));
  }
}

void machine::state::issue_one(copy_piece piece) {
  piece.priority = lowest_priority + random() % (1u << 20);
  copies.add(std::move(piece));
}

/// The product's engine is done before anybody looks; the others choose by chance or by priority.
bool machine::state::engine_goes_next(const warp_state* w) {
  if (copies.empty()) return false;
  if (w == nullptr || opts.order == schedule::round_robin) return true;
  if (opts.order == schedule::random) return random() % 3 == 0;
  return copies[copies.most_urgent()].priority > w->priority;
}

void machine::state::progress_copies() {
  std::size_t next_piece = 0;
  if (opts.order == schedule::random) next_piece = random() % copies.size();
  if (opts.order == schedule::priority) next_piece = copies.most_urgent();
  advance(next_piece);
}

void machine::state::advance(std::size_t index) {
  copy_piece& piece = copies[index];
  if (!piece.is_read) {
    read_source(piece);
    piece.is_read = true;
  } else {
    const copy_piece landed = copies.take(index);
    write_target(landed);
    if (!landed.is_store()) count_on(landed);
  }
  ++version;
}

void machine::state::read_source(copy_piece& piece) {
  block_state& home = piece.home();
  store_list& global = of(piece.owner->rank).stores;
  if (piece.from == nullptr) {
    piece.held.assign(piece.bytes, std::byte{0});
    piece.box->each_chunk(piece.bytes, [&](const std::byte* from, std::size_t at, std::size_t bytes) {
      global.reveal(from, bytes);
      std::copy(from, from + bytes, piece.held.data() + at);
    });
    return;
  }
  const std::byte* from = piece.from;
  if (within(home.shared, from) && !home.engine_view.empty()) {
    from = home.engine_view.data() + (from - home.shared.data());
  } else {
    global.reveal(from, piece.bytes);
  }
  piece.held.assign(from, from + piece.bytes);
}

void machine::state::write_target(const copy_piece& landed) {
  block_state& home = landed.home();
  store_list& global = of(landed.owner->rank).stores;
  if (landed.to == nullptr) {
    landed.box->each_chunk(landed.bytes, [&](const std::byte* to, std::size_t at, std::size_t bytes) {
      global.reveal(to, bytes);
      std::copy_n(landed.held.data() + at, bytes, const_cast<std::byte*>(to));
    });
    return;
  }
  if (landed.is_store()) global.reveal(landed.to, landed.bytes);  // older stores do not come after it
  std::copy(landed.held.begin(), landed.held.end(), landed.to);
  if (within(home.shared, landed.to) && !home.engine_view.empty() && !landed.is_plain) {
    std::copy(landed.held.begin(), landed.held.end(),
              home.engine_view.data() + (landed.to - home.shared.data()));
  }
}

void machine::state::count_on(const copy_piece& piece) {
  const auto before = mbarrier_state::of(piece.counts_on->opaque);
  const mbarrier_state now = complete(before, static_cast<std::int64_t>(piece.bytes));
  piece.counts_on->opaque = now.word();
  if (now.fault == mbarrier_fault::none || failure) return;
  failure = std::make_exception_ptr(error{fmt::format(
      "rank {} block {}: {} bytes land on the mbarrier at shared + {}: {}", piece.owner->rank,
      piece.owner->block, piece.bytes,
      reinterpret_cast<std::byte*>(piece.counts_on) - piece.home().shared.data(), name(now.fault))});
}

/// Before the memory of a kernel's blocks goes.
void machine::state::finish_copies(const kernel_state& kernel) {
  for (std::size_t i = 0; i < copies.size();) {
    if (copies[i].owner->kernel != &kernel) {
      ++i;
    } else if (of(copies[i].owner->rank).dead) {
      copies.take(i);
    } else {
      advance(i);
    }
  }
}

}  // namespace baton::sim
