package coordinator

import (
	"errors"
	"strings"
	"testing"

	"ckpt/coordinator/launch"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// fullDisk says that it is full. Writing works all the same.
type fullDisk struct{ vfs.FS }

func (fullDisk) Free(string) (int64, error) { return 0, nil }

// TestNoFreeSpace aborts every second checkpoint before anything is written. No
// rank must get to write it: it would find no directory, and the user another
// reason than the disk.
func TestNoFreeSpace(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Schedule.Every = 1
	r, rec, _ := mustLaunch(t, s, Options{FS: fullDisk{vfs.OS{}}})
	lost := eventsOf[*AbortedEvent](rec)
	if r.Lost == 0 || len(lost) != r.Lost {
		t.Errorf("%d checkpoints lost, %d told", r.Lost, len(lost))
	}
	for _, e := range lost {
		if !strings.Contains(e.Reason, "storage is full") {
			t.Errorf("checkpoint %d was aborted: %s", e.Number, e.Reason)
		}
	}
}

// TestNoRoomInFlight refuses checkpoints in flight whose storage cannot hold them, before anything
// starts.
func TestNoRoomInFlight(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Async, s.InFlight = true, 4
	_, err := Launch(t.Context(), s, Options{Store: t.TempDir(), Job: "job", FS: fullDisk{vfs.OS{}}, Observer: &recorder{t: t}})
	var room *launch.RoomError
	if !errors.As(err, &room) || room.Versions != 5 || !errors.Is(err, durable.ErrStorageFull) {
		t.Errorf("%v, want a refusal of 5 versions", err)
	}
}
