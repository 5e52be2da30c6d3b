package msglog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden checks that the format stays what it is, byte by byte. The golden
// files are a whole log of two segments, which must also stay readable, as must the log of an
// earlier version, without a digest.
func TestGolden(t *testing.T) {
	disk := memfs.New()
	l, _, err := Open(disk, testDir, testID, Options{SegmentBytes: 400})
	must(t, err)
	want := []channel.Frame{
		{Kind: channel.Received, Peer: 1, Message: channel.Message{Tag: 7, Seq: 1, Data: []byte("a message of 25 bytes, ok")}},
		{Kind: channel.Received, Peer: 3, Message: channel.Message{Tag: 9, Context: 1, Seq: 1, Depends: []uint64{4, 0, 17}, Data: []byte("it depends on others")}},
		{Kind: channel.Determined, Peer: 3, Number: 3, Message: channel.Message{Seq: 2}},
		{Kind: channel.Received, Message: channel.Message{Tag: 1, Seq: 5}},
		{Kind: channel.Cut, Peer: -1, Message: channel.Message{Data: channel.AppendNumbers(nil, []uint64{3, math.MaxUint64, 1})}},
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
	for _, dir := range []string{"log", "version-1"} {
		there, rec, err := readDir(vfs.OS{}, filepath.Join("testdata", dir), 0)
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
}

// TestMarks reads a log with marks of checkpoints and outputs, which the format has
// and nobody writes.
func TestMarks(t *testing.T) {
	r, rec, err := OpenReader(vfs.OS{}, filepath.Join("testdata", "marks"), testID, 0)
	must(t, err)
	var kinds []channel.FrameKind
	for {
		f, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		kinds = append(kinds, f.Kind)
	}
	if !slices.Equal(kinds, []channel.FrameKind{channel.Received, channel.Determined}) || rec.Next != 6 || rec.CutBytes != 0 {
		t.Errorf("frames of kinds %v, %+v", kinds, rec)
	}
}

// TestEarlierVersion: a log of an earlier version goes on with the digest of the job.
func TestEarlierVersion(t *testing.T) {
	disk := memfs.New()
	must(t, disk.Mkdir(testDir))
	for _, name := range []string{"00000001.seg", "00000002.seg"} {
		b, err := os.ReadFile(filepath.Join("testdata", "version-1", name))
		must(t, err)
		putFile(t, disk, filepath.Join(testDir, name), b)
	}
	l, rec, err := Open(disk, testDir, testID, Options{SegmentBytes: 1})
	must(t, err)
	_, err = l.Append(channel.Frame{Kind: channel.Received, Message: channel.Message{Seq: 6}})
	must(t, err)
	must(t, l.Commit(context.Background()))
	must(t, l.Close())
	if _, again, err := readDir(disk, testDir, 0); err != nil || again.Next != rec.Next+1 {
		t.Errorf("%+v after %+v, %v", again, rec, err)
	}
	other := testID
	other.Digest = "0" + testID.Digest[:63]
	if _, _, err := Open(disk, testDir, other, Options{}); !errors.Is(err, durable.ErrOtherJob) {
		t.Error(err)
	}
}
