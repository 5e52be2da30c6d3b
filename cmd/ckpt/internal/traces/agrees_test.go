package traces_test

import (
	"maps"
	"math"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/iotrace"
)

// checkpointDir is the name of the directory of a checkpoint in the store.
var checkpointDir = regexp.MustCompile(`^\d{4}$`)

// agrees checks that what strace saw of the files of checkpoints is what ckpt
// recorded of them: the same files, the same bytes, and as many writes within 1 %.
//
//	agrees STRACE-EVENTS TRACE...
func agrees(ts *testscript.TestScript, _ bool, args []string) {
	type sum struct{ writes, bytes int64 }
	sums := func(name string) map[string]sum {
		t, err := iotrace.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		all := make(map[string]sum)
		for _, e := range t.Events {
			// A rank names itself in /proc/PID/comm, and PID may have four digits.
			if e.Op != iotrace.Write || e.File < 0 || strings.HasPrefix(t.Files[e.File], "/proc/") || !checkpointDir.MatchString(path.Base(path.Dir(t.Files[e.File]))) {
				continue
			}
			key := path.Join(path.Base(path.Dir(t.Files[e.File])), path.Base(t.Files[e.File]))
			s := all[key]
			all[key] = sum{s.writes + 1, s.bytes + e.Bytes}
		}
		return all
	}
	seen := sums(args[0])
	files, unrecorded := 0, maps.Clone(seen)
	for _, pattern := range args[1:] {
		names, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		for _, name := range names {
			for file, own := range sums(name) {
				files++
				delete(unrecorded, file)
				other := seen[file]
				if other.bytes != own.bytes || math.Abs(float64(other.writes-own.writes)) > 0.01*float64(own.writes) {
					ts.Fatalf("%s: strace saw %d bytes in %d writes, ckpt recorded %d in %d", file, other.bytes, other.writes, own.bytes, own.writes)
				}
			}
		}
	}
	if files == 0 || len(unrecorded) > 0 {
		ts.Fatalf("strace saw %d files, ckpt recorded %d, and not %v", len(seen), files, slices.Sorted(maps.Keys(unrecorded)))
	}
	ts.Logf("%d files agree", files)
}
