package iotracetest

import (
	"math"
	"reflect"
	"time"

	"pgregory.net/rapid"

	"ckpt/iotrace"
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
