package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckpt/internal/testkit"
)

// endings are how the ends of the table in docs/TESTING.md are brought about: what the
// first rank, the second and the command do, in the words of endsProgram and endsCommand.
var endings = map[[2]string][3]string{
	{"all ranks, after `ckpt_finalize`", "exits with 0"}:                                             {"-", "-", "0"},
	{"all ranks, after `ckpt_finalize`", "exits with 7"}:                                             {"-", "-", "7"},
	{"all ranks, after `ckpt_finalize`", "is killed"}:                                                {"-", "-", "killed"},
	{"a rank is killed", "exits with 9"}:                                                             {"-", "killed", "9"},
	{"a rank is killed", "exits with 0, as behind a pipe"}:                                           {"-", "killed", "0"},
	{"all ranks are killed", "exits with 0, as behind a pipe"}:                                       {"killed", "killed", "0"},
	{"a rank exits without `ckpt_finalize`, the others have called it", "exits with 0"}:              {"-", "silent", "0"},
	{"all ranks exit without `ckpt_finalize`", "exits with 0"}:                                       {"silent", "silent", "0"},
	{"a rank is killed before `ckpt_init`, another waits in it", "exits with 9"}:                     {"-", "early", "9"},
	{"a rank is killed before `ckpt_init`, another waits in it", "exits with 0, as behind a pipe"}:   {"-", "early", "0"},
	{"all ranks are killed before `ckpt_init`", "exits with 9"}:                                      {"early", "early", "9"},
	{"all ranks are killed before `ckpt_init`, once", "exits with 9"}:                                {"first", "first", "9"},
	{"all ranks are killed before `ckpt_init`", "exits with 0, as behind a pipe"}:                    {"early", "early", "0"},
	{"no rank calls `ckpt_init`", "exits with 0"}:                                                    {"plain", "plain", "0"},
	{"no rank calls `ckpt_init`", "exits with 3"}:                                                    {"plain", "plain", "3"},
	{"no rank gets the variables of `ckpt`", "exits with 0"}:                                         {"unset", "unset", "0"},
	{"no agent can start", "exits with 0, as behind a pipe"}:                                         {"agentless", "agentless", "0"},
	{"an agent is killed", "exits with 0, as behind a pipe"}:                                         {"-", "agent", "0"},
	{"the launcher's process of a host, as a rank is about to call `ckpt_finalize`", "exits with 0"}: {"-", "daemon", "0"},
	{"the command, while ranks compute, which end with `ckpt_finalize`", "exits with 0"}:             {"-", "-", "leaves"},
	{"the command, while ranks compute", "is killed"}:                                                {"-", "-", "dies"},
	{"the job is stopped", "exits with 0"}:                                                           {"stops", "-", "0"},
}

// endsProgram is a rank: ends RANK END END-OF-THE-OTHER. It dies in one run only.
const endsProgram = `
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ckpt.h"

static const char *mode;

static int is(const char *name) { return strcmp(mode, name) == 0; }

static int once(const char *name)
{
    return is(name) && open(name, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0;
}

int main(int argc, char **argv)
{
    static long u[2];
    int rank = atoi(argv[1]);
    mode = argv[2];
    while (is("early") && !is(argv[3]) && access("came", F_OK) != 0) usleep(1000);
    if (is(argv[3]) ? is("early") : once("early")) raise(SIGKILL);
    if (is("first") && mkdir(argv[1], 0700) == 0) raise(SIGKILL);
    if (is("plain")) return 0;
    if (is("unset")) unsetenv("CKPT_SOCKET");
    if (is("agentless")) setenv("CKPT_AGENT", "/dev/null", 1);
    ckpt_init(rank, 2);
    creat("came", 0600);
    ckpt_protect("u", u, sizeof u, CKPT_INT64);
    long step = ckpt_restore();
    if (step < 0) return 1;
    for (; step < 20; step++) {
        u[0] += rank + step;
        usleep(10000);
        if (step == 7) creat("computes", 0600);
        if (step == 7 && getenv("WAIT") != NULL) pause();
        if (step == 7 && once("killed")) raise(SIGKILL);
        if (step == 7 && once("agent") && system("sh ./run agent") == 0) pause();
        if (step == 7 && is("stops") && system("kill -INT $COORDINATOR") != 0) return 1;
        if (ckpt_boundary(step + 1) == CKPT_STOP) break;
    }
    if (is("silent")) return 0;
    if (rank == 0 && step == 20) { printf("result %ld\n", u[0]); fflush(stdout); creat("result", 0600); }
    pid_t daemon = getppid();
    if (once("daemon")) for (kill(daemon, SIGKILL); getppid() == daemon; ) usleep(100);
    ckpt_finalize();
    return 0;
}
`

