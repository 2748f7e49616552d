// Tests of following scripts against bash. Expected words are those that bash 5.2.15 gave a
// function `run` that printed its arguments.
#include <gmock/gmock.h>

#include "planner/import/shell/shell_script.h"

namespace ptdp {
namespace {

struct BashRow {
  const char* script;
  const char* printed;  ///< A line for each call of `run`, each word in angle brackets.
};

/// Returns the words that a script gives `run`, as the table writes them.
std::string words_for_run(const std::string& script) {
  std::string text;
  for (const ShellCommand& command : follow_script(script, "x.sh").commands) {
    if (command.words.front() == "run") {
      text += "run";
      for (std::size_t i = 1; i < command.words.size(); ++i) {
        text += "<" + command.words[i] + ">";
      }
      text += "\n";
    }
  }
  return text;
}

TEST(ShellScript, GivesCommandsTheWordsOfBash) {
  const std::vector<BashRow> rows = {
      {"IFS=\",\" read -r A B C <<< \"1,2,3\"; run $A $B $C", "run<1><2><3>\n"},
      {"for X in \"8,4\" \"2,1,x\"; do IFS=\",\" read T P R <<< \"$X\"; run \"$T\" \"$P\" \"$R\"; "
       "done",
       "run<8><4><>\nrun<2><1><x>\n"},
      {"read A B <<< \"  one two  three \"; run \"$A\" \"$B\"", "run<one><two  three>\n"},
      {"IFS=: read -ra L <<< \"a:b::c\"; run \"${L[@]}\"", "run<a><b><><c>\n"},
      {"IFS=, read A B <<< \"x,y,z,\"; run \"$A\" \"$B\"", "run<x><y,z,>\n"},
      {"IFS=\"|\" read A B C <<< \"a | b|\"; run \"$A\" \"$B\" \"$C\"", "run<a >< b><>\n"},
      {"for X in a \"b c\" d; do run $X; done; run $X", "run<a>\nrun<b><c>\nrun<d>\nrun<d>\n"},
      {"L=\"1 2\"; A=(x \"y z\"); for V in $L \"${A[@]}\"; do W+=\"-$V\"; run \"$W\"; done",
       "run<-1>\nrun<-1-2>\nrun<-1-2-x>\nrun<-1-2-x-y z>\n"},
      {"for X in 1 2\ndo\n  for Y in a b; do run $X$Y; done\ndone\nrun end",
       "run<1a>\nrun<1b>\nrun<2a>\nrun<2b>\nrun<end>\n"},
      {"for X in; do run $X; done; run none", "run<none>\n"},
      {"f() { for Q in \"$@\"; do run f $Q; done; }; f 1 2", "run<f><1>\nrun<f><2>\n"},
      {"for X in 1 2; do if [ $X = 2 ]; then run two; else run other; fi; done",
       "run<other>\nrun<two>\n"},
      {"run $((0x10 + 010)) $((7 & 3)) $((4 | 1)) $((5 ^ 1)) $((1 << 4)) $((256 >> 2)) $((~0))",
       "run<24><3><5><4><16><64><-1>\n"},
      {"run $((2, 3)) $((1 ? 2 : 3)) $((3 > 2 && 2 > 1))", "run<3><2><1>\n"},
      {"N=3; run $((N++)) $N $((++N)) $N $((N--)) $((--N))", "run<3><4><5><5><5><3>\n"},
      {"N=3; ((N += 4)); run $N; ((N *= 2)); run $N; let N=N-1; run $N",
       "run<7>\nrun<14>\nrun<13>\n"},
      {"N=3; run $((M = N * 2)) $M", "run<6><6>\n"},
      {"A=(1 2 3); run $((A[1] + ${A[2]})) $((${#A[@]} * 2))", "run<5><6>\n"},
      {"N=4; E=N*2; run $((E)) $((E + 1))", "run<8><9>\n"},
      {"run $((-7 / 2)) $((-7 % 3)) $((2 ** 3 ** 2)) $((!5)) $((- -3))",
       "run<-3><-1><512><0><3>\n"},
      {"N=\" 8 \"; run $((N * 2))", "run<16>\n"},
      {"X=abcdef; run ${X::2} ${X:2} ${X: -2} ${X:1:3} ${X:0:-1} ${X:(-3):2}",
       "run<ab><cdef><ef><bcd><abcde><de>\n"},
      {"X=abcdef; N=2; run ${X:N:N} ${X:$N:1} ${X:N+1}", "run<cd><c><def>\n"},
      {"X=a.b.c; run ${X%.*} ${X%%.*} ${X#*.} ${X##*.} \"${X%\".c\"}\"",
       "run<a.b><a><b.c><c><a.b>\n"},
      {"X=a/b/c; run ${X//\\//-} ${X/\\//_} ${X//[ab]/z} ${X/%c/end} ${X/#a/begin} ${X//b}",
       "run<a-b-c><a_b/c><z/z/c><a/b/end><begin/b/c><a//c>\n"},
      {"X=aXbX; run ${X//X/\"y z\"} \"${X//X/ }\" ${X/?b/-} ${X/X*/e}",
       "run<ay><zby><z><a b ><a-X><ae>\n"},
      {"X=hello; run ${X^} ${X^^} ${X^^[el]} ; Y=HeLLO; run ${Y,} ${Y,,}",
       "run<Hello><HELLO><hELLo>\nrun<heLLO><hello>\n"},
      {"A=(a b c d); run \"${A[@]:1:2}\" \"${A[@]: -1}\" \"${A[-1]}\" ${A[0]} ${#A[1]} "
       "\"${!A[@]}\"",
       "run<b><c><d><d><a><1><0><1><2><3>\n"},
      {"A=(a b); A+=(c 'd e'); run \"${A[@]}\" \"${A[*]}\" ${A[@]}",
       "run<a><b><c><d e><a b c d e><a><b><c><d><e>\n"},
      {"A=(one.py two.py); run \"${A[@]%.py}\" \"${A[@]/#/--}\" \"${A[@]^^}\"",
       "run<one><two><--one.py><--two.py><ONE.PY><TWO.PY>\n"},
      {"A=(1 2); A[1]+=5; run \"${A[@]}\"; unset A[0]; run \"${A[@]}\"; unset A; run x \"${A[@]}\"",
       "run<1><25>\nrun<25>\nrun<x>\n"},
      {"declare -A M; K=7b; M[7b]=32; run ${M[$K]} \"${M[7b]}\"", "run<32><32>\n"},
      {"S=13b; case $S in 7b) L=1;; 13b) L=2;& 30b) L=3;; *) L=4;; esac; run $L", "run<3>\n"},
      {"S=13b; case $S in 13*) L=2;;& *b) M=3;; *) L=4;; esac; run $L $M", "run<2><3>\n"},
      {"S=Big; case \"$S\" in [Bb]ig|large) L=1;; *) L=2;; esac; run $L", "run<1>\n"},
      {"case \"\" in \"\") run empty;; *) run other;; esac", "run<empty>\n"},
      {"case a in a) run first ;; a) run second ;; esac; case q in (p) run 1;; (q) run 2;; esac",
       "run<first>\nrun<2>\n"},
      {"f() { local X=in; run $X \"$@\"; Y=set; }; X=out; f a \"b c\"; run $X $Y",
       "run<in><a><b c>\nrun<out><set>\n"},
      {"f() { return 1; }; f && run yes || run no; g() { return 0; }; g && run g",
       "run<no>\nrun<g>\n"},
      {"f() { if [ $1 -gt 2 ]; then echo; return; fi; run $1; f $(( $1 + 1 )); }; f 0",
       "run<0>\nrun<1>\nrun<2>\n"},
      {"f() { run $#; shift; run $1 $#; }; f a b c; set -- x y z; run $2 $#; shift 2; run $1",
       "run<3>\nrun<b><2>\nrun<y><3>\nrun<z>\n"},
      {"function g { run g \"$1\"; }; g 1; function h() { run h; }; h", "run<g><1>\nrun<h>\n"},
      {"X=5; if (( X > 3 )); then run big; else run small; fi; if ((X==4)); then run four; elif "
       "((X==5)); then run five; fi",
       "run<big>\nrun<five>\n"},
      {"if [ \"$A\" = \"\" ] && [ -z \"$B\" -a 1 -lt 2 ]; then run ok; fi; [ ! -n \"$A\" ] && run "
       "not; test 1 -eq 1 && run t",
       "run<ok>\nrun<not>\nrun<t>\n"},
      {"X=$'a\\tb\\n'; run \"$X\" $'it\\'s' $'\\x41\\101' \"a\\\"b\" 'c'\"d\"e",
       "run<a\tb\n><it's><AA><a\"b><cde>\n"},
      {"X=\"a b\"; Y=$X; run $Y \"$Y\" '$Y' \"\\$Y\" \\$Y a\\ b",
       "run<a><b><a b><$Y><$Y><$Y><a b>\n"},
      {"X='*'; run \"$X\" \"a  b\" a''b \"\" ''", "run<*><a  b><ab><><>\n"},
      {"cat <<EOT > /dev/null\n$((1+1))\nEOT\nrun after <<< \"here\"\n", "run<after>\n"},
      {"X=; run \"${X-a}\" ${X:-b} ${X:+c} \"${X+d}\" ${Y:=e} $Y ${Y:+\"f g\"} \"${Y:-\"h i\"}\"",
       "run<><b><d><e><e><f g><e>\n"},
      {"X=ab; X+=c; run $X ${#X} \"${X}d\" \"$X\"d ${X}_$X; _a1=2; run $_a1",
       "run<abc><3><abcd><abcd><abc_abc>\nrun<2>\n"},
      {"X=Y; Y=5; run ${!X}; A=(1 2); R=\"A[1]\"; run ${!R}; R=\"A[@]\"; run \"${!R}\"",
       "run<5>\nrun<2>\nrun<1><2>\n"},
      {"X=(); run ${#X[@]} \"${X[@]}\" z; X=5; run ${#X[@]} ${X[0]} \"${X[@]}\"",
       "run<0><z>\nrun<1><5><5>\n"},
      {"[ -z \"$U\" ] && : ${U:=7}; run $U; : \"${V:=$U}\"; run $V; W=${V:-${U:-3}}; run $W",
       "run<7>\nrun<7>\nrun<7>\n"},
      {"eval \"X=3; run \\$X\"; run $X; eval 'Y=4'; run \"$Y\"", "run<3>\nrun<3>\nrun<4>\n"},
      {"X=\"a=1 b=2\"; run $X; Z=\"--x ${X}\"; run $Z; run \"$Z\"",
       "run<a=1><b=2>\nrun<--x><a=1><b=2>\nrun<--x a=1 b=2>\n"},
      {"X=\"--a 'b c'\"; run $X; eval run $X", "run<--a><'b><c'>\nrun<--a><b c>\n"},
      {"if ! [ 1 -eq 2 ]; then run n; fi; if [ 1 -eq 1 ] && [ 2 -eq 3 ] || [ 4 -eq 4 ]; then run "
       "o; fi",
       "run<n>\nrun<o>\n"},
      {"[[ -n $X ]]; [[ -z $X ]] && run z; [[ $X ]] || run e; X=1; [[ -v X ]] && run v; [[ $X -eq "
       "1 && ( $X -lt 2 || a == b ) ]] && run p",
       "run<z>\nrun<e>\nrun<v>\nrun<p>\n"},
      {"N=010; run $((10#$N)) $((16#ff)) $((2#101))", "run<10><255><5>\n"},
      {"readonly R=1; run $R; typeset T=2; run $T; export A=1 B=\"x y\"; run $A \"$B\"",
       "run<1>\nrun<2>\nrun<1><x y>\n"},
      {"[ 010 -eq 10 ] && run dec; [[ 010 -eq 8 ]] && run oct; [ 0 -eq 00 ] && run zero",
       "run<dec>\nrun<oct>\nrun<zero>\n"},
      {"f() { local X; X=1; run $X; }; X=2; f; run $X; [ \"$X\" != \"\" ] && run set",
       "run<1>\nrun<2>\nrun<set>\n"},
      {"run $((1 ? 2 : N++)) $((0 && (N = 5))) $((1 || N++)) ${N-unset}", "run<2><0><1><unset>\n"},
      {"A=(1 2); i=1; A[i]=5; A[$((i+1))]=6; run \"${A[@]}\" ${A[i]} ${A[$i]}",
       "run<1><5><6><5><5>\n"},
      {"f() { run \"${@:2}\" \"${@:1:1}\"; }; f a b c", "run<b><c><a>\n"},
      {"X=abc; run ${X/b} ${X/#b/z} ${X/%c} ${X/#/pre} ${X/%/post} ${X//?/x}",
       "run<ac><abc><ab><preabc><abcpost><xxx>\n"},
      {"X=1; [ -f /nonexistent ] && X=2; [[ -e /nonexistent ]] || Y=3; run $X $Y", "run<1><3>\n"},
      {"X=1; mkdir -p /tmp && X=2; run $X", "run<2>\n"},
      {"f() { run real; }; if [ 1 = 2 ]; then f() { run other; }; fi; f", "run<real>\n"},
      {"find_tp() { for TP in 1 2 4 8; do if [ $TP -ge 3 ]; then return; fi; done; }; find_tp; run "
       "$TP",
       "run<4>\n"},
      {"f() { for A in 1 2; do for B in x y; do [ $A$B = 1y ] && return 1; done; done; }; f || run "
       "$A $B",
       "run<1><y>\n"},
      {"TP=1; TP=4 run $TP; run $TP; f() { run $TP; TP=7; }; TP=5 f; run $TP; TP=2 eval 'run $TP'; "
       "run $TP",
       "run<1>\nrun<1>\nrun<5>\nrun<1>\nrun<2>\nrun<1>\n"},
      {"TP=1; TP=6 bash -c \"true \\$TP\"; run $TP; TP=3 $E; run $TP; A=1 B=$A; run $B",
       "run<1>\nrun<3>\nrun<1>\n"},
      {"X=\"1,2\"; IFS=, read A B <<< \"$X\"; X=\"3 4\"; read C D <<< \"$X\"; run $A $B $C $D",
       "run<1><2><3><4>\n"},
      {"X=1 export X; run $X; X=2 : ; run $X; Y=1 Y=2 run $Y; run \"${Y-none}\"; N=3; N=4 M=$N run "
       "$M; "
       "M=$N; run $M",
       "run<1>\nrun<1>\nrun\nrun<none>\nrun\nrun<3>\n"},
      {"T=(2 4 8); i=0; X=$((T[i++])); run $X ${T[i]} $i; run ${T[i++]} $i; T[i++]=9; run $i "
       "\"${T[@]}\"",
       "run<2><4><1>\nrun<4><2>\nrun<3><2><4><9>\n"},
      {"T=(2 4 8); i=0; run $((T[i++] = 5)) $i ${T[0]} $((T[T[0] - 4] += 1)) $((T[i]++)) ${T[1]}",
       "run<5><1><5><5><5><6>\n"},
      {"declare -A BIG=([TP]=8 [PP]=4); TP=1 PP=1; run ${BIG[TP]} ${BIG[$TP]-none} ${BIG[\"PP\"]} "
       "$((BIG[TP] * 2))",
       "run<8><none><4><16>\n"},
      {"declare -A M; M[7]=a; M[x]=b; K=x; M[$K]+=c; x=7; run ${M[x]} ${M[7]} ${#M[@]}; unset "
       "M[x]; run ${M[x]-none}",
       "run<bc><a><2>\nrun<none>\n"},
      {"declare -A M=([a]=1); M=([b]=2); run ${M[a]-none} ${M[b]}; M+=([c]=3); run ${M[b]} ${M[c]} "
       "${#M[x]}; ((M[b] += 5)); run ${M[b]}",
       "run<none><2>\nrun<2><3><0>\nrun<7>\n"},
      {"[ -v X ] || run no; X=; [ -v X ] && run yes; test -v Y || run none",
       "run<no>\nrun<yes>\nrun<none>\n"},
      {"X=a; case $X in b) run 1;& c) run 2;; esac; case $X in a) run 1;& b) run 2;& c) run 3;; d) "
       "run 4;; esac",
       "run<1>\nrun<2>\nrun<3>\n"}};
  for (const BashRow& row : rows) {
    EXPECT_EQ(words_for_run(row.script), row.printed) << row.script;
  }
}

TEST(ShellScript, LeavesOutWhatIsNotTaken) {
  const ShellScript followed = follow_script(
      "case x in y) X=${A:=1};; esac\n[[ -n $Y ]] && [[ ${B:=1} ]]\nfalse && ((C = 1))\n", "x.sh");
  EXPECT_EQ(followed.variables.values.count("A"), 0U);
  EXPECT_EQ(followed.variables.values.count("B"), 0U);
  EXPECT_EQ(followed.variables.values.count("C"), 0U);
}

TEST(ShellScript, KnowsNoValueThatIsReadOrPrinted) {
  EXPECT_EQ(words_for_run("X=1 Y=2; read X < file; printf -v Y %s 3; run $X $Y"),
            "run<\x01$(read)\x02><\x01$(printf)\x02>\n");
  EXPECT_EQ(words_for_run("N=1; (( N = M + 1 )); run $N ${X:M:1}"), "run<\x01$((N))\x02>\n");
}

}  // namespace
}  // namespace ptdp
