package objectfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckpt/internal/vfs"
)

// A lock is an object with a lease. Its holder writes it again and again; each writing depends
// on the one before (If-Match), so that a holder that lost it cannot. Whether a lease has run
// out is judged by the clock of the storage alone.
const (
	leaseTime = 30 * time.Second
	// leaseSlack is more than the rounding of the times that a storage tells.
	leaseSlack = 2 * time.Second
)

// ErrFenced says that another process has taken a lock over.
var ErrFenced = errors.New("the lease of the lock has run out, and another process has taken it over")

// A holding is what the object of a lock says.
type holding struct {
	Fence    int64  `json:"fence"` // grows with each holder
	Host     string `json:"host"`
	Process  string `json:"process"` // tells, on its host, whether the holder lives
	PID      int    `json:"pid"`
	Seconds  int64  `json:"lease_s"`
	Released bool   `json:"released,omitempty"`
	Renewed  int64  `json:"renewed"` // how often
}

// A Lease is a lock that this process has.
type Lease struct {
	fs   *FS
	key  string
	name string
	stop func()

	mu     sync.Mutex
	is     holding
	tag    string
	at     time.Time // when it was written, by the clock of the storage
	lost   bool
	closed bool

	contested bool
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	l, err := f.lock(name)
	if err != nil {
		return nil, failed("lock", name, err)
	}
	return l, nil
}

func (f *FS) lock(name string) (*Lease, error) {
	key, err := f.key(name)
	if err == nil {
		err = f.parent(key)
	}
	if err != nil {
		return nil, err
	}
	key += leaseSuffix
	was, o, err := f.holding(key)
	when := Condition{Tag: o.Tag}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		when = Condition{New: true}
	case err != nil:
		return nil, err
	case !was.free(o):
		return nil, fmt.Errorf("%w: process %d of host %s, whose lease lasts for %v more", vfs.ErrLocked, was.PID, was.Host, was.left(o))
	}
	l := &Lease{fs: f, key: key, name: name, tag: when.Tag, contested: !when.New && !was.Released,
		is: holding{Fence: max(was.Fence+1, time.Now().Unix()), PID: os.Getpid(), Process: self(), Seconds: int64(f.ttl / time.Second)}}
	l.is.Host, _ = os.Hostname()
	if err := l.write(when); err != nil {
		if errors.Is(err, ErrPrecondition) {
			err = vfs.ErrLocked // somebody was faster
		}
		return nil, err
	}
	f.mu.Lock()
	f.leases[key] = l
	f.mu.Unlock()
	f.abortOld(below(above(key)), l.at)
	l.stop = func() {}
	if f.each != nil {
		l.stop = f.each(f.ttl/3, func() { _ = l.Renew() })
	}
	return l, nil
}

// abandoned is how old an upload is that nobody completes any more.
const abandoned = 24 * time.Hour

// abortOld aborts the uploads below a directory that nobody completes any more. Where that fails
// they take space, and the next holder tries again.
func (f *FS) abortOld(prefix string, now time.Time) {
	all, err := f.c.uploads(background(), prefix)
	if err != nil {
		return
	}
	for _, u := range all {
		if now.Sub(u.Begun) > abandoned {
			_ = f.c.abort(background(), u.Key, u.ID)
		}
	}
}

// holding reads the object of a lock.
func (f *FS) holding(key string) (h holding, o Object, err error) {
	b := make([]byte, 4096)
	o, n, err := f.c.get(background(), key, b, 0, "")
	if err == nil {
		if jerr := json.Unmarshal(b[:n], &h); jerr != nil {
			err = fmt.Errorf("the object %s is no lock: %w", key, jerr)
		}
	}
	return h, o, err
}

// left returns how long a lease lasts.
func (h *holding) left(o Object) time.Duration {
	return time.Duration(h.Seconds)*time.Second + leaseSlack - o.Now.Sub(o.Modified)
}

// free reports whether a lock may be taken: it was given back, its lease has run out, or its
// holder has died on this host.
func (h *holding) free(o Object) bool {
	return h.Released || h.left(o) <= 0 || died(h.Process)
}

