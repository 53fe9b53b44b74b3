#include "runtime/nvshmem_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "baton/error.hpp"
#include "exec/build_id.hpp"

namespace baton {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> told_by(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

/// A program is known to the loader by the word that started it, which may be no path.
std::string file_of_this_code() {
  Dl_info info{};
  std::error_code failed;
  if (::dladdr(reinterpret_cast<const void*>(&file_of_this_code), &info) != 0 && info.dli_fname != nullptr)
    if (const fs::path real = fs::canonical(info.dli_fname, failed); !failed) return real.string();
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? "" : program.string();
}

/// Whoever may write there may put a library there that is not NVSHMEM's.
bool is_for_everybody(const fs::path& folder) {
  struct stat found {};
  return ::stat(folder.c_str(), &found) == 0 && (found.st_mode & S_IWOTH) != 0;
}

std::string path_of(void* handle) {
  link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr ? map->l_name : "";
}

}  // namespace

nvshmem_places places_of_nvshmem(const std::string& own_file, const std::optional<std::string>& home,
                                 const std::optional<std::string>& module) {
  nvshmem_places at;
  const fs::path folder = fs::path{own_file}.parent_path();
  if (module) {
    at.module = {*module};
  } else {
    if (!own_file.empty())
      for (const fs::path& beside : {folder, folder.parent_path() / "lib"})
        at.module.push_back((beside / nvshmem_module_name).string());
    at.module.push_back(nvshmem_module_name);
  }
  if (home) {
    at.host_library = {(fs::path{*home} / "lib" / nvshmem_host_library).string()};
    return at;
  }
  for (fs::path above = folder.parent_path(); above != above.parent_path() && !is_for_everybody(above);
       above = above.parent_path())
    at.host_library.push_back((above / "nvidia" / "nvshmem" / "lib" / nvshmem_host_library).string());
  at.host_library.push_back(nvshmem_host_library);
  return at;
}

nvshmem_places places_of_nvshmem() {
  return places_of_nvshmem(file_of_this_code(), told_by("BATON_NVSHMEM"), told_by("BATON_NVSHMEM_MODULE"));
}

opened_library open_first(const std::vector<std::string>& places, int flags) {
  opened_library first{nullptr, places.empty() ? "" : places.front(), ""};
  for (const std::string& path : places) {
    std::error_code failed;
    if (path.find('/') != path.npos && places.size() > 1 && !fs::exists(path, failed)) continue;
    if (void* const handle = ::dlopen(path.c_str(), flags); handle != nullptr)
      return {handle, path_of(handle), ""};
    const char* const why = ::dlerror();
    first.path = path;
    first.problem = why != nullptr ? why : "no reason given";
    if (path.find('/') != path.npos) break;  // it is there: what is wrong with it has to be told
  }
  return first;
}

bool nvshmem_is_told(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && std::string_view{"0NnFf"}.find(*value) == std::string_view::npos;
}

bool nvshmem_heap_grows() {
  return !nvshmem_is_told("NVSHMEM_DISABLE_CUDA_VMM");
}

bool is_of_this_build(const nvshmem_calls& calls) {
  return calls.build == build_id();
}

const nvshmem_calls* calls_of(void* module) {
  const auto entry = reinterpret_cast<nvshmem_entry>(::dlsym(module, nvshmem_symbol));
  const nvshmem_calls* const calls = entry != nullptr ? entry() : nullptr;
  return calls != nullptr && is_of_this_build(*calls) ? calls : nullptr;
}

void require_one_set(const std::vector<nvshmem_id>& of_ranks) {
  for (std::size_t r = 1; r < of_ranks.size(); ++r)
    if (of_ranks[r] != of_ranks.front())
      throw unsupported{fmt::format(
          "p2p_group_size: the processes of ranks 0 and {} are not in one set of NVSHMEM's, which a process "
          "joins once, with its first communicator of ranks beyond the group; start all processes anew",
          r)};
}

}  // namespace baton