// endsCommand starts the ranks, run FIRST SECOND END, or kills the agent of the second.
const endsCommand = `
if test $1 = agent; then
	for e in /proc/[0-9]*/environ; do
		if grep -qzx CKPT_STORE="$CKPT_STORE" $e && grep -qzx CKPT_RANK=1 $e && grep -qz ^CKPT_CLIENT= $e; then
			p=${e#/proc/}; kill -KILL ${p%/environ}
		fi
	done 2> /dev/null
	exit 0
fi
export COORDINATOR=$PPID
test $3 != dies || test -e left || export WAIT=1
{
if test $2 = daemon; then
	cp "$(command -v sh)" orted
	./orted -c './ends 0 - daemon & ./ends 1 daemon - & wait'
	exit
fi
./ends 0 $1 $2 & first=$!
./ends 1 $2 $1 || test $2 != early || kill $first
wait
} &
case $3 in
leaves|dies)
	if mkdir left 2> /dev/null; then
		until test -e computes; do sleep 0.02; done
		test $3 = leaves && exit 0
		kill -KILL $$
	fi
	wait; exit 0;;
esac
wait
test $3 = killed && kill -KILL $$
test $3 = 9 && test -e result && exit 0
exit $3
`

// TestEnds holds the table of docs/TESTING.md: how a run can end, and its exit status.
func TestEnds(t *testing.T) {
	t.Parallel()
	testkit.All(t, "cc")
	dir := t.TempDir()
	sdk(t, "c", filepath.Join(dir, "ckpt.h"))
	program := filepath.Join(dir, "ends")
	if err := os.WriteFile(program+".c", []byte(endsProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, dir, "cc", "-I"+dir, program+".c", "-o", program)
	seen := 0
	for _, row := range endsTable(t) {
		end, ok := endings[[2]string{row[0], row[1]}]
		if !ok {
			t.Errorf("the table has %q, which is not tried", row[:2])
			continue
		}
		seen++
		for i, flags := range [][]string{nil, {"--auto-restart", "--restarts", "2"}} {
			t.Run(strings.Join(slices.Concat(row[:2], flags), ","), func(t *testing.T) {
				t.Parallel()
				tryEnd(t, program, end, flags, row[2+i])
			})
		}
	}
	if seen != len(endings) {
		t.Errorf("%d ends of %d are in the table", seen, len(endings))
	}
}

// endsTable reads the rows of the table.
func endsTable(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/TESTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Ends of a run")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "-") || strings.Contains(cells[1], "It ends") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells[1:5])
	}
	return rows
}

func tryEnd(t *testing.T, program string, end [3]string, flags []string, want string) {
	s := newSandbox(t, nil)
	if err := os.WriteFile(filepath.Join(s.dir, "run"), []byte(endsCommand), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(s.dir, "ends")); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"ckpt", "launch", "--every", "3", "--job", "j"}, flags, []string{"--", "sh", "./run"}, end[:])
	err := s.command("output", args...).Run()
	var exit *exec.ExitError
	status := 0
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	said := s.said("output")
	if strconv.Itoa(status) != want {
		t.Errorf("status %d, want %s\n%s", status, want, said)
	}
	if whole := strings.Contains(said, "result 190\n"); status == 0 && !whole {
		t.Errorf("status 0 without the right result\n%s", said)
	}
}
