package strace

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

var update = flag.Bool("update", false, "record the runs anew; needs strace")

// followed are the calls that strace is asked for, so that recordings stay
// short: those that there are handlers for but for mmap and stat of the loader,
// and the forks.
const followed = "trace=open,openat,creat,close,close_range,read,write,readv,writev,pread64,pwrite64,preadv,pwritev,preadv2,pwritev2," +
	"lseek,dup,dup2,dup3,fcntl,fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,ftruncate,fallocate,mmap," +
	"sendfile,copy_file_range,splice,pipe2,chdir,fchdir,clone,clone3,fork,vfork,execve,exit_group"

// A variant is a way to call strace.
type variant struct {
	name string
	args []string
	pids bool // on stderr, as without -o
}

var variants = []variant{
	{"ttt", []string{"-f", "-ttt", "-T"}, false},
	{"tt-y", []string{"-f", "-tt", "-T", "-y"}, false},
	{"ttt-yy", []string{"-f", "-ttt", "-yy", "-T", "-s", "5"}, false},
	{"stderr", []string{"-f", "-tt", "-T"}, true},
	{"no-T", []string{"-f", "-ttt", "-x"}, false},
}

// trace runs a program under strace and returns what both have to say.
func trace(t *testing.T, v variant, name, dir string) (text, said []byte) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "strace")
	args := append(slices.Clone(v.args), "-e", followed, "-e", "signal=none")
	if !v.pids {
		args = append(args, "-o", out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("strace", append(args, self)...)
	cmd.Env = append(os.Environ(), programEnv+"="+name, dirEnv+"="+dir, "GOMAXPROCS=4")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%.2000s", name, err, stderr.String())
	}
	if v.pids {
		return stderr.Bytes(), stdout.Bytes()
	}
	text, err = os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text, stdout.Bytes()
}

// shell traces a script.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command("strace", "-f", "-ttt", "-T", "-o", out, "sh", "-c", script)
	cmd.Env = append(os.Environ(), "D="+dir)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// needStrace skips the test where strace is missing or may not trace.
func needStrace(t *testing.T) {
	t.Helper()
	if err := exec.Command("strace", "-o", os.DevNull, "true").Run(); err != nil {
		testkit.Skip(t, fmt.Sprintf("strace that may trace: %v", err))
	}
}

// TestLive traces programs and compares, file by file, what the trace says with
// what they say they did.
func TestLive(t *testing.T) {
	needStrace(t)
	for _, name := range []string{"plain", "append", "threads", "children", "vectors"} {
		for _, v := range variants {
			if testkit.Enabled && v.name != "ttt" {
				continue // the runtime of the race detector is slow to start
			}
			t.Run(name+"/"+v.name, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				text, said := trace(t, v, name, dir)
				contents := make(map[string][]byte)
				want := statement(t, said)
				for file := range want {
					b, err := os.ReadFile(filepath.Join(dir, file))
					if err != nil && !errors.Is(err, os.ErrNotExist) {
						t.Fatal(err)
					}
					contents[file] = b
				}
				compare(t, text, want, dir, contents)
				if t.Failed() && testing.Verbose() {
					t.Logf("%s", text)
				}
			})
		}
	}
}

// recordings are runs that are kept.
var recordings = []struct {
	program string
	variant int
}{{"plain", 0}, {"append", 1}, {"threads", 3}, {"threads", 4}, {"children", 0}, {"children", 2}, {"vectors", 1}}

// A recording is what there is to know of a run besides the text.
type recording struct {
	Dir      string
	Said     map[string]tally
	Contents map[string]string
}

