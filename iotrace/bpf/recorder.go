//go:build linux && amd64

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// A Recorder records the commands that this process starts.
type Recorder struct {
	memory   *memory
	attached *attached
	reader   *ringbuf.Reader
}

// Open asks the kernel to record. The error says why it cannot.
func Open() (*Recorder, error) {
	if err := allowed(); err != nil {
		return nil, err
	}
	m, err := newMemory()
	if err != nil {
		return nil, explain(err)
	}
	r := &Recorder{memory: m}
	if r.attached, err = attach(m); err != nil {
		r.Close()
		return nil, explain(err)
	}
	if r.reader, err = ringbuf.NewReader(m.ring); err != nil {
		r.Close()
		return nil, err
	}
	// The kernel knows the recorder by its first thread.
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		r.Close()
		return nil, err
	}
	defer unix.Close(fd)
	state := make([]byte, stateSize)
	binary.LittleEndian.PutUint32(state[stateRole:], roleRecorder)
	if err := m.states.Put(uint32(fd), state); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// allowed tells early that rights are missing: later errors name other reasons.
func allowed() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	own := strings.Join(strings.Fields(string(users)), " ") != "0 0 4294967295" // root only of a namespace
	if own || data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return explain(unix.EPERM)
	}
	return nil
}

// explain adds the remedy if rights are missing.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("root of the machine is needed, or the capability SYS_ADMIN: %w", err)
	}
	return err
}

// Close ends the recording.
func (r *Recorder) Close() {
	if r.reader != nil {
		r.reader.Close()
	}
	if r.attached != nil {
		r.attached.close()
	}
	r.memory.close()
}

// arm has the next processes of the recorder recorded, or not.
func (r *Recorder) arm(yes uint64) error { return r.memory.armed.Put(uint32(0), yes) }

// lost counts the records that found the ring full.
func (r *Recorder) lost() (n int64) {
	if err := r.memory.lost.Lookup(uint32(0), &n); err != nil {
		return 0
	}
	return n
}
