#include "cli/bench/cublas_product.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <optional>
#include <type_traits>

#include "baton/error.hpp"
#include "cli/bench/loaded_library.hpp"

namespace baton::cli {

namespace {

// cuBLAS's C interface, as cublas_api.h and library_types.h declare it; only what one product needs.
constexpr int op_none = 0, op_transpose = 1, type_bf16 = 14, type_fp16 = 2, type_fp32 = 0, compute_fp32 = 68,
              algorithm_default = -1;
struct cublas_handle;

struct cublas_calls {
  int (*create)(cublas_handle**) = nullptr;
  int (*destroy)(cublas_handle*) = nullptr;
  int (*get_version)(cublas_handle*, int*) = nullptr;
  int (*set_stream)(cublas_handle*, cudaStream_t) = nullptr;
  int (*gemm_ex)(cublas_handle*, int, int, int, int, int, const void*, const void*, int, int, const void*,
                 int, int, const void*, void*, int, int, int, int) = nullptr;
};

std::optional<cublas_calls> load_cublas(std::string& why_not) {
  loaded_library cublas{"cuBLAS",
                        "BATON_CUBLAS",
                        {"libcublas.so.13", "libcublas.so.12", "/usr/local/cuda/lib64/libcublas.so.13"}};
  cublas_calls calls;
  cublas.find("cublasCreate_v2", calls.create);
  cublas.find("cublasDestroy_v2", calls.destroy);
  cublas.find("cublasGetVersion_v2", calls.get_version);
  cublas.find("cublasSetStream_v2", calls.set_stream);
  cublas.find("cublasGemmEx", calls.gemm_ex);
  return cublas.complete(calls, why_not);
}

class loaded_cublas : public cublas_product {
 public:
  loaded_cublas(const world& world, const cublas_calls& calls) : calls_{calls} {
    if (cudaSetDevice(world.device_index()) != cudaSuccess)
      throw cuda_error{"cuBLAS: its device cannot be used"};
    must(calls_.create(&handle_), "cublasCreate");
    must(calls_.get_version(handle_, &version_), "cublasGetVersion");
  }
  ~loaded_cublas() override { static_cast<void>(calls_.destroy(handle_)); }
  loaded_cublas(const loaded_cublas&) = delete;
  loaded_cublas& operator=(const loaded_cublas&) = delete;

  std::string version() const override {
    return fmt::format("{}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
  }

  void enqueue(const gemm_problem<bfloat16>& p, stream_ref stream) override { run(p, stream); }
  void enqueue(const gemm_problem<float>& p, stream_ref stream) override { run(p, stream); }
  void enqueue(const gemm_problem<float16, float16>& p, stream_ref stream) override { run(p, stream); }
  void enqueue(const gemm_problem<float, float16>& p, stream_ref stream) override { run(p, stream); }

 private:
  /// Column-major: c^T = b * a^T, or b^T * a^T of b [k, n].
  template <class Out, class In>
  void run(const gemm_problem<Out, In>& p, stream_ref stream) {
    constexpr int in = type_of<In>, out = type_of<Out>;
    must(calls_.set_stream(handle_, static_cast<cudaStream_t>(stream.native)), "cublasSetStream");
    const bool k_by_n = p.b_layout == gemm_b_layout::k_by_n;
    must(calls_.gemm_ex(handle_, k_by_n ? op_none : op_transpose, op_none, p.n, p.m, p.k, &p.alpha, p.b, in,
                        k_by_n ? p.n : p.k, p.a, in, p.k, &p.beta, p.c, out, p.n, compute_fp32,
                        algorithm_default),
         "cublasGemmEx");
  }

  template <class T>
  static constexpr int type_of = std::is_same_v<T, float>     ? type_fp32
                                 : std::is_same_v<T, float16> ? type_fp16
                                                              : type_bf16;

  static void must(int status, const char* call) {
    if (status != 0) throw cuda_error{fmt::format("{}: status {}", call, status)};
  }

  cublas_calls calls_;
  cublas_handle* handle_ = nullptr;
  int version_ = 0;
};

}  // namespace

std::unique_ptr<cublas_product> open_cublas(const world& world, std::string& why_not) {
  if (world.device() != device_kind::cuda) {
    why_not = "it runs on GPUs only";
    return nullptr;
  }
  const std::optional<cublas_calls> calls = load_cublas(why_not);
  if (!calls) return nullptr;
  return std::make_unique<loaded_cublas>(world, *calls);
}

}  // namespace baton::cli
