#pragma once
// GoogleTest's most used macros, said so that g++ makes less code of each: with a sanitizer half of the time of compiling test
// files went into what these expand to. They assert, print and take `<<` as GoogleTest's own do, which all other builds have:
// tests/CMakeLists.txt gives this file to the compiler where test files are compiled together, and no test includes it.
//
// A test that has no fixture is a function, not a class with a factory of its own. An assertion calls one function for what it
// compares, which makes text only if it fails, and leaves nothing for its test to destroy. Tests with parameters are
// registered by one function for all, when main() begins: GoogleTest has a dozen classes for each suite of them, and three for
// each test.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

namespace baton::test::quick {

using testing::AssertionResult;

/// What an assertion says that does not hold; until it is reported, nobody's.
using failure = const std::string*;

[[gnu::noinline]] inline failure failed(const AssertionResult& result) {
  return new std::string{result.failure_message()};
}

template <class A, class B>
[[gnu::noinline]] failure differ(const char* a, const char* b, const A& x, const B& y) {
  using testing::internal::FormatForComparisonFailureMessage;
  if (x == y) return nullptr;
  return failed(testing::internal::EqFailure(a, b, FormatForComparisonFailureMessage(x, y),
                                             FormatForComparisonFailureMessage(y, x), false));
}
/// One for literals of every length.
template <class A>
[[gnu::noinline]] failure differ(const char* a, const char* b, const A& x, const char* y) {
  return differ<A, const char*>(a, b, x, y);
}

// Each for one comparison, as GoogleTest has them.
#define BATON_QUICK_COMPARISON(name, op)                                                      \
  template <class A, class B>                                                                 \
  [[gnu::noinline]] failure name(const char* a, const char* b, const A& x, const B& y) {      \
    return x op y ? nullptr : failed(testing::internal::CmpHelperOpFailure(a, b, x, y, #op)); \
  }
BATON_QUICK_COMPARISON(is_not_ne, !=)
BATON_QUICK_COMPARISON(is_not_lt, <)
BATON_QUICK_COMPARISON(is_not_le, <=)
BATON_QUICK_COMPARISON(is_not_gt, >)
BATON_QUICK_COMPARISON(is_not_ge, >=)
#undef BATON_QUICK_COMPARISON

[[gnu::noinline]] inline failure is_not(bool expected, const char* text, const AssertionResult& result) {
  if (static_cast<bool>(result) == expected) return nullptr;
  return new std::string{testing::internal::GetBoolAssertionFailureMessage(
      result, text, expected ? "false" : "true", expected ? "true" : "false")};
}
[[gnu::noinline]] inline failure is_not(bool expected, const char* text, bool value) {
  return value == expected ? nullptr : is_not(expected, text, AssertionResult{value});
}
template <class T>
failure is_not(bool expected, const char* text, const T& value) {
  return is_not(expected, text, static_cast<bool>(value));
}

/// What a test adds to a failure.
struct note {
  testing::Message* message;

  template <class T>
  [[gnu::noinline]] note operator<<(const T& value) const {
    *message << value;
    return *this;
  }
  [[gnu::noinline]] note operator<<(const char* text) const {
    *message << text;
    return *this;
  }
  [[gnu::noinline]] note operator<<(std::ostream& (*manipulator)(std::ostream&)) const {
    *message << manipulator;
    return *this;
  }
};

[[gnu::noinline]] inline note nothing_more() {
  return {new testing::Message};
}

struct report {
  testing::TestPartResult::Type kind;
  const char* file;
  int line;
  failure what;

  [[gnu::noinline]] void operator=(note more) const {
    const std::unique_ptr<const std::string> said{what};
    const std::unique_ptr<testing::Message> added{more.message};
    testing::internal::AssertHelper{kind, file, line, said->c_str()} = *added;
  }
};

using body = void (*)();

class function_test : public testing::Test {
 public:
  explicit function_test(body f) : body_{f} {}

 private:
  void TestBody() override { body_(); }

  body body_;
};

struct registered {
  [[gnu::noinline]] registered(const char* suite, const char* name, const char* file, int line, body f) {
    testing::RegisterTest(suite, name, nullptr, nullptr, file, line,
                          [f]() -> testing::Test* { return new function_test{f}; });
  }
};

/// What a test may be given, for as long as the process lives.
struct parameter {
  std::string name, text;
  const void* value;
};
struct parameters {
  const char* prefix;
  std::vector<parameter> (*all)();
  void (*set)(const void*);  // what the next test that is made has
};
struct asking_test {
  const char *name, *file;
  int line;
  testing::Test* (*make)();
};
struct suite_with_parameters {
  std::string name;
  std::vector<asking_test> tests;
  std::vector<parameters> given;
};

[[gnu::noinline]] inline std::vector<suite_with_parameters>& suites_with_parameters() {
  static std::vector<suite_with_parameters> all;
  return all;
}
[[gnu::noinline]] inline suite_with_parameters& suite_named(const char* name) {
  for (suite_with_parameters& one : suites_with_parameters())
    if (one.name == name) return one;
  return suites_with_parameters().emplace_back(suite_with_parameters{name, {}, {}});
}

struct asks {
  [[gnu::noinline]] asks(const char* suite, const asking_test& test) {
    suite_named(suite).tests.push_back(test);
  }
};
struct gives {
  [[gnu::noinline]] gives(const char* suite, const parameters& what) {
    suite_named(suite).given.push_back(what);
  }
};

[[gnu::noinline]] inline void register_one(const std::string& suite, const asking_test& test,
                                           const parameter& given, void (*set)(const void*)) {
  const auto make = [test = test.make, set, value = given.value] {
    set(value);
    return test();
  };
  testing::RegisterTest(suite.c_str(), (std::string{test.name} + "/" + given.name).c_str(), nullptr,
                        given.text.c_str(), test.file, test.line, make);
}

/// Not before main(): what tests are given may ask a library whose own variables are not there yet.
[[gnu::noinline]] inline void register_tests_with_parameters() {
  for (const suite_with_parameters& suite : suites_with_parameters()) {
    if (suite.given.empty() || suite.tests.empty()) {
      std::fprintf(stderr, "%s: tests with parameters and none, or none that ask\n", suite.name.c_str());
      std::exit(1);
    }
    for (const parameters& given : suite.given) {
      const std::string prefix = given.prefix, name = prefix.empty() ? suite.name : prefix + "/" + suite.name;
      const std::vector<parameter> all = given.all();
      for (const asking_test& test : suite.tests)
        for (const parameter& one : all) register_one(name, test, one, given.set);
    }
  }
}

template <class Test>
testing::Test* make() {
  return new Test;
}

template <class Parameter>
struct setter {};  // GoogleTest lets its own factory alone set a parameter

}  // namespace baton::test::quick

namespace testing::internal {
template <class Parameter>
class ParameterizedTestFactory<baton::test::quick::setter<Parameter>> {
 public:
  static void set(const void* value) {
    WithParamInterface<Parameter>::SetParam(static_cast<const Parameter*>(value));
  }
};
}  // namespace testing::internal

namespace baton::test::quick {

template <class Parameter>
void set_to(const void* value) {
  testing::internal::ParameterizedTestFactory<setter<Parameter>>::set(value);
}

template <class Parameter>
struct kept {
  Parameter value;
};
template <class Parameter>
std::vector<kept<Parameter>> values_of(const testing::internal::ParamGenerator<Parameter>& generator) {
  std::vector<kept<Parameter>> values;
  for (const Parameter& value : generator) values.push_back({value});
  return values;
}
template <class Parameter>
std::vector<parameter> all_of(const std::vector<kept<Parameter>>& values,
                              std::string (*name)(const testing::TestParamInfo<Parameter>&)) {
  std::vector<parameter> all;
  for (const kept<Parameter>& one : values)
    all.push_back({name({one.value, all.size()}), testing::PrintToString(one.value), &one.value});
  return all;
}

}  // namespace baton::test::quick

/// In place of gtest_main's, if that is what the program would have.
[[gnu::weak]] int main(int argc, char** argv) {
  baton::test::quick::register_tests_with_parameters();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

#define BATON_QUICK_ASSERTION(result, on_failure, kind)                                          \
  GTEST_AMBIGUOUS_ELSE_BLOCKER_                                                                  \
  if (const auto gtest_failure = ::baton::test::quick::result; gtest_failure == nullptr)         \
    ;                                                                                            \
  else                                                                                           \
    on_failure ::baton::test::quick::report{::testing::TestPartResult::kind, __FILE__, __LINE__, \
                                            gtest_failure} = ::baton::test::quick::nothing_more()
#define BATON_QUICK_EXPECT(result) BATON_QUICK_ASSERTION(result, , kNonFatalFailure)
#define BATON_QUICK_ASSERT(result) BATON_QUICK_ASSERTION(result, return, kFatalFailure)

#undef EXPECT_EQ
#undef EXPECT_NE
#undef EXPECT_LT
#undef EXPECT_LE
#undef EXPECT_GT
#undef EXPECT_GE
#undef EXPECT_TRUE
#undef EXPECT_FALSE
#undef ASSERT_EQ
#undef ASSERT_NE
#undef ASSERT_LT
#undef ASSERT_LE
#undef ASSERT_GT
#undef ASSERT_GE
#undef ASSERT_TRUE
#undef ASSERT_FALSE
#undef TEST
#undef TEST_P
#undef INSTANTIATE_TEST_SUITE_P
#define EXPECT_EQ(a, b) BATON_QUICK_EXPECT(differ(#a, #b, a, b))
#define EXPECT_NE(a, b) BATON_QUICK_EXPECT(is_not_ne(#a, #b, a, b))
#define EXPECT_LT(a, b) BATON_QUICK_EXPECT(is_not_lt(#a, #b, a, b))
#define EXPECT_LE(a, b) BATON_QUICK_EXPECT(is_not_le(#a, #b, a, b))
#define EXPECT_GT(a, b) BATON_QUICK_EXPECT(is_not_gt(#a, #b, a, b))
#define EXPECT_GE(a, b) BATON_QUICK_EXPECT(is_not_ge(#a, #b, a, b))
#define EXPECT_TRUE(condition) BATON_QUICK_EXPECT(is_not(true, #condition, condition))
#define EXPECT_FALSE(condition) BATON_QUICK_EXPECT(is_not(false, #condition, condition))
#define ASSERT_EQ(a, b) BATON_QUICK_ASSERT(differ(#a, #b, a, b))
#define ASSERT_NE(a, b) BATON_QUICK_ASSERT(is_not_ne(#a, #b, a, b))
#define ASSERT_LT(a, b) BATON_QUICK_ASSERT(is_not_lt(#a, #b, a, b))
#define ASSERT_LE(a, b) BATON_QUICK_ASSERT(is_not_le(#a, #b, a, b))
#define ASSERT_GT(a, b) BATON_QUICK_ASSERT(is_not_gt(#a, #b, a, b))
#define ASSERT_GE(a, b) BATON_QUICK_ASSERT(is_not_ge(#a, #b, a, b))
#define ASSERT_TRUE(condition) BATON_QUICK_ASSERT(is_not(true, #condition, condition))
#define ASSERT_FALSE(condition) BATON_QUICK_ASSERT(is_not(false, #condition, condition))

#define TEST(suite, name)                                                             \
  struct GTEST_TEST_CLASS_NAME_(suite, name) : ::testing::Test {                      \
    static void body();                                                               \
  };                                                                                  \
  static const ::baton::test::quick::registered suite##_##name##_is_registered{       \
      #suite, #name, __FILE__, __LINE__, &GTEST_TEST_CLASS_NAME_(suite, name)::body}; \
  void GTEST_TEST_CLASS_NAME_(suite, name)::body()

#define TEST_P(suite, name)                                                                           \
  struct GTEST_TEST_CLASS_NAME_(suite, name) : suite {                                                \
    static_assert(&suite::SetUpTestSuite == &::testing::Test::SetUpTestSuite &&                       \
                      &suite::TearDownTestSuite == &::testing::Test::TearDownTestSuite,               \
                  "not for suites with parameters here");                                             \
    void TestBody() override;                                                                         \
  };                                                                                                  \
  static const ::baton::test::quick::asks suite##_##name##_asks{                                      \
      #suite,                                                                                         \
      {#name, __FILE__, __LINE__, &::baton::test::quick::make<GTEST_TEST_CLASS_NAME_(suite, name)>}}; \
  void GTEST_TEST_CLASS_NAME_(suite, name)::TestBody()

// Behind what is given there may be what names it.
#define INSTANTIATE_TEST_SUITE_P(prefix, suite, ...)                                                   \
  static std::string prefix##_##suite##_name(const ::testing::TestParamInfo<suite::ParamType>& info) { \
    return (GTEST_EXPAND_(GTEST_GET_SECOND_(                                                           \
        __VA_ARGS__, ::testing::internal::DefaultParamName<suite::ParamType>, DUMMY_PARAM_)))(info);   \
  }                                                                                                    \
  static std::vector<::baton::test::quick::parameter> prefix##_##suite##_all() {                       \
    static const auto values = ::baton::test::quick::values_of<suite::ParamType>(                      \
        GTEST_EXPAND_(GTEST_GET_FIRST_(__VA_ARGS__, DUMMY_PARAM_)));                                   \
    return ::baton::test::quick::all_of<suite::ParamType>(values, &prefix##_##suite##_name);           \
  }                                                                                                    \
  static const ::baton::test::quick::gives prefix##_##suite##_gives(                                   \
      #suite, ::baton::test::quick::parameters{#prefix, &prefix##_##suite##_all,                       \
                                               &::baton::test::quick::set_to<suite::ParamType>})
