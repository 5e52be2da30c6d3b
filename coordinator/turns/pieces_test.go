package turns

import (
	"bytes"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// countedFile counts the writes that reach it.
type countedFile struct {
	vfs.Plain
	writes int
}

func (f *countedFile) WriteAt(b []byte, off int64) (int, error) {
	f.writes++
	return f.File.WriteAt(b, off)
}

// TestLongOperationsAreCut has a write of several pieces go on between pieces where a
// controller may want the turn back, and in one where there is none.
func TestLongOperationsAreCut(t *testing.T) {
	for _, c := range []struct {
		name   string
		link   *link
		writes int
	}{{"with a controller", &link{}, 4}, {"without", nil, 1}} {
		turn := &Turn{client: &Client{}, link: c.link}
		mem, err := memfs.New().Create("/a")
		if err != nil {
			t.Fatal(err)
		}
		counted := &countedFile{Plain: vfs.Only(mem)}
		f, err := turn.file(counted, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := bytes.Repeat([]byte("0123456789"), (3*Piece+Piece/2)/10)
		if n, err := f.WriteAt(b, 5); n != len(b) || err != nil {
			t.Errorf("%s: wrote %d bytes, %v", c.name, n, err)
		}
		if counted.writes != c.writes {
			t.Errorf("%s: %d writes, want %d", c.name, counted.writes, c.writes)
		}
		got := make([]byte, len(b))
		if n, err := f.ReadAt(got, 5); n != len(b) || !bytes.Equal(got, b) {
			t.Errorf("%s: read %d bytes, %v, the same: %v", c.name, n, err, bytes.Equal(got, b))
		}
		halves := [][]byte{b[:Piece], b[Piece : 2*Piece], b[2*Piece:]}
		counted.writes = 0
		if n, err := f.WriteV(halves, 0); n != int64(len(b)) || err != nil || counted.writes != 3 {
			t.Errorf("%s: wrote %d bytes of three buffers in %d writes, %v", c.name, n, counted.writes, err)
		}
		if moved := turn.moved.Load(); moved != 3*int64(len(b)) {
			t.Errorf("%s: %d bytes counted, want %d", c.name, moved, 3*len(b))
		}
	}
}
