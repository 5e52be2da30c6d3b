package strace

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// taskFiles writes texts as strace -ff does, by process.
func taskFiles(t *testing.T, texts map[int64]string) (files []TaskFile) {
	t.Helper()
	dir := t.TempDir()
	for _, pid := range []int64{30, 20, 10, 7} { // in any order
		text, ok := texts[pid]
		if !ok {
			continue
		}
		name := filepath.Join(dir, "s."+strconv.FormatInt(pid, 10))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, TaskFile{name, pid})
	}
	return files
}

// TestReadTasks reads the files of a process, its child, and a thread of that.
func TestReadTasks(t *testing.T) {
	texts := map[int64]string{
		10: `1700000000.000001 open("/shared", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3 <0.000001>
1700000000.000002 write(3, "x", 5) = 5 <0.000001>
1700000000.000003 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLD, child_tidptr=0x7f) = 20 <0.000001>
1700000000.000004 wait4(-1, NULL, 0, NULL) = 20 <0.5>
1700000000.600000 write(3, "x", 1) = 1 <0.000001>
1700000000.700000 exit_group(0) = ?
1700000000.800000 +++ exited with 0 +++
`,
		20: `1700000000.000005 write(3, "x", 6) = 6 <0.000001>
1700000000.000006 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, exit_signal=0}, 88) = 30 <0.000001>
1700000000.000008 read(3, "", 9) = 0 <0.000001>
1700000000.500000 +++ exited with 0 +++
`,
		30: "1700000000.000007 open(\"/own\", O_RDWR) = 4 <0.000001>\n1700000000.000009 write(3, \"x\", 7) = 7 <0.000001>\n",
		7:  "",
	}
	got, reps, err := ReadTasks(taskFiles(t, texts), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"10 open new /shared", "10 write /shared @0 +5", "20 write /shared @5 +6", "20 open /own", "20 read /shared @11", "20 write /shared @11 +7", "10 write /shared @18 +1"}
	if diff := cmp.Diff(want, show(got)); diff != "" {
		t.Error(diff)
	}
	if err := iotracetest.Valid(got); err != nil {
		t.Error(err)
	}
	var lines []int64
	for _, r := range reps {
		lines = append(lines, r.Lines)
	}
	if diff := cmp.Diff([]int64{2, 4, 7, 0}, lines); diff != "" {
		t.Error(diff)
	}

	// A file that is cut: an error of that file, or all but its end.
	texts[30] = texts[30][:len(texts[30])-3]
	files := taskFiles(t, texts)
	_, _, err = ReadTasks(files, iotrace.Options{})
	if !errors.Is(err, iotrace.ErrTruncated) || !strings.HasSuffix(err.Error(), "s.30:2: the last line has no end") {
		t.Error(err)
	}
	got, reps, err = ReadTasks(files, iotrace.Options{Lenient: true})
	if err != nil || len(got.Events) != len(want)-1 || !errors.Is(reps[0].Cut, iotrace.ErrTruncated) {
		t.Error(show(got), reps[0], err)
	}

	// So is a clock that runs backwards, and a line that nobody understands.
	texts[30] = "1700000000.000007 sync() = 0 <0.000001>\n1700000000.000006 sync() = 0 <0.000001>\n"
	if _, _, err = ReadTasks(taskFiles(t, texts), iotrace.Options{}); err == nil || !strings.Contains(err.Error(), "s.30:2: the clock runs backwards") {
		t.Error(err)
	}
	texts[30] = "1700000000.000007 sync() = 0 <0.000001>\nwhat?\n1700000000.000008 sync() = 0 <0.000001>\n"
	if _, _, err = ReadTasks(taskFiles(t, texts), iotrace.Options{Strict: true}); err == nil || !strings.Contains(err.Error(), "s.30:2: this is not a line of strace") {
		t.Error(err)
	}
	texts[30] = "sync() = 0\n"
	if _, _, err = ReadTasks(taskFiles(t, map[int64]string{30: texts[30]}), iotrace.Options{}); err == nil || !strings.Contains(err.Error(), "s.30:1: the line has no time") {
		t.Error(err)
	}
	if _, _, err = ReadTasks(taskFiles(t, map[int64]string{7: ""}), iotrace.Options{}); !errors.Is(err, iotrace.ErrWrongFormat) {
		t.Error(err)
	}
	if _, _, err = ReadTasks([]TaskFile{{filepath.Join(t.TempDir(), "s.1"), 1}}, iotrace.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestReadTasksOverlap has threads whose calls overlap, so that numbers of
// descriptors mean something else at the end of a call than when it began.
func TestReadTasksOverlap(t *testing.T) {
	const threads = `0.000001 open("/a", O_RDWR|O_TRUNC) = 3 <0.000001>
0.000002 clone(flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 20 <0.000001>
0.000003 clone(flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 30 <0.000001>
`
	for _, c := range []struct {
		what       string
		one, other string
		want       []string
	}{
		{"the number is free while open waits",
			"0.000100 open(\"/b\", O_RDWR|O_TRUNC) = 3 <0.050000>\n0.060000 write(3, \"x\", 5) = 5 <0.000001>\n",
			"0.010000 close(3) = 0 <0.001000>\n",
			[]string{"10 open new /a", "10 open new /b", "10 close /a", "10 write /b @0 +5"}},
		{"close while a write is under way",
			"0.000100 write(3, \"x\", 5) = 5 <0.050000>\n0.060000 write(3, \"x\", 6) = 6 <0.000001>\n",
			"0.010000 close(3) = 0 <0.001000>\n0.020000 open(\"/b\", O_RDWR|O_TRUNC) = 3 <0.001000>\n",
			[]string{"10 open new /a", "10 write /a @0 +5", "10 close /a", "10 open new /b", "10 write /b @0 +6"}},
		{"the position at the end",
			"0.000100 read(3, \"\", 5) = 5 <0.050000>\n0.050099 read(3, \"\", 7) = 7 <0.000001>\n", // durations are rounded
			"0.010000 read(3, \"\", 6) = 6 <0.001000>\n0.020000 lseek(3, 0, SEEK_CUR) = 6 <0.030100>\n",
			[]string{"10 open new /a", "10 read /a @6 +5", "10 read /a @0 +6", "10 seek /a @6", "10 read /a @11 +7"}},
		{"a range is closed",
			"0.000100 open(\"/b\", O_RDWR|O_TRUNC) = 3 <0.050000>\n0.060000 write(3, \"x\", 5) = 5 <0.000001>\n",
			"0.010000 close_range(3, 9, 0) = 0 <0.050000>\n",
			[]string{"10 open new /a", "10 open new /b", "10 close /a", "10 write /b @0 +5"}},
	} {
		stamp := func(s string) string { return strings.ReplaceAll("\n"+s, "\n0.", "\n1700000000.")[1:] }
		tr, reps, err := ReadTasks(taskFiles(t, map[int64]string{10: stamp(threads), 20: stamp(c.one), 30: stamp(c.other)}), iotrace.Options{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if diff := cmp.Diff(c.want, show(tr)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
		if err := iotracetest.Valid(tr); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		for _, r := range reps {
			if r.Unknown != 0 || r.Astray != 0 {
				t.Errorf("%s: %+v", c.what, r)
			}
		}
	}
}

// TestReadTasksMidnight has a child that begins after midnight, of times without
// a date.
func TestReadTasksMidnight(t *testing.T) {
	got, _, err := ReadTasks(taskFiles(t, map[int64]string{
		10: "23:59:59.900000 open(\"/f\", O_RDWR|O_TRUNC) = 3 <0.000001>\n23:59:59.950000 fork() = 20 <0.1>\n00:00:00.200000 write(3, \"x\", 2) = 2 <0.000001>\n",
		20: "00:00:00.100000 write(3, \"x\", 1) = 1 <0.000001>\n",
	}), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10 open new /f", "20 write /f @0 +1", "10 write /f @1 +2"}, show(got)); diff != "" {
		t.Error(diff)
	}
	if wall := got.Events[2].Start - got.Events[0].Start; wall != 3e8 {
		t.Error(wall)
	}
}

// TestReadTasksDays has programs that run long, of times without a date.
func TestReadTasksDays(t *testing.T) {
	for _, c := range []struct {
		what  string
		texts map[int64]string
		want  []string
	}{
		{"for 13 hours", map[int64]string{
			10: "08:00:00 open(\"/f\", O_RDWR|O_TRUNC) = 3 <0.000001>\n08:01:00 fork() = 20 <0.1>\n21:00:00 fork() = 30 <0.1>\n21:00:10 write(3, \"x\", 3) = 3 <0.000001>\n",
			20: "08:01:01 write(3, \"x\", 1) = 1 <0.000001>\n",
			30: "21:00:01 write(3, \"x\", 2) = 2 <0.000001>\n",
		}, []string{"10 open new /f", "20 write /f @0 +1", "30 write /f @1 +2", "10 write /f @3 +3"}},
		{"for days", map[int64]string{
			10: "08:00:00 open(\"/f\", O_RDWR|O_TRUNC) = 3 <0.000001>\n20:00:00 sync() = 0 <0.1>\n07:00:00 sync() = 0 <0.1>\n09:00:00 fork() = 20 <0.1>\n",
			20: "09:00:01 write(3, \"x\", 1) = 1 <0.000001>\n18:00:00 fork() = 30 <0.1>\n",
			30: "18:00:01 write(3, \"x\", 2) = 2 <0.000001>\n",
		}, []string{"10 open new /f", "10 sync", "10 sync", "20 write /f @0 +1", "30 write /f @1 +2"}},
		{"none the other's child", map[int64]string{
			10: "08:00:00 write(3</a>, \"x\", 1) = 1 <0.000001>\n15:00:00 write(3</a>, \"x\", 1) = 1 <0.000001>\n21:00:10 write(3</a>, \"x\", 3) = 3 <0.000001>\n",
			20: "21:00:00 write(3</b>, \"x\", 2) = 2 <0.000001>\n",
			30: "01:00:00 write(3</c>, \"x\", 4) = 4 <0.000001>\n", // the next day
		}, []string{"10 write /a +1", "10 write /a +1", "20 write /b +2", "10 write /a +3", "30 write /c +4"}},
	} {
		tr, _, err := ReadTasks(taskFiles(t, c.texts), iotrace.Options{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, show(tr)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	// Texts that are read each by itself fit together too.
	a, _, err := Read(strings.NewReader("12:00:00 sync() = 0 <0.1>\n"), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := Read(strings.NewReader("12:00:10 sync() = 0 <0.1>\n"), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	both, err := iotrace.Merge(b, a)
	if err != nil {
		t.Fatal(err)
	}
	if apart := both.Events[1].Start - both.Events[0].Start; apart != 10e9 {
		t.Error(apart)
	}
}
