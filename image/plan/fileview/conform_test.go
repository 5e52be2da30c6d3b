package fileview_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ckpt/image/plan/fileview"
	"ckpt/internal/testkit"
)

// The table testdata/views.txt has drawn views, rules and requests, the calls that each makes, and
// what comes out. This package, the header for C and the module for Python make the same calls.
//
//	VIEW RULE BUFFER BYTES_PER_S CALL_NS STRIPE BLOCK read|write OFFSET LENGTH FILE = RESULT HASH {r|w OFFSET LENGTH}
//
// VIEW is "blocks DISPLACEMENT CELL REPEAT N {SIZE HOLE}" or
// "slices DISPLACEMENT CELL DIMS {CELLS} {FIRST COUNT STEP}". RESULT is the bytes moved, -1 for a
// request that is refused, -2 for a view. HASH is FNV-1a of the bytes read, or of the file after
// a write.
const table = "testdata/views.txt"

var updateTable = flag.Bool("update-views", false, "draw the table of views again")

// A conformance is one line of the table.
type conformance struct {
	slices      bool
	at, cell    int64
	numbers     []int64 // of the view
	rule        fileview.Method
	buffer      int64
	rate, call  int64
	stripe      int64
	block       int64
	write       bool
	off, n, end int64
}

func (c *conformance) String() string {
	kind, access := "blocks", "read"
	if c.slices {
		kind = "slices"
	}
	if c.write {
		access = "write"
	}
	return fmt.Sprintf("%s %d %d %s %v %d %d %d %d %d %s %d %d %d", kind, c.at, c.cell, strings.Trim(fmt.Sprint(c.numbers), "[]"),
		c.rule, c.buffer, c.rate, c.call, c.stripe, c.block, access, c.off, c.n, c.end)
}

// view makes the view, and the offsets of its bytes up to the end of the file and a bit, by
// counting.
func (c *conformance) view() (*fileview.View, error) {
	n := c.numbers
	if c.slices {
		list := make([]fileview.Slice, n[0])
		for k := range list {
			s := n[1+int(n[0])+3*k:]
			list[k] = fileview.Slice{First: s[0], Count: s[1], Step: s[2]}
		}
		return fileview.NewSlices(c.at, c.cell, n[1:1+n[0]], list)
	}
	var tuples []fileview.Tuple
	for k := int64(2); k < int64(len(n)); k += 2 {
		tuples = append(tuples, fileview.Tuple{Size: n[k] * c.cell, Hole: n[k+1] * c.cell})
	}
	return fileview.NewView(c.at, tuples, n[0])
}

// model lists the offsets of all bytes of a view of slices, or of blocks that are repeated.
func (c *conformance) model() []int64 {
	if !c.slices {
		var tuples []fileview.Tuple
		for k := 2; k < len(c.numbers); k += 2 {
			tuples = append(tuples, fileview.Tuple{Size: c.numbers[k] * c.cell, Hole: c.numbers[k+1] * c.cell})
		}
		return offsets(c.at, tuples, int(c.numbers[0]))
	}
	dims := int(c.numbers[0])
	cells := []int64{0}
	for k := range dims {
		s := c.numbers[1+dims+3*k:]
		var next []int64
		for _, base := range cells {
			for i := range s[1] {
				next = append(next, base*c.numbers[1+k]+s[0]+i*s[2])
			}
		}
		cells = next
	}
	var list []int64
	for _, cell := range cells {
		for b := range c.cell {
			list = append(list, c.at+cell*c.cell+b)
		}
	}
	return list
}

