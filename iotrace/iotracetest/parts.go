package iotracetest

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
	"time"

	"ckpt/iotrace"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Full is Golden with something of all that a trace can have.
func Full() *iotrace.Trace {
	t := Golden()
	t.Runtime = 90 * time.Second
	c := iotrace.Counters{Module: iotrace.STDIO, Rank: none, File: 2, VarianceTime: 0.25, VarianceBytes: -1e30}
	fill(reflect.ValueOf(&c).Elem(), new(int64))
	t.Counters = []iotrace.Counters{c, {Rank: 1, File: 0, Opens: 1, Reads: none, FirstOpen: none, LastOpen: none}}
	t.Renames = []iotrace.Renaming{{From: 0, To: 1, At: 5}}
	t.Striping = []iotrace.Striping{{File: 1, Size: 1 << 20, Count: 2, OSTs: []int64{7, 3}, Start: 1 << 30, End: none}, {File: 2, Size: none}}
	t.Warnings = []iotrace.Warning{{Code: "io_uring", Text: "Requests are missing.", Count: 12, Bytes: 4096, Files: []iotrace.WarnedFile{{File: 1, Count: 2, Bytes: 96}, {File: 0}}}, {Code: "x", Text: "\"a\",\nb"}}
	t.Properties = []iotrace.Property{{Name: "mount /scratch", Value: "lustre"}, {Name: "empty"}}
	return t
}

// fill gives each whole number a value of its own.
func fill(v reflect.Value, next *int64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Int64:
		*next++
		v.SetInt(*next)
	}
}

// AnyFull draws traces like Any, with all that a trace can have.
func AnyFull() *rapid.Generator[*iotrace.Trace] {
	return rapid.Custom(func(t *rapid.T) *iotrace.Trace {
		out := Any().Draw(t, "trace")
		out.Runtime = time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, iotrace.MaxTime)).Draw(t, "runtime"))
		number := rapid.OneOf(rapid.Int64Range(none, 1), rapid.Int64())
		positive := rapid.Int64Range(0, math.MaxInt64)
		file := func(least int) int32 { return int32(rapid.IntRange(least, len(out.Files)-1).Draw(t, "file")) }
		for range rapid.IntRange(0, 4).Draw(t, "counters") {
			c := iotrace.Counters{Module: iotrace.Module(rapid.IntRange(0, 2).Draw(t, "module")),
				Rank: int32(rapid.IntRange(none, len(out.Ranks)-1).Draw(t, "rank")), File: file(none),
				VarianceTime: rapid.Float64().Draw(t, "variance")}
			for _, n := range []*int64{&c.Opens, &c.BytesRead, &c.LastWritten, &c.ReadSizes[3], &c.Common[2].Size, &c.Slowest.Bytes} {
				*n = number.Draw(t, "number")
			}
			c.FirstOpen = rapid.Int64Range(none, iotrace.MaxTime).Draw(t, "first")
			out.Counters = append(out.Counters, c)
		}
		for range rapid.IntRange(0, 3).Draw(t, "warnings") {
			out.Warnings = append(out.Warnings, iotrace.Warning{Code: rapid.StringN(1, 9, -1).Draw(t, "code"), Text: rapid.String().Draw(t, "text"),
				Count: positive.Draw(t, "count"), Bytes: positive.Draw(t, "bytes")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "properties") {
			out.Properties = append(out.Properties, iotrace.Property{Name: rapid.StringN(1, 9, -1).Draw(t, "name"), Value: rapid.String().Draw(t, "value")})
		}
		if len(out.Files) == 0 {
			return out
		}
		for i := range out.Warnings {
			for range rapid.IntRange(0, 2).Draw(t, "warned") {
				out.Warnings[i].Files = append(out.Warnings[i].Files, iotrace.WarnedFile{File: file(0), Count: positive.Draw(t, "count"), Bytes: positive.Draw(t, "bytes")})
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "renames") {
			out.Renames = append(out.Renames, iotrace.Renaming{From: file(0), To: file(0), At: rapid.Int64Range(-iotrace.MaxTime, iotrace.MaxTime).Draw(t, "at")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "striping") {
			out.Striping = append(out.Striping, iotrace.Striping{File: file(0), Size: rapid.Int64Range(none, math.MaxInt64).Draw(t, "size"),
				Count: rapid.Int32Range(none, math.MaxInt32).Draw(t, "stripes"), Start: positive.Draw(t, "start"), End: rapid.Int64Range(none, math.MaxInt64).Draw(t, "end"), OSTs: rapid.SliceOfN(number, 0, 4).Draw(t, "osts")})
		}
		return out
	})
}

// Files returns the contents of the files in testdata that match a pattern.
func Files(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// SameAs compares what was made with a file in testdata, or writes that file.
func SameAs(t testing.TB, name string, got []byte, update bool) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// Valid returns the first thing that is wrong with a trace: an event is impossible
// or out of order, or a table names something twice or not at all.
func Valid(t *iotrace.Trace) error {
	for i := 1; i < len(t.Events); i++ {
		if before, e := t.Events[i-1], t.Events[i]; e.Start < before.Start {
			return fmt.Errorf("event %d: %s starts %d ns before the one in front of it", i, e.Op, before.Start-e.Start)
		}
	}
	// The writer checks the events, and the reader checks the tables.
	var file bytes.Buffer
	if err := iotrace.WriteTrace(&file, t); err != nil {
		return err
	}
	_, err := iotrace.ReadTrace(&file)
	return err
}

// ProcessorTime is what the process has used so far, in ns: a better measure
// than the clock where others use the machine.
func ProcessorTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
