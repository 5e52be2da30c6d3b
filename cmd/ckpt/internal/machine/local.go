package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// A NodeDirectory is what was found out about a directory that is to take checkpoints
// before the store does.
type NodeDirectory struct {
	Dir        string  `json:"dir"`
	Class      string  `json:"medium"`
	FileSystem string  `json:"file_system"`
	Device     string  `json:"device"` // may be ""
	DAX        bool    `json:"dax"`
	Free       int64   `json:"free_bytes"`
	Rate       float64 `json:"bytes_per_s"`       // 0: not measured
	StoreRate  float64 `json:"store_bytes_per_s"` // 0: not measured
	More       int64   `json:"more"`              // checkpoints like the largest job of the store has
}

// nodeDirectory examines the directory of a node, as one host sees it.
func (m *Machine) nodeDirectory(r *Report, pattern string) {
	dir := strings.ReplaceAll(pattern, "{node}", "0")
	at, exists, err := m.existing(dir)
	if err != nil {
		r.add("local", Problem, "name another directory with --local", "%v", err)
		return
	}
	if err := m.probe(at, m.FS.Create); err != nil {
		r.add("local", Problem, "name a directory with write permission and free space with --local", "%s cannot be written: %v", at, err)
		return
	}
	if exists {
		r.fine("local", "%s can be written", dir)
	} else {
		r.fine("local", "%s does not exist; ckpt launch can make it", dir)
	}
	n := &NodeDirectory{Dir: dir}
	r.NodeDirectory = n
	m.localMedium(r, n, at)
	m.localSpace(r, n, at)
	m.localRate(r, n, at)
}

// existing returns dir, or the nearest directory above it that exists.
func (m *Machine) existing(dir string) (at string, exists bool, err error) {
	for at, exists = filepath.Clean(dir), true; ; exists = false {
		fi, err := m.FS.Stat(at)
		switch {
		case err == nil && !fi.IsDir():
			return "", false, fmt.Errorf("%s is not a directory", at)
		case err == nil:
			return at, exists, nil
		case !errors.Is(err, fs.ErrNotExist) || filepath.Dir(at) == at:
			return "", false, err
		}
		at = filepath.Dir(at)
	}
}

// localMedium says what the directory is on, and whether that suits a tier.
func (m *Machine) localMedium(r *Report, n *NodeDirectory, dir string) {
	found, err := m.Medium(dir)
	if err != nil {
		r.add("local medium", Warning, "", "%v", err)
		return
	}
	n.Class, n.FileSystem, n.Device, n.DAX = string(found.Class), found.FileSystem, found.Device, found.DAX
	text := string(found.Class) + ", " + found.FileSystem
	if found.Device != "" {
		text += " on " + found.Device
	}
	if found.DAX {
		text += ", DAX"
	}
	switch found.Class {
	case Network:
		r.add("local medium", Warning, "name storage of the node itself with --local", "%s: it has the speed and the failures of a store", text)
	case Rotating:
		r.add("local medium", Warning, "name memory or a solid-state disk with --local; this pays only if the store is slower", "%s", text)
	case Memory:
		r.add("local medium", Warning, "keep copies on other nodes, and store what must survive a reboot of all", "%s: a reboot loses it", text)
	case Layered:
		r.add("local medium", Warning, "name a mounted directory with --local", "%s: its files go with the container", text)
	default:
		r.fine("local medium", "%s", text)
	}
}

// localSpace says how many versions fit. Two must, since one is filled while the other is
// stored.
func (m *Machine) localSpace(r *Report, n *NodeDirectory, dir string) {
	v, err := m.Statfs(dir)
	if err != nil {
		r.add("local space", Warning, "find out with df", "%v", err)
		return
	}
	name, bytes := m.largest(r.Store)
	if v.Free != vfs.Unbounded {
		n.Free = v.Free
	}
	if bytes == 0 || v.Free == vfs.Unbounded {
		r.fine("local space", "%s", v.space())
		return
	}
	n.More = v.Free / bytes
	text := fmt.Sprintf("%s, for %d checkpoints like those of %s, if all its ranks were on this node", v.space(), n.More, name)
	if n.More < 2 {
		r.add("local space", Warning, "free some, or spread the job over more nodes: a node directory holds two checkpoints of its ranks", "%s", text)
		return
	}
	r.fine("local space", "%s", text)
}

// largest finds the job of the store whose newest checkpoint is largest.
func (m *Machine) largest(dir string) (name string, bytes int64) {
	store, err := image.OpenStore(m.FS, dir)
	if err != nil {
		return "", 0
	}
	for _, f := range fits(store, 0) {
		if f.Stored > bytes {
			name, bytes = f.Job, f.Stored
		}
	}
	return name, bytes
}

// leastGain is how many times as fast as the store a tier should be: one that is not
// faster only costs.
const leastGain = 1.5

// localRate measures the directory beside the store.
func (m *Machine) localRate(r *Report, n *NodeDirectory, dir string) {
	var err error
	if n.Rate, err = m.rate(dir); err != nil || n.Rate == 0 {
		if err != nil {
			r.add("local rate", Warning, "", "%v", err)
		}
		return
	}
	text := fmt.Sprintf("%s MiB/s in a short test", ui.MiB(int64(n.Rate)))
	at, _, err := m.existing(r.Store)
	if err == nil {
		n.StoreRate, _ = m.rate(at) // the checks of the store say what is wrong with it
	}
	if n.StoreRate == 0 {
		r.fine("local rate", "%s", text)
		return
	}
	text += fmt.Sprintf(", %.1f times the store's", n.Rate/n.StoreRate)
	if n.Rate < leastGain*n.StoreRate {
		r.add("local rate", Warning, "name faster storage with --local, or leave it out: checkpoints then go to the store at once", "%s", text)
		return
	}
	r.fine("local rate", "%s", text)
}

