package machine

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// StorageCommands of one pipeline wait for each other: one that waits for its turn fills or empties the
// pipe, and stops the others in theirs. So a command has the name of the first one of its
// pipeline, and commands with one name have their turns together.

// forking is for how long a process of the pipeline may take to become its program.
const forking = 500 * time.Millisecond

func nameOf(command []string, pid int) string {
	return filepath.Base(command[0]) + "." + strconv.Itoa(pid)
}

// upstream returns the name of the first command in turns of the pipeline that leads to the input
// of a process, or "".
func upstream(pid int) string {
	for end := time.Now().Add(forking); ; time.Sleep(5 * time.Millisecond) {
		name, forked := pipeline(pid)
		if name != "" || !forked || time.Now().After(end) {
			return name
		}
	}
}

// A pipeID is the identity of a pipe.
type pipeID struct{ dev, ino uint64 }

type ends struct{ reads, writes []pipeID }

// pipeline follows the pipes from the input of a process to where they begin. Forked says that a
// process on the way may still join: a copy of the shell that makes the pipeline, or one that
// begins its program.
func pipeline(pid int) (name string, forked bool) {
	all := map[int]ends{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", false
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			all[n] = endsOf(n)
		}
	}
	input, _, ok := pipeAt(fmt.Sprintf("/proc/%d/fd/0", pid))
	if !ok {
		return "", false
	}
	parent := os.Getppid()
	seen := map[int]bool{pid: true, parent: true}
	for level := []pipeID{input}; len(level) > 0; {
		var next []pipeID
		var writers []int
		for n, p := range all {
			if !seen[n] && slices.ContainsFunc(p.writes, func(id pipeID) bool { return slices.Contains(level, id) }) {
				writers = append(writers, n)
			}
		}
		slices.Sort(writers)
		first := ""
		for _, n := range writers {
			seen[n] = true
			next = append(next, all[n].reads...)
			words := wordsOf(n)
			if found := turnName(n, words); first == "" {
				first = found
			}
			forked = forked || len(words) == 0 || isCopyOf(n, parent)
		}
		if first != "" {
			name = first
		}
		level = next
	}
	return name, forked
}

// endsOf returns the pipes of a process, as far as this user may know them.
func endsOf(pid int) (e ends) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return e
	}
	for _, fd := range entries {
		id, mode, ok := pipeAt(filepath.Join(dir, fd.Name()))
		if ok && mode&0o400 != 0 {
			e.reads = append(e.reads, id)
		}
		if ok && mode&0o200 != 0 {
			e.writes = append(e.writes, id)
		}
	}
	return e
}

// pipeAt identifies the pipe of a descriptor. Its mode says whether it reads or writes.
func pipeAt(path string) (id pipeID, mode fs.FileMode, ok bool) {
	link, err := os.Lstat(path)
	if err != nil {
		return id, 0, false
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		return id, 0, false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0, false
	}
	return pipeID{uint64(st.Dev), st.Ino}, link.Mode(), true
}

func wordsOf(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == 0 })
}

// turnName returns the name under which another process of ckpt storage turn asks, or "".
func turnName(pid int, words []string) string {
	dash := slices.Index(words, "--")
	if dash < 1 || dash == len(words)-1 {
		return ""
	}
	flags := words[1:dash]
	if at := slices.Index(flags, "storage"); at < 0 || !slices.Contains(flags[at:], "turn") {
		return ""
	}
	for i, word := range flags {
		if given, ok := strings.CutPrefix(word, "--name="); ok {
			return given
		}
		if word == "--name" && i+1 < len(flags) {
			return flags[i+1]
		}
	}
	return nameOf(words[dash+1:], pid)
}

// isCopyOf reports whether a process is a child that has not begun a program of its own.
func isCopyOf(pid, parent int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	const parentField, flagsField, forkNoExec = 1, 6, 0x40 // fields 4 and 9 of proc(5); PF_FORKNOEXEC
	if len(fields) <= flagsField || fields[parentField] != strconv.Itoa(parent) {
		return false
	}
	flags, _ := strconv.ParseUint(fields[flagsField], 10, 64)
	return flags&forkNoExec != 0
}
