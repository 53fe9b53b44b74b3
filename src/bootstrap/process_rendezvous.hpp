#pragma once
// How ranks that are processes of one machine meet: rank 0 listens at a Unix socket, collects, answers.
//
//   client -> rank 0   hello once; then for every all-gather: request, payload
//   rank 0 -> client   answer to each: an error text, or (text_bytes == 0) the gathered payload
//
// Rank 0 fails a round for everybody, so that all ranks report the same cause.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/world.hpp"
#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/time_limit.hpp"

namespace baton::bootstrap {

class process_rendezvous {
 public:
  /// Collective. `place` names the socket; only one meeting of a machine may use it at a time.
  /// @throws transport_error  naming the ranks that did not come, came twice, or expected another size
  process_rendezvous(const std::string& place, int rank, int size, std::chrono::milliseconds deadline);

  void all_gather(const void* mine, void* all, std::size_t bytes);

 private:
  void serve(const std::string& place);
  void admit(file_descriptor guest, const time_limit& limit);
  std::string objection_to(std::uint64_t magic, int rank, int size) const;
  void join(const std::string& place);
  void collect(const void* mine, std::byte* all, std::size_t bytes);
  void ask(const void* mine, void* all, std::size_t bytes);
  void take_answer(void* payload, std::size_t bytes);
  [[noreturn]] void fail(const std::string& why);
  [[noreturn]] void fail_all(const std::string& why);
  std::string late_text(const std::vector<int>& missing, const std::string& what) const;
  std::vector<int> absent() const;

  int rank_;
  int size_;
  std::chrono::milliseconds deadline_;
  std::vector<file_descriptor> peers_;  // rank 0: one a rank; others: [0] leads to rank 0
  std::uint64_t rounds_ = 0;
  std::string broken_;
};

}  // namespace baton::bootstrap
