// Package durable writes small files so that a crash leaves them whole: it
// replaces a file in one step, adds lines to a journal, and names the errors
// and the checksum that all files of a store share.
//
// Everything goes through a vfs.FS, so that a test can fail each operation
// (faultfs) or cut the power after it (memfs).
package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"ckpt/internal/vfs"
)

// TempSuffix ends the names of files that are not complete yet. Any file of
// this name without a writer is debris of a crash.
const TempSuffix = ".tmp"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the CRC-32C of b, the checksum of everything a store holds but
// what it names by digest.
func Sum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AddSum extends a Sum by the bytes that follow.
func AddSum(sum uint32, b []byte) uint32 { return crc32.Update(sum, castagnoli, b) }

// Replace writes the file path, or replaces it, durably: after a crash the old
// content is there or the new one, and after a return without error the new
// one.
func Replace(fsys vfs.FS, path string, b []byte) error {
	if err := replace(fsys, path, b, vfs.File.Sync); err != nil {
		return err
	}
	dir := filepath.Dir(path)
	return Op("sync", dir, -1, fsys.SyncDir(dir))
}

// ReplaceUnsynced is Replace without its promise for a crash of the machine:
// other processes see the old content or the new one. It serves files that
// nothing depends on.
func ReplaceUnsynced(fsys vfs.FS, path string, b []byte) error {
	return replace(fsys, path, b, func(vfs.File) error { return nil })
}

func replace(fsys vfs.FS, path string, b []byte, sync func(vfs.File) error) error {
	tmp := path + TempSuffix
	if err := Remove(fsys, tmp); err != nil {
		return err
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if err := fill(f, tmp, b, sync); err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return errors.Join(Op("rename", tmp, -1, err), fsys.Remove(tmp))
	}
	return nil
}

// fill writes b, checks the length, syncs and closes.
func fill(f vfs.File, path string, b []byte, sync func(vfs.File) error) error {
	err := WriteAt(f, path, b, 0)
	if err == nil {
		err = Op("sync", path, -1, sync(f))
	}
	if err == nil {
		var size int64
		if size, err = f.Size(); err == nil && size != int64(len(b)) {
			err = fmt.Errorf("file is %d bytes long after writing %d", size, len(b))
		}
		err = Op("write", path, -1, err)
	}
	if cerr := f.Close(); err == nil {
		err = Op("close", path, -1, cerr)
	}
	return err
}

// WriteAt writes all of b. A short write is an error.
func WriteAt(f io.WriterAt, path string, b []byte, off int64) error {
	n, err := f.WriteAt(b, off)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return Op("write", path, off, err)
}

// ReadFile reads a small file. One longer than limit bytes, or shorter than it
// said, is damaged.
func ReadFile(fsys vfs.FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, Op("open", path, -1, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, Op("read", path, -1, err)
	}
	if size > limit {
		return nil, Damaged(path, limit, "file is %d bytes long, limit %d", size, limit)
	}
	b := make([]byte, size)
	return b, ReadAt(f, path, b, 0)
}

// ReadAt fills b. A file that ends before is damaged.
func ReadAt(f io.ReaderAt, path string, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return ReadError(path, off, err)
}

// ReadError calls a file that is missing, cut or unreadable damaged; other
// errors say nothing about the contents of the disk.
func ReadError(path string, off int64, err error) error {
	reason := ""
	switch {
	case errors.As(err, new(*DamageError)):
		return err // it says more
	case errors.Is(err, fs.ErrNotExist):
		reason = "file is missing"
	case errors.Is(err, syscall.EIO):
		reason = "cannot be read: input/output error"
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "file ends early"
	default:
		return Op("read", path, off, err)
	}
	return &DamageError{File: path, Offset: max(off, 0), Reason: reason, Err: err}
}

// Remove removes a file, if it is there.
func Remove(fsys vfs.FS, path string) error {
	if err := fsys.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Op("remove", path, -1, err)
	}
	return nil
}

// Mkdir makes a directory and its name durable. It syncs the parent even if
// the directory is there, since the process that made it may not have done so
// yet; the error is then fs.ErrExist. After a sync that failed it removes what it made:
// the kernel may count the name as written, so that no later sync would write it.
func Mkdir(fsys vfs.FS, dir string) error {
	err := fsys.Mkdir(dir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if serr := fsys.SyncDir(filepath.Dir(dir)); serr != nil {
		if err == nil {
			_ = fsys.Remove(dir) // another may use it already
		}
		return serr
	}
	return err
}

// MkdirAll makes a directory and its parents, as far as they are missing.
func MkdirAll(fsys vfs.FS, dir string) error {
	fi, err := fsys.Stat(dir)
	if err == nil && !fi.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := MkdirAll(fsys, parent); err != nil {
			return err
		}
	}
	if err = Mkdir(fsys, dir); errors.Is(err, fs.ErrExist) {
		if _, err = fsys.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is a link that leads nowhere: %w", dir, err)
		}
	}
	return err
}

