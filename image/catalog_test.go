package image

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// tally counts the operations on a file system since from, by name. Where they
// happened is no matter.
func tally(f *memfs.FaultFS, from int) map[string]int {
	count := make(map[string]int)
	for _, op := range f.Ops()[from:] {
		count[op.Name]++
	}
	return count
}

// costs returns the operations that each step takes on a job that keeps so many
// checkpoints. As in our own jobs a checkpoint refers to few earlier ones.
func costs(t *testing.T, kept int) map[string]map[string]int {
	t.Helper()
	k := memJob(t)
	for n := 1; n <= kept; n++ {
		if n%5 == 1 {
			k.base, k.library = nil, nil // complete by itself
		}
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]map[string]int)
	disk := memfs.WithFault(k.fs, memfs.Fault{})
	step := func(name string, do func() error) {
		t.Helper()
		from := len(disk.Ops())
		if err := do(); err != nil {
			t.Fatalf("%s with %d checkpoints: %v", name, kept, err)
		}
		all[name] = tally(disk, from)
	}
	var now *taker
	step("open", func() (err error) { now, err = reopen(disk, "/store"); return err })
	step("sweep", func() error { _, err := now.job.Sweep(); return err })
	step("commit", func() error { _, err := now.take(kept + 1); return err })
	step("sweep after it", func() error { _, err := now.job.Sweep(); return err })
	step("prune of one", func() error { _, _, err := now.job.Prune(kept); return err })
	step("damaged", func() error { _, err := now.job.Damaged(kept); return err })
	step("drop of one", func() error { return now.job.Drop(kept + 1) })
	step("unlock", now.job.Unlock)
	step("prune of one by another", func() error {
		now, err := reopen(disk, "/store")
		if err == nil {
			_, _, err = now.job.Prune(kept - 2)
		}
		return errors.Join(err, now.job.Unlock())
	})
	reader := func(do func(j *Job) error) func() error {
		return func() error {
			s, err := OpenStore(disk, "/store")
			if err != nil {
				return err
			}
			j, err := s.Job(testJob)
			if err != nil {
				return err
			}
			return do(j)
		}
	}
	step("checkpoints", reader(func(j *Job) error { _, err := j.Checkpoints(); return err }))
	step("latest", reader(func(j *Job) error { _, err := j.Latest(); return err }))
	step("iterations", reader(func(j *Job) error { _, err := j.Iterations(); return err }))
	step("next", reader(func(j *Job) error { _, err := j.Next(); return err }))
	step("stored", reader(func(j *Job) error { _, err := j.Stored(); return err }))
	step("summaries", reader(func(j *Job) error {
		list, err := j.Summaries(0)
		if err == nil && len(list) != kept-2 {
			err = fmt.Errorf("%d rows, want %d", len(list), kept-2)
		}
		return err
	}))
	// A list has a row per checkpoint, and looks at each manifest without opening it.
	all["summaries"]["stat"] -= kept - 2
	return all
}

// TestCostOfKept counts what an operation on one checkpoint asks of the file system,
// with few checkpoints kept and with many.
func TestCostOfKept(t *testing.T) {
	t.Parallel()
	few, many := costs(t, 15), costs(t, 600)
	for _, name := range slices.Sorted(maps.Keys(few)) {
		if diff := cmp.Diff(few[name], many[name]); diff != "" {
			t.Errorf("%s: operations with 15 checkpoints (-) and with 600 (+):\n%s", name, diff)
		}
	}
}

