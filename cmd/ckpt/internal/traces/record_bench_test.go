package traces

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The programs of BenchmarkRecord, which this test binary runs as a child of itself.
const benchProgram = "CKPT_TRACE_PROGRAM"

func init() {
	if name := os.Getenv(benchProgram); name != "" {
		n, err := strconv.Atoi(os.Args[2])
		if err == nil {
			err = programs[name](os.Args[1], n)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

var programs = map[string]func(dir string, n int) error{
	"writes": func(dir string, n int) error { return writes(dir, n, 0) },
	"direct": func(dir string, n int) error { return writes(dir, n, unix.O_DIRECT) },
	"others": func(dir string, n int) error { return others(dir, n, cheap) },
	"usual":  func(dir string, n int) error { return others(dir, n, usual) },
	"names": func(dir string, n int) error {
		var st unix.Stat_t
		for range n {
			fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			if err := unix.Stat(dir, &st); err != nil {
				return err
			}
			unix.Close(fd)
		}
		return nil
	},
}

// cheap makes the cheapest call.
func cheap() { unix.Getppid() }

// usual makes two calls of 0.5 to 1 µs, as programs make them that wait for others.
func usual() {
	_, _ = unix.Poll(nil, 0) // it may be interrupted
	_, _ = unix.Getrandom(make([]byte, 256), 0)
}

// others makes n calls, and writes down the nanoseconds of one in the fastest batch: a
// busy machine disturbs some batches, and the least only if it disturbs all.
func others(dir string, n int, call func()) error {
	const batch = 500
	least := time.Duration(math.MaxInt64)
	for range n / batch {
		start := time.Now()
		for range batch {
			call()
		}
		least = min(least, time.Since(start))
	}
	return os.WriteFile(filepath.Join(dir, leastName), fmt.Append(nil, float64(least)/batch), 0o600)
}

const leastName = "least"

// leastBare returns the nanoseconds of a call before anything is recorded: some seconds
// after that, the kernel still takes longer for the calls of all programs.
func leastBare(b *testing.B, call func()) float64 {
	dir, least := b.TempDir(), math.Inf(1)
	for range 5 {
		if err := others(dir, 500_000, call); err != nil {
			b.Fatal(err)
		}
		least = min(least, leastOf(b, dir))
	}
	return least
}

// leastOf returns what others has written down. Other programs write nothing down.
func leastOf(b *testing.B, dir string) float64 {
	text, err := os.ReadFile(filepath.Join(dir, leastName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		b.Fatal(err)
	}
	ns, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	return ns
}

func writes(dir string, n, flags int) error {
	fd, err := unix.Open(filepath.Join(dir, "data"), unix.O_CREAT|unix.O_TRUNC|unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON) // aligned
	if err != nil {
		return err
	}
	for i := range n {
		if _, err := unix.Pwrite(fd, page, int64(i)*4096); err != nil {
			return err
		}
	}
	return unix.Close(fd)
}

// BenchmarkRecord compares programs bare and recorded as ckpt trace record does, in
// turns; each figure is the median of the rounds. Processor time, of the program and of
// strace, is what a busy machine disturbs less; least-ratio compares single calls. Files go to $TMPDIR:
//
//	go test ./cmd/ckpt/internal/traces -run - -bench Record -benchtime 7x
func BenchmarkRecord(b *testing.B) {
	least := map[string]float64{"others": leastBare(b, cheap), "usual": leastBare(b, usual)}
	for _, with := range []string{withEBPF, withStrace} {
		for _, c := range []struct {
			program string
			count   int
		}{{"writes", 20_000}, {"direct", 5_000}, {"others", 5_000_000}, {"usual", 1_000_000}, {"names", 10_000}} {
			b.Run(with+"/"+c.program, func(b *testing.B) { benchRecord(b, with, c.program, c.count, least[c.program]) })
		}
	}
}

func benchRecord(b *testing.B, with, program string, count int, leastAlone float64) {
	dir := b.TempDir()
	command := []string{os.Args[0], dir, strconv.Itoa(count)}
	b.Setenv(benchProgram, program)
	var ratios, processor, bare, recorded, least []float64
	for range b.N {
		run := exec.Command(command[0], command[1:]...)
		start := time.Now()
		if out, err := run.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		alone, used := time.Since(start).Seconds(), cpuOf(run)
		took, more := recordOnce(b, with, command)
		least = append(least, leastOf(b, dir))
		bare, recorded = append(bare, used), append(recorded, more)
		ratios, processor = append(ratios, took.Seconds()/alone), append(processor, more/used)
	}
	for _, v := range [][]float64{bare, recorded, ratios, processor} {
		slices.Sort(v)
	}
	b.ReportMetric(0, "ns/op") // of no use here
	b.ReportMetric(1e3*bare[b.N/2], "cpu-ms-bare")
	b.ReportMetric(1e3*recorded[b.N/2], "cpu-ms-recorded")
	b.ReportMetric(processor[b.N/2], "cpu-ratio")
	b.ReportMetric(ratios[b.N/2], "ratio")
	if leastAlone > 0 {
		b.ReportMetric(slices.Min(least)/leastAlone, "least-ratio")
	}
}

// cpuOf returns the seconds of processor time of a command that has ended.
func cpuOf(run *exec.Cmd) float64 {
	return (run.ProcessState.UserTime() + run.ProcessState.SystemTime()).Seconds()
}

// recordOnce returns the time of a recorded command, from its start to its end, and its
// seconds of processor time.
func recordOnce(b *testing.B, with string, command []string) (took time.Duration, cpu float64) {
	r, _, err := newRecorder(b.Context(), with)
	if err != nil {
		b.Skip(err)
	}
	defer r.close()
	run := r.prepare(b.Context(), command)
	start := time.Now()
	if err := r.start(run); err != nil {
		b.Fatal(err)
	}
	if err := r.wait(run); err != nil {
		b.Fatal(err)
	}
	took = time.Since(start)
	if err := r.cut(); err != nil {
		b.Fatal(err)
	}
	return took, cpuOf(run)
}