// TestRecorded does as TestLive with runs of the past.
func TestRecorded(t *testing.T) {
	for _, r := range recordings {
		v := variants[r.variant]
		name := filepath.Join("testdata", r.program+"."+v.name)
		t.Run(filepath.Base(name), func(t *testing.T) {
			if *update {
				needStrace(t)
				record(t, v, r.program, name)
			}
			text, err := os.ReadFile(name + ".strace")
			if err != nil {
				t.Fatal(err)
			}
			about, err := os.ReadFile(name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var rec recording
			if err := json.Unmarshal(about, &rec); err != nil {
				t.Fatal(err)
			}
			contents := make(map[string][]byte)
			for name, s := range rec.Contents {
				contents[name] = expand(s)
			}
			compare(t, text, rec.Said, rec.Dir, contents)
		})
	}
}

func record(t *testing.T, v variant, program, name string) {
	dir := filepath.Join(os.TempDir(), "ckpt-strace")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	text, said := trace(t, v, program, dir)
	rec := recording{Dir: dir, Said: statement(t, said), Contents: make(map[string]string)}
	for file := range rec.Said {
		if b, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
			rec.Contents[file] = runs(b)
		}
	}
	b, err := json.MarshalIndent(rec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".json", append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".strace", text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// runs shortens contents, which are runs of letters, to "97*100 98*200".
func runs(b []byte) string {
	var s []string
	for len(b) > 0 {
		n := 1
		for n < len(b) && b[n] == b[0] {
			n++
		}
		s = append(s, fmt.Sprintf("%d*%d", b[0], n))
		b = b[n:]
	}
	return strings.Join(s, " ")
}

func expand(s string) (b []byte) {
	for _, w := range strings.Fields(s) {
		var letter, n int
		if _, err := fmt.Sscanf(w, "%d*%d", &letter, &n); err != nil {
			panic(err)
		}
		b = append(b, run(byte(letter), n)...)
	}
	return b
}

// statement adds up what the processes of a program said.
func statement(t *testing.T, said []byte) map[string]tally {
	t.Helper()
	sum := make(map[string]tally)
	for l := range bytes.Lines(said) {
		var one map[string]tally
		if err := json.Unmarshal(l, &one); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		for name, x := range one {
			s := sum[name]
			s.Reads += x.Reads
			s.Writes += x.Writes
			s.ReadBytes += x.ReadBytes
			s.Bytes += x.Bytes
			s.Opens += x.Opens
			s.Closes += x.Closes
			s.Syncs += x.Syncs
			s.Seeks += x.Seeks
			s.Renames += x.Renames
			s.Unlinks += x.Unlinks
			s.Truncates += x.Truncates
			s.Mmaps += x.Mmaps
			s.Checked = s.Checked || x.Checked
			sum[name] = s
		}
	}
	return sum
}

// compare holds a trace to the statement and to the contents of the files.
func compare(t *testing.T, text []byte, want map[string]tally, dir string, contents map[string][]byte) {
	t.Helper()
	tr, rep, err := Read(bytes.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		// A run is not to be had again, so it has to be shown.
		t.Fatalf("%v\n%s", err, text)
	}
	if err := iotracetest.Valid(tr); err != nil {
		t.Fatal(err)
	}
	if rep.Unknown > 0 || rep.Cut != nil {
		t.Errorf("report %+v", rep)
	}
	got := make(map[string]tally)
	for _, e := range tr.Events {
		if e.File == iotrace.None {
			continue
		}
		name, ok := strings.CutPrefix(tr.Files[e.File], dir+"/")
		if !ok {
			continue
		}
		g := got[name]
		g.Checked = want[name].Checked
		switch e.Op {
		case iotrace.Read:
			g.Reads++
			g.ReadBytes += e.Bytes
		case iotrace.Write:
			g.Writes++
			g.Bytes += e.Bytes
			if b := contents[name]; g.Checked {
				if e.Offset < 0 || e.Offset+e.Bytes > int64(len(b)) {
					t.Errorf("%s: write of %d bytes at %d; the file has %d", name, e.Bytes, e.Offset, len(b))
				} else if part := b[e.Offset : e.Offset+e.Bytes]; len(part) > 0 && !bytes.Equal(part, run(part[0], len(part))) {
					t.Errorf("%s: what was written at %d is %s", name, e.Offset, runs(part))
				}
			}
		case iotrace.Open:
			g.Opens++
		case iotrace.Close:
			g.Closes++
		case iotrace.Sync:
			g.Syncs++
		case iotrace.Seek:
			g.Seeks++
		case iotrace.Rename:
			g.Renames++
		case iotrace.Unlink:
			g.Unlinks++
		case iotrace.Truncate:
			g.Truncates++
		case iotrace.Mmap:
			g.Mmaps++
		}
		got[name] = g
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
