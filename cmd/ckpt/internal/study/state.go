package study

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// stateVersion is the file's; readers refuse newer ones.
const stateVersion = 1

// state is the file study.json of a study: which steps are done.
type state struct {
	Version int                `json:"version"`
	Steps   map[string]*record `json:"steps"`
	path    string
}

// A record says what a finished step did.
type record struct {
	Args     []string `json:"args"`
	Key      string   `json:"key"`               // digest of command line and inputs
	Sum      string   `json:"sum"`               // digest of the output
	Warnings []string `json:"warnings"`          // what the step said on standard error
	Failure  string   `json:"failure,omitempty"` // of an optional step
}

func stateOf(dir string) string { return filepath.Join(dir, "study.json") }

// readState reads the state of a study; a new study's is empty.
func readState(dir string) (*state, error) {
	s := &state{Version: stateVersion, Steps: map[string]*record{}, path: stateOf(dir)}
	b, err := durable.ReadFile(vfs.OS{}, s.path, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, durable.Damaged(s.path, 0, "%v", err)
	}
	if s.Version > stateVersion {
		return nil, fmt.Errorf("%s: version %d: %w", s.path, s.Version, durable.ErrNewerVersion)
	}
	if s.Steps == nil {
		s.Steps = map[string]*record{}
	}
	return s, nil
}

// record returns what a step did, nil if it has not run.
func (s *state) record(name string) *record {
	if s == nil {
		return nil
	}
	return s.Steps[name]
}

// write replaces the file.
func (s *state) write() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(vfs.OS{}, s.path, append(b, '\n'))
}

func digest(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// key is the digest of a command line and of all that it reads. The directory of the
// study may move.
func (s *Study) key(step *Step, args []string) (string, error) {
	var parts [][]byte
	for _, a := range args {
		if rest, in := strings.CutPrefix(a, s.Dir); in {
			a = "\x00" + rest
		}
		parts = append(parts, []byte(a))
	}
	for _, name := range step.Files {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		parts = append(parts, []byte(digest(b)))
	}
	for _, name := range step.uses() {
		if r := s.state.record(name); r != nil {
			parts = append(parts, []byte(r.Key), []byte(r.Sum))
		}
	}
	return digest(parts...), nil
}

// done reports whether a step has nothing to do: command line and inputs are those of
// its record, and all that it made is there.
func (s *Study) done(step *Step, key string) bool {
	r := s.state.Steps[step.Name]
	if r == nil || r.Key != key || r.Failure != "" {
		return false
	}
	for _, name := range step.Makes {
		if _, err := os.Stat(name); err != nil {
			return false
		}
	}
	b, err := os.ReadFile(s.path(step.Output()))
	return err == nil && digest(b) == r.Sum
}

// path returns the path of a file of the study.
func (s *Study) path(name string) string { return filepath.Join(s.Dir, name) }

// keep writes the output of a step, and then its record.
func (s *Study) keep(step *Step, key string, args []string, out, errs []byte) error {
	if err := durable.Replace(vfs.OS{}, s.path(step.Output()), out); err != nil {
		return err
	}
	r := &record{Args: args, Key: key, Sum: digest(out), Warnings: []string{}}
	for line := range bytes.Lines(errs) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "ckpt: "); ok {
			r.Warnings = append(r.Warnings, text)
		}
	}
	s.state.Steps[step.Name] = r
	return s.state.write()
}
