#pragma once
#include "protocol/membership.hpp"

namespace baton::ep::members {

struct params {
  meeting step{};
  std::uint64_t*
      seen{};  // [most_members], in memory of this rank's own: what each member told; 0 of who is none
};

}  // namespace baton::ep::members
