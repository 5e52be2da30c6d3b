package filecache

import (
	"errors"
	"path/filepath"
	"slices"

	"ckpt/internal/durable"
)

// A session is one use of a file, from its opening to its end, as each node directory
// keeps it.
//
// All nodes have the state "opening" before the first has "open", and "open" before
// the first write is accepted; so a node without a session was lost if another one has
// "open". The first "closed" says that the store has everything.
type session struct {
	Use       int64  `json:"use"` // when it began; the newest counts
	Name      string `json:"name"`
	State     string `json:"state"`
	Node      int    `json:"node"`
	Nodes     int    `json:"nodes"`
	Size      int64  `json:"size"`
	Unit      int64  `json:"unit,omitempty"`
	Growing   bool   `json:"growing,omitempty"`
	Flags     Flags  `json:"flags,omitempty"`
	Levels    Levels `json:"levels"`
	Processes []int  `json:"processes"`
}

const (
	opening = "opening"
	open    = "open"
	closed  = "closed"
)

const maxSession = 1 << 20

func sessionPath(dir string) string { return filepath.Join(dir, "session") }

// write makes the session of a node durable.
func (s session) write(n Node, dir string) error {
	return durable.ReplaceSealed(n.FS, sessionPath(dir), s)
}

// readSession returns the session of a node, ok false if there is none. A damaged one
// is none, and an error.
func readSession(n Node, dir string) (s session, ok bool, err error) {
	err = durable.ReadSealed(n.FS, sessionPath(dir), maxSession, &s)
	if missing(err) {
		return s, false, nil
	}
	return s, err == nil, err
}

// same reports whether two nodes speak of the same use of a file.
func (s session) same(o session) bool {
	return s.Use == o.Use && s.Name == o.Name && s.Nodes == o.Nodes && s.Size == o.Size && s.Unit == o.Unit && slices.Equal(s.Processes, o.Processes)
}

// clearDir removes all files of a directory, and the directory.
func clearDir(n Node, dir string) error {
	list, err := n.FS.ReadDir(dir)
	if missing(err) {
		return nil
	}
	if err != nil {
		return durable.Op("read", dir, -1, err)
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, durable.Remove(n.FS, filepath.Join(dir, e.Name())))
	}
	errs = append(errs, durable.Remove(n.FS, dir), durable.Op("sync", n.Dir, -1, n.FS.SyncDir(n.Dir)))
	return errors.Join(errs...)
}
