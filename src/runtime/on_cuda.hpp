#pragma once
// The CUDA side of worlds and their memory. Always declared; without CUDA in the build each throws
// unsupported.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/kernel.hpp"
#include "exec/tensor_copy.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/window.hpp"
#include "runtime/world_state.hpp"

namespace baton::on_cuda {

#if defined(BATON_CUDA)
inline constexpr bool is_built_in = true;
#else
inline constexpr bool is_built_in = false;
#endif

/// A device as other processes know it: ordinals differ between processes, uuids do not.
struct device_identity {
  std::int32_t ordinal = 0;
  unsigned char uuid[16] = {};
};

/// @throws unsupported  no such device, or one that baton's kernels do not run on
device_identity identify(int ordinal);
/// Ordinal of local rank `local_rank`: round robin. @throws unsupported  no device at all
int default_ordinal(int local_rank);

/// Fills in what depends on all ranks' devices and allocates the memory for reports.
/// @throws unsupported  two ranks' devices lack peer access; names the pair
void set_up(detail::world_state& state, std::span<const device_identity> all);

void wait_for_stream(const detail::world_state& state, stream_ref stream);
void chain(const detail::world_state& state, stream_ref earlier, stream_ref later);
/// Waits for all work of the rank's device. @throws cuda_error
void wait_for_device(const detail::world_state& state);
/// The same before memory goes that it may use. Every wait in it has a deadline.
void drain(const detail::world_state& state) noexcept;
void clear_abort(const detail::world_state& state);

std::shared_ptr<std::byte> allocate(const detail::world_state& state, std::size_t bytes,
                                    const memory_use& use);
/// Of the ranks of `g`, as make_window_on_host.
std::unique_ptr<symmetric_window> make_window(const world& world, const bootstrap::group& g,
                                              std::size_t bytes, const memory_use& use);
/// Copies at once, on a stream of its own.
void copy_now(const detail::world_state& state, void* to, const void* from, std::size_t bytes);
void copy(const detail::world_state& state, void* to, const void* from, std::size_t bytes, stream_ref stream);
void fill(const detail::world_state& state, void* at, unsigned char value, std::size_t bytes,
          stream_ref stream);
int num_sms(const detail::world_state& state);
/// Whether the rank's kernels can use `at`, which may be host memory.
bool reaches(const detail::world_state& state, const void* at);

/// A kernel (device_entry), and what profilers are told it is.
struct named_entry {
  const void* code = nullptr;
  const char* name = "kernel";
};

/// Enqueues the kernel behind `entry`; `params` are copied. Neither allocates nor synchronises.
void launch(int device, const named_entry& entry, const launch_grid& grid, const void* params, launched_by by,
            stream_ref stream);

/// Clusters of `grid` that the device has room for at a time; kept from one call to the next.
int most_clusters(int device, const void* entry, const launch_grid& grid);

/// See runtime/tensor_map.hpp; the layout has been checked. @throws cuda_error  the driver refuses
/// `dims`: as many dimensions of the boxes as the kernel names.
tensor_map make_tensor_map(const tensor_boxes& boxes, int dims);

/// Sets device memory and waits for it, beside whatever the device's streams are doing.
void fill_now(int device, void* at, unsigned char value, std::size_t bytes);
std::size_t free_bytes(int device);

}  // namespace baton::on_cuda
