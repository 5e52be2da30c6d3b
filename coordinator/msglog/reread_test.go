package msglog

import (
	"context"
	"errors"
	"io"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// oneGroupEach writes frames with payloads of these lengths, a group each.
func oneGroupEach(t *testing.T, fsys vfs.FS, lengths ...int) {
	t.Helper()
	l, _, err := Open(fsys, testDir, testID, Options{})
	must(t, err)
	for _, n := range lengths {
		_, err := l.Append(channel.Frame{Kind: channel.Received, Message: channel.Message{Data: make([]byte, n)}})
		must(t, err)
		must(t, l.Commit(context.Background()))
	}
	must(t, l.Close())
}

// TestProofAnywhere: wherever the frame lies that shows a bad one to have been
// durable, also across two reads of the search for it, it is found.
func TestProofAnywhere(t *testing.T) {
	for length := readAhead - 2*frameHead; length <= readAhead+frameHead; length += 8 {
		disk := memfs.New()
		oneGroupEach(t, disk, length-frameHead, 0)
		name := segmentPath(testDir, 1)
		b := fileBytes(t, disk, name)
		b[headerSize+frameHead] ^= 1 // in the payload of the first frame
		putFile(t, disk, name, b)
		_, _, err := readDir(disk, testDir, 0)
		var damage *durable.DamageError
		if !errors.As(err, &damage) || damage.Offset != headerSize {
			t.Errorf("with a first frame of %d bytes: %v", length, err)
		}
	}
}

// TestReadErrorStays: a reader that has met damage does not go on behind it, nor
// begin again.
func TestReadErrorStays(t *testing.T) {
	disk, _, _ := smallLog(t)
	name := segmentPath(testDir, 2)
	b := fileBytes(t, disk, name)
	b[len(b)-1] ^= 1
	putFile(t, disk, name, b)
	r, _, err := OpenReader(disk, testDir, testID, 0)
	first, err := readAll(r, err)
	if len(first) == 0 || err == nil || err == io.EOF {
		t.Fatalf("%d frames, %v", len(first), err)
	}
	if _, again := r.Next(); again != err {
		t.Errorf("%v, and then %v", err, again)
	}
}

// A rangeFS notes which bytes of segments are written.
type rangeFS struct {
	vfs.Buffered
	written map[string]map[int64]bool // by name, the pages of readAhead bytes
}

type rangeFile struct {
	vfs.Plain
	pages map[int64]bool
}

func (r *rangeFS) OpenWrite(name string) (vfs.File, error) {
	f, err := r.FS.OpenWrite(name)
	if r.written[name] == nil {
		r.written[name] = make(map[int64]bool)
	}
	return &rangeFile{vfs.Only(f), r.written[name]}, err
}

func (f *rangeFile) WriteAt(b []byte, off int64) (int, error) {
	for at := off; at < off+int64(len(b)); at++ {
		f.pages[at/readAhead] = true
	}
	return f.File.WriteAt(b, off)
}

// TestLastGroupIsWrittenWhole: the last group may be longer than one read. All of it
// is written again when the log is opened, as any part may be missing on the disk.
func TestLastGroupIsWrittenWhole(t *testing.T) {
	disk := memfs.New()
	oneGroupEach(t, disk, 4*readAhead)
	fsys := &rangeFS{vfs.Through(kept(disk)), make(map[string]map[int64]bool)}
	l, _, err := Open(fsys, testDir, testID, Options{})
	must(t, err)
	must(t, l.Close())
	if pages := fsys.written[segmentPath(testDir, 1)]; len(pages) != 5 {
		t.Errorf("%d parts of 5 are written: %v", len(pages), pages)
	}
}
