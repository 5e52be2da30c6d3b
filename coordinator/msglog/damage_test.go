package msglog

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// smallLog has three segments of several groups each; it returns the frames,
// where the last group begins, and which frames are in it.
func smallLog(t testing.TB) (disk *memfs.FS, frames []numbered, lastGroup int64) {
	t.Helper()
	disk = memfs.New()
	l, _, err := Open(disk, testDir, testID, Options{SegmentBytes: 500})
	must(t, err)
	n := 0
	for group := range 8 {
		lastGroup = l.segs[len(l.segs)-1].end
		for range 1 + group%3 {
			f := frameOf(n)
			f.Message.Data = f.Message.Data[:min(len(f.Message.Data), 40)]
			lsn, err := l.Append(f)
			must(t, err)
			frames = append(frames, numbered{lsn: lsn, Frame: f})
			n++
		}
		must(t, l.Commit(context.Background()))
	}
	if len(l.segs) != 3 || lastGroup == headerSize || lastGroup >= 500 {
		t.Fatalf("%d segments, the last group at %d", len(l.segs), lastGroup)
	}
	must(t, l.Close())
	return kept(disk), frames, lastGroup
}

// isPrefix checks that a log that could be read holds the first of the frames.
func isPrefix(t *testing.T, where string, there, frames []numbered) {
	t.Helper()
	if len(there) > len(frames) {
		t.Fatalf("%s: %d frames, %d were written", where, len(there), len(frames))
	}
	for i, f := range there {
		if f.lsn != frames[i].lsn || !sameFrame(f.Frame, frames[i].Frame) {
			t.Fatalf("%s: frame %d is not what was written", where, f.lsn)
		}
	}
}

// TestFlips flips every bit of a log. In all but the last group that is damage,
// and named; in the last group, which may be torn, what lies before it remains.
func TestFlips(t *testing.T) {
	if testkit.Enabled {
		t.Skip("one goroutine; .ci/run does it without the race detector")
	}
	disk, frames, lastGroup := smallLog(t)
	damages, cuts := 0, 0
	for number := range uint64(3) {
		name := segmentPath(testDir, number+1)
		b := fileBytes(t, disk, name)
		for bit := range 8 * len(b) {
			at := int64(bit / 8)
			b[at] ^= 1 << (bit % 8)
			putFile(t, disk, name, b)
			b[at] ^= 1 << (bit % 8)
			there, rec, err := readDir(disk, testDir, 0)
			isPrefix(t, name, there, frames)
			torn := number == 2 && at >= lastGroup
			var damage *durable.DamageError
			switch {
			case torn && err == nil:
				if rec.CutBytes != int64(len(b))-rec.CutOffset || rec.CutOffset > at || rec.CutOffset < lastGroup || len(there) == len(frames) || rec.CutReason == "" {
					t.Fatalf("%s, bit %d: %+v, %d frames", name, bit, rec, len(there))
				}
				cuts++
			case !torn && errors.As(err, &damage):
				if damage.File != name || damage.Offset > at || damage.Reason == "" {
					t.Fatalf("bit %d of %s: %v", bit, name, err)
				}
				damages++
			case !torn && at < 16 && errors.Is(err, durable.ErrNewerVersion):
			default:
				t.Fatalf("bit %d of %s: %v, %+v", bit, name, err, rec)
			}
		}
		putFile(t, disk, name, b)
	}
	t.Logf("%d flips found, %d in the last group cut away", damages, cuts)
}

// TestTruncations cuts every file of a log to every length.
func TestTruncations(t *testing.T) {
	disk, frames, _ := smallLog(t)
	for number := range uint64(3) {
		name := segmentPath(testDir, number+1)
		b := fileBytes(t, disk, name)
		for size := range len(b) {
			putFile(t, disk, name, b[:size])
			there, rec, err := readDir(disk, testDir, 0)
			isPrefix(t, name, there, frames)
			if number < 2 || size < headerSize {
				var damage *durable.DamageError
				if !errors.As(err, &damage) || damage.File != name || damage.Offset > int64(size) {
					t.Fatalf("%s cut to %d bytes: %v", name, size, err)
				}
				continue
			}
			if err != nil || rec.CutOffset > int64(size) || rec.CutBytes > 0 && rec.CutOffset+rec.CutBytes != int64(size) {
				t.Fatalf("%s cut to %d bytes: %v, %+v", name, size, err, rec)
			}
			// Opening it for writing finds the same, and then it is in order.
			opened := kept(disk)
			l, again, err := Open(opened, testDir, testID, Options{})
			must(t, err)
			must(t, l.Close())
			if again.Next != rec.Next || again.CutBytes != rec.CutBytes {
				t.Fatalf("%s cut to %d bytes: %+v, then %+v", name, size, rec, again)
			}
			after, rec, err := readDir(opened, testDir, 0)
			if err != nil || len(after) != len(there) || rec.CutBytes != 0 {
				t.Fatalf("%s cut to %d bytes: %d frames, then %d, %+v, %v", name, size, len(there), len(after), rec, err)
			}
		}
		putFile(t, disk, name, b)
	}
}

