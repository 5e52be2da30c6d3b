package turns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

const (
	// dirName is a controller's directory in its storage unit.
	dirName    = ".ckpt-turns"
	infoName   = "controller.json"
	lockName   = "lock"
	socketName = "socket"
	maxInfo    = 64 << 10
)

var ErrNone = errors.New("no controller of storage turns")

// Info says where a controller is. It may have died since.
type Info struct {
	// Dir is the storage unit: the directory that the controller serves.
	Dir     string    `json:"-"`
	Version int       `json:"version"`
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	Policy  string    `json:"policy"`
	// Socket is the name of the Unix socket beside the file, "" without one.
	Socket string `json:"socket,omitempty"`
	// Address is HOST:PORT for TLS, which the token opens; "" without it.
	Address string `json:"address,omitempty"`
	Token   string `json:"token,omitempty"`
}

type sealedInfo struct {
	Info
	Sum uint32 `json:"crc32c"`
}

func (i Info) encode() ([]byte, error) {
	body, err := json.Marshal(i)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(sealedInfo{i, durable.Sum(body)})
	return append(b, '\n'), err
}

func decodeInfo(path string, b []byte) (*Info, error) {
	var s sealedInfo
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, &durable.DamageError{File: path, Reason: "it is not what ckpt writes there"}
	}
	if s.Version > version {
		return nil, fmt.Errorf("%s: version %d: %w", path, s.Version, durable.ErrNewerVersion)
	}
	body, err := json.Marshal(s.Info)
	if err != nil || durable.Sum(body) != s.Sum {
		return nil, &durable.DamageError{File: path, Reason: "its checksum is not that of its content"}
	}
	if s.Socket != "" && (s.Socket != filepath.Base(s.Socket) || !filepath.IsLocal(s.Socket)) {
		return nil, &durable.DamageError{File: path, Reason: fmt.Sprintf("socket %q is not a name beside it", s.Socket)}
	}
	return &s.Info, nil
}

// Find looks for the controller of a directory: in it, and in its parents on the same file
// system. A directory that is not there yet counts as its parent.
func Find(fsys vfs.FS, dir string) (*Info, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	dir = resolve(dir)
	var device any
	for {
		if fi, err := fsys.Stat(dir); err == nil {
			if d := deviceOf(fi); device == nil {
				device = d
			} else if d != device {
				return nil, ErrNone
			}
			if i, err := findIn(fsys, dir, fi); err == nil || !errors.Is(err, fs.ErrNotExist) {
				return i, err
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil, ErrNone
		}
		dir = parent
	}
}

// resolve follows the links in the name of a directory, as far as it exists: the real parents
// lead to its controller.
func resolve(dir string) string {
	for at, rest := dir, ""; ; {
		if to, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(to, rest)
		}
		parent := filepath.Dir(at)
		if parent == at {
			return dir
		}
		at, rest = parent, filepath.Join(filepath.Base(at), rest)
	}
}

// deviceOf identifies the file system of a file, where the system says so.
func deviceOf(fi fs.FileInfo) any {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Dev
	}
	return "all of one"
}

// findIn reads the file of the controller in a directory itself.
func findIn(fsys vfs.FS, dir string, unit fs.FileInfo) (*Info, error) {
	path := filepath.Join(dir, dirName, infoName)
	fi, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w for this user: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	// In a stranger's directory, the file may be a link to somebody else's, and the socket beside
	// it the stranger's.
	place, err := fsys.Stat(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if !ofOurs(place) {
		if err := errors.Join(trusted(path, unit, fi), trusted(path, unit, place)); err != nil {
			return nil, err
		}
	}
	b, err := durable.ReadFile(fsys, path, maxInfo)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("%w for this user: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	i, err := decodeInfo(path, b)
	if err == nil {
		i.Dir = dir
	}
	return i, err
}

// trusted refuses the file of a stranger, who could put it into a directory that is open to all:
// a false controller could make jobs wait.
func trusted(path string, unit, file fs.FileInfo) error {
	dir, ok := unit.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	of, ok := file.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	group := dir.Mode&0o022 == 0o020 && of.Gid == dir.Gid // its members may write there, and no others
	if of.Uid == dir.Uid || of.Uid == 0 || of.Uid == uint32(syscall.Getuid()) || group {
		return nil
	}
	return fmt.Errorf("%w to trust: %s belongs to user %d, and %s to user %d; its owner can start one there",
		ErrNone, path, of.Uid, filepath.Dir(filepath.Dir(path)), dir.Uid)
}