// rate writes a file durably, removes it, and returns bytes per second; 0 if it took no
// time, or there is no space for it.
func (m *Machine) rate(dir string) (perSecond float64, err error) {
	v, err := m.Statfs(dir)
	if err != nil || v.Free < 4*m.Sample {
		return 0, err
	}
	name := filepath.Join(dir, fmt.Sprintf(".ckpt-doctor-%08x", rand.Uint32()))
	f, err := m.createFast(name)
	if err != nil {
		return 0, err
	}
	buf := vfs.Aligned(int(m.Sample / 16))
	for i := range buf {
		buf[i] = byte(i * 7) // some disks store zeros for nothing
	}
	_, begin := m.Clock()
	var werr error
	for off := int64(0); off < m.Sample && werr == nil; off += int64(len(buf)) {
		_, werr = f.WriteAt(buf, off)
	}
	err = errors.Join(werr, f.Sync())
	_, end := m.Clock()
	if err = errors.Join(err, f.Close(), m.FS.Remove(name)); err != nil || end <= begin {
		return 0, err
	}
	return float64(m.Sample) / (end - begin).Seconds(), nil
}

// createFast makes a file around the page cache where that works, as checkpoints do.
func (m *Machine) createFast(name string) (vfs.File, error) {
	f, err := m.FS.CreateDirect(name)
	if err == nil {
		return f, nil
	}
	_ = m.FS.Remove(name) // a file system may make it and then refuse
	return m.FS.Create(name)
}

const (
	// tasksEach is how many threads a rank, or the coordinator, has at most in a small job.
	tasksEach = 10
	// addressesEach is what the coordinator maps beyond what it has when it starts, most of it
	// for threads.
	addressesEach = 96 << 20
)

// Room refuses a run on this machine that would soon be without threads or memory: the runtime
// of Go ends a process then, and prints what all of it was doing. With 0 ranks it is about the
// coordinator, whose threads it makes at once, so that ranks cannot take them.
func Room(ranks int) error {
	m := ThisMachine()
	if err := m.room(ranks); err != nil {
		return err
	}
	if _, limited := m.addressesLeft(); ranks == 0 && !limited { // threads take addresses
		keepThreads(tasksEach)
	}
	return nil
}

func (m *Machine) room(ranks int) error {
	who := "a coordinator"
	if ranks > 0 {
		who = ui.Count(ranks, "rank")
	}
	need := int64(max(1, ranks)) * tasksEach
	if left, of := m.tasksLeft(); left < need {
		return ui.WithHint(fmt.Errorf("%s leaves %d more processes and threads, too few for %s: want %d", of, left, who, need), "raise that limit, or run fewer ranks; ckpt doctor shows the limits")
	}
	if left, ok := m.addressesLeft(); ok && ranks == 0 && left < addressesEach {
		return ui.WithHint(fmt.Errorf("ulimit -v leaves %s MiB of address space, too little for %s: want %s", ui.MiB(max(0, left)), who, ui.MiB(addressesEach)), "ulimit -v unlimited; the memory limit of a batch system or container does no harm")
	}
	return nil
}

// tasksLeft returns how many more processes and threads there may be, and by which limit;
// math.MaxInt64 without one.
func (m *Machine) tasksLeft() (left int64, of string) {
	left, of = math.MaxInt64, "ulimit -u"
	if n, err := m.Limit(unix.RLIMIT_NPROC); err == nil && n < math.MaxInt64 {
		if used, counts := m.Tasks(); counts {
			left = max(0, int64(n)-used)
		}
	}
	if n, ok := m.groupLeft("pids.max", "pids.current", "pids/pids.max", "pids/pids.current"); ok && n < left {
		left, of = n, "the control group"
	}
	return left, of
}

// addressesLeft returns what this process may still map, if that is limited.
func (m *Machine) addressesLeft() (int64, bool) {
	n, err := m.Limit(unix.RLIMIT_AS)
	if err != nil || n >= math.MaxInt64 {
		return 0, false
	}
	text, err := m.ReadFile("/proc/self/status")
	kib, ok := field(string(text), "VmSize:")
	return int64(n) - kib<<10, ok && err == nil
}

// tasks counts the processes and threads of this user. Root has no limit.
func tasks() (n int64, counts bool) {
	if os.Geteuid() == 0 {
		return 0, false
	}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			continue // it has ended
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(name, "status"))
		if threads, ok := field(string(text), "Threads:"); ok && err == nil && !strings.Contains(string(text), "State:\tZ") {
			n += threads
		}
	}
	return n, true
}

// keepThreads makes so many threads. The runtime keeps them for later.
func keepThreads(n int) {
	var there, gone sync.WaitGroup
	leave := make(chan struct{})
	there.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread() // until all are there, each has its own
			defer runtime.UnlockOSThread()
			there.Done()
			<-leave
		})
	}
	there.Wait()
	close(leave)
	gone.Wait()
}