// run carries the request out, and returns the right side of the line.
func (c *conformance) run(t testing.TB) string {
	v, err := c.view()
	if err != nil {
		return "-2 0"
	}
	file := &memFile{data: pattern(int(c.end), 0)}
	device := fileview.Device{Bandwidth: float64(c.rate), Latency: time.Duration(c.call), Stripe: c.stripe, Block: c.block}
	f := mustFile(t, file, v, fileview.Options{Rule: c.rule, Buffer: c.buffer, Device: device})
	model := c.model()
	if int64(len(model)) != v.Size() {
		t.Errorf("%v: a view of %d bytes, want %d", c, v.Size(), len(model))
	}
	p := pattern(int(c.n), 0xA5)
	var result int
	var got []byte
	if c.write {
		before := slices.Clone(file.data)
		result, err = f.WriteAt(p, c.off)
		if got = file.data; err == nil && !bytes.Equal(got, overlaid(before, p, model[c.off:])) {
			t.Errorf("%v: wrong bytes in the file", c)
		}
	} else {
		result, err = f.ReadAt(p, c.off)
		got = p[:result]
		for i, b := range got {
			if b != file.data[model[c.off+int64(i)]] {
				t.Fatalf("%v: byte %d is wrong", c, i)
			}
		}
		if err == io.EOF {
			err = nil
		}
	}
	if err != nil {
		return "-1 0"
	}
	h := fnv.New64a()
	h.Write(got)
	text := fmt.Sprintf("%d %x", result, h.Sum64())
	for _, call := range file.calls {
		kind := "r"
		if call.write {
			kind = "w"
		}
		text += fmt.Sprintf(" %s %d %d", kind, call.off, call.n)
	}
	return text
}

// drawConformance draws a line. Small views have bytes and cells, large ones blocks of storage.
func drawConformance(r *rand.Rand) *conformance {
	pick := func(list ...int64) int64 { return list[r.IntN(len(list))] }
	scale := pick(1, 1, 100, 1000)
	c := &conformance{slices: r.IntN(2) == 0, at: r.Int64N(50 * scale), cell: pick(1, 4, 8, 3, 64), rule: methods[r.IntN(len(methods))],
		buffer: pick(1+r.Int64N(60), 512, 4096, 5000, 65536, 4<<20), rate: pick(1<<20, 1<<30, 674<<20), call: pick(10, 100, 1000, 30_000, 100_000),
		stripe: pick(0, 0, 64, 4096, 10_000, 65536), block: pick(0, 1, 64, 512, 4096), write: r.IntN(3) == 0}
	if c.cell == 64 { // the edges of everything meet
		c.at = c.at / 64 * 64
	}
	if r.IntN(2) == 0 {
		c.rule = fileview.Adaptive // which has the most to say
	}
	if c.slices {
		dims := 1 + r.IntN(4)
		c.numbers = []int64{int64(dims)}
		var list []int64
		for k := range dims {
			cells := 1 + r.Int64N(12)
			if k == dims-1 {
				cells *= max(1, scale/10)
			}
			first := r.Int64N(cells)
			step := 1 + r.Int64N(pick(1, 3, 9))
			whole := r.IntN(4) == 0
			if whole {
				first, step = 0, 1
			}
			count := 1 + (cells-1-first)/step
			if !whole && r.IntN(2) == 0 {
				count = 1 + r.Int64N(count)
			}
			if r.IntN(40) == 0 {
				count++ // beyond the axis, mostly
			}
			c.numbers = append(c.numbers, cells)
			list = append(list, first, count, step)
		}
		c.numbers = append(c.numbers, list...)
	} else {
		n := 1 + r.Int64N(4)
		c.numbers = []int64{1 + r.Int64N(20), n}
		for range n {
			c.numbers = append(c.numbers, 1+r.Int64N(8*scale), max(0, r.Int64N(12*scale)-scale))
		}
	}
	v, err := c.view()
	if err != nil {
		return c
	}
	if c.off = r.Int64N(v.Size()); r.IntN(2) == 0 {
		c.off = 0
	}
	if c.n = v.Size() - c.off; r.IntN(3) == 0 {
		c.n = 1 + r.Int64N(c.n)
	}
	if r.IntN(20) == 0 {
		c.n += 5 // beyond the view
	}
	last, _, _ := v.Offset(v.Size() - 1)
	if c.end = last + 1 + r.Int64N(100); r.IntN(5) == 0 {
		c.end = r.Int64N(c.end)
	}
	return c
}

func parseConformance(t *testing.T, line string) *conformance {
	words := strings.Fields(line)
	next := func() int64 {
		n, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		words = words[1:]
		return n
	}
	c := &conformance{slices: words[0] == "slices"}
	words = words[1:]
	c.at, c.cell = next(), next()
	c.numbers = []int64{next()}
	count := 4 * c.numbers[0]
	if !c.slices {
		c.numbers = append(c.numbers, next())
		count = 2 * c.numbers[1]
	}
	for range count {
		c.numbers = append(c.numbers, next())
	}
	if err := c.rule.UnmarshalText([]byte(words[0])); err != nil {
		t.Fatal(err)
	}
	words = words[1:]
	c.buffer, c.rate, c.call, c.stripe, c.block = next(), next(), next(), next(), next()
	c.write = words[0] == "write"
	words = words[1:]
	c.off, c.n, c.end = next(), next(), next()
	return c
}

