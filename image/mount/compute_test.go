package mount

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ckpt/image/iosched/live"
	"ckpt/internal/testkit"
)

// compute is the program of a process that reads nothing and writes nothing: for each line of its input
// it does the same work, and prints how many nanoseconds that took.
func compute() {
	b := make([]byte, 16<<20)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		began := time.Now()
		sum := sha256.Sum256(b)
		copy(b, sum[:])
		fmt.Println(time.Since(began).Nanoseconds())
	}
}

// BenchmarkCompute has a program compute while others read through a mount, and while they stand still,
// in pairs of random order: the metric is the median of the ratios of its times, with its interval.
// The readers are four processes on a disk with seeks.
//
//	go test ./image/mount -run '^$' -bench Compute -benchtime 100x
func BenchmarkCompute(b *testing.B) {
	testkit.All(b, "fuse")
	for _, policy := range []string{"none", "mlf"} {
		b.Run(policy, func(b *testing.B) {
			o := StorageOptions{Files: &slowDisk{seek: 8 * time.Millisecond, rate: 100e6}}
			if policy != "none" {
				u, err := live.New("disk", policy, live.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer u.Close()
				o.Gate = &door{unit: u}
			}
			dir, at := b.TempDir(), b.TempDir()
			m, err := Storage(dir, at, o)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _, _ = m.Unmount(); m.Wait() }()
			var readers []*os.Process
			for i := range 4 {
				f, err := os.Create(filepath.Join(dir, fmt.Sprint(i)))
				if err == nil {
					err = f.Truncate(1 << 40) // they do not come to its end
				}
				if err != nil {
					b.Fatal(err)
				}
				f.Close()
				c := exec.Command(os.Args[0])
				c.Env = append(os.Environ(), "MOUNT_STRIDE="+filepath.Join(at, fmt.Sprint(i)), fmt.Sprintf("MOUNT_HOW=false 0 3 %d %d", 1<<40, 32<<10))
				c.SysProcAttr, c.Stderr = &syscall.SysProcAttr{Setpgid: true}, os.Stderr
				if err := c.Start(); err != nil {
					b.Fatal(err)
				}
				defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
				readers = append(readers, c.Process)
			}
			c := exec.Command(os.Args[0])
			c.Env, c.SysProcAttr = append(os.Environ(), "MOUNT_COMPUTE=1"), &syscall.SysProcAttr{Setpgid: true}
			in, err := c.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = in.Close(); _ = c.Wait() }()
			lines := bufio.NewReader(out)
			work := func(signal syscall.Signal) (ns float64) {
				for _, p := range readers {
					if err := p.Signal(signal); err != nil {
						b.Fatal(err)
					}
				}
				_, err := fmt.Fprintln(in)
				if err == nil {
					_, err = fmt.Fscanln(lines, &ns)
				}
				if err != nil {
					b.Fatal(err)
				}
				return ns
			}
			var ratios []float64
			for range b.N {
				var beside, alone float64
				if rand.IntN(2) == 0 {
					beside, alone = work(syscall.SIGCONT), work(syscall.SIGSTOP)
				} else {
					alone, beside = work(syscall.SIGSTOP), work(syscall.SIGCONT)
				}
				ratios = append(ratios, beside/alone)
			}
			report(b, map[string][]float64{"beside/alone": ratios})
		})
	}
}
