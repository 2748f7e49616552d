// Tests of following shell scripts. Expected words are what bash 5 prints for them.
#include "planner/import/shell/shell_script.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/shell/unknown_value.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

/// Returns the words of the last command of a script.
std::vector<std::string> last_words(const std::string& script) {
  const ShellScript followed = follow_script(script, "launch.sh");
  return followed.commands.empty() ? std::vector<std::string>{} : followed.commands.back().words;
}

struct Row {
  const char* script;
  std::vector<std::string> words;
};

TEST(ShellScript, FillsInWordsAsBashDoes) {
  for (const Row& row : std::vector<Row>{
           {"run a 'b c' \"d e\"", {"run", "a", "b c", "d e"}},
           {"X='a b'; run $X \"$X\" '$X'", {"run", "a", "b", "a b", "$X"}},
           {"run ${X:-4} ${X:--1} ${X-}", {"run", "4", "-1"}},
           {": \"${X:=d}\"; run $X", {"run", "d"}},
           {"X=1; X+=2; run $X", {"run", "12"}},
           {"A=(--a 1 # --b 2\n --c); A+=(x); run \"${A[@]}\" ${#A[@]}",
            {"run", "--a", "1", "--c", "x", "4"}},
           {"A=(); run \"${A[@]}\" b", {"run", "b"}},
           {"N=4 G=8; run $((N * G)) $(( N>2 ? 10/3 : 0 )) $((-2**2))", {"run", "32", "3", "4"}},
           {"X=Llama-3; run ${X,,} ${X^^} ${X#*-} ${X%-*} ${X//a/_} ${X:0:2}",
            {"run", "llama-3", "LLAMA-3", "3", "Llama", "Ll_m_-3", "Ll"}},
           {"Y=X; X=5; run ${!Y}", {"run", "5"}},
           {"run a \\\n  b # c\n", {"run", "a", "b"}},
           {"export X=3 Y=$X; run $X $Y > log 2>&1", {"run", "3", "3"}},
           {"if [ -z \"$X\" ]; then X=1; else X=2; fi; run $X", {"run", "1"}},
           {"X=7; if [[ $X == 8 || $X -lt 5 ]]; then Y=a; elif [[ $X = 7* ]]; then Y=b; fi; run $Y",
            {"run", "b"}},
           {"S=7b; case $S in 1b) L=1;; 7b|8b) L=32;; *) L=0;; esac; run $L", {"run", "32"}},
           {"f() { run \"$1\" $#; }; f 'a b' c", {"run", "a b", "2"}},
           {"[ a = b ] && X=1; [ a = b ] || X=2; run $X", {"run", "2"}},
           {"X=\"run --a 1\"; eval $X --b", {"eval", "run", "--a", "1", "--b"}},
           {"run --data-path $D/x [0-9] 'a|b'",
            {"run", "--data-path", unknown_value("$D") + "/x", "[0-9]", "a|b"}}}) {
    EXPECT_EQ(last_words(row.script), row.words) << row.script;
  }
}

TEST(ShellScript, RunsNothingAndSaysWhatItDoesNotKnow) {
  const ShellScript followed = follow_script(
      "N=$(nvidia-smi -L | wc -l)\n"
      "if [ $N -gt 4 ]; then X=1; fi\n"
      "for i in $(ls); do rm -rf /; done\n"
      "source env.sh\n"
      "run $N $EXTRA\n",
      "launch.sh");
  ASSERT_EQ(followed.commands.size(), 1U);
  EXPECT_THAT(followed.commands[0].words,
              ElementsAre("run", unknown_value("$(nvidia-smi -L | wc -l)")));
  EXPECT_THAT(followed.notes, Contains(HasSubstr("line 2: a condition")));
  EXPECT_THAT(followed.notes, Contains(HasSubstr("line 3: a loop")));
  EXPECT_THAT(followed.notes, Contains(HasSubstr("env.sh")));
  EXPECT_THAT(followed.notes, Contains(HasSubstr("line 5: EXTRA is not set")));
}

TEST(ShellScript, TakesUnknownTestsBeforeOtherCommandsAsFalse) {
  for (const std::string test : {"[ -d d ]", "[[ -d d ]]", "test -d d", "(( $(nproc) > 4 ))"}) {
    std::string script = "X=1\n";
    script.append(test).append(" && X=2\n").append(test).append(" || Y=3\nrun $X $Y");
    const ShellScript followed = follow_script(script, "launch.sh");
    ASSERT_EQ(followed.commands.size(), 1U) << test;
    EXPECT_THAT(followed.commands[0].words, ElementsAre("run", "1", "3")) << test;
    EXPECT_THAT(followed.notes, ElementsAre(HasSubstr("line 2: a condition needs a command"),
                                            HasSubstr("line 3: a condition needs a command")))
        << test;
  }
  EXPECT_EQ(last_words("module load x && X=2; run $X"), (std::vector<std::string>{"run", "2"}));
}