// TestConform checks this package against the table.
func TestConform(t *testing.T) {
	if *updateTable {
		r := rand.New(rand.NewPCG(42, 4))
		var text strings.Builder
		for lines := 0; lines < 300; {
			c := drawConformance(r)
			if c.n > 1<<20 || c.end > 1<<20 {
				continue
			}
			if right := c.run(t); strings.Count(right, " ") <= 3*24 {
				fmt.Fprintf(&text, "%v = %s\n", c, right)
				lines++
			}
		}
		if err := os.WriteFile(table, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		left, right, _ := strings.Cut(strings.TrimSpace(line), " = ")
		c := parseConformance(t, left)
		if c.String() != left {
			t.Fatalf("%s\nis read as\n%v", left, c)
		}
		if got := c.run(t); got != right {
			t.Errorf("%s\n got %s\nwant %s", left, got, right)
		}
	}
}

const client = "../../../coordinator/process/client/view"

// compiled makes a program of testdata that includes the header.
func compiled(t testing.TB, compiler string, args ...string) string {
	t.Helper()
	testkit.All(t, compiler)
	path := filepath.Join(t.TempDir(), "program")
	args = append(args, "-pedantic", "-Wall", "-Wextra", "-Werror", "-I", client, "-o", path)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler, strings.Join(args, " "), err, out)
	}
	return path
}

// conforms runs a program that checks the table, which it reads, in a file of its own.
func conforms(t *testing.T, command ...string) {
	t.Helper()
	in, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], filepath.Join(t.TempDir(), "file"))...)
	cmd.Stdin, cmd.Env = in, append(os.Environ(), "PYTHONPATH="+client)
	out, err := cmd.CombinedOutput()
	if want := "300 lines conform\n"; err != nil || string(out) != want {
		t.Errorf("%v, and printed, not %q:\n%s", err, want, out)
	}
}

func TestConformC(t *testing.T) {
	t.Parallel()
	conforms(t, compiled(t, "gcc", "-std=c99", "-O1", "testdata/conform.c"))
}

func TestConformCXX(t *testing.T) {
	t.Parallel()
	conforms(t, compiled(t, "g++", "-x", "c++", "-std=c++11", "-O1", "testdata/conform.c"))
}

// TestConformPython: with numpy many blocks are treated at once.
func TestConformPython(t *testing.T) {
	t.Parallel()
	testkit.All(t, "python3")
	conforms(t, "python3", "-S", "-B", "testdata/conform.py")
	if !testkit.Left(t, "with numpy", "numpy") {
		conforms(t, "/usr/bin/python3", "-B", "testdata/conform.py")
	}
}

// TestConformWriters: Go, C and Python write into each other's holes, and no update is lost.
func TestConformWriters(t *testing.T) {
	t.Parallel()
	testkit.All(t, "gcc", "python3")
	name := filepath.Join(t.TempDir(), "shared")
	program := compiled(t, "gcc", "-std=c99", "-O1", "testdata/writer.c")
	var wg sync.WaitGroup
	var begin []io.Closer
	for who, command := range map[int][]string{1: {program}, 2: {"python3", "-S", "-B", "testdata/conform.py"}} {
		args := append(command[1:], name)
		for _, n := range []int{who, 3, ofdBlock, ofdBlocks, ofdRounds} {
			args = append(args, strconv.Itoa(n))
		}
		cmd := exec.CommandContext(t.Context(), command[0], args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+client)
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		begin = append(begin, in)
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "ready\n" {
			t.Errorf("writer %d: %q, %v", who, line, err)
		}
		wg.Go(func() {
			said, _ := io.ReadAll(lines)
			if err := cmd.Wait(); err != nil {
				t.Errorf("writer %d: %v\n%s", who, err, said)
			}
		})
	}
	for _, in := range begin {
		in.Close()
	}
	if err := writeInterleaved(name, 0, 3, 1); err != nil {
		t.Error(err)
	}
	wg.Wait()
	checkInterleaved(t, name, 3)
}
