package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestImports keeps the imports of the house running one way:
//
//	cmd → coordinator → image → {zones, iotrace};  predict → {dataset, zones}
//
// internal/lazy, internal/vfs, the file system, and internal/durable are below all; zones, iotrace and dataset are leaves, but for dataset naming element types
// of zones; the protocol imports but the recovery lines, which are as pure as it,
// predict at most interval.
func TestImports(t *testing.T) {
	allowed := map[string][]string{
		"cmd/ckpt":             {"internal/wording", "cmd/ckpt/internal", "internal/family", "internal/figure", "internal/objectfs", "internal/vfs", "internal/durable", "coordinator", "image", "zones", "iotrace", "dataset", "predict", "interval"},
		"coordinator/protocol": {"coordinator/protocol", "coordinator/recovery"},
		"coordinator/recovery": {"internal/figure"},
		"coordinator/msglog":   {"coordinator/protocol/channel", "internal/durable", "internal/vfs"},
		"coordinator/mpi":      {"zones", "internal/vfs", "coordinator/protocol/channel", "coordinator/recovery", "coordinator/msglog"},
		"coordinator/app":      {"dataset", "zones", "coordinator/mpi"},
		"coordinator":          {"internal/wording", "internal/family", "internal/vfs", "internal/durable", "coordinator", "image", "zones", "iotrace", "dataset"},
		"coordinator/rank": {"internal/family", "internal/vfs", "internal/durable", "coordinator/job", "coordinator/wire", "coordinator/turns", "coordinator/launch", "coordinator/app", "coordinator/mpi",
			"coordinator/msglog", "coordinator/process", "coordinator/protocol", "image", "zones"},
		"coordinator/process": {"zones"},
		"predict/life":        {"interval", "image/nodes", "coordinator/protocol", "coordinator/recovery"}, // the protocol and recovery lines in tests only
		"coordinator/launch":  {"internal/family", "internal/wording", "internal/vfs", "internal/durable", "image/nodes", "coordinator/job", "coordinator/mpi", "coordinator/wire", "image"},
		"coordinator/wire": {"internal/durable", "internal/family", "internal/vfs", "coordinator/job", "coordinator/mpi", "coordinator/protocol",
			"image", "zones"},
		"coordinator/turns": {"internal/wording", "internal/vfs", "internal/durable", "coordinator/job", "coordinator/mpi", "coordinator/wire", "image"},
		"coordinator/job": {"internal/wording", "internal/vfs", "internal/durable", "coordinator/mpi", "coordinator/msglog", "coordinator/protocol", "coordinator/recovery",
			"image", "zones", "iotrace", "dataset"},
		"internal/durable":  {"internal/vfs"},
		"internal/vfs":      {"internal/vfs"},
		"internal/objectfs": {"internal/objectfs", "internal/vfs", "internal/durable"},
		"internal/sealedfs": {"internal/vfs", "internal/durable", "internal/objectfs"}, // the objects in tests only
		"image":             {"internal/wording", "internal/objectfs", "internal/sealedfs", "internal/vfs", "internal/durable", "image", "zones", "iotrace"},
		"image/iosched":     {"image/iosched"},
		"image/pfs":         {"internal/wording", "image/iosched", "image/plan"},
		"predict":           {"interval", "predict", "dataset", "zones"},
		"interval":          {"interval"},
		"dataset":           {"internal/wording", "dataset", "zones"},
		"zones":             {"internal/wording", "zones"},
		"iotrace":           {"internal/wording", "internal/vfs", "iotrace"},
		"iotrace/report":    {"iotrace", "internal/figure"},
		"internal/figure":   {},
		"internal/family":   {},
		"internal/lazy":     {},
		"internal/wording":  {},

		"internal/vfs/slowfs": {"internal/vfs", "internal/wording"},
	}
	out, err := exec.Command("go", "list", "-buildvcs=false", "-f", `{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "ckpt/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], "ckpt/")
		rule, ok := longestPrefix(allowed, pkg)
		if !ok && slices.Contains(forTests, pkg) {
			continue
		}
		if !ok {
			t.Errorf("package %s has no place in the house", pkg)
			continue
		}
		seen++
		for _, imp := range fields[1:] {
			imp, ours := strings.CutPrefix(imp, "ckpt/")
			if !ours || imp == pkg || imp == "internal/lazy" || slices.Contains(forTests, imp) {
				continue
			}
			if !anyPrefix(allowed[rule], imp) {
				t.Errorf("%s imports %s", pkg, imp)
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d packages were seen", seen)
	}
}

// forTests are packages that only tests import, and tests of all packages may.
var forTests = []string{"internal/testkit", "cmd/ckpt/internal/scripttest"}

// TestHouseTable holds the table of docs/ARCHITECTURE.md to the imports: each package has
// a row or is below one that has, and imports no package of a row above its own.
func TestHouseTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]int)
	name := regexp.MustCompile("`([^`]+)`")
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "## ") {
			break
		}
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		n++
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			if fi, err := os.Stat("../../" + m[1]); err != nil || !fi.IsDir() {
				t.Errorf("the table has package %s: %v", m[1], err)
			}
			rows[m[1]] = n
		}
	}
	out, err := exec.Command("go", "list", "-buildvcs=false", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "ckpt/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	row := func(pkg string) int {
		rule, _ := longestPrefix(rows, pkg)
		return rows[rule]
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], "ckpt/")
		if slices.Contains(forTests, pkg) {
			continue
		}
		if row(pkg) == 0 {
			t.Errorf("package %s has no row", pkg)
		}
		for _, imp := range fields[1:] {
			if imp, ours := strings.CutPrefix(imp, "ckpt/"); ours && !slices.Contains(forTests, imp) && row(imp) < row(pkg) {
				t.Errorf("%s imports %s, whose row is above", pkg, imp)
			}
		}
	}
}

