package strace

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// show writes events as "10 write /f @5 +100": rank, operation, file, offset,
// bytes.
func show(t *iotrace.Trace) (out []string) {
	for _, e := range t.Events {
		s := fmt.Sprint(t.Ranks[e.Rank].Rank, " ", e.Op)
		if e.Create {
			s += " new"
		}
		if e.File != iotrace.None {
			s += " " + t.Files[e.File]
		}
		if e.Offset != iotrace.None {
			s += fmt.Sprint(" @", e.Offset)
		}
		if e.Bytes != 0 {
			s += fmt.Sprint(" +", e.Bytes)
		}
		out = append(out, s)
	}
	return out
}

// stamped gives the lines of a text that have none a process and a time.
func stamped(lines ...string) string {
	var b strings.Builder
	for i, l := range lines {
		if l[0] < '0' || l[0] > '9' {
			l = "10 " + l
		}
		pid, rest, _ := strings.Cut(l, " ")
		if !strings.HasPrefix(rest, "+++") && !strings.Contains(rest, "<0.") && !strings.Contains(rest, "<unfinished") {
			rest += " <0.000010>"
		}
		fmt.Fprintf(&b, "%s 1700000000.%06d %s\n", pid, i*100, rest)
	}
	return b.String()
}

func TestCalls(t *testing.T) {
	for _, c := range []struct {
		what  string
		lines []string
		want  []string
	}{
		{"paths", []string{
			`open("/a/../b/./c", O_RDONLY) = 3`,
			`openat(AT_FDCWD, "rel", O_RDONLY) = 4`,
			`chdir("/dir") = 0`,
			`openat(AT_FDCWD, "rel", O_RDONLY) = 5`,
			`chdir("sub") = 0`,
			`creat("x\n\"\\\303\251\x41\0601", 0644) = 6`,
			`openat(AT_FDCWD, ".", O_RDONLY|O_DIRECTORY) = 7`,
			`chdir("/") = 0`,
			`openat2(7, "in", {flags=O_WRONLY|O_CREAT|O_EXCL, mode=0644, resolve=0}, 24) = 8`,
			`fchdir(7) = 0`,
			`open("last", O_RDONLY) = 9`,
			`getcwd("/elsewhere", 4096) = 11`,
			`open("last", O_RDONLY) = 9`,
			`openat(AT_FDCWD</other>, "x", O_RDONLY) = 9`,
			`openat(4</dirfd>, "x", O_RDONLY) = 9`,
		}, []string{"10 open /b/c", "10 open rel", "10 open /dir/rel", "10 open new /dir/sub/x\n\"\\éA01", "10 open /dir/sub", "10 open new /dir/sub/in",
			"10 open /dir/sub/last", "10 open /elsewhere/last", "10 open /other/x", "10 open /dirfd/x"}},
		{"positions", []string{
			`open("/f", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3`,
			`write(3, "x"..., 100) = 100`,
			`pwrite64(3, "x"..., 50, 1000) = 50`,
			`write(3, "x", 1) = 1`,
			`lseek(3, 0, SEEK_SET) = 0`,
			`read(3, "\""..., 10) = 10`,
			`readv(3, [{iov_base="a)", iov_len=2}, {iov_base="b", iov_len=1}], 2) = 3`,
			`preadv2(3, [{iov_base="a", iov_len=1}], 1, -1, 0) = 1`,
			`preadv(3, [{iov_base="a", iov_len=1}], 1, 70) = 1`,
			`_llseek(3, 4294967296, [4294967296], SEEK_SET) = 0`,
			`write(3, "x", 1) = 1`,
			`read(3, 0x7ff, 5) = -1 EIO (Input/output error)`,
			`read(3, "", 5) = 0`,
		}, []string{"10 open new /f", "10 write /f @0 +100", "10 write /f @1000 +50", "10 write /f @100 +1", "10 seek /f @0", "10 read /f @0 +10", "10 read /f @10 +3",
			"10 read /f @13 +1", "10 read /f @70 +1", "10 seek /f @4294967296", "10 write /f @4294967296 +1", "10 read /f @4294967297"}},
		{"append", []string{
			`open("/f", O_WRONLY|O_APPEND) = 3`,
			`write(3, "x", 5) = 5`, // nobody knows
			`fstat(3, {st_mode=S_IFREG|0644, st_size=1000, ...}) = 0`,
			`write(3, "x", 5) = 5`,
			`open("/f", O_RDWR) = 4`,
			`fcntl(4, F_SETFL, O_RDWR|O_APPEND) = 0`,
			`write(4, "x", 7) = 7`,
			`fcntl(4, F_SETFL, O_RDWR) = 0`,
			`write(4, "x", 1) = 1`,
			`ftruncate(4, 20) = 0`,
			`write(3, "x", 2) = 2`,
			`pwrite64(4, "x", 5, 100) = 5`,
			`write(3, "x", 2) = 2`,
			`lseek(4, -7, SEEK_END) = 100`,
			`write(3, "x", 2) = 2`,
			`truncate("/f", 9) = 0`,
			`write(3, "x", 2) = 2`,
			`fallocate(4, 0, 0, 500) = 0`,
			`fallocate(4, FALLOC_FL_KEEP_SIZE, 0, 5000) = 0`,
			`write(3, "x", 2) = 2`,
		}, []string{"10 open /f", "10 write /f +5", "10 stat /f", "10 write /f @1000 +5", "10 open /f", "10 write /f @1005 +7", "10 write /f @1012 +1", "10 truncate /f +20",
			"10 write /f @20 +2", "10 write /f @100 +5", "10 write /f @105 +2", "10 seek /f @100", "10 write /f @107 +2", "10 truncate /f +9", "10 write /f @9 +2",
			"10 truncate /f +500", "10 write /f @500 +2"}},
		{"locks that wait", []string{
			`open("/f", O_RDWR) = 3`,
			`fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=1}) = 0`,
			`fcntl(3, F_SETLKW, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=4096, l_len=524288}) = 0`,
			`fcntl(3, F_SETLK, {l_type=F_UNLCK, l_whence=SEEK_SET, l_start=4096, l_len=524288}) = 0`,
			`fcntl(3, F_SETLKW, {l_type=F_UNLCK, l_whence=SEEK_SET, l_start=4096, l_len=524288}) = 0`,
			`fcntl(3, F_SETLKW, {l_type=F_RDLCK, l_whence=SEEK_CUR, l_start=10, l_len=0}) = 0`,
			`fcntl(3, F_OFD_SETLKW, {l_type=F_RDLCK, l_whence=SEEK_SET, l_start=7, l_len=0}) = 0`,
			`flock(3, LOCK_EX) = 0`,
			`flock(3, LOCK_EX|LOCK_NB) = 0`,
			`flock(3, LOCK_UN) = 0`,
		}, []string{"10 open /f", "10 lock-wait /f @4096", "10 lock-wait /f", "10 lock-wait /f @7", "10 lock-wait /f @0"}},
		{"a pipe with a name", []string{
			`openat(AT_FDCWD, "/tmp/fifo", O_RDONLY) = 3`,
			`fcntl(3, F_DUPFD, 10) = 10`,
			`fstat(3, {st_mode=S_IFIFO|0644, st_size=0, ...}) = 0`,
			`read(3, "x", 5) = 5`,
			`read(10, "x", 5) = 5`,
			`close(3) = 0`,
		}, []string{"10 open /tmp/fifo"}},
		{"memory that is of no file", []string{
			`open("/f", O_RDONLY) = 0`,
			`mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, 0, 0) = 0x7f0000000000`,
			`mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 0, 0) = 0x7f0000000000`,
		}, []string{"10 open /f", "10 mmap /f @0 +4096"}},
		{"length behind a write at an unknown position", []string{
			`open("/f", O_RDWR|O_APPEND) = 3`,
			`write(3, "x", 5) = 5`,
			`fcntl(3, F_SETFL, O_RDWR) = 0`,
			`ftruncate(3, 100) = 0`,
			`write(3, "x", 7) = 7`, // where nobody knows: now it may be longer
			`open("/f", O_WRONLY|O_APPEND) = 4`,
			`write(4, "x", 3) = 3`,
			`ftruncate(4, 100) = 0`,
			`write(3, "", 0) = 0`, // nothing
			`write(4, "x", 3) = 3`,
		}, []string{"10 open /f", "10 write /f +5", "10 truncate /f +100", "10 write /f +7", "10 open /f", "10 write /f +3", "10 truncate /f +100",
			"10 write /f", "10 write /f @100 +3"}},
		{"opened before, perhaps to append", []string{
			`fstat(1</log>, {st_mode=S_IFREG|0644, st_size=5000, ...}) = 0`,
			`lseek(1</log>, 0, SEEK_CUR) = 0`,
			`write(1</log>, "x", 5) = 5`, // as of command >> log; or is it 1<> log?
			`lseek(1</log>, 0, SEEK_CUR) = 5005`,
			`fstat(1</log>, {st_mode=S_IFREG|0644, st_size=5005, ...}) = 0`,
			`write(1</log>, "x", 5) = 5`, // there in either case
			`write(1</log>, "x", 5) = 5`,
			`fstat(2</new>, {st_mode=S_IFREG|0644, st_size=0, ...}) = 0`,
			`lseek(2</new>, 0, SEEK_CUR) = 0`,
			`write(2</new>, "x", 5) = 5`, // of command 2> new
			`fstat(3</data>, {st_mode=S_IFREG|0644, st_size=100, ...}) = 0`,
			`lseek(3</data>, 10, SEEK_SET) = 10`,
			`write(3</data>, "x", 5) = 5`, // appending is not seeking
			`fstat(4</set>, {st_mode=S_IFREG|0644, st_size=100, ...}) = 0`,
			`lseek(4</set>, 0, SEEK_CUR) = 20`,
			`fcntl(4</set>, F_SETFL, O_WRONLY) = 0`,
			`write(4</set>, "x", 5) = 5`,
		}, []string{"10 stat /log", "10 seek /log @0", "10 write /log +5", "10 seek /log @5005", "10 stat /log", "10 write /log @5005 +5", "10 write /log @5010 +5",
			"10 stat /new", "10 seek /new @0", "10 write /new @0 +5", "10 stat /data", "10 seek /data @10", "10 write /data @10 +5",
			"10 stat /set", "10 seek /set @20", "10 write /set @20 +5"}},
		{"single writes that append", []string{
			`open("/f", O_WRONLY|O_TRUNC) = 3`,
			`write(3, "x", 10) = 10`,
			`lseek(3, 0, SEEK_SET) = 0`,
			`pwritev2(3, [{iov_base="x", iov_len=5}], 1, 0, RWF_APPEND) = 5`,
			`write(3, "x", 1) = 1`, // the position did not move
			`pwritev2(3, [{iov_base="x", iov_len=5}], 1, -1, RWF_DSYNC|RWF_APPEND) = 5`,
			`write(3, "x", 1) = 1`, // now it did
			`fcntl(3, F_SETFL, O_WRONLY|O_APPEND) = 0`,
			`pwritev2(3, [{iov_base="x", iov_len=5}], 1, 7, RWF_NOAPPEND) = 5`,
			`pwritev2(3, [{iov_base="x", iov_len=5}], 1, 7, 0) = 5`,
		}, []string{"10 open new /f", "10 write /f @0 +10", "10 seek /f @0", "10 write /f @10 +5", "10 write /f @0 +1", "10 write /f @15 +5", "10 sync /f", "10 write /f @20 +1",
			"10 write /f @7 +5", "10 write /f @21 +5"}},
		{"fallocate", []string{
			`open("/f", O_WRONLY|O_APPEND) = 3`,
			`fallocate(3, 0, 0, 500) = 0`, // it may be longer
			`write(3, "x", 5) = 5`,
			`open("/g", O_WRONLY|O_CREAT, 0600) = 4`,
			`pwrite64(4, "x", 65536, 1048576) = 65536`,
			`fallocate(4, 0, 0, 4096) = 0`,
			`open("/h", O_WRONLY|O_TRUNC|O_APPEND) = 5`,
			`fallocate(5, FALLOC_FL_ZERO_RANGE, 0, 4096) = 0`,
			`write(5, "x", 4) = 4`,
			`fallocate(5, 0, 0, 4100) = 0`, // as long as it is
			`fallocate(5, FALLOC_FL_UNSHARE_RANGE, 4096, 904) = 0`,
			`fallocate(5, FALLOC_FL_KEEP_SIZE|FALLOC_FL_ZERO_RANGE, 0, 9000) = 0`,
			`fallocate(5, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 9000) = 0`,
			`write(5, "x", 1) = 1`,
			`fallocate(5, FALLOC_FL_COLLAPSE_RANGE, 0, 4096) = 0`,
			`write(5, "x", 1) = 1`,
			`fallocate(5, FALLOC_FL_INSERT_RANGE, 0, 8192) = 0`,
			`write(5, "x", 1) = 1`,
		}, []string{"10 open /f", "10 write /f +5", "10 open new /g", "10 write /g @1048576 +65536", "10 open new /h", "10 truncate /h +4096", "10 write /h @4096 +4",
			"10 truncate /h +5000", "10 write /h @5000 +1", "10 truncate /h +905", "10 write /h @905 +1", "10 truncate /h +9098", "10 write /h @9098 +1"}},
		{"shared descriptors", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`dup(3) = 4`,
			`write(3, "x", 5) = 5`,
			`write(4, "x", 5) = 5`,
			`close(3) = 0`,
			`dup2(4, 7) = 7`,
			`fcntl(7, F_DUPFD, 20) = 20`,
			`dup3(20, 21, O_CLOEXEC) = 21`,
			`close_range(7, 20, 0) = 0`,
			`write(21, "x", 5) = 5`,
			`execve("/bin/x", ["x", "a b"], 0x7f /* 3 vars */) = 0`,
			`write(21, "x", 5) = 5`, // not open any more
			`write(4, "x", 5) = 5`,
			`dup2(99, 4) = 4`, // of something unknown
			`write(4, "x", 5) = 5`,
		}, []string{"10 open new /f", "10 write /f @0 +5", "10 write /f @5 +5", "10 close /f", "10 close /f", "10 close /f", "10 write /f @10 +5", "10 write /f @15 +5"}},
		{"what exec closes", []string{
			`open("/f", O_RDWR|O_TRUNC|O_CLOEXEC) = 3`,
			`open("/g", O_RDWR|O_TRUNC) = 4`,
			`open("/h", O_RDWR|O_TRUNC|O_CLOEXEC) = 5`,
			`ioctl(3, FIONCLEX) = 0`,
			`ioctl(4, FIOCLEX) = 0`,
			`ioctl(4, TCGETS, 0x7ffee49883d0) = -1 ENOTTY (Inappropriate ioctl for device)`,
			`ioctl(1, TIOCGWINSZ, {ws_row=24, ws_col=80, ws_xpixel=0, ws_ypixel=0}) = 0`,
			`fcntl(5, F_SETFD, 0) = 0`,
			`execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0`,
			`write(3, "x", 5) = 5`,
			`write(4, "x", 5) = 5`,
			`write(5, "x", 5) = 5`,
		}, []string{"10 open new /f", "10 open new /g", "10 open new /h", "10 write /f @0 +5", "10 write /h @0 +5"}},
		{"ranges of descriptors", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`pipe([4, 5]) = 0`,
			`dup(3) = 6`,
			`clone(flags=CLONE_VM|CLONE_FILES|SIGCHLD) = 11`,
			`close_range(3, 4294967295, CLOSE_RANGE_CLOEXEC) = 0`,
			`11 close_range(5, ~0U, CLOSE_RANGE_UNSHARE) = 0`,
			`write(6, "x", 5) = 5`,
			`11 write(3, "x", 5) = 5`,
			`execveat(AT_FDCWD, "/bin/x", ["x"], 0x7f /* 3 vars */, 0) = 0`,
			`write(6, "x", 5) = 5`,
			`11 write(3, "x", 5) = 5`,
		}, []string{"10 open new /f", "11 close /f", "10 write /f @0 +5", "11 write /f @5 +5", "11 write /f @10 +5"}},
		{"names", []string{
			`open("/tmp/a", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3`,
			`write(3, "x", 5) = 5`,
			`rename("/tmp/a", "/tmp/b") = 0`,
			`write(3, "x", 5) = 5`, // still by the name it was opened by
			`open("/tmp/b", O_WRONLY|O_CREAT|O_APPEND, 0600) = 4`,
			`write(4, "x", 5) = 5`,
			`link("/tmp/b", "/tmp/c") = 0`,
			`unlink("/tmp/b") = 0`,
			`open("/tmp/c", O_WRONLY|O_APPEND) = 5`,
			`write(5, "x", 5) = 5`,
			`open("/tmp/a", O_WRONLY|O_CREAT, 0600) = 6`,
			`open("/tmp/b", O_WRONLY|O_CREAT, 0600) = 6`,
			`renameat2(AT_FDCWD, "/tmp/b", AT_FDCWD, "/tmp/c", RENAME_EXCHANGE) = 0`,
			`open("/tmp/b", O_WRONLY|O_APPEND) = 5`,
			`write(5, "x", 5) = 5`,
			`rmdir("/tmp") = 0`,
		}, []string{"10 open new /tmp/a", "10 write /tmp/a @0 +5", "10 rename /tmp/a", "10 write /tmp/a @5 +5", "10 open /tmp/b", "10 write /tmp/b @10 +5", "10 unlink /tmp/b",
			"10 open /tmp/c", "10 write /tmp/c @15 +5", "10 open new /tmp/a", "10 open new /tmp/b", "10 rename /tmp/b", "10 open /tmp/b", "10 write /tmp/b @20 +5", "10 unlink /tmp"}},
		{"no files", []string{
			`socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_TCP) = 3`,
			`write(3, "x", 5) = 5`,
			`pipe2([4, 5], O_CLOEXEC) = 0`,
			`write(5, "x", 5) = 5`,
			`socketpair(AF_UNIX, SOCK_STREAM, 0, [6, 7]) = 0`,
			`read(7, "x", 5) = 5`,
			`eventfd2(0, EFD_CLOEXEC) = 8`,
			`write(8, "x", 8) = 8`,
			`open("/dev/null", O_RDWR) = 9`,
			`write(9, "x", 8) = 8`,
			`open("/dev/shm/s", O_RDWR) = 11`,
			`write(1, "x", 8) = 8`,
			`write(77, "x", 8) = 8`,
			`read(20<TCP:[127.0.0.1:1->127.0.0.1:2]>, "x", 5) = 5`,
			`read(21<UNIX-STREAM:[5->6,"/a, b>"]>, "x", 5) = 5`,
			`read(22<anon_inode:[eventpoll]>, "x", 5) = 5`,
			`read(0</dev/pts/0<char 136:0>>, "x", 5) = 5`,
			`read(23<pipe:[555]>, "x", 5) = 5`,
			`fstat(30, {st_mode=S_IFSOCK|0777, st_size=0, ...}) = 0`,
			`write(30, "x", 5) = 5`,
			`mmap(NULL, 4096, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|21<<MAP_HUGE_SHIFT, -1, 0) = 0x7f`,
			`stat("/dev/null", {st_mode=S_IFCHR|0666, st_rdev=makedev(0x1, 0x3), ...}) = 0`,
		}, []string{"10 open /dev/shm/s"}},
		{"standard streams", []string{
			`fstat(1, {st_mode=S_IFREG|0644, st_size=7, ...}) = 0`,
			`write(1, "x", 8) = 8`,
			`write(2</var/log/e\76rr>, "x", 8) = 8`,
		}, []string{"10 stat <STDOUT>", "10 write <STDOUT> +8", "10 write /var/log/e>rr +8"}},
		{"more than one at once", []string{
			`open("/in", O_RDONLY) = 3`,
			`open("/out", O_WRONLY|O_CREAT|O_TRUNC, 0644) = 4`,
			`sendfile(4, 3, NULL, 100) = 100`,
			`sendfile(4, 3, [1000] => [1050], 50) = 50`,
			`copy_file_range(3, NULL, 4, [5000], 10, 0) = 10`,
			`pipe([5, 6]) = 0`,
			`splice(3, [7], 6, NULL, 20, SPLICE_F_MOVE) = 20`,
			`splice(5, NULL, 4, NULL, 20, 0) = 20`,
		}, []string{"10 open /in", "10 open new /out", "10 read /in @0 +100", "10 write /out @0 +100", "10 read /in @1000 +50", "10 write /out @100 +50",
			"10 read /in @100 +10", "10 write /out @5000 +10", "10 read /in @7 +20", "10 write /out @150 +20"}},
		{"metadata", []string{
			`stat("/f", {st_mode=S_IFREG|0644, st_size=9, ...}) = 0`,
			`lstat("/l", {st_mode=S_IFLNK|0777, st_size=9, ...}) = 0`,
			`newfstatat(AT_FDCWD, "/f", {st_mode=S_IFREG|0644, st_size=9, ...}, AT_SYMLINK_NOFOLLOW) = 0`,
			`statx(AT_FDCWD, "/f", AT_STATX_SYNC_AS_STAT, STATX_ALL, {stx_mask=STATX_BASIC_STATS, stx_mode=S_IFREG|0644, stx_size=9, ...}) = 0`,
			`access("/f", R_OK) = 0`,
			`faccessat2(AT_FDCWD, "/f", R_OK, AT_EACCESS) = 0`,
			`access("/g", R_OK) = -1 ENOENT (No such file or directory)`,
			`open("/f", O_RDONLY) = 3`,
			`newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=9, ...}, AT_EMPTY_PATH) = 0`,
			`newfstatat(AT_FDCWD</cwd>, "", {st_mode=S_IFDIR|0755, st_size=9, ...}, AT_EMPTY_PATH) = 0`,
			`mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</f>, 0x1000) = 0x7f00000`,
			`mmap2(NULL, 8192, PROT_READ, MAP_PRIVATE, 3, 0x2000) = 0x7f00000`,
			`fsync(3) = 0`,
			`sync_file_range(3, 0, 4096, SYNC_FILE_RANGE_WRITE) = 0`,
			`sync() = 0`,
			`syncfs(3) = 0`,
			`unlinkat(AT_FDCWD, "g", 0) = 0`,
			`futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1`,
		}, []string{"10 stat /f", "10 stat /l", "10 stat /f", "10 stat /f", "10 stat /f", "10 stat /f", "10 open /f", "10 stat /f", "10 mmap /f @4096 +8192", "10 mmap /f @8192 +8192",
			"10 sync /f", "10 sync /f @0 +4096", "10 sync", "10 sync /f", "10 unlink /cwd/g"}},
		{"what -y knows better", []string{
			`open("rel", O_RDWR|O_CREAT, 0600) = 3</home/me/rel>`,
			`open("other", O_RDONLY) = 4`, // by now the directory is known
			`write(3</home/me/rel>, "x", 5) = 5`,
			`write(3</else>, "x", 5) = 5`, // opened unseen
			`read(5</old>, "x", 5) = 5`,
			`lseek(5</old>, 0, SEEK_SET) = 0`,
			`read(5</old>, "x", 5) = 5`,
			`rename("/old", "/new") = 0`,
			`read(5</new>, "x", 5) = 5`,
			`unlink("/new") = 0`,
			`read(5</new>(deleted), "x", 5) = 5`,
			`open("/tmp", O_RDWR|O_TMPFILE, 0600) = 6</tmp/#123>(deleted)`,
			`write(6</tmp/#123>(deleted), "x", 5) = 5`,
			`open("/tmp", O_RDWR|O_TMPFILE, 0600) = 7`,
			`open("/dev/stdout", O_WRONLY) = 8<pipe:[5]>`,
		}, []string{"10 open new /home/me/rel", "10 open /home/me/other", "10 write /home/me/rel @0 +5", "10 write /else +5", "10 read /old +5", "10 seek /old @0", "10 read /old @0 +5",
			"10 rename /old", "10 read /new @5 +5", "10 unlink /new", "10 read /new @10 +5", "10 open new /tmp/#123", "10 write /tmp/#123 @0 +5", "10 open new /tmp/(O_TMPFILE)"}},
		{"numbers given again unseen", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3</f>`,
			`write(3</f>, "x", 10) = 10`,
			`write(3<socket:[77]>, "x", 5000) = 5000`,
			`close(3<socket:[77]>) = 0`,
			`pipe2([5<pipe:[1]>, 6<pipe:[1]>], 0) = 0`,
			`write(6<pipe:[1]>, "x", 7) = 7`,
			`write(6</big>, "x", 700) = 700`,
			`memfd_create("m", 0) = 7</memfd:m>(deleted)`,
			`write(7</memfd:m>(deleted), "x", 9) = 9`,
			`open("/g", O_RDWR|O_TRUNC) = 8</g>`,
			`unlink("/g") = 0`,
			`write(8</g>(deleted), "x", 6) = 6`,
			`write(8<pipe:[2]>, "x", 6) = 6`,
			`write(8</dev/null<char 1:3>>, "x", 6) = 6`,
		}, []string{"10 open new /f", "10 write /f @0 +10", "10 write /big +700", "10 open new /g", "10 unlink /g", "10 write /g @0 +6"}},
		{"-y with -xx", []string{
			`open("\x66", O_RDWR|O_TRUNC) = 3<\x2f\x74\x2f\x66>`,
			`write(3<\x2f\x74\x2f\x66>, "\x78", 5) = 5`,
			`write(3<\x2f\x74\x2f\x66>, "\x78", 6) = 6`,
			`write(4<\x70\x69\x70\x65\x3a\x5b\x35\x5d>, "\x78", 6) = 6`,
			`write(5<\x2f\x64\x65\x76\x2f\x70\x74\x73\x2f\x30<char 136:0>>, "\x78", 6) = 6`,
		}, []string{"10 open new /t/f", "10 write /t/f @0 +5", "10 write /t/f @5 +6"}},
		{"a directory is renamed", []string{
			`open("/ck/tmp/x", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3</ck/tmp/x>`,
			`open("/ck/tmp/sub/y", O_RDWR|O_CREAT|O_TRUNC, 0644) = 4</ck/tmp/sub/y>`,
			`write(3</ck/tmp/x>, "x", 5) = 5`,
			`write(4</ck/tmp/sub/y>, "x", 6) = 6`,
			`rename("/ck/tmp", "/ck/0001") = 0`,
			`write(3</ck/0001/x>, "x", 5) = 5`,
			`write(4</ck/0001/sub/y>, "x", 6) = 6`,
			`open("/ck/0001/x", O_WRONLY|O_APPEND) = 5</ck/0001/x>`,
			`write(5</ck/0001/x>, "x", 5) = 5`,
			`open("/ck/tmp/x", O_WRONLY|O_CREAT|O_APPEND, 0644) = 6</ck/tmp/x>`, // another
			`write(6</ck/tmp/x>, "x", 1) = 1`,
			`renameat2(AT_FDCWD</>, "/ck/tmp", AT_FDCWD</>, "/ck/0001", RENAME_EXCHANGE) = 0`,
			`write(5</ck/tmp/x>, "x", 5) = 5`,
			`write(6</ck/0001/x>, "x", 1) = 1`,
		}, []string{"10 open new /ck/tmp/x", "10 open new /ck/tmp/sub/y", "10 write /ck/tmp/x @0 +5", "10 write /ck/tmp/sub/y @0 +6", "10 rename /ck/tmp",
			"10 write /ck/tmp/x @5 +5", "10 write /ck/tmp/sub/y @6 +6", "10 open /ck/0001/x", "10 write /ck/0001/x @10 +5", "10 open new /ck/tmp/x", "10 write /ck/tmp/x +1",
			"10 rename /ck/tmp", "10 write /ck/0001/x @15 +5", "10 write /ck/tmp/x +1"}},
		{"symbolic links, by -y", []string{
			`open("/scratch/a.tmp", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3</lustre/a.tmp>`,
			`write(3</lustre/a.tmp>, "x", 5) = 5`,
			`rename("/scratch/a.tmp", "/scratch/a") = 0`,
			`write(3</lustre/a>, "x", 5) = 5`,
			`stat("/scratch/a", {st_mode=S_IFREG|0644, st_size=10, ...}) = 0`,
			`truncate("/scratch/a", 7) = 0`,
			`open("/scratch/a", O_WRONLY|O_APPEND) = 4</lustre/a>`,
			`write(4</lustre/a>, "x", 1) = 1`,
			`unlink("/scratch/a") = 0`,
			`unlink("/scratch/b") = 0`,                             // in the same directory
			`open("/data/in", O_RDONLY) = 5</archive/in>`,          // of which it is not known which name is a link
			`open("/data/latest", O_RDONLY) = 6</archive/0001>`,    // the last
			`rename("/data/latest", "/data/older") = 0`,            // the link
			`stat("/data/older", {st_mode=S_IFREG|0644, ...}) = 0`, // the file
			`stat("/data/in", {st_mode=S_IFREG|0644, ...}) = 0`,
			`stat("/data/out", {st_mode=S_IFREG|0644, ...}) = 0`,
			`rename("/data/in", "/data/was") = 0`,
			`read(5</archive/was>, "x", 1) = 1`,
			`open("/scratch/c", O_WRONLY|O_CREAT, 0644) = 7</scratch/c>`, // no link any more
			`unlink("/scratch/b") = 0`,
		}, []string{"10 open new /lustre/a.tmp", "10 write /lustre/a.tmp @0 +5", "10 rename /lustre/a.tmp", "10 write /lustre/a.tmp @5 +5", "10 stat /lustre/a", "10 truncate /lustre/a +7",
			"10 open /lustre/a", "10 write /lustre/a @7 +1", "10 unlink /lustre/a", "10 unlink /lustre/b", "10 open /archive/in", "10 open /archive/0001", "10 rename /data/latest",
			"10 stat /archive/0001", "10 stat /archive/in", "10 stat /data/out", "10 rename /archive/in", "10 read /archive/in @0 +1", "10 open new /scratch/c", "10 unlink /scratch/b"}},
		{"fork and threads", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`open("/cloexec", O_RDWR|O_CLOEXEC) = 4`,
			`fork() = 11`,
			`11 write(3, "x", 5) = 5`, // one position for both
			`write(3, "x", 5) = 5`,
			`close(3) = 0`,
			`11 write(3, "x", 5) = 5`, // each has its own descriptor
			`11 execve("/bin/x", ["x"], 0x7f /* 3 vars */) = 0`,
			`11 write(4, "x", 5) = 5`,
			`write(4, "x", 5) = 5`,
			`clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, parent_tid=[12], tls=0x7f) = 12`,
			`12 open("/t", O_RDWR) = 5`,
			`write(5, "x", 5) = 5`,
			`12 chdir("/dir") = 0`,
			`open("rel", O_RDONLY) = 6`,
			`12 unshare(CLONE_FILES|CLONE_FS) = 0`,
			`12 close(6) = 0`,
			`read(6, "x", 1) = 1`,
			`clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack=0x7f, stack_size=0x9000}, 88) = 13`,
			`13 close(6) = 0`,
			`read(6, "x", 1) = 1`,
			`clone3({flags=CLONE_FILES, exit_signal=SIGCHLD} => {parent_tid=[14]}, 88) = 14`,
			`14 close(6) = 0`,
			`read(6, "x", 1) = 1`,
			`14 +++ exited with 0 +++`,
			`clone(child_stack=NULL, flags=CLONE_VM|CLONE_PIDFD|CLONE_VFORK|SIGCHLD, parent_tid=[7<anon_inode:[pidfd]>]) = 15`,
			`close(7) = 0`,
		}, []string{"10 open new /f", "10 open /cloexec", "11 write /f @0 +5", "10 write /f @5 +5", "10 close /f", "11 write /f @10 +5", "10 write /cloexec @0 +5",
			"10 open /t", "10 write /t @0 +5", "10 open /dir/rel", "10 close /dir/rel", "10 read /dir/rel @0 +1", "13 close /dir/rel", "10 read /dir/rel @1 +1", "14 close /dir/rel"}},
		{"unfinished", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD <unfinished ...>`,
			`12 write(3, "x", 5) = 5`, // before clone has returned
			`<... clone resumed>, parent_tid=[12]) = 12`,
			`close(3 <unfinished ...>`,
			`12 open("/g", O_RDWR <unfinished ...>`,
			`12 <... open resumed>) = 3`, // the number is free again
			`<... close resumed>) = 0`,
			`12 write(3,  <unfinished ...>`,
			`read(3, <unfinished ...>`,
			`12 <... write resumed>"x"..., 5) = 5`,
			`<... read resumed>"y", 1) = 1`,
			`12 read(3, <unfinished ...>`,
			`<... read resumed>"y", 1) = 1`, // of nothing
			`12 <... write resumed>"y", 1) = 1`,
			`vfork( <unfinished ...>`,
			`13 execve("/bin/y", ["y"], 0x7f /* 1 var */) = 0`,
			`13 write(3, "x", 5) = 5`,
			`<... vfork resumed>) = 13`,
			`write(3, "x", 5) = 5`,
			`exit_group(0 <unfinished ...>`,
			`12 <... futex resumed> <unfinished ...>) = ?`,
			`12 +++ exited with 0 +++`,
			`10 +++ exited with 0 +++`,
		}, []string{"10 open new /f", "10 write /f @0 +5", "10 close /f", "10 open /g", "10 write /g @0 +5", "10 read /g @5 +1", "13 write /g @6 +5", "10 write /g @11 +5"}},
		{"numbers given again during a call", []string{
			`clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD) = 12`,
			`close(57 <unfinished ...>`, // nobody knows what it is
			`12 open("/g", O_RDWR|O_TRUNC) = 57`,
			`<... close resumed>) = 0`,
			`12 write(57, "x", 5) = 5`,
			`open("/a,b)", O_RDWR|O_TRUNC) = 3</a,b)>`,
			`close(3</a,b)> <unfinished ...>`,
			`12 open("/h", O_RDWR|O_TRUNC) = 3</h>`,
			`<... close resumed>) = 0`,
			`12 write(3</h>, "x", 5) = 5`,
			`12 write(3</h>, "x", 5) = 5`,
			`close(4<socket:[9]> <unfinished ...>`,
			`12 open("/i", O_RDWR|O_TRUNC) = 4</i>`,
			`<... close resumed>) = 0`,
			`12 write(4</i>, "x", 5) = 5`,
			`12 write(4</i>, "x", 5) = 5`,
			`read(5</old>, <unfinished ...>`,
			`12 close(5</old>) = 0`,
			`12 open("/j", O_RDWR|O_TRUNC) = 5</j>`,
			`<... read resumed>"x", 5) = 5`,
			`12 write(5</j>, "x", 5) = 5`,
			`close(1 <unfinished ...>`,
			`12 open("/k", O_RDWR|O_TRUNC) = 1`,
			`<... close resumed>) = 0`,
			`12 write(1, "x", 5) = 5`,
			`read(6</l>, <unfinished ...>`,
			`<... read resumed>"x", 5) = 5`,
			`lseek(6</l>, 7, SEEK_SET) = 7`,
			`read(6</l>, "x", 5) = 5`,
			`fsync( <unfinished ...>`,
			`<... fsync resumed>6</l>) = 0`,
		}, []string{"10 open new /g", "10 write /g @0 +5", "10 open new /a,b)", "10 close /a,b)", "10 open new /h", "10 write /h @0 +5", "10 write /h @5 +5",
			"10 open new /i", "10 write /i @0 +5", "10 write /i @5 +5", "10 read /old +5", "10 close /old", "10 open new /j", "10 write /j @0 +5",
			"10 open new /k", "10 write /k @0 +5", "10 read /l +5", "10 seek /l @7", "10 read /l @7 +5", "10 sync /l"}},
		{"several forks at once", []string{
			`open("/a", O_RDWR|O_TRUNC) = 3`,
			`fork() = 20`,
			`20 open("/b", O_RDWR|O_TRUNC) = 4`,
			`fork( <unfinished ...>`,
			`20 fork( <unfinished ...>`,
			`31 write(4, "x", 5) = 5`, // whose child is it?
			`30 write(3, "x", 5) = 5`,
			`31 execve("/bin/x", ["x"], 0x7f /* 3 vars */ <unfinished ...>`,
			`<... fork resumed>) = 30`,
			`31 <... execve resumed>) = 0`, // only one is left, but others of its lines wait
			`20 <... fork resumed>) = 31`,
			`31 write(4, "x", 5) = 5`,
		}, []string{"10 open new /a", "20 open new /b", "31 write /b @0 +5", "30 write /a @0 +5", "31 write /b @5 +5"}},
		{"a child that is never told of", []string{
			`fork( <unfinished ...>`,
			`11 fork() = 12`,
			`11 fork( <unfinished ...>`,
			`12 fork( <unfinished ...>`,
			`13 open("/a", O_RDONLY) = 3`,
		}, []string{"13 open /a"}},
		{"attached: a task shows up while another is made", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`clone(child_stack=0x7f, flags=CLONE_VM|CLONE_FILES|CLONE_THREAD <unfinished ...>`,
			`20 open("/t", O_RDWR|O_TRUNC) = 9`, // has been there all the time
			`30 fsync(99) = -1 EBADF (Bad file descriptor)`,
			`20 write(9, "x", 5) = 5`,
			`<... clone resumed>, parent_tid=[30]) = 30`,
			`30 write(3, "x", 5) = 5`,
			`20 write(9, "x", 5) = 5`,
			`30 open("/g", O_RDWR|O_TRUNC) = 4`,
			`write(4, "x", 5) = 5`,
		}, []string{"10 open new /f", "10 open new /t", "10 write /t @0 +5", "10 write /f @0 +5", "10 write /t @5 +5", "10 open new /g", "10 write /g @0 +5"}},
		{"exec of a thread", []string{
			`open("/f", O_RDWR|O_TRUNC) = 3`,
			`clone(flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD) = 12`,
			`futex(0x7f, FUTEX_WAIT <unfinished ...>`,
			`12 execve("/bin/x", ["x"], 0x7f /* 3 vars */ <unfinished ...>`,
			`10 <... futex resumed>) = ?`,
			`10 +++ superseded by execve in pid 12 +++`,
			`10 <... execve resumed>) = 0`,
			`10 write(3, "x", 5) = 5`,
			`10 +++ superseded by execve in pid 99 +++`,
		}, []string{"10 open new /f", "10 write /f @0 +5"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			text := stamped(c.lines...)
			tr, rep, err := Read(strings.NewReader(text), iotrace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := iotracetest.Valid(tr); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, show(tr)); diff != "" {
				t.Error(diff)
			}
			unknown := int64(0)
			if c.what == "unfinished" {
				unknown = 3
			}
			if rep.Unknown != unknown || c.what == "fork and threads" && rep.Others["pidfd"] != 1 {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// TestImpossible reads calls that took a time, or moved bytes, as none can.
func TestImpossible(t *testing.T) {
	open := "10 1700000000.1 open(\"/f\", O_RDWR) = 3 <0.1>\n"
	for _, l := range []string{`write(3, "x", 10) = 10 <-0.1>`, `write(3, "x", 10) = 10 <99999999999.1>`, `write(3, "x", 10) = 10 <31708800.1>`, `write(3, "x", 10) = 10 <1.2.3>`} {
		tr, rep, err := Read(strings.NewReader(open+"10 1700000000.2 "+l+"\n"), iotrace.Options{})
		if err != nil || len(tr.Events) != 1 || rep.Unknown != 1 || rep.Notes[0].Reason != "the call took a time that cannot be" {
			t.Errorf("%s: %v, %+v, %v", l, show(tr), rep, err)
		}
	}
	for _, l := range []string{`write(3, "x", 10) = 20 <0.1>`, `read(3, "x", 10) = 20 <0.1>`, `pwrite64(3, "x", 10, 0) = 20 <0.1>`, `sendfile(9, 3, NULL, 10) = 20 <0.1>`,
		`copy_file_range(3, NULL, 9, NULL, 10, 0) = 20 <0.1>`} {
		_, _, err := Read(strings.NewReader(open+"10 1700000000.2 "+l+"\n"), iotrace.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "line 2: ") || !strings.HasSuffix(err.Error(), ": returned 20 bytes, 10 requested") {
			t.Errorf("%s: %v", l, err)
		}
		tr, rep, err := Read(strings.NewReader(open+"10 1700000000.2 "+l+"\n"), iotrace.Options{Lenient: true})
		if err != nil || len(tr.Events) != 1 || rep.Unknown != 1 {
			t.Errorf("%s: %v, %+v, %v", l, show(tr), rep, err)
		}
	}
}

// TestReport counts what makes no event.
func TestReport(t *testing.T) {
	text := stamped(
		`socket(AF_INET, SOCK_STREAM, 0) = 3`, `write(3, "x", 5) = 5`, `write(3, "x", 5) = 5`, `read(1, "x", 5) = 5`, `read(50, "x", 5) = 5`, `fsync(3) = 0`,
		`open("/x", O_RDONLY) = -1 ENOENT (No such file or directory)`, `read(0, 0x7f, 1) = ? ERESTARTSYS (To be restarted if SA_RESTART is set)`,
		`futex(0x7f, FUTEX_WAKE) = 0`, `io_submit(0x7f, 1, [...]) = 1`, `read(9 <unfinished ...>`) +
		"10 1700000000.5 write(3, \"x\", 5) = 5\n10 1700000000.6 --- SIGCHLD {si_signo=SIGCHLD} ---\nhello world\n10 1700000000.7 read(3\n10 close(3) = 0\n"
	_, rep, err := Read(strings.NewReader(text), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &iotrace.Report{
		Lines: 16, Unknown: 3, Failed: 2, Calls: 12,
		Notes: []iotrace.Note{{Line: 14, Text: "hello world", Reason: "this is not a line of strace"},
			{Line: 15, Text: "3", Reason: "the arguments of the call have no end"},
			{Line: 16, Text: "10 close(3) = 0", Reason: "the line has no time, as others have"}},
		Astray: 1, AstrayBytes: 5,
		Others: map[string]int64{"socket": 4, "standard stream": 1, "other call": 1,
			"call that did not return": 1, "call without a duration (strace -T gives it)": 1},
	}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Error(diff)
	}
}

// TestAstray counts what goes to descriptors that are not known, which those of a
// program's beginning may become.
func TestAstray(t *testing.T) {
	tr, rep, err := Read(strings.NewReader(stamped(
		`write(1, "x", 5) = 5`,
		`dup2(99, 1) = 1`,
		`write(1, "x", 7) = 7`,
		`dup2(1, 2) = 2`,
		`dup2(2, 6) = 6`,
		`write(6, "x", 70) = 70`,
		`close(6) = 0`,
		`read(6, "x", 700) = 700`,
		`fstat(2, {st_mode=S_IFIFO|0600, st_size=0, ...}) = 0`,
		`write(2, "x", 5) = 5`,
		`write(1</f>, "x", 5) = 5`)), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10 write /f +5"}, show(tr)); diff != "" {
		t.Error(diff)
	}
	want := &iotrace.Report{Lines: 11, Calls: 11, Astray: 3, AstrayBytes: 777, Others: map[string]int64{"standard stream": 1, "unknown descriptor": 1, "pipe": 2}}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Error(diff)
	}
}

// TestTimes looks at the times of -t, -tt, -ttt, -r and others.
func TestTimes(t *testing.T) {
	const ms, day = 1e6, 86400e9
	for _, c := range []struct {
		text   string
		want   [][2]int64
		origin time.Time
	}{
		{"1700000000.5 sync() = 0 <0.25>\n1700000001.000000001 sync() = 0 <0.000001>\n", [][2]int64{{0, 250 * ms}, {500*ms + 1, 500*ms + 1001}}, time.Unix(1700000000, 5e8).UTC()},
		{"5 1700000000 sync() = 0 <0.25>\n5 1700000000 sync() = 0\n", [][2]int64{{0, 250 * ms}, {0, 0}}, time.Unix(1700000000, 0).UTC()},
		// Without a date, they count from midnight.
		{"23:59:59.5 sync() = 0 <0.1>\n00:00:00.5 sync() = 0 <1>\n23:59:59.5 sync() = 0 <0>\n00:00:00 sync() = 0 <0>\n",
			[][2]int64{{day - 500*ms, day - 400*ms}, {day + 500*ms, day + 1500*ms}, {2*day - 500*ms, 2*day - 500*ms}, {2 * day, 2 * day}}, time.Time{}},
		{"12:00:00 sync( <unfinished ...>\n12:00:02 <... sync resumed>) = 0\n", [][2]int64{{day / 2, day/2 + 2000*ms}}, time.Time{}},
		{"12:00:00 (+     0.000000) sync() = 0\n12:00:02 (+0.5) sync() = 0\n", [][2]int64{{day / 2, day / 2}, {day/2 + 2000*ms, day/2 + 2000*ms}}, time.Time{}},
		{"[pid    10] 12:00:00.25 sync() = 0\n[pid 11<cat>] 12:00:00.5 sync() = 0\n", [][2]int64{{day/2 + 250*ms, day/2 + 250*ms}, {day/2 + 500*ms, day/2 + 500*ms}}, time.Time{}},
	} {
		tr, _, err := Read(strings.NewReader(c.text), iotrace.Options{Strict: true})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var got [][2]int64
		for _, e := range tr.Events {
			got = append(got, [2]int64{e.Start, e.End})
		}
		if diff := cmp.Diff(c.want, got); diff != "" || !tr.Origin.Equal(c.origin) {
			t.Errorf("%s: %s, origin %v", c.text, diff, tr.Origin)
		}
	}
}

// TestNumbers finds processes where lines have a number only at times.
func TestNumbers(t *testing.T) {
	text := `12:00:01 execve("/bin/sh", ["sh", "-c", "x"], 0x7f /* 3 vars */) = 0
12:00:01 open("/f", O_RDWR|O_TRUNC) = 3
12:00:02 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|SIGCHLDstrace: Process 101 attached
, child_tidptr=0x7f) = 101
[pid   101] 12:00:03 write(3, "x", 5) = 5
[pid   100] 12:00:03 write(3, "x", 5) = 5
[pid   100] 12:00:03 wait4(-1,  <unfinished ...>
[pid   101] 12:00:04 +++ exited with 0 +++
12:00:04 <... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 101
12:00:04 vfork(strace: Process 102 attached
 <unfinished ...>
[pid   102] 12:00:05 write(3, "x", 5) = 5
[pid   102] 12:00:05 +++ exited with 0 +++
12:00:05 <... vfork resumed>) = 102
12:00:05 write(3, "x", 5) = 5
12:00:05 +++ exited with 0 +++
`
	tr, rep, err := Read(strings.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"100 open new /f", "101 write /f @0 +5", "100 write /f @5 +5", "102 write /f @10 +5", "100 write /f @15 +5"}, show(tr)); diff != "" || tr.Job != "sh -c x" {
		t.Errorf("%s, job %q, %+v", diff, tr.Job, rep)
	}
	// Without the notices of strace -q: what resumes is the parent.
	text = `12:00:01 open("/f", O_RDWR|O_TRUNC) = 3
12:00:02 fork( <unfinished ...>
[pid   101] 12:00:03 write(3, "x", 5) = 5
[pid   100] 12:00:03 <... fork resumed>) = 101
[pid   100] 12:00:03 write(3, "x", 5) = 5
`
	tr, _, err = Read(strings.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"100 open new /f", "101 write /f @0 +5", "100 write /f @5 +5"}, show(tr)); diff != "" {
		t.Error(diff)
	}
	// No numbers at all.
	tr, _, err = Read(strings.NewReader("12:00:01 open(\"/f\", O_RDWR|O_TRUNC) = 3\n"), iotrace.Options{Strict: true})
	if err != nil || cmp.Diff([]string{"0 open new /f"}, show(tr)) != "" {
		t.Error(tr, err)
	}
	// A process number that is used again makes one rank.
	tr, _, err = Read(strings.NewReader(stamped(`fork() = 11`, `11 sync() = 0`, `11 +++ exited with 0 +++`, `fork() = 11`, `11 sync() = 0`)), iotrace.Options{Strict: true})
	if err != nil || cmp.Diff([]string{"11 sync", "11 sync"}, show(tr)) != "" || len(tr.Ranks) != 1 {
		t.Error(tr, err)
	}
}