TEST(ShellScript, NotesUnsetVariablesInEveryKindOfTest) {
  for (const std::string test : {"[ $TP = 2 ]", "[[ $TP == 2 ]]", "case $TP in 2) ;; esac"}) {
    EXPECT_THAT(follow_script(test + "\n", "launch.sh").notes,
                ElementsAre("line 1: TP is not set; taken as empty"))
        << test;
  }
  EXPECT_THAT(follow_script("[[ -z $TP ]] && [[ -n $TP || ! -n $PP ]]\n", "launch.sh").notes,
              ElementsAre());
}

TEST(ShellScript, KnowsNoOrderOfKeys) {
  const std::string array = "declare -A M=([a]=1 [b]=2)\n";
  EXPECT_EQ(last_words(array + "run \"${M[@]}\" ${!M[@]} ${#M[@]} ${M[@]/1/2}"),
            (std::vector<std::string>{"run", unknown_value("$(M[@])"), unknown_value("$(M[@])"),
                                      "2", unknown_value("$(M[@])")}));
}

TEST(ShellScript, KeepsWhatHoldsForOneCommandWithIt) {
  const ShellScript followed = follow_script("A=1\nA=2 B='x y' run\nrun\n", "launch.sh");
  ASSERT_EQ(followed.commands.size(), 2U);
  EXPECT_THAT(followed.commands[0].environment,
              ElementsAre(testing::Pair("A", "2"), testing::Pair("B", "x y")));
  EXPECT_THAT(followed.commands[1].environment, ElementsAre());
  EXPECT_EQ(followed.variables.values.count("B"), 0U);
}

TEST(ShellScript, KeepsHereDocuments) {
  const ShellScript followed =
      follow_script("X=3\ncat <<EOF > a.sh\nrun $X\nEOF\ncat <<'END'\nrun $X\nEND\n", "launch.sh");
  EXPECT_THAT(followed.documents, ElementsAre("run 3\n", "run $X\n"));
}

TEST(ShellScript, FollowsWhatBashIsGiven) {
  const ShellScript followed =
      follow_script("bash -c 'exec torchrun --n=2 \"$@\"' torchrun a.py '--x y'", "launch.sh");
  ASSERT_EQ(followed.commands.size(), 2U);
  EXPECT_THAT(followed.commands[0].words,
              ElementsAre("exec", "torchrun", "--n=2", "a.py", "--x y"));
}

