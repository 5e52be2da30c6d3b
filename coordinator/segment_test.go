package coordinator

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// envMeet names a directory in which the ranks of a test tell each other how far they are.
const envMeet = "CKPT_TEST_MEET"

// A meetingDisk has rank 1 begin when rank 0 has read its image, and rank 0 go on when
// rank 1 has opened the shared memory of their node.
type meetingDisk struct {
	vfs.Buffered
	dir  string
	last bool // rank 1
}

func newMeetingDisk(dir string) meetingDisk {
	return meetingDisk{vfs.Through(vfs.OS{}), dir, os.Getenv(wire.EnvRank) == "1"}
}

// come says that the others may go on.
func (d meetingDisk) come(place string) {
	_ = os.WriteFile(filepath.Join(d.dir, place), nil, 0o600)
}

// await waits until the other rank has come, for a minute at most. TestDamagedSegment
// notices if it has not.
func (d meetingDisk) await(place string) {
	for range 6000 {
		if _, err := os.Stat(filepath.Join(d.dir, place)); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (d meetingDisk) arrive(name string) {
	switch {
	case !d.last:
	case filepath.Base(name) == "manifest":
		d.come("opened") // the segment has been opened by now
	default:
		d.await("read")
	}
}

func (d meetingDisk) Stat(name string) (fs.FileInfo, error) { d.arrive(name); return d.FS.Stat(name) }

func (d meetingDisk) Open(name string) (vfs.File, error) {
	d.arrive(name)
	f, err := d.FS.Open(name)
	if err == nil && !d.last && filepath.Base(name) == "rank-0.img" {
		f = meetingFile{vfs.Only(f), d}
	}
	return f, err
}

type meetingFile struct {
	vfs.Plain
	disk meetingDisk
}

func (f meetingFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	if bytes.Contains(b[:n], []byte(damagedMagic)) {
		f.disk.come("read")
		f.disk.await("opened")
	}
	return n, err
}

const segmentMagic, damagedMagic = "CKPTSEG\n", "CKPTSEG\r"

// TestDamagedSegment: a rank that opens the shared memory of its node, while another one
// finds that its image is damaged, finds a whole segment. The error names the image.
func TestDamagedSegment(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.2", 1)
	s.Schedule.Count, s.Codec = 1, "none"
	_, _, opt := mustLaunch(t, s, Options{Job: "meeting"})
	damaged := filepath.Join(opt.Store, "jobs", opt.Job, "0001", "rank-0.img")
	b, err := os.ReadFile(damaged)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(segmentMagic)); n != 1 {
		t.Fatalf("%d segments in the image, want 1", n)
	}
	if err := os.WriteFile(damaged, bytes.Replace(b, []byte(segmentMagic), []byte(damagedMagic), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	forRank(t, opt.Job, envMeet, dir)
	_, err = Restart(t.Context(), RestartOptions{Options: opt})
	places := 0
	for _, place := range []string{"read", "opened"} {
		if _, err := os.Stat(filepath.Join(dir, place)); err == nil {
			places++
		}
	}
	damage := new(durable.DamageError)
	if !errors.As(err, &damage) || !strings.HasSuffix(damage.File, "rank-0.img") || places != 2 {
		t.Errorf("%d places reached, want 2; %v", places, err)
	}
}