func TestErrors(t *testing.T) {
	ok := stamped(`open("/f", O_RDWR|O_TRUNC) = 3`, `write(3, "x", 5) = 5`)
	for _, c := range []struct {
		text, want string
		kind       error
		lenient    bool // lenient makes something of it
	}{
		{"", "line 1: this is an empty file, not output of strace", iotrace.ErrWrongFormat, false},
		{"# darshan log version: 3.41\n", "line 1: this is Darshan DXT text, not output of strace", iotrace.ErrWrongFormat, false},
		{"#ckpt-trace,1\n", "line 1: this is a CSV trace of ckpt, not output of strace", iotrace.ErrWrongFormat, false},
		{"% time     seconds  usecs/call     calls    errors syscall\n", "line 1: this is the summary of strace -c, not", iotrace.ErrWrongFormat, false},
		{"once upon a time\n", "line 1: this is not output of strace", iotrace.ErrWrongFormat, false},
		{"open(\"/f\", O_RDONLY) = 3\n", "line 1: the line has no time: run strace with -ttt and -T", iotrace.ErrNoTimes, false},
		{"10 open(\"/f\", O_RDONLY) = 3\n", "line 1: the line has no time", iotrace.ErrNoTimes, false},
		{"     0.000100 open(\"/f\", O_RDONLY) = 3\n", "line 1: the times are relative", iotrace.ErrNoTimes, false},
		{"strace: Process 7 attached\n", "line 1: no line has a time", iotrace.ErrNoTimes, false},
		{ok[:len(ok)-1], "line 2: the last line has no end", iotrace.ErrTruncated, true},
		{ok + "1 1700000009.0 clone(flags=CLONE_VMstrace: Process 5 attached\n", "line 3: the rest of the line is not there", iotrace.ErrTruncated, true},
		{ok + "10 1699999999.5 sync() = 0\n", "line 3: the clock runs backwards by 500.1ms", nil, true},
		{"12:00:02 sync() = 0\n11:00:02 sync() = 0\n", "line 2: the clock runs backwards by 1h0m0s", nil, true},
		{ok + "10 1699999999.5 sync() = 0 <0.6>\n10 1699999999.2 sync() = 0\n", "line 3: the clock runs backwards by 500.1ms: strace -z prints calls", nil, true},
		{ok + "10 12:00:00 sync() = 0\n", "line 3: the line has another kind of time", nil, true},
		{ok + stamped(`pwrite64(3, "x", 1, -5) = 1`), "line 3: the clock", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `pwrite64(3, "x", 1, -5) = 1`), "line 2: pwrite64: invalid offset -5", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `pread64(3, "x", 1, 99999999999999999999) = 1`), "line 2: pread64: invalid offset 99999999999999999999", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `pread64(3, "x", 1, 9223372036854775807) = 1`), "line 2: pread64: 1 bytes at offset 9223372036854775807 end beyond", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `lseek(3, 9223372036854775807, SEEK_SET) = 9223372036854775807`, `write(3, "x", 1) = 1`), "line 3: write: 1 bytes at offset", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `fallocate(3, 0, 9223372036854775807, 9) = 0`), "line 2: fallocate: 9 bytes at offset", nil, true},
		{stamped(`open("/f", O_RDWR) = 3`, `ftruncate(3, -9) = 0`), "line 2: ftruncate: length -9 is negative", nil, true},
		{ok + "1 1700000009.0 x" + strings.Repeat("y", 2<<20), "line 3: the line is longer", nil, true},
	} {
		tr, _, err := Read(strings.NewReader(c.text), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) || tr != nil {
			t.Errorf("%.200s: %v\nwant %s", c.text, err, c.want)
		}
		tr, rep, err := Read(strings.NewReader(c.text), iotrace.Options{Lenient: true})
		if (err == nil) != c.lenient {
			t.Errorf("%.200s: lenient: %v", c.text, err)
		}
		if err == nil && rep.Cut == nil && rep.Unknown == 0 {
			t.Errorf("%.200s: lenient says nothing", c.text)
		}
		if err == nil {
			if err := iotracetest.Valid(tr); err != nil {
				t.Errorf("%.200s: %v", c.text, err)
			}
		}
	}
	broken := errors.New("broken")
	if _, _, err := Read(io.MultiReader(strings.NewReader(ok), iotest.ErrReader(broken)), iotrace.Options{Lenient: true}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestHeldAtEnd reads lines of processes whose parents are not told of before the
// end, be it that of the text or where it is cut.
func TestHeldAtEnd(t *testing.T) {
	text := stamped(`open("/a", O_RDWR|O_TRUNC) = 3`, `fork() = 20`, `fork( <unfinished ...>`, `20 fork( <unfinished ...>`,
		`31 open("/b", O_RDWR|O_TRUNC) = 4`, `31 fork() = 32`, `32 write(4, "x", 5) = 5`, `31 write(4, "x", 6) = 6`)
	want := []string{"10 open new /a", "31 open new /b", "32 write /b @0 +5", "31 write /b @5 +6"}
	for _, cut := range []string{"", "31 170", "10 1700000009.0 forkstrace: Process 5 attached\n", "10 1600000000.0 sync() = 0\n10 5\n"} {
		for range 20 { // the order of a map is not that of the lines
			tr, rep, err := Read(strings.NewReader(text+cut), iotrace.Options{Lenient: true})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, slices.DeleteFunc(show(tr), func(s string) bool { return s == "10 sync" })); diff != "" {
				t.Errorf("%q: %s", cut, diff)
			}
			if rep.Others["call that did not return"] != 2 {
				t.Errorf("%q: %+v", cut, rep)
			}
		}
	}
}

