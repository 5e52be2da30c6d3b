package nvcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/image"
	"ckpt/internal/durable"
)

// nodeFile is the file in the directory of a job that says which node it belongs to: JSON
// in a line, and its checksum in another.
const nodeFile = "node"

// identity is what it says.
type identity struct {
	Job  string `json:"job"`
	Node int    `json:"node"`
}

func (id identity) encode() ([]byte, error) {
	b, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(b, "\n%08x\n", durable.Sum(b)), nil
}

// claim writes the file that says which node the directory belongs to, if there is none or
// a damaged one.
func (t *Tier) claim(j *image.Job, node int) error {
	err := t.owned(j, node)
	if !unknown(err) {
		return err
	}
	b, err := identity{t.name, node}.encode()
	if err != nil {
		return err
	}
	return durable.Replace(j.FS(), filepath.Join(j.Dir(), nodeFile), b)
}

// unknown reports whether an error of owned says that nobody knows.
func unknown(err error) bool {
	damage := (*durable.DamageError)(nil)
	return errors.Is(err, fs.ErrNotExist) || errors.As(err, &damage)
}

// owned checks that the directory belongs to a node.
func (t *Tier) owned(j *image.Job, node int) error {
	name := filepath.Join(j.Dir(), nodeFile)
	b, err := durable.ReadFile(j.FS(), name, 4096)
	if err != nil {
		return err
	}
	var is identity
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if err := json.Unmarshal(line, &is); err != nil {
		return durable.Damaged(name, 0, "it does not say which node the directory belongs to")
	}
	if again, err := is.encode(); err != nil || !bytes.Equal(again, b) {
		return durable.Damaged(name, 0, "its checksum does not match")
	}
	if is.Job != t.name || is.Node != node {
		return fmt.Errorf("%w: %s is that of node %d of job %s", ErrOtherNode, j.Dir(), is.Node, is.Job)
	}
	return nil
}