// catalogJob is a job of five checkpoints with a catalog, and the catalog.
func catalogJob(t *testing.T) (*taker, []byte) {
	t.Helper()
	k := memJob(t)
	for n := 1; n <= 5; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.job.Drop(2); err != nil {
		t.Fatal(err)
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	b, err := durable.ReadFile(k.fs, k.job.catalogPath(), maxCatalog)
	if err != nil {
		t.Fatal(err)
	}
	return k, b
}

// TestCatalogDamage flips each bit of a catalog, cuts it at each byte, and repeats
// and swaps its lines. It then says the same as the manifests, or nothing.
func TestCatalogDamage(t *testing.T) {
	t.Parallel()
	_, good := catalogJob(t)
	want, _, err := parseCatalog(good)
	if err != nil || len(want) != 4 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	for bit := range len(good) * 8 {
		bad := bytes.Clone(good)
		bad[bit/8] ^= 1 << (bit % 8)
		if got, _, err := parseCatalog(bad); err == nil {
			t.Errorf("bit %d: %d records", bit, len(got))
		}
	}
	for n := range good {
		got, _, _ := parseCatalog(good[:n])
		for number, r := range got {
			if number != 2 && r.line() != want[number].line() {
				t.Errorf("cut at %d: checkpoint %d is another one", n, number)
			}
		}
	}
	lines := bytes.SplitAfter(good, []byte("\n"))
	for i := 1; i < len(lines)-1; i++ {
		twice := slices.Concat(slices.Concat(lines[:i+1]...), lines[i], slices.Concat(lines[i+1:]...))
		if got, _, err := parseCatalog(twice); err == nil {
			t.Errorf("line %d twice: %d records", i, len(got))
		}
	}
}

// TestCatalogIsNotBelieved has a catalog that is damaged, cut short, empty, or says
// other things than the store. The manifests decide which checkpoints exist.
func TestCatalogIsNotBelieved(t *testing.T) {
	t.Parallel()
	_, good := catalogJob(t)
	for name, change := range map[string]func(t *testing.T, k *taker){
		"missing": func(t *testing.T, k *taker) {
			if err := k.fs.Remove(k.job.catalogPath()); err != nil {
				t.Fatal(err)
			}
		},
		"empty":       func(t *testing.T, k *taker) { replace(t, k, k.job.catalogPath(), nil) },
		"rubbish":     func(t *testing.T, k *taker) { replace(t, k, k.job.catalogPath(), []byte("rubbish\n")) },
		"cut in line": func(t *testing.T, k *taker) { replace(t, k, k.job.catalogPath(), good[:len(good)/2]) },
		"one line":    func(t *testing.T, k *taker) { replace(t, k, k.job.catalogPath(), []byte(catalogMagic)) },
		"flipped": func(t *testing.T, k *taker) {
			bad := bytes.Clone(good)
			bad[len(bad)/2] ^= 1
			replace(t, k, k.job.catalogPath(), bad)
		},
		"of more": func(t *testing.T, k *taker) {
			r := &record{number: 9, summary: "{}", iteration: 1}
			replace(t, k, k.job.catalogPath(), append(bytes.Clone(good), r.line()...))
		},
		"of less": func(t *testing.T, k *taker) {
			replace(t, k, k.job.catalogPath(), append(bytes.Clone(good), dropLine(5)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := catalogJob(t)
			change(t, k)
			if all, err := k.job.Checkpoints(); err != nil || !slices.Equal(all, []int{1, 3, 4, 5}) {
				t.Errorf("checkpoints %v, %v", all, err)
			}
			list, err := k.job.Summaries(0)
			if err != nil || len(list) != 4 {
				t.Errorf("%d rows, %v", len(list), err)
			}
			for _, s := range list {
				if m, err := k.job.Manifest(s.Number); err != nil || !cmp.Equal(s, m.Summary()) {
					t.Errorf("row %d: %v, %s", s.Number, err, cmp.Diff(s, m.Summary()))
				}
			}
			// A writer repairs it, and removes nothing that is needed.
			again, err := reopen(k.fs, "/store")
			if err != nil {
				t.Fatal(err)
			}
			if removed, _, err := again.job.Prune(2); err != nil || !slices.Equal(removed, []int{1, 3}) {
				t.Errorf("removed %v, %v", removed, err)
			}
			for _, n := range []int{4, 5} {
				if err := checkCheckpoint(again.job, n); err != nil {
					t.Error(err)
				}
			}
			if err := checkNoDebris(again.job); err != nil {
				t.Error(err)
			}
			b, err := durable.ReadFile(k.fs, k.job.catalogPath(), maxCatalog)
			if records, _, perr := parseCatalog(b); err != nil || perr != nil || len(records) != 2 {
				t.Errorf("the catalog was not made anew: %d records, %v, %v", len(records), err, perr)
			}
		})
	}
}

// TestListNoticesChange damages a manifest that the catalog tells of.
func TestListNoticesChange(t *testing.T) {
	t.Parallel()
	k := newJob(t, vfs.OS{}, t.TempDir())
	for n := 1; n <= 3; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	b, err := durable.ReadFile(k.fs, k.job.manifestPath(2), maxManifest)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	replace(t, k, k.job.manifestPath(2), b)
	var damage *durable.DamageError
	list, err := k.job.Summaries(0)
	if len(list) != 2 || !errors.As(err, &damage) || damage.File != k.job.manifestPath(2) {
		t.Errorf("%d rows, %v", len(list), err)
	}
}

// TestCatalogOfOthers has a ckpt that knows no catalog take checkpoints in between:
// it sweeps the catalog away, for its name ends in .tmp.
func TestCatalogOfOthers(t *testing.T) {
	t.Parallel()
	if filepath.Ext(catalogName) != durable.TempSuffix {
		t.Errorf("a ckpt that does not know %s leaves it alone, and it becomes wrong", catalogName)
	}
}

// TestCatalogWithoutMemory: lines of versions that did not know how much memory a
// checkpoint occupied do not count.
func TestCatalogWithoutMemory(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	if _, err := k.take(1); err != nil {
		t.Fatal(err)
	}
	b, err := durable.ReadFile(k.fs, k.job.catalogPath(), maxCatalog)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSuffix(strings.TrimPrefix(string(b), catalogMagic), "\n")
	old := regexp.MustCompile(`"memory":{[^}]*},`).ReplaceAllString(line[:strings.LastIndexByte(line, ' ')], "")
	if len(old) >= len(line)-10 {
		t.Fatalf("no memory in %s", line)
	}
	replace(t, k, k.job.catalogPath(), []byte(catalogMagic+sealLine(old)))
	list, err := k.job.Summaries(0)
	if err != nil || len(list) != 1 || list[0].Memory == nil || list[0].Memory.Total() == 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestNumberAgain removes a checkpoint by hand and takes another one of its number:
// the line of the first must not pass for that of the second.
func TestNumberAgain(t *testing.T) {
	t.Parallel()
	k := memJob(t)
	for n := 1; n <= 3; n++ {
		if _, err := k.take(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.job.Unlock(); err != nil {
		t.Fatal(err)
	}
	entries, err := k.fs.ReadDir(k.job.NumberDir(3))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := k.fs.Remove(filepath.Join(k.job.NumberDir(3), e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.fs.Remove(k.job.NumberDir(3)); err != nil {
		t.Fatal(err)
	}
	again, err := reopen(k.fs, "/store")
	if err != nil {
		t.Fatal(err)
	}
	// The line goes before the number is given again, durably.
	if _, err := again.job.Begin(3); err != nil {
		t.Fatal(err)
	}
	lost := k.fs.(*memfs.FS).CrashClone(memfs.Crash{Mode: memfs.Lost})
	after, err := reopen(lost, "/store")
	if err != nil {
		t.Fatal(err)
	}
	if c := after.job.readCatalog(); c.records[3] != nil {
		t.Error("the catalog still has the checkpoint that was removed by hand")
	}
}