// Locked implements vfs.FS.
func (f *FS) Locked(name string) (bool, error) {
	key, err := f.key(name)
	if err == nil {
		var locked bool
		if locked, err = f.lockedAt(key + leaseSuffix); err == nil {
			return locked, nil
		}
	}
	return false, failed("lock", name, err)
}

func (f *FS) lockedAt(key string) (bool, error) {
	h, o, err := f.holding(key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && !h.free(o), err
}

// write writes the object of the lock. The caller holds l.mu, or has the only reference.
func (l *Lease) write(when Condition) error {
	l.is.Renewed++
	b, err := json.Marshal(l.is)
	if err != nil {
		return err
	}
	o, err := l.fs.c.put(background(), l.key, append(b, '\n'), when)
	if err != nil {
		return err
	}
	if o.Modified.IsZero() || o.Tag == "" {
		if o, err = l.fs.c.head(background(), l.key); err != nil {
			return err
		}
	}
	l.tag, l.at = o.Tag, o.Modified
	return nil
}

// Fence returns the number of the holder, which is larger than those of all before it.
func (l *Lease) Fence() int64 { return l.is.Fence }

// Contested reports whether the holder before may live, and not know yet that its lease has run
// out, or died with requests on their way.
func (l *Lease) Contested() bool { return l.contested }

// Renew makes sure that this process still has the lock. It fails with ErrFenced if another one
// has taken it.
func (l *Lease) Renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost:
		return failed("renew", l.name, ErrFenced)
	case l.closed:
		return failed("renew", l.name, fs.ErrClosed)
	}
	err := l.write(Condition{Tag: l.tag})
	if errors.Is(err, ErrPrecondition) || errors.Is(err, fs.ErrNotExist) {
		l.lost, err = true, ErrFenced
	}
	return failed("renew", l.name, err)
}

// Close gives the lock back.
func (l *Lease) Close() error {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fs.mu.Lock()
	if l.fs.leases[l.key] == l {
		delete(l.fs.leases, l.key)
	}
	l.fs.mu.Unlock()
	if l.closed || l.lost {
		return nil
	}
	l.closed, l.is.Released = true, true
	err := l.write(Condition{Tag: l.tag})
	if errors.Is(err, ErrPrecondition) || errors.Is(err, fs.ErrNotExist) {
		err = nil // it was somebody else's already, or has gone with its directory
	}
	return failed("unlock", l.name, err)
}

// mayRemove checks that an object, as it was looked at this moment, is no successor's: below the
// directory of a lock of this process, its lease lasted then, by the clock of the storage.
func (f *FS) mayRemove(o Object) error {
	f.mu.Lock()
	var of *Lease
	for key, l := range f.leases {
		if strings.HasPrefix(o.Key, below(above(key))) && (of == nil || len(key) > len(of.key)) {
			of = l
		}
	}
	f.mu.Unlock()
	if of == nil {
		return nil
	}
	safe := func() bool {
		of.mu.Lock()
		defer of.mu.Unlock()
		return !of.lost && o.Now.Before(of.at.Add(f.ttl-leaseSlack))
	}
	if safe() {
		return nil
	}
	return of.Renew()
}

// self names this process on its host: the start of the machine, the name space of its process
// numbers, its number, and when it started.
func self() string {
	is, err := process(os.Getpid())
	if err != nil {
		return ""
	}
	return is
}

func process(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", err
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", errors.New("/proc has no start time")
	}
	state, start := fields[0], fields[19]
	if state == "Z" || state == "X" {
		return "", fs.ErrNotExist
	}
	return strings.Join([]string{strings.TrimSpace(string(boot)), space, strconv.Itoa(pid), start}, " "), nil
}

// died reports whether a process of this host has surely ended.
func died(name string) bool {
	was := strings.Fields(name)
	mine := strings.Fields(self())
	if len(was) != 4 || len(mine) != 4 || was[0] != mine[0] || was[1] != mine[1] {
		return false
	}
	pid, err := strconv.Atoi(was[2])
	if err != nil {
		return false
	}
	now, err := process(pid)
	return errors.Is(err, fs.ErrNotExist) || err == nil && now != name
}
