package bpf

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/iotrace"
	"ckpt/iotrace/strace"
)

// A log is what a recording writes.
type log struct{ bytes.Buffer }

func (l *log) put(b []byte) {
	var length [4]byte
	binary.LittleEndian.PutUint32(length[:], uint32(len(b)))
	l.Write(length[:])
	l.Write(b)
}

// piece adds a piece of thread 7.
func (l *log) piece(slot int, text string) { l.put(encodePiece(7, slot, []byte(text))) }

// record adds a record. The time counts in µs.
func (l *log) record(k kind, index int, thread, process, begin, end int64, regs [registers]uint64) {
	b := make([]byte, recordSize)
	binary.LittleEndian.PutUint16(b, uint16(k))
	binary.LittleEndian.PutUint16(b[2:], uint16(index))
	binary.LittleEndian.PutUint32(b[8:], uint32(thread))
	binary.LittleEndian.PutUint32(b[12:], uint32(process))
	binary.LittleEndian.PutUint64(b[16:], uint64(begin*1000))
	binary.LittleEndian.PutUint64(b[24:], uint64(end*1000))
	for i, v := range regs {
		binary.LittleEndian.PutUint64(b[32+8*i:], v)
	}
	l.put(b)
}

// call adds a call of a process with one thread.
func (l *log) call(event string, pid, begin, end, result int64, args ...int64) {
	l.record(callRecord, indexOf(event), pid, pid, begin, end, registersFor(result, args...))
}

func registersFor(result int64, args ...int64) (regs [registers]uint64) {
	regs[ax] = uint64(result)
	for i, v := range args {
		regs[arguments[i]] = uint64(v)
	}
	return regs
}

func indexOf(name string) int {
	return slices.IndexFunc(syscalls, func(s syscall) bool { return s.name == name })
}

// text converts the log.
func (l *log) text(t *testing.T) (string, *converter) {
	t.Helper()
	var out bytes.Buffer
	c := newConverter(&out, bytes.NewReader(l.Bytes()))
	c.zero = 1_700_000_000e9
	c.begin = begin{"/home", []inherited{{1, "/home/log", 0o2001}}}
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	return out.String(), c
}

// executes has process 7 execute a program.
func (l *log) executes(variables ...string) {
	const file = "/bin/prog"
	l.piece(slotFile, file+"\x00")
	l.piece(slotArguments, file+"\x00-x\x00")
	if len(variables) > 0 {
		l.piece(slotEnvironment, strings.Join(variables, "\x00")+"\x00")
	}
	l.record(execRecord, 0, 7, 7, 10, 10, [registers]uint64{7, 2})
}

// words are 64-bit numbers in memory.
func words(values ...uint64) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return string(b)
}

// session is a log with all kinds of records.
func session() *log {
	l := &log{}
	l.executes("PMI_RANK=3")
	l.piece(1, "data/f\x00")
	l.piece(slotPath, "f\x00")
	l.piece(slotPath, "da\"ta\x00")
	l.piece(slotRoot, "")
	l.call("openat", 7, 20, 25, 3, atCWD, 0x1000, 0o2000102, 0o600)
	l.call("write", 7, 30, 32, 100, 3, 0x2000, 100)
	l.call("pwrite64", 7, 33, 34, 4096, 3, 0x2000, 4096, 8192)
	l.call("write", 7, 35, 36, -28, 3, 0x2000, 100)
	l.piece(1, words(0, 0, 0, 0o100600, 0, 0, 12288, 0))
	l.call("fstat", 7, 37, 38, 0, 3, 0x3000)
	l.piece(3, words(300))
	l.call("copy_file_range", 7, 40, 41, 200, 3, 0, 3, 0x4000, 200, 0)
	l.piece(slotRequest, words(0xa, 0, 1|3<<32, 0x5000, 512, 1024, 0, 0))
	l.call("io_submit", 7, 42, 43, 1, 0x9000, 1, 0x9100)
	l.piece(slotResult, words(0xa, 0xb, 512, 0))
	l.call("io_getevents", 7, 44, 46, 1, 0x9000, 1, 1, 0x9200, 0)
	l.record(forkRecord, 0, 7, 7, 50, 50, [registers]uint64{8, 8, cloneVM})
	l.call("write", 8, 52, 53, 1, 3, 0x2000, 1)
	l.record(closesRecord, indexOf("close"), 8, 8, 54, 54, registersFor(0, 3))
	l.call("close", 8, 54, 60, 0, 3)
	l.record(exitRecord, 0, 8, 8, 0, 61, [registers]uint64{})
	l.record(exitRecord, 0, 7, 7, 62, 70, registersFor(int64(indexOf("pwrite64")+1), 3, 0x2000, 1, 0))
	return l
}

