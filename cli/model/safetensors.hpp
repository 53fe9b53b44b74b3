#pragma once
// Reading and writing safetensors: 8 bytes of header length (little endian), a JSON header, tensor data.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "baton/numeric.hpp"
#include "cli/model/input_file.hpp"
#include "cli/model/output_file.hpp"

namespace baton::model {

/// The element types of the format.
enum class dtype { boolean, u8, i8, f8_e5m2, f8_e4m3, i16, u16, f16, bf16, i32, u32, f32, f64, i64, u64 };
std::size_t size_of(dtype type);
/// As the format spells it: "BF16".
const char* name(dtype type);

using tensor_shape = std::vector<std::int64_t>;
/// "[1024, 256]"
std::string to_string(const tensor_shape& shape);

/// One tensor of an open file: where it is and what. Its bytes are read when they are asked for.
struct tensor_view {
  std::string name;
  dtype type = dtype::f32;
  tensor_shape shape;
  std::shared_ptr<const byte_source> source;
  std::uint64_t begin = 0;  // in the source
  std::uint64_t size = 0;   // bytes

  const std::string& file() const { return source->label(); }
  std::uint64_t count() const { return size / size_of(type); }  // elements
  /// Bytes [at, at + to.size()) of the tensor. @throws bad_file  the file has become shorter, or cannot be read
  void read(std::uint64_t at, std::span<std::byte> to) const { source->read(begin + at, to); }
};

/// One .safetensors file, kept open. Copies share it; views outlive it.
class safetensors_file {
 public:
  /// @throws bad_file  missing, unreadable, or with any defect: truncated or lying header, broken JSON,
  ///                   unknown dtype, offsets that overlap, leave gaps, leave the file or do not fit dtype and
  ///                   shape, a tensor named twice. Names the file, the tensor, what was expected and found.
  static safetensors_file open(const std::filesystem::path& path);

  /// The same from memory; `label` stands for the file in error texts.
  static safetensors_file parse(std::vector<std::byte> bytes, std::string label);

  const std::string& label() const;
  bool has(const std::string& name) const;
  /// @throws bad_file  no such tensor: says which ones there are
  const tensor_view& at(const std::string& name) const;
  /// The same, and the tensor has this shape; -1: any extent.
  const tensor_view& at(const std::string& name, const tensor_shape& expected) const;
  const std::map<std::string, tensor_view>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;

 private:
  struct contents;
  static safetensors_file of(std::shared_ptr<const byte_source> source);
  explicit safetensors_file(std::shared_ptr<const contents> c) : contents_{std::move(c)} {}
  std::shared_ptr<const contents> contents_;
};

/// Elements as float; F32, BF16 and F16. So for all three:
/// @throws bad_file       another dtype, with the tensor's name; the file has become shorter
/// @throws out_of_memory  the result does not fit the host's free memory, found out before anything is read
std::vector<float> to_float(const tensor_view& tensor);
/// Elements as bf16: BF16 bit for bit, F32 and F16 rounded to nearest even.
std::vector<bfloat16> to_bfloat16(const tensor_view& tensor);
/// Elements as int32: U8, I8, I16, U16, I32, and U32 below 2^31.
std::vector<std::int32_t> to_int32(const tensor_view& tensor);

/// Elements first .. first + to.size() - 1 as float; F32, BF16 and F16. @throws bad_file  as above
void read_floats(const tensor_view& tensor, std::uint64_t first, std::span<float> to);

/// A tensor whose values come later.
struct tensor_plan {
  std::string name;
  dtype type = dtype::f32;
  tensor_shape shape;
};

/// Writes a file piece by piece, in any order, so that no tensor has to stand in memory.
class safetensors_writer {
 public:
  /// Writes the header. `file` must outlive this.
  /// @throws invalid_argument  a name twice or reserved, or a shape of more bytes than there can be
  /// @throws bad_file          here and below: as output_file says
  safetensors_writer(output_file& file, std::span<const tensor_plan> tensors,
                     const std::map<std::string, std::string>& metadata = {});

  /// Bytes [at, at + bytes.size()) of a tensor, each of which is written once.
  /// @throws invalid_argument  no such tensor, or it has fewer bytes
  void write(const std::string& name, std::uint64_t at, std::span<const std::byte> bytes);

  /// To be called before the file is published. @throws invalid_argument  a tensor of which not all has been written
  void require_whole() const;

 private:
  struct place {
    std::uint64_t begin = 0, size = 0, written = 0;
  };
  output_file& file_;
  std::map<std::string, place> places_;
};

/// A tensor to be written; borrows its data.
struct tensor_to_write {
  std::string name;
  dtype type = dtype::f32;
  tensor_shape shape;
  std::span<const std::byte> bytes;
};

/// Writes and publishes a file, whole or not at all.
/// @throws invalid_argument  a name twice or reserved, or bytes that do not fit dtype and shape
/// @throws bad_file          the system refused (which call, which reason); the destination is as it was before
void write_safetensors(output_file& file, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata = {});
void write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace baton::model
