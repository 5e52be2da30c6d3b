package source

import (
	"bufio"
	"ckpt/zones"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The processes that the tests look at are this test binary again, in a role
// that an environment variable names. Each writes one line of JSON when it is
// ready, and ends with its standard input.
const (
	roleVar   = "CKPT_PROC_TEST_ROLE"
	objectVar = "CKPT_PROC_TEST_OBJECT" // the shared object to map
	pidVar    = "CKPT_PROC_TEST_PID"    // the process to read
)

// A report is what a child says of itself.
type report struct {
	Areas map[string]mapping // by name
	Pids  map[string]int
	Error string
	// The kind of error.
	Permission, NotExist bool
}

type mapping struct{ Start, End uint64 }

func TestMain(m *testing.M) {
	if object := os.Getenv("CKPT_TEST_CHILD"); object != "" {
		if err := grow(object); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	var r report
	var err error
	switch role {
	case "memory":
		r.Areas, err = mapMemory(os.Getenv(objectVar))
	case "parent":
		r.Pids, err = haveChildren()
	case "reader":
		pid, _ := strconv.Atoi(os.Getenv(pidVar))
		if _, err := ReadLive(context.Background(), pid, LiveOptions{}); err != nil {
			r.Error = err.Error()
			r.Permission = errors.Is(err, fs.ErrPermission)
			r.NotExist = errors.Is(err, fs.ErrNotExist)
		}
	case "gone":
		os.Exit(0)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, role, err)
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// start runs this binary in a role and waits until it is ready. The child ends
// with the test.
func start(t *testing.T, role string, change func(*exec.Cmd)) (int, report) {
	t.Helper()
	cmd := child(role)
	cmd.Stderr = os.Stderr
	if change != nil {
		change(cmd)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := begin(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	return cmd.Process.Pid, r
}

func child(role string) *exec.Cmd {
	// Not os.Executable: go test builds in a directory that is closed to
	// others, and one of the tests becomes somebody else.
	cmd := exec.Command("/proc/self/exe", "-test.run=^$")
	// The race detector waits a second at the end of a program unless told not to.
	cmd.Env = append(os.Environ(), roleVar+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func begin(cmd *exec.Cmd) (r report, err error) {
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

// haveChildren starts one child that stays and one that ends, and does not
// collect the latter's status.
func haveChildren() (map[string]int, error) {
	stays := child("idle")
	if _, err := stays.StdinPipe(); err != nil {
		return nil, err
	}
	if _, err := begin(stays); err != nil {
		return nil, err
	}
	gone := child("gone")
	if err := gone.Start(); err != nil {
		return nil, err
	}
	if err := unix.Waitid(unix.P_PID, gone.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		return nil, err
	}
	return map[string]int{"stays": stays.Process.Pid, "gone": gone.Process.Pid}, nil
}

// mapMemory maps areas of known contents, each between areas that may not be
// accessed, so that the kernel merges them with nothing.
func mapMemory(object string) (map[string]mapping, error) {
	const page, gap = 4096, 2 << 20
	base, err := unix.MmapPtr(-1, 0, nil, 256<<20, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	at := unsafe.Add(base, gap)
	areas := make(map[string]mapping)
	var failed error
	place := func(name string, size uintptr, prot, flags, every int) {
		p, err := unix.MmapPtr(-1, 0, at, size, prot, flags|unix.MAP_FIXED|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			return
		}
		memory := unsafe.Slice((*byte)(p), size)
		switch {
		case prot == unix.PROT_NONE: // else it merges with the gaps
			failed = errors.Join(failed, unix.Madvise(memory, unix.MADV_DONTDUMP))
		case every > 1:
			failed = errors.Join(failed, unix.Madvise(memory, unix.MADV_NOHUGEPAGE))
		}
		for i := 0; every > 0 && i < len(memory); i += every * page {
			memory[i] = 1
		}
		areas[name] = mapping{uint64(uintptr(p)), uint64(uintptr(p) + size)}
		at = unsafe.Add(p, size+gap)
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	place("private", 64<<20, rw, unix.MAP_PRIVATE, 1)
	place("alternate", 4<<20, rw, unix.MAP_PRIVATE, 2)
	place("shared", 32<<20, rw, unix.MAP_SHARED, 1)
	place("pool", 64<<20, rw, unix.MAP_SHARED, 0)
	place("untouched", 8<<20, rw, unix.MAP_PRIVATE, 0)
	place("reserved", 16<<20, unix.PROT_NONE, unix.MAP_PRIVATE, 0)

	// A huge reservation that is accessible, one page of it in use.
	huge, err := unix.MmapPtr(-1, 0, nil, 1<<40, rw, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err == nil {
		failed = errors.Join(failed, unix.Madvise(unsafe.Slice((*byte)(huge), 1<<40), unix.MADV_NOHUGEPAGE))
		*(*byte)(unsafe.Add(huge, 1<<39)) = 1
		areas["huge"] = mapping{uint64(uintptr(huge)), uint64(uintptr(huge)) + 1<<40}
	}
	if object != "" {
		failed = errors.Join(failed, mapObject(object, at, areas))
	}
	return areas, failed
}

// mapObject maps the segments of a shared object as the dynamic linker would,
// and writes to one page of the writable ones.
func mapObject(name string, at unsafe.Pointer, areas map[string]mapping) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	object, err := elf.NewFile(file)
	if err != nil {
		return err
	}
	for i, s := range object.Progs {
		if s.Type != elf.PT_LOAD || s.Filesz == 0 {
			continue
		}
		prot := 0
		for flag, bit := range map[elf.ProgFlag]int{elf.PF_R: unix.PROT_READ, elf.PF_W: unix.PROT_WRITE, elf.PF_X: unix.PROT_EXEC} {
			if s.Flags&flag != 0 {
				prot |= bit
			}
		}
		skip := s.Off % 4096
		size := uintptr(skip+s.Filesz+4095) &^ 4095
		p, err := unix.MmapPtr(int(file.Fd()), int64(s.Off-skip), unsafe.Add(at, s.Vaddr-skip), size, prot, unix.MAP_PRIVATE|unix.MAP_FIXED)
		if err != nil {
			return err
		}
		if s.Flags&elf.PF_W != 0 {
			*(*byte)(p) = 1
		}
		areas[fmt.Sprintf("object %d", i)] = mapping{uint64(uintptr(p)), uint64(uintptr(p) + size)}
	}
	return nil
}

// A process that grows, a role of another variable, allocates these sizes.
const (
	GrowingHeap   = 64 << 20
	GrowingShared = 32 << 20
)

// grow says when it is ready, allocates at the first line it reads, and leaves
// at the end of its input.
func grow(object string) error {
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	const rw = unix.PROT_READ | unix.PROT_WRITE
	heap, err := unix.Mmap(-1, 0, GrowingHeap, rw, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	shared, err := unix.Mmap(-1, 0, GrowingShared, rw, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for _, b := range [][]byte{heap, shared} {
		for i := 0; i < len(b); i += zones.PageSize {
			b[i] = 1
		}
	}
	f, err := os.Open(object)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE); err != nil {
		return err
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, in)
	return err
}
