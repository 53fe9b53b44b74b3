#pragma once
// Where NVSHMEM and baton's module for it are: told by the environment, or looked for where installing puts them. And whether
// the module is of this build, all ranks of one set of NVSHMEM's, and its heap one that grows.
#include <optional>
#include <string>
#include <vector>

#include "runtime/nvshmem_calls.hpp"

namespace baton {

inline constexpr const char* nvshmem_host_library = "libnvshmem_host.so.3";
inline constexpr const char* nvshmem_module_name = "libbaton_nvshmem.so";

/// What may be opened, in the order in which it is tried. A bare name is for the loader to find.
struct nvshmem_places {
  std::vector<std::string> host_library, module;
};

/// `own_file`: this code's program or shared library. `home` and `module`: BATON_NVSHMEM and BATON_NVSHMEM_MODULE; what is told
/// is not looked for anywhere else.
///
/// The module: beside own_file, then in lib beside its folder, as `cmake --install` puts it. NVSHMEM: nvidia/nvshmem in a folder
/// above own_file, which is site-packages for a wheel, up to one that everybody may write to, as /tmp.
nvshmem_places places_of_nvshmem(const std::string& own_file, const std::optional<std::string>& home,
                                 const std::optional<std::string>& module);
/// Of this process.
nvshmem_places places_of_nvshmem();

/// A library that stays open until the process ends, or why none of its places has it.
struct opened_library {
  void* handle = nullptr;
  std::string path;     // of the file that was opened; of none: the first that was tried
  std::string problem;  // as the loader says; empty: it is open
};
/// `flags` as for dlopen.
opened_library open_first(const std::vector<std::string>& places, int flags);

/// Whether one of its variables that are yes or no says yes, as NVSHMEM reads them: set is yes, but for 0, no and false.
bool nvshmem_is_told(const char* variable);

/// Whether its symmetric heap grows with what is asked of it, as it does unless NVSHMEM_DISABLE_CUDA_VMM is set; else all of it
/// is taken at the start.
bool nvshmem_heap_grows();

/// Of the same sources, all of whose layouts it shares: neighbours of them differ in what no size tells.
bool is_of_this_build(const nvshmem_calls& calls);
/// Of an opened module; null: it is of another build.
const nvshmem_calls* calls_of(void* module);

/// A process has one set of ranks in NVSHMEM, for its life. `of_ranks`: the id of the set that each rank's process is in, zeros:
/// of none yet. @throws unsupported  the ranks are not of one set, so that one's memory would be looked for in another's process
void require_one_set(const std::vector<nvshmem_id>& of_ranks);

}  // namespace baton
