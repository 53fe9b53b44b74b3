#pragma once
// Ordered access to a word of 32 or 64 bits, which cuda::ptx has not: ld, st and atom, spelled with the order, the scope and
// the state space that the template arguments name.
// PTX ISA 9.7.9.8 "ld", 9.7.9.12 "st", 9.7.13.5 "atom".                   (PTX 6.0, sm_70; .cluster: 7.8, sm_90)
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exec/order.hpp"
#include "ptx/shared_address.cuh"

namespace baton::ptx {

template <class T>
concept word = std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>;

/// What atom does to the word.
enum class update { add, min, either, exch };

/// Where the word is said to stand.
enum class space { generic, shared };

// Pieces of instructions: a "C" constraint puts the contents of such an array into the assembly.
namespace piece {
inline constexpr char relaxed[] = "relaxed", acquire[] = "acquire", release[] = "release",
                      acq_rel[] = "acq_rel";
inline constexpr char cta[] = "cta", cluster[] = "cluster", gpu[] = "gpu", sys[] = "sys";
inline constexpr char add_u32[] = "add.u32", min_u32[] = "min.u32", or_b32[] = "or.b32",
                      exch_b32[] = "exch.b32";
inline constexpr char add_u64[] = "add.u64", min_u64[] = "min.u64", or_b64[] = "or.b64",
                      exch_b64[] = "exch.b64";
inline constexpr char generic[] = "", shared[] = ".shared";
inline constexpr const char* orders[] = {relaxed, acquire, release, acq_rel};
inline constexpr const char* scopes[] = {cta, cluster, gpu, sys};
inline constexpr const char* updates[][2] = {
    {add_u32, add_u64}, {min_u32, min_u64}, {or_b32, or_b64}, {exch_b32, exch_b64}};
}  // namespace piece

constexpr const char* spelled(order o) {
  return piece::orders[static_cast<int>(o)];
}
constexpr const char* spelled(scope s) {
  return piece::scopes[static_cast<int>(s)];
}
constexpr const char* spelled(space s) {
  return s == space::shared ? piece::shared : piece::generic;
}
constexpr const char* spelled(update what, std::size_t bytes) {
  return piece::updates[static_cast<int>(what)][bytes / 8];
}

template <space Space>
__device__ __forceinline__ std::size_t address(const void* word) {
  return Space == space::shared ? __cvta_generic_to_shared(word) : reinterpret_cast<std::size_t>(word);
}

template <order Order, scope Scope, space Space = space::generic, word Word>
__device__ __forceinline__ Word ld(const Word* from) {
  static_assert(Order == order::relaxed || Order == order::acquire, "a load is relaxed or acquires");
  Word value;
  if constexpr (sizeof(Word) == 4)
    asm volatile("ld.%2.%3%4.u32 %0, [%1];"
                 : "=r"(value)
                 : "l"(address<Space>(from)), "C"(spelled(Order)), "C"(spelled(Scope)), "C"(spelled(Space))
                 : "memory");
  else
    asm volatile("ld.%2.%3%4.u64 %0, [%1];"
                 : "=l"(value)
                 : "l"(address<Space>(from)), "C"(spelled(Order)), "C"(spelled(Scope)), "C"(spelled(Space))
                 : "memory");
  return value;
}

template <order Order, scope Scope, space Space = space::generic, word Word>
__device__ __forceinline__ void st(Word* to, std::type_identity_t<Word> value) {
  static_assert(Order == order::relaxed || Order == order::release, "a store is relaxed or releases");
  if constexpr (sizeof(Word) == 4)
    asm volatile("st.%2.%3%4.u32 [%0], %1;"
                 :
                 : "l"(address<Space>(to)), "r"(value), "C"(spelled(Order)), "C"(spelled(Scope)),
                   "C"(spelled(Space))
                 : "memory");
  else
    asm volatile("st.%2.%3%4.u64 [%0], %1;"
                 :
                 : "l"(address<Space>(to)), "l"(value), "C"(spelled(Order)), "C"(spelled(Scope)),
                   "C"(spelled(Space))
                 : "memory");
}

/// Gives what was there.
template <update What, order Order, scope Scope, space Space = space::generic, word Word>
__device__ __forceinline__ Word atom(Word* at, std::type_identity_t<Word> value) {
  Word old;
  if constexpr (sizeof(Word) == 4)
    asm volatile("atom.%3.%4%5.%6 %0, [%1], %2;"
                 : "=r"(old)
                 : "l"(address<Space>(at)), "r"(value), "C"(spelled(Order)), "C"(spelled(Scope)),
                   "C"(spelled(Space)), "C"(spelled(What, sizeof(Word)))
                 : "memory");
  else
    asm volatile("atom.%3.%4%5.%6 %0, [%1], %2;"
                 : "=l"(old)
                 : "l"(address<Space>(at)), "l"(value), "C"(spelled(Order)), "C"(spelled(Scope)),
                   "C"(spelled(Space)), "C"(spelled(What, sizeof(Word)))
                 : "memory");
  return old;
}

/// atom.relaxed.gpu.cas.b32: stores `desired` if `expected` was there; gives what was there. Device scope: over PCIe
/// memory of the host has no atomics that the host takes part in, and the claimants are warps of one GPU.
__device__ __forceinline__ std::uint32_t atom_cas_relaxed_gpu(std::uint32_t* at, std::uint32_t expected,
                                                              std::uint32_t desired) {
  std::uint32_t old;
  asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(at), "r"(expected), "r"(desired)
               : "memory");
  return old;
}

}  // namespace baton::ptx
