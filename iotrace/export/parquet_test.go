package export

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func TestParquet(t *testing.T) {
	if iotracetest.Race {
		for i := range 10 {
			throughParquet(t, iotracetest.Any().Example(i))
		}
		return
	}
	rapid.Check(t, func(t *rapid.T) { throughParquet(t, iotracetest.Any().Draw(t, "trace")) })
	throughParquet(t, iotracetest.PerRank(4, 300, 3)) // several batches
}

func throughParquet(t interface{ Fatal(...any) }, want *iotrace.Trace) {
	var buf bytes.Buffer
	if err := WriteParquet(&buf, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

// TestParquetColumns looks at the columns that other tools read.
func TestParquetColumns(t *testing.T) {
	ev := func(op iotrace.Op, off, n, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Rank: 0, File: 0, Peer: iotrace.None, Offset: off, Bytes: n, Start: start, End: end}
	}
	tr := &iotrace.Trace{Job: "a#b", Ranks: []iotrace.Rank{{Rank: 5, Node: "n1"}}, Files: []string{"/f"}, Events: []iotrace.Event{
		ev(iotrace.Open, iotrace.None, 0, 0, 1e6),
		ev(iotrace.Write, 0, 1<<20, 1e6, 3e6),
		ev(iotrace.Write, 1<<20, 10, 3e6, 3e6),
		ev(iotrace.Read, 0, 5, 4e6, 5e6),
		{Op: iotrace.Encode, Rank: iotrace.None, File: iotrace.None, Peer: iotrace.None, Offset: iotrace.None, Bytes: 7, Start: 5e6, End: 6e6},
		ev(iotrace.Sync, iotrace.None, 0, 6e6, 9e6),
	}}
	tr.Events[3].Module = iotrace.MPIIO
	var buf bytes.Buffer
	if err := WriteParquet(&buf, tr); err != nil {
		t.Fatal(err)
	}
	type row struct {
		Rank      int32   `parquet:"rank"`
		Cat       int32   `parquet:"cat"`
		IOCat     int32   `parquet:"io_cat"`
		Tstart    float64 `parquet:"tstart"`
		FuncID    string  `parquet:"func_id"`
		Hostname  string  `parquet:"hostname"`
		ProcName  string  `parquet:"proc_name"`
		FileName  string  `parquet:"file_name"`
		Size      int64   `parquet:"size"`
		AccPat    int32   `parquet:"acc_pat"`
		Bandwidth float64 `parquet:"bandwidth"`
		Duration  float64 `parquet:"duration"`
		Tmid      int64   `parquet:"tmid"`
	}
	got, err := parquet.Read[row](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	want := []row{
		{5, catPOSIX, ioMetadata, 0, "open", "n1", "a_b#n1#5#0", "/f", 0, 0, 0, 0.001, 500},
		{5, catPOSIX, ioWrite, 0.001, "write", "n1", "a_b#n1#5#0", "/f", 1 << 20, 0, 500, 0.002, 2000},
		{5, catPOSIX, ioWrite, 0.003, "write", "n1", "a_b#n1#5#0", "/f", 10, 0, 0, 0, 3000},
		{5, catMPIIO, ioRead, 0.004, "read", "n1", "a_b#n1#5#0", "/f", 5, 1, 5.0 / (1 << 20) / 0.001, 0.001, 4500},
		{-1, catStep, ioOther, 0.005, "encode", "", "###", "", 0, 0, 0, 0.001, 5500},
		{5, catPOSIX, ioMetadata, 0.006, "sync", "n1", "a_b#n1#5#0", "/f", 0, 0, 0, 0.003, 7500},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
		t.Error(diff)
	}
}

func TestParquetErrors(t *testing.T) {
	var other bytes.Buffer
	if err := parquet.Write(&other, []struct{ A int }{{1}}); err != nil {
		t.Fatal(err)
	}
	var tagged bytes.Buffer
	if err := parquet.Write(&tagged, []struct{ A int }{{1}}, parquet.KeyValueMetadata(tablesKey, "")); err != nil {
		t.Fatal(err)
	}
	var tables bytes.Buffer
	if err := parquet.Write(&tables, []parquetRow{{}}, parquet.KeyValueMetadata(tablesKey, "AAAA")); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := WriteParquet(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	bad := iotracetest.Golden()
	bad.Events[2].Start = bad.Events[2].End + 1
	var invalid bytes.Buffer
	if err := WriteParquet(&invalid, bad); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file []byte
		want string
	}{
		{nil, "this is an empty file, not a Parquet file"},
		{[]byte(csvSample), "this is a CSV trace of ckpt, not a Parquet file"},
		{other.Bytes(), "this Parquet file is not of ckpt"},
		{tagged.Bytes(), "is not there"},
		{tables.Bytes(), "metadata ckpt.trace"},
		{buf.Bytes()[:buf.Len()/2], "damaged Parquet"},
		{invalid.Bytes(), "row 2: ends 1 ns before"},
	} {
		_, err := ReadParquet(bytes.NewReader(c.file), int64(len(c.file)))
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// TestParquetDamaged changes bytes all over a file. Whatever comes of it, it is
// an error or a trace that is valid.
func TestParquetDamaged(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteParquet(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	b := buf.Bytes()
	for i := 4; i < len(b); i += 150 {
		b[i] ^= 0x55
		tr, err := ReadParquet(bytes.NewReader(b), int64(len(b)))
		if err == nil {
			err = tr.Validate()
			if err != nil {
				t.Errorf("byte %d: %v", i, err)
			}
		}
		b[i] ^= 0x55
	}
}
