#include "cli/bench/cublaslt_product.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "baton/device_buffer.hpp"
#include "baton/error.hpp"
#include "cli/bench/loaded_library.hpp"

namespace baton::cli {
namespace {

// cuBLASLt's C interface, as cublasLt.h and library_types.h declare it; only what one product needs.
constexpr int lt_type_bf16 = 14, lt_type_fp32 = 0, lt_type_e4m3 = 28, lt_compute_fp32 = 68;
constexpr int lt_transpose_a = 3, lt_a_scale = 17, lt_b_scale = 18, lt_a_scale_mode = 31,
              lt_b_scale_mode = 32;                                                 // of a description
constexpr std::int32_t lt_transpose = 1, lt_scale_vec128 = 4, lt_scale_blk128 = 5;  // their values
constexpr int lt_most_workspace = 1;                                                // of a preference
struct lt_handle;
struct lt_description;
struct lt_layout;
struct lt_preference;
struct lt_choice {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

struct cublaslt_calls {
  int (*create)(lt_handle**) = nullptr;
  int (*destroy)(lt_handle*) = nullptr;
  std::size_t (*get_version)() = nullptr;
  int (*create_description)(lt_description**, int, int) = nullptr;
  int (*destroy_description)(lt_description*) = nullptr;
  int (*set_description)(lt_description*, int, const void*, std::size_t) = nullptr;
  int (*create_layout)(lt_layout**, int, std::uint64_t, std::uint64_t, std::int64_t) = nullptr;
  int (*destroy_layout)(lt_layout*) = nullptr;
  int (*create_preference)(lt_preference**) = nullptr;
  int (*destroy_preference)(lt_preference*) = nullptr;
  int (*set_preference)(lt_preference*, int, const void*, std::size_t) = nullptr;
  int (*choose)(lt_handle*, lt_description*, lt_layout*, lt_layout*, lt_layout*, lt_layout*, lt_preference*,
                int, lt_choice*, int*) = nullptr;
  int (*multiply)(lt_handle*, lt_description*, const void*, const void*, lt_layout*, const void*, lt_layout*,
                  const void*, const void*, lt_layout*, void*, lt_layout*, const void*, void*, std::size_t,
                  cudaStream_t) = nullptr;
};

std::optional<cublaslt_calls> load_cublaslt(std::string& why_not) {
  loaded_library library{
      "cuBLASLt",
      "BATON_CUBLASLT",
      {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13"}};
  cublaslt_calls calls;
  library.find("cublasLtCreate", calls.create);
  library.find("cublasLtDestroy", calls.destroy);
  library.find("cublasLtGetVersion", calls.get_version);
  library.find("cublasLtMatmulDescCreate", calls.create_description);
  library.find("cublasLtMatmulDescDestroy", calls.destroy_description);
  library.find("cublasLtMatmulDescSetAttribute", calls.set_description);
  library.find("cublasLtMatrixLayoutCreate", calls.create_layout);
  library.find("cublasLtMatrixLayoutDestroy", calls.destroy_layout);
  library.find("cublasLtMatmulPreferenceCreate", calls.create_preference);
  library.find("cublasLtMatmulPreferenceDestroy", calls.destroy_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", calls.set_preference);
  library.find("cublasLtMatmulAlgoGetHeuristic", calls.choose);
  library.find("cublasLtMatmul", calls.multiply);
  return library.complete(calls, why_not);
}

void must_lt(int status, const char* call) {
  if (status != 0) throw cuda_error{fmt::format("{}: status {}", call, status)};
}

/// One problem's descriptions and what cuBLASLt chose for it. Column-major: c^T = b * a^T.
class lt_plan {
 public:
  lt_plan(const cublaslt_calls& calls, const scaled_gemm_problem& p) : calls_{calls}, of_{p} {
    must_lt(calls.create_description(&description_, lt_compute_fp32, lt_type_fp32),
            "cublasLtMatmulDescCreate");
    set(lt_transpose_a, lt_transpose);
    set(lt_a_scale_mode, lt_scale_blk128);
    set(lt_b_scale_mode, lt_scale_vec128);
    set(lt_a_scale, p.b_scales);
    set(lt_b_scale, p.a_scales);
    a_ = layout(lt_type_e4m3, p.k, p.n);
    b_ = layout(lt_type_e4m3, p.k, p.m);
    c_ = layout(lt_type_bf16, p.n, p.m);
  }
  ~lt_plan() {
    for (lt_layout* of : {a_, b_, c_}) static_cast<void>(calls_.destroy_layout(of));
    static_cast<void>(calls_.destroy_description(description_));
  }
  lt_plan(const lt_plan&) = delete;
  lt_plan& operator=(const lt_plan&) = delete;

  bool is_for(const scaled_gemm_problem& p) const {
    return p.a == of_.a && p.b == of_.b && p.c == of_.c && p.a_scales == of_.a_scales &&
           p.b_scales == of_.b_scales && p.m == of_.m && p.n == of_.n && p.k == of_.k;
  }
  /// Empty: there is one.
  std::string choose(lt_handle* handle, std::size_t workspace_bytes) {
    lt_preference* preference = nullptr;
    must_lt(calls_.create_preference(&preference), "cublasLtMatmulPreferenceCreate");
    int found = 0;
    int status =
        calls_.set_preference(preference, lt_most_workspace, &workspace_bytes, sizeof workspace_bytes);
    if (status == 0)
      status = calls_.choose(handle, description_, a_, b_, c_, c_, preference, 1, &choice_, &found);
    static_cast<void>(calls_.destroy_preference(preference));
    if (status == 0 && found > 0) return {};
    return fmt::format("it has no algorithm for this product, status {}", status);
  }
  void enqueue(lt_handle* handle, void* workspace, std::size_t workspace_bytes, stream_ref stream) {
    const float one = 1, zero = 0;
    must_lt(calls_.multiply(handle, description_, &one, of_.b, a_, of_.a, b_, &zero, of_.c, c_, of_.c, c_,
                            choice_.algorithm, workspace, workspace_bytes,
                            static_cast<cudaStream_t>(stream.native)),
            "cublasLtMatmul");
  }

 private:
  template <class T>
  void set(int attribute, const T& value) {
    must_lt(calls_.set_description(description_, attribute, &value, sizeof value),
            "cublasLtMatmulDescSetAttribute");
  }
  /// Contiguous columns.
  lt_layout* layout(int type, int rows, int columns) const {
    lt_layout* made = nullptr;
    must_lt(calls_.create_layout(&made, type, static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), rows),
            "cublasLtMatrixLayoutCreate");
    return made;
  }

  const cublaslt_calls& calls_;
  scaled_gemm_problem of_;
  lt_description* description_ = nullptr;
  lt_layout *a_ = nullptr, *b_ = nullptr, *c_ = nullptr;
  lt_choice choice_{};
};

class loaded_cublaslt : public cublaslt_product {
 public:
  loaded_cublaslt(const world& world, const cublaslt_calls& calls)
      : calls_{calls}, workspace_{world, workspace_bytes, {"cuBLASLt's workspace", "lower the sizes"}} {
    if (cudaSetDevice(world.device_index()) != cudaSuccess)
      throw cuda_error{"cuBLASLt: its device cannot be used"};
    must_lt(calls_.create(&handle_), "cublasLtCreate");
  }
  ~loaded_cublaslt() override {
    plan_.reset();
    static_cast<void>(calls_.destroy(handle_));
  }
  loaded_cublaslt(const loaded_cublaslt&) = delete;
  loaded_cublaslt& operator=(const loaded_cublaslt&) = delete;

  std::string version() const override {
    const std::size_t version = calls_.get_version();
    return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }

  std::string why_not(const scaled_gemm_problem& p) override {
    if (const char* reason = why_not_cublaslt(p); reason != nullptr) return reason;
    plan_.emplace(calls_, p);
    const std::string reason = plan_->choose(handle_, workspace_bytes);
    if (!reason.empty()) plan_.reset();
    return reason;
  }

  void enqueue(const scaled_gemm_problem& p, stream_ref stream) override {
    if (!plan_ || !plan_->is_for(p)) {
      if (const std::string reason = why_not(p); !reason.empty())
        throw unsupported{fmt::format("cuBLASLt: {}", reason)};
    }
    plan_->enqueue(handle_, workspace_.data(), workspace_bytes, stream);
  }

 private:
  static constexpr std::size_t workspace_bytes = 32 << 20;  // what it is advised to have on Hopper

  cublaslt_calls calls_;
  device_buffer<std::byte> workspace_;
  lt_handle* handle_ = nullptr;
  std::optional<lt_plan> plan_;
};

}  // namespace

std::unique_ptr<cublaslt_product> open_cublaslt(const world& world, std::string& why_not) {
  if (world.device() != device_kind::cuda) {
    why_not = "it runs on GPUs only";
    return nullptr;
  }
  const std::optional<cublaslt_calls> calls = load_cublaslt(why_not);
  if (!calls) return nullptr;
  return std::make_unique<loaded_cublaslt>(world, *calls);
}

}  // namespace baton::cli
