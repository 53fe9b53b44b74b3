// What the benchmarks are without CUDA in the build. A world of GPUs is refused when it is made, so that nothing here is
// asked to measure one.
#include "baton/error.hpp"
#include "cli/bench/cublas_product.hpp"
#include "cli/bench/cublaslt_product.hpp"
#include "cli/bench/ep_timer.hpp"
#include "cli/bench/flag_floor.hpp"
#include "cli/bench/gpu_facts.hpp"
#include "cli/bench/nccl_exchange.hpp"
#include "cli/bench/nvshmem_all_to_all.hpp"
#include "cli/bench/overlapped_layers.hpp"
#include "cli/bench/probe/measure.hpp"
#include "cli/bench/round_timer.hpp"
#include "cli/bench/work_timer.hpp"

namespace baton {
namespace {

[[noreturn]] void refuse() {
  throw unsupported{"GPUs cannot be measured: this build of baton has no CUDA"};
}

}  // namespace

namespace cli {

std::unique_ptr<ep_timer> make_cuda_timer(ep_session&) {
  refuse();
}
std::unique_ptr<overlapped_layers> make_cuda_overlapped_layers(const micro_batches&) {
  refuse();
}
std::vector<std::vector<double>> measure_flag_floor(std::span<const world>, int, int) {
  refuse();
}
std::unique_ptr<work_timer> make_cuda_work_timer(const world&) {
  refuse();
}
std::unique_ptr<round_timer> make_cuda_round_timer(const world&) {
  refuse();
}
std::unique_ptr<nvshmem_all_to_all> open_nvshmem_all_to_all(const world&, std::size_t, std::string& why_not) {
  why_not = "this build of baton has no CUDA";
  return nullptr;
}
std::optional<measured_gpus> facts_of(std::span<const world>) {
  return std::nullopt;
}
std::unique_ptr<cublas_product> open_cublas(const world&, std::string& why_not) {
  why_not = "this build of baton has no CUDA";
  return nullptr;
}
std::unique_ptr<cublaslt_product> open_cublaslt(const world&, std::string& why_not) {
  why_not = "this build of baton has no CUDA";
  return nullptr;
}
std::unique_ptr<nccl_exchange> open_nccl(std::span<const world>, std::string& why_not) {
  why_not = "this build of baton has no CUDA";
  return nullptr;
}

}  // namespace cli

namespace probe {

link_report measure_gpus(std::span<const world>, links_of) {
  refuse();
}

}  // namespace probe
}  // namespace baton
