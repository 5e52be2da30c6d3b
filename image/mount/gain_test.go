package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ckpt/image/iosched/live"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// A slowDisk serves one request at a time, in the order in which they come. It sleeps for a seek
// wherever a request does not begin where the last one ended, and for the bytes.
type slowDisk struct {
	seek time.Duration
	rate float64 // bytes/s

	mu   sync.Mutex
	name string
	at   int64
}

func (d *slowDisk) serve(name string, off, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := time.Duration(float64(n) / d.rate * float64(time.Second))
	if d.name != name || d.at != off {
		t += d.seek
	}
	d.name, d.at = name, off+n
	time.Sleep(t)
}

func (d *slowDisk) Open(name string, _ int, disk *os.File) (File, error) {
	return &slowFile{disk, d, name}, nil
}
func (*slowDisk) Size(string) (int64, bool)            { return 0, false }
func (*slowDisk) Truncate(string, int64) (bool, error) { return false, nil }
func (*slowDisk) Renaming(string, string) error        { return nil }
func (*slowDisk) Removing(string) error                { return nil }
func (*slowDisk) Linking(string) error                 { return nil }

type slowFile struct {
	*os.File
	on   *slowDisk
	name string
}

func (f *slowFile) ReadAt(b []byte, off int64) (int, error) {
	f.on.serve(f.name, off, int64(len(b)))
	return f.File.ReadAt(b, off)
}

func (f *slowFile) WriteAt(b []byte, off int64) (int, error) {
	f.on.serve(f.name, off, int64(len(b)))
	return f.File.WriteAt(b, off)
}

func (f *slowFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *slowFile) Flush() error { return nil }
func (f *slowFile) Sync() error  { return nil } // it has slept already

// stride is the program of a process: it reads or writes blocks that are so many apart.
func stride(path, how string) error {
	var write bool
	var first, step, count, block int64
	if _, err := fmt.Sscan(how, &write, &first, &step, &count, &block); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := vfs.Aligned(int(block))
	for i := range count {
		do := f.ReadAt
		if write {
			do = f.WriteAt
		}
		if _, err := do(b, (first+i*step)*block); err != nil {
			return err
		}
	}
	return nil
}

// throttle has the kernel let the disk of dir answer so many reads in a second that this process asks for.
func throttle(b *testing.B, dir string, reads int) {
	const groups = "/sys/fs/cgroup/blkio"
	if _, err := os.Stat(groups + "/blkio.throttle.read_iops_device"); err != nil || os.Geteuid() != 0 {
		testkit.Skip(b, "root and cgroup v1 with blkio")
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		b.Fatal(err)
	}
	disk, err := filepath.EvalSymlinks(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		testkit.Skip(b, "a disk under the temporary directory")
	}
	if _, err := os.Stat(filepath.Join(disk, "partition")); err == nil {
		disk = filepath.Dir(disk)
	}
	number, err := os.ReadFile(filepath.Join(disk, "dev"))
	if err != nil {
		b.Fatal(err)
	}
	group, err := os.MkdirTemp(groups, "ckpt-")
	if err != nil {
		b.Fatal(err)
	}
	into := func(dir, file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
			b.Fatal(err)
		}
	}
	into(group, "blkio.throttle.read_iops_device", fmt.Sprintf("%s %d", strings.TrimSpace(string(number)), reads))
	into(group, "cgroup.procs", strconv.Itoa(os.Getpid()))
	b.Cleanup(func() {
		into(groups, "cgroup.procs", strconv.Itoa(os.Getpid()))
		if err := os.Remove(group); err != nil {
			b.Error(err)
		}
	})
}

// evict has the next read of a file come from the disk.
func evict(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
}

// BenchmarkGain runs applications of several processes, each in a group of its own, under a mount with
// each policy, on a disk with seeks of 8 ms and 100 MB/s (10 MB/s for the writers), and on the real one
// that the kernel lets answer 64 reads in a second. The metrics are the seconds of all, the mean flow
// time, and the longest, of the applications.
//
//	go test ./image/mount -run '^$' -bench Gain -benchtime 3x
func BenchmarkGain(b *testing.B) {
	testkit.All(b, "fuse")
	for _, work := range []struct {
		name            string
		apps, processes int
		write           bool
		count, block    int64
		rate            float64
		policies        []string
	}{
		{"strided", 4, 8, false, 16, 32 << 10, 100e6, []string{"none", "fifo", "mlf"}},
		{"writers", 2, 1, true, 40, 256 << 10, 10e6, []string{"none", "fifo", "srpt", "mlf", "wsjf"}},
		{"throttled", 4, 8, false, 16, 32 << 10, 0, []string{"none", "fifo", "mlf"}},
	} {
		for _, policy := range work.policies {
			b.Run(work.name+"/"+policy, func(b *testing.B) {
				o := StorageOptions{Files: &slowDisk{seek: 8 * time.Millisecond, rate: work.rate}}
				dir, at := b.TempDir(), b.TempDir()
				if work.rate == 0 {
					o.Files = nil
					throttle(b, dir, 64)
				}
				if policy != "none" {
					u, err := live.New("disk", policy, live.Options{})
					if err != nil {
						b.Fatal(err)
					}
					defer u.Close()
					o.Gate = &door{unit: u}
				}
				for app := range work.apps {
					bytes := work.count * work.block * int64(work.processes)
					if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(app)), make([]byte, bytes), 0o600); err != nil {
						b.Fatal(err)
					}
				}
				m, err := Storage(dir, at, o)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _, _ = m.Unmount(); m.Wait() }()
				var sum, longest, all float64
				for range b.N {
					for app := range work.apps {
						if err := evict(filepath.Join(dir, fmt.Sprint(app))); err != nil {
							b.Fatal(err)
						}
					}
					began := time.Now()
					flows := make([]float64, work.apps)
					var apps sync.WaitGroup
					for app := range work.apps {
						apps.Go(func() {
							var group int
							var list []*exec.Cmd
							for p := range work.processes {
								c := exec.Command(os.Args[0])
								c.Env = append(os.Environ(), "MOUNT_STRIDE="+filepath.Join(at, fmt.Sprint(app)),
									fmt.Sprintf("MOUNT_HOW=%t %d %d %d %d", work.write, p, work.processes, work.count, work.block))
								c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}, os.Stderr
								if err := c.Start(); err != nil {
									b.Error(err)
									return
								}
								if p == 0 {
									group = c.Process.Pid
								}
								list = append(list, c)
							}
							for _, c := range list {
								if err := c.Wait(); err != nil {
									b.Error(err)
								}
							}
							flows[app] = time.Since(began).Seconds()
						})
					}
					apps.Wait()
					all += time.Since(began).Seconds()
					for _, f := range flows {
						sum += f / float64(work.apps)
						longest = max(longest, f)
					}
				}
				b.ReportMetric(all/float64(b.N), "s")
				b.ReportMetric(sum/float64(b.N), "mean-flow-s")
				b.ReportMetric(longest, "longest-flow-s")
			})
		}
	}
}
