#include "cli/model/output_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "baton/error.hpp"
#include "tests/cpu/says.hpp"
#include "tests/cpu/temporary_folder.hpp"

namespace {

using namespace baton;
using baton::model::output_file;
using baton::test::message_of;
using baton::test::read_file;
using baton::test::says;
using baton::test::temporary_folder;
using baton::test::write_file;
namespace fs = std::filesystem;

std::ptrdiff_t files_in(const temporary_folder& folder) {
  return std::distance(fs::directory_iterator{folder.path()}, {});
}

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0);
  return info.st_mode & 07777u;
}

std::string refusal_at(const fs::path& path) {
  return message_of<bad_file>([&] { output_file{path, "--output"}; });
}

TEST(output_file, replaces_a_file_when_it_is_published_and_not_before) {
  const temporary_folder folder;
  write_file(folder / "y", "before");
  {
    output_file file{folder / "y"};
    file.write("new");
    EXPECT_EQ(read_file(folder / "y"), "before");
    file.publish();
  }
  EXPECT_EQ(read_file(folder / "y"), "new");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(output_file, leaves_nothing_behind_whenever_a_signal_ends_the_process) {
  const temporary_folder folder;
  for (int i = 0; i < 200; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::signal(SIGTERM, SIG_DFL);
      for (;;) output_file{folder / "y"};
    }
    ::usleep(static_cast<useconds_t>(1000 + i * 13));
    ::kill(child, SIGTERM);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
    ASSERT_EQ(files_in(folder), 0) << "process " << i;
  }
}

TEST(output_file, takes_every_name_that_its_folder_takes) {
  const temporary_folder folder;
  const std::string longest(255, 'y');
  output_file file{folder / longest};
  file.write("new");
  file.publish();
  EXPECT_EQ(read_file(folder / longest), "new");
}

TEST(output_file, leaves_nothing_when_it_is_not_published) {
  const temporary_folder folder;
  write_file(folder / "y", "before");
  { output_file{folder / "y"}.write("new"); }
  EXPECT_EQ(read_file(folder / "y"), "before");
  EXPECT_EQ(files_in(folder), 1);
}

TEST(output_file, a_symbolic_link_is_refused_and_what_it_points_to_is_untouched) {
  const temporary_folder folder;
  write_file(folder / "y", "before");
  fs::create_symlink(folder / "y", folder / "link");
  fs::create_symlink(folder / "nothing", folder / "dangling");
  EXPECT_TRUE(says(refusal_at(folder / "link"), "--output ", "link", "a symbolic link"));
  EXPECT_TRUE(says(refusal_at(folder / "dangling"), "a symbolic link"));
  EXPECT_EQ(read_file(folder / "y"), "before");
  EXPECT_EQ(files_in(folder), 3);
}

TEST(output_file, gets_mode_0644_less_the_umask_whatever_it_replaces) {
  const temporary_folder folder;
  write_file(folder / "y", "before");
  ASSERT_EQ(::chmod((folder / "y").c_str(), 06777), 0);
  const mode_t before = ::umask(027);
  output_file file{folder / "y"};
  file.publish();
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "y"), 0640u);
}

TEST(output_file, folders_devices_and_missing_folders_are_refused) {
  const temporary_folder folder;
  EXPECT_TRUE(says(refusal_at(folder.path()), "is a directory"));
  EXPECT_TRUE(says(refusal_at("/dev/null"), "regular file"));
  EXPECT_TRUE(says(refusal_at(folder / "none" / "y"), "there is no directory", "none"));
  EXPECT_TRUE(says(refusal_at(folder / std::string(256, 'y')), "File name too long"));
}

}  // namespace