func TestText(t *testing.T) {
	got, c := session().text(t)
	golden := filepath.Join("testdata", "session.strace")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if c.missing != 0 || c.short != 0 {
		t.Errorf("%d calls are missing, %d programs of 32 bits", c.missing, c.short)
	}
}

// TestEvents reads the text as strace's: nothing in it is unknown.
func TestEvents(t *testing.T) {
	text, _ := session().text(t)
	tr, rep, err := strace.Read(strings.NewReader(text), iotrace.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Unknown > 0 {
		t.Error(rep.Notes)
	}
	var got []string
	for _, e := range tr.Events {
		name := "-"
		if e.File >= 0 {
			name = tr.Files[e.File]
		}
		got = append(got, strings.TrimSpace(strings.Join([]string{e.Op.String(), name}, " ")))
	}
	const f = "/da\"ta/f"
	want := []string{"open " + f, "write " + f, "write " + f, "stat " + f, "read " + f, "write " + f, "write " + f, "write " + f, "close " + f}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(tr.Warnings) != 2 || tr.Warnings[0].Code != "storage-full" || tr.Warnings[1].Code != "unfinished" {
		t.Errorf("warnings %v: a write failed, and the last pwrite did not return", tr.Warnings)
	}
	if tr.Ranks[0].Rank != 3 {
		t.Errorf("rank %v, want that of PMI_RANK", tr.Ranks[0])
	}
}

// TestIncomplete counts what cannot be told.
func TestIncomplete(t *testing.T) {
	l := &log{}
	l.executes()
	l.call("unlink", 7, 20, 21, 0, 0x1000) // its path was not readable
	l.call("unlink", 7, 20, 21, -2, 0x1000)
	l.piece(slotFile, "/bin/old\x00")
	l.record(execRecord, 0, 7, 7, 30, 30, [registers]uint64{9, 1}) // by thread 9
	text, c := l.text(t)
	if c.missing != 1 || c.short != 1 || c.calls != 0 {
		t.Errorf("%d missing, %d of 32 bits, %d calls; want 1, 1, 0\n%s", c.missing, c.short, c.calls, text)
	}
	if !strings.Contains(text, "+++ superseded by execve in pid 9 +++\n") {
		t.Errorf("no line for the thread that executes:\n%s", text)
	}
}

// TestLate lengthens a call whose record came after that of a later call.
func TestLate(t *testing.T) {
	l := &log{}
	l.executes()
	l.call("sync", 8, 200, 210, 0)
	l.call("sync", 7, 100, 110, 0)
	text, _ := l.text(t)
	if want := "7 1700000000.000100000 sync() = 0 <0.000100000>\n"; !strings.HasSuffix(text, want) {
		t.Errorf("%s\nwant at the end %s", text, want)
	}
}

// TestKeepRanks keeps no other variables.
func TestKeepRanks(t *testing.T) {
	got := keepRanks([]byte("SECRET=1\x00PMI_RANK=2\x00PMI_RANKS=3\x00SLURM_STEP_ID=0\x00"))
	if want := "PMI_RANK=2\x00SLURM_STEP_ID=0\x00"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSyscalls needs handlers of package strace for all calls.
func TestSyscalls(t *testing.T) {
	list := strings.Split(strings.Join(strace.Flags(false), ","), ",")
	for _, s := range syscalls {
		if !slices.ContainsFunc(list, func(f string) bool { return strings.TrimPrefix(f, "trace=") == "?"+s.name || f == "?"+s.name }) {
			t.Errorf("package strace does not know %s", s.name)
		}
	}
}

// FuzzText converts any bytes without a panic, into text that can be read.
func FuzzText(f *testing.F) {
	f.Add(session().Bytes())
	f.Add([]byte{1, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		c := newConverter(&out, bytes.NewReader(b))
		c.zero = 1_700_000_000e9
		if err := c.run(); err != nil || out.Len() == 0 {
			return
		}
		if _, rep, err := strace.Read(&out, iotrace.Options{Lenient: true}); err != nil && rep == nil {
			t.Error(err)
		}
	})
}
