package export

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	deltaenc "github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"pgregory.net/rapid"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func TestParquet(t *testing.T) {
	if testkit.Enabled {
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
	got, _, err := ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()), iotrace.Options{})
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

// TestParquetGroups reads several row groups, all columns, with the reader of another
// library.
func TestParquetGroups(t *testing.T) {
	tr := iotracetest.PerRank(1, rowGroup/2, 1)
	var buf bytes.Buffer
	if err := WriteParquet(&buf, tr); err != nil {
		t.Fatal(err)
	}
	f, err := parquet.OpenFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n, want := len(f.RowGroups()), (len(tr.Events)-1)/rowGroup+1; n != want || n < 2 {
		t.Errorf("%d row groups for %d events", n, len(tr.Events))
	}
	got, err := parquet.Read[parquetRow](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil || len(got) != len(tr.Events) {
		t.Fatalf("%d rows of %d: %v", len(got), len(tr.Events), err)
	}
	m := newRowMaker(tr)
	for i := range got {
		if want := m.row(i); got[i] != want {
			t.Fatalf("row %d: %+v, want %+v", i, got[i], want)
		}
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
		{other.Bytes(), "this Parquet file has no column op; rows of I/O have op, start_ns, end_ns"},
		{tagged.Bytes(), "is missing"},
		{tables.Bytes(), "metadata ckpt.trace"},
		{buf.Bytes()[:buf.Len()/2], "damaged Parquet"},
		{invalid.Bytes(), "row 2: ends 1 ns before"},
	} {
		_, _, err := ReadParquet(bytes.NewReader(c.file), int64(len(c.file)), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// FuzzParquet changes files: what comes of it is an error that says where, or a
// valid trace, and takes memory in proportion to the file.
func FuzzParquet(f *testing.F) {
	for _, t := range []*iotrace.Trace{{}, iotracetest.Golden(), iotracetest.PerRank(2, 40, 1)} {
		var buf bytes.Buffer
		if err := WriteParquet(&buf, t); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	var plain bytes.Buffer
	w := parquet.NewGenericWriter[readRow](&plain, parquet.DataPageVersion(1), parquet.KeyValueMetadata(tablesKey, ""))
	if _, err := w.Write([]readRow{{FuncID: "open", FileID: -1, ProcID: -1}}); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(plain.Bytes())
	for _, b := range parquetOfOthers(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, _, err := ReadParquet(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
		var fe *iotrace.FormatError
		switch {
		case err != nil && !errors.As(err, &fe):
			t.Fatalf("%T: %v", err, err)
		case err == nil:
			if err := iotracetest.Valid(tr); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// readRow has the columns that it takes to make events, in encodings of whoever
// writes them.
type readRow struct {
	FuncID string `parquet:"func_id,plain"`
	FileID int64  `parquet:"file_id"`
	ProcID int64  `parquet:"proc_id"`

	Module     int32 `parquet:"ckpt_module"`
	Zone       int32 `parquet:"ckpt_zone"`
	Create     bool  `parquet:"ckpt_create"`
	Peer       int32 `parquet:"ckpt_peer"`
	Checkpoint int32 `parquet:"ckpt_checkpoint"`
	Round      int32 `parquet:"ckpt_round"`
	Offset     int64 `parquet:"ckpt_offset"`
	Bytes      int64 `parquet:"ckpt_bytes"`
	Start      int64 `parquet:"ckpt_start_ns"`
	End        int64 `parquet:"ckpt_end_ns"`
}

// TestParquetEncodings reads what others may make of a file: other versions of
// pages, no dictionaries, no compression.
func TestParquetEncodings(t *testing.T) {
	want := iotracetest.PerRank(3, 200, 2)
	var tables bytes.Buffer
	if err := iotrace.WriteTrace(&tables, &iotrace.Trace{Job: want.Job, Source: want.Source, Origin: want.Origin, Ranks: want.Ranks, Files: want.Files}); err != nil {
		t.Fatal(err)
	}
	var rows []readRow
	for _, e := range want.Events {
		rows = append(rows, readRow{FuncID: e.Op.String(), FileID: int64(e.File), ProcID: int64(e.Rank), Module: int32(e.Module), Zone: int32(e.Zone),
			Create: e.Create, Peer: e.Peer, Checkpoint: e.Checkpoint, Round: e.Round, Offset: e.Offset, Bytes: e.Bytes, Start: e.Start, End: e.End})
	}
	for _, version := range []int{1, 2} {
		for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Zstd, &parquet.Snappy, &parquet.Gzip, &parquet.Lz4Raw} {
			var buf bytes.Buffer
			if err := parquet.Write(&buf, rows, parquet.DataPageVersion(version), parquet.Compression(codec), parquet.PageBufferSize(1000),
				parquet.KeyValueMetadata(tablesKey, base64.StdEncoding.EncodeToString(tables.Bytes()))); err != nil {
				t.Fatal(err)
			}
			got, _, err := ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()), iotrace.Options{})
			if err != nil {
				t.Fatalf("version %d, %v: %v", version, codec, err)
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("version %d, %v: %s", version, codec, diff)
			}
		}
	}
	var buf bytes.Buffer
	if err := parquet.Write(&buf, rows, parquet.Compression(&parquet.Brotli), parquet.KeyValueMetadata(tablesKey, base64.StdEncoding.EncodeToString(tables.Bytes()))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()), iotrace.Options{}); err == nil || !strings.Contains(err.Error(), "column func_id: not read: its pages are packed by BROTLI") {
		t.Error(err)
	}
}

// TestUnpack holds numbers of every width against those that were packed, and the
// encoders of the library against our decoders.
func TestUnpack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Int64(), 1, 300).Draw(t, "numbers")
		shift := rapid.IntRange(0, 63).Draw(t, "shift")
		var words []int32
		for i := range want {
			want[i] >>= shift
			words = append(words, int32(uint32(want[i])>>1))
		}
		b, err := new(deltaenc.BinaryPackedEncoding).EncodeInt64(nil, want)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]int64, len(want))
		if _, err := delta(got, b); err != nil || !slices.Equal(got, want) {
			t.Fatalf("delta: %v, %v, want %v", err, got, want)
		}
		if _, err := delta(make([]int64, len(want)+1), b); err == nil {
			t.Fatal("delta: one number too many")
		}
		width := uint(bits.Len32(uint32(slices.Max(words))))
		if b, err = (&rle.Encoding{BitWidth: int(width)}).EncodeInt32(nil, words); err != nil {
			t.Fatal(err)
		}
		if err := hybrid(got, b, width); err != nil {
			t.Fatal(err)
		}
		for i, w := range words {
			if got[i] != int64(w) {
				t.Fatalf("hybrid: %v, want %v", got, words)
			}
		}
	})
}

