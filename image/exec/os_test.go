package exec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// The kernel accepts the memory, the offsets and the lengths for direct I/O.
func TestDirect(t *testing.T) {
	sources := ranks(6, 40)
	for _, layout := range layouts {
		for _, odd := range []bool{false, true} {
			p := mustPlan(t, sources, plan.Settings{
				Layout: layout, Aggregators: 2, Buffer: 32 * page, StripeSize: 16 * page, StripeCount: 2, P1: true, P2: true, P3: true,
			})
			j := newJob(sources, odd)
			dir := t.TempDir()
			name := func(file int) string { return filepath.Join(dir, strconv.Itoa(file)) }
			opened := make([]vfs.File, len(p.Files))
			_, err := exec.All(context.Background(), p, j.of, exec.AllOptions{
				Direct: true,
				Files: func(file int) (io.WriterAt, error) {
					f, err := vfs.OS{}.CreateDirect(name(file))
					opened[file] = f
					return f, err
				},
			})
			for _, f := range opened {
				if f != nil {
					f.Close()
				}
			}
			if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
				testkit.Skip(t, fmt.Sprintf("direct I/O: %v", err))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sources {
				file, offsets := p.Places(s.Rank)
				got, err := os.ReadFile(name(file))
				if err != nil {
					t.Fatal(err)
				}
				at := offsets[0]
				if !bytes.Equal(got[at:at+s.Pieces[0].Bytes], j.of(s.Rank, 0)) {
					t.Errorf("%s, odd %t: rank %d: other bytes", layout, odd, s.Rank)
				}
			}
		}
	}
}
