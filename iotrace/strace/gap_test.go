package strace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// read reads lines that must be understood, and returns the warnings as "code 2 of 10".
func read(t *testing.T, lines ...string) (*iotrace.Trace, []string) {
	t.Helper()
	tr, _, err := Read(strings.NewReader(stamped(lines...)), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := iotracetest.Valid(tr); err != nil {
		t.Error(err)
	}
	var warnings []string
	for _, w := range tr.Warnings {
		if w.Text == "" || strings.Contains(w.Text, "%!") {
			t.Errorf("warning %q", w.Text)
		}
		warnings = append(warnings, fmt.Sprintf("%s %d of %d", w.Code, w.Count, w.Bytes))
	}
	return tr, warnings
}

// submitted are lines of a program that uses libaio, as strace 6.1 wrote them.
const submitted = `io_submit(0x7f2da0e4d000, 3, [{aio_data=0xb, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3</d/a, b}>, aio_buf="\1\1\1\1"..., aio_nbytes=4096, aio_offset=0}, ` +
	`{aio_data=0xc, aio_lio_opcode=IOCB_CMD_PWRITEV, aio_fildes=3</d/a, b}>, aio_buf=[{iov_base="\1\1\1\1"..., iov_len=4096}, {iov_base="\1\1\1\1"..., iov_len=8192}], aio_offset=4096}, ` +
	`{aio_data=0xd, aio_lio_opcode=IOCB_CMD_FDSYNC, aio_fildes=3</d/a, b}>}]) = 3 <0.000080>`

func TestAsynchronous(t *testing.T) {
	const opened = `openat(AT_FDCWD, "/d/f", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3`
	pread := func(offset int) string {
		return fmt.Sprintf(`{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_buf=0x55d71ebc3000, aio_nbytes=4096, aio_offset=%d}`, offset)
	}
	for _, c := range []struct {
		what       string
		lines      []string
		want       []string
		warn       []string
		start, end int64 // of the last event, in µs
	}{
		{"all kinds", []string{submitted,
			`io_getevents(0x7f2da0e4d000, 3, 8, [{data=0xc, obj=0x7fff527f78a0, res=12288, res2=0}, {data=0xb, obj=0x7fff527f7860, res=4096, res2=0}], NULL) = 2 <0.000300>`,
			`io_getevents(0x7f2da0e4d000, 1, 8, [{data=0xd, obj=0x7fff527f78e0, res=0, res2=0}], NULL) = 1 <0.000015>`,
		}, []string{"10 write /d/a, b} @4096 +12288", "10 write /d/a, b} @0 +4096", "10 sync /d/a, b}"}, nil, 0, 215},
		{"without a number, by length and order", []string{opened,
			"io_submit(0x7f, 3, [" + pread(0) + ", " + pread(4096) + ", " + pread(8192) + "]) = 3",
			`io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=100, res2=0}, {data=0, obj=0x2, res=4096, res2=0}], NULL) = 2`,
			`io_pgetevents(0x7f, 1, 8, [{data=0, obj=0x2, res=4096, res2=0}], NULL, NULL) = 1`,
		}, []string{"10 open new /d/f", "10 read /d/f @0 +100", "10 read /d/f @4096 +4096", "10 read /d/f @8192 +4096"}, nil, 100, 310},
		{"only some are taken, some fail", []string{opened,
			"io_submit(0x7f, 3, [" + pread(0) + ", " + pread(4096) + ", " + pread(8192) + "]) = 2",
			`io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=-5, res2=0}, {data=0, obj=0x2, res=0, res2=0}], NULL) = 2`,
			`io_getevents(0x7f, 1, 8, [], {tv_sec=0, tv_nsec=0}) = 0`,
		}, []string{"10 open new /d/f", "10 read /d/f @4096"}, nil, 100, 210},
		{"lists that strace has cut", []string{opened,
			"io_submit(0x7f, 3, [" + pread(0) + ", ...]) = 3",
			`io_getevents(0x7f, 3, 8, [{data=0, obj=0x1, res=4096, res2=0}, ...], NULL) = 3`,
		}, []string{"10 open new /d/f", "10 read /d/f @0 +4096"}, []string{"aio-unknown 2 of 0", "aio-unlisted 2 of 0"}, 100, 210},
		{"results in memory", []string{opened,
			"io_submit(0x7f, 1, [" + pread(0) + "]) = 1",
			"io_submit(0x8f, 1, [" + pread(8192) + "]) = 1",
			`io_destroy(0x7f) = 0`,
		}, []string{"10 open new /d/f", "10 read /d/f @0 +4096", "10 read /d/f @8192 +4096"}, []string{"aio-unreaped 2 of 8192"}, 200, 210},
		{"begun before the trace", []string{
			`io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=512, res2=0}], NULL) = 1`, `sync() = 0`,
		}, []string{"10 sync"}, []string{"aio-unknown 1 of 512"}, 100, 110},
		{"an unknown descriptor, and no file", []string{
			`socket(AF_INET, SOCK_STREAM, 0) = 4`,
			"io_submit(0x7f, 1, [" + pread(0) + "]) = 1",
			`io_submit(0x7f, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_POLL, aio_fildes=4, aio_buf=POLLIN}]) = 1`,
			`io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=512, res2=0}], NULL) = 1`, `sync() = 0`,
		}, []string{"10 sync"}, []string{"unknown-descriptor 1 of 512"}, 400, 410},
		{"appended", []string{
			`openat(AT_FDCWD, "/d/f", O_WRONLY|O_CREAT|O_TRUNC|O_APPEND, 0644) = 3`, `write(3, "x", 10) = 10`,
			`io_submit(0x7f, 1, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PWRITE, aio_fildes=3, aio_buf="a", aio_nbytes=5, aio_offset=100}]) = 1`,
			`io_getevents(0x7f, 1, 8, [{data=0, obj=0x1, res=5, res2=0}], NULL) = 1`,
		}, []string{"10 open new /d/f", "10 write /d/f @0 +10", "10 write /d/f @10 +5"}, nil, 200, 310},
	} {
		t.Run(c.what, func(t *testing.T) {
			tr, warn := read(t, c.lines...)
			if diff := cmp.Diff(c.want, show(tr)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.warn, warn); diff != "" {
				t.Error(diff)
			}
			if e := tr.Events[len(tr.Events)-1]; e.Start != c.start*1000 || e.End != c.end*1000 {
				t.Errorf("the last event lasts from %d to %d ns", e.Start, e.End)
			}
		})
	}
}

func TestMappings(t *testing.T) {
	const opened = `openat(AT_FDCWD, "/d/f", O_RDWR) = 3`
	for _, c := range []struct {
		what  string
		lines []string
		want  []string
		warn  []string
	}{
		{"shared, written back", []string{opened,
			`mmap(NULL, 65536, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0x1000) = 0x7f0000000000`, `close(3) = 0`,
			`msync(0x7f0000002000, 8192, MS_SYNC) = 0`, `msync(0x7e0000002000, 4096, MS_SYNC) = 0`,
		}, []string{"10 open /d/f", "10 mmap /d/f @4096 +65536", "10 close /d/f", "10 sync /d/f @12288 +8192", "10 sync +4096"}, []string{"shared-mapping 1 of 65536"}},
		{"moved", []string{opened,
			`mmap(NULL, 4096, PROT_WRITE, MAP_SHARED_VALIDATE|MAP_SYNC, 3, 0) = 0x7f0000000000`,
			`mremap(0x7f0000000000, 4096, 12288, MREMAP_MAYMOVE) = 0x7e0000000000`,
			`msync(0x7e0000001000, 4096, MS_SYNC) = 0`, `msync(0x7f0000000000, 4096, MS_SYNC) = 0`,
			`mremap(0x7a0000000000, 4096, 12288, MREMAP_MAYMOVE) = 0x7b0000000000`,
		}, []string{"10 open /d/f", "10 mmap /d/f @0 +4096", "10 sync /d/f @4096 +4096", "10 sync +4096"}, []string{"shared-mapping 1 of 12288"}},
		{"replaced", []string{opened, `openat(AT_FDCWD, "/d/g", O_RDWR) = 4`,
			`mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000`, `mmap(0x7f0000000000, 4096, PROT_WRITE, MAP_SHARED|MAP_FIXED, 4, 0) = 0x7f0000000000`,
			`msync(0x7f0000000000, 4096, MS_SYNC) = 0`,
		}, []string{"10 open /d/f", "10 open /d/g", "10 mmap /d/f @0 +4096", "10 mmap /d/g @0 +4096", "10 sync /d/g @0 +4096"}, []string{"shared-mapping 2 of 8192"}},
		{"of a child", []string{opened,
			`mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000`, `clone(child_stack=NULL, flags=SIGCHLD) = 11`,
			`11 msync(0x7f0000000000, 4096, MS_SYNC) = 0`, `11 execve("/bin/x", ["x"], 0x7f /* 2 vars */) = 0`, `11 msync(0x7f0000000000, 4096, MS_SYNC) = 0`,
		}, []string{"10 open /d/f", "10 mmap /d/f @0 +4096", "11 sync /d/f @0 +4096", "11 sync +4096"}, []string{"shared-mapping 1 of 4096"}},
		{"read, but for libraries and memory", []string{opened, `openat(AT_FDCWD, "/usr/lib/locale/x", O_RDONLY) = 4`, `openat(AT_FDCWD, "/opt/libx.so", O_RDONLY) = 5`, `openat(AT_FDCWD, "/dev/shm/s", O_RDWR) = 6`,
			`mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000`, `mmap(NULL, 100, PROT_READ, MAP_SHARED, 3, 0) = 0x7f0000000000`,
			`mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 4, 0) = 0x7f0000000000`, `mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_DENYWRITE, 5, 0) = 0x7f0000000000`,
			`mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 6, 0) = 0x7f0000000000`, `mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE, 3, 0) = 0x7f0000000000`,
		}, []string{"10 open /d/f", "10 open /usr/lib/locale/x", "10 open /opt/libx.so", "10 open /dev/shm/s", "10 mmap /d/f @0 +4096", "10 mmap /d/f @0 +100",
			"10 mmap /usr/lib/locale/x @0 +4096", "10 mmap /opt/libx.so @0 +4096", "10 mmap /dev/shm/s @0 +4096", "10 mmap /d/f @0 +4096"}, []string{"read-mapping 2 of 4196"}},
		{"of an MPI library, and of a system's file that is written", []string{`openat(AT_FDCWD, "/w/ompi.vm.0/pid.7/smseg-0", O_RDWR) = 3`, `openat(AT_FDCWD, "/etc/db", O_RDWR) = 4`,
			`mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3, 0) = 0x7f0000000000`, `mremap(0x7f0000000000, 4096, 12288, MREMAP_MAYMOVE) = 0x7e0000000000`,
			`mmap(NULL, 100, PROT_READ|PROT_WRITE, MAP_SHARED, 4, 0) = 0x7f0000000000`,
		}, []string{"10 open /w/ompi.vm.0/pid.7/smseg-0", "10 open /etc/db", "10 mmap /w/ompi.vm.0/pid.7/smseg-0 @0 +4096", "10 mmap /etc/db @0 +100"}, []string{"shared-mapping 1 of 100"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			tr, warn := read(t, c.lines...)
			if diff := cmp.Diff(c.want, show(tr)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.warn, warn); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestGaps looks at other calls that move bytes, or make files, without an event.
func TestGaps(t *testing.T) {
	tr, warn := read(t,
		`io_uring_setup(8, {flags=IORING_SETUP_CQSIZE|IORING_SETUP_SQPOLL, sq_thread_cpu=0, sq_thread_idle=0, sq_entries=8}) = 6`,
		`io_uring_setup(8, {flags=0, sq_thread_cpu=0, sq_thread_idle=0, sq_entries=8}) = 7`,
		`io_uring_enter(7, 3, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 3`, `io_uring_enter(7, 0, 1, IORING_ENTER_GETEVENTS, NULL, 8) = 0`,
		`io_uring_enter(6, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 8) = -1 EAGAIN (Resource temporarily unavailable)`,
		`openat(AT_FDCWD, "/a", O_RDONLY) = 3`, `fstat(3, {st_mode=S_IFREG|0644, st_size=700, ...}) = 0`,
		`openat(AT_FDCWD, "/b", O_WRONLY|O_CREAT|O_APPEND, 0644) = 4`,
		`ioctl(4, BTRFS_IOC_CLONE or FICLONE, 3) = 0`, `write(4, "x", 1) = 1`,
		`ioctl(4, BTRFS_IOC_CLONE_RANGE or FICLONERANGE, {src_fd=3, src_offset=0, src_length=100, dest_offset=1000}) = 0`, `write(4, "x", 1) = 1`,
		`ioctl(4, BTRFS_IOC_FILE_EXTENT_SAME or FIDEDUPERANGE, {src_offset=0, src_length=100, dest_count=1, info=[{dest_fd=3, dest_offset=0}]}) = 0`,
		`ioctl(4, FICLONE, 99) = 0`, `readahead(3, 0, 700) = 0`,
		`open_by_handle_at(3</d>, {handle_bytes=8, handle_type=1, f_handle=0x1}, O_RDONLY|O_CLOEXEC) = 8</d/h>`, `read(8, "x", 9) = 9`,
		`open_by_handle_at(3, {handle_bytes=8, handle_type=1, f_handle=0x1}, O_RDONLY) = 9`, `read(9, "x", 90) = 90`,
		`read(3 <unfinished ...>`)
	want := []string{"10 open /a", "10 stat /a", "10 open new /b", "10 write /b @700 +1", "10 write /b @1100 +1", "10 open /d/h", "10 read /d/h @0 +9"}
	if diff := cmp.Diff(want, show(tr)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"io_uring 3 of 0", "io_uring-sqpoll 1 of 0", "reflink 3 of 800", "unfinished 1 of 0", "unknown-descriptor 1 of 90"}, warn); diff != "" {
		t.Error(diff)
	}
}

// TestFlags: a synchronous write is followed by a sync, and direct I/O is told.
func TestFlags(t *testing.T) {
	tr, warn := read(t, `openat(AT_FDCWD, "/s", O_WRONLY|O_CREAT|O_SYNC, 0644) = 3`, `write(3, "x", 9) = 9`,
		`openat(AT_FDCWD, "/d", O_RDWR|O_DSYNC) = 4`, `pwrite64(4, "x", 5, 10) = 5`, `pread64(4, "x", 5, 10) = 5`,
		`openat(AT_FDCWD, "/p", O_RDWR|O_DIRECT) = 5`, `pwrite64(5, "x", 512, 0) = 512`, `pread64(5, "x", 512, 0) = 512`,
		`fcntl(5, F_SETFL, O_RDWR) = 0`, `pwrite64(5, "x", 512, 0) = 512`,
		`pwritev2(5, [{iov_base="x", iov_len=7}], 1, 0, RWF_DSYNC) = 7`)
	want := []string{"10 open new /s", "10 write /s @0 +9", "10 sync /s", "10 open /d", "10 write /d @10 +5", "10 sync /d", "10 read /d @10 +5",
		"10 open /p", "10 write /p @0 +512", "10 read /p @0 +512", "10 write /p @0 +512", "10 write /p @0 +7", "10 sync /p"}
	if diff := cmp.Diff(want, show(tr)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"direct-io 2 of 1024", "sync-writes 3 of 21"}, warn); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]iotrace.WarnedFile{{File: 0, Count: 1, Bytes: 9}, {File: 1, Count: 1, Bytes: 5}, {File: 2, Count: 1, Bytes: 7}}, tr.Warnings[1].Files); diff != "" {
		t.Error(diff)
	}
	if w, s := tr.Events[1], tr.Events[2]; s.Start != w.End || s.End != w.End {
		t.Errorf("write %v, sync %v", w, s)
	}
}

// TestStorageFails: a full disk is seen, and a terminal that is gone is no disk.
func TestStorageFails(t *testing.T) {
	tr, warn := read(t, `openat(AT_FDCWD, "/f", O_WRONLY|O_CREAT, 0644) = -1 ENOSPC (No space left on device)`,
		`openat(AT_FDCWD, "/f", O_WRONLY) = 3`, `write(3, "x", 9) = 5`, `write(3, "x", 4) = -1 ENOSPC (No space left on device)`,
		`fsync(3) = -1 EIO (Input/output error)`, `write(3, "x", 4) = -1 EDQUOT (Disk quota exceeded)`, `write(3, "x", 4) = -1 EAGAIN (Resource temporarily unavailable)`,
		`read(0</dev/pts/1>, 0x7ff, 5) = -1 EIO (Input/output error)`, `openat(AT_FDCWD, "/no", O_RDONLY) = -1 ENOENT (No such file or directory)`)
	if diff := cmp.Diff([]string{"10 open /f", "10 write /f @0 +5"}, show(tr)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"storage-error 1 of 0", "storage-full 3 of 0"}, warn); diff != "" {
		t.Error(diff)
	}
}

// TestImpossibleCounts: a result that no kernel gives takes neither time nor memory.
func TestImpossibleCounts(t *testing.T) {
	for _, s := range []string{
		"io_submit(0x7f, 4611686018427387904, [...]) = 4611686018427387904",
		"io_getevents(0x7f, 1, 4611686018427387904, [...], NULL) = 4611686018427387904",
	} {
		tr, rep, err := Read(strings.NewReader(stamped(s)), iotrace.Options{Lenient: true})
		if err != nil || len(tr.Events) != 0 || rep.Unknown != 1 {
			t.Errorf("%s: %v, %+v", s, err, rep)
		}
	}
}
