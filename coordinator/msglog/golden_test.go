package msglog

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden checks that the format stays what it is, byte by byte. The golden
// files are a whole log of two segments, which must also stay readable.
func TestGolden(t *testing.T) {
	disk := memfs.New()
	l, _, err := Open(disk, testDir, testID, Options{SegmentBytes: 400})
	must(t, err)
	want := []Frame{
		{Kind: Message, Peer: 1, Tag: 7, Seq: 1, Order: 1, Payload: []byte("a message of 25 bytes, ok")},
		{Kind: Message, Peer: 3, Tag: 9, Context: 1, Seq: 1, Order: 2, AnySource: true},
		{Kind: Mark, Peer: -1, Seq: 1, Payload: []byte("iteration 10")},
		{Kind: Order, Peer: 3, Tag: 7, Seq: 2, Order: 3, AnySource: true},
		{Kind: Output, Peer: -1, Seq: 1, Payload: []byte("residual 0.5\n")},
	}
	for i, f := range want {
		_, err := l.Append(f)
		must(t, err)
		if i%2 == 1 {
			must(t, l.Commit(context.Background()))
		}
	}
	must(t, l.Close())
	for _, name := range []string{"00000001.seg", "00000002.seg"} {
		got := fileBytes(t, disk, filepath.Join(testDir, name))
		golden := filepath.Join("testdata", "log", name)
		if *update {
			must(t, os.MkdirAll(filepath.Dir(golden), 0o777))
			must(t, os.WriteFile(golden, got, 0o666))
		}
		if old, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, old) {
			t.Errorf("%s is not what is written now (%v); if that is meant, run go test -run Golden -update and raise the version", golden, err)
		}
	}
	there, rec, err := readDir(vfs.OS{}, filepath.Join("testdata", "log"), 0)
	must(t, err)
	if len(there) != len(want) || rec.CutBytes != 0 {
		t.Fatalf("%d frames, %+v", len(there), rec)
	}
	for i, f := range there {
		if !sameFrame(f.Frame, want[i]) {
			t.Errorf("frame %d: %+v, want %+v", f.lsn, f.Frame, want[i])
		}
	}
}
