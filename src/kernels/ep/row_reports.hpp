#pragma once
// What a dispatch tells its caller beside received_tokens: rows of the local experts in memory that the host reads, as soon as
// they are known, and how they add up over rounds.
#include "exec/exec.hpp"
#include "kernels/ep/params.hpp"

namespace baton::ep {

/// One lane: a word that the host may be polling; each says all by itself.
template <class X>
BATON_FN void tell_host(X& x, const row_reports& to, int at, int value) {
  if (to.host_counts == nullptr) return;
  x.template store<order::relaxed, scope::system>(reinterpret_cast<std::uint32_t*>(to.host_counts + at),
                                                  static_cast<std::uint32_t>(value));
}

/// One lane, once a round: rows of a local expert.
template <class X>
BATON_FN void report_rows(X& x, const row_reports& to, int local, int rows) {
  tell_host(x, to, local, rows);
  if (to.expert_load != nullptr) x.write(to.expert_load + local, x.read(to.expert_load + local) + rows);
}

}  // namespace baton::ep