// TestParquetMemory: what claims to be large takes no memory before it is there.
func TestParquetMemory(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteParquet(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	length := int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	footer := whole[len(whole)-8-length : len(whole)-8]
	with := func(footer []byte) []byte {
		b := append(slices.Clone(whole[:len(whole)-8-length]), footer...)
		return append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
	}
	if _, _, err := ReadParquet(bytes.NewReader(with(footer)), int64(len(whole)), iotrace.Options{}); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for i := range footer {
		// A list becomes one of 2^31 - 1 elements.
		if footer[i]&15 != thriftStruct || footer[i]>>4 == 0 {
			continue
		}
		lists++
		b := with(append(append(slices.Clone(footer[:i]), 0xf0|thriftStruct, 0xff, 0xff, 0xff, 0xff, 7), footer[i+1:]...))
		_, _, _ = ReadParquet(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
	}
	bad := slices.Clone(whole)
	binary.LittleEndian.PutUint32(bad[len(bad)-8:], 1<<31)
	if _, _, err := ReadParquet(bytes.NewReader(bad), int64(len(bad)), iotrace.Options{}); !errors.Is(err, iotrace.ErrTruncated) || lists == 0 {
		t.Error(err)
	}
}

// TestParquetEqual: however little room equal events take, they can be read back.
func TestParquetEqual(t *testing.T) {
	if testkit.Enabled {
		t.Skip("2 million events")
	}
	if !testkit.Nightly() {
		was := mostUnasked
		mostUnasked = 4 * rowGroup
		defer func() { mostUnasked = was }()
	}
	want := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"f"}, Events: make([]iotrace.Event, mostUnasked+1)}
	for i := range want.Events {
		want.Events[i] = iotrace.Event{Op: iotrace.Write, Peer: iotrace.None, Offset: iotrace.None, Bytes: 4096}
	}
	var buf bytes.Buffer
	if err := WriteParquet(&buf, want); err != nil {
		t.Fatal(err)
	}
	got, _, err := ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(want.Events, got.Events) {
		t.Errorf("%d events of %d bytes became other %d", len(want.Events), buf.Len(), len(got.Events))
	}
}