// RemoveAll removes a directory and all below it, if it is there.
func RemoveAll(fsys vfs.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			errs = append(errs, RemoveAll(fsys, name))
		} else {
			errs = append(errs, Remove(fsys, name))
		}
	}
	return errors.Join(append(errs, fsys.Remove(dir))...)
}

// ReplaceSealed is Replace for a value: its JSON in a line, and the CRC-32C of that line
// in another.
func ReplaceSealed(fsys vfs.FS, path string, v any) error {
	b, err := Sealed(v)
	if err != nil {
		return err
	}
	return Replace(fsys, path, b)
}

// Sealed returns what ReplaceSealed writes.
func Sealed(v any) ([]byte, error) {
	line, err := json.Marshal(v)
	return fmt.Appendf(line, "\n%08x\n", Sum(line)), err
}

// ReadSealed reads a file of ReplaceSealed, at most limit bytes long, into v.
func ReadSealed(fsys vfs.FS, path string, limit int64, v any) error {
	b, err := ReadFile(fsys, path, limit)
	if err != nil {
		return err
	}
	line, sealed := unseal(b)
	if !sealed {
		return Damaged(path, 0, "checksum does not match")
	}
	if err := json.Unmarshal(line, v); err != nil {
		return Damaged(path, 0, "%v", err)
	}
	return nil
}

// ReadSealedOrPlain is ReadSealed for a file that earlier versions wrote as JSON without a
// checksum. A sealed file with a damaged byte is no JSON, since the checksum follows it.
func ReadSealedOrPlain(fsys vfs.FS, path string, limit int64, v any) error {
	b, err := ReadFile(fsys, path, limit)
	if err != nil {
		return err
	}
	line, sealed := unseal(b)
	if sealed {
		b = line
	}
	if err := json.Unmarshal(b, v); err != nil {
		return Damaged(path, 0, "it is neither JSON nor JSON with its checksum: %v", err)
	}
	return nil
}

// unseal returns the first line, and whether the second is its checksum.
func unseal(b []byte) (line []byte, sealed bool) {
	line, sum, _ := bytes.Cut(b, []byte("\n"))
	return line, string(sum) == fmt.Sprintf("%08x\n", Sum(line))
}

// sealedEnd is how a sealed line ends: with a last member, which is the CRC-32C of the line
// without it.
const sealedEnd = `,"crc32c":"%08x"}`

// SealLine returns a JSON object in a line, which has members, with its checksum as another.
func SealLine(line []byte) []byte {
	body := line[: len(line)-1 : len(line)-1]
	return fmt.Appendf(body, sealedEnd, Sum(line))
}

// IsSealedLine reports whether a line is one of SealLine, as it was written.
func IsSealedLine(line []byte) bool {
	at := len(line) - len(fmt.Sprintf(sealedEnd, 0))
	return at > 0 && bytes.Equal(line, SealLine(append(line[:at:at], '}')))
}

// A Scratch has the directories that a measurement makes on FS.
type Scratch struct {
	FS   vfs.FS
	Dirs []string
	made []string // above them
}

// Mkdir makes a directory, and notes those above it that were not there.
func (s *Scratch) Mkdir(dir string) error {
	for at := filepath.Dir(dir); filepath.Dir(at) != at; at = filepath.Dir(at) {
		if _, err := s.FS.Stat(at); err == nil {
			break
		}
		if !slices.Contains(s.made, at) {
			s.made = append(s.made, at)
		}
	}
	s.Dirs = append(s.Dirs, dir)
	return MkdirAll(s.FS, dir)
}

// Empty removes what is in a directory.
func (s *Scratch) Empty(dir string) error {
	return errors.Join(RemoveAll(s.FS, dir), Mkdir(s.FS, dir))
}

// Remove removes all that the measurement wrote and made.
func (s *Scratch) Remove() (err error) {
	for _, dir := range s.Dirs {
		err = errors.Join(err, RemoveAll(s.FS, dir))
	}
	slices.SortFunc(s.made, func(x, y string) int { return len(y) - len(x) })
	for _, dir := range s.made {
		err = errors.Join(err, Remove(s.FS, dir))
	}
	return err
}

// Size returns the bytes of all files below some directories.
func (s *Scratch) Size(dirs ...string) (n int64, err error) {
	for _, dir := range dirs {
		entries, err := s.FS.ReadDir(dir)
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			name, below := filepath.Join(dir, e.Name()), int64(0)
			if e.IsDir() {
				below, err = s.Size(name)
			} else if fi, failed := s.FS.Stat(name); failed != nil {
				err = failed
			} else {
				below = fi.Size()
			}
			if err != nil {
				return 0, err
			}
			n += below
		}
	}
	return n, nil
}
