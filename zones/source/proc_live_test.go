package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ckpt/internal/testkit"
	"ckpt/zones"
)

const (
	kib = 1 << 10
	mib = 1 << 20
)

// sharedObject returns a library of this machine; empty if there is none.
func sharedObject() string {
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6", "/lib/libc.so.6", "/lib/ld-musl-*.so.1"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

func find(t *testing.T, p *zones.Process, m mapping) zones.Area {
	t.Helper()
	for _, a := range p.Areas {
		if a.Start == m.Start && a.End == m.End {
			return a
		}
	}
	t.Fatalf("no area %x-%x", m.Start, m.End)
	return zones.Area{}
}

func TestReadMemory(t *testing.T) {
	object := sharedObject()
	pid, r := start(t, "memory", func(c *exec.Cmd) {
		c.Env = append(c.Env, objectVar+"="+object, "PMI_RANK=x", "OMPI_COMM_WORLD_RANK=7", "SLURM_PROCID=0")
	})
	p, err := ReadLive(t.Context(), pid, LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if p.Exe != exe || p.Name != filepath.Base(exe) || p.PID != pid || p.Rank != 7 || p.Host != host ||
		p.Format != zones.FormatProc || p.Overhead != 12*kib {
		t.Errorf("%+v", *p)
	}
	for name, want := range map[string]zones.Area{
		// A header for the area and one for the range.
		"private": {Stored: 64*mib + 8*kib, Runs: 1, Resident: 64 * mib, Dirty: 64 * mib, Occupied: 64 * mib},
		// 512 ranges of a page, 512 ranges between and after them.
		"alternate": {Stored: 2*mib + 1025*4*kib, Runs: 512, Resident: 2 * mib, Dirty: 2 * mib, Occupied: 2 * mib},
		"shared":    {Stored: 32*mib + 8*kib, Runs: 1, Resident: 32 * mib, Dirty: 32 * mib, Occupied: 32 * mib},
		"untouched": {Stored: 8 * kib},
		"reserved":  {Stored: 8 * kib},
		// DMTCP searches shared anonymous memory in steps of 1 MiB, and finds zeros.
		"pool": {Stored: 8 * kib},
	} {
		got := find(t, p, r.Areas[name])
		if got.Stored != want.Stored || got.Runs != want.Runs || got.Resident != want.Resident ||
			got.Dirty != want.Dirty || got.Occupied != want.Occupied || got.Companion {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if m, ok := r.Areas["huge"]; ok {
		a := find(t, p, m)
		// Two untouched ranges around the page, if the kernel lists ranges; else
		// the page is taken to be at the start of the area.
		if a.Occupied != 4*kib || a.Stored > 4*kib+4*4*kib || a.Stored < 4*kib+3*4*kib {
			t.Errorf("huge: %+v", a)
		}
	}
	checkObject(t, p, r, object)

	// The fields alone tell nearly the same.
	again := *p
	again.Areas = slices.Clone(p.Areas)
	DMTCP.Apply(&again)
	if n, m := again.Image(), p.Image(); n < m-m/100 || n > m+m/100 {
		t.Errorf("image of %d bytes by the fields, %d by what the process tells", n, m)
	}
}

// checkObject compares the mappings of a library with the file itself.
func checkObject(t *testing.T, p *zones.Process, r report, object string) {
	if object == "" {
		t.Log("no shared object found: its mappings are not checked")
		return
	}
	info, err := os.Stat(object)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, m := range r.Areas {
		if !strings.HasPrefix(name, "object") {
			continue
		}
		n++
		a := find(t, p, m)
		want := a.Bytes()
		if a.Prot&zones.Write == 0 {
			want = min(want, info.Size()-int64(a.Offset))
		} else if a.Occupied != 4*kib || a.Dirty != 4*kib {
			t.Errorf("%s: one page was written, occupied %d, dirty %d", name, a.Occupied, a.Dirty)
		}
		if a.Stored != want+4*kib || a.Inode == 0 || a.Shared {
			t.Errorf("%s: %+v, want %d bytes stored", name, a, want+4*kib)
		}
	}
	if n < 2 {
		t.Errorf("%d segments of %s", n, object)
	}
}

func TestPagemapByPages(t *testing.T) {
	pid, r := start(t, "memory", nil)
	pages, err := openPagemap(filepath.Join("/proc", itoa(pid)))
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	scan := func(name string, byRange bool) layout {
		t.Helper()
		m := r.Areas[name]
		tr := newTracer(m.Start, m.End)
		pages.scan = byRange
		if err := pages.each(t.Context(), m.Start, m.End, tr.add); err != nil {
			t.Fatal(err)
		}
		return tr.done()
	}
	for _, name := range []string{"private", "alternate", "untouched", "reserved"} {
		if ranges, each := scan(name, true), scan(name, false); ranges != each {
			t.Errorf("%s: %+v by ranges, %+v page by page", name, ranges, each)
		}
	}
	if m, ok := r.Areas["huge"]; ok {
		pages.scan = false
		if err := pages.each(t.Context(), m.Start, m.End, func(uint64, uint64) {}); err != errTooLarge {
			t.Errorf("1 TiB page by page: %v", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := r.Areas["private"]
	for _, pages.scan = range []bool{true, false} {
		if err := pages.each(ctx, m.Start, m.End, func(uint64, uint64) {}); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}

func TestReadMeasures(t *testing.T) {
	pid, r := start(t, "memory", nil)
	for measure, want := range map[Measure]map[string]int64{
		CRIU:     {"private": 64 * mib, "alternate": 2 * mib, "shared": 32 * mib, "reserved": 0},
		Virtual:  {"private": 64 * mib, "alternate": 4 * mib, "shared": 32 * mib, "reserved": 16 * mib},
		Resident: {"private": 64 * mib, "alternate": 2 * mib, "shared": 32 * mib, "reserved": 0},
		Dirty:    {"private": 64 * mib, "alternate": 2 * mib, "shared": 32 * mib, "reserved": 0},
	} {
		p, err := ReadLive(t.Context(), pid, LiveOptions{Measure: measure})
		if err != nil {
			t.Fatal(err)
		}
		for name, n := range want {
			if a := find(t, p, r.Areas[name]); a.Stored != n {
				t.Errorf("%s of %s: %d, want %d", measureNames[measure], name, a.Stored, n)
			}
		}
		if p.Overhead != 0 {
			t.Errorf("%v: overhead %d", measure, p.Overhead)
		}
	}
}

func TestTree(t *testing.T) {
	pid, r := start(t, "parent", nil)
	ps, failed, err := Tree(t.Context(), pid, LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, p := range ps {
		pids = append(pids, p.PID)
		if p.Group != filepath.Join("/proc", itoa(pid)) {
			t.Errorf("group %q", p.Group)
		}
	}
	want := []int{pid, r.Pids["stays"]}
	slices.Sort(want)
	if !slices.Equal(pids, want) {
		t.Errorf("processes %v, want %v", pids, want)
	}
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), itoa(r.Pids["gone"])) || !strings.Contains(failed[0].Error(), "has ended") {
		t.Errorf("the process that ended: %v", failed)
	}
	// Nothing is left of a tree whose root has ended.
	ps, failed, err = Tree(t.Context(), r.Pids["gone"], LiveOptions{})
	if err == nil || ps != nil || len(failed) != 1 {
		t.Errorf("%v %v %v", ps, failed, err)
	}
}

func TestReadOwnTree(t *testing.T) {
	// The test, its child and its grandchild; and whatever go test runs.
	child, r := start(t, "parent", nil)
	ps, _, err := Tree(t.Context(), os.Getpid(), LiveOptions{Measure: Resident})
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []int{os.Getpid(), child, r.Pids["stays"]} {
		if !slices.ContainsFunc(ps, func(p *zones.Process) bool { return p.PID == pid }) {
			t.Errorf("process %d is not in the tree", pid)
		}
	}
}

func TestReadNone(t *testing.T) {
	cmd := child("gone")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	_, err := ReadLive(t.Context(), cmd.Process.Pid, LiveOptions{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("no such process: %v", err)
	}
	_, _, err = Tree(t.Context(), cmd.Process.Pid, LiveOptions{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such tree: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadLive(ctx, os.Getpid(), LiveOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, _, err := Tree(ctx, os.Getpid(), LiveOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := ReadLive(t.Context(), 1, LiveOptions{Root: t.TempDir() + "/none"}); err == nil {
		t.Error("a root that is not there")
	}
}

func TestReadForbidden(t *testing.T) {
	if os.Geteuid() != 0 {
		if fi, err := os.Stat("/proc/1"); err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) == os.Geteuid() {
			testkit.Skip(t, "process 1 of another user") // it is ours in some containers
		}
		_, err := ReadLive(t.Context(), 1, LiveOptions{})
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "only by its owner") {
			t.Errorf("process 1: %v", err)
		}
		return
	}
	const nobody = 65534
	_, r := start(t, "reader", func(c *exec.Cmd) {
		c.Env = append(c.Env, pidVar+"="+itoa(os.Getpid()))
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	})
	if !r.Permission || !strings.Contains(r.Error, "only by its owner or root") {
		t.Errorf("as nobody: %+v", r)
	}
}

// mount makes a directory that looks like /proc with one process in it.
func mount(t *testing.T, stat, smaps string) string {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "42")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"stat": stat, "smaps": smaps, "environ": "A=1\x00PMIX_RANK=12\x00"}
	for name, text := range files {
		if text == "" && name != "smaps" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// statText is a line of /proc/PID/stat.
func statText(state, flags string) string {
	return "42 (solver) " + state + " 1 42 42 0 -1 " + flags + strings.Repeat(" 0", 43) + "\n"
}

func TestReadOddProcesses(t *testing.T) {
	const area = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \nRss: 4 kB\n"
	for _, c := range []struct {
		name, stat, smaps, want string
	}{
		{"thread of the kernel", statText("S", "2129984"), "", "is a thread of the kernel"},
		{"zombie", statText("Z", "4194304"), "", "(solver) has ended"},
		{"ended before the end of the list", statText("Z", "4194304"), area, "ended while it was read"},
		{"ended before the first area", statText("R", "4194304"), "", "ended while it was read"},
		{"malformed", statText("R", "4194304"), "rubbish", "not a line of smaps"},
	} {
		_, err := ReadLive(t.Context(), 42, LiveOptions{Root: mount(t, c.stat, c.smaps)})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Neither a pagemap nor an executable.
	p, err := ReadLive(t.Context(), 42, LiveOptions{Root: mount(t, statText("R", "4194304"), area)})
	if err != nil || p.Name != "solver" || p.Exe != "" || p.Rank != 12 || p.Areas[0].Runs != 0 || p.Areas[0].Stored != 12*kib {
		t.Errorf("%+v, %v", p, err)
	}
}

func itoa(n int) string { return strconv.Itoa(n) }
