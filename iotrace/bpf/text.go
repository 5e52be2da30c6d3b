package bpf

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"ckpt/iotrace/strace"
)

// A converter turns records into the text of strace -f -ttt -T -y, in the order in which
// calls took effect.
type converter struct {
	in   *bufio.Reader
	out  *bufio.Writer
	zero int64 // ns between the Unix epoch and the beginning of the monotonic clock
	last int64 // time of the last line

	pieces map[int64][]piece // of the next record of a thread
	closes map[int64]bool    // threads for which the beginning of a close is in the text
	began  bool
	begin  begin
	line   []byte

	calls   int64 // that succeeded and have a line
	missing int64 // calls without their path, or another part
	short   int64 // programs of 32 bits
}

type begin struct {
	directory   string
	descriptors []inherited
}

// inherited is a descriptor that was open before the command started.
type inherited struct {
	number int
	path   string // as in /proc/self/fd: /dev/null, pipe:[1]
	flags  int64  // of open
}

type piece struct {
	slot int
	text []byte
}

// maxPending bounds the pieces that wait for their record. The kernel sends fewer.
const maxPending = 4*maxListed + maxDepth

const maxRecord = headSize + maxText + 8

func newConverter(w io.Writer, records io.Reader) *converter {
	return &converter{
		in: bufio.NewReader(records), out: bufio.NewWriterSize(w, 1<<16),
		pieces: make(map[int64][]piece), closes: make(map[int64]bool),
	}
}

// run converts all records. A file that was cut ends with its last whole record.
func (c *converter) run() error {
	b := make([]byte, maxRecord)
	var r record
	for {
		var length [4]byte
		if _, err := io.ReadFull(c.in, length[:]); err != nil {
			return c.ended(err)
		}
		n := binary.LittleEndian.Uint32(length[:])
		if n > maxRecord {
			return errRecord
		}
		if _, err := io.ReadFull(c.in, b[:n]); err != nil {
			return c.ended(err)
		}
		if err := decode(b[:n], &r); err != nil {
			return err
		}
		if err := c.record(&r); err != nil {
			return err
		}
	}
}

func (c *converter) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return c.out.Flush()
	}
	return err
}

func (c *converter) record(r *record) error {
	if r.kind == pieceRecord {
		if c.pieces[r.thread] == nil {
			c.pieces[r.thread] = make([]piece, 0, 4)
		}
		if list := c.pieces[r.thread]; len(list) < maxPending {
			c.pieces[r.thread] = append(list, piece{r.index, bytes.Clone(r.text)})
		}
		return nil
	}
	parts := c.pieces[r.thread]
	if len(parts) > 0 {
		c.pieces[r.thread] = parts[:0]
	}
	switch r.kind {
	case callRecord:
		c.call(r, parts)
	case closesRecord:
		c.closes[r.thread] = true
		c.at(r.thread, max(r.begin, c.last))
		c.line = append(c.line, "close("...)
		c.line = strconv.AppendInt(c.line, int64(int32(r.regs[di])), 10)
		c.put(" <unfinished ...>\n")
	case forkRecord:
		c.at(r.thread, max(r.begin, c.last))
		c.line = append(c.line, "clone(flags="...)
		c.flags(r.regs[2], ofClone)
		c.line = append(c.line, ") = "...)
		c.line = strconv.AppendUint(c.line, r.regs[0], 10)
		c.put(" <0.000000>\n")
	case execRecord:
		c.exec(r, parts)
	case exitRecord:
		if i := int(r.result()) - 1; i >= 0 && i < len(syscalls) && !c.closes[r.thread] {
			c.unfinished(r, &syscalls[i])
		}
		delete(c.closes, r.thread)
		delete(c.pieces, r.thread)
		c.at(r.thread, max(r.end, c.last))
		c.put("+++ exited with 0 +++\n")
	}
	_, err := c.out.Write(c.line)
	c.line = c.line[:0]
	return err
}

// at begins a line with its thread and time.
func (c *converter) at(thread, ns int64) {
	c.last = max(c.last, ns)
	c.line = strconv.AppendInt(c.line, thread, 10)
	c.line = append(c.line, ' ')
	c.seconds(ns + c.zero)
	c.line = append(c.line, ' ')
}

func (c *converter) seconds(ns int64) {
	ns = max(ns, 0)
	c.line = strconv.AppendInt(c.line, ns/1e9, 10)
	c.line = append(c.line, '.')
	from := len(c.line)
	c.line = strconv.AppendInt(c.line, ns%1e9+1e9, 10)
	c.line = slices.Delete(c.line, from, from+1) // the 1 in front of nine digits
}

func (c *converter) put(s string) { c.line = append(c.line, s...) }

