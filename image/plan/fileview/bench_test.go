package fileview_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"ckpt/image/plan/fileview"
)

// ram is a file of fixed length in memory, without locks.
type ram []byte

func (r ram) ReadAt(p []byte, off int64) (int, error) {
	n := copy(p, r[min(off, int64(len(r))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (r ram) WriteAt(p []byte, off int64) (int, error) { return copy(r[off:], p), nil }

// BenchmarkRules compares the rules on a file in memory. It shows the cost of joining
// and copying, since a call costs next to nothing here. calls/op and moved/useful
// show the savings on a device.
func BenchmarkRules(b *testing.B) {
	for _, tuple := range []fileview.Tuple{{Size: 64, Hole: 64}, {Size: 4096, Hole: 4096}, {Size: 32768, Hole: 100_000}} {
		blocks := min(nBlocks, 8*mib/tuple.Size)
		file := make(ram, blocks*(tuple.Size+tuple.Hole))
		p := make([]byte, blocks*tuple.Size)
		v := mustView(b, 0, []fileview.Tuple{tuple}, blocks)
		for _, access := range []fileview.Access{fileview.Read, fileview.Write} {
			for _, m := range methods {
				b.Run(fmt.Sprintf("%d+%d/%v/%v", tuple.Size, tuple.Hole, access, m), func(b *testing.B) {
					d := wr
					d.Stripe, d.Block = mib, 4096
					f := mustFile(b, file, v, fileview.Options{Rule: m, Device: d})
					do := f.ReadAt
					if access == fileview.Write {
						do = f.WriteAt
					}
					b.SetBytes(int64(len(p)))
					b.ReportAllocs()
					for b.Loop() {
						if _, err := do(p, 0); err != nil {
							b.Fatal(err)
						}
					}
					s := f.Stats()
					b.ReportMetric(float64(s.Reads+s.Writes)/float64(b.N), "calls/op")
					b.ReportMetric(float64(s.Read+s.Written)/float64(s.Useful), "moved/useful")
				})
			}
		}
	}
}

// BenchmarkStrided compares the header for C with a loop of pread, on 40 drawn parts of a field
// in the page cache. CKPT_VIEW_STORAGE is what ckpt bench sieve --cache warm -o has written.
func BenchmarkStrided(b *testing.B) {
	program := compiled(b, "gcc", "-std=gnu11", "-O2", "testdata/strided.c")
	const n = 4096
	name := filepath.Join(b.TempDir(), "field")
	if err := os.WriteFile(name, pattern(8*n*n, 0), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), program, name, strconv.Itoa(n), "1", "40", "9").CombinedOutput()
		if fmt.Printf("%s", out); err != nil {
			b.Fatal(err)
		}
	}
}
