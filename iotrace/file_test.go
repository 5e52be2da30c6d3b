package iotrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ckpt/internal/testkit"
)

// golden is the trace of the golden file; see TestGolden.
func golden(t testing.TB) (*Trace, []byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden.trace"))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := ReadTrace(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return tr, b
}

var origin = time.Date(2026, 10, 20, 12, 0, 0, 123456789, time.UTC)

func encode(t testing.TB, tr *Trace) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteTrace(&buf, tr); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestTruncated cuts a file everywhere. It is refused; what its whole blocks
// hold can be had.
func TestTruncated(t *testing.T) {
	var buf bytes.Buffer
	w := newWriter(&buf, Meta{Job: "j"}, Trace{})
	r, f := w.addRank(Rank{Rank: 7}), w.addFile("/f")
	var ends []int // of the blocks of events
	for i := range 5 {
		for k := range 3 {
			n := int64(3*i + k)
			if err := w.add(Event{Op: Write, Rank: r, File: f, Peer: None, Offset: 10 * n, Bytes: 10, Start: n, End: n + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, buf.Len())
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	whole := buf.Bytes()
	for n := range whole {
		_, err := ReadTrace(bytes.NewReader(whole[:n]))
		var fe *FormatError
		if !errors.As(err, &fe) || !errors.Is(err, ErrTruncated) || fe.Offset != int64(n) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		tr, rep, err := Import(bytes.NewReader(whole[:n]), Options{Lenient: true})
		head := headerSize + blockHeader + 5 // its HEAD is whole
		if n < head {
			if err == nil {
				t.Fatalf("cut at %d: no error", n)
			}
			continue
		}
		want := 0
		for _, end := range ends {
			if n >= end {
				want += 3
			}
		}
		if err != nil || len(tr.Events) != want || !errors.Is(rep.Cut, ErrTruncated) {
			t.Fatalf("cut at %d: %d events, not %d: %v, %v", n, len(tr.Events), want, err, rep.Cut)
		}
	}
	if _, err := ReadTrace(bytes.NewReader(append(bytes.Clone(whole), 0))); err == nil || !strings.Contains(err.Error(), "follow the end mark") {
		t.Errorf("a byte more: %v", err)
	}
}

// TestDamaged changes each byte of a file. None goes unnoticed.
func TestDamaged(t *testing.T) {
	_, b := golden(t)
	for i := range b {
		for k, x := range []byte{1, 0x80, 0xff} {
			if i%3 != k && !testkit.Nightly() {
				continue
			}
			b[i] ^= x
			_, err := ReadTrace(bytes.NewReader(b))
			var fe *FormatError
			if !errors.As(err, &fe) {
				t.Fatalf("byte %d changed by %#x: %v", i, x, err)
			}
			if fe.Offset > int64(i) && !errors.Is(err, ErrTruncated) {
				t.Fatalf("byte %d changed by %#x, but: %v", i, x, err)
			}
			b[i] ^= x
		}
	}
}

// block makes a block with a right checksum of any payload.
func rawBlock(kind string, count int, payload ...byte) []byte {
	b := append(make([]byte, blockHeader), payload...)
	seal(b, kind, count, 0)
	return b
}

// TestHostile reads files whose checksums are right and whose contents are not.
func TestHostile(t *testing.T) {
	head := append(fileHeader(), rawBlock(kindHead, 0, 0, 0, 0, 0)...)
	tables := append(rawBlock(kindRanks, 1, 0, 0), rawBlock(kindFiles, 1, 1, 'f')...)
	newer := fileHeader()
	newer[8] = version + 1
	binary.LittleEndian.PutUint32(newer[12:], crc32.Checksum(newer[:12], castagnoli))
	long := rawBlock(kindEvents, 0)
	binary.LittleEndian.PutUint32(long[4:], 1<<31)
	binary.LittleEndian.PutUint32(long[24:], crc32.Checksum(long[:24], castagnoli))
	late := rawBlock(kindEvents, 0)
	seal(late, kindEvents, 0, 5)
	write := []byte{1, 0, byte(Write), 0, 0, offsetFollow}
	after := func(blocks ...[]byte) []byte { return append(bytes.Clone(head), bytes.Join(blocks, nil)...) }
	events := func(count int, payload ...byte) []byte { return after(tables, rawBlock(kindEvents, count, payload...)) }
	end := func(counts ...byte) []byte {
		payload := make([]byte, endPayload)
		for i, n := range counts {
			payload[8*i] = n
		}
		return rawBlock(kindEnd, 0, payload...)
	}
	maxVarint := binary.AppendUvarint(nil, math.MaxUint64)
	counters := func(payload ...byte) []byte {
		return after(rawBlock(kindCounters, 1, append([]byte{0, 1, 1}, payload...)...))
	}
	for _, c := range []struct {
		what string
		file []byte
		want string
	}{
		{"newer version", newer, "newer version"},
		{"no head", append(fileHeader(), tables...), "where HEAD should be"},
		{"long block", after(long), "the longest has"},
		{"unknown block", after(rawBlock("WHAT", 0)), `block "WHAT": this kind is unknown`},
		{"long job", append(fileHeader(), rawBlock(kindHead, 0, 200, 1, 0, 0)...), "ends in the middle"},
		{"other job", after(rawBlock(kindHead, 0, 1, 'j', 0, 0, 0)), "differs from the first"},
		{"origin", append(fileHeader(), rawBlock(kindHead, 0, append([]byte{0, 0, 1}, append(maxVarint, 0, 0)...)...)...), "year"},
		{"run time", append(fileHeader(), rawBlock(kindHead, 0, append([]byte{0, 0, 0}, maxVarint...)...)...), "out of range"},
		{"no unit", events(1, append([]byte{0}, write[1:]...)...), "unit of times"},
		{"twice a file", after(rawBlock(kindFiles, 2, 1, 'f', 1, 'f'), end(2, 0, 0, 2)), "is listed twice"},
		{"other file", after(tables, rawBlock(kindFiles, 1, 1, 'g')), "entry 0 differs"},
		{"many files", after(rawBlock(kindFiles, 5, 200, 200, 200, 200, 2)), "ends in the middle"},
		{"wrong count", after(rawBlock(kindFiles, 1, 1, 'f', 0)), "1 bytes follow the last entry"},
		{"gap", after(late), "begins with entry 5 where 0"},
		{"more events than bytes", events(9, write...), "9 entries in 6 bytes"},
		{"short event", events(2, append(write, 0, 0, 0, 0, 0, 0, 0)...), "ends in the middle"},
		{"rest", events(1, append(write, 0, 0, 0, 0, 0, 0, 0, 9)...), "follow the last event"},
		{"kind", events(1, 1, 5, 0, 0), "kind 5 of 0"},
		{"operation", events(1, 1, 0, 99, 0, 0, 0, 0, 0), "op(99) is unknown"},
		{"flags", events(1, 1, 0, byte(Write), 0, 0, 0x80, 0, 0), "flags 0x80"},
		{"no stream", events(1, 1, 0, byte(Write), 0, 0, flagStay, 0, 0, 0), "no stream"},
		{"stream", events(1, append(write, 7, 0, 0)...), "stream 7 of 0"},
		{"rank", events(1, append(write, 0, 2, 0, 0, 1, 0, 0)...), "rank 1 of 1"},
		{"file", events(1, append(write, 0, 0, 3, 0, 1, 0, 0)...), "file -2 of 1"},
		{"bytes", events(1, append(append(write, 0, 0, 0, 0), append(maxVarint, 0, 0)...)...), "out of range"},
		{"time", events(1, append(append(write, 0, 0, 0, 0, 1), append(maxVarint, 0)...)...), "out of range"},
		{"length", events(1, append(append(write, 0, 0, 0, 0, 1, 0), maxVarint...)...), "out of range"},
		{"numbers", counters(append(maxVarint, 0)...), "out of range"},
		{"run of numbers", counters(3, 0, 9, 0), "out of range"},
		{"endless run", counters(append([]byte{3, 0}, append(maxVarint, 0)...)...), "out of range"},
		{"not a number", counters(0, 1, 0xff, 0xf0, 3), "out of range"},
		{"OSTs", after(rawBlock(kindStriping, 1, append([]byte{0, 0, 0, 0, 0}, maxVarint...)...)), "ends in the middle"},
		{"striping of no file", after(rawBlock(kindStriping, 1, 2, 0, 0, 0, 0, 0), end(2, 0, 0, 0, 0, 1)), "file 1 of 0"},
		{"end mark", after(rawBlock(kindEnd, 0, 1, 2, 3)), "3 bytes where"},
		{"events missing", after(end(1, 1)), `counts 1 of "EVNT"`},
		{"blocks missing", after(end(9)), "counts 9 blocks"},
		{"empty", nil, "empty"},
		{"DXT", []byte("# darshan log version: 3.41\n"), "this is Darshan DXT text, not an events file"},
		{"short text", []byte("op,start_ns,end_ns"), "this is a CSV trace of ckpt, not"},
		{"zeros", make([]byte, 100), "this is not an events file"},
	} {
		_, err := ReadTrace(bytes.NewReader(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
		if c.what == "newer version" && !errors.Is(err, ErrNewerVersion) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestReader reads block by block, and tables that grow.
func TestReader(t *testing.T) {
	var buf bytes.Buffer
	w := newWriter(&buf, Meta{Job: "j", Source: "ckpt", Origin: origin}, Trace{})
	const blocks = 3
	for i := range blocks {
		r, f := w.addRank(Rank{Rank: i}), w.addFile(fmt.Sprint("/f", i))
		if err := w.add(Event{Op: Open, Rank: r, File: f, Peer: None, Offset: None, Start: int64(-i)}); err != nil {
			t.Fatal(err)
		}
		w.flush()
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	if w.add(Event{Op: Open, Rank: None, File: None}) == nil || w.close() == nil {
		t.Error("a closed file takes events")
	}
	got := &Trace{}
	r := newReader(input{r: &buf, off: headerSize}, got, false)
	r.in.peek(headerSize)
	r.in.skip(headerSize)
	for i := 0; ; {
		before := len(got.Events)
		if err := r.next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(got.Events) == before {
			continue
		}
		if got.Events[i].Start != int64(-i) || len(got.Events) != i+1 || len(r.t.Ranks) != i+1 || len(r.t.Files) != i+1 {
			t.Fatalf("block %d: %v", i, got.Events)
		}
		i++
	}
	if diff := cmp.Diff(&Trace{Job: "j", Source: "ckpt", Origin: origin, Ranks: got.Ranks, Files: got.Files, Events: got.Events}, got); diff != "" || len(got.Events) != blocks {
		t.Error(diff)
	}
	if err := r.next(); err != io.EOF {
		t.Error(err)
	}
}

// TestLongNames writes tables that need several blocks.
func TestLongNames(t *testing.T) {
	tr := &Trace{}
	for i := range 300 {
		tr.Files = append(tr.Files, fmt.Sprint(i, strings.Repeat("x", 1000*(i%7))))
		tr.Ranks = append(tr.Ranks, Rank{Rank: -i, Node: fmt.Sprint(i, strings.Repeat("n", 300*(i%5)))})
	}
	got, err := ReadTrace(bytes.NewReader(encode(t, tr)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tr, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []*Trace{
		{Job: strings.Repeat("j", maxPayload)},
		{Files: []string{strings.Repeat("f", maxPayload)}},
		{Ranks: []Rank{{Node: strings.Repeat("n", maxPayload)}}},
	} {
		if err := WriteTrace(io.Discard, bad); err == nil || !strings.Contains(err.Error(), "too long") {
			t.Error(err)
		}
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestWriteError lets every write fail in turn.
func TestWriteError(t *testing.T) {
	tr, b := golden(t)
	whole := len(b)
	for n := 0; n <= whole; n += 7 {
		if err := WriteTrace(&failing{n}, tr); (err == nil) != (n >= whole) {
			t.Fatalf("%d of %d bytes: %v", n, whole, err)
		}
	}
	tr.Events[3].End = tr.Events[3].Start - 1
	if err := WriteTrace(io.Discard, tr); err == nil || !strings.Contains(err.Error(), "event 3: ") {
		t.Error(err)
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x.trace")
	if _, err := ReadFile(name); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	tr, b := golden(t)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := Expect(f); n != len(tr.Events) {
		t.Errorf("%d events expected, not %d", n, len(tr.Events))
	}
	// An end mark that promises too much is not believed.
	for _, promise := range []uint64{uint64(len(b)), math.MaxUint64} {
		end := b[len(b)-blockHeader-endPayload:]
		binary.LittleEndian.PutUint64(end[blockHeader+8:], promise)
		seal(end, kindEnd, 0, 0)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := Expect(f); n != 0 {
			t.Errorf("%d events expected", n)
		}
		if _, err := ReadFile(name); err == nil || !strings.HasPrefix(err.Error(), name+": offset ") {
			t.Error(err)
		}
	}
	if err := os.Truncate(name, 5); err != nil {
		t.Fatal(err)
	}
	if n := Expect(f); n != 0 {
		t.Errorf("%d events expected", n)
	}
}
