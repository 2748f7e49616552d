// Compares keyed digests with the test cases of RFC 4231, sections 4.2, 4.3, 4.4 and 4.7.
#include "runtime/transport/processes/tcp/keyed_digest.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

TEST(KeyedDigest, IsThatOfTheStandardsExamples) {
  EXPECT_EQ(keyed_digest(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(keyed_digest("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(keyed_digest(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(keyed_digest(std::string(131, '\xaa'),
                         "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Digests, AreEqualInAllDigitsOrNot) {
  EXPECT_TRUE(are_equal_digests("abc", "abc"));
  EXPECT_FALSE(are_equal_digests("abc", "abd"));
  EXPECT_FALSE(are_equal_digests("abc", "ab"));
  EXPECT_FALSE(are_equal_digests("", "a"));
  EXPECT_NE(random_digits(), random_digits());
}

}  // namespace
}  // namespace ptdp
