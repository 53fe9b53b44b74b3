#include "cli/model/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <csignal>
#include <ctime>
#include <numeric>
#include <utility>

#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"

namespace {

using namespace baton;
using namespace baton::model;
using baton::test::message_of;
using baton::test::read_file;
using baton::test::says;
using baton::test::temporary_folder;
using baton::test::write_file;

std::string framed(const std::string& header, const std::string& data = "", std::int64_t length = -1) {
  const auto n = static_cast<std::uint64_t>(length < 0 ? static_cast<std::int64_t>(header.size()) : length);
  std::string file;
  for (int i = 0; i < 8; ++i) file.push_back(static_cast<char>(n >> (8 * i) & 0xff));
  return file + header + data;
}

template <class Values>
std::vector<std::byte> bytes_of(const Values& values) {
  const auto bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}

safetensors_file parse(const std::string& file) {
  return safetensors_file::parse(bytes_of(file), "x.safetensors");
}

std::string entry(const std::string& type, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}
std::string header_of(const std::string& tensor_entry) {
  return R"({"a":)" + tensor_entry + "}";
}

/// The error of a file that must be refused; fails unless it is bad_file and names the file.
std::string refusal(const std::string& file) {
  const std::string message = message_of<bad_file>([&] { parse(file); });
  EXPECT_TRUE(says(message, "x.safetensors"));
  EXPECT_TRUE(says(message, "expected"));
  EXPECT_TRUE(says(message, "found"));
  return message;
}

template <class T>
std::span<const std::byte> raw(const std::vector<T>& values) {
  return std::as_bytes(std::span{values});
}

TEST(safetensors, a_good_file_gives_its_tensors_and_metadata) {
  const auto file = parse(framed(R"({"__metadata__":{"format":"pt"},"b":)" + entry("U8", "[3]", "[4,7]") +
                                     R"(,"a":)" + entry("F32", "[1,1]", "[0,4]") + "}   ",
                                 std::string{"\0\0\x80\x3f\1\2\xff", 7}));
  EXPECT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(to_float(file.at("a", {1, -1})), std::vector<float>{1.0f});
  EXPECT_EQ(to_int32(file.at("b")), (std::vector<std::int32_t>{1, 2, 255}));
  EXPECT_FALSE(file.has("c"));
}

TEST(safetensors, empty_tensors_and_scalars_are_legal) {
  const auto file =
      parse(framed(R"({"none":)" + entry("F32", "[0,5]", "[0,0]") + R"(,"one":)" +
                       entry("U8", "[]", "[0,1]") + R"(,"end":)" + entry("I64", "[0]", "[1,1]") + "}",
                   "x"));
  EXPECT_EQ(file.at("none").count(), 0);
  EXPECT_EQ(file.at("one").count(), 1);
  EXPECT_TRUE(parse(framed("{}")).tensors().empty());
}

TEST(safetensors, a_truncated_file_is_refused) {
  EXPECT_TRUE(says(refusal(""), "0 bytes"));
  EXPECT_TRUE(says(refusal("1234567"), "7 bytes"));
  const std::string good = framed(header_of(entry("F32", "[2]", "[0,8]")), "12345678");
  ASSERT_NO_THROW(parse(good));
  for (std::size_t n = 0; n < good.size(); ++n) refusal(good.substr(0, n));
}

TEST(safetensors, a_header_longer_than_the_file_or_the_format_allows_is_refused) {
  EXPECT_TRUE(says(refusal(framed("{}", "", 3)), "a header length of 3 bytes in a file of 10"));
  EXPECT_TRUE(says(refusal(std::string(8, '\xff') + "{}"), "18446744073709551615"));
}

TEST(safetensors, a_header_that_is_not_a_json_object_is_refused) {
  EXPECT_TRUE(says(refusal(framed("")), "an empty header"));
  EXPECT_TRUE(says(refusal(framed("[]")), "begins with byte 0x5b"));
  EXPECT_TRUE(says(refusal(framed(" {}")), "begins with byte 0x20"));
  EXPECT_TRUE(says(refusal(framed(R"({"a":)")), "line 1, byte 5: expected JSON"));
  EXPECT_TRUE(says(refusal(framed("{} x")), "expected JSON"));
  EXPECT_TRUE(says(refusal(framed("{\"\xff\":1}")), "UTF-8"));
}

TEST(safetensors, deep_nesting_is_refused_before_it_costs_anything) {
  EXPECT_TRUE(says(refusal(framed(R"({"a":)" + std::string(1000000, '['))), "deeper nesting"));
  EXPECT_TRUE(says(refusal(framed(R"({"a":{"b":{"c":{"d":1}}}})")), "deeper nesting"));
}

TEST(safetensors, an_entry_without_its_three_members_is_refused) {
  EXPECT_TRUE(says(refusal(framed(R"({"a":3})")), "tensor a", "found 3"));
  EXPECT_TRUE(
      says(refusal(framed(header_of(R"({"shape":[1],"data_offsets":[0,1]})"), "x")), "a member dtype"));
  EXPECT_TRUE(
      says(refusal(framed(header_of(R"({"dtype":"U8","data_offsets":[0,1]})"), "x")), "a member shape"));
  EXPECT_TRUE(
      says(refusal(framed(header_of(R"({"dtype":"U8","shape":[1]})"), "x")), "a member data_offsets"));
}

TEST(safetensors, an_unknown_dtype_is_refused) {
  EXPECT_TRUE(says(refusal(framed(header_of(entry("F31", "[1]", "[0,1]")), "x")), "found \"F31\""));
  EXPECT_TRUE(
      says(refusal(framed(header_of(R"({"dtype":7,"shape":[1],"data_offsets":[0,1]})"), "x")), "found 7"));
}

TEST(safetensors, a_shape_that_is_not_extents_is_refused) {
  for (const char* shape :
       {"[-1]", "[1.5]", "[\"1\"]", "1", "{}", "null", "[true]", "[1e0]", "[9223372036854775808]"}) {
    EXPECT_TRUE(says(refusal(framed(header_of(entry("U8", shape, "[0,1]")), "x")), "shape as an array"))
        << shape;
  }
}

TEST(safetensors, a_shape_whose_size_overflows_is_refused) {
  // 2^32 * 2^32 elements wrap to zero bytes in 64 bits: a reader that multiplies blindly accepts this file.
  EXPECT_TRUE(says(refusal(framed(header_of(entry("U8", "[4294967296,4294967296]", "[0,0]")))), "63 bits"));
  EXPECT_TRUE(says(refusal(framed(header_of(entry("F64", "[2305843009213693952]", "[0,0]")))), "63 bits"));
}

TEST(safetensors, a_header_that_lies_about_sizes_is_refused) {
  EXPECT_TRUE(says(refusal(framed(header_of(entry("F32", "[2]", "[0,4]")), "1234")),
                   "expected 8 bytes for F32 [2]", "found data_offsets [0, 4] with 4 bytes"));
  EXPECT_TRUE(says(refusal(framed(header_of(entry("BF16", "[1]", "[0,4]")), "1234")), "expected 2 bytes"));
}

TEST(safetensors, offsets_outside_the_data_are_refused) {
  for (const char* offsets : {"[0,2]", "[2,1]", "[1,18446744073709551615]"}) {
    EXPECT_TRUE(says(refusal(framed(header_of(entry("U8", "[1]", offsets)), "x")), "within the 1 bytes"));
  }
  for (const char* offsets : {"[0]", "[0,1,2]", "[-1,0]", "[0.0,1.0]", "0", "[99999999999999999999999,0]"}) {
    EXPECT_TRUE(says(refusal(framed(header_of(entry("U8", "[1]", offsets)), "x")), "[begin, end]"))
        << offsets;
  }
}

std::string two(const std::string& a, const std::string& b, const std::string& data) {
  return framed(R"({"a":)" + entry("U8", "[2]", a) + R"(,"b":)" + entry("U8", "[2]", b) + "}", data);
}

TEST(safetensors, tensors_that_overlap_or_leave_gaps_are_refused) {
  ASSERT_NO_THROW(parse(two("[0,2]", "[2,4]", "1234")));
  ASSERT_NO_THROW(parse(two("[2,4]", "[0,2]", "1234")));
  EXPECT_TRUE(says(refusal(two("[0,2]", "[1,3]", "123")), "tensor b", "overlap"));
  EXPECT_TRUE(says(refusal(two("[0,2]", "[0,2]", "12")), "overlap"));
  EXPECT_TRUE(says(refusal(two("[0,2]", "[3,5]", "12345")), "a gap"));
  EXPECT_TRUE(says(refusal(two("[1,3]", "[3,5]", "12345")), "a gap"));
  EXPECT_TRUE(says(refusal(two("[0,2]", "[2,4]", "12345")), "4 bytes of tensor data"));
}

TEST(safetensors, a_name_given_twice_is_refused) {
  const std::string one = R"("a":)" + entry("U8", "[1]", "[0,1]");
  EXPECT_TRUE(says(refusal(framed("{" + one + "," + one + "}", "x")), "tensor a", "twice"));
  EXPECT_TRUE(
      says(refusal(framed(header_of(R"({"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]})"), "x")),
           "twice"));
}

TEST(safetensors, metadata_other_than_strings_is_refused) {
  EXPECT_TRUE(says(refusal(framed(R"({"__metadata__":{"a":1}})")), "an object of strings"));
  EXPECT_TRUE(says(refusal(framed(R"({"__metadata__":"a"})")), "an object of strings"));
}

TEST(safetensors, error_texts_stay_short_whatever_the_file_holds) {
  EXPECT_LT(refusal(framed(R"({")" + std::string(1 << 20, 'n') + R"(":1})")).size(), 600u);
  EXPECT_LT(refusal(framed(header_of("\"" + std::string(1 << 20, 'v') + "\""))).size(), 600u);
}

TEST(safetensors, a_missing_file_a_folder_and_an_empty_file_are_refused) {
  const temporary_folder folder;
  const auto open = [](const auto& path) {
    return message_of<bad_file>([&] { safetensors_file::open(path); });
  };
  EXPECT_TRUE(says(open(folder / "none"), "none", "No such file"));
  EXPECT_TRUE(says(open(folder.path()), "regular file"));
  write_file(folder / "empty", "");
  EXPECT_TRUE(says(open(folder / "empty"), "at least 8 bytes"));
}

TEST(safetensors, asking_for_a_missing_tensor_or_another_shape_names_what_there_is) {
  const auto file = parse(framed(header_of(entry("U8", "[2,1]", "[0,2]")), "xy"));
  EXPECT_TRUE(says(message_of<bad_file>([&] { file.at("b"); }), "tensor b", "1 others: a"));
  EXPECT_TRUE(says(message_of<bad_file>([&] {
                     file.at("a", {2, 2});
                   }),
                   "expected shape [2, 2]", "found [2, 1]"));
  EXPECT_TRUE(says(message_of<bad_file>([&] { file.at("a", {2}); }), "found [2, 1]"));
  EXPECT_TRUE(says(message_of<bad_file>([&] { to_float(file.at("a")); }),
                   "expected dtype F32, BF16 or F16, found U8"));
}

template <class T>
tensor_view view_of(dtype type, const std::vector<T>& values) {
  return {"a",
          type,
          {static_cast<std::int64_t>(values.size())},
          byte_source::of(bytes_of(values), "f"),
          0,
          values.size() * sizeof(T)};
}

TEST(safetensors, values_convert_as_their_types_say) {
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x0001, 0x7bff, 0x7c00, 0x8000};
  EXPECT_EQ(to_float(view_of(dtype::f16, halves)),
            (std::vector<float>{1.0f, -2.0f, 0x1p-24f, 65504.0f, INFINITY, -0.0f}));
  // The last two lie between two bf16 numbers.
  const auto rounded = to_bfloat16(view_of(dtype::f32, std::vector<float>{1.0f, 1.00390625f, 1.01171875f}));
  EXPECT_EQ(rounded[1], bfloat16{1.0f});
  EXPECT_EQ(rounded[2], bfloat16{1.015625f});
  const auto large = view_of(dtype::u32, std::vector<std::uint32_t>{0x80000000u});
  EXPECT_TRUE(says(message_of<bad_file>([&] { to_int32(large); }), "found 2147483648"));
}

