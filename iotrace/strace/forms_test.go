package strace

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// written returns the bytes written to each file, by its last name, as "file bytes".
func written(t *testing.T, text string) (files []string, tr *iotrace.Trace) {
	t.Helper()
	tr, _, err := Read(strings.NewReader(text), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tr.FollowRenames()
	n := make(map[string]int64)
	for _, e := range tr.Events {
		if e.Op == iotrace.Write {
			n[tr.Files[e.File]] += e.Bytes
		}
	}
	for f, b := range n {
		files = append(files, fmt.Sprint(f, " ", b))
	}
	slices.Sort(files)
	return files, tr
}

// TestForms reads all forms of lines that options of strace make.
func TestForms(t *testing.T) {
	for _, c := range []struct{ what, text, want string }{
		{"-Y with a blank", "4712<GC Thread#0> 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>", "/a 5"},
		{"-Y with brackets", "[pid  4712<[k w]:0 \\74x\\76>] 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>", "/a 5"},
		{"--decode-pids", "4712<a b> /* 7 in strace's PID NS */ 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>", "/a 5"},
		{"-k", "1 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>\n > /lib/libc.so.6(write+0x45) [0x10]\n > unexpected_backtracing_error [0x0]", "/a 5"},
		{"-k -i -n", "1 1700000000.1 [   1] [00007fe68f00838f] write(3</a>, \"x\", 5) = 5 <0.1>\n > /lib/libc.so.6(write+0x45) [0x10]", "/a 5"},
		{"-r -i", "1 1700000000.1 (+     0.000012) [00007fe68f00838f] write(3</a>, \"x\", 5) = 5 <0.1>", "/a 5"},
		{"-r -n", "1 1700000000.1 (+     0.000012) [   1] write(3</a>, \"x\", 5) = 5 <0.1>", "/a 5"},
		{"-e write", "1 1700000000.1 writev(3</a>, [{\"ab\", 2}, {\"c\", 1}], 2) = 3 <0.1>\n * 2 bytes in buffer 0\n | 00000  61 62  ab |", "/a 3"},
		{"-C", "1 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>\n% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- --------- ----------------\n 70.00    0.000500         500         1           write\n------ ----------- ----------- --------- --------- ----------------\n100.00    0.000610         203         3           total", "/a 5"},
		{"-C -U", "1 1700000000.1 write(3</a>, \"x\", 5) = 5 <0.1>\nsyscall          calls\n---------------- ---------\nwrite 1\ntotal 1", "/a 5"},
		{"--secontext", `1 [u:r:t:s0] 1700000000.1 openat(AT_FDCWD, "/a" [u:object_r:tmp_t:s0!!other:s0], O_WRONLY|O_CREAT, 0666) = 3 [u:o:t:s0] <0.1>` + "\n" + `1 [u:r:t:s0] 1700000000.2 write(3 [u:o:t:s0], "x", 5) = 5 <0.1>`, "/a 5"},
		{"--secontext -y", `1700000000.2 write(3</a> [u:o:t:s0], "x", 5) = 5 <0.1>`, "/a 5"},
		{"-X raw", `1 1700000000.1 openat(-100, "/a", 0x441, 0666) = 3 <0.1>` + "\n" + `1 1700000000.2 fcntl(3, 0, 0) = 4` + "\n" + `1 1700000000.3 write(4, "x", 5) = 5 <0.1>`, "/a 5"},
		{"-X verbose", `1 1700000000.1 openat(-100 /* AT_FDCWD */</d>, "a", 0x42 /* O_RDWR|O_CREAT */, 0666) = 3 <0.1>` + "\n" + `1 1700000000.2 lseek(3, 0, 2 /* SEEK_END */) = 9` + "\n" + `1 1700000000.3 write(3, "x", 5) = 5 <0.1>`, "/d/a 5"},
		{"-e raw of a write", `1 1700000000.1 openat(AT_FDCWD, "/a", O_WRONLY) = 3` + "\n" + `1 1700000000.2 pwrite64(0x3, 0x7f00, 0x10, 0x64) = 0x10 <0.1>`, "/a 16"},
		{"two threads with names of -Y", "4711<python3> 1700000000.1 openat(AT_FDCWD</s>, \"a\", O_WRONLY|O_CREAT, 0666) = 3</s/a> <0.1>\n4712<GC Thread#0> 1700000000.2 write(3</s/a>, \"x\"..., 4096) = 4096 <0.1>\n4713<tmux: server> 1700000000.3 write(3</s/a>, \"x\"..., 8192) = 8192 <0.1>", "/s/a 12288"},
		{"-k of each call", "1 1700000000.1 openat(AT_FDCWD, \"/a\", O_WRONLY) = 3</a> <0.1>\n > /lib/libc.so.6(open64+0x45) [0x10e5a5]\n > /home/u/a.out(main+0x2f) [0x11ed]\n1 1700000000.2 write(3</a>, \"x\"..., 4096) = 4096 <0.1>\n > /lib/libc.so.6(write+0x45) [0x10e5a5]", "/a 4096"},
		{"-f without clone, a file that another replaced", `10 1700000000.1 openat(AT_FDCWD</s>, "f", O_RDWR|O_CREAT, 0644) = 6</s/f> <0.01>
10 1700000000.2 openat(AT_FDCWD</s>, "d", O_RDWR|O_CREAT, 0644) = 7</s/d> <0.01>
10 1700000000.3 rename("/s/d", "/s/f") = 0 <0.01>
10 1700000000.4 openat(AT_FDCWD</s>, "f", O_RDWR|O_CREAT, 0644) = 8</s/f> <0.01>
10 1700000000.5 rename("/s/f", "/s/g") = 0 <0.01>
11 1700000000.6 write(6</s/f>(deleted), "x"..., 21) = 21 <0.01>
11 1700000000.7 write(6</s/f>(deleted), "x"..., 22) = 22 <0.01>
11 1700000000.8 write(8</s/g>, "x"..., 5) = 5 <0.01>`, "/s/f (deleted) 43, /s/g 5"},
		{"-ff, a thread that ended in a call", "1700000000.1 ????( <unfinished ...>\n1700000000.2 +++ exited with 0 +++", ""},
		{"-xx", `1700000000.1 write(3<\x2f\x61>, "\x78", 5) = 5 <0.1>`, "/a 5"},
	} {
		if f := iotrace.Detect([]byte(c.text)); f != iotrace.FormatStrace {
			t.Errorf("%s: seen as %v", c.what, f)
		}
		files, _ := written(t, c.text+"\n")
		if got := strings.Join(files, ", "); got != c.want {
			t.Errorf("%s: %s, not %s", c.what, got, c.want)
		}
	}
}

// TestRaw warns of names that strace did not print.
func TestRaw(t *testing.T) {
	for _, c := range []struct{ what, text, code string }{
		{"an open", `openat(0xffffff9c, 0x7f00, 0x42, 0x1b6) = 0x3` + "\n" + `write(0x3, 0x7f00, 0xb) = 0xb`, "raw-arguments"},
		{"a rename", `rename(0x7f00, 0x7f01) = 0`, "raw-arguments"},
		{"clone3", `clone3(0x7ffd, 0x58) = 0x7bba`, "raw-arguments"},
		{"a name that is cut", `open("/very/long/na"..., O_RDONLY) = 3`, "cut-names"},
	} {
		tr, _, err := Read(strings.NewReader(stamped(strings.Split(c.text, "\n")...)), iotrace.Options{})
		if err != nil {
			t.Fatal(c.what, err)
		}
		if !slices.ContainsFunc(tr.Warnings, func(w iotrace.Warning) bool { return w.Code == c.code }) {
			t.Errorf("%s: %v", c.what, tr.Warnings)
		}
		for _, e := range tr.Events {
			if e.Op == iotrace.Write {
				t.Errorf("%s: a write to %d", c.what, e.File)
			}
		}
	}
}

// TestNotedNames takes the file of each call from -y where opens are filtered out.
func TestNotedNames(t *testing.T) {
	write := func(note string, n int) string { return fmt.Sprintf(`write(3<%s, "x"..., %d) = %d`, note, n, n) }
	for _, c := range []struct {
		what  string
		lines []string
		want  []string
	}{
		{"unlinks", []string{write("/s/tmp1>", 4096), `unlink("/s/tmp1") = 0`, write("/s/tmp2>", 8192), `unlink("/s/tmp2") = 0`, write("/s/out.h5>", 1<<20), write("/s/out.h5>", 1<<20)},
			[]string{"/s/out.h5 2097152", "/s/tmp1 4096", "/s/tmp2 8192"}},
		{"a file that is written while it is deleted", []string{write("/s/a>", 1), `unlink("/s/a") = 0`, write("/s/a>(deleted)", 2), write("/s/b>", 4)}, []string{"/s/a 3", "/s/b 4"}},
		{"the same of an old strace", []string{write("/s/a>", 1), `unlink("/s/a") = 0`, write("/s/a (deleted)>", 2), write("/s/b>", 4)}, []string{"/s/a 3", "/s/b 4"}},
		{"a file of that name", []string{write("/s/a (deleted)>", 2)}, []string{"/s/a (deleted) 2"}},
		{"checkpoints that are renamed", []string{write("/s/tmp>", 1), `rename("/s/tmp", "/s/1") = 0`, write("/s/tmp>", 2), `rename("/s/tmp", "/s/2") = 0`, write("/s/tmp>", 4), `rename("/s/tmp", "/s/3") = 0`},
			[]string{"/s/1 1", "/s/2 2", "/s/3 4"}},
		{"the same with relative names", []string{write("/s/tmp>", 1), `rename("tmp", "1") = 0`, write("/s/tmp>", 2), `rename("tmp", "2") = 0`}, []string{"/s/1 1", "/s/2 2"}},
		{"written on after a rename", []string{write("/s/tmp>", 1), `rename("/s/tmp", "/s/1") = 0`, write("/s/1>", 2), write("/s/tmp>", 4)}, []string{"/s/1 3", "/s/tmp 4"}},
		{"a file that replaces another", []string{write("/s/old>", 1), `rename("/s/new", "/s/old") = 0`, write("/s/old>(deleted)", 2), write("/s/old>", 4)}, []string{"/s/old (deleted) 2", "/s/old 5"}},
		{"NFS", []string{write("/s/a>", 1), `unlink("/s/a") = 0`, write("/s/.nfs0001>", 2)}, []string{"/s/a 3"}},
		{"another link", []string{`link("/s/a", "/s/b") = 0`, write("/s/a>", 1), `unlink("/s/a") = 0`, write("/s/b>", 2)}, []string{"/s/a 3"}},
	} {
		if got, _ := written(t, stamped(c.lines...)); !cmp.Equal(c.want, got) {
			t.Errorf("%s: %q, not %q", c.what, got, c.want)
		}
	}
}

// TestNoDurations leaves times unknown that strace did not print.
func TestNoDurations(t *testing.T) {
	whole := `10 1700000000.1 write(3</a>, "x", 5) = 5`
	split := `10 1700000000.2 write(3</a>, "x", 5 <unfinished ...>` + "\n11 1700000000.3 close(9) = -1 EBADF\n10 1700000000.4 <... write resumed>) = 5"
	for _, c := range []struct {
		what, text  string
		unknown     int64
		nanoseconds int64 // of all writes
	}{
		{"without -T", whole + "\n" + split, 1, 0},
		{"only split calls", split, 0, 200e6},
		{"a line of another text", whole + " <0.05>\n" + strings.Replace(whole, ".1", ".15", 1), 1, 50e6},
		{"with -T", whole + " <0.05>\n" + split + " <0.2>", 0, 250e6},
	} {
		_, tr := written(t, c.text+"\n")
		var got, unknown int64
		for _, e := range tr.Events {
			got += e.End - e.Start
		}
		for _, w := range tr.Warnings {
			if w.Code == iotrace.WarnNoDurations {
				unknown = w.Count
			}
		}
		if unknown != c.unknown || got != c.nanoseconds {
			t.Errorf("%s: %d unknown, %d ns", c.what, unknown, got)
		}
	}
}
