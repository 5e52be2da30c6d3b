package durable

import (
	"bufio"
	"errors"
	"io"
	"io/fs"

	"ckpt/internal/vfs"
)

// A Journal is a file of lines that one process adds to. A crash or a full
// disk may cut the last line; it never damages another, and the next line
// begins on a line of its own. Lines are not synced.
type Journal struct {
	file vfs.File
	path string
	end  int64 // of the last line
	torn bool  // the file ends within a line
}

// OpenJournal opens the journal at path, and makes it if need be.
func OpenJournal(fsys vfs.FS, path string) (*Journal, error) {
	f, err := fsys.OpenWrite(path)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = fsys.Create(path)
	}
	if err != nil {
		return nil, Op("open", path, -1, err)
	}
	j := &Journal{file: f, path: path}
	if err := j.find(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// find looks for the end of the journal.
func (j *Journal) find() (err error) {
	if j.end, err = j.file.Size(); err != nil || j.end == 0 {
		return Op("read", j.path, -1, err)
	}
	var last [1]byte
	if err := ReadAt(j.file, j.path, last[:], j.end-1); err != nil {
		return err
	}
	j.torn = last[0] != '\n'
	return nil
}

// Add adds a line, which has no newline. A line that could not be written
// whole is overwritten by the next.
func (j *Journal) Add(line []byte) error {
	b := make([]byte, 0, len(line)+2)
	if j.torn {
		b = append(b, '\n')
	}
	b = append(append(b, line...), '\n')
	if err := WriteAt(j.file, j.path, b, j.end); err != nil {
		return err
	}
	j.end += int64(len(b))
	j.torn = false
	return nil
}

// Close closes the file.
func (j *Journal) Close() error { return Op("close", j.path, -1, j.file.Close()) }

// ReadLines calls do with each line that ends in a newline, however long it
// is, and returns where the last of them ends.
func ReadLines(r io.Reader, do func(line []byte)) (end int64, err error) {
	for in := bufio.NewReader(r); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		do(line)
		end += int64(len(line))
	}
}
