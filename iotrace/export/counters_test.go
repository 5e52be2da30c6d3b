package export

import (
	"bytes"
	stdcsv "encoding/csv"
	"reflect"
	"testing"
	"time"

	"ckpt/iotrace"
)

// counted is a trace of counters, each of them another number. Some are unknown.
func counted() *iotrace.Trace {
	t := &iotrace.Trace{Job: "j", Source: "darshan", Origin: time.Unix(1e9, 5).UTC(), Runtime: 1234567891,
		Ranks: []iotrace.Rank{{Rank: 0, Node: "a,b"}, {Rank: 1}, {Rank: 2}}, Files: []string{"/f", "/g \"h\""},
		Properties: []iotrace.Property{{Name: "/d", Value: "lustre"}},
		Renames:    []iotrace.Renaming{{From: 1, To: 0, At: 77}},
		Striping:   []iotrace.Striping{{File: 1, Size: 1 << 20, Count: 2, OSTs: []int64{3, 4}, End: 9}, {File: 0, Size: 5, Count: 1, Start: 9, End: iotrace.None}}}
	n := int64(10)
	for i, m := range []iotrace.Module{iotrace.POSIX, iotrace.MPIIO, iotrace.STDIO} {
		c := iotrace.Counters{Module: m, Rank: int32(i) - 1, File: int32(i % 2)}
		for k, col := range counterColumns {
			v := col.at(reflect.ValueOf(&c).Elem())
			switch n++; {
			case (k+i)%5 == 0 && v.CanInt():
				v.SetInt(iotrace.None)
			case v.CanInt():
				v.SetInt(n)
			default:
				v.SetFloat(float64(n) / 3)
			}
		}
		t.Counters = append(t.Counters, c)
	}
	return t
}

// TestWriteCounters has a row for each record, and each name once.
func TestWriteCounters(t *testing.T) {
	tr := counted()
	var buf bytes.Buffer
	if err := WriteCounters(&buf, tr); err != nil {
		t.Fatal(err)
	}
	rows, err := stdcsv.NewReader(&buf).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatal(rows, err)
	}
	cell := func(row int, name string) string {
		for i, n := range rows[0] {
			if n == name {
				return rows[row][i]
			}
		}
		return "no column " + name
	}
	names := map[string]bool{}
	for _, n := range rows[0] {
		if names[n] {
			t.Errorf("%s is there twice", n)
		}
		names[n] = true
	}
	for _, n := range []string{"read_sizes_0_100", "write_sizes_1g_plus", "common_4_count", "strides_1_size", "max_read_time_ns", "first_open_ns",
		"last_read", "slowest_rank", "fastest_time_ns", "variance_bytes", "bytes_written"} {
		if !names[n] {
			t.Errorf("no column %s", n)
		}
	}
	if cell(1, "rank") != "" || cell(2, "rank") != "0" || cell(2, "node") != "a,b" || cell(2, "module") != "MPIIO" || cell(2, "file") != tr.Files[1] {
		t.Error(rows[1][:4], rows[2][:4])
	}
	if cell(1, "opens") != "" || cell(2, "opens") == "" {
		t.Error("an unknown number is not empty")
	}
}