TEST(safetensors, values_of_a_tensor_longer_than_one_reading_are_all_there) {
  std::vector<std::uint32_t> counted(700'001);
  std::iota(counted.begin(), counted.end(), 0u);
  const auto values = to_int32(view_of(dtype::u32, counted));
  EXPECT_TRUE(std::equal(values.begin(), values.end(), counted.begin(), counted.end(),
                         std::cmp_equal<int, unsigned>));
}

TEST(safetensors, a_file_cut_short_while_it_is_open_is_an_error_with_its_name) {
  const temporary_folder folder;
  const auto path = folder / "cut.safetensors";
  write_file(path, framed(header_of(entry("F32", "[2048]", "[0,8192]")), std::string(8192, 'x')));
  const auto file = safetensors_file::open(path);
  std::filesystem::resize_file(path, 4096);
  EXPECT_TRUE(
      says(message_of<bad_file>([&] { to_float(file.at("a")); }), "cut.safetensors", "its end at 4096"));
}

TEST(safetensors, a_tensor_larger_than_free_memory_is_refused_before_it_is_read) {
  const temporary_folder folder;
  const auto path = folder / "sparse.safetensors";
  write_file(path, framed(header_of(entry("BF16", "[1099511627776]", "[0,2199023255552]"))));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + (2ull << 40));
  const auto file = safetensors_file::open(path);
  EXPECT_TRUE(says(message_of<out_of_memory>([&] { to_float(file.at("a")); }), "sparse.safetensors",
                   "tensor a", "4398046511104 bytes needed"));
}