func (c *converter) call(r *record, parts []piece) {
	if r.index >= len(syscalls) {
		c.missing++
		return
	}
	s := &syscalls[r.index]
	// Another thread may have been faster with its line.
	took := max(r.end, c.last) - r.begin
	from := len(c.line)
	if s.name == "close" && c.closes[r.thread] {
		delete(c.closes, r.thread)
		c.at(r.thread, max(r.end, c.last))
		c.put("<... close resumed>")
	} else {
		c.at(r.thread, r.begin)
		c.put(s.name)
		c.put("(")
		if r.result() < 0 {
			if len(s.args) > 0 && parameter(s.args[0]) == descriptor {
				c.line = strconv.AppendInt(c.line, int64(int32(r.regs[di])), 10)
			}
		} else if !c.arguments(r, s, parts) {
			c.line = c.line[:from]
			c.missing++
			return
		}
	}
	c.put(") = ")
	if v := r.result(); v < 0 {
		c.put("-1 ")
		c.put(cmp.Or(unix.ErrnoName(unix.Errno(-v)), "ERROR"))
	} else {
		c.line = strconv.AppendInt(c.line, v, 10)
		c.calls++
	}
	if name, ok := pathOf(parts); s.opens && ok {
		c.put("<")
		c.line = appendEscaped(c.line, name)
		c.put(">")
	}
	c.put(" <")
	c.seconds(took)
	c.put(">\n")
}

// unfinished adds the line of a call that did not return before its thread ended.
func (c *converter) unfinished(r *record, s *syscall) {
	c.at(r.thread, max(r.begin, c.last))
	c.put(s.name)
	c.put("(")
	if len(s.args) > 0 && parameter(s.args[0]) == descriptor {
		c.line = strconv.AppendInt(c.line, int64(int32(r.regs[di])), 10)
	}
	c.put(" <unfinished ...>\n")
}

// pathOf joins the parts of the path of a descriptor, which come from its end.
func pathOf(parts []piece) (string, bool) {
	var names [][]byte
	for _, p := range parts {
		switch p.slot {
		case slotPath:
			names = append(names, trim(p.text))
		case slotRoot:
			if len(names) == 0 {
				return "", false // the root, or no file
			}
			var out []byte
			for _, n := range slices.Backward(names) {
				out = append(append(out, '/'), n...)
			}
			return string(out), true
		}
	}
	return "", false
}

// trim removes the zero at the end.
func trim(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// appendEscaped appends s as strace prints it between quotes or brackets.
func appendEscaped(out []byte, s string) []byte {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 0x7f || c < ' ' || c == '"' || c == '\\' || c == '<' || c == '>':
			out = append(out, '\\', '0'+c>>6, '0'+c>>3&7, '0'+c&7)
		default:
			out = append(out, c)
		}
	}
	return out
}

func (c *converter) quoted(s string) {
	c.put(`"`)
	c.line = appendEscaped(c.line, s)
	c.put(`"`)
}

// exec adds the lines of a program that a thread executes. Before the first one come the
// directory and the descriptors that it inherits.
func (c *converter) exec(r *record, parts []piece) {
	if !c.began {
		c.began = true
		c.inherit(r.task)
	}
	if earlier := int64(r.regs[0]); earlier != r.task { // a thread took the place of the process
		c.at(r.task, max(r.begin, c.last))
		c.put("+++ superseded by execve in pid ")
		c.line = strconv.AppendInt(c.line, earlier, 10)
		c.put(" +++\n")
	}
	delete(c.closes, r.task)
	file := part(parts, slotFile)
	if file == nil {
		c.missing++
		return
	}
	const elf32 = 1
	if r.regs[1] == elf32 {
		c.short++
	}
	c.at(r.task, max(r.begin, c.last))
	c.put("execve(")
	c.quoted(string(trim(file)))
	c.put(", [")
	c.words(part(parts, slotArguments))
	c.put("], [")
	var environment []byte
	for _, p := range parts {
		if p.slot == slotEnvironment {
			environment = append(environment, p.text...)
		}
	}
	c.words(environment)
	c.put("]) = 0 <0.000000>\n")
}

// keepRanks returns those variables of an environment that name the rank of a process.
func keepRanks(environment []byte) (kept []byte) {
	for _, word := range split(environment) {
		if name, _, ok := bytes.Cut(word, []byte("=")); ok && strace.NamesRank(string(name)) {
			kept = append(append(kept, word...), 0)
		}
	}
	return kept
}

// words adds the words of a list, each with a zero at its end.
func (c *converter) words(b []byte) {
	for i, word := range split(b) {
		if i > 0 {
			c.put(", ")
		}
		c.quoted(string(word))
	}
}

func split(b []byte) [][]byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0})
}

// inherit adds lines that tell the importer what the command found.
func (c *converter) inherit(thread int64) {
	if c.begin.directory != "" {
		c.at(thread, c.last)
		c.put("getcwd(")
		c.quoted(c.begin.directory)
		c.put(", 4096) = 1 <0.000000>\n")
	}
	for _, d := range c.begin.descriptors {
		c.at(thread, c.last)
		c.put("fcntl(")
		c.line = strconv.AppendInt(c.line, int64(d.number), 10)
		c.put("<")
		c.line = appendEscaped(c.line, d.path)
		c.put(">, F_SETFL, ")
		c.opened(uint64(d.flags))
		c.put(") = 0 <0.000000>\n")
	}
}
