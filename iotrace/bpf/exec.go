package bpf

import (
	"bytes"
	"strconv"

	"ckpt/iotrace/strace"
)

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