// TestEndOrder reads lines in the order in which calls end, as strace -z has them:
// all of them can be used.
func TestEndOrder(t *testing.T) {
	tr, rep, err := Read(strings.NewReader("10 1700000000.1 open(\"/f\", O_RDWR|O_TRUNC) = 3 <0.1>\n11 1700000000.5 sync() = 0 <0.1>\n"+
		"10 1700000000.2 write(3, \"x\", 5) = 5 <0.4>\n10 1700000000.3 write(3, \"x\", 5) = 5 <0.1>\n"), iotrace.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10 open new /f", "10 write /f @0 +5", "10 write /f @5 +5", "11 sync"}, show(tr)); diff != "" || rep.Unknown != 1 {
		t.Errorf("%s\n%+v", diff, rep) // the last is a clock that runs backwards
	}
}

// TestLongLine reads lines on which there is much to look for. That it takes no longer
// per byte than on short ones is for BenchmarkLongLine to show.
func TestLongLine(t *testing.T) {
	const lines = 10
	for _, part := range []string{"<a", "3</f>, ", "3<UNIX:[1], "} {
		long := "10 1700000001.0 read(" + strings.Repeat(part, (iotrace.MaxLine-100)/len(part)) + "\n"
		text := stamped("sync() = 0") + strings.Repeat(long, lines)
		_, rep, err := Read(strings.NewReader(text), iotrace.Options{})
		if err != nil || rep.Unknown != lines {
			t.Errorf("%s: %v, %+v", part, err, rep)
		}
	}
}

