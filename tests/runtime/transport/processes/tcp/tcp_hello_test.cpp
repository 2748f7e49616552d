// Tests that what processes say when they meet or call each other is read whole, and that nothing
// else is accepted.
#include "runtime/transport/processes/tcp/tcp_hello.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <climits>

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TcpHello, ComesBackWhole) {
  const TcpHello sent{.rank = 3,
                      .size = 4,
                      .version = "0.1.0",
                      .job = "17.0",
                      .process = INT_MAX,
                      .has_secret = true,
                      .self = {.host = "node-7",
                               .machine = "node-7/b",
                               .port = 65535,
                               .addresses = {"10.0.0.7", "fd00::7"}}};
  EXPECT_EQ(to_text(sent),
            "hello 0.1.0 4 3 17.0 2147483647 secret node-7 node-7/b 65535 10.0.0.7 fd00::7");
  const auto received = parse_hello_text(to_text(sent));
  ASSERT_TRUE(received);
  EXPECT_EQ(to_text(*received), to_text(sent));
  EXPECT_THAT(received->self.addresses, ElementsAre("10.0.0.7", "fd00::7"));
}

TEST(TcpHello, IsRefusedWhereAFieldIsNone) {
  EXPECT_TRUE(parse_hello_text("hello 0.1.0 4 3 job 17 open node machine 1"));
  for (const char* text :
       {"", "hello", "hullo 0.1.0 4 3 job 17 open node machine 1",
        "hello 0.1.0 4 4 job 17 open node machine 1", "hello 0.1.0 4 -1 job 17 open node machine 1",
        "hello 0.1.0 0 0 job 17 open node machine 1", "hello 0.1.0 4 3 job x open node machine 1",
        "hello 0.1.0 4 3 job 17 open node machine", "hello 0.1.0 4 3 job 17 open node machine 0",
        "hello 0.1.0 4 3 job 17 open node machine 65536",
        "hello 0.1.0 4 3 job 17 open node machine 1  10.0.0.7"}) {
    EXPECT_FALSE(parse_hello_text(text)) << text;
  }
}

TEST(TcpTable, ComesBackWhole) {
  const TcpTable sent{
      .secret = "5e",
      .processes = {{.host = "a", .machine = "m", .port = 1, .addresses = {"10.0.0.1", "::1"}},
                    {.host = "b", .machine = "n", .port = 2}}};
  EXPECT_EQ(to_text(sent), "complete 5e\na m 1 10.0.0.1 ::1\nb n 2");
  const auto received = parse_table_text(to_text(sent));
  ASSERT_TRUE(received);
  EXPECT_EQ(received->secret, "5e");
  EXPECT_EQ(to_text(*received), to_text(sent));
  EXPECT_THAT(received->processes.at(1).addresses, IsEmpty());
}

TEST(TcpTable, IsRefusedWhereALineIsNoProcess) {
  for (const char* text : {"", "welcome", "complete", "complete 5e\na m", "complete 5e\na m 1\n\n",
                           "complete 5e\na m 0 10.0.0.1"}) {
    EXPECT_FALSE(parse_table_text(text)) << text;
  }
}

TEST(TcpGreeting, ComesBackWhole) {
  const TcpGreeting sent{
      .secret = "5e", .from = 3, .to = 0, .process = INT64_MAX, .host = "node-7"};
  EXPECT_EQ(to_text(sent), "peer 5e 3 0 9223372036854775807 node-7");
  const auto received = parse_greeting_text(to_text(sent));
  ASSERT_TRUE(received);
  EXPECT_EQ(to_text(*received), to_text(sent));
  const TcpGreeting own = own_greeting("5e", 1, 2);
  EXPECT_EQ(own.process, ::getpid());
  EXPECT_TRUE(parse_greeting_text(to_text(own)));
}

TEST(TcpGreeting, OpensTheProcessThatItCallsToWhoKnowsItsSecret) {
  const TcpGreeting greeting{.secret = "5e", .from = 3, .to = 2};
  EXPECT_TRUE(greeting.opens("5e", 2));
  EXPECT_FALSE(greeting.opens("5f", 2));
  EXPECT_FALSE(greeting.opens("5", 2));
  EXPECT_FALSE(greeting.opens("5e", 3));
}

TEST(TcpGreeting, IsRefusedWhereAFieldIsNone) {
  for (const char* text : {"", "peer", "peer 5e 3 0 17", "peer 5e 3 0 17 host more",
                           "peer 5e -1 0 17 host", "peer 5e 3 x 17 host", "peer 5e 3 0 -17 host",
                           "peer  3 0 17 host", "hello 5e 3 0 17 host", "GET / HTTP/1.1"}) {
    EXPECT_FALSE(parse_greeting_text(text)) << text;
  }
}

}  // namespace
}  // namespace ptdp
