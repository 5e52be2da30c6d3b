// Package slowfs is a file system as slow as a disk that is described. Processes that are
// given the same directory share the disk: it has one arm, which serves one piece of an
// operation at a time, in the order in which they come, and moves between files.
//
//	fsys, err := slowfs.FromEnvironment(os.Getenv)   // the machine's, without a described disk
//
// It makes visible on a fast disk, or in memory, what several jobs do to each other on a
// slow one. The bytes go to the file system beneath as they would without it.
//
// Promises:
//
//   - Together, all processes move no more bytes in a time than the disk would. An operation
//     that would take longer beneath takes as long as it does there.
//   - A large operation is cut into pieces of Model.Unit. Pieces of several processes alternate.
//   - A piece that does not continue the one before it, in the same file, costs a seek.
//   - A process that dies or is stopped, whenever that happens, holds up no other: the state is
//     one word of shared memory, and whoever changes it does so in one step.
//   - Files keep all abilities of package vfs that they have beneath.
//
// A file outside the directory is as fast as it is beneath.
package slowfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// Variable is the environment variable that describes the disk of a process, and of those
// that it starts.
const Variable = "CKPT_SLOW_DISK"

// A Model says how slow a disk is.
type Model struct {
	Dir  string        // whose files are on the disk
	Rate float64       // bytes per second, writing
	Read float64       // bytes per second, reading
	Seek time.Duration // from one place to another
	Unit int64         // bytes that are served at a time
}

// DefaultUnit is the largest request of many disks.
const DefaultUnit = 1 << 20

// The bounds keep a piece from taking longer than maxPiece.
const (
	minRate  = 10e3
	maxRate  = 1e12
	maxSeek  = 10 * time.Second
	minUnit  = 4096
	maxUnit  = 1 << 30
	maxPiece = time.Minute
)

// Parse reads a description: a rate, and then settings,
//
//	50MB/s,read=60MB/s,seek=9ms,unit=1MiB,dir=/scratch/x
//
// of which dir, the last, takes the rest of the text. All but the rate may be left out; a
// Model without Dir serves as a part of one.
func Parse(text string) (Model, error) {
	m := Model{Unit: DefaultUnit}
	rest, dir, found := strings.Cut(text, ",dir=")
	if found {
		if !filepath.IsAbs(dir) {
			return m, fmt.Errorf("slow disk %q: directory %q is not absolute: give its full name", text, dir)
		}
		m.Dir = filepath.Clean(dir)
	}
	for i, word := range strings.Split(rest, ",") {
		if err := m.set(i, word); err != nil {
			return m, fmt.Errorf("slow disk %q: %w: write 50MB/s,read=60MB/s,seek=9ms,unit=1MiB,dir=/scratch", text, err)
		}
	}
	if m.Rate == 0 {
		return m, fmt.Errorf("slow disk %q: the rate is missing: begin with one, like 50MB/s", text)
	}
	if m.Read == 0 {
		m.Read = m.Rate
	}
	if slowest := min(m.Rate, m.Read); m.Seek.Seconds()+float64(m.Unit)/slowest > maxPiece.Seconds() {
		return m, fmt.Errorf("slow disk %q: a piece of %d bytes takes more than %v: make unit smaller", text, m.Unit, maxPiece)
	}
	return m, nil
}

// set reads one word of a description.
func (m *Model) set(i int, word string) (err error) {
	key, value, _ := strings.Cut(strings.TrimSpace(word), "=")
	if i == 0 && value == "" {
		key, value = "rate", key
	}
	switch key {
	case "rate":
		m.Rate, err = parseRate(value)
	case "read":
		m.Read, err = parseRate(value)
	case "seek":
		if m.Seek, err = wording.Duration(value); err == nil && (m.Seek < 0 || m.Seek > maxSeek) {
			err = fmt.Errorf("want 0 to %v", maxSeek)
		}
	case "unit":
		if m.Unit, err = wording.Size(value); err == nil && (m.Unit < minUnit || m.Unit > maxUnit) {
			err = errors.New("want 4KiB to 1GiB")
		}
	default:
		return fmt.Errorf("unknown setting %q", word)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", key, value, err)
	}
	return nil
}

// parseRate reads bytes per second, as 50MB/s or 50MB.
func parseRate(text string) (float64, error) {
	n, err := wording.Size(strings.TrimSuffix(text, "/s"))
	if err == nil && (float64(n) < minRate || float64(n) > maxRate) {
		err = errors.New("want 10kB/s to 1TB/s")
	}
	return float64(n), err
}

// String describes the disk as Parse takes it.
func (m Model) String() string {
	text := fmt.Sprintf("%.0fB/s,read=%.0fB/s,seek=%v,unit=%d", m.Rate, m.Read, m.Seek, m.Unit)
	if m.Dir != "" {
		text += ",dir=" + m.Dir
	}
	return text
}

// cost is how long the disk takes for a piece.
func (m *Model) cost(n int64, write, seeks bool) time.Duration {
	rate := m.Read
	if write {
		rate = m.Rate
	}
	t := time.Duration(float64(n) / rate * float64(time.Second))
	if seeks {
		t += m.Seek
	}
	return t
}

// FromEnvironment returns the file system that Variable asks for: the machine's, or that of
// a slow disk. A description that is wrong is an error, since measurements depend on it.
func FromEnvironment(getenv func(string) string) (vfs.FS, error) {
	text := getenv(Variable)
	if text == "" {
		return vfs.OS{}, nil
	}
	m, err := Parse(text)
	if err == nil && m.Dir == "" {
		err = fmt.Errorf("slow disk %q: a directory is missing: add dir=/scratch", text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Variable, err)
	}
	return Open(vfs.OS{}, m)
}
