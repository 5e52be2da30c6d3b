package nodes

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// A Setting is how a job uses the directories of its nodes, as its description keeps it.
type Setting struct {
	// Dir is the directory of each node; {node} stands for the number of the node.
	Dir     string `json:"dir"`
	Protect Scheme `json:"protect"`
	// Domains is the failure domain of each node; empty: each node is its own.
	Domains []int `json:"domains,omitempty"`
	Drain   Drain `json:"drain"`
	// Rate is how many bytes per second all ranks together copy into the store; 0: no limit.
	Rate int64 `json:"rate_bytes_per_s,omitempty"`
}

// nodeVar stands for the number of a node.
const nodeVar = "{node}"

// Check says what is wrong with the setting of a job on so many nodes, if anything.
func (s Setting) Check(nodes int) error {
	switch {
	case !filepath.IsAbs(s.Dir):
		return fmt.Errorf("directory %q of the nodes is not an absolute path", s.Dir)
	case !strings.Contains(s.Dir, nodeVar):
		return fmt.Errorf("directory %q of the nodes lacks %s, which keeps the nodes of one host apart", s.Dir, nodeVar)
	case s.Rate < 0:
		return fmt.Errorf("%d bytes per second are no rate", s.Rate)
	case len(s.Domains) > 0 && len(s.Domains) != nodes:
		return fmt.Errorf("%d failure domains are given for %d nodes", len(s.Domains), nodes)
	}
	if err := s.Drain.check(); err != nil {
		return err
	}
	return s.Protect.Check(nodes)
}

// NodeDir returns the directory of a node.
func (s Setting) NodeDir(node int) string {
	return filepath.Clean(strings.ReplaceAll(s.Dir, nodeVar, strconv.Itoa(node)))
}

// A Drain says which versions go to the store.
type Drain struct {
	Mode  string // one of the constants below
	Every int    // with DrainEvery
}

// The modes of a Drain.
const (
	DrainBehind = "behind" // each version, behind the job
	DrainEvery  = "every"  // each so many-th one
	DrainNone   = "none"   // none: the nodes are all there is
)

// errDrain says what a Drain may be.
var errDrain = errors.New("want behind, every=N or none")

// ParseDrain reads a Drain.
func ParseDrain(text string) (Drain, error) {
	mode, n, counted := strings.Cut(text, "=")
	d := Drain{Mode: mode}
	if counted {
		every, err := strconv.Atoi(n)
		if err != nil || every < 1 {
			return Drain{}, fmt.Errorf("drain %q: %w", text, errDrain)
		}
		d.Every = every
	}
	if err := d.check(); err != nil {
		return Drain{}, fmt.Errorf("drain %q: %w", text, errDrain)
	}
	return d, nil
}

func (d Drain) check() error {
	switch {
	case d.Mode == DrainEvery && d.Every >= 1, d.Mode == DrainBehind && d.Every == 0, d.Mode == DrainNone && d.Every == 0:
		return nil
	}
	return fmt.Errorf("drain %q with %d: %w", d.Mode, d.Every, errDrain)
}

// String returns what ParseDrain reads.
func (d Drain) String() string {
	if d.Mode == DrainEvery {
		return fmt.Sprintf("%s=%d", d.Mode, d.Every)
	}
	return d.Mode
}

// MarshalJSON writes the drain as a user does.
func (d Drain) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads it.
func (d *Drain) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	read, err := ParseDrain(text)
	if err == nil {
		*d = read
	}
	return err
}

// period returns of how many versions one goes to the store; 0: of none.
func (d Drain) period() int {
	switch d.Mode {
	case DrainBehind:
		return 1
	case DrainEvery:
		return d.Every
	}
	return 0
}