/// Seconds of this thread that reading a header of `tensors` tensors takes.
double seconds_to_read(int tensors) {
  std::string header = "{";
  for (int i = 0; i < tensors; ++i)
    header += (i ? ",\"" : "\"") + std::to_string(i) + "\":" + entry("U8", "[0]", "[0,0]");
  const auto bytes = bytes_of(framed(header + "}"));
  const auto now = [] {
    timespec t{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  EXPECT_EQ(safetensors_file::parse(bytes, "many").tensors().size(), static_cast<std::size_t>(tensors));
  return now() - start;
}

TEST(safetensors, the_time_to_read_a_header_grows_with_its_tensors_and_not_with_their_square) {
  const double few = seconds_to_read(10'000), many = seconds_to_read(80'000);
  EXPECT_LT(many, 24 * few) << few << " s for 10,000 tensors, " << many
                            << " s for 80,000; the square: 64 times";
}

TEST(safetensors_writer, what_is_written_reads_back_aligned) {
  const temporary_folder folder;
  const std::vector<std::uint8_t> small{1, 2, 3};
  const std::vector<float> values{0.5f, -1.0f};
  const std::vector<tensor_to_write> tensors{{"small", dtype::u8, {3}, raw(small)},
                                             {"values", dtype::f32, {1, 2}, raw(values)}};
  write_safetensors(folder / "y.safetensors", tensors, {{"by", "baton"}});
  const auto file = safetensors_file::open(folder / "y.safetensors");
  EXPECT_EQ(to_float(file.at("values", {1, 2})), values);
  EXPECT_EQ(to_int32(file.at("small", {3})), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(file.metadata().at("by"), "baton");
  EXPECT_EQ(file.at("values").begin % alignof(float), 0u);
}

TEST(safetensors_writer, tensors_that_contradict_themselves_are_refused_and_nothing_is_written) {
  const temporary_folder folder;
  const std::vector<float> one{1.0f};
  const auto write = [&](std::vector<tensor_to_write> tensors) {
    return message_of<invalid_argument>([&] { write_safetensors(folder / "y", tensors); });
  };
  EXPECT_TRUE(says(write({{"a", dtype::f32, {2}, raw(one)}}), "tensor a", "expected 8 bytes"));
  EXPECT_TRUE(
      says(write({{"a", dtype::f32, {1}, raw(one)}, {"a", dtype::f32, {1}, raw(one)}}), "of its own"));
  EXPECT_TRUE(says(write({{"__metadata__", dtype::f32, {1}, raw(one)}}), "__metadata__"));
  EXPECT_TRUE(says(write({{"\xff", dtype::f32, {1}, raw(one)}}), "UTF-8"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

/// Files of this process may not grow past `bytes` while it lives, as on a full disk.
class full_disk {
 public:
  explicit full_disk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  ~full_disk() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(safetensors_writer, a_write_that_fails_half_way_leaves_the_old_file_and_no_other) {
  const temporary_folder folder;
  write_file(folder / "y", "before");
  const std::vector<float> values(1 << 16);
  const std::vector<tensor_to_write> tensors{{"a", dtype::f32, {1 << 16}, raw(values)}};
  {
    const full_disk disk{100000};
    EXPECT_TRUE(says(message_of<bad_file>([&] { write_safetensors(folder / "y", tensors); }),
                     "cannot be written", "nothing was written"));
  }
  EXPECT_EQ(read_file(folder / "y"), "before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.path()}, {}), 1);
}

}  // namespace