func longestPrefix[V any](rules map[string]V, pkg string) (best string, ok bool) {
	for rule := range rules {
		if within(rule, pkg) && len(rule) >= len(best) {
			best, ok = rule, true
		}
	}
	return best, ok
}

func anyPrefix(list []string, pkg string) bool {
	for _, p := range list {
		if within(p, pkg) {
			return true
		}
	}
	return false
}

func within(dir, pkg string) bool { return pkg == dir || strings.HasPrefix(pkg, dir+"/") }

// TestFilesOfCoordinator keeps the files of package coordinator on the file
// system of the store, where tests can make them fail. The exceptions are no
// files of a store.
func TestFilesOfCoordinator(t *testing.T) {
	exceptions := map[string]string{
		"coordinator/launch/memory.go":   "/proc/meminfo",
		"coordinator/dmtcp/directory.go": "files that DMTCP writes",
		"coordinator/mpi/memory.go":      "the program of the ranks, mapped",
		"coordinator/mpi/segment.go":     "shared memory in /dev/shm",
		"coordinator/launch/socket.go":   "the directory of a run, outside the store",
		"coordinator/launch/input.go":    "the standard input of a program",
		"coordinator/launch/launcher.go": "the file that processes run",
		"coordinator/launch/external.go": "/proc/PID/environ",
		"coordinator/wire/client.go":     "/proc/sys/kernel/random/boot_id",
		"coordinator/launch/rundir.go":   "the directory of sockets, outside the store",
	}
	calls := regexp.MustCompile(`\bos\.(Open|Create|Rename|Remove|WriteFile|ReadFile|Mkdir)`)
	seen, used := 0, make(map[string]bool)
	err := filepath.WalkDir("../../coordinator", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		b, err := os.ReadFile(name)
		found := len(calls.FindAll(b, -1))
		file := strings.TrimPrefix(filepath.ToSlash(name), "../../")
		if strings.HasPrefix(file, "zones/dmtcptest/fake") {
			return err // for tests: it acts for another program
		}
		if found > 0 && exceptions[file] == "" {
			t.Errorf("%s calls os for files: use the FS of the job", file)
		}
		seen, used[file] = seen+found, found > 0
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for file, of := range exceptions {
		if !used[file] {
			t.Errorf("%s needs no exception for %s", file, of)
		}
	}
	if seen > 18 {
		t.Errorf("%d calls of os, want at most 18", seen)
	}
}
