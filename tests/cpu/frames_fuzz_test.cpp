// What a peer may say and answer while ranks meet: any bytes, of any length, cut short anywhere.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstring>
#include <random>

#include "bootstrap/frames.hpp"
#include "tests/fuzz/hear_any_hello.hpp"

namespace baton::bootstrap {
namespace {

received_answer answer_to(const std::string& bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::runtime_error{"no socket pair"};
  const file_descriptor ours{ends[0]};
  {
    const file_descriptor theirs{ends[1]};
    EXPECT_EQ(::send(theirs.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  return receive_answer(ours, time_limit{std::chrono::milliseconds{1000}});
}

/// What the header says an answer is, or nothing that makes sense.
verdict meaning_of(const std::string& bytes) {
  answer head;
  if (bytes.size() < sizeof head) return verdict::none;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.what == verdict::granted && head.reason_bytes == 0) return verdict::granted;
  const bool is_whole = head.reason_bytes <= 4096 && bytes.size() >= sizeof head + head.reason_bytes;
  return head.what == verdict::refused && is_whole ? verdict::refused : verdict::none;
}

TEST(frames_fuzz, ten_thousand_damaged_answers_are_understood_right_or_not_at_all) {
  std::mt19937_64 random{20261121};
  int understood = 0, nonsense = 0;
  for (int i = 0; i < 10'000; ++i) {
    const bool is_refusal = random() % 2 != 0;
    const std::string reason = is_refusal ? std::string(random() % 12'000, 'r') : "";
    const answer head{is_refusal ? verdict::refused : verdict::granted,
                      static_cast<std::uint32_t>(reason.size()), random()};
    std::string bytes(sizeof head, '\0');
    std::memcpy(bytes.data(), &head, sizeof head);
    bytes += reason;
    if (random() % 2) bytes[random() % sizeof head] ^= static_cast<char>(1u << random() % 8);
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    const received_answer got = answer_to(bytes);
    const verdict meant = meaning_of(bytes);
    ASSERT_EQ(got.how == io::done ? got.what : verdict::none, meant) << i;
    ASSERT_LE(got.reason.size(), 4096u);
    (meant == verdict::none ? nonsense : understood) += 1;
  }
  EXPECT_GT(understood, 1000);
  EXPECT_GT(nonsense, 1000);
}

TEST(frames, a_refusal_with_more_to_say_than_anybody_listens_to_arrives_cut) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const file_descriptor ours{ends[0]}, theirs{ends[1]};
  send_refusal(theirs, std::string(5000, 'r'));
  const received_answer got = receive_answer(ours, time_limit{std::chrono::milliseconds{1000}});
  ASSERT_EQ(got.how, io::done);
  EXPECT_EQ(got.what, verdict::refused);
  EXPECT_EQ(got.reason, std::string(4096, 'r'));
}

TEST(frames_fuzz, ten_thousand_damaged_hellos_make_no_rank_of_a_stranger) {
  std::mt19937_64 random{20261121};
  int accepted = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    hello h;
    h.rank = static_cast<std::int32_t>(random() % 6) - 1;
    h.size = random() % 4 == 0 ? static_cast<std::int32_t>(random()) : 4;
    h.job = test::heard_by().job;
    std::vector<std::uint8_t> bytes(sizeof h);
    std::memcpy(bytes.data(), &h, sizeof h);
    if (random() % 2) bytes[random() % sizeof h] ^= static_cast<std::uint8_t>(1u << random() % 8);
    if (random() % 8 == 0) bytes.resize(random() % 2000);
    (test::hear_any_hello(bytes) == test::verdict::accepted ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace baton::bootstrap