func BenchmarkLongLine(b *testing.B) {
	for _, size := range []int{iotrace.MaxLine / 16, iotrace.MaxLine - 100} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			text := stamped("sync() = 0") + "10 1700000001.0 read(" + strings.Repeat("<a", size/2) + "\n"
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, _, err := Read(strings.NewReader(text), iotrace.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestStrict stops at lines that are else only counted.
func TestStrict(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"hello", "this is not a line of strace"},
		{"10 close(3) = 0", "the line has no time, as others have"},
		{"10 1700000000.1 close(3", "the arguments of the call have no end"},
		{"10 1700000000.1 close(3) or so", "the call has no result"},
		{"10 1700000000.1 close(3) = x", "the call has no result"},
		{"10 1700000000.1 close(3) = 3<x", "the call has no result"},
		{"10 1700000000.1 close(x) = 0", "the arguments of close are not understood"},
		{"10 1700000000.1 read(x, \"\", 1) = 0", "the arguments of read are not understood"},
		{"10 1700000000.1 open(\"/f) = 0", "the arguments of the call have no end"},
		{"10 1700000000.1 execve(\"/f\", /* ) = 0", "the arguments of the call have no end"},
		{"10 1700000000.1 open(0x7f, O_RDONLY) = 3", "the arguments of open are not understood"},
		{"10 1700000000.1 open(\"/f\") = 3", "the arguments of open are not understood"},
		{"10 1700000000.1 openat(x, \"f\", O_RDONLY) = 3", "the arguments of openat are not understood"},
		{"10 1700000000.1 openat(3</f, \"f\", O_RDONLY) = 3", "the arguments of openat are not understood"},
		{"10 1700000000.1 rename(\"/f\", 0x7f) = 0", "the arguments of rename are not understood"},
		{"10 1700000000.1 link(\"/f\", 0x7f) = 0", "the arguments of link are not understood"},
		{"10 1700000000.1 unlink(0x7f) = 0", "the arguments of unlink are not understood"},
		{"10 1700000000.1 truncate(\"/f\", x) = 0", "the arguments of truncate are not understood"},
		{"10 1700000000.1 ftruncate(3, x) = 0", "the arguments of ftruncate are not understood"},
		{"10 1700000000.1 fallocate(3, 0, x, 1) = 0", "the arguments of fallocate are not understood"},
		{"10 1700000000.1 stat(0x7f, {...}) = 0", "the arguments of stat are not understood"},
		{"10 1700000000.1 fstat(x, {...}) = 0", "the arguments of fstat are not understood"},
		{"10 1700000000.1 dup(x) = 0", "the arguments of dup are not understood"},
		{"10 1700000000.1 fcntl(x, F_GETFD) = 0", "the arguments of fcntl are not understood"},
		{"10 1700000000.1 close_range(x, 5, 0) = 0", "the arguments of close_range are not understood"},
		{"10 1700000000.1 pipe(0x7f) = 0", "the arguments of pipe are not understood"},
		{`10 1700000000.1 open("/cut"..., O_RDONLY) = 3`, "the arguments of open are not understood"},
		{"10 1700000000.1 pipe([1]) = 0", "the arguments of pipe are not understood"},
		{"10 1700000000.1 pipe([1, x]) = 0", "the arguments of pipe are not understood"},
		{"10 1700000000.1 fchdir(x) = 0", "the arguments of fchdir are not understood"},
		{"10 1700000000.1 chdir(x) = 0", "the arguments of chdir are not understood"},
		{"10 1700000000.1 mmap(NULL, x, PROT_READ, MAP_PRIVATE, 9</f>, 0) = 0x1", "the arguments of mmap are not understood"},
		{"10 1700000000.1 mmap(NULL, 1, PROT_READ, MAP_PRIVATE, 9</f>, 0xfffffffffffffffff) = 0x1", "the arguments of mmap are not understood"},
		{"10 1700000000.1 lseek(9</f>, x, SEEK_SET) = 1", "the arguments of lseek are not understood"},
		{"10 1700000000.1 _llseek(9</f>, 1, 0x7f, SEEK_SET) = 0", "the arguments of _llseek are not understood"},
		{"10 1700000000.1 sendfile(9</f>, 8</g>, 0x7f, 1) = 1", "the arguments of sendfile are not understood"},
		{"10 1700000000.1 sendfile(9</f>, x, NULL, 1) = 1", "the arguments of sendfile are not understood"},
		{"10 1700000000.1 <... read resumed>\"\", 1) = 0", "the rest of a call whose beginning is not there"},
		{"[pid x] 1700000000.1 sync() = 0", "this is not a line of strace"},
		{"[pid 7 1700000000.1 sync() = 0", "this is not a line of strace"},
		{"10 25:00:00 sync() = 0", "this is not a line of strace"},
		{"10 17000x sync() = 0", "this is not a line of strace"},
		{"10 1700000000.1 sync", "this is not a line of strace"},
	} {
		_, _, err := Read(strings.NewReader(strings.Repeat("10 1700000000.0 sync() = 0\n", 3)+c.line+"\n"), iotrace.Options{Strict: true})
		if err == nil || err.Error() != "line 4: "+c.want {
			t.Errorf("%s: %v", c.line, err)
		}
		_, rep, err := Read(strings.NewReader(strings.Repeat("10 1700000000.0 sync() = 0\n", 3)+c.line+"\n"), iotrace.Options{})
		if err != nil || rep.Unknown != 1 || rep.Notes[0].Reason != c.want {
			t.Errorf("%s: %v, %+v", c.line, err, rep)
		}
	}
}

// TestShell traces a shell, which forks without exec.
func TestShell(t *testing.T) {
	needStrace(t)
	dir := t.TempDir()
	const script = `exec 3>$D/f; echo a >&3; (echo bb >&3; cd /; (echo ccc >&3)); echo dddd >&3; echo e >>$D/f; cat $D/f >$D/g; mv $D/g $D/h`
	text := shell(t, dir, script)
	tr, rep, err := Read(strings.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var got []string
	for _, s := range show(tr) {
		if f := strings.Fields(s); len(f) > 2 && strings.HasPrefix(f[2], dir) && f[1] == "write" {
			got = append(got, strings.Join(f[1:], " "))
		}
	}
	want := []string{"write " + dir + "/f @0 +2", "write " + dir + "/f @2 +3", "write " + dir + "/f @5 +4", "write " + dir + "/f @9 +5", "write " + dir + "/f @14 +2", "write " + dir + "/g @0 +16"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n%+v\n%s", diff, rep, text)
	}
}
