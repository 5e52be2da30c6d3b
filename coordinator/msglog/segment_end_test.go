package msglog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
)

// TestBehindTheEnd: the header of the next segment says where a segment ends. A
// sound frame behind that was lost before, and is not read.
func TestBehindTheEnd(t *testing.T) {
	disk, frames, _ := smallLog(t)
	name := segmentPath(testDir, 1)
	b := fileBytes(t, disk, name)
	next, err := readHeader(disk, segmentPath(testDir, 2))
	must(t, err)
	lost := appendFrame(nil, &channel.Frame{Kind: channel.Determined}, next.first, 0)
	seal(lost, int64(len(b)), binary.LittleEndian.Uint32(b[headerCRCAt:]))
	putFile(t, disk, name, append(b, lost...))
	there, _, err := readDir(disk, testDir, 0)
	isPrefix(t, name, there, frames)
	if err != nil || len(there) != len(frames) {
		t.Errorf("%d frames of %d, %v", len(there), len(frames), err)
	}
}

// TestShortOfTheEnd: a segment that does not reach to where the next one says it
// ends is damaged where its file ends, however well its frames read.
func TestShortOfTheEnd(t *testing.T) {
	disk, frames, _ := smallLog(t)
	name := segmentPath(testDir, 1)
	b := fileBytes(t, disk, name)
	cut := headerSize + frameHead + padded(payloadSize(&frames[0].Frame)) // behind the first frame
	putFile(t, disk, name, b[:cut])
	there, _, err := readDir(disk, testDir, 0)
	var damage *durable.DamageError
	want := fmt.Sprintf("file is %d bytes long and should be %d", cut, len(b))
	if !errors.As(err, &damage) || damage.File != name || damage.Offset != cut || damage.Reason != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(there) != 0 {
		t.Errorf("%d frames were read", len(there))
	}
}
