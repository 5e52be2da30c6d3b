package strace

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
)

// variable is a variable of the environment in a line of execve.
var variable = regexp.MustCompile(`"([A-Za-z_][A-Za-z0-9_]*)=((?:[^"\\]|\\.)*)"`)

// Mask overwrites the values of the environment in a text, but for those that name ranks.
// A text may be kept for long, or sent to others.
func Mask(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	for at := int64(0); ; {
		l, err := in.ReadBytes('\n')
		if bytes.Contains(l, []byte("execve")) {
			for _, m := range variable.FindAllSubmatchIndex(l, -1) {
				if NamesRank(string(l[m[2]:m[3]])) {
					continue
				}
				for i := m[4]; i < m[5]; i++ {
					l[i] = 'x'
				}
			}
			if _, err := f.WriteAt(l, at); err != nil {
				return err
			}
		}
		at += int64(len(l))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// NamesRank reports whether a variable of the environment serves to find the rank of a
// process. Values of others are not kept.
func NamesRank(variable string) bool {
	return variable == slurmStep || slices.Contains(ranksIn, variable)
}