// TestParquetAnnounced: rows that are announced take no memory before they are there.
func TestParquetAnnounced(t *testing.T) {
	if testkit.Enabled {
		t.Skip("slices.Grow takes memory twice under the race detector")
	}
	var buf bytes.Buffer
	if err := WriteParquet(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	end := len(whole) - 8 - int(binary.LittleEndian.Uint32(whole[len(whole)-8:]))
	for _, groups := range []int{2, 200} {
		var meta format.FileMetaData
		if err := thrift.Unmarshal(new(thrift.CompactProtocol), whole[end:len(whole)-8], &meta); err != nil {
			t.Fatal(err)
		}
		meta.RowGroups[0].NumRows = mostInGroup
		meta.RowGroups = slices.Repeat(meta.RowGroups, groups)
		meta.NumRows = int64(groups) * mostInGroup
		footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
		if err != nil {
			t.Fatal(err)
		}
		b := append(slices.Clone(whole[:end]), footer...)
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(footer))), "PAR1"...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err = ReadParquet(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
		runtime.ReadMemStats(&after)
		// That of one group at most.
		if most := uint64(mostInGroup*unsafe.Sizeof(iotrace.Event{}) + 16<<20); err == nil || after.TotalAlloc-before.TotalAlloc > most {
			t.Errorf("%d groups in %d bytes took %d bytes: %v", groups, len(b), after.TotalAlloc-before.TotalAlloc, err)
		}
	}
}

// TestParquetDamaged changes bytes all over a file. The result is an error or a valid
// trace.
func TestParquetDamaged(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteParquet(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	files := parquetOfOthers(t)
	files["golden"] = buf.Bytes()
	step := 31
	if testkit.Nightly() {
		step = 1
	}
	for name, b := range files {
		for i := 4; i < len(b); i += step {
			b[i] ^= 0x55
			tr, _, err := ReadParquet(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
			if err == nil {
				err = iotracetest.Valid(tr)
				if err != nil {
					t.Errorf("%s, byte %d: %v", name, i, err)
				}
			}
			b[i] ^= 0x55
		}
	}
}

// parquetOfOthers returns the files that other programs wrote.
func parquetOfOthers(t testing.TB) map[string][]byte {
	names, err := filepath.Glob("testdata/others/*.parquet")
	if err != nil || len(names) < 6 {
		t.Fatal(names, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestParquetLevels: a level that says neither that a row has a value nor that it lacks one
// is damage.
func TestParquetLevels(t *testing.T) {
	for _, run := range [][]byte{{8, 2}, {8, 255}, {4, 1, 4, 2}} {
		p := pageReader{optional: true}
		if err := p.defined(run, 4); !errors.Is(err, errValues) {
			t.Errorf("levels %d: %v", run, err)
		}
	}
	p := pageReader{optional: true}
	if err := p.defined([]byte{4, 1, 4, 0}, 4); err != nil || len(p.values) != 2 {
		t.Error(err, p.levels)
	}
}