TEST(ShellScript, SurvivesWhatIsNoScript) {
  for (const char* text : {"",
                           "X=<Specify path>",
                           "a \\",
                           "'",
                           "\"",
                           "$(",
                           "${",
                           "`",
                           "((",
                           "if",
                           "if then fi fi",
                           "case x in",
                           "esac",
                           "}",
                           ")",
                           ";;",
                           "A=(",
                           "for",
                           "<<",
                           "<<EOF",
                           "f()",
                           "f() {",
                           "[[ a",
                           "[",
                           "! ! !",
                           "&& ||",
                           "$((1/0))",
                           "${X[",
                           "${!",
                           "${#",
                           "\x01\x02"}) {
    EXPECT_NO_THROW(static_cast<void>(follow_script(text, "launch.sh"))) << text;
  }
  EXPECT_NO_THROW(static_cast<void>(follow_script(std::string(100'000, '('), "launch.sh")));
}

/// Returns what a script is refused with; "" if it is followed.
std::string refusal_of_script(const std::string& script) {
  try {
    static_cast<void>(follow_script(script, "launch.sh"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

/// Returns what a script is refused with that may take 4 Mi steps, all others being spent.
std::string refusal_within_few_steps(const std::string& script) {
  ShellLimits limits("launch.sh");
  limits.spend(std::size_t{60} << 20);
  try {
    static_cast<void>(follow_script(script, limits));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string repeated_text(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) {
    result += text;
  }
  return result;
}

TEST(ShellScript, NamesFileAndLineOfWhatItRefuses) {
  // 16 characters, doubled in lines 2 to 18, are 2 MiB.
  const std::string two_mebibytes = "X=aaaaaaaaaaaaaaaa\n" + repeated_text("X=$X$X\n", 17);
  EXPECT_EQ(refusal_of_script(two_mebibytes + "run $X\nrun $X$X$X\n"),
            "launch.sh: line 20: a word grows beyond 4 MiB; expected shorter values in it");
  const std::string variable = "variable X grows beyond 4 MiB; expected a shorter value";
  EXPECT_EQ(refusal_of_script(two_mebibytes + "X=b$X\nX=$X$X\n"),
            "launch.sh: line 20: a word grows beyond 4 MiB; expected shorter values in it");
  EXPECT_EQ(refusal_of_script(two_mebibytes + "X+=$X\n"), "launch.sh: line 19: " + variable);
  EXPECT_EQ(refusal_of_script(two_mebibytes + "X=($X b)\nX+=(\n$X $X)\n"),
            "launch.sh: line 21: " + variable);
  EXPECT_EQ(refusal_of_script("f() { f; f; }\n\nf"),
            "launch.sh: line 1: commands nest more than 40 deep; expected fewer within each other");
  // Each call is one command deep, and the body around it another: the 41st is f's in line 3.
  EXPECT_EQ(refusal_of_script("f() { g; }\ng() {\n f\n}\nrun\nf"),
            "launch.sh: line 3: commands nest more than 40 deep; expected fewer within each other");
  EXPECT_EQ(refusal_of_script(repeated_text("run\n", 20'001)),
            "launch.sh: line 20001: the script runs more than 20000 commands; expected a launch "
            "script, which runs fewer");
}

TEST(ShellScript, RefusesWhatWouldTakeHours) {
  const std::string work =
      "following the script has taken 64 Mi steps; expected a launch script, which takes fewer";
  // Ten calls in each of twelve functions come to 10^12. They take the most time for a step.
  std::string calls = "f0() { :; }\n";
  for (int i = 1; i <= 12; ++i) {
    const std::string inner = "f" + std::to_string(i - 1);
    calls += "f" + std::to_string(i) + "() { " + repeated_text(inner + "; ", 10) + "}\n";
  }
  EXPECT_THAT(refusal_within_few_steps(calls + "f12\n"), HasSubstr(work));
  // 16 characters, doubled in lines 2 to 15, are 256 KiB.
  const std::string large = "X=aaaaaaaaaaaaaaaa\n" + repeated_text("X=$X$X\n", 14);
  EXPECT_EQ(refusal_within_few_steps(large + "run ${X##*a*b}\n"), "launch.sh: line 16: " + work);
  EXPECT_EQ(refusal_within_few_steps(large + "run ${X//a/$X}\n"), "launch.sh: line 16: " + work);
  EXPECT_EQ(
      refusal_within_few_steps(large + "case $X in *" + repeated_text("a", 100) + "b) ;; esac\n"),
      "launch.sh: line 16: " + work);
  EXPECT_THAT(refusal_within_few_steps(large + repeated_text("eval true\n", 100)), HasSubstr(work));
  EXPECT_THAT(refusal_within_few_steps(
                  repeated_text("A[9999]=1 B[9999]=1 C[9999]=1\nA=() B=() C=()\n", 100)),
              HasSubstr(work));
}

TEST(ShellScript, ReadsDeepDefaultsToTheirBound) {
  const std::string deep =
      "X=1; run " + repeated_text("${X:+", 100'000) + repeated_text("}", 100'000);
  EXPECT_EQ(refusal_of_script(deep), "");
}

TEST(ShellScript, EvaluatesNestedSubscriptsOnce) {
  std::string nested = "0";
  for (int i = 0; i < 90; ++i) {
    nested.insert(0, "A[").append("]");
  }
  EXPECT_EQ(last_words("A=(0); run $((" + nested + "))"), (std::vector<std::string>{"run", "0"}));
  const std::string open = repeated_text("A[,", 300'000);
  EXPECT_TRUE(unknown_part(last_words("A=(0); run $((" + open + "))").at(1)));
  EXPECT_TRUE(unknown_part(last_words("A=(0); run $((1 || A[))").at(1)));
}

// Loops that may be left early, name files, count, or have many turns.
TEST(ShellScript, PassesOverLoopsWhoseTurnsAreNotKnown) {
  for (const std::string begin :
       {"for X in 1 2; do break; ", "for X in *.sh; do ", "for X in {1..3}; do ",
        "for ((I = 0; I < 2; I++)); do ", "while true; do ", "for X in $(seq 3); do "}) {
    const ShellScript followed = follow_script(begin + "run $X; done\nrun end", "launch.sh");
    ASSERT_EQ(followed.commands.size(), 1U) << begin;
    EXPECT_THAT(followed.commands[0].words, ElementsAre("run", "end")) << begin;
    EXPECT_THAT(followed.notes, Contains(HasSubstr("line 1: a loop is not followed"))) << begin;
  }
}

}  // namespace
}  // namespace ptdp