// TestStray has what else may lie in the directory of a log.
func TestStray(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(disk *memfs.FS)
		want  string
	}{
		"missing":      {func(disk *memfs.FS) { must(t, disk.Remove("/log/00000002.seg")) }, "/log/00000002.seg is damaged at offset 0: the segment is missing, 3 is there"},
		"renamed":      {func(disk *memfs.FS) { must(t, disk.Rename("/log/00000003.seg", "/log/00000004.seg")) }, "/log/00000003.seg is damaged at offset 0: the segment is missing, 4 is there"},
		"another's":    {func(disk *memfs.FS) { putFile(t, disk, "/log/00000003.seg", fileBytes(t, disk, "/log/00000002.seg")) }, "/log/00000003.seg is damaged at offset 0: it is segment 2"},
		"debris":       {func(disk *memfs.FS) { putFile(t, disk, "/log/00000009.seg.tmp", []byte("x")) }, ""},
		"notes":        {func(disk *memfs.FS) { putFile(t, disk, "/log/notes.txt", []byte("x")) }, ""},
		"not a number": {func(disk *memfs.FS) { putFile(t, disk, "/log/4.seg", []byte("x")) }, ""},
		"empty":        {func(disk *memfs.FS) { putFile(t, disk, "/log/00000004.seg", nil) }, "/log/00000004.seg is damaged at offset 0: no header of a message log"},
	} {
		t.Run(name, func(t *testing.T) {
			disk, _, _ := smallLog(t)
			c.spoil(disk)
			before := disk.Digest()
			l, _, err := Open(disk, testDir, testID, Options{})
			if err == nil {
				must(t, l.Close())
			}
			if got := text(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if err != nil && disk.Digest() != before {
				t.Error("something was changed")
			}
			if _, err := disk.Stat("/log/00000009.seg.tmp"); err == nil {
				t.Error("debris was left")
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestOthers opens logs that are not ours.
func TestOthers(t *testing.T) {
	disk, _, _ := smallLog(t)
	for _, id := range []ID{{Job: "bt.S.4", Rank: 3}, {Job: "lu.S.4", Rank: 2}} {
		if _, _, err := Open(disk, testDir, id, Options{}); !errors.Is(err, durable.ErrOtherJob) || !strings.Contains(err.Error(), "rank 2 of job bt.S.4") {
			t.Errorf("%v: %v", id, err)
		}
	}
	for _, id := range []ID{{Rank: 1}, {Job: "x", Rank: -1}, {Job: strings.Repeat("x", 129), Rank: 1}, {Job: "x", Digest: "none"}} {
		if _, _, err := Open(disk, testDir, id, Options{}); err == nil {
			t.Errorf("%v is accepted", id)
		}
	}
	another := ID{Job: testID.Job, Rank: testID.Rank, Digest: strings.Repeat("0", 64)}
	if _, _, err := Open(disk, testDir, another, Options{}); !errors.Is(err, durable.ErrOtherJob) || !strings.Contains(err.Error(), "had this name") {
		t.Errorf("a job of the same name: %v", err)
	}
	l, _, err := Open(disk, testDir, testID, Options{})
	must(t, err)
	if _, _, err := Open(disk, testDir, testID, Options{}); !errors.Is(err, ErrInUse) || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	must(t, l.Close())
	if _, _, err := OpenReader(disk, "/", testID, 0); err == nil {
		t.Error("read where there is no log")
	}
}

// TestNewerVersion leaves alone what it cannot know.
func TestNewerVersion(t *testing.T) {
	disk, _, _ := smallLog(t)
	name := segmentPath(testDir, 3)
	b := fileBytes(t, disk, name)
	b[8] = formatVersion + 1
	binary.LittleEndian.PutUint32(b[headerCRCAt:], durable.Sum(b[:headerCRCAt]))
	putFile(t, disk, name, b)
	if _, _, err := Open(disk, testDir, testID, Options{}); !errors.Is(err, durable.ErrNewerVersion) || !strings.Contains(err.Error(), filepath.Base(name)) {
		t.Error(err)
	}
}

// TestLongPayload has a head that promises more than there is: it is believed in
// neither case, and no memory is held for it.
func TestLongPayload(t *testing.T) {
	disk, frames, _ := smallLog(t)
	name := segmentPath(testDir, 3)
	whole := fileBytes(t, disk, name)
	salt := binary.LittleEndian.Uint32(whole[headerCRCAt:])
	b := appendFrame(nil, &channel.Frame{Kind: channel.Received}, frames[len(frames)-1].lsn+1, 0)
	binary.LittleEndian.PutUint32(b[40:], MaxPayload)
	le := binary.LittleEndian
	le.PutUint64(b[16:], uint64(len(whole)))
	le.PutUint32(b, headCRC(b, salt))
	putFile(t, disk, name, append(whole, b...))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	there, rec, err := readDir(disk, testDir, 0)
	runtime.ReadMemStats(&after)
	must(t, err)
	if len(there) != len(frames) || rec.CutBytes != frameHead || !strings.Contains(rec.CutReason, "2147483647 bytes is cut short") {
		t.Errorf("%d frames, %+v", len(there), rec)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
	// The next frame shows that it was durable, and so the log is damaged.
	next := appendFrame(nil, &channel.Frame{Kind: channel.Determined}, frames[len(frames)-1].lsn+2, 0)
	seal(next, int64(len(whole)+len(b)), salt)
	putFile(t, disk, name, append(append(whole, b...), next...))
	_, _, err = readDir(disk, testDir, 0)
	var damage *durable.DamageError
	if !errors.As(err, &damage) || damage.Offset != int64(len(whole)) {
		t.Error(err)
	}
}

// TestHostileFrames has frames with a right checksum and wrong fields.
func TestHostileFrames(t *testing.T) {
	disk, frames, _ := smallLog(t)
	name := segmentPath(testDir, 3)
	whole := fileBytes(t, disk, name)
	salt := binary.LittleEndian.Uint32(whole[headerCRCAt:])
	le := binary.LittleEndian
	for reason, spoil := range map[string]func(b []byte){
		"field of the frame's head is out of range":                        func(b []byte) { b[55] = 1 },
		"kind 9 of a frame is unknown":                                     func(b []byte) { b[52] = 9 },
		"context 7 of a frame is unknown":                                  func(b []byte) { b[54] = 7 },
		"peer -3 of a frame is no rank":                                    func(b []byte) { le.PutUint32(b[44:], 0xfffffffd) },
		"it is frame 99, not 16":                                           func(b []byte) { le.PutUint64(b[8:], 99) },
		"its group begins at 272, not here and not where the last one did": func(b []byte) { le.PutUint64(b[16:], 272) },
		"checksum of the payload does not match":                           func(b []byte) { le.PutUint32(b[4:], 1) },
	} {
		b := appendFrame(nil, &channel.Frame{Kind: channel.Determined}, frames[len(frames)-1].lsn+1, 0)
		le.PutUint64(b[16:], uint64(len(whole)))
		spoil(b)
		le.PutUint32(b, headCRC(b, salt))
		putFile(t, disk, name, append(whole[:len(whole):len(whole)], b...))
		there, rec, err := readDir(disk, testDir, 0)
		if reason == "checksum of the payload does not match" { // that may have been cut short
			if err != nil || len(there) != len(frames) || rec.CutReason != reason || rec.CutBytes != frameHead {
				t.Errorf("want %s, got %+v, %v", reason, rec, err)
			}
			continue
		}
		if damage := new(durable.DamageError); !errors.As(err, &damage) || damage.Reason != reason || damage.Offset != int64(len(whole)) {
			t.Errorf("want damage: %s, got %v", reason, err)
		}
	}
}

// TestIdle opens a log again and again and writes nothing: no files pile up.
func TestIdle(t *testing.T) {
	disk, frames, _ := smallLog(t)
	for range 5 {
		l, rec, err := Open(disk, testDir, testID, Options{})
		must(t, err)
		if rec.Segments != 4 || rec.First != 1 || int(rec.Next) != len(frames)+1 {
			t.Fatalf("%+v", rec)
		}
		must(t, l.Close())
	}
}
