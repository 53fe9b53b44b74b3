#pragma once
// A context whose asynchronous verbs do something else than asked, once: mutants of protocols without touching
// their source. Works over any back end whose contexts can be copied.
#include <cstddef>

#include "exec/mbarrier.hpp"

namespace baton::checks {

/// What is done differently. The default changes nothing.
struct tampering {
  site skips = {};              // waits there return at once
  site flips = {};              // waits there wait for the other parity
  std::int64_t only_tile = -1;  // ... only those of this epoch; -1: all

  int drops_at = -1;          // the barrier, by index, whose first arrival by each of these warps is lost:
  int drops_from_warp = 0;    //   warps from here on
  int recounts = -1;          // the barrier, by index, that is made with another count:
  int recount = 0;            //   this one
  bool arrives_here = false;  // arrivals at another block happen in the own one
  int expects_divided_by = 1;
  bool no_proxy_fence = false;
};

template <async_exec_context Base>
class tampered : public Base {
 public:
  tampered(const Base& x, const tampering& t) : Base{x}, how_{t} {}

  void mbarrier_init(mbarrier* b, int arrivals) {
    Base::mbarrier_init(b, index(b) == how_.recounts ? how_.recount : arrivals);
  }
  void mbarrier_arrive(mbarrier* b, int n) {
    if (!loses(b)) Base::mbarrier_arrive(b, n);
  }
  void mbarrier_arrive_at(mbarrier* b, int block, int n) {
    if (loses(b)) return;
    if (how_.arrives_here) {
      Base::mbarrier_arrive(b, n);
    } else {
      Base::mbarrier_arrive_at(b, block, n);
    }
  }
  void mbarrier_arrive_expect(mbarrier* b, int bytes) {
    Base::mbarrier_arrive_expect(b, bytes / how_.expects_divided_by);
  }
  void fence_proxy_async() {
    if (!how_.no_proxy_fence) Base::fence_proxy_async();
  }
  template <scope Scope>
  bool mbarrier_wait(mbarrier* b, parity p, const wait_site& where) {
    if (applies(how_.skips, where)) return true;
    return Base::template mbarrier_wait<Scope>(b, applies(how_.flips, where) ? !p : p, where);
  }

 private:
  int index(const mbarrier* b) const {
    return static_cast<int>(b - reinterpret_cast<const mbarrier*>(Base::shared()));
  }
  bool applies(site to, const wait_site& where) const {
    return to != site{} && where.where == to && (how_.only_tile < 0 || how_.only_tile == where.epoch);
  }
  bool loses(const mbarrier* b) {
    if (index(b) != how_.drops_at || Base::warp() < how_.drops_from_warp || has_lost_) return false;
    has_lost_ = true;
    return true;
  }

  tampering how_;
  bool has_lost_ = false;
};

}  // namespace baton::checks
