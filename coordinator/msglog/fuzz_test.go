package msglog

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ckpt/internal/durable"
	"ckpt/internal/vfs/memfs"
)

// FuzzSegment takes arbitrary bytes for the last segment of a log, and for one
// before it. The checksums are made right first, or the fuzzer would never get
// past them.
//
//	go test ./coordinator/msglog -run xxx -fuzz FuzzSegment -fuzzminimizetime 1x
func FuzzSegment(f *testing.F) {
	names, _ := filepath.Glob("testdata/log/*.seg")
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(f, err)
		f.Add(b, true)
		f.Add(b, false)
		f.Add(b[:len(b)-9], true)
		last := append([]byte(nil), b[:headerSize]...)
		copy(last[24:32], "\xff\xff\xff\xff\xff\xff\xff\xff") // no number left
		f.Add(last, true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, b []byte, repair bool) {
		if len(b) > 1<<20 {
			return
		}
		if repair {
			b = repaired(b)
		}
		disk := memfs.New()
		must(t, disk.Mkdir(testDir))
		putFile(t, disk, segmentPath(testDir, 1), b)
		there, rec, err := readDir(disk, testDir, 0)
		checkFuzzed(t, b, there, rec, err)
		l, again, err2 := Open(disk, testDir, testID, Options{})
		if (err == nil) != (err2 == nil) {
			t.Fatalf("read: %v, opened: %v", err, err2)
		}
		if err2 != nil {
			return
		}
		if again.Next != rec.Next || again.CutBytes != rec.CutBytes {
			t.Fatalf("read %+v, opened %+v", rec, again)
		}
		// Now that its end is known it must be in order up to there.
		lsn, err := l.Append(frameOf(4))
		if err != nil || lsn != rec.Next {
			t.Fatalf("appended %d, %v", lsn, err)
		}
		must(t, l.Close())
		more, rec, err := readDir(disk, testDir, 0)
		if err != nil || len(more) != len(there)+1 || rec.CutBytes != 0 {
			t.Fatalf("%d frames, then %d, %v", len(there), len(more), err)
		}
	})
}

func checkFuzzed(t *testing.T, b []byte, there []numbered, rec Recovery, err error) {
	t.Helper()
	if err != nil {
		if !errors.As(err, new(*durable.DamageError)) && !errors.Is(err, durable.ErrNewerVersion) && !errors.Is(err, durable.ErrOtherJob) {
			t.Fatalf("error of no kind: %v", err)
		}
		return
	}
	// Accepted frames have one encoding.
	size := int64(headerSize)
	for _, f := range there {
		size += f.size
		if err := check(&f.Frame); err != nil && f.Kind != 0 {
			t.Fatal(err)
		}
	}
	if size+rec.CutBytes != int64(len(b)) {
		t.Fatalf("%d frames of %d bytes, %d cut, of %d", len(there), size, rec.CutBytes, len(b))
	}
}

// repaired makes a sound header and the checksums of the frames right, as far as
// their lengths lead.
func repaired(b []byte) []byte {
	if len(b) < headerSize {
		return b
	}
	le := binary.LittleEndian
	b = append([]byte(nil), b...)
	first := max(le.Uint64(b[24:]), 1)
	h := header{id: testID, number: 1, first: LSN(first)}
	copy(b, h.encode())
	salt := le.Uint32(b[headerCRCAt:])
	for at := int64(headerSize); int64(len(b))-at >= frameHead; {
		x := b[at:]
		n := int64(le.Uint32(x[40:]))
		if n <= int64(len(x))-frameHead {
			le.PutUint32(x[4:], durable.Sum(x[frameHead:frameHead+n]))
		}
		le.PutUint32(x, headCRC(x, salt))
		at += frameHead + padded(int(min(n, int64(len(x)))))
	}
	return b
}
