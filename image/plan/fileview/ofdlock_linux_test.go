package fileview_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/image/plan/fileview"
)

const (
	ofdBlock  = 24
	ofdBlocks = 20
	ofdRounds = 40
)

// dawdler is a file that leaves others time between read and write.
type dawdler struct{ *os.File }

func (d dawdler) ReadAt(p []byte, off int64) (int, error) {
	defer time.Sleep(20 * time.Microsecond)
	return d.File.ReadAt(p, off)
}

// writeInterleaved writes, rounds times, the blocks of one of several writers to
// a file opened for it, under OFD locks. All accesses join over the blocks of
// the others.
func writeInterleaved(name string, writer, writers, goroutines int) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	lock, err := fileview.NewOFDLock(file)
	if err != nil {
		return err
	}
	errs := make([]error, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		who, of := int64(writer*goroutines+g), int64(writers*goroutines)
		v, err := fileview.NewView(who*ofdBlock, []fileview.Tuple{{Size: ofdBlock, Hole: (of - 1) * ofdBlock}}, ofdBlocks)
		if err != nil {
			return err
		}
		f, err := fileview.NewFile(dawdler{file}, v, fileview.Options{Rule: fileview.Extent, Buffer: 700, Locker: lock})
		if err != nil {
			return err
		}
		wg.Go(func() {
			last, got := make([]byte, ofdBlock*ofdBlocks), make([]byte, ofdBlock*ofdBlocks)
			for round := range ofdRounds {
				// Nobody else has these bytes to write.
				if n, err := f.ReadAt(got, 0); err != nil && err != io.EOF || !bytes.Equal(got[:n], last[:n]) {
					errs[g] = fmt.Errorf("round %d: the bytes of the round before are gone, or %w", round, err)
					return
				}
				last = bytes.Repeat([]byte{byte(1 + int(who) + round*int(of))}, len(last))
				if _, err := f.WriteAt(last, 0); err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkInterleaved fails if a byte of the file is not of the last round.
func checkInterleaved(t *testing.T, name string, writers int) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if want := ofdBlock * ofdBlocks * writers; len(got) != want {
		t.Fatalf("the file has %d bytes, want %d", len(got), want)
	}
	lost := 0
	for i, b := range got {
		if who := i / ofdBlock % writers; b != byte(1+who+(ofdRounds-1)*writers) {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d bytes are not of the last round", lost, len(got))
	}
}

// Two open files in one process, with two goroutines each.
func TestOFDLockDescriptors(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "shared")
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			if err := writeInterleaved(name, w, 2, 2); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	checkInterleaved(t, name, 4)
}

const writerEnv = "FILEVIEW_TEST_WRITER"

// Two processes. Each is this test binary, told by its environment to be one.
func TestOFDLockProcesses(t *testing.T) {
	if w := os.Getenv(writerEnv); w != "" {
		var name string
		var writer int
		if _, err := fmt.Sscanf(w, "%d %s", &writer, &name); err != nil {
			t.Fatal(err)
		}
		if err := writeInterleaved(name, writer, 2, 2); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "shared")
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestOFDLockProcesses$")
			cmd.Env = append(os.Environ(), writerEnv+"="+strconv.Itoa(w)+" "+name)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %d: %v\n%s", w, err, out)
			}
		})
	}
	wg.Wait()
	checkInterleaved(t, name, 4)
}

// The lock covers the bytes asked for and no others, for another open file, and
// it is gone after unlock.
func TestOFDLockRange(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	mine, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	other, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	free := func(off, n int64) bool {
		l := unix.Flock_t{Type: unix.F_RDLCK, Start: off, Len: n}
		if err := unix.FcntlFlock(other.Fd(), unix.F_OFD_GETLK, &l); err != nil {
			t.Fatal(err)
		}
		return l.Type == unix.F_UNLCK
	}
	lock, err := fileview.NewOFDLock(mine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.LockRange(0, 0); err == nil {
		t.Error("locked no bytes, which to the kernel are all")
	}
	unlock, err := lock.LockRange(10, 5)
	if err != nil {
		t.Fatal(err)
	}
	if !free(0, 10) || free(10, 1) || free(14, 1) || !free(15, 0) {
		t.Error("not bytes 10 to 14 are locked")
	}
	unlock()
	if !free(0, 0) {
		t.Error("locked after unlock")
	}
	mine.Close()
	if _, err := lock.LockRange(10, 5); err == nil {
		t.Error("locked a closed file")
	}
}
